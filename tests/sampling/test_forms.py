"""What is exact at sizes that nobody can list: least and greatest of two in guards and bounds."""

from __future__ import annotations

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
    counts = sum(len(each.writes.ranges) for each in found), sum(each.writes.nbytes for each in found)
    assert counts == expected
