"""The residency directory against one version number per byte and memory, and against a set per byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.intervals import ByteRange
from sdi.region import Bytes, Region
from sdi.regions import RegionSet
from sdi.vmem.directory import HOST, Directory, member_memory

N, MEMORIES = 20, 4
PAIRS = st.tuples(st.integers(0, N - 1), st.integers(1, N)).filter(lambda pair: pair[0] < pair[1])
RANGES = PAIRS.map(lambda pair: ByteRange(*pair))
ROWS = st.tuples(st.integers(0, 6), st.integers(1, 3), st.sampled_from([3, 4, 8]), st.integers(2, 6)).map(
    lambda r: Region(r[0], r[1], ((r[2], min(r[3], (N - r[0] - r[1]) // r[2] + 1)),))
)
REGIONS = st.one_of(RANGES, ROWS)
STEPS = st.lists(
    st.tuples(st.sampled_from(["read", "write"]), st.integers(0, MEMORIES - 1), REGIONS), max_size=30
)


@settings(max_examples=300)
@given(STEPS)
def test_reads_see_the_last_write_and_only_stale_bytes_move(
    steps: list[tuple[str, int, Bytes]],
) -> None:
    directory = Directory(N, defined=True)
    versions = [[0] * N] + [[-1] * N for _ in range(MEMORIES - 1)]
    latest = [0] * N
    for step, (kind, memory, over) in enumerate(steps, 1):
        inside = numbers([over])
        if kind == "write":
            directory.wrote(memory, over)
            for at in inside:
                versions[memory][at] = latest[at] = step
        else:
            stale = {at for at in inside if versions[memory][at] != latest[at]}
            moved: list[int] = []
            for copy in directory.read(memory, over):
                assert copy.target == memory
                for at in numbers([copy.over]):
                    versions[memory][at] = versions[copy.source][at]
                    moved.append(at)
            assert sorted(moved) == sorted(stale)
            assert [versions[memory][at] for at in inside] == [latest[at] for at in inside]
            assert directory.is_current(memory, over)
        directory.check()
        complete = sum([1 << number for number, held in enumerate(versions) if held == latest])
        for asked in (0b1111, 0b0110, 1 << memory):
            assert directory.complete(asked) == asked & complete


def test_the_host_is_the_preferred_source() -> None:
    directory = Directory(8, defined=True)
    directory.read(1, ByteRange(0, 8))
    assert [copy.source for copy in directory.read(2, ByteRange(0, 8))] == [HOST]


def test_undefined_bytes_move_only_where_all_memories_must_agree() -> None:
    directory = Directory(8)
    directory.wrote(HOST, ByteRange(0, 4))
    assert [copy.over for copy in directory.read(1, ByteRange(0, 8))] == [ByteRange(0, 4)]
    assert [copy.over for copy in directory.read(1, ByteRange(0, 8), same_undefined=True)] == [
        ByteRange(4, 8)
    ]
    assert directory.read(1, ByteRange(0, 8), same_undefined=True) == []


def test_a_dropped_memory_holds_nothing() -> None:
    directory = Directory(8, defined=True)
    directory.read(1, ByteRange(0, 8))
    directory.dropped(1)
    assert not directory.is_current(1, ByteRange(3, 4))


def test_a_state_that_comes_again_is_the_same_object_and_can_be_entered() -> None:
    directory = Directory(100, defined=True)
    first = directory.state()
    directory.wrote(1, ByteRange(0, 50))
    directory.wrote(2, ByteRange(50, 100))
    split = directory.state()
    assert first is not None and split is not None and split is not first
    directory.read(1, ByteRange(40, 60))
    halo = directory.state()
    directory.wrote(2, ByteRange(50, 100))
    assert directory.state() is split is not halo
    assert halo is not None
    directory.enter(halo)
    assert directory.is_current(1, ByteRange(0, 60)) and not directory.is_current(1, ByteRange(0, 61))
    directory.wrote(1, ByteRange(0, 100))  # which must not change what the states say
    directory.enter(halo)
    assert directory.is_current(2, ByteRange(50, 100))
    directory.enter(first)
    assert directory.is_current(0, ByteRange(0, 100))
    directory.check()


@pytest.mark.parametrize("rows", [256, 257, 10_000])
def test_columns_have_a_state_of_few_entries_whatever_their_height(rows: int) -> None:
    members, pitch = 4, 1024
    directory = Directory(rows * pitch, defined=True)
    columns = [Region(256 * k, 256, ((pitch, rows),)) for k in range(members)]
    for _ in range(2):
        for k, column in enumerate(columns):
            directory.read(member_memory(k), column)
        for k, column in enumerate(columns):
            directory.wrote(member_memory(k), column)
        state = directory.state()
        assert state is not None and len(state) == members
    directory.wrote(HOST, ByteRange(0, rows * pitch))
    first = directory.state()
    for k, column in enumerate(columns):
        copies = directory.read(member_memory(k), column)
        assert [(copy.source, copy.over) for copy in copies] == [(HOST, column)]
        directory.wrote(member_memory(k), column)
    assert directory.state() is state is not first
    directory.check()


def test_states_with_many_entries_are_known_again_as_far_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sdi.vmem.directory._STATES_ENTRIES_MAX", 5000)
    directory, fine = Directory(1 << 16, defined=True), []
    for member in (1, 2, 3):
        for start in range(0, 1 << 14, 8):
            directory.wrote(member, ByteRange(start, start + 4))
        fine.append(directory.state())
        assert directory.state() is fine[-1] is not None
    assert len(fine[2] or ()) == 4096 and len(set(map(id, fine))) == 3
    for start in range(0, 1 << 14, 8):
        directory.wrote(1, ByteRange(start, start + 4))
    assert directory.state() is not fine[0], "there was no room for it"


def test_who_follows_a_new_one_has_no_opaque_copies() -> None:
    cells = memoryview(bytearray(8)).cast("I")
    directory, over = Directory(N), ByteRange(0, N)
    directory.mirror(cells, 1)
    directory.wrote(1, over)
    directory.copied_opaquely(0, over)
    assert directory.state() is None and cells[1] == 0
    cells[1] = directory.number_of(directory.fresh(True))
    directory.follow(is_new=True)
    assert directory.old_in(0, over) == [over]
    assert directory.state() is directory.fresh(True) and directory.is_current(HOST, over)


def test_numbers_of_new_states_last_and_a_cell_has_none_of_those_that_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sdi.vmem.directory._NUMBERS_MAX", 8)
    cells = memoryview(bytearray(8)).cast("I")
    directory = Directory(N)
    directory.mirror(cells, 1)
    fresh = [directory.number_of(directory.fresh(defined)) for defined in (False, True)]
    numbers = set()
    for stop in range(1, N):
        directory.wrote(stop % MEMORIES, ByteRange(0, stop))
        directory.state()
        numbers.add(cells[1])
    assert len(numbers) == N - 1 and not numbers & {0, *fresh}
    for defined, number in zip((False, True), fresh, strict=True):
        cells[1] = number
        directory.follow()
        assert directory.state() is directory.fresh(defined)
    state = directory.fresh()
    directory.wrote(1, ByteRange(2, 3))
    held = directory.state()
    for other in range(10):
        directory.number_of(Directory(N + other).fresh())
    assert held is not None and held is not state and cells[1] == 0


@settings(max_examples=200)
@given(STEPS)
def test_an_opaque_copy_is_old_where_bytes_were_written_after_it_was_made(
    steps: list[tuple[str, int, Bytes]],
) -> None:
    directory = Directory(N, defined=True)
    latest, copied = [0] * N, [[-1] * N for _ in range(MEMORIES)]
    for step, (kind, number, over) in enumerate(steps, 1):
        inside = numbers([over])
        if kind == "write":
            directory.wrote(number, over)
            for at in inside:
                latest[at] = step
        else:
            assert set(numbers(directory.old_in(number, over))) == {
                at for at in inside if copied[number][at] != latest[at]
            }
            directory.copied_opaquely(number, over)
            for at in inside:
                copied[number][at] = latest[at]
    directory.dropped_opaquely(1)
    assert directory.old_in(1, ByteRange(0, N)) == [ByteRange(0, N)]


MEMORIES_MAX = 301
"""The host and 300 members: more than a machine word has bits, several times."""
COUNTS = st.one_of(
    st.sampled_from([*range(2, 7), *range(62, 69), *range(127, 132)]), st.integers(2, MEMORIES_MAX)
)
KINDS = ["wrote", "read", "read all", "copied", "dropped", "define", "lost", "bad", "reset"]
MOVES = COUNTS.flatmap(
    lambda count: st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.one_of(st.integers(0, count - 1), st.integers(max(0, count - 3), count - 1)),
            REGIONS,
        ),
        max_size=25,
    )
)


@dataclass(slots=True)
class Dense:
    """What a directory says, byte by byte: who holds it, and whether it is defined."""

    holders: list[set[int]] = field(default_factory=lambda: [{HOST} for _ in range(N)])
    defined: list[bool] = field(default_factory=lambda: [False] * N)

    def read(self, memory: int, over: Bytes, same_undefined: bool) -> set[int]:
        """The bytes that are moved."""
        moved = {
            at
            for at in numbers([over])
            if memory not in self.holders[at] and (same_undefined or self.defined[at])
        }
        for at in moved:
            self.holders[at].add(memory)
        return moved

    def without(self, memory: int, over: Bytes, is_lost: bool) -> set[int]:
        """The bytes that are gone."""
        gone = set()
        for at in range(N) if is_lost else numbers([over]):
            if memory not in self.holders[at]:
                continue
            if len(self.holders[at]) > 1:
                self.holders[at].remove(memory)
            elif is_lost:
                gone.add(at)
        return gone


def numbers(regions: Iterable[Bytes]) -> list[int]:
    """The bytes of regions, as often as they are there."""
    return [at for each in regions for part in each.runs() for at in range(part.start, part.stop)]


def as_dense(directory: Directory) -> list[set[int]]:
    """Who holds each byte, from the bit sets."""
    found = {
        at: {memory for memory in range(MEMORIES_MAX + 70) if bits >> memory & 1}
        for part, bits, _ in directory.holders(ByteRange(0, N))
        for at in numbers([part])
    }
    by_runs = directory.runs(ByteRange(0, N), N)
    assert by_runs is not None and numbers(run for run, _, _ in by_runs) == list(range(N))
    return [found[at] for at in range(N)]


@settings(max_examples=400)
@given(MOVES)
def test_one_to_three_hundred_members_are_held_apart_and_from_bytes_that_nobody_wrote(
    moves: list[tuple[str, int, Bytes]],
) -> None:
    directory, dense = Directory(N), Dense()
    for kind, memory, over in moves:
        inside = numbers([over])
        would = {at for at in inside if dense.defined[at] and memory not in dense.holders[at]}
        ranges = RegionSet((over,))
        assert directory.stale_nbytes(memory, ranges) == len(would)
        stale = list(directory.stale(memory, ranges))
        assert sorted(numbers(part for part, _ in stale)) == sorted(would)
        for part, bits in stale:
            assert all(bits == sum(1 << one for one in dense.holders[at]) for at in numbers([part]))
        match kind:
            case "wrote":
                directory.wrote(memory, over)
                for at in inside:
                    dense.holders[at], dense.defined[at] = {memory}, True
            case "read" | "read all":
                before = [set(holders) for holders in dense.holders]
                moved = dense.read(memory, over, kind == "read all")
                copies = directory.read(
                    memory, over, kind == "read all", lambda bits, nbytes: bits.bit_length() - 1
                )
                assert sorted(numbers(copy.over for copy in copies)) == sorted(moved)
                for copy in copies:
                    assert copy.target == memory
                    assert {max(before[at]) for at in numbers([copy.over])} == {copy.source}
            case "copied":
                directory.copied(memory, over)
                for at in inside:
                    dense.holders[at].add(memory)
            case "dropped":
                if all(dense.holders[at] != {memory} for at in inside):
                    directory.dropped(memory, over)
                    for at in inside:
                        dense.holders[at].discard(memory)
            case "define":
                directory.define()
                for at in range(N):
                    if not dense.defined[at]:
                        dense.holders[at], dense.defined[at] = {HOST}, True
            case "lost" | "bad":
                is_lost = kind == "lost"
                gone = directory.without([] if is_lost else [(memory, over)], memory if is_lost else None)
                assert set(numbers(gone)) == dense.without(memory, over, is_lost)
            case "reset":
                directory.reset()
                dense = Dense()
        directory.check()
        assert as_dense(directory) == dense.holders
        whole = ByteRange(0, N)
        assert sorted(numbers(directory.current_in(memory, whole))) == [
            at for at in range(N) if memory in dense.holders[at]
        ]
        alone = [at for at in range(N) if dense.holders[at] == {memory} and dense.defined[at]]
        assert sorted(numbers(directory.only_in(memory, whole))) == alone


@pytest.mark.parametrize("member", [60, 61, 62, 63, 64, 127, 255, 299])
def test_what_any_member_wrote_is_copied_from_it(member: int) -> None:
    directory = Directory(8)
    memory = member_memory(member)
    directory.wrote(memory, ByteRange(2, 6))
    assert [copy.source for copy in directory.read(HOST, ByteRange(0, 8))] == [memory]
    directory.define()
    assert directory.current_in(memory, ByteRange(0, 8)) == [ByteRange(2, 6)]


def test_who_recorded_numbers_is_told_when_they_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.vmem.directory._NUMBERS_MAX", 8)
    cells = memoryview(bytearray(8)).cast("I")
    directory, told = Directory(N), []
    directory.mirror(cells, 1, lambda: told.append(directory.number_of(directory.fresh())))
    fresh = directory.number_of(directory.fresh())
    for stop in range(1, 8):
        directory.wrote(stop % MEMORIES, ByteRange(0, stop))
        directory.state()
    assert told == []
    for stop in range(8, 16):
        directory.wrote(stop % MEMORIES, ByteRange(0, stop))
        directory.state()
    assert told and set(told) == {fresh}
    directory.mirror(None, 0)
    count = len(told)
    for stop in range(16, N):
        directory.number_of(directory.state() or directory.fresh())
        directory.wrote(stop % MEMORIES, ByteRange(0, stop))
    assert len(told) == count


def test_of_memories_that_are_one_all_hold_what_one_does() -> None:
    directory = Directory(64, together=0b11)
    assert directory.holders(ByteRange(0, 64)) == [(ByteRange(0, 64), 0b11, False)]
    state = directory.fresh(True)
    directory.reset(True)
    for memory in (HOST, 1):
        directory.wrote(memory, ByteRange(8, 16))
        assert directory.state() is state and not directory.read(1 - memory, ByteRange(0, 64))
        assert directory.is_only_on(memory) and directory.only_in(memory, ByteRange(0, 8))
    directory.wrote(2, ByteRange(0, 32))
    assert [(copy.source, copy.target, copy.over) for copy in directory.read(1, ByteRange(16, 64))] == [
        (2, 1, ByteRange(16, 32))
    ]
    assert directory.is_current(HOST, ByteRange(16, 64)) and not directory.is_current(HOST, ByteRange(0, 16))
    assert directory.holders(ByteRange(0, 64)) == [
        (ByteRange(0, 16), 0b100, True),
        (ByteRange(16, 32), 0b111, True),
        (ByteRange(32, 64), 0b11, True),
    ]
    directory.check()
