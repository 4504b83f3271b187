"""Two-point angular correlation: how often pairs of points on the sky are so and so far apart.

Histograms of the observed points with themselves, of each random set with itself, and of the observed points
with each random set.  A work-group makes one histogram, or a part of one, in local memory.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Array, Arrays, Session, WrongResult

TITLE = "TPACF"
BINS = 20


@dataclass(frozen=True, slots=True)
class Size:
    """``points`` in each of ``sets`` random sets; ``parts`` of a histogram, one work-group each."""

    points: int
    sets: int
    parts: int = 1
    local: int = 256


SIZES = {
    "smoke": Size(150, 4, 1, 64),
    "cpu": Size(1000, 10, 2, 64),
    "paper": Size(8192, 100),
    "gpu": Size(8192, 100, 32),
}

SOURCE = """
#define BINS 20

/* Cosines fall from edges[0] to edges[BINS]: bin k holds edges[k] >= cosine > edges[k + 1]. */
__kernel void pairs(__global const float *x, __global const float *y, __global const float *z,
                    __global uint *histograms, __constant float *edges, int points, int sets, int parts)
{
    __local uint bins[BINS];
    int histogram = get_group_id(0) / parts, part = get_group_id(0) % parts, item = get_local_id(0);
    bool with_itself = histogram <= sets;
    int first = with_itself ? histogram * points : 0;
    int second = with_itself ? first : (histogram - sets) * points;
    if (item < BINS)
        bins[item] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = part * get_local_size(0) + item; i < points; i += parts * get_local_size(0)) {
        float at_x = x[first + i], at_y = y[first + i], at_z = z[first + i];
        for (int j = with_itself ? i + 1 : 0; j < points; j++) {
            float cosine = at_x * x[second + j] + at_y * y[second + j] + at_z * z[second + j];
            int low = 0, high = BINS;
            while (high - low > 1) {
                int middle = (low + high) / 2;
                if (cosine > edges[middle])
                    high = middle;
                else
                    low = middle;
            }
            atomic_inc(&bins[low]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < BINS)
        histograms[get_group_id(0) * BINS + item] = bins[item];
}
"""


def inputs(size: Size) -> Arrays:
    """Set 0 is observed: its points come in clusters.  Edges are equally spaced in angle."""
    random = np.random.default_rng(11)
    points = random.standard_normal((size.sets + 1, size.points, 3))
    points[0] = np.repeat(points[0, ::10], 10, axis=0)[: size.points] + 0.1 * points[0]
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    edges = np.cos(np.linspace(0, np.pi, BINS + 1)).astype(np.float32)
    return {"points": np.ascontiguousarray(points.astype(np.float32).transpose(2, 0, 1)), "edges": edges}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """One launch; the host adds up the parts of each histogram."""
    points = [session.upload(part) for part in inputs["points"]]
    edges = session.upload(inputs["edges"])
    groups = (2 * size.sets + 1) * size.parts
    histograms = session.empty(4 * BINS * groups)
    scalars = np.int32(size.points), np.int32(size.sets), np.int32(size.parts)
    session.launch("pairs", [groups * size.local], [size.local], *points, histograms, edges, *scalars)
    found = session.download(histograms, (2 * size.sets + 1, size.parts, BINS), np.uint32)
    return {"histograms": found.sum(axis=1, dtype=np.uint64)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Every histogram counts all pairs; some are compared, but for pairs that lie on an edge."""
    found = outputs["histograms"].astype(np.int64)
    alone = np.arange(2 * size.sets + 1) <= size.sets
    wanted = np.where(alone, size.points * (size.points - 1) // 2, size.points**2)
    if not np.array_equal(found.sum(axis=1), wanted):
        raise WrongResult(f"histograms count {found.sum(axis=1)[:4]} pairs, not {wanted[:4]}")
    for histogram in {0, 1, size.sets + 1, 2 * size.sets}:
        first = histogram if histogram <= size.sets else 0
        second = first if histogram <= size.sets else histogram - size.sets
        least, most = _bounds(inputs, first, second)
        if np.any(found[histogram] < least) or np.any(found[histogram] > most):
            raise WrongResult(f"histogram {histogram} is {found[histogram]}, not within {least} and {most}")


def _bounds(inputs: Arrays, first: int, second: int) -> tuple[Array, Array]:
    """Counts without and with the pairs whose cosine is an edge's but for rounding."""
    points, margin = inputs["points"].astype(np.float64), 1e-6
    edges = -inputs["edges"].astype(np.float64)
    inner = edges[1:-1]
    least, most = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    for i in range(points.shape[2]):
        start = i + 1 if first == second else 0
        angle = -(points[:, first, i] @ points[:, second, start:])
        lower, upper = (np.searchsorted(inner, angle + move) for move in (-margin, margin))
        sure = lower == upper
        least += np.bincount(lower[sure], minlength=BINS)
        most += np.bincount(lower, minlength=BINS) + np.bincount(upper[~sure], minlength=BINS)
    return least, most
