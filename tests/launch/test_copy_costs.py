"""What plans have go over networks and within nodes, predicted and moved, on members that do nothing."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest

from sdi.commands import Launch
from sdi.devices.base import Device
from sdi.devices.capabilities import CPU, GPU
from sdi.devices.issue import Issue
from sdi.devices.testing.null import NullDevice
from sdi.intervals import ByteRange
from sdi.launch.copy_costs import attempt_ns, between_nodes, merge_ns, missing_nbytes, move_ns
from sdi.launch.counters import Counters
from sdi.launch.launcher import Launcher
from sdi.launch.plan import AssignmentAccess, BufferPlan, CutPlan, MergedRange
from sdi.launch.programs.builds import Target, build
from sdi.ndrange import GroupBox, Int3
from sdi.regions import RegionSet
from sdi.vmem.arena import Arena
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import Directory, member_memory
from sdi.vmem.host import HostWorker
from sdi.vmem.links import LATENCY_NS, Links
from sdi.vmem.memory import VirtualMemory

SOURCE = """
__kernel void relax(__global const float *from, __global float *to, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < n - 1 && y > 0 && y < n - 1)
        to[y * n + x] = 0.25f * (from[y * n + x - 1] + from[y * n + x + 1]
                                 + from[(y - 1) * n + x] + from[(y + 1) * n + x]);
}

