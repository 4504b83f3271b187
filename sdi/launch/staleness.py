"""What an assignment lacks of a buffer, as copies from each set of holders: for predicting their time.

The same question is asked for each way of running a launch, and again by launches on new buffers that are in
the state in which others were: answers are kept by residency and ranges.
"""

from __future__ import annotations

from typing import NamedTuple

from sdi.intervals import RangeSet
from sdi.vmem.directory import Directory

_KEPT_MAX = 4096


class Stale(NamedTuple):
    """``runs`` runs of bytes, ``nbytes`` in all, which the bit set ``holders`` of memories has.

    ``rows`` of them are one more row of the copy before: as long, and as far away as the one before that.
    """

    holders: int
    runs: int
    nbytes: int
    rows: int


_kept: dict[tuple[object, int, int], tuple[RangeSet, tuple[Stale, ...]]] = {}


def stale(directory: Directory, memory: int, needs: RangeSet) -> tuple[Stale, ...]:
    """What a read of ``needs`` for ``memory`` would move now."""
    whole = directory.one_mask()
    state = directory.key() if whole is None else whole
    key = (state, memory, id(needs))
    known = _kept.get(key)
    if known is not None and known[0] is needs:
        return known[1]
    found = _stale(directory, memory, needs)
    if state is not None:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        _kept[key] = needs, found  # which keeps the ranges, so that their id is theirs
    return found


def _stale(directory: Directory, memory: int, needs: RangeSet) -> tuple[Stale, ...]:
    groups: dict[int, Stale] = {}
    last: dict[int, tuple[int, int, int]] = {}
    for part, holders in directory.stale(memory, needs):
        nbytes = part.stop - part.start
        before, length, pitch = last.get(holders, (-1, 0, 0))
        distance = part.start - before
        is_row = before >= 0 and length == nbytes and pitch in (0, distance)
        last[holders] = (part.start, nbytes, distance if is_row else 0)
        _, runs, total, rows = groups.get(holders, (holders, 0, 0, 0))
        groups[holders] = Stale(holders, runs + 1, total + nbytes, rows + is_row)
    return tuple(groups.values())
