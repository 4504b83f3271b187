"""Jacobi's method with a sparse matrix in compressed rows: each step is a matrix-vector product.

Which elements of the vector a row reads stands in the matrix, so only the data say it.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, WrongResult, expect_close, sample

TITLE = "SpMV"


@dataclass(frozen=True, slots=True)
class Size:
    """``rows`` with up to ``most`` elements beside the diagonal."""

    rows: int
    most: int
    steps: int


SIZES = {
    "smoke": Size(1000, 8, 4),
    "cpu": Size(200_000, 16, 10),
    "paper": Size(4_000_000, 16, 20),
    "gpu": Size(16_000_000, 64, 1000),
}

SOURCE = """
__kernel void jacobi(__global const int *starts, __global const int *columns, __global const float *values,
                     __global const float *right, __global const float *x, __global float *next, int rows)
{
    int row = get_global_id(0);
    if (row >= rows)
        return;
    float sum = right[row];
    for (int k = starts[row]; k < starts[row + 1]; k++)
        sum -= values[k] * x[columns[k]];
    next[row] = sum;
}
"""


def inputs(size: Size) -> Arrays:
    """A random matrix with a diagonal of ones, whose other elements add up to less than one in each row."""
    random = np.random.default_rng(14)
    starts = np.zeros(size.rows + 1, np.int32)
    np.cumsum(random.integers(0, size.most + 1, size.rows), out=starts[1:])
    total = int(starts[-1])
    return {
        "starts": starts,
        "columns": random.integers(0, size.rows, total, np.int32),
        "values": (random.random(total, np.float32) * np.float32(0.9 / size.most)).astype(np.float32),
        "right": random.random(size.rows, np.float32),
    }


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """A launch for each step, from the right side on."""
    matrix = [session.upload(array) for array in inputs.values()]
    x, following = session.upload(inputs["right"]), session.empty(4 * size.rows)
    items = [-(-size.rows // 64) * 64]
    for _ in range(size.steps):
        session.launch("jacobi", items, [64], *matrix, x, following, np.int32(size.rows))
        x, following = following, x
    return {"x": session.download(x, size.rows, np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """All steps, by sums over all elements; where they are many, that some rows' equations hold by now."""
    starts, columns, values, right = inputs.values()
    found = outputs["x"]
    if columns.size > 20_000_000:
        rows = sample(size.rows, 4096)
        product = [
            values[start:stop].astype(np.float64) @ found[columns[start:stop]]
            for start, stop in zip(starts[rows], starts[rows + 1], strict=True)
        ]
        error = np.abs(right[rows] - product - found[rows]).max()
        if not error < 2 * 0.9**size.steps + 1e-5:
            raise WrongResult(f"a row is off by {error} after {size.steps} steps")
        return
    x = right.astype(np.float64)
    for _ in range(size.steps):
        sums = np.concatenate([[0.0], np.cumsum(values * x[columns])])
        x = right - (sums[starts[1:]] - sums[starts[:-1]])
    expect_close("x", found, x, 1e-4, 1.0)
