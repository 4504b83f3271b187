"""What members of other nodes are asked, in which order, and who has to wait for whom."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sdi.cli.job import _described
from sdi.cluster.job import Job
from sdi.cluster.records import RecordKind, records
from sdi.cluster.remote_device import RemoteDevice
from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceLost
from sdi.region import Region
from sdi.settings import Settings
from tests.cluster.jobs import Threads, open_on_nodes, threads

SOURCE = "kernel void add(global int *a, int b) { a[get_global_id(0)] += b; }"
N = 1024
PATIENCE_S = 60.0


@pytest.fixture
def made() -> Iterator[Threads]:
    with threads(3) as found:
        yield found


def finish(ticket: Ticket) -> Ticket:
    done = threading.Event()
    ticket.when_done(lambda _: done.set())
    assert done.wait(PATIENCE_S), "a ticket is not done in time"
    return ticket


def filled(member: Device, value: int) -> object:
    buffer = member.allocate(4 * N)
    finish(member.fill(buffer, 0, 4 * N, value.to_bytes(4, "little"), []))
    return buffer


def content(member: Device, buffer: object) -> np.ndarray:
    found = np.zeros(N, np.int32)
    assert finish(copying.download(member, buffer, 0, memoryview(found).cast("B"), [])).error is None
    return found


def sent_kinds(made: Threads, rank: int) -> Callable[[], list[RecordKind]]:
    """The kinds of records that rank 0 has sent to ``rank`` since."""
    root = made.root
    start = len(root.sent)

    def since() -> list[RecordKind]:
        return [r.kind for to, batch in root.sent[start:] if to == rank for r in records(memoryview(batch))]

    return since


def test_a_copy_between_nodes_lets_its_source_go_on_before_the_target_has_it(
    made: Threads, driver: DriverDevice
) -> None:
    first, second, _ = open_on_nodes(made.job, driver, 3)
    source, target = filled(first, 5), filled(second, 9)
    made.others[0].hold(2)  # what node 1 sends to node 2 is on its way for a while
    left, arrived = copying.across(second, first, source, 0, target, 0, 4 * N, [], [])
    finish(left)
    written = first.fill(source, 0, 4 * N, b"\7\0\0\0", [left])
    assert finish(written).error is None and not arrived.done
    made.others[0].let_go(2)
    assert finish(arrived).error is None
    assert (content(second, target) == 5).all() and (content(first, source) == 7).all()


def test_each_end_of_a_copy_waits_for_its_own(made: Threads, driver: DriverDevice) -> None:
    first, second, _ = open_on_nodes(made.job, driver, 3)
    source, target = filled(first, 5), filled(second, 9)
    leave, arrive = Ticket(), Ticket()
    left, arrived = copying.across(second, first, source, 0, target, 0, 4 * N, [leave], [arrive])
    leave.complete()
    assert finish(left).error is None and not arrived.done
    arrive.complete()
    assert finish(arrived).error is None


def test_bytes_between_nodes_do_not_pass_rank_0(made: Threads, driver: DriverDevice) -> None:
    first, second, third = open_on_nodes(made.job, driver, 3)
    buffers = [filled(member, value) for value, member in enumerate((first, second, third))]
    before = made.root.traffic
    bulk = [sum(each.bulk_nbytes for each in t.traffic.values()) for t in (made.root, *made.others)]
    for source, target in ((0, 1), (1, 2)):
        members = (first, second, third)
        copy = copying.across(
            members[target], members[source], buffers[source], 0, buffers[target], 0, 4 * N, [], []
        )
        assert finish(copy[1]).error is None
    after = [sum(each.bulk_nbytes for each in t.traffic.values()) for t in (made.root, *made.others)]
    assert [b - a for a, b in zip(bulk, after, strict=True)] == [0, 4 * N, 4 * N, 0]
    assert before is made.root.traffic


def test_operations_are_sent_at_once_and_in_order_whatever_they_wait_for(
    made: Threads, driver: DriverDevice
) -> None:
    first, second, _ = open_on_nodes(made.job, driver, 3)
    buffer, other = filled(first, 1), filled(second, 0)
    kernel = first.bind(first.build(SOURCE, []), "add", [buffer, b"\1\0\0\0"])
    gate, since = Ticket(), sent_kinds(made, 1)
    held = first.launch(kernel, (N // 16, 1, 1), (16, 1, 1), 1, [gate])
    foreign = second.fill(other, 0, 4 * N, b"\1\0\0\0", [gate])
    behind = first.fill(buffer, 0, 4 * N, b"\2\0\0\0", [held, foreign])
    host = np.full(N, 3, np.int32)
    last = copying.upload(first, memoryview(host).cast("B"), buffer, 0, [behind])
    operations = [kind for kind in since() if kind not in (RecordKind.BIND, RecordKind.SEEN, RecordKind.DROP)]
    assert operations == [RecordKind.LAUNCH, RecordKind.FILL, RecordKind.RECEIVE, RecordKind.DATA]
    assert not (held.done or behind.done or last.done)
    gate.complete()
    for ticket in (held, foreign, behind, last):
        assert finish(ticket).error is None
    assert since().count(RecordKind.RESOLVE) == 2, "the gate, and what another node had to do"
    assert (content(first, buffer) == 3).all()


def test_what_is_gathered_goes_out_together_and_in_order(made: Threads, driver: DriverDevice) -> None:
    first, second, _ = open_on_nodes(made.job, driver, 3)
    buffers = [filled(first, 1), filled(second, 0)]
    before = len(made.root.sent)
    made.job.polling.gathers = True
    try:
        one = first.fill(buffers[0], 0, 4 * N, b"\1\0\0\0", [])
        left, arrived = copying.across(second, first, buffers[0], 0, buffers[1], 0, 4 * N, [one], [])
        two = first.fill(buffers[0], 0, 4 * N, b"\2\0\0\0", [left])
        assert len(made.root.sent) == before
    finally:
        made.job.polling.send()
    sent = [(to, [record.kind for record in records(memoryview(b))]) for to, b in made.root.sent[before:]]
    wanted = [(1, [RecordKind.FILL, RecordKind.SEND, RecordKind.FILL]), (2, [RecordKind.RECEIVE])]
    assert [(to, [k for k in kinds if k is not RecordKind.SEEN]) for to, kinds in sent] == wanted
    assert finish(two).error is None and finish(arrived).error is None
    assert (content(second, buffers[1]) == 1).all() and (content(first, buffers[0]) == 2).all()


def test_a_copy_to_a_member_of_rank_0_has_two_ends_too(made: Threads, driver: DriverDevice) -> None:
    (first,) = open_on_nodes(made.job, driver, 1)
    here = OpenCLDevice(driver, 7, 1 << 20)
    try:
        source, target = filled(first, 5), filled(here, 9)
        rows, gate, since = Region(0, 8, ((256, 16),)), Ticket(), sent_kinds(made, 1)
        left, arrived = copying.across(here, first, source, 0, target, 0, rows, [], [gate])
        written = first.fill(source, 0, 4 * N, b"\7\0\0\0", [left])
        assert finish(written).error is None and not arrived.done
        gate.complete()
        assert finish(arrived).error is None
        assert [kind for kind in since() if kind is not RecordKind.SEEN] == [RecordKind.SEND, RecordKind.FILL]
        grid = content(here, target).reshape(16, 64)
        assert (grid[:, :2] == 5).all() and (grid[:, 2:] == 9).all()
    finally:
        here.close()


def test_bytes_for_the_same_host_memory_are_not_sent_before_the_earlier_ones_are_there(
    made: Threads, driver: DriverDevice
) -> None:
    """A transport may bring a short message before a long one is there as a whole."""
    (member,) = open_on_nodes(made.job, driver, 1)
    buffers = [filled(member, value) for value in (5, 6)]
    host, since = np.zeros(N, np.int32), sent_kinds(made, 1)
    made.others[0].hold(0)  # what node 1 sends to rank 0 is on its way for a while
    first = copying.download(member, buffers[0], 0, memoryview(host).cast("B"), [])
    second = copying.download(member, buffers[1], 0, memoryview(host).cast("B"), [first])
    assert RecordKind.RESOLVE not in since()
    made.others[0].let_go(0)
    assert finish(second).error is None and first.done
    assert since().count(RecordKind.RESOLVE) == 1, "the node is told when it may send"
    assert (host == 6).all()


def test_nodes_forget_tickets_and_kernels_that_nobody_names_any_more(
    made: Threads, driver: DriverDevice
) -> None:
    (member,) = open_on_nodes(made.job, driver, 1)
    buffer, node = filled(member, 0), made.nodes[0]
    program = member.build(SOURCE, [])
    for _ in range(50):
        kernel = member.bind(program, "add", [buffer, b"\1\0\0\0"])
        assert finish(member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, [])).error is None
        del kernel
    gc.collect()
    member.flush()
    assert finish(member.fill(buffer, 0, 4, b"\0\0\0\0", [])).error is None
    assert (content(member, buffer)[1:16] == 50).all()
    assert len(node._objects) <= 4, "the buffer, the program, and what was dropped last"
    assert len(node._tickets) <= 4


def test_a_node_that_is_lost_fails_what_needs_it_and_nothing_else(
    made: Threads, driver: DriverDevice
) -> None:
    first, second, third = open_on_nodes(made.job, driver, 3)
    buffers = [filled(member, 1) for member in (first, second, third)]
    gate = Ticket()
    pending = first.fill(buffers[0], 0, 4 * N, b"\2\0\0\0", [gate])
    made.others[0].hold(2)
    left, arrived = copying.across(second, first, buffers[0], 0, buffers[1], 0, 4 * N, [], [])
    finish(left)
    made.others[0].cut()
    for ticket in (pending, arrived):
        assert finish(ticket).error is not None, "neither its own operations nor what it was to send come"
    assert isinstance(pending.error, DeviceLost) and first.is_lost()
    assert not second.is_lost() and not third.is_lost()
    with pytest.raises(DeviceLost):
        first.allocate(4)
    assert isinstance(finish(first.fill(buffers[0], 0, 4, b"\0\0\0\0", [])).error, DeviceLost)
    _, arrived = copying.across(third, second, buffers[1], 0, buffers[2], 0, 4 * N, [], [])
    assert finish(arrived).error is None
    gate.complete()


def test_rows_travel_without_what_lies_between_them(made: Threads, driver: DriverDevice) -> None:
    first, second, _ = open_on_nodes(made.job, driver, 3)
    source, target = filled(first, 5), filled(second, 9)
    rows = Region(0, 8, ((256, 16),))
    before = made.others[0].traffic[2].bulk_nbytes
    _, arrived = copying.across(second, first, source, 0, target, 0, rows, [], [])
    assert finish(arrived).error is None
    assert made.others[0].traffic[2].bulk_nbytes - before == 16 * 8
    grid = content(second, target).reshape(16, 64)
    assert (grid[:, :2] == 5).all() and (grid[:, 2:] == 9).all()


def test_members_of_a_job_are_those_of_its_nodes(made: Threads, driver: DriverDevice) -> None:
    job: Job = made.job
    members = open_on_nodes(job, driver, 5)
    assert all(isinstance(member, RemoteDevice) for member in members)
    assert [member.node.rank for member in members if isinstance(member, RemoteDevice)] == [1, 2, 3, 1, 2]


@pytest.mark.logs("looks for messages over and over")
def test_ranks_that_nothing_wakes_for_messages_are_named_when_they_meet(
    made: Threads, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made.job.idle_notes() == []
    monkeypatch.setattr(made.root, "deaf", {1: "a wall", 2: "a gap", 3: "a wall"})
    with caplog.at_level("WARNING"):
        made.job.meet()
    told = "rank {}, idle, looks for messages over and over (2 to 3 % of a core): {}"
    wanted = [told.format("1, 3", "a wall"), told.format("2", "a gap")]
    assert caplog.messages == wanted == made.job.idle_notes()
    assert all(note in _described(made.job, Settings.from_environ({})) for note in wanted)
