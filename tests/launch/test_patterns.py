"""Copies are told apart by who had the bytes and who wants them, however they travel."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sdi.intervals import ByteRange
from sdi.launch.patterns import CopyPattern, Move, described, pattern_for, pattern_of

PART = 1 << 20


def part(number: int, parts: int = 1) -> ByteRange:
    return ByteRange(number * PART, (number + parts) * PART)


def edge(number: int) -> ByteRange:
    return ByteRange(number * PART, number * PART + 64)


def all_gather(places: int) -> list[Move]:
    return [(p, t, part(p)) for t in range(places) for p in range(places) if p != t]


def ring(places: int) -> list[Move]:
    """Each passes on what it got to the next one, all but its own part."""
    return [
        ((p + k) % places, (p + k + 1) % places, part(p)) for k in range(places - 1) for p in range(places)
    ]


@given(st.integers(3, 9))
def test_patterns_have_their_names(n: int) -> None:
    whole = n * PART
    assert pattern_of([], whole) == "none"
    assert pattern_of([(0, 1, part(0))], whole) == "copy"
    assert pattern_of([(0, t, part(0, n)) for t in range(1, n)], whole) == "broadcast"
    assert pattern_of([(0, t, part(t)) for t in range(1, n)], whole) == "scatter"
    assert pattern_of([(p, 0, part(p)) for p in range(1, n)], whole) == "gather"
    assert pattern_of(all_gather(n), whole) == "all-gather"
    transposed = [(p, t, ByteRange(p * PART + t * 64, p * PART + t * 64 + 64)) for p, t, _ in all_gather(n)]
    assert pattern_of(transposed, whole) == "all-to-all"
    rows = [(k, k + 1, edge(k)) for k in range(n - 1)] + [(k + 1, k, edge(k + n)) for k in range(n - 1)]
    assert pattern_of(rows, 2 * whole) == "halo"


def test_two_that_swap_edges_or_all_that_they_have_do_not_the_same() -> None:
    assert pattern_of([(0, 1, edge(0)), (1, 0, edge(1))], 2 * PART) == "halo"
    assert pattern_of([(0, 1, part(0)), (1, 0, part(1))], 2 * PART) == "all-gather"


@given(st.integers(3, 9))
def test_what_is_passed_on_is_the_same_pattern(n: int) -> None:
    chain = [(k, k + 1, part(0, n)) for k in range(n - 1)]
    found = pattern_for("a", chain, lambda memory: memory, n * PART)
    wanted = CopyPattern("a", "broadcast", (n - 1) * n * PART, n * PART, (n - 2) * n * PART)
    assert found == wanted
    around = pattern_for("a", ring(n), lambda memory: memory, n * PART, rounds=3)
    assert ", in 3 rounds, at most " in described(around)
    assert "rounds" not in described(found)
    assert (around.pattern, around.nbytes) == ("all-gather", n * (n - 1) * PART)
    assert around.most_nbytes == (n - 1) * PART and around.passed_nbytes == n * (n - 2) * PART
    direct = pattern_for("a", all_gather(n), lambda memory: memory, n * PART)
    assert (direct.most_nbytes, direct.passed_nbytes) == ((n - 1) * PART, 0)


def test_nodes_count_and_not_their_members() -> None:
    moves = [(1, 3, part(0)), (3, 4, part(0)), (3, 5, part(0)), (1, 2, part(0))]
    found = pattern_for("a", moves, lambda memory: (memory - 1) // 2, PART)
    assert found == CopyPattern("a", "broadcast", 2 * PART, PART, PART)
    assert described(found) == "broadcast of 2.0 MiB, at most 1.0 MiB from one place, 1.0 MiB of it passed on"
    assert pattern_for("a", [(1, 2, part(0))], lambda memory: 0, PART).pattern == "copy"
