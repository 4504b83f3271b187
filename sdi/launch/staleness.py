"""What an assignment lacks of a buffer, as copies from each set of holders: for predicting their time.

The same question is asked for each way of running a launch, and again by launches on new buffers that are in
the state in which others were: answers are kept by residency and ranges.
"""

from __future__ import annotations

from typing import NamedTuple

from sdi.region import Bytes
from sdi.regions import RegionSet
from sdi.vmem.directory import Directory

_KEPT_MAX = 4096


class Stale(NamedTuple):
    """``copies`` regions of ``runs`` runs of bytes, ``nbytes`` in all, which the bit set ``holders`` of
    memories has.
    """

    holders: int
    copies: int
    runs: int
    nbytes: int


_kept: dict[tuple[object, int, int], tuple[RegionSet, tuple[Stale, ...]]] = {}


def stale(directory: Directory, memory: int, needs: RegionSet) -> tuple[Stale, ...]:
    """What a read of ``needs`` for ``memory`` would move now."""
    return missing(directory, 1 << memory, needs)


def missing(directory: Directory, memories: int, needs: RegionSet) -> tuple[Stale, ...]:
    """The same of what none of the bit set ``memories`` holds."""
    whole = directory.one_mask()
    state = directory.key() if whole is None else whole
    key = (state, memories, id(needs))
    known = _kept.get(key)
    if known is not None and known[0] is needs:
        return known[1]
    found = _missing(directory, memories, needs)
    if state is not None:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        _kept[key] = needs, found  # which keeps the ranges, so that their id is theirs
    return found


def _missing(directory: Directory, memories: int, needs: RegionSet) -> tuple[Stale, ...]:
    parts: dict[int, list[Bytes]] = {}
    for part, holders in directory.missing(memories, needs):
        parts.setdefault(holders, []).append(part)
    found = [(holders, RegionSet.of(regions)) for holders, regions in parts.items()]
    return tuple([Stale(holders, len(each.regions), each.num_runs, each.nbytes) for holders, each in found])
