"""Random commands on real members, issued without waiting, against bytes computed one after the other.

Access ranges are written by hand here, so that these tests are about what is done with them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdi.commands import Command, CopyBuffer, Fill, Launch, Map, Read, Rectangle, Unmap, Write
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceLost
from sdi.intervals import ByteRange
from sdi.launch.counters import Counters
from sdi.launch.kernel import Build
from sdi.launch.launcher import Launcher
from sdi.launch.plan import CutPlan
from sdi.launch.programs.builds import Target, build
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.runtime.region_copies import parts_of
from sdi.runtime.virtual_device import VirtualDevice
from sdi.sampling.model import AccessRange, Precision
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.memory import Coherence
from tests.devices.short import refuse_host_memory
from tests.vmem.conftest import FOR, MakeRig, Rig, noise

GROUP = 512
GROUPS = 40
NBYTES = GROUP * GROUPS
STEP = 31  # has no factor in common with NBYTES
SOURCE = """
kernel void move(global uchar *to, global const uchar *from, int distance, int seed, int scatter)
{
    int n = get_global_size(0), i = get_global_id(0), j = clamp(i + distance, 0, n - 1);
    if (seed == 0 || (i * 13 + seed) % 3 != 0)
        to[scatter ? (int)((long)i * 31 % n) : i] = from[j] + 1;
}
"""


def move(to: np.ndarray, from_: np.ndarray, distance: int, seed: int, scatter: int) -> np.ndarray:
    """What the kernel does."""
    i = np.arange(NBYTES)
    stored = i if seed == 0 else i[(i * 13 + seed) % 3 != 0]
    result = to.copy()
    result[stored * STEP % NBYTES if scatter else stored] = (
        from_[np.clip(stored + distance, 0, NBYTES - 1)] + 1
    )
    return result


@dataclass(frozen=True)
class ByHand:
    """Access maps of ``move``."""

    distance: int = 0
    seed: int = 0
    scatter: int = 0

    def bind(
        self, ndrange: NDRange, values: tuple[bytes | None, ...], buffer_nbytes: tuple[int | None, ...]
    ) -> ByHand:
        return ByHand(*(int.from_bytes(cast(bytes, value), "little", signed=True) for value in values[2:]))

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        start, stop = box.start[0] * GROUP, box.stop[0] * GROUP
        last = NBYTES - 1
        reads = ByteRange(
            min(max(start + self.distance, 0), last), min(max(stop - 1 + self.distance, 0), last) + 1
        )
        writes = ByteRange(0, NBYTES) if self.scatter else ByteRange(start, stop)
        precision = Precision.MAY if self.seed or self.scatter else Precision.EXACT
        return (
            AccessRange(0, RegionSet(), RegionSet((writes,)), precision),
            AccessRange(1, RegionSet((reads,)), RegionSet(), Precision.EXACT),
        )

    bounds = over


class Machine:
    """A virtual device whose commands are issued one after the other and waited for at the end."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.memory = rig.memory
        links = rig.memory.transfers.links
        counters = Counters(len(rig.devices), rig.memory.accounting, links, "always", 1e4)
        self.launcher = Launcher(rig.memory, "always", counters)
        self.device = VirtualDevice(rig.memory, self.launcher)
        self.build: Build = build(SOURCE, "", "", Target(rig.devices))
        self.build.kernels[0].maps = ByHand()
        self.launcher.add(1, self.build)
        self.pending: list[Ticket] = []
        self.reads: list[tuple[bytearray, bytes]] = []
        self.repeated = 0

    def run(self, command: Command, then: Callable[[int], None] = lambda _packed_at: None) -> None:
        """Issue; ``then`` is the application's copy, see ``Work.packed_at``."""
        steps = self.device.issue(command, FOR)
        while True:
            try:
                waits = next(steps)
            except StopIteration as end:
                work = end.value
                break
            over = Ticket()
            join(waits, lambda _error, over=over: over.complete())  # type: ignore[misc]
            self.rig.wait(over)
        self.pending += work.tickets
        if work.transfer is not None:
            transfer = work.transfer
            self.pending.append(transfer)

            def copy(error: BaseException | None) -> None:
                then(work.packed_at)
                transfer.complete(error)

            join(work.tickets, copy)

    def launch(self, to: int, from_: int, distance: int, seed: int, scatter: int) -> CutPlan:
        pointers = b"".join(struct.pack("<IIQQQ", 1, 24, buffer, 0, 0) for buffer in (to, from_))
        numbers = b"".join(struct.pack("<IIi4x", 0, 4, value) for value in (distance, seed, scatter))
        arguments = pointers + numbers  # nothing else differs between records
        launch = Launch(1, 0, 1, (0, 0, 0), (NBYTES, 1, 1), (GROUP, 1, 1), arguments, 5, record=arguments)
        tickets = self.device.repeat(launch, FOR)
        if tickets is None:
            self.run(launch)
        else:
            self.pending += tickets
            self.repeated += 1
        binding = self.launcher.known.find(launch.record)
        assert binding is not None
        return binding.launch_plan.plan

    def finish(self) -> None:
        self.rig.wait(*self.pending)
        self.pending.clear()
        for found, expected in self.reads:
            assert bytes(found) == expected
        self.reads.clear()


