"""Copies, fills, reads and writes of regions, on members and between them, against what one device leaves."""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdi.commands import CopyBuffer, Fill, Read, Rectangle, Write
from sdi.intervals import ByteRange
from sdi.region import Region, alike, packed_like, region
from sdi.runtime.region_copies import HeldBytes, parts_of, pieces
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import Directory, member_memory
from tests.runtime.mover import NBYTES, MakeMover, Mover, move
from tests.vmem.conftest import noise

EXAMPLES = int(os.environ.get("MANY_BOXES", "25"))
"""Sequences of commands on each image; more than that are others each time."""
SIZE = 60
CUTS = st.lists(st.integers(1, SIZE - 1), max_size=5, unique=True).map(sorted)
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 2))
GAPS = st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 3))


def _region(shape: tuple[int, int, int], gaps: tuple[int, int, int]) -> Region:
    row = shape[0] + gaps[1]
    return region(gaps[0], shape, (row, row * shape[1] + gaps[2]))


def _parts(cuts: list[int]) -> list[HeldBytes]:
    edges = [0, *cuts, 1 << 10]
    return [HeldBytes(ByteRange(a, b), 1 << n, True) for n, (a, b) in enumerate(itertools.pairwise(edges))]


@given(SHAPES, GAPS, GAPS, CUTS, CUTS)
def test_pieces_are_the_regions_and_each_end_of_one_lies_in_one_part(
    shape: tuple[int, int, int],
    here: tuple[int, int, int],
    there: tuple[int, int, int],
    from_cuts: list[int],
    to_cuts: list[int],
) -> None:
    source, target = alike(_region(shape, here), _region(shape, there))
    from_parts, to_parts = _parts(from_cuts), _parts(to_cuts)
    found: list[tuple[int, int]] = []
    for left, right in pieces(source, target, from_parts, to_parts):
        for end, parts in ((left, from_parts), (right, to_parts)):
            over = end.bounds
            assert any(part.over.start <= over.start and over.stop <= part.over.stop for part in parts)
        found += zip(_bytes(left), _bytes(right), strict=True)
    assert found == list(zip(_bytes(source), _bytes(target), strict=True))


def _bytes(over: Region) -> list[int]:
    return [byte for run in over.runs() for byte in range(run.start, run.stop)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, SIZE - 2), st.integers(1, SIZE), st.booleans())))
def test_parts_are_held_by_the_memories_that_they_name(steps: list[tuple[int, int, int, bool]]) -> None:
    directory = Directory(SIZE)
    for memory, start, nbytes, is_write in steps:
        over = ByteRange(start, min(start + nbytes, SIZE))
        if is_write:
            directory.wrote(memory, over)
        else:
            directory.copied(memory, over)
    found = parts_of(directory, ByteRange(0, SIZE))
    assert found is not None
    assert [part.over.start for part in found] == [0, *(part.over.stop for part in found[:-1])]
    for part in found:
        assert part.holders
        for over, holders, defined in directory.holders(part.over):
            assert holders & part.holders == part.holders and defined == part.defined, over


