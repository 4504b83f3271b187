"""What is read from one buffer and written to another comes from members that have it, if it is the same."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.commands import CopyBuffer, Fill, Map, Read, Rectangle, Unmap, Write
from sdi.devices.capabilities import CPU
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.region import region
from sdi.runtime import round_trips
from sdi.runtime.round_trips import RoundTrips, is_same
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST
from sdi.vmem.links import Links
from tests.runtime.mover import NBYTES, Mover, move
from tests.vmem.conftest import MakeRig

MEMBERS = 3
PART = NBYTES // 4
MakeFar = Callable[[], Mover]


@pytest.fixture
def far(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> MakeFar:
    """A mover whose first member is on rank 0's machine, others each on one of their own."""
    for name, value in (("LEAST_NBYTES", 1), ("_TOLD_NS", 0.0), ("_ALONE_NS", 0.0)):
        monkeypatch.setattr(round_trips, name, value)

    def make() -> Mover:
        made = rig(MEMBERS)
        nodes = range(MEMBERS)
        made.memory.transfers.links = Links([CPU] * MEMBERS, nodes=nodes)
        return Mover(made)

    return make


def run_of(start: int, nbytes: int) -> Rectangle:
    return Rectangle(start, (nbytes, 1, 1), nbytes, nbytes)


def read(machine: Mover, buffer: VirtualBuffer, over: Rectangle) -> bytes:
    """What a read that blocks gives."""
    found = bytearray()

    def copy(packed_at: int) -> None:
        made = machine.rig.memory
        if packed_at:
            found.extend(made.arena.view(packed_at, over.nbytes))
            return
        view = made.memories.host_view(buffer, buffer.whole)
        for run in over.strided.runs():
            found.extend(view[run.start : run.stop])

    machine.run(Read(buffer.id, over, True), copy)
    machine.finish()
    return bytes(found)


def write(machine: Mover, buffer: VirtualBuffer, over: Rectangle, data: bytes, is_large: bool) -> None:
    """With the bytes, or copied by the client when it is told."""
    if not is_large:
        machine.run(Write(buffer.id, over, True, data=data))
        return

    def copy(packed_at: int) -> None:
        made = machine.rig.memory
        target = made.memories.host_view(buffer, buffer.whole)
        if packed_at:
            made.arena.view(packed_at, len(data))[:] = data
            return
        at = 0
        for run in over.strided.runs():
            target[run.start : run.stop] = data[at : at + run.nbytes]
            at += run.nbytes

    machine.run(Write(buffer.id, over, True), copy)
    machine.finish()


def tripped(machine: Mover) -> tuple[int, int]:
    events = machine.rig.memory.accounting.events
    return events.round_trips, events.round_trip_nbytes


