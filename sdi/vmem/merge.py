"""Twins, diffs and merges on the host: how members' writes to one buffer become one result.

Source: papers/1 section 3.6; units after DESIGN "Virtual device memory": comparing single bytes would
mix two racing stores into a value that no device could write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_UNIT_TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_CHUNK_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class MergeResult:
    """``changed_units``: units that some member changed; ``conflicts``: those that several changed."""

    changed_units: int
    conflicts: int


def merge_diffs(target: Bytes, copies: Sequence[Bytes], unit_nbytes: int) -> MergeResult:
    """Apply to ``target`` every unit in which a copy differs from it; where several do, the last copy wins.

    ``target``: uint8, shape ``(n,)``: the bytes before the launch (the twin), updated in place.
    ``copies``: one per member, each shape ``(n,)``: that member's bytes after the launch.
    ``unit_nbytes``: 1, 2, 4 or 8; units count from element 0, a shorter tail is compared bytewise.
    Vectorised by chunks that fit the cache.
    """
    nbytes = target.shape[0]
    if any(copy.shape[0] != nbytes for copy in copies):
        raise ValueError(f"copies of {[c.shape[0] for c in copies]} bytes for a target of {nbytes}")
    whole = nbytes - nbytes % unit_nbytes
    kind = _UNIT_TYPES[unit_nbytes]
    changed, conflicts = _merge_units(
        target[:whole].view(kind), [copy[:whole].view(kind) for copy in copies], _CHUNK_NBYTES // unit_nbytes
    )
    if whole < nbytes:
        tail = _merge_units(target[whole:], [copy[whole:] for copy in copies], _CHUNK_NBYTES)
        changed, conflicts = changed + tail[0], conflicts + tail[1]
    return MergeResult(changed, conflicts)


def _merge_units(
    target: npt.NDArray[np.generic], copies: Sequence[npt.NDArray[np.generic]], chunk: int
) -> tuple[int, int]:
    """Changed and conflicting units; see ``merge_diffs``."""
    changed = conflicts = 0
    for at in range(0, target.shape[0], chunk):
        part = target[at : at + chunk]
        parts = [copy[at : at + chunk] for copy in copies]
        masks = [np.not_equal(part, copy) for copy in parts]
        counts = [int(np.count_nonzero(mask)) for mask in masks]
        writers = [k for k, count in enumerate(counts) if count]
        if len(writers) > 1:
            any_changed = np.logical_or.reduce([masks[k] for k in writers])
            units = int(np.count_nonzero(any_changed))
            conflicts += units_in_conflict([masks[k] for k in writers]) if units < sum(counts) else 0
            changed += units
        else:
            changed += sum(counts)
        for k in writers:
            np.copyto(part, parts[k], where=masks[k])
    return changed, conflicts


def units_in_conflict(masks: Sequence[npt.NDArray[np.bool_]]) -> int:
    """Positions that are set in more than one mask."""
    total = np.zeros(masks[0].shape, np.uint8)
    for mask in masks:
        total += mask
    return int(np.count_nonzero(total > 1))
