"""Program-scope ``__constant`` tables, scalars and structs, read directly and through helpers."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"pc_lookup": "split", "pc_stencil": "split"}

SOURCE = """
enum { ROWS = 3, COLUMNS = 5 };
typedef struct { int low, high; float4 weights; } limits_t;

__constant int table[ROWS][COLUMNS] = { {1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}, {-1, -2, -3} };
constant limits_t limits = { -25, 100, (float4)(1.0f, 2.0f, 4.0f, 8.0f) };
__constant const uchar letters[] = "split or whole";
__constant float filter[3] = { 0.25f, 0.5f, 0.25f };

int look(__constant int *row, int k) { return row[k % COLUMNS]; }

__kernel void pc_lookup(__global int *out)
{
    int i = get_global_id(0);
    __constant int *row = i % 2 ? table[1] : table[2];
    int v = look(table[i % ROWS], i) + look(row, i / 2) + letters[i % (sizeof(letters) - 1)];
    out[i] = clamp(v, limits.low, limits.high) * (int)limits.weights.w;
}

__kernel void pc_stencil(__global const float *in, __global float *out, int n)
{
    int i = get_global_id(0);
    if (i >= n)
        return;
    float sum = 0.0f;
    for (int k = -1; k <= 1; ++k)
        sum += filter[k + 1] * in[clamp(i + k, 0, n - 1)];
    out[i] = sum;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Look up 88 values and smooth 1001 with constant weights."""
    lookup, stencil = kernels(ctx, SOURCE, *KERNELS)
    out_dev = to_device(ctx, np.zeros(88, np.int32))
    lookup(queue, (88,), (8,), out_dev)
    data = np.random.default_rng(14).integers(0, 100, 1001).astype(np.float32)
    smooth_dev = to_device(ctx, np.zeros_like(data))
    stencil(queue, (1024,), (64,), to_device(ctx, data), smooth_dev, np.int32(1001))
    outputs = {
        "lookup": to_host(queue, out_dev, np.zeros(88, np.int32)),
        "smooth": to_host(queue, smooth_dev, data),
    }

    table = np.array([[1, 2, 3, 4, 5], [10, 20, 30, 40, 50], [-1, -2, -3, 0, 0]])
    letters = np.frombuffer(b"split or whole", np.uint8).astype(int)
    i = np.arange(88)
    v = table[i % 3, i % 5] + table[np.where(i % 2, 1, 2), i // 2 % 5] + letters[i % letters.size]
    same(outputs["lookup"], (np.clip(v, -25, 100) * 8).astype(np.int32), "lookup")
    edged = np.pad(data, 1, mode="edge")
    same(outputs["smooth"], edged[:-2] * 0.25 + edged[1:-1] * 0.5 + edged[2:] * 0.25, "smooth")
    return outputs