@pytest.mark.parametrize("is_large", [False, True])
def test_a_row_goes_from_the_member_that_has_it_to_the_one_that_had_what_is_overwritten(
    far: MakeFar, is_large: bool
) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)  # each member has its part of both
    last, middle = run_of(NBYTES - 64, 64), run_of(NBYTES // 2, 64)
    data = read(machine, a, last)
    before = machine.rig.memory.moved.host_to_member, machine.rig.memory.moved.member_to_member
    write(machine, b, middle, data, is_large)
    assert tripped(machine) == (1, 64)
    assert machine.rig.memory.moved.member_to_member == before[1] + 64
    assert {mask for _, mask, _ in b.directory.holders(middle.bounds)} == {1 << HOST | 1 << 2}
    machine.move(a.id, b.id, 0, 0, 0)
    machine.finish()
    assert machine.rig.memory.moved.host_to_member == before[0], "nothing is left to bring"
    assert read(machine, a, middle) == bytes((byte + 1) % 256 for byte in data)


def test_what_was_changed_between_comes_from_the_host(far: MakeFar) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    data = bytearray(read(machine, a, run_of(NBYTES - 640, 640)))
    data[639] ^= 1
    write(machine, b, run_of(NBYTES // 2, 640), bytes(data), False)
    assert tripped(machine) == (0, 0)
    machine.move(a.id, b.id, 0, 0, 0)
    machine.finish()
    assert read(machine, a, run_of(NBYTES // 2, 640)) == bytes((byte + 1) % 256 for byte in data)


def test_what_has_changed_on_the_members_since_is_not_copied_from_there(far: MakeFar) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    data = read(machine, a, run_of(NBYTES - 64, 64))
    machine.move(a.id, b.id, 1, 0, 0)
    write(machine, b, run_of(NBYTES // 2, 64), data, False)
    assert tripped(machine) == (0, 0)
    assert read(machine, b, run_of(NBYTES // 2, 64)) == data


def test_a_read_that_is_not_done_is_not_compared_with(far: MakeFar) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    data = read(machine, a, run_of(NBYTES - 64, 64))
    failing = DeviceFailed("a member", "broke")
    dependencies = a.dependencies[HOST]
    pending = Ticket()
    dependencies.written_by(ByteRange(NBYTES - 64, NBYTES), pending)
    write(machine, b, run_of(NBYTES // 2, 64), data, False)
    assert tripped(machine) == (0, 0)
    pending.complete(failing)
    write(machine, b, run_of(NBYTES // 2, 64), data, False)
    assert tripped(machine) == (0, 0)
    machine.finish()


def test_what_is_written_back_unchanged_stays_where_it_is(far: MakeFar) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    data = read(machine, a, run_of(0, NBYTES))
    before = machine.rig.moved()
    write(machine, a, run_of(0, NBYTES), data, False)
    machine.move(b.id, a.id, 0, 0, 0)
    machine.finish()
    assert tripped(machine)[0] == 1 and 0 < tripped(machine)[1] < NBYTES
    assert machine.rig.moved() - before <= NBYTES // MEMBERS + NBYTES + 512, (
        "the first member's, from the host"
    )


def test_buffers_that_the_application_may_write_without_a_command_are_left_alone(far: MakeFar) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    over = run_of(NBYTES - 64, 64)
    machine.run(Map(a.id, over, True, True, False, True))
    machine.run(Unmap(a.id, over, True, False))
    machine.finish()
    machine.move(a.id, b.id, 0, 0, 0)
    data = read(machine, a, over)
    write(machine, b, run_of(NBYTES // 2, 64), data, False)
    assert tripped(machine) == (0, 0)


def test_images_of_one_machine_compare_nothing(rig: MakeRig) -> None:
    made = rig(2)
    trips = RoundTrips(made.memory)
    buffer = made.buffer(bytes(1 << 20))
    trips.read(buffer, region(0, (1 << 20,), ()))
    assert trips.before(Write(buffer.id, run_of(0, 1 << 20), True, data=bytes(1 << 20))) is None


def test_released_buffers_are_forgotten(far: MakeFar) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    data = read(machine, a, run_of(NBYTES - 64, 64))
    machine.rig.memory.release(a.id)
    write(machine, b, run_of(NBYTES // 2, 64), data, False)
    machine.finish()
    assert tripped(machine) == (0, 0)


def test_a_buffer_that_is_released_while_the_client_copies_is_no_source(far: MakeFar) -> None:
    machine = far()
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    data, over = read(machine, a, run_of(NBYTES - 64, 64)), run_of(NBYTES // 2, 64)
    machine.finish()
    made = machine.rig.memory

    def copy(_packed_at: int) -> None:
        made.release(a.id)
        made.memories.host_view(b, over.bounds)[:] = data

    machine.run(Write(b.id, over, True), copy)
    machine.finish()
    assert tripped(machine) == (0, 0)
    assert read(machine, b, over) == data


SHAPES = (run_of(0, 64), run_of(0, PART), run_of(0, 3 * PART), Rectangle(0, (8, 40, 1), 64, 2560))


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs_that_carry_bytes_through_the_host_find_what_one_memory_holds(
    far: MakeFar, first: int
) -> None:
    assert sum(_random_program(far(), random.Random(seed)) for seed in range(first, first + 10)) > 10


def _random_program(machine: Mover, chance: random.Random) -> int:
    """How many of its writes were round trips."""
    buffers = machine.buffers(1, 2, 3)
    models = [read_all(machine, buffer) for buffer in buffers]
    carried: list[tuple[Rectangle, bytes]] = []

    def written(n: int) -> None:
        like, data = chance.choice((carried[0], chance.choice(carried)))
        if chance.random() < 0.3:
            spot = chance.randrange(len(data))
            data = data[:spot] + bytes([data[spot] ^ 1]) + data[spot + 1 :]
        at = chance.randrange(NBYTES - like.bounds.nbytes + 1)
        at = chance.choice((at, like.offset, like.offset))
        to = Rectangle(at, like.region, like.row_pitch, like.slice_pitch)
        write(machine, buffers[n], to, data, chance.random() < 0.5)
        spread = np.concatenate([np.arange(run.start, run.stop) for run in to.strided.runs()])
        models[n][spread] = np.frombuffer(data, np.uint8)

    for _ in range(60):
        n = chance.randrange(3)
        shape = chance.choice(SHAPES)
        last = NBYTES - shape.bounds.nbytes
        at = chance.choice((0, last, chance.randrange(last + 1)))
        over = Rectangle(at, shape.region, shape.row_pitch, shape.slice_pitch)
        inside = np.concatenate([np.arange(run.start, run.stop) for run in over.strided.runs()])
        match chance.choice(("move", "move", "move", "move", "read", "read", "write", "copy", "fill")):
            case "move":
                m, distance = (n + chance.randrange(1, 3)) % 3, chance.choice((0, 1, -7, PART))
                seeded, scatter = chance.choice(((0, 0), (0, 0), (5, 0), (7, 1)))
                machine.move(buffers[n].id, buffers[m].id, distance, seeded, scatter)
                models[n] = move(models[n], models[m], distance, seeded, scatter)
            case "read":
                found = read(machine, buffers[n], over)
                assert found == models[n][inside].tobytes()
                carried = [(over, found), *carried[:4]]
                if chance.random() < 0.7:
                    written(chance.randrange(3))
            case "write" if carried:
                written(n)
            case "copy":
                m = (n + 1) % 3
                machine.run(CopyBuffer(buffers[n].id, buffers[m].id, over, over))
                models[m][inside] = models[n][inside]
            case "fill":
                machine.run(Fill(buffers[n].id, over, b"\7"))
                models[n][inside] = 7
    for buffer, model in zip(buffers, models, strict=True):
        assert read_all(machine, buffer).tobytes() == model.tobytes()
    return tripped(machine)[0]


def read_all(machine: Mover, buffer: VirtualBuffer) -> np.ndarray:
    return np.frombuffer(read(machine, buffer, run_of(0, NBYTES)), np.uint8).copy()


@given(st.binary(min_size=1, max_size=300), st.integers(0, 5), st.integers(0, 5), st.integers(0, 299))
def test_runs_are_the_same_where_all_bytes_are(data: bytes, here: int, there: int, at: int) -> None:
    one, other = bytes(here) + data, bytearray(bytes(there) + data)
    nbytes = len(data)
    ends = memoryview(one), region(here, (nbytes,), ()), memoryview(other), region(there, (nbytes,), ())
    assert is_same(*ends)
    other[there + at % nbytes] ^= 1
    assert not is_same(*ends)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3), st.integers(0, 24))
def test_rows_are_the_same_whatever_lies_between(row: int, rows: int, gap: int, at: int) -> None:
    data = bytes(range(row * rows))
    spread = b"".join(data[k * row : (k + 1) * row] + bytes([200 + k]) * gap for k in range(rows))
    packed = region(0, (row, rows), (row,))
    loose = region(0, (row, rows), (row + gap,))
    assert is_same(memoryview(data), packed, memoryview(spread), loose)
    changed = bytearray(data)
    changed[at % len(data)] ^= 1
    assert not is_same(memoryview(changed), packed, memoryview(spread), loose)
