"""Nodes' own memory: what members leave there, and where it comes from; up to three hundred memories."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.devices.base import Device
from sdi.devices.capabilities import CPU, GPU, Capabilities
from sdi.devices.testing.null import NullDevice
from sdi.errors import DeviceLost
from sdi.intervals import ByteRange
from sdi.region import Bytes
from sdi.vmem.accounting import Events
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import HOST, Directory, member_memory
from sdi.vmem.eviction import Eviction
from sdi.vmem.links import Links
from sdi.vmem.node_memory import NodeMemories, NodeMemory
from sdi.vmem.placed import Placed
from tests.vmem.conftest import FOR, MakeRig, noise

NBYTES = 8192


def test_what_a_member_has_no_room_for_goes_to_its_nodes_memory_and_comes_back_from_there(
    rig: MakeRig,
) -> None:
    made = rig(2, NBYTES, nodes=(0, 3))
    buffer = made.buffer(NBYTES)
    made.wait(made.fill(1, buffer, buffer.whole, b"\5"))
    made.push_out(1)
    assert buffer.allocations[1] is None and made.links() == {"1>node 3": NBYTES}
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    made.settle()
    assert made.links() == {"1>node 3": NBYTES, "node 3>1": NBYTES}
    made.push_out(1)
    assert made.read(buffer) == b"\5" * NBYTES
    assert made.links() == {"1>node 3": NBYTES, "node 3>1": NBYTES, "node 3>host": NBYTES}, "it was there yet"
    events = made.memory.accounting.events
    assert (events.node_spills, events.node_spilled_nbytes, events.node_filled_nbytes) == (1, NBYTES, NBYTES)
    assert (events.spills, events.drops, events.node_refused_nbytes) == (0, 1, 0)


def test_what_came_over_the_network_stays_on_its_node_and_what_members_there_have_is_not_kept_twice(
    rig: MakeRig,
) -> None:
    made = rig(3, NBYTES, nodes=(1, 1, 2))
    data = noise(NBYTES)
    buffer = made.buffer(data)
    for member in range(3):
        made.fetch(buffer, member, buffer.whole, same_undefined=False)
    made.settle()
    before = made.links()
    made.push_out(0)
    assert made.links() == before, "member 1 has it"
    made.push_out(1)
    assert made.links() == before | {"1>node 1": NBYTES}, "the host has it, but across the network"
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    made.settle()
    assert made.links() == before | {"1>node 1": NBYTES, "node 1>0": NBYTES}
    assert made.read(buffer) == data


def test_members_of_rank_0s_machine_leave_what_they_have_in_the_arena(rig: MakeRig) -> None:
    made = rig(2, NBYTES, nodes=(0, 1))
    buffer = made.buffer(NBYTES)
    made.wait(made.fill(0, buffer, buffer.whole, b"\5"))
    made.push_out(0)
    assert made.links() == {"0>host": NBYTES} and made.memory.accounting.events.spilled_nbytes == NBYTES


def test_what_has_no_room_on_its_node_goes_to_the_host_and_copies_there_make_room(rig: MakeRig) -> None:
    made = rig(1, NBYTES, nodes=(1,), node_nbytes=NBYTES)
    first, second, third = (made.buffer(NBYTES) for _ in range(3))
    (node,) = made.memory.memories.nodes
    made.wait(made.fill(0, first, first.whole, b"\1"))
    made.push_out(0)
    made.wait(made.fill(0, second, second.whole, b"\2"))
    made.push_out(0)
    events = made.memory.accounting.events
    assert made.links() == {"0>node 1": NBYTES, "0>host": NBYTES}
    assert (events.node_spilled_nbytes, events.node_refused_nbytes, events.spilled_nbytes) == (NBYTES,) * 3
    made.wait(made.fill(0, first, first.whole, b"\3"))  # so what the node's memory has of it is old
    assert made.read(first) == b"\3" * NBYTES
    made.wait(made.fill(0, third, third.whole, b"\4"))
    made.push_out(0)
    assert made.links()["0>node 1"] == 3 * NBYTES, (
        "the first buffer again, which the host has too; and the third"
    )
    assert node.in_use == node.peak_nbytes == NBYTES
    assert [made.read(each) for each in (first, second, third)] == [c * NBYTES for c in (b"\3", b"\2", b"\4")]


def test_released_buffers_take_no_memory_of_nodes(rig: MakeRig) -> None:
    made = rig(1, NBYTES, nodes=(1,))
    buffer = made.buffer(NBYTES)
    made.wait(made.fill(0, buffer, buffer.whole, b"\1"))
    made.push_out(0)
    (node,) = made.memory.memories.nodes
    assert node.in_use == NBYTES
    made.memory.release(buffer.id)
    made.turn()
    assert node.in_use == 0


def test_what_only_the_memory_of_a_lost_node_had_is_poisoned(rig: MakeRig) -> None:
    made = rig(2, NBYTES, nodes=(1, 2))
    alone, copied = made.buffer(NBYTES), made.buffer(noise(NBYTES))
    made.wait(made.fill(0, alone, alone.whole, b"\1"))
    made.push_out(0)
    made.fetch(copied, 0, copied.whole, same_undefined=False)
    made.settle()
    made.push_out(0)
    node, _ = made.memory.memories.nodes
    assert made.memory.recovery.drop_node(node, DeviceLost("node 1", "is gone")) == NBYTES
    assert made.memory.recovery.drop_member(0, DeviceLost("node 1", "is gone")) == 0
    assert made.read(copied) == noise(NBYTES)
    with pytest.raises(DeviceLost, match="is gone"):
        made.read(alone)
    made.write(alone, 0, noise(NBYTES, 2))
    assert made.read(alone) == noise(NBYTES, 2)


@pytest.mark.parametrize("seed", range(6))
def test_bytes_are_right_however_little_members_and_nodes_have(rig: MakeRig, seed: int) -> None:
    choose = random.Random(seed)
    made = rig(3, 4 * 4096, nodes=(0, 1, 1 + seed % 2), node_nbytes=choose.choice((0, 4096, 1 << 30)))
    wanted = [bytearray(noise(3 * 4096, number)) for number in range(4)]
    buffers = [made.buffer(bytes(data)) for data in wanted]
    for step in range(60):
        number, member = choose.randrange(4), choose.randrange(3)
        start, stop = sorted(choose.sample(range(0, 3 * 4096 + 1, 512), 2))
        buffer, over = buffers[number], ByteRange(start, stop)
        match choose.choice(("fill", "fetch", "read", "write")):
            case "fill":
                made.fill(member, buffer, over, bytes([step]))
                wanted[number][start:stop] = bytes([step]) * over.nbytes
            case "fetch":
                made.fetch(buffer, member, over, same_undefined=False)
            case "read":
                assert made.read(buffer, over) == wanted[number][start:stop]
            case _:
                data = noise(over.nbytes, step)
                made.write(buffer, start, data)
                wanted[number][start:stop] = data
    assert [made.read(buffer) for buffer in buffers] == wanted


N = 24
PAIRS = st.tuples(st.integers(0, N - 1), st.integers(1, N)).filter(lambda pair: pair[0] < pair[1])


def _device(number: int, node: int, memory_nbytes: int) -> Device:
    made = NullDevice(number, GPU if number % 2 else CPU, memory_nbytes)
    known = made.capabilities
    made.capabilities = Capabilities(
        known.name, known.kind, "", "", known.unit, memory_nbytes, {}, node=node, is_near=not node
    )
    return made


@dataclass
class Image:
    """A buffer of ``N`` bytes in the memories of members and nodes, beside a version number for each byte.

    ``members``: the node of each.
    """

    members: list[int]
    node_nbytes: int
    moved: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        devices = [_device(number, node, 1 << 30) for number, node in enumerate(self.members)]
        nodes = sorted(set(self.members) - {0})
        first = len(devices) + 1
        own = [_device(0, node, self.node_nbytes) for node in nodes]
        self.nodes = NodeMemories([NodeMemory(each, number) for number, each in enumerate(own, first)])
        self.places = [0, *self.members, *nodes]
        known = [each.capabilities for each in [*devices, *own]]
        self.links = Links(
            [each.kind for each in known],
            lambda: 0,
            [each.node for each in known],
            [each.is_near for each in known],
            [each.number for each in self.nodes],
        )
        count = len(self.places)
        self.buffer = VirtualBuffer(
            1,
            N,
            0,
            Directory(N, defined=True),
            [Dependencies(N) for _ in range(count)],
            [None] * len(devices),
        )
        self.eviction = Eviction(
            Placed([]),
            devices,
            Events(),
            lambda _, memory, over, issue: self.read(memory, over),
            self.nodes,
        )
        self.versions = np.full((count, N), -1)
        self.versions[HOST] = 0
        self.latest = np.zeros(N, int)

    def read(self, memory: int, over: Bytes) -> None:
        """Bring to ``memory`` what it lacks: each byte once, from the nearest that has it."""
        stale = {at for at in numbers(over) if self.versions[memory, at] != self.latest[at]}
        arrived: list[int] = []
        with self.links.at_once():
            copies = self.buffer.directory.read(
                memory, over, False, lambda holders, nbytes: self.links.choose(memory, holders, nbytes)
            )
        before = self.versions.copy()
        for copy in copies:
            assert copy.target == memory
            for at in numbers(copy.over):
                holders = np.flatnonzero(before[:, at] == self.latest[at])
                is_near = any(self.places[holder] == self.places[memory] for holder in holders)
                assert copy.source in holders
                assert not is_near or self.places[copy.source] == self.places[memory], "not over the network"
                self.versions[memory, at] = before[copy.source, at]
                self.moved.append((copy.source, memory, at))
                arrived.append(at)
        assert sorted(arrived) == sorted(stale)

    def write(self, memory: int, over: ByteRange, version: int) -> None:
        """``memory`` alone has new bytes."""
        self.buffer.directory.wrote(memory, over)
        self.latest[over.start : over.stop] = version
        self.versions[memory, over.start : over.stop] = version

    def give_up(self, member: int, over: ByteRange) -> None:
        """A member has no room for a range: where it goes, and what others then have."""
        memory, place = member_memory(member), self.members[member]
        del self.moved[:]
        home = next((each for each in self.nodes if each.node == place and each.limit_nbytes), None)
        beside = [other for other, there in enumerate(self.places) if there == place and other != memory]
        enough = beside if home else [other for other in range(len(self.places)) if other != memory]
        leaving = {at for at in numbers(over) if self.versions[memory, at] == self.latest[at]}
        lacking = {at for at in leaving if not any(self.versions[enough, at] == self.latest[at])}
        self.eviction.bring_home(self.buffer, member, over, FOR)
        to = home.number if home else HOST
        assert sorted(self.moved) == [(memory, to, at) for at in sorted(lacking)]
        self.versions[memory, over.start : over.stop] = -1
        assert not any(self.buffer.directory.current_in(memory, over))

    def lose(self, node: int) -> None:
        """A node is lost, with its own memory and all members' there."""
        for memory, place in enumerate(self.places):
            if place == node:
                self.versions[memory] = -1
                for over in self.buffer.directory.without([], memory):
                    for at in numbers(over):
                        assert not any(self.versions[:, at] == self.latest[at]), "it is nowhere else"
                    for run in over.runs():
                        self.write(HOST, run, int(self.latest.max()) + 1)

    def check(self) -> None:
        """The directory says who has the latest bytes, and no other."""
        self.buffer.directory.check()
        for part, holders, _ in self.buffer.directory.holders(self.buffer.whole):
            for at in numbers(part):
                has = np.flatnonzero(self.versions[:, at] == self.latest[at])
                assert holders == sum(1 << int(memory) for memory in has)


