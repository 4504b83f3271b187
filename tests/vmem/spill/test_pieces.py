"""Pieces of a file in memory, against what one would write down of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sdi.vmem.spill.pieces import Pieces

SIZE = 4096


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["begin", "enter", "end", "change", "room"]), st.integers(0, 7))),
)
def test_what_is_used_stays_and_of_the_rest_as_much_as_fits(most: int, steps: list[tuple[str, int]]) -> None:
    pieces = Pieces(most * SIZE, SIZE)
    uses, here, changed, stored = [0] * 8, set[int](), set[int](), set[int]()
    for what, number in steps:
        if what == "begin":
            pieces.begin(number)
            uses[number] += 1
        elif what == "room":
            while (victim := pieces.victim()) is not None:
                gone, changed_nbytes = victim
                assert not uses[gone] and gone in here and (changed_nbytes > 0) == (gone in changed)
                assert len(here) > most
                here.discard(gone)
                stored |= {gone} & changed
                changed.discard(gone)
            assert len(here) <= most or all(uses[each] for each in here)
        elif uses[number]:
            assert pieces.is_awaited(number) == (number not in here)
            is_read = number in stored and number not in here
            assert pieces.is_stored(number) == is_read
            if what == "enter":
                assert pieces.enter(number) == is_read
            else:
                assert pieces.end(number, 10 * (what == "change")) == is_read
                uses[number] -= 1
                changed |= {number} if what == "change" else set()
            here.add(number)
        pieces.check()
        assert pieces.num_here == len(here) and pieces.has_room == (len(here) < most)


def test_what_was_used_longest_ago_goes_first_and_what_is_freed_is_never_read() -> None:
    pieces = Pieces(2 * SIZE, SIZE)
    for number in (0, 1, 0, 2):
        pieces.begin(number)
        pieces.end(number, SIZE)
    assert pieces.victim() == (1, SIZE) and pieces.victim() is None
    assert pieces.victim(1) == (0, SIZE) and pieces.victim(1) is None
    assert list(pieces.numbers(0, SIZE + 1)) == [0, 1] and pieces.is_stored(1)
    pieces.forget(SIZE - 1, 3 * SIZE)
    assert not pieces.is_stored(1) and pieces.num_here == 0 and pieces.peak == 3