def test_bytes_that_are_very_scattered_have_no_parts() -> None:
    directory = Directory(1 << 16, defined=True)
    for start in range(0, 1 << 12, 16):
        directory.wrote(1 + start // 16 % 2, ByteRange(start, start + 8))
    assert parts_of(directory, ByteRange(0, 1 << 12)) is None
    assert parts_of(directory, ByteRange(1 << 12, 1 << 16)) is not None


KINDS = {
    "one": (1, 1 << 30, [], "lazy"),
    "two": (2, 1 << 30, [], "lazy"),
    "three-late": (3, 1 << 30, [1], "lazy"),
    "five": (5, 1 << 30, [], "lazy"),
    "full": (3, 2 * NBYTES + 8192, [0], "lazy"),  # room for two buffers
    "tiny": (3, 16384, [], "lazy"),  # for less than one
    "host": (3, 1 << 30, [], "host"),
    "apart": (3, 1 << 30, [1], "lazy", True),
    "apart-full": (3, 2 * NBYTES + 8192, [0], "lazy", True),
    "apart-tiny": (2, 16384, [], "lazy", True),
}


@pytest.fixture(params=KINDS)
def machine(request: pytest.FixtureRequest, mover: MakeMover) -> Mover:
    """How many members, how much memory each has, which are late, the protocol, whether they are apart."""
    count, memory_nbytes, late, coherence, *apart = KINDS[request.param]
    return mover(count, memory_nbytes, late, coherence, apart=bool(apart))


class Bytes:
    """Buffers on the image, and what they have on one device."""

    def __init__(self, machine: Mover, choose: random.Random) -> None:
        self.machine = machine
        self.choose = choose
        self.reads: list[tuple[bytearray, bytes]] = []
        data = [noise(NBYTES, seed) for seed in range(3)]
        self.buffers: list[VirtualBuffer] = [machine.rig.buffer(part) for part in data]
        self.truth = [np.frombuffer(part, np.uint8).copy() for part in data]

    def boxes(self, unit: int = 1) -> tuple[Rectangle, Rectangle]:
        """Two of the same region, each in ``NBYTES``; narrow or wide, few rows or many."""
        choose = self.choose
        row = unit * choose.choice([1, 1, 2, 3, 4, 40])
        rows, slices = choose.choice([(1, 1), (5, 1), (70, 1), (200, 1), (9, 9), (1, 30), (3, 40)])
        found = []
        for _ in range(2):
            pitch = row + choose.choice([0, 0, 1, 3, 20])
            far = pitch * (rows + choose.choice([0, 0, 1]))
            nbytes = (slices - 1) * far + (rows - 1) * pitch + row
            if nbytes > NBYTES:
                return self.boxes(unit)
            offset = choose.choice([0, choose.randrange(0, NBYTES - nbytes + 1, unit)])
            found.append(Rectangle(offset, (row, rows, slices), pitch, far))
        return found[0], found[1]

    def array(self, of: int, box: Rectangle) -> np.ndarray:
        """The bytes of a box in the truth."""
        return box.strided.of(memoryview(self.truth[of]))

    def place(self, of: int, box: Rectangle, packed_at: int) -> np.ndarray:
        """The same where the application copies them."""
        memory = self.machine.memory
        if packed_at:
            return packed_like(box.strided).moved(packed_at).of(memory.arena.bytes)
        return box.strided.of(memory.memories.host_view(self.buffers[of], self.buffers[of].whole))

    def step(self, kind: str) -> None:
        choose, machine = self.choose, self.machine
        a, b = choose.sample(range(3), 2)
        here, there = self.boxes(4 if kind == "fill" else 1)
        if kind == "launch":
            numbers = (choose.choice([0, 1, -700]), choose.choice([0, 0, 5]), choose.choice([0, 0, 0, 1]))
            machine.move(self.buffers[a].id, self.buffers[b].id, *numbers)
            self.truth[a] = move(self.truth[a], self.truth[b], *numbers)
        elif kind == "copy":
            machine.run(CopyBuffer(self.buffers[a].id, self.buffers[b].id, here, there))
            self.array(b, there)[...] = self.array(a, here).copy()
        elif kind == "within":
            row, rows, slices = here.region
            pitch = 2 * row + choose.choice([0, 5])
            far = pitch * rows
            if far * slices > NBYTES:
                return
            offset = choose.randrange(NBYTES - far * slices + 1)
            left, right = (Rectangle(offset + at, here.region, pitch, far) for at in (0, row))
            if choose.random() < 0.5:
                left, right = right, left
            if choose.random() < 0.3:  # as two sub-buffers may have it
                left, right = (
                    here,
                    Rectangle(here.bounds.stop, there.region, there.row_pitch, there.slice_pitch),
                )
                if right.bounds.stop > NBYTES:
                    return
            machine.run(CopyBuffer(self.buffers[a].id, self.buffers[a].id, left, right))
            self.array(a, right)[...] = self.array(a, left).copy()
        elif kind == "fill":
            pattern = choose.randbytes(choose.choice([1, 2, 4]))
            machine.run(Fill(self.buffers[a].id, here, pattern))
            units = here.strided.of(memoryview(self.truth[a]), len(pattern))
            units[...] = np.frombuffer(pattern, units.dtype)
        elif kind == "read":
            into = bytearray(here.nbytes)
            expected = self.array(a, here).tobytes()
            machine.run(
                Read(self.buffers[a].id, here, False),
                lambda packed_at: into.__setitem__(slice(None), self.place(a, here, packed_at).tobytes()),
            )
            self.reads.append((into, expected))
        else:
            sent = np.frombuffer(choose.randbytes(here.nbytes), self.array(a, here).dtype)
            shaped = sent.reshape(self.array(a, here).shape)
            machine.run(
                Write(self.buffers[a].id, here, False),
                lambda packed_at: self.place(a, here, packed_at).__setitem__(..., shaped),
            )
            self.array(a, here)[...] = shaped

    def check(self) -> None:
        for buffer, expected in zip(self.buffers, self.truth, strict=True):
            buffer.directory.check()
            assert self.machine.rig.read(buffer) == expected.tobytes()
        self.machine.finish()
        assert all(bytes(found) == expected for found, expected in self.reads)
        for buffer in self.buffers:
            self.machine.memory.release(buffer.id)
        self.machine.rig.turn()


STEPS = st.lists(
    st.sampled_from(["launch", "launch", "copy", "copy", "copy", "within", "fill", "read", "write"]),
    min_size=3,
    max_size=25,
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=EXAMPLES <= 25,
)
@given(STEPS, st.integers(0, 1 << 30))
def test_random_boxes_leave_the_bytes_of_one_device(machine: Mover, steps: list[str], seed: int) -> None:
    data = Bytes(machine, random.Random(seed))
    for kind in steps:
        data.step(kind)
    data.check()


def _column(offset: int, nbytes: int, rows: int, pitch: int) -> Rectangle:
    return Rectangle(offset, (nbytes, rows, 1), pitch, pitch * rows)


def test_a_column_of_what_members_hold_is_copied_there_and_nothing_else_moves(mover: MakeMover) -> None:
    machine = mover(2)
    made = machine.rig
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    machine.move(b.id, a.id, 0, 0, 0)
    before = made.moved()
    machine.run(CopyBuffer(a.id, b.id, _column(4, 4, NBYTES // 64, 64), _column(12, 4, NBYTES // 64, 64)))
    assert made.moved() == before
    half = NBYTES // 2
    for member, over in enumerate((ByteRange(0, half), ByteRange(half, NBYTES))):
        assert {holders for _, holders, _ in b.directory.holders(over)} == {1 << member_memory(member)}
    machine.finish()


@pytest.mark.parametrize("apart", [False, True], ids=["seen", "apart"])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_of_a_column_that_members_hold_only_its_bytes_cross_a_link(
    mover: MakeMover, kind: str, apart: bool
) -> None:
    machine = mover(2, apart=apart)
    made = machine.rig
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    machine.move(b.id, a.id, 0, 0, 0)
    before = made.moved()
    column = _column(4, 4, NBYTES // 64, 64)
    machine.run(Read(a.id, column, False) if kind == "read" else Write(a.id, column, False))
    assert made.moved() - before == column.nbytes
    machine.finish()
