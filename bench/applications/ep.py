"""Embarrassingly parallel: pairs of normal deviates from a linear congruence, counted by size.

The NAS benchmark EP from its description: x' = 5^13 x mod 2^46; two numbers make a point of the square
[-1, 1)^2; a point within the unit circle makes two normal deviates, whose sums and sizes are recorded.  Each
work-item jumps to its own part of the sequence.  Groups are summed up in local memory.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Array, Arrays, Session, WrongResult, expect_close

TITLE = "EP"
FACTOR, SEED, MASK = 5**13, 271828183, (1 << 46) - 1
RINGS = 10
GROUP = 64


@dataclass(frozen=True, slots=True)
class Size:
    """``2 ** pairs_log2`` pairs, of which each work-item makes ``per_item``."""

    pairs_log2: int
    per_item: int


SIZES = {
    "smoke": Size(14, 16),
    "cpu": Size(22, 128),
    "paper": Size(36, 32768),
    "gpu": Size(36, 32768),
}

PUBLISHED = {
    24: (-3.247834652034740e3, -6.958407078382297e3),
    36: (1.982481200946593e5, -1.020596636361769e5),
}
"""Sums of both deviates that the benchmark's authors give for classes S and D."""

SOURCE = """
#define MASK ((1UL << 46) - 1)
#define RINGS 10
#define GROUP 64

__kernel void deviates(__global double2 *sums, __global uint *rings, ulong factor, ulong seed, int per_item)
{
    __local double2 partial[GROUP];
    __local uint count[RINGS][GROUP];
    int item = get_local_id(0);
    ulong jump = 2 * (ulong)get_global_id(0) * per_item, power = factor, x = seed;
    for (; jump; jump >>= 1) {
        if (jump & 1)
            x = x * power & MASK;
        power = power * power & MASK;
    }
    double2 sum = 0.0;
    for (int ring = 0; ring < RINGS; ring++)
        count[ring][item] = 0;
    for (int k = 0; k < per_item; k++) {
        x = x * factor & MASK;
        double a = 2.0 * (double)x * 0x1p-46 - 1.0;
        x = x * factor & MASK;
        double b = 2.0 * (double)x * 0x1p-46 - 1.0;
        double square = a * a + b * b;
        if (square <= 1.0) {
            double scale = sqrt(-2.0 * log(square) / square);
            a *= scale;
            b *= scale;
            sum += (double2)(a, b);
            count[min((int)fmax(fabs(a), fabs(b)), RINGS - 1)][item]++;
        }
    }
    partial[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
        double2 total = 0.0;
        for (int k = 0; k < GROUP; k++)
            total += partial[k];
        sums[get_group_id(0)] = total;
    }
    if (item < RINGS) {
        uint total = 0;
        for (int k = 0; k < GROUP; k++)
            total += count[item][k];
        rings[get_group_id(0) * RINGS + item] = total;
    }
}
"""


def inputs(size: Size) -> Arrays:
    """None: the kernel makes its numbers."""
    return {}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """One launch; the host adds up the groups."""
    items = 2**size.pairs_log2 // size.per_item
    groups = items // GROUP
    sums, rings = session.empty(16 * groups), session.empty(4 * RINGS * groups)
    scalars = np.uint64(FACTOR), np.uint64(SEED), np.int32(size.per_item)
    session.launch("deviates", [items], [GROUP], sums, rings, *scalars)
    return {
        "sums": session.download(sums, (groups, 2), np.float64).sum(axis=0),
        "rings": session.download(rings, (groups, RINGS), np.uint32).sum(axis=0, dtype=np.uint64),
    }


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The published sums, or all numbers again on the host."""
    sums, rings = PUBLISHED.get(size.pairs_log2), None
    if sums is None:
        sums, rings = _on_host(2**size.pairs_log2)
    expect_close("sums", outputs["sums"], np.array(sums), 1e-9, scale=float(2 ** (size.pairs_log2 / 2)))
    if rings is not None and not np.array_equal(outputs["rings"], rings):
        raise WrongResult(f"rings: {outputs['rings']} instead of {rings}")


def _on_host(pairs: int) -> tuple[Array, Array]:
    """Sums and counts; the sequence is doubled in length again and again."""
    x = np.array([SEED * FACTOR & MASK], np.uint64)
    power = FACTOR
    while x.size < 2 * pairs:
        x = np.concatenate([x, x * np.uint64(power) & np.uint64(MASK)])
        power = power * power & MASK
    points = (2.0 * x * 2.0**-46 - 1).reshape(pairs, 2)
    square = (points * points).sum(axis=1)
    inside = square <= 1
    square = square[inside]
    normal = points[inside] * np.sqrt(-2 * np.log(square) / square)[:, None]
    ring = np.minimum(np.abs(normal).max(axis=1).astype(np.int64), RINGS - 1)
    return normal.sum(axis=0), np.bincount(ring, minlength=RINGS)
