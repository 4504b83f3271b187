"""Eigenvalues of a symmetric tridiagonal matrix, all at once, by counting how many are below a number.

Two kernels take turns.  ``count`` finds how many eigenvalues each interval holds (Sturm: the signs of a
recurrence over the matrix).  ``divide`` gives each eigenvalue a smaller interval: it walks over the counts to
the interval that holds it, and takes its part of that one, or the half with it where it is alone; of those
that share a small one all but the first take its end, an empty interval.  So each work-item of ``divide``
reads, at places that depend on data, what all work-items of ``count`` wrote.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, expect_close

TITLE = "EigenValue"
DIAGONAL, BESIDE = 2.0, -1.0


@dataclass(frozen=True, slots=True)
class Size:
    """``order`` of the matrix, a multiple of 256; each round halves intervals wider than ``tolerance``."""

    order: int
    rounds: int
    tolerance: float = 1e-5


SIZES = {
    "smoke": Size(256, 14, 2e-3),  # which several eigenvalues share, as at size gpu
    "cpu": Size(2048, 12),
    "paper": Size(65536, 6),
    "gpu": Size(524288, 6),
}

SOURCE = """
/* How many eigenvalues are less than x: the negative pivots of the matrix minus x times the identity. */
uint below(float x, __global const float *diagonal, __global const float *beside, int order)
{
    float pivot = diagonal[0] - x;
    uint found = pivot < 0.0f;
    for (int k = 1; k < order; k++) {
        pivot = diagonal[k] - x - beside[k - 1] * beside[k - 1] / (pivot == 0.0f ? 1e-30f : pivot);
        found += pivot < 0.0f;
    }
    return found;
}

__kernel void count(__global const float2 *intervals, __global uint *counts, __global const float *diagonal,
                    __global const float *beside, int order)
{
    int i = get_global_id(0);
    uint low = below(intervals[i].x, diagonal, beside, order);
    uint high = below(intervals[i].y, diagonal, beside, order);
    counts[i] = high > low ? high - low : 0;
}

__kernel void divide(__global const float2 *intervals, __global const uint *counts, __global float2 *divided,
                     __global const float *diagonal, __global const float *beside, int order, float tolerance)
{
    int i = get_global_id(0), holder = 0;
    uint before = 0, inside = counts[0];
    while (before + inside <= i && holder < order - 1) {
        before += inside;
        holder++;
        inside = counts[holder];
    }
    float low = intervals[holder].x, width = intervals[holder].y - low;
    uint part = i - before;
    if (width <= tolerance) { /* the first of those that it holds keeps it, or it would be counted for each */
        divided[i] = part ? (float2)(low + width) : intervals[holder];
    } else if (inside <= 1) {
        float middle = low + 0.5f * width;
        bool is_below = below(middle, diagonal, beside, order) > i;
        divided[i] = is_below ? (float2)(low, middle) : (float2)(middle, low + width);
    } else {
        float each = width / inside;
        divided[i] = (float2)(low + part * each, part + 1 == inside ? low + width : low + (part + 1) * each);
    }
}
"""


def inputs(size: Size) -> Arrays:
    """The second difference matrix; one interval that holds all eigenvalues, and empty ones behind it."""
    intervals = np.full((size.order, 2), 4.125, np.float32)
    intervals[0, 0] = -0.125
    return {
        "diagonal": np.full(size.order, DIAGONAL, np.float32),
        "beside": np.full(size.order, BESIDE, np.float32),
        "intervals": intervals,
    }


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """Both kernels in turns; intervals go from one buffer to the other."""
    matrix = session.upload(inputs["diagonal"]), session.upload(inputs["beside"])
    intervals, divided = session.upload(inputs["intervals"]), session.empty(8 * size.order)
    counts = session.empty(4 * size.order)
    order, tolerance = np.int32(size.order), np.float32(size.tolerance)
    items, local = [size.order], [min(256, size.order // 8)]
    for _ in range(size.rounds):
        session.launch("count", items, local, intervals, counts, *matrix, order)
        session.launch("divide", items, local, intervals, counts, divided, *matrix, order, tolerance)
        intervals, divided = divided, intervals
    return {"intervals": session.download(intervals, (size.order, 2), np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The eigenvalues have a closed form: 2 - 2 cos(k pi / (n + 1))."""
    wanted = DIAGONAL + 2 * BESIDE * np.cos(np.arange(1, size.order + 1) * np.pi / (size.order + 1))
    found = outputs["intervals"].astype(np.float64).mean(axis=1)
    expect_close("eigenvalues", np.sort(found), wanted, max(2e-4, size.tolerance), scale=1.0)
