"""CUDA members on a stand-in for the driver: what they ask of it, and what they do when it refuses."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sdi.cluster.shared import Pool
from sdi.devices import copying
from sdi.devices.base import Comparison, MergeStep
from sdi.devices.cuda import context as cuda_context
from sdi.devices.cuda import copies as cuda_copies
from sdi.devices.cuda import driver as cuda_driver
from sdi.devices.cuda import images as cuda_images
from sdi.devices.cuda import links as cuda_links
from sdi.devices.cuda import member as cuda
from sdi.devices.cuda import native as cuda_native
from sdi.devices.cuda import printing as cuda_print
from sdi.devices.cuda import programs as cuda_programs
from sdi.devices.cuda import signals as cuda_signals
from sdi.devices.cuda.gpu import CudaGpu
from sdi.devices.cuda.info import CudaAttributes, device_info
from sdi.devices.cuda.links import PeerRoute
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.image import Slabs
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.signals import Mailbox, RepeatedCopy, Signal
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, DeviceFailed
from sdi.region import Region
from sdi.wire.opencl import MemObjectType
from tests.devices import test_base
from tests.devices import test_image as every_member
from tests.devices.conftest import finish
from tests.devices.cuda.stand_in import Error, StandIn

_ATTRIBUTES = CudaAttributes(
    "Stand-in", "CUDA 13.0", 1 << 20, 4, 10**6, 1024, (1024, 1024, 64), 48 << 10, 64 << 10, 1 << 20, True
)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """In place of the CUDA driver."""
    made = StandIn(3)
    used = (cuda_context, cuda_copies, cuda_driver, cuda_links, cuda_native, cuda_print, cuda_programs)
    for module in (cuda, cuda_signals, *used):
        monkeypatch.setattr(module, "drv", made)
    for module in (cuda_driver, cuda_signals):
        monkeypatch.setattr(module, "quick", lambda: made)
    monkeypatch.setattr(cuda_copies, "copy_peer", made.copy_peer)
    monkeypatch.setattr(cuda_copies, "copy_region", made.copy_region)
    for module in (cuda_copies, cuda_images, cuda_signals):
        monkeypatch.setattr(module, "copy_pitched", made.copy_pitched)
    monkeypatch.setattr(cuda_programs.CudaPrograms, "fetcher", lambda self, name: made.fetcher(name))
    monkeypatch.setattr(cuda, "use_page_locks", lambda: None)
    kept = [cuda_context.Kept() for _ in range(made.gpus)]
    monkeypatch.setattr(
        cuda_context, "_primary_context", lambda ordinal: made.Device(ordinal).retain_primary_context()
    )
    monkeypatch.setattr(cuda_context, "_kept", lambda ordinal: kept[ordinal])
    monkeypatch.setattr(cuda_context, "_thread", cuda_context._Thread())
    return made


@pytest.fixture
def members(driver: StandIn) -> Iterator[list[CudaDevice]]:
    """One on each GPU."""
    gpus = [
        CudaGpu(number, f"GPU {number}", f"pci {number}", 1 << 20, (9, 0), device_info(_ATTRIBUTES))
        for number in range(driver.gpus)
    ]
    made = [CudaDevice(gpu, number, 1 << 20) for number, gpu in enumerate(gpus)]
    yield made
    driver.before = lambda call: None
    for member in reversed(made):
        member.close()
    assert not driver.memories and not driver.stack


def test_copies_fills_and_rows_go_to_their_places(members: list[CudaDevice]) -> None:
    one, two = members[:2]
    data = np.arange(4096, dtype=np.uint8)
    a, b = one.allocate(4096), two.allocate(4096)
    sent = copying.upload(one, memoryview(data), a, 0, [])
    there = copying.across(two, one, a, 16, b, 0, 1000, [sent], [])[1]
    filled = two.fill(b, 1024, 64, bytes(range(16)), [there])
    rows = Region(0, 8, ((100, 3),))
    moved = copying.across(two, one, a, 0, b, 2048, rows, [filled], [])[1]
    found = np.zeros(4096, dtype=np.uint8)
    finish(copying.download(two, b, 0, memoryview(found), [moved]))
    expected = np.zeros(4096, dtype=np.uint8)
    expected[:1000] = data[16:1016]
    expected[1024:1088] = np.tile(np.arange(16), 4)
    for row in range(3):
        expected[2048 + 100 * row : 2056 + 100 * row] = data[100 * row : 100 * row + 8]
    assert found.tolist() == expected.tolist()
    one.free(a)
    two.free(b)


@pytest.mark.parametrize(("from_", "to"), test_base.REGIONS)
@pytest.mark.parametrize("is_within", [False, True])
def test_regions_go_to_their_places(
    members: list[CudaDevice], from_: Region, to: Region, is_within: bool
) -> None:
    member = members[0]
    if to.bounds.stop + from_.bounds.stop > member.capabilities.memory_nbytes // 2:
        from_, to = from_.part(0, 1000), to.part(0, 1000)
    test_base.test_regions_are_copied_and_what_lies_between_stays(member, from_, to, is_within)


@pytest.mark.parametrize(("from_", "to"), test_base.REGIONS)
def test_the_driver_is_asked_for_as_few_copies_as_a_region_takes(
    monkeypatch: pytest.MonkeyPatch, from_: Region, to: Region
) -> None:
    calls: list[str] = []

    def rows(copy: Any, depth: int, src_height: int, dst_height: int) -> None:
        for z, y in itertools.product(range(depth), range(copy.height)):
            there = copy.src_device + (z * src_height + y) * copy.src_pitch
            here = copy.dst_device + (z * dst_height + y) * copy.dst_pitch
            ctypes.memmove(here, there, copy.width)

    class Driver:
        """The driver's copies, of host memory."""

        def cuMemcpyAsync(self, here: int, there: int, nbytes: int, stream: int) -> int:  # noqa: N802
            calls.append("run")
            ctypes.memmove(here, there, nbytes)
            return 0

        def cuMemcpy2DAsync_v2(self, copy: Any, stream: int) -> int:  # noqa: N802
            calls.append("rows")
            rows(copy, 1, 0, 0)
            return 0

        def cuMemcpy3DAsync_v2(self, copy: Any, stream: int) -> int:  # noqa: N802
            calls.append("box")
            rows(copy, copy.depth, copy.src_height, copy.dst_height)
            return 0

    monkeypatch.setattr(cuda_driver, "quick", Driver)
    sent = np.random.default_rng(8).integers(0, 256, from_.bounds.stop, np.uint8)
    found, expected = np.zeros((2, to.bounds.stop), np.uint8)
    for here, there in zip(from_.runs(), to.runs(), strict=True):
        expected[there.start : there.stop] = sent[here.start : here.stop]
    cuda_driver.copy_region(to.moved(found.ctypes.data), from_.moved(sent.ctypes.data), 0)
    assert (found == expected).all()
    is_box = len(to.levels) == 2 and not to.levels[1][0] % to.levels[0][0]
    many = to.counts[-1] if len(to.levels) == 2 else 4 * 3  # of three levels with slices that begin anywhere
    assert calls == ["rows"] if len(to.levels) == 1 else calls == ["box"] if is_box else len(calls) == many
    assert ctypes.sizeof(cuda_driver._Copy3D) == 200  # as the driver declares it


