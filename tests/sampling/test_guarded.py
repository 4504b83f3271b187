"""Random guarded, triangular and looped writes against every single work-item, computed with numpy.

No device runs: so many more kernels fit than the recorder can try, and the closed forms answer alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling import analyse, dense
from sdi.sampling.model import AccessRange, Precision
from tests.sampling.sources import kernels_of, tree_of

KERNELS = 40  # per test
BOXES = 5
SHAPES = ((32, 24), (64, 16), (48, 48), (16, 80))
LOCALS = ((8, 8), (16, 4), (4, 8))
COMPARE: dict[str, Callable[[npt.NDArray[np.int64], int], npt.NDArray[np.bool_]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
COUNTS: dict[str, Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray[np.int64]]] = {
    "x": lambda x, y: x,
    "y": lambda x, y: y,
    "6": lambda x, y: np.full_like(x, 6),
    "x + 1": lambda x, y: x + 1,
    "y - x": lambda x, y: y - x,
}
"""Iterations of the loop, as C and as numpy have them."""


@dataclass(frozen=True, slots=True)
class Made:
    """A kernel that writes ``int a[x * p + y * q + d + j * t]`` where its guards hold."""

    source: str
    ndrange: NDRange
    nbytes: int
    touches: Callable[[GroupBox], npt.NDArray[np.bool_]]


def make(random: Random) -> Made:
    """A kernel, its launch, and which bytes a box of work-groups writes: shape ``(nbytes,)``."""
    while True:
        width, height = random.choice(SHAPES)
        local = random.choice(LOCALS)
        if width % local[0] == 0 and height % local[1] == 0:
            break
    guards = [
        (random.randint(-3, 3), random.randint(-3, 3), random.randint(-40, 60), random.choice(list(COMPARE)))
        for _ in range(random.randint(1, 3))
    ]
    p, q = random.choice([(1, width), (height, 1), (1, width + 3), (3, 3 * width), (1, 7), (5, 2), (3, 1)])
    d, t = random.randint(0, 50), random.choice([0, 1, 2, 17, width * height, p + 1, q + 1])
    count = random.choice(list(COUNTS)) if random.random() < 0.5 else ""
    nbytes = 4 * (width * p + height * q + d + t * (width + height + 2) + 1)
    loop = f"for (int j = 0; j < {count}; ++j) " if count else ""
    index = f"x * {p} + y * {q} + {d}" + (f" + j * {t}" if count else "")
    where = " && ".join(f"{a} * x + {b} * y + {c} {compare} 0" for a, b, c, compare in guards)
    source = (
        "__kernel void k(__global int *a) {\n    int x = get_global_id(0), y = get_global_id(1);\n"
        f"    if ({where}) {loop}a[{index}] = 1;\n}}\n"
    )
    x, y = np.meshgrid(np.arange(width), np.arange(height), indexing="ij")
    holds = np.ones(x.shape, bool)
    for a, b, c, compare in guards:
        holds &= COMPARE[compare](a * x + b * y + c, 0)

    def touches(box: GroupBox) -> npt.NDArray[np.bool_]:
        inside = holds & (x >= box.start[0] * local[0]) & (x < box.stop[0] * local[0])
        inside &= (y >= box.start[1] * local[1]) & (y < box.stop[1] * local[1])
        xs, ys = x[inside], y[inside]
        first = xs * p + ys * q + d
        elements = np.zeros(nbytes // 4, bool)
        if count:
            for start, times in zip(first, COUNTS[count](xs, ys), strict=True):
                elements[start + t * np.arange(max(times, 0))] = True
        else:
            elements[first] = True
        return np.repeat(elements, 4)

    ndrange = NDRange(2, (0, 0, 0), (width, height, 1), (*local, 1))
    return Made(source, ndrange, nbytes, touches)


def some_boxes(random: Random, ndrange: NDRange) -> Iterator[GroupBox]:
    """Boxes of work-groups, none empty."""
    for _ in range(BOXES):
        (x0, x1), (y0, y1) = (sorted(random.sample(range(n + 1), 2)) for n in ndrange.num_groups[:2])
        yield GroupBox((x0, y0, 0), (x1, y1, 1))


def as_bytes(ranges: RegionSet, nbytes: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(nbytes, bool)
    for part in ranges.runs():
        found[part.start : part.stop] = True
    return found


def compare(made: Made, box: GroupBox, item: AccessRange) -> None:
    truth, found = made.touches(box), as_bytes(item.writes, made.nbytes)
    missing = int((truth & ~found).sum())
    assert not missing, f"{missing} bytes of {box} are not known to be written\n{made.source}"
    if item.precision is Precision.EXACT:
        more = int((found & ~truth).sum())
        assert not more, f"{more} bytes of {box} are not written after all\n{made.source}"


@pytest.mark.parametrize("first", range(0, 4 * KERNELS, KERNELS))
@pytest.mark.parametrize("points", [0, dense.MAX_POINTS])
def test_guarded_writes_are_what_every_single_work_item_writes(
    first: int, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "MAX_POINTS", points)
    exact = 0
    for seed in range(first, first + KERNELS):
        random = Random(seed)
        made = make(random)
        tree = tree_of(made.source)
        bound = analyse(tree, kernels_of(tree)["k"]).bind(made.ndrange, (None,), (made.nbytes,))
        for box in some_boxes(random, made.ndrange):
            (item,), (rough,) = bound.over(box), bound.bounds(box)
            compare(made, box, item)
            compare(made, box, rough)
            exact += item.precision is Precision.EXACT
    assert exact > KERNELS * BOXES // 2, "most of these are within reach of the closed forms"
