"""Twins, diffs and merges on the host: how members' writes to one buffer become one result.

Source: papers/1 section 3.6; units after DESIGN "Virtual device memory": comparing single bytes would
mix two racing stores into a value that no device could write.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sdi.atomics import Update
from sdi.dataclass import dataclass

Bytes = npt.NDArray[np.uint8]

Units = npt.NDArray[np.generic]

_UNIT_TYPES: dict[int, type[np.generic]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_CHUNK_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class MergeResult:
    """``changed_units``: units that some member changed.

    ``conflicts``: how often a member's change of a unit took the place of an earlier member's; of two
    members, the units that both changed.
    """

    changed_units: int
    conflicts: int


def merge_diffs(
    target: Bytes, copies: Sequence[Bytes], unit_nbytes: int, smallest_nbytes: int | None = None
) -> MergeResult:
    """Apply to ``target`` every unit in which a copy differs from it; where several do, the last copy wins.

    ``target``: uint8, shape ``(n,)``: the bytes before the launch (the twin), updated in place.
    ``copies``: one per member, each shape ``(n,)``: that member's bytes after the launch.
    ``unit_nbytes``: 1, 2, 4 or 8, the largest scalar stored; units count from element 0, a shorter tail is
    compared bytewise.  ``smallest_nbytes``: the smallest scalar stored (default: the same); a unit in which
    several members changed different scalars of that size holds all of them, and is no conflict; so it does
    where what two members changed is the same in both.
    Vectorised by chunks that fit the cache.
    """
    nbytes = target.shape[0]
    if any(copy.shape[0] != nbytes for copy in copies):
        raise ValueError(f"copies of {[c.shape[0] for c in copies]} bytes for a target of {nbytes}")
    whole = nbytes - nbytes % unit_nbytes
    kind, small = _UNIT_TYPES[unit_nbytes], _UNIT_TYPES[smallest_nbytes or unit_nbytes]
    changed = conflicts = 0
    for start, stop, unit, part in ((0, whole, kind, small), (whole, nbytes, np.uint8, np.uint8)):
        step = _CHUNK_NBYTES
        for at in range(start, stop, step):
            end = min(at + step, stop)
            found = _merge_units(
                target[at:end].view(unit), [copy[at:end].view(unit) for copy in copies], part
            )
            changed, conflicts = changed + found[0], conflicts + found[1]
    return MergeResult(changed, conflicts)


def merge_updates(target: Bytes, copies: Sequence[Bytes], update: Update) -> MergeResult:
    """Make ``target`` what it would be had all atomic updates been made on it alone.

    ``target``: uint8, shape ``(n,)``, n a multiple of the unit: the bytes before the launch (the twin),
    changed in place.  ``copies``: one per member, each shape ``(n,)``: the twin with that member's updates.
    """
    nbytes = target.shape[0]
    if any(copy.shape[0] != nbytes for copy in copies) or nbytes % update.nbytes:
        raise ValueError(f"copies of {[c.shape[0] for c in copies]} bytes for a target of {nbytes}")
    kind = np.dtype(f"{'i' if update.signed else 'u'}{update.nbytes}")
    changed = 0
    for at in range(0, nbytes, _CHUNK_NBYTES):
        end = min(at + _CHUNK_NBYTES, nbytes)
        found = target[at:end].view(kind)
        before = found.copy()
        for copy in copies:
            own = copy[at:end].view(kind)
            match update.operation:
                case "add":  # unsigned: wraps as the members' additions do
                    found += own - before
                case "xor":
                    found ^= own ^ before
                case "and":
                    found &= own
                case "or":
                    found |= own
                case "min":
                    np.minimum(found, own, out=found)
                case "max":
                    np.maximum(found, own, out=found)
        changed += int(np.count_nonzero(found != before))
    return MergeResult(changed, 0)


def _merge_units(target: Units, copies: Sequence[Units], small: type[np.generic]) -> tuple[int, int]:
    """Changed and conflicting units of one chunk; see ``merge_diffs``."""
    masks = [np.not_equal(target, copy) for copy in copies]
    counts = [int(np.count_nonzero(mask)) for mask in masks]
    writers = [k for k, count in enumerate(counts) if count]
    if len(writers) < 2:
        for k in writers:
            np.copyto(target, copies[k], where=masks[k])
        return sum(counts), 0
    times = np.zeros(target.shape, np.min_scalar_type(len(writers)))
    for k in writers:
        times += masks[k]
    shared = np.flatnonzero(times > 1)
    before = target[shared]
    for k in writers:
        np.copyto(target, copies[k], where=masks[k])
    conflicts = 0
    if shared.size:
        conflicts = _merge_shared(target, shared, before, [copies[k] for k in writers], small)
    return int(np.count_nonzero(times)), conflicts


def _merge_shared(
    target: Units,
    shared: npt.NDArray[np.intp],
    before: Units,
    copies: Sequence[Units],
    small: type[np.generic],
) -> int:
    """Look closer at the units ``shared``, which several copies changed; the number of conflicts."""
    base = before.view(small).reshape(shared.size, -1)
    merged, changed = base.copy(), np.zeros(base.shape, np.bool_)
    conflicts = 0
    for copy in copies:
        part = copy[shared].view(small).reshape(shared.size, -1)
        mask = np.not_equal(base, part)
        both = mask & changed
        conflicts += int(np.count_nonzero(np.any(both, axis=1)))
        # Of two stores that may be one large scalar each, the later one is taken as a whole.
        clash = np.any(both & np.not_equal(merged, part), axis=1)
        np.copyto(merged, part, where=mask | clash[:, np.newaxis])
        changed = np.where(clash[:, np.newaxis], mask, changed | mask)
    target[shared] = merged.reshape(-1).view(target.dtype)
    return conflicts
