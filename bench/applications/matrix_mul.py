"""Matrix product in tiles of local memory."""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, expect_close, sample

TITLE = "MatrixMul"
TILE = 16


@dataclass(frozen=True, slots=True)
class Size:
    """Square matrices of ``side`` rows, a multiple of 16."""

    side: int


SIZES = {"smoke": Size(80), "cpu": Size(512), "paper": Size(8192), "gpu": Size(32768)}

SOURCE = """
#define TILE 16

__kernel void multiply(__global float *c, __global const float *a, __global const float *b, int side)
{
    __local float from_a[TILE][TILE], from_b[TILE][TILE];
    int x = get_local_id(0), y = get_local_id(1);
    int column = get_global_id(0), row = get_global_id(1);
    float sum = 0.0f;
    for (int start = 0; start < side; start += TILE) {
        from_a[y][x] = a[(size_t)row * side + start + x];
        from_b[y][x] = b[(size_t)(start + y) * side + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; k++)
            sum += from_a[y][k] * from_b[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[(size_t)row * side + column] = sum;
}
"""


def inputs(size: Size) -> Arrays:
    """Numbers in [0, 1)."""
    random = np.random.default_rng(7)
    return {name: random.random((size.side, size.side), np.float32) for name in ("a", "b")}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """One launch."""
    a, b = session.upload(inputs["a"]), session.upload(inputs["b"])
    c = session.empty(4 * size.side**2)
    session.launch("multiply", [size.side] * 2, [TILE] * 2, c, a, b, np.int32(size.side))
    return {"c": session.download(c, (size.side, size.side), np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Some rows, in double precision where that is quick."""
    rows = sample(size.side, 32)
    dtype = np.float64 if size.side <= 8192 else np.float32
    wanted = inputs["a"][rows].astype(dtype) @ inputs["b"].astype(dtype, copy=False)
    expect_close("c", outputs["c"][rows], wanted, 1e-4)