def test_a_launch_larger_than_its_members_runs_in_chunks_that_fit(rig: MakeRig) -> None:
    made = rig(2, 2 * 8192)
    machine = Machine(made)
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    for _ in range(3):
        machine.launch(to.id, from_.id, 700, 0, 0)
    assert made.read(to) == move(*_arrays(1, 2), 700, 0, 0).tobytes()
    machine.finish()
    events = made.memory.accounting.events
    assert events.chunks >= 3 and events.spills > 0 and events.mapped == 0
    assert max(made.memory.accounting.peak_nbytes) <= 2 * 8192
    machine.__dict__.clear()


def test_kernels_of_a_program_with_variables_in_global_memory_all_run_on_one_member(rig: MakeRig) -> None:
    made = rig(3)
    machine = Machine(made)
    machine.build.kernels[0].has_variables = True
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    for member in (1, 2):  # where fewer bytes are missing
        made.fill(member, to, to.whole, b"\1")
        made.fill(member, from_, from_.whole, b"\2")
        assert len(machine.launch(to.id, from_.id, 1, 0, 0).boxes) == 1
        assert {holders for _, holders, _ in to.directory.holders(to.whole)} == {1 << member_memory(0)}
        machine.finish()
    machine.__dict__.clear()


def test_what_every_work_group_wants_whole_is_used_in_the_arena_when_it_is_too_large(rig: MakeRig) -> None:
    made = rig(3, 8192, late=[2])
    machine = Machine(made)
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    machine.launch(to.id, from_.id, 1, 5, 1)  # each assignment may write every byte of ``to``
    machine.launch(from_.id, to.id, 0, 0, 0)
    expected = move(*_arrays(1, 2), 1, 5, 1)
    assert made.read(to) == expected.tobytes()
    assert made.read(from_) == move(expected, expected, 0, 0, 0).tobytes()
    machine.finish()
    assert made.memory.accounting.events.mapped == 3
    assert not made.memory.accounting.races
    machine.__dict__.clear()


def test_what_no_memory_can_hold_fails_and_says_how_much_is_missing(rig: MakeRig) -> None:
    made = rig(1, 8192)
    refuse_host_memory(made.devices[0])
    machine = Machine(made)
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    with pytest.raises(ClError, match=f"{NBYTES} bytes of host memory are refused"):
        machine.launch(to.id, from_.id, 1, 5, 1)
    assert made.read(to) == noise(NBYTES, 1)
    machine.__dict__.clear()


