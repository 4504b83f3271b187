"""The residency directory against one version number per byte and memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.intervals import ByteRange
from sdi.vmem.directory import HOST, Directory

N, MEMORIES = 20, 4
RANGES = st.tuples(st.integers(0, N - 1), st.integers(1, N)).filter(lambda p: p[0] < p[1])
STEPS = st.lists(
    st.tuples(st.sampled_from(["read", "write"]), st.integers(0, MEMORIES - 1), RANGES), max_size=30
)


@settings(max_examples=300)
@given(STEPS)
def test_reads_see_the_last_write_and_only_stale_bytes_move(
    steps: list[tuple[str, int, tuple[int, int]]],
) -> None:
    directory = Directory(N, defined=True)
    versions = [[0] * N] + [[-1] * N for _ in range(MEMORIES - 1)]
    latest = [0] * N
    for step, (kind, memory, pair) in enumerate(steps, 1):
        over = ByteRange(*pair)
        if kind == "write":
            directory.wrote(memory, over)
            for at in range(*pair):
                versions[memory][at] = latest[at] = step
        else:
            stale = {at for at in range(*pair) if versions[memory][at] != latest[at]}
            moved: list[int] = []
            for copy in directory.read(memory, over):
                assert copy.target == memory
                for at in range(copy.over.start, copy.over.stop):
                    versions[memory][at] = versions[copy.source][at]
                    moved.append(at)
            assert sorted(moved) == sorted(stale)
            assert versions[memory][over.start : over.stop] == latest[over.start : over.stop]
            assert directory.is_current(memory, over)
        directory.check()


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


def test_states_with_very_many_intervals_are_not_remembered() -> None:
    directory = Directory(1 << 16, defined=True)
    for start in range(0, 1 << 14, 8):
        directory.wrote(1, ByteRange(start, start + 4))
    assert directory.state() is None


@settings(max_examples=200)
@given(STEPS)
def test_an_opaque_copy_is_old_where_bytes_were_written_after_it_was_made(
    steps: list[tuple[str, int, tuple[int, int]]],
) -> None:
    directory = Directory(N, defined=True)
    latest, copied = [0] * N, [[-1] * N for _ in range(MEMORIES)]
    for step, (kind, number, pair) in enumerate(steps, 1):
        over = ByteRange(*pair)
        if kind == "write":
            directory.wrote(number, over)
            latest[pair[0] : pair[1]] = [step] * over.nbytes
        else:
            old = {at for part in directory.old_in(number, over) for at in range(part.start, part.stop)}
            assert old == {at for at in range(*pair) if copied[number][at] != latest[at]}
            directory.copied_opaquely(number, over)
            copied[number][pair[0] : pair[1]] = latest[pair[0] : pair[1]]
    directory.dropped_opaquely(1)
    assert directory.old_in(1, ByteRange(0, N)) == [ByteRange(0, N)]