@pytest.mark.parametrize("kind", every_member.SIZES)
@pytest.mark.parametrize("gap", [0, 4])
def test_pixels_lie_without_gaps_on_the_member(members: list[CudaDevice], kind: int, gap: int) -> None:
    every_member.test_pixels_come_back_and_bytes_between_rows_stay(members[0], kind, gap)


def test_pixels_outside_a_buffer_are_refused(members: list[CudaDevice]) -> None:
    member, shape = members[0], every_member.shape_of(MemObjectType.IMAGE2D)
    picture, buffer = member.allocate(shape), member.allocate(shape.span_nbytes)
    for offset in (-1, 1):
        with pytest.raises(DeviceFailed, match="of a buffer of"):
            finish(copying.to_image(member, buffer, offset, picture, shape, Slabs(0, shape.num_slabs), []))
    finish(copying.to_image(member, buffer, 0, picture, shape, Slabs(0, shape.num_slabs), []))


def test_what_comes_after_a_member_is_closed_leaves_nothing_for_the_next(members: list[CudaDevice]) -> None:
    first = members[0]
    buffer = first.allocate(64)
    finish(first.fill(buffer, 0, 64, b"a", []))
    first.close()
    with pytest.raises(DeviceFailed, match="is closed"):
        finish(copying.upload(first, memoryview(bytes(64)), buffer, 0, []))
    first.close()
    second = CudaDevice(first.gpu, 9, 1 << 20)
    finish(copying.upload(second, memoryview(bytes(64)), second.allocate(64), 0, []))
    assert all(channel.stream is not None for channel in second._channels.values())
    second.close()