@pytest.mark.parametrize("method", ["bind", "allocate"])
def test_a_launch_that_fails_before_its_merges_gives_their_memory_back(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    made = rig(3, compares=True)
    machine = Machine(made)
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    made.reserve(*((buffer, member, buffer.whole) for buffer in (to, from_) for member in range(3)))

    def refuse(*_: object) -> None:
        raise DeviceLost("member 2", "was lost")

    monkeypatch.setattr(made.devices[2], method, refuse)
    with pytest.raises(DeviceLost):
        machine.launch(to.id, from_.id, 1, 5, 1)
    made.settle()
    assert made.memory.accounting.events.twins == 0
    for k, heap in enumerate(made.memory.placement.heaps[:2]):
        places = sum(made.memory.memories.allocation(buffer, k).nbytes for buffer in (to, from_))
        assert heap.capacity - heap.available == places
    machine.__dict__.clear()


def test_a_second_launch_with_the_same_inputs_moves_nothing(rig: MakeRig) -> None:
    made = rig(3)
    machine = Machine(made)
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    machine.launch(to.id, from_.id, 700, 0, 0)
    once = made.moved()
    assert once == NBYTES - 700  # all that is read, each byte by one member
    machine.launch(to.id, from_.id, 700, 0, 0)
    assert made.moved() == once
    machine.finish()
    machine.__dict__.clear()


def test_a_kernel_that_reads_what_its_member_alone_wrote_moves_nothing(rig: MakeRig) -> None:
    made = rig(4)
    machine = Machine(made)
    a, b, c = (made.buffer(noise(NBYTES, k)) for k in range(3))
    machine.launch(b.id, a.id, 0, 0, 0)
    once = made.moved()
    machine.launch(c.id, b.id, 0, 0, 0)
    machine.launch(a.id, c.id, 0, 0, 0)
    assert made.moved() == once == NBYTES
    machine.finish()
    expected = _arrays(0)[0] + np.uint8(3)
    assert made.read(a) == expected.tobytes()
    machine.__dict__.clear()


def test_members_exchange_halos_without_the_host(rig: MakeRig) -> None:
    made = rig(4)
    machine = Machine(made)
    a, b = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    machine.launch(b.id, a.id, 100, 0, 0)
    machine.launch(a.id, b.id, 100, 0, 0)
    uploaded = made.memory.moved.host_to_member
    before = made.memory.moved.member_to_member
    for _ in range(5):
        machine.launch(b.id, a.id, 100, 0, 0)
        machine.launch(a.id, b.id, 100, 0, 0)
    machine.finish()
    moved = made.memory.moved
    assert (moved.host_to_member, moved.member_to_host) == (uploaded, 0)
    assert moved.member_to_member - before == 10 * 3 * 100
    machine.__dict__.clear()


def test_of_bytes_that_several_may_write_only_the_changed_ones_cross_a_link(rig: MakeRig) -> None:
    made = rig(3, compares=True)
    machine = Machine(made)
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    machine.launch(to.id, from_.id, 0, 0, 0)
    before = made.moved()
    machine.launch(to.id, from_.id, 0, 5, 1)  # all may write anywhere
    machine.finish()
    once = move(*_arrays(1, 2), 0, 0, 0)
    expected = move(once, _arrays(2)[0], 0, 5, 1)
    boxes = np.arange(NBYTES) * STEP % NBYTES  # where work-item i writes
    first = NBYTES // GROUP // 3 + (NBYTES // GROUP % 3 > 0)  # work-groups of the first member
    others = boxes[first * GROUP :]
    changed = np.count_nonzero(expected[others] != once[others])
    events, moved = made.memory.accounting.events, made.memory.moved
    assert 0 < events.diff_nbytes <= changed + GROUP
    assert moved.member_to_host == 0 and not made.memory.accounting.races
    lists = 2 * 16 + 16 * -(-NBYTES // 32) * 2  # headers and records at most
    assert made.moved() - before <= 2 * NBYTES + events.diff_nbytes + lists  # all had to become current
    assert made.read(to) == expected.tobytes()
    machine.__dict__.clear()


def test_members_hold_only_what_they_use(rig: MakeRig) -> None:
    made = rig(4)
    machine = Machine(made)
    to, from_ = made.buffer(noise(NBYTES, 1)), made.buffer(noise(NBYTES, 2))
    assert made.memory.accounting.peak_nbytes == [0] * 4
    machine.launch(to.id, from_.id, 0, 0, 0)
    machine.finish()
    assert max(made.memory.accounting.peak_nbytes) <= 2 * (NBYTES // 4 + 2 * 4096)
    machine.__dict__.clear()


def test_reads_of_one_buffer_do_not_wait_for_kernels_on_others(rig: MakeRig) -> None:
    made = rig(2)
    machine = Machine(made)
    a, b, c = (made.buffer(noise(NBYTES, k)) for k in range(3))
    machine.launch(a.id, b.id, 0, 0, 0)
    made.wait(*machine.pending)
    gate = Ticket()
    for dependencies in c.dependencies:  # as if an operation that takes long used all of it
        dependencies.written_by(c.whole, gate)
    machine.launch(c.id, b.id, 0, 0, 0)
    blocked = [ticket for ticket in machine.pending if not ticket.done]
    assert made.read(a) == move(*_arrays(0, 1), 0, 0, 0).tobytes()
    assert made.read(b) == noise(NBYTES, 1)
    assert blocked and not any(ticket.done for ticket in blocked)
    gate.complete()
    machine.finish()
    machine.__dict__.clear()


def test_memory_in_use_is_flat_over_many_buffers(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as the most buffers at a time need: every other hundred is held until all of it is issued."""
    made = rig(2)
    machine = Machine(made)
    from_ = made.buffer(noise(NBYTES, 2))
    freed: list[int] = []
    free = made.memory._free

    def note(buffer: VirtualBuffer) -> None:
        free(buffer)
        freed.append(buffer.id)

    monkeypatch.setattr(made.memory, "_free", note)
    in_use = []
    for number in range(10):
        gate = Ticket()
        for dependencies in from_.dependencies:  # as if an operation that takes long wrote all of it
            dependencies.written_by(from_.whole, gate)
        if number % 2:
            gate.complete()
        for _ in range(100):
            to = made.buffer(NBYTES)
            machine.launch(to.id, from_.id, 0, 0, 0)
            made.memory.release(to.id)
        if not number % 2:
            assert len(freed) == 100 * number
            gate.complete()
        machine.finish()
        made.until(lambda freed=freed, count=100 * (number + 1): len(freed) == count)  # type: ignore[misc]
        in_use.append([device.memory.in_use for device in made.devices])
    assert in_use == [in_use[0]] * 10 and min(in_use[0]) > 0
    machine.__dict__.clear()


def _arrays(*seeds: int) -> list[np.ndarray]:
    return [np.frombuffer(noise(NBYTES, seed), np.uint8) for seed in seeds]


class Dense:
    """One version number per byte and memory: what moving only stale bytes costs."""

    def __init__(self, members: int) -> None:
        self.versions = np.full((members + 1, NBYTES), -1)
        self.versions[HOST] = 0
        self.latest = np.zeros(NBYTES, int)

    def read(self, memory: int, over: ByteRange) -> int:
        part = slice(over.start, over.stop)
        stale = self.versions[memory, part] != self.latest[part]
        self.versions[memory, part] = self.latest[part]
        return int(np.count_nonzero(stale))

    def wrote(self, memory: int, over: ByteRange) -> None:
        part = slice(over.start, over.stop)
        self.latest[part] += 1
        self.versions[memory, part] = self.latest[part]


Kind = Literal["launch", "again", "read", "write", "copy", "fill", "map", "release"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["launch", "launch", "again", "again", "read", "write", "copy", "fill", "map", "release"]
        ),
        st.integers(0, 1 << 30),
    ),
    min_size=1,
    max_size=25,
)


KINDS: dict[str, tuple[int, list[int], Coherence] | tuple[int, list[int], Coherence, bool]] = {
    "ample": (1 << 30, [], "lazy"),
    "late-0": (1 << 30, [0], "lazy"),
    "late-1-2": (1 << 30, [1, 2], "lazy"),
    "full": (2 * NBYTES + 8192, [], "lazy"),  # room for two buffers
    "full-late": (2 * NBYTES + 8192, [0, 2], "lazy"),
    "tiny": (16384, [], "lazy"),  # for less than one
    "tiny-late": (16384, [1], "lazy"),
    "host": (1 << 30, [1], "host"),
    "compares": (1 << 30, [], "lazy", True),
    "compares-late": (1 << 30, [0, 2], "lazy", True),
    "compares-full": (4 * NBYTES, [1], "lazy", True),
}


@pytest.fixture(params=KINDS)
def machine(request: pytest.FixtureRequest, rig: MakeRig) -> Iterator[Machine]:
    """3 members: how much memory each has, which are late, and the protocol."""
    memory_nbytes, late, coherence, *compares = KINDS[request.param]
    made = rig(3, memory_nbytes, late, coherence, bool(compares))
    made.limit = memory_nbytes
    machine = Machine(made)
    yield machine
    machine.__dict__.clear()  # pytest keeps what a fixture made for a while


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(STEPS)
def test_random_commands_leave_what_one_device_would_and_move_only_what_is_stale(
    machine: Machine, steps: list[tuple[Kind, int]]
) -> None:
    rig, memory = machine.rig, machine.memory
    # What merges on members move depends on the data.
    is_counted = rig.limit > NBYTES * 8 and memory.coherence == "lazy" and not rig.compares
    buffers: list[VirtualBuffer] = []
    truth: list[np.ndarray] = []
    dense: list[Dense] = []

    def make() -> tuple[VirtualBuffer, np.ndarray, Dense]:
        data = noise(NBYTES, len(steps) + len(buffers))
        made = rig.buffer(data)
        return made, np.frombuffer(data, np.uint8).copy(), Dense(len(rig.devices))

    for _ in range(3):
        for into, item in zip((buffers, truth, dense), make(), strict=True):
            into.append(item)  # type: ignore[attr-defined]
    last = (0, 1, 0, 0, 0)
    for kind, seed in steps:
        choose = random.Random(seed)
        a, b = choose.sample(range(3), 2)
        start = choose.randrange(NBYTES)
        over = ByteRange(start, start + choose.randrange(1, NBYTES - start + 1))
        before, expected_moves = rig.moved(), 0
        if kind == "launch":
            numbers = (choose.choice([0, 1, -700]), choose.choice([0, 0, 5]), choose.choice([0, 0, 1]))
            plan = machine.launch(buffers[a].id, buffers[b].id, *numbers)
            truth[a] = move(truth[a], truth[b], *numbers)
            expected_moves = _launch_moves(plan, {buffers[k].id: dense[k] for k in (a, b)})
            last = (a, b, *numbers)
        elif kind == "again":  # to and fro, or the same thing over and over
            is_back = choose.random() < 0.5
            for turn in range(4):
                a, b = (last[1], last[0]) if is_back and turn % 2 else last[:2]
                plan = machine.launch(buffers[a].id, buffers[b].id, *last[2:])
                truth[a] = move(truth[a], truth[b], *last[2:])
                expected_moves += _launch_moves(plan, {buffers[k].id: dense[k] for k in (a, b)})
        elif kind == "read":
            into = bytearray(over.nbytes)
            expected = truth[a][over.start : over.stop].tobytes()
            view = memory.memories.host_view(buffers[a], over)
            machine.run(
                Read(buffers[a].id, _row(over), False),
                lambda _, into=into, view=view: into.__setitem__(slice(None), view),  # type: ignore[misc]
            )
            machine.reads.append((into, expected))
            expected_moves = dense[a].read(HOST, over)
        elif kind == "write":
            data = choose.randbytes(over.nbytes)
            view = memory.memories.host_view(buffers[a], over)
            machine.run(
                Write(buffers[a].id, _row(over), False),
                lambda _, data=data, view=view: view.__setitem__(slice(None), data),  # type: ignore[misc]
            )
            truth[a][over.start : over.stop] = np.frombuffer(data, np.uint8)
            dense[a].wrote(HOST, over)
        elif kind == "fill":
            machine.run(Fill(buffers[a].id, _row(over), bytes([seed % 256])))
            truth[a][over.start : over.stop] = seed % 256
            for part, holders, _ in buffers[a].directory.runs(over, NBYTES) or ():
                assert holders.bit_count() == 1, "one memory has what was filled"
                dense[a].wrote(holders.bit_length() - 1, part)
        elif kind == "copy":
            at = choose.randrange(NBYTES - over.nbytes + 1)
            to = ByteRange(at, at + over.nbytes)
            homes = parts_of(buffers[a].directory, over)
            assert homes is not None
            machine.run(CopyBuffer(buffers[a].id, buffers[b].id, _row(over), _row(to)))
            truth[b][to.start : to.stop] = truth[a][over.start : over.stop]
            for part in homes:  # each where it is; neighbours that one memory has are one
                home = (part.holders & -part.holders).bit_length() - 1
                dense[b].wrote(home, part.over.moved(at - over.start))
        elif kind == "map":
            machine.run(Map(buffers[a].id, _row(over), True, True, False, True))
            rig.wait(*machine.pending)
            expected_moves = dense[a].read(HOST, ByteRange(0, NBYTES))  # what lies beside is shown too
            data = choose.randbytes(over.nbytes)
            memory.memories.host_view(buffers[a], over)[:] = data
            machine.run(Unmap(buffers[a].id, _row(over), True, False))
            truth[a][over.start : over.stop] = np.frombuffer(data, np.uint8)
            dense[a].wrote(HOST, over)
        else:
            memory.release(buffers[a].id)
            buffers[a], truth[a], dense[a] = make()
        if is_counted:
            assert rig.moved() - before == expected_moves, kind
        for buffer in buffers:
            buffer.directory.check()
            _check_places(buffer)
    for buffer, expected in zip(buffers, truth, strict=True):
        assert rig.read(buffer) == expected.tobytes()
    machine.finish()
    for buffer in buffers:
        memory.release(buffer.id)
    rig.turn()
    assert max(memory.accounting.peak_nbytes) <= rig.limit


def _row(over: ByteRange) -> Rectangle:
    return Rectangle(over.start, (over.nbytes, 1, 1), over.nbytes, over.nbytes)


def _launch_moves(plan: CutPlan, dense: dict[int, Dense]) -> int:
    """Bytes that running ``plan`` moves when only stale bytes move, and merged ones go home."""
    moved = 0
    for used in plan.buffers:
        model = dense[used.buffer.id]
        for merged in used.merged:
            moved += model.read(HOST, merged.over)
    for used in plan.buffers:
        model = dense[used.buffer.id]
        for k, assignment in enumerate(used.assignments):
            for merged in used.merged:
                if k in merged.assignments:
                    moved += model.read(member_memory(k), merged.over)
            for part in assignment.needs.runs():
                moved += model.read(member_memory(k), part)
        for k, assignment in enumerate(used.assignments):
            for part in assignment.owns.runs():
                model.wrote(member_memory(k), part)
        for merged in used.merged:
            moved += merged.over.nbytes * len(merged.assignments)
            model.wrote(HOST, merged.over)
    return moved


def _check_places(buffer: VirtualBuffer) -> None:
    """Members hold only bytes that have a place there."""
    for part, holders, _ in buffer.directory.holders(buffer.whole):
        for member, extent in enumerate(buffer.allocations):
            if holders >> member_memory(member) & 1:
                assert extent is not None and extent.holds(part.bounds)
