"""What is exact at sizes that nobody can list: least and greatest of two in guards and bounds."""

from __future__ import annotations

import itertools
import struct

import pytest

from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import analyse
from sdi.sampling.model import Precision
from tests.sampling.sources import kernels_of, tree_of


def ints(*values: int) -> tuple[bytes | None, ...]:
    return (None, *(struct.pack("<i", value) for value in values))


@pytest.mark.parametrize(
    ("body", "items", "scalars", "nbytes", "expected"),
    [
        # each: what four members write, as ranges and bytes of all
        (
            "int lo = i * m, hi = min(n, lo + m); for (int j = lo; j < hi; j++) a[j] = 1;",
            1 << 12,
            ((1 << 22) - 100, 1024),
            1 << 24,
            (4, 4 * ((1 << 22) - 100)),
        ),
        (
            "for (int x = max(0, i - m); x <= min(n - 1, i + m); x++) a[i * n + x] = 1;",
            4096,
            (4096, 8),
            4096 * 4096 * 4,
            (4096, 4 * (4096 * 17 - 2 * 36)),
        ),
        ("if (max(i, m) < n) a[i] = 1;", 1 << 22, (1 << 21, 77), 1 << 24, (2, 4 << 21)),
        ("if (min(i, n) > m) a[i] = 1;", 1 << 22, (1 << 21, 77), 1 << 24, (4, 4 * ((1 << 22) - 78))),
        ("if (clamp(i, m, n) == i) a[i] = 1;", 1 << 22, (1 << 21, 77), 1 << 24, (3, 4 * ((1 << 21) - 76))),
    ],
    ids=["blocks", "band", "greatest", "least", "clamp"],
)
def test_least_and_greatest_leave_writes_exact(
    body: str, items: int, scalars: tuple[int, int], nbytes: int, expected: tuple[int, int]
) -> None:
    text = f"__kernel void k(__global int *a, int n, int m) {{ int i = get_global_id(0); {body} }}"
    tree = tree_of(text)
    groups = items // 64
    ndrange = NDRange(1, (0, 0, 0), (items, 1, 1), (64, 1, 1))
    bound = analyse(tree, kernels_of(tree)["k"]).bind(ndrange, ints(*scalars), (nbytes, None, None))
    boxes = [GroupBox((groups * k // 4, 0, 0), (groups * (k + 1) // 4, 1, 1)) for k in range(4)]
    found = [bound.over(box)[0] for box in boxes]
    assert all(each.precision is Precision.EXACT for each in found)
    counts = sum(len(each.writes.runs()) for each in found), sum(each.writes.nbytes for each in found)
    assert counts == expected


LATTICE = """
#define SIDE 256u
#define CELLS (SIDE * SIDE * SIDE)
void place_of(uint cell, uint *x, uint *y, uint *z)
{
    *x = cell % SIDE;
    *y = cell % (SIDE * SIDE) / SIDE;
    *z = cell / (SIDE * SIDE);
}
void neighbours(uint cell, uint *to)
{
    uint x, y, z;
    place_of(cell, &x, &y, &z);
    uint row = y * SIDE, plane = z * SIDE * SIDE;
    to[0] = cell;
    to[1] = (x + 1) % SIDE + row + plane;
    to[2] = (x + SIDE - 1) % SIDE + row + plane;
    to[3] = x + (y + 1) % SIDE * SIDE + plane;
    to[4] = x + (y + SIDE - 1) % SIDE * SIDE + plane;
    to[5] = x + row + (z + 1) % SIDE * SIDE * SIDE;
    to[6] = x + row + (z + SIDE - 1) % SIDE * SIDE * SIDE;
}
__kernel void stream(__global float *f, ulong step)
{
    uint cell = get_global_id(0), to[7];
    float moved[7];
    neighbours(cell, to);
    for (uint i = 1; i < 7; i += 2) {
        moved[i] = f[(ulong)(step % 2 ? i : i + 1) * CELLS + cell];
        moved[i + 1] = f[(ulong)(step % 2 ? i + 1 : i) * CELLS + to[i]];
    }
    for (uint i = 1; i < 7; i += 2) {
        f[(ulong)(step % 2 ? i + 1 : i) * CELLS + to[i]] = moved[i];
        f[(ulong)(step % 2 ? i : i + 1) * CELLS + cell] = moved[i + 1];
    }
}
"""


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_lattice_that_streams_in_place_is_split_with_nothing_merged(step: int) -> None:
    """Its neighbours' numbers stand in a private array, which a function fills."""
    tree = tree_of(LATTICE)
    cells = 256**3
    ndrange = NDRange(1, (0, 0, 0), (cells, 1, 1), (64, 1, 1))
    values = (None, struct.pack("<Q", step))
    bound = analyse(tree, kernels_of(tree)["stream"]).bind(ndrange, values, (4 * 7 * cells, None))
    groups = cells // 64
    found = [
        bound.over(GroupBox((groups * k // 4, 0, 0), (groups * (k + 1) // 4, 1, 1)))[0] for k in range(4)
    ]
    assert all(each.precision is Precision.EXACT for each in found)
    assert [each.writes.nbytes for each in found] == [4 * 6 * cells // 4] * 4
    assert not any(a.writes.overlaps(b.writes) for a, b in itertools.combinations(found, 2))
    assert [each.reads for each in found] == [each.writes for each in found]