def test_what_can_not_be_built_for_a_merge_fails_with_its_ticket(
    driver: StandIn, members: list[CudaDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(call: str) -> None:
        if call == "module_from_buffer":
            raise Error(f"{call} fails")

    def refuse_too(code: bytes) -> None:
        raise DeviceFailed("CUDA", "module_from_buffer fails")

    monkeypatch.setattr(cuda_programs, "cached", lambda *_: b"")
    monkeypatch.setattr(cuda_programs, "CudaModule", refuse_too)
    member = members[0]
    own, twin, changes = (member.allocate(4096) for _ in range(3))
    comparison = Comparison(own, 0, twin, 0, 64, 4, 4)
    driver.before = refuse
    for step in MergeStep:
        ticket = member.merge(step, comparison, changes, [])
        with pytest.raises(DeviceFailed, match="module_from_buffer fails"):
            finish(ticket)
    assert not member.is_lost()


def test_closing_goes_on_where_the_driver_refuses_to_free_a_buffer(
    driver: StandIn, members: list[CudaDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        members[0].allocate(64)
    streams = [members[0]._channel(kind).stream for kind in ("up", "down")]
    for memory in driver.memories.values():

        def free(free: Callable[[], None] = memory.free) -> None:
            free()
            raise Error("mem_free fails")

        monkeypatch.setattr(memory, "free", free)
    members[0].close()
    assert not driver.memories and members[0].memory.in_use == 0
    assert members[0]._context.kept.streams == streams, "to be used again"


def test_streams_for_other_queues_are_used_again_after_their_member(
    driver: StandIn, members: list[CudaDevice]
) -> None:
    member = members[0]
    lanes = [member.native.lane(), member.native.side(), member.native.side()]
    assert all(lane is not None and lane.context == member._context.handle for lane in lanes)
    sides = list(member.native.sides)
    assert len(sides) == 2

    def before(call: str) -> None:
        if call == "Stream":
            raise Error("no stream")

    driver.before = before
    assert member.native.side() is None
    member.close()
    kept = member._context.kept.streams
    assert [stream for stream in kept if any(stream is side for side in sides)] == sides
    assert len(kept) == len({id(stream) for stream in kept}) == 3


@pytest.mark.logs("arrive damaged")
@pytest.mark.parametrize(
    ("fault", "way"),
    [
        ("", PeerRoute.DIRECT),
        ("unlinked", PeerRoute.DRIVER),
        ("damaged", PeerRoute.DRIVER),
        ("broken", PeerRoute.HOST),
    ],
)
def test_peer_access_is_used_only_where_a_checked_copy_arrives(
    driver: StandIn, members: list[CudaDevice], fault: str, way: PeerRoute
) -> None:
    """``driver`` copies over a broken way wrongly, so right bytes came another way."""
    one, two, three = members
    if fault:
        getattr(driver, fault).add((1, 0))
    data = np.random.default_rng(5).integers(0, 256, 1 << 14, np.uint8)
    a, b, c = (member.allocate(data.nbytes) for member in members)
    sent = copying.upload(one, memoryview(data), a, 0, [])
    for device, buffer in ((two, b), (three, c)):
        found = np.zeros_like(data)
        whole = copying.across(device, one, a, 0, buffer, 0, data.nbytes, [sent], [])[1]
        rows = copying.across(device, one, a, 256, buffer, 256, Region(0, 100, ((1000, 4),)), [whole], [])[1]
        finish(copying.download(device, buffer, 0, memoryview(found), [rows]))
        assert np.array_equal(found, data)
    assert two._links.way(one._links) is way and two.link(one) == (way is PeerRoute.DIRECT)
    assert three.link(one), "other pairs have nothing to do with it"
    assert ((1, 0) in driver.enabled) == (way is PeerRoute.DIRECT)


@pytest.mark.logs("no direct link")
def test_a_check_of_a_link_that_the_driver_interrupts_leaves_no_memory_behind(
    driver: StandIn, members: list[CudaDevice]
) -> None:
    assert members[0].link(members[1])  # the contexts are there afterwards
    members[0]._links._found.clear()
    calls: list[str] = []
    driver.before = calls.append
    assert members[0].link(members[1])
    for last in range(len(calls)):
        members[0]._links._found.clear()
        left = itertools.count()

        def before(_: str, last: int = last, left: Iterator[int] = left) -> None:
            if next(left) == last:
                raise Error("fails")

        driver.before = before
        assert not members[0].link(members[1])
        assert not driver.memories and not driver.stack


def _work(one: CudaDevice, two: CudaDevice) -> tuple[list[Ticket], np.ndarray]:
    """Operations of all kinds, each behind the one before: those that were issued, and what comes back."""
    data, found = np.arange(4096, dtype=np.uint8), np.zeros(4096, dtype=np.uint8)
    tickets: list[Ticket] = []
    try:
        a, b = one.allocate(4096), two.allocate(4096)
        tickets.append(copying.upload(one, memoryview(data), a, 0, []))
        tickets.append(copying.across(two, one, a, 0, b, 0, 2048, tickets[-1:], [])[1])
        tickets.append(copying.within(two, b, Region(0, 2048), b, Region(2048, 2048), tickets[-1:]))
        tickets.append(two.fill(b, 0, 64, b"\1", tickets[-1:]))
        tickets.append(copying.download(two, b, 0, memoryview(found), tickets[-1:]))
        two.free(b)
        one.free(a)
    except (DeviceFailed, ClError) as error:
        tickets.append(completed(error))
    for ticket in tickets:
        settled = threading.Event()
        ticket.when_done(lambda _, settled=settled: settled.set())  # type: ignore[misc]
        assert settled.wait(30)
    return tickets, found


@pytest.mark.logs("no direct link")
@pytest.mark.parametrize("is_dead", [False, True])
def test_whatever_call_of_the_driver_fails_its_operation_fails_or_is_done_another_way(
    driver: StandIn, members: list[CudaDevice], is_dead: bool
) -> None:
    _work(*members[:2])  # streams, events and links are there afterwards
    calls: list[str] = []
    driver.before = calls.append
    done, good = _work(*members[:2])
    assert all(ticket.error is None for ticket in done) and good.any()
    assert not any(member.is_lost() for member in members)
    for last in itertools.count():
        seen = 0

        def before(call: str, last: int = last) -> None:
            nonlocal seen
            seen += 1
            if seen == last + 1 or (is_dead and seen > last):
                driver.is_dead = is_dead
                raise Error(f"{call} fails")

        driver.before = before
        tickets, found = _work(*members[:2])
        errors = [ticket.error for ticket in tickets if ticket.error is not None]
        assert all(isinstance(error, DeviceFailed | ClError) for error in errors), errors
        if not errors:
            assert found.tolist() == good.tolist()
        if seen <= last:
            assert not errors
            break
        assert [member.is_lost() for member in members[:2]] == [is_dead] * 2
        driver.before, driver.is_dead = lambda call: None, False
    assert last > len(calls) // 2


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[memoryview, Signal]]:
    """Memory that processes share, and its signal."""
    monkeypatch.setattr(PAGE_LOCKS, "_driver", (lambda address, nbytes: None, lambda address: None))
    pool = Pool(1 << 20)
    memory = pool.take(1000)
    assert memory is not None
    yield memory[:1000], Signal(pool.word(pool.place(memory)), 1)
    del memory
    pool.close()


@pytest.mark.parametrize("region", [Region(24, 1000), Region(24, 100, ((250, 10),))], ids=["run", "rows"])
def test_what_is_sent_with_a_signal_is_what_is_received(
    members: list[CudaDevice], driver: StandIn, lent: tuple[memoryview, Signal], region: Region
) -> None:
    one, two, (memory, signal) = members[0], members[1], lent
    assert one.signals is not None and two.signals is not None and one.signals.carries(region)
    own, said = np.random.default_rng(1).integers(0, 256, 4000, np.uint8), list[bool]()
    source, target = one.allocate(4000), two.allocate(4000)
    written = copying.upload(one, memoryview(own), source, 0, ())
    sent = one.signals.send(source, region, memory, signal, [written], lambda: said.append(signal.is_given()))
    received = two.signals.receive(
        target, region, [two.fill(target, 0, 4000, b"\0", ())], lambda: lent, lambda: None
    )
    found = np.empty(4000, np.uint8)
    finish(copying.download(two, target, 0, memoryview(found), [received]))
    finish(sent)
    wanted = np.zeros(4000, np.uint8)
    for run in region.runs():
        wanted[run.start : run.stop] = own[run.start : run.stop]
    assert said == driver.waited == [True] and found.tobytes() == wanted.tobytes()
    for member, buffer in ((one, source), (two, target)):
        member.free(buffer)


@pytest.mark.parametrize("call", ["wait_value", "memcpy_2d"])
def test_a_receive_that_the_driver_refuses_fails_and_leaves_nothing_waiting(
    members: list[CudaDevice], driver: StandIn, lent: tuple[memoryview, Signal], call: str
) -> None:
    (member, *_), (memory, signal) = members, lent
    assert member.signals is not None
    target = member.allocate(4000)
    driver.before = lambda called: None if called != call else _refuse()
    ticket = member.signals.receive(target, Region(24, 100), (), lambda: (memory, signal), lambda: None)
    with pytest.raises(DeviceFailed):
        finish(ticket)
    assert signal.is_given() is (call == "memcpy_2d")
    driver.before = lambda called: None
    member.free(target)


def _refuse() -> None:
    raise DeviceFailed("CUDA", "a call failed with 1")


@pytest.mark.parametrize("region", [Region(24, 1000), Region(24, 100, ((250, 10),))], ids=["run", "rows"])
def test_rounds_use_the_halves_of_a_mailbox_in_turn_and_wait_for_what_was_emptied(
    members: list[CudaDevice], driver: StandIn, monkeypatch: pytest.MonkeyPatch, region: Region
) -> None:
    monkeypatch.setattr(PAGE_LOCKS, "_driver", (lambda address, nbytes: None, lambda address: None))
    pool = Pool(1 << 20)
    halves = pool.take(1000), pool.take(1000)
    assert halves[0] is not None and halves[1] is not None
    words = [pool.word(pool.place(half)) for half in halves]
    box = Mailbox((halves[0][:1000], halves[1][:1000]), *words)
    one, two = members[:2]
    assert one.signals is not None and two.signals is not None
    source, target = one.allocate(4000), two.allocate(4000)
    cleared = two.fill(target, 0, 4000, b"\0", ())
    gives = one.signals.round_of([RepeatedCopy(source, region, box, True)])
    takes = two.signals.round_of([RepeatedCopy(target, region, box, False)])
    for turn, number in enumerate((3, 5, 6, 1 << 20)):
        own = np.random.default_rng(turn).integers(0, 256, 4000, np.uint8)
        written = copying.upload(one, memoryview(own), source, 0, ())
        sent = gives.issue(number, [written], (), lambda: None)
        finish(sent)
        assert bytes(box.halves[turn % 2][:100]) == own[24:124].tobytes()
        taken = takes.issue(number, [cleared], (), lambda: None)
        found = np.empty(4000, np.uint8)
        finish(copying.download(two, target, 0, memoryview(found), [taken]))
        wanted = np.zeros(4000, np.uint8)
        for run in region.runs():
            wanted[run.start : run.stop] = own[run.start : run.stop]
        assert found.tobytes() == wanted.tobytes()
        assert [int.from_bytes(word, "little") for word in words] == [number, number]
    # Of the sender only from the third time on: its halves are as it left them before that.
    assert driver.awaited == [3, 5, 3, 6, 5, 1 << 20]
    for member, buffer in ((one, source), (two, target)):
        member.free(buffer)
    del halves, box, words, gives, takes
    pool.close()


def test_only_so_many_calls_of_rounds_are_with_a_gpu_at_a_time(members: list[CudaDevice]) -> None:
    """A full driver would have the session wait, for which what these rounds wait for may wait."""
    signals = members[0].signals
    assert signals is not None
    rounds = [Ticket() for _ in range(40)]
    for number, ticket in enumerate(rounds):
        before = signals.room_for(16)
        assert len(before) == (number >= 24), "24 of them are 384 calls"
        assert not any(each.done for each in before)
        signals.issued(ticket, 16)
    (before,) = signals.room_for(16)
    for ticket in rounds[:16]:
        ticket.complete()
    assert not before.done
    rounds[16].complete(DeviceFailed("gpu", "it is broken"))
    assert before.done and before.error is None
    assert len(signals.room_for(384)) == 1, "a large one alone"
    for ticket in rounds[17:]:
        ticket.complete()
    assert not signals.room_for(1000)


def test_a_round_that_the_driver_refuses_fails_and_so_do_those_behind_it(
    members: list[CudaDevice], driver: StandIn, lent: tuple[memoryview, Signal]
) -> None:
    (one, *_), (memory, signal) = members, lent
    assert one.signals is not None
    source = one.allocate(4000)
    box = Mailbox((memory[:100], memory[100:200]), signal.word, signal.word)
    gives = one.signals.round_of([RepeatedCopy(source, Region(0, 100), box, True)])
    driver.before = lambda called: None if called != "write_value" else _refuse()
    for number in (1, 2):
        ticket = gives.issue(number, (), (), lambda: None)
        with pytest.raises(DeviceFailed):
            finish(ticket)
        driver.before = lambda called: None
    assert not signal.is_given()
    one.free(source)


def test_memory_is_freed_when_no_stream_can_wait_for_another_process(
    members: list[CudaDevice], driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, *_ = members
    assert member.signals is not None
    first, second = member.allocate(4000), member.allocate(4000)
    before = member.memory.in_use
    monkeypatch.setattr(member.signals, "may_wait", lambda: True)
    member.free(first)
    assert len(driver.memories) == 2 and member.memory.in_use == before - 4000
    refused = iter(["out of memory"])

    def refuse_once(call: str) -> None:
        if call == "mem_alloc" and next(refused, None):
            raise Error("out of memory")

    driver.before = refuse_once
    third = member.allocate(4000)  # for which the first one makes room
    assert len(driver.memories) == 2
    monkeypatch.setattr(member.signals, "may_wait", lambda: False)
    for buffer in (second, third):
        member.free(buffer)
    assert not driver.memories
