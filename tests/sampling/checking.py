"""Compares access maps with the recorded truth, and with isl's sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from sdi.clc.frontend.syntax import Function, Tree
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.regions import RegionSet
from sdi.sampling import KernelAnalysis, Precision, analyse
from tests.sampling.comparing import Asked, Tally, compare
from tests.sampling.recorder import READ, WRITE, Recorder

Array: TypeAlias = np.ndarray[Any, Any]
Argument: TypeAlias = Array | bytes | int | None
CONTENTS = ("random", "zeros", "ones", "nan")


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel's launch: arrays for buffers, bytes for values, numbers of bytes for local memory."""

    ndrange: NDRange
    arguments: tuple[Argument, ...]


def filled(array: Array, content: str, seed: int) -> Array:
    """An array of the same size with other contents, aligned for every vector type."""
    room = np.zeros(array.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 128
    made = room[first : first + array.nbytes]
    if content == "random":
        made[:] = np.random.default_rng(seed).integers(0, 256, array.nbytes, np.uint8)
    elif content == "ones":
        words = made[: array.nbytes // 4 * 4].view(np.uint32)
        words[:] = 1
    elif content == "nan":
        words = made[: array.nbytes // 4 * 4].view(np.uint32)
        words[:] = 0x7FC00000
    elif content == "given":
        made[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return made


def boxes(groups: Int3) -> Iterator[GroupBox]:
    """The whole grid, slabs and quarters in each dimension, corners and single groups."""
    whole = GroupBox((0, 0, 0), groups)
    seen = {whole}
    yield whole
    halves = [sorted({0, g // 3, g // 2, g}) for g in groups]
    axes = [[(a, b) for i, a in enumerate(h) for b in h[i + 1 :]] for h in halves]
    for x in axes[0]:
        for y in axes[1]:
            for z in axes[2]:
                box = GroupBox((x[0], y[0], z[0]), (x[1], y[1], z[1]))
                if box not in seen and len(seen) < 24:
                    seen.add(box)
                    yield box
    last = (groups[0] - 1, groups[1] - 1, groups[2] - 1)
    yield GroupBox(last, groups)


def groups_of(box: GroupBox, groups: Int3) -> Iterator[int]:
    """Linear numbers of a box's work-groups."""
    for z in range(box.start[2], box.stop[2]):
        for y in range(box.start[1], box.stop[1]):
            for x in range(box.start[0], box.stop[0]):
                yield x + groups[0] * (y + groups[1] * z)


def check(
    recorder: Recorder,
    tree: Tree,
    function: Function,
    options: str,
    launch: Launch,
    contents: Sequence[str] = CONTENTS,
    analysis: KernelAnalysis | None = None,
) -> list[tuple[int, Precision, bool]]:
    """Fail on the first wrong answer; else (argument, precision, reads are whole) for the whole NDRange."""
    analysis = analysis or analyse(tree, function)
    ndrange = launch.ndrange
    values = tuple(a if isinstance(a, bytes) else None for a in launch.arguments)
    sizes = tuple(a.nbytes if isinstance(a, np.ndarray) else None for a in launch.arguments)
    bound = analysis.bind(ndrange, values, sizes)
    kernel = recorder.kernel(tree, options, function.name)
    grid = ndrange.num_groups
    for seed, content in enumerate(contents):
        arguments = [
            filled(a, content, seed + i) if isinstance(a, np.ndarray) else a
            for i, a in enumerate(launch.arguments)
        ]
        touched = recorder.run(kernel, ndrange, arguments)
        for box in boxes(grid):
            groups = list(groups_of(box, grid))
            for wide, found in zip(bound.bounds(box), bound.over(box), strict=True):
                assert not found.reads.difference(wide.reads) and not found.writes.difference(wide.writes)
                assert wide.precision is not Precision.EXACT or wide.writes == found.writes
                what = f"{function.name} argument {found.argument} of {ndrange}, {box}, {content}"
                reads = touched.union(groups, found.argument, READ)
                writes = touched.union(groups, found.argument, WRITE)
                updated = RegionSet.of(part for _, ranges in found.updates for part in ranges.runs())
                missed = reads.difference(found.reads.union(updated))
                assert not missed, f"{what}: reads {missed.runs()[:4]}, not only {found.reads.runs()[:4]}"
                missed = writes.difference(found.writes.union(updated))
                assert not missed, (
                    f"{what}: writes {missed.runs()[:4]} too, not only {found.writes.runs()[:4]}"
                )
                if found.precision is Precision.EXACT:
                    excess = found.writes.difference(writes)
                    assert not excess, f"{what}: EXACT, but does not write {excess.runs()[:4]}"
    compare(analysis, Asked.of(ndrange, launch.arguments), islice(boxes(grid), 3), Tally())
    whole = bound.over(GroupBox((0, 0, 0), grid))
    return [(f.argument, f.precision, f.reads_whole) for f in whole]