__kernel void product(__global const float *a, __global const float *b, __global float *c, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
"""
N = 1024
ROW, MATRIX = 4 * N, 4 * N * N


class Nodes:
    """Launches on null members of nodes that lie behind networks."""

    def __init__(self, nodes: int, members: int) -> None:
        self.nulls = [NullDevice(number) for number in range(nodes * members)]
        for number, null in enumerate(self.nulls):
            node = 1 + number // members
            null.capabilities = replace(null.capabilities, node=node, is_near=False)
        devices = cast(list[Device], self.nulls)
        self.arena = Arena(1 << 28, 1 << 16)
        self.host = HostWorker(1)
        calls: list[Callable[[], None]] = []
        self.memory = VirtualMemory(self.arena, devices, self.host, calls.append)
        links = self.memory.transfers.links
        counters = Counters(len(devices), self.memory.accounting, links, "always", 1e4)
        self.launcher = Launcher(self.memory, "always", counters)
        self.launcher.add(1, build(SOURCE, "", "", Target(devices)))
        self.node_of = {"host": 0} | {str(k): 1 + k // members for k in range(len(devices))}
        for buffer in (1, 2, 3):
            self.memory.create(buffer, MATRIX, True)

    def launch(self, kernel: int, *buffers: int) -> Counter[tuple[int, int]]:
        """Launch; the bytes that went from node to node for it, 0 being the host, and within nodes."""
        before = self.sent()
        entries = b"".join(struct.pack("<IIQQQ", 1, 24, buffer, 0, 0) for buffer in buffers)
        given = entries + struct.pack("<IIii", 0, 4, N, 0)
        size: Int3 = (N, N, 1)
        command = Launch(1, kernel, 2, (0, 0, 0), size, (16, 16, 1), given, len(buffers) + 1)
        assert next(self.launcher.issue(command, Issue("launch")), None) is None
        return self.sent() - before

    def sent(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        links = cast(dict[str, dict[str, int]], self.memory.accounting.report()["links"])
        for link, total in links.items():
            source, _, target = link.partition(">")
            found[self.node_of[source], self.node_of[target]] += total["nbytes"]
        return found

    def close(self) -> None:
        self.host.close()
        self.arena.close()
        del self.memory, self.launcher, self.arena  # the test's arguments outlive it


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes(4, 4)
    yield made
    made.close()


def test_halos_of_a_stencil_cross_the_network_between_neighbouring_nodes_only(nodes: Nodes) -> None:
    for step in range(4):
        sent = nodes.launch(0, 1 + step % 2, 2 - step % 2)
    inside = {node: sent.pop((node, node)) for node in range(1, 5)}
    assert set(sent) == {(1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3)}
    assert all(ROW - 8 <= nbytes <= ROW + 8 for nbytes in sent.values()), sent
    assert all(6 * (ROW - 8) <= nbytes <= 6 * (ROW + 8) for nbytes in inside.values()), inside


def test_a_product_is_cut_in_both_dimensions_over_nodes_which_get_half_of_each_factor(nodes: Nodes) -> None:
    sent = nodes.launch(1, 1, 2, 3)
    into = {node: sum(n for (a, b), n in sent.items() if b == node != a) for node in range(1, 5)}
    assert into == dict.fromkeys(range(1, 5), MATRIX), "rows alone would take a quarter and all of the other"
    assert sum(sent[0, node] for node in range(1, 5)) <= 2.5 * MATRIX, "nodes pass on what others need"
    again = nodes.launch(1, 1, 2, 3)
    assert not again, "everything is where it is needed"


def _plan(directory: Directory, needs: list[list[ByteRange]]) -> CutPlan:
    buffer = VirtualBuffer(1, directory.nbytes, 0, directory, [], [None] * len(needs))
    boxes = tuple(GroupBox((k, 0, 0), (k + 1, 1, 1)) for k in range(len(needs)))
    accesses = tuple(AssignmentAccess(RegionSet(tuple(each)), RegionSet()) for each in needs)
    return CutPlan(boxes, (BufferPlan(buffer, accesses, (), 1, 1, "kernel: a"),))


MIB = 1 << 20


@pytest.fixture
def links() -> Links:
    """Of two members on each of four nodes."""
    return Links([GPU] * 8, nodes=[1, 1, 2, 2, 3, 3, 4, 4])


def test_what_members_of_a_node_share_comes_once_and_what_nodes_share_leaves_once(links: Links) -> None:
    whole = [ByteRange(0, MIB)]
    found = between_nodes(_plan(Directory(MIB, True), [whole] * 8), links, [(k,) for k in range(8)])
    assert found.received == dict.fromkeys((1, 2, 3, 4), MIB)
    one_ns = links.cost_ns(0, 1, MIB)
    assert found.mean_ns == one_ns == found.longest_ns


def test_what_another_member_of_the_node_has_does_not_cross_the_network(links: Links) -> None:
    directory = Directory(MIB, True)
    directory.wrote(member_memory(2), ByteRange(0, MIB))
    halves = [[ByteRange(0, MIB // 2)], [ByteRange(MIB // 2, MIB)]]
    plan = _plan(directory, halves * 4)
    found = between_nodes(plan, links, [(k,) for k in range(8)])
    assert found.received == {1: MIB, 2: 0, 3: MIB, 4: MIB}
    within = links.cost_ns(member_memory(2), member_memory(3), MIB // 2)
    assert move_ns(plan, links) == found.longest_ns + within


def test_a_slower_network_makes_the_same_bytes_dearer_and_those_within_nodes_not(links: Links) -> None:
    directory = Directory(MIB, True)
    directory.wrote(member_memory(0), ByteRange(0, MIB))
    far = _plan(directory, [[], [], [ByteRange(0, MIB)], []])
    near = _plan(directory, [[], [ByteRange(0, MIB)], [], []])
    assert move_ns(near, links) < move_ns(far, links) / 40
    before = move_ns(near, links), move_ns(far, links)
    links._network *= 2  # as copies between nodes that were measured say
    assert move_ns(near, links) == before[0]
    assert move_ns(far, links) - LATENCY_NS == pytest.approx(2 * (before[1] - LATENCY_NS))


def test_no_further_node_is_looked_at_where_one_takes_too_long(links: Links) -> None:
    plan = _plan(Directory(MIB, True), [[ByteRange(0, MIB)]] * 8)
    found = between_nodes(plan, links, [(k,) for k in range(8)], limit_ns=1.0)
    assert found.received == {1: MIB, 2: 0, 3: 0, 4: 0}
    assert found.longest_ns > 1.0


def test_a_plan_whose_results_tell_whether_it_stands_costs_the_wait_for_them_each_time(links: Links) -> None:
    sure = _plan(Directory(MIB, True), [[ByteRange(0, MIB)]] * 2)
    attempt = replace(sure, is_attempt=True)
    assert attempt_ns(sure, links) == 0 and attempt_ns(attempt, links) >= 1e6
    for cost in (merge_ns, move_ns):
        assert cost(attempt, links) == cost(sure, links) + attempt_ns(attempt, links)


def test_the_player_finds_out_sooner_but_for_members_of_other_nodes(links: Links) -> None:
    attempt = replace(_plan(Directory(MIB, True), [[ByteRange(0, MIB)]] * 2), is_attempt=True)
    trial = replace(attempt, is_trial=True)
    assert attempt_ns(trial, links) == attempt_ns(attempt, links)
    here = Links([GPU] * 2)
    assert attempt_ns(trial, here) < attempt_ns(attempt, here) / 5


def test_little_that_is_merged_costs_no_turn_of_python() -> None:
    def plan(nbytes: int) -> CutPlan:
        made = _plan(Directory(nbytes, True), [[ByteRange(0, 4)]] * 2)
        merged = (MergedRange(ByteRange(0, nbytes), (0, 1)),)
        return replace(made, buffers=(replace(made.buffers[0], merged=merged),))

    little = replace(plan(1 << 10), is_trial=True)
    here, far = Links([GPU] * 2), Links([GPU] * 2, nodes=(0, 1), near=(True, False))
    assert merge_ns(little, here) < merge_ns(plan(1 << 10), here) / 5
    assert merge_ns(replace(plan(MIB), is_trial=True), here) > 2 * merge_ns(little, here)
    assert merge_ns(little, far) == merge_ns(plan(1 << 10), far)


def test_what_members_merge_themselves_does_not_cross_to_the_host_and_back() -> None:
    over = 80 * MIB

    def plan(needed: int) -> CutPlan:
        made = _plan(Directory(over, True), [[ByteRange(0, needed)]] * 4)
        merged = (MergedRange(ByteRange(0, over), (0, 1, 2, 3)),)
        return replace(made, buffers=(replace(made.buffers[0], merged=merged),))

    gpus, cpus, others = Links([GPU] * 4), Links([CPU] * 4), Links([replace(GPU, merges=False)] * 4)
    on_members, on_host = (
        merge_ns(plan(MIB), gpus),
        merge_ns(plan(MIB), others),
    )
    assert on_members < on_host / 2
    assert cpus.merge_ns((0, 1), over) is None, "their memory is the host's"
    assert Links([GPU, CPU]).merge_ns((0, 1), over) is None
    again = merge_ns(plan(over), gpus) - on_members
    assert again == pytest.approx(3 * (over - MIB) * GPU.peer_ns_per_byte), "what others need is sent to them"


def test_what_each_member_lacks_is_found_in_one_walk() -> None:
    directory = Directory(64, False)
    for memory, start, stop in [(0, 0, 40), (1, 8, 24), (3, 30, 50)]:
        directory.wrote(memory, ByteRange(start, stop))
    directory.read(2, ByteRange(16, 36))
    plan = _plan(directory, [[ByteRange(4, 20), ByteRange(28, 60)]])
    needs = plan.buffers[0].assignments[0].needs
    found = missing_nbytes(plan, (0, 1, 2, 5))
    assert found == [directory.stale_nbytes(member_memory(k), needs) for k in (0, 1, 2, 5)]
    assert len(set(found)) > 1