def numbers(over: Bytes) -> list[int]:
    return [at for run in over.runs() for at in range(run.start, run.stop)]


@st.composite
def images(draw: st.DrawFn) -> Image:
    """Of 1 to 300 memories."""
    each = draw(st.integers(1, 8))
    nodes = draw(st.integers(0, (299 - each) // (each + 1)))
    return Image(
        [0] * draw(st.integers(not nodes, each)) + sorted(list(range(1, nodes + 1)) * each), draw(ROOM)
    )


ROOM = st.sampled_from([0, 1 << 30])
STEPS = st.lists(
    st.tuples(st.sampled_from(["read", "write", "give up", "lose"]), st.integers(0, 299), PAIRS), max_size=30
)


@settings(max_examples=200, deadline=None)
@given(images(), STEPS)
def test_of_three_hundred_memories_each_byte_comes_from_the_nearest_and_only_what_is_stale_moves(
    image: Image, steps: list[tuple[str, int, tuple[int, int]]]
) -> None:
    lost: set[int] = set()
    for number, (kind, which, pair) in enumerate(steps, 1):
        over, at = ByteRange(*pair), which % (len(image.members) + 1)
        if image.places[at] in lost:
            continue
        match kind:
            case "read":
                image.read(at, over)
            case "write":
                image.write(at, over, int(image.latest.max()) + number)
            case "give up" if at:
                image.give_up(at - 1, over)
            case "lose" if image.places[at]:
                lost.add(image.places[at])
                image.lose(image.places[at])
        image.check()
