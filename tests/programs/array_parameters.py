"""Parameters declared as arrays, of kernels and of functions, and ids of a dimension that is computed."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"arrays_in_order": "split", "computed_dimensions": "split"}

SOURCE = """
int turned(__local const int row[8], __constant int order[], int i)
{
    return row[order[i] & 7 ^ 1];
}

void store(__global int to[], int i, int value)
{
    to += i;
    *to = value;
}

__kernel void arrays_in_order(
    __global int out[], __global const int in[8], __constant int order[8], __local int row[])
{
    int i = get_global_id(0), k = get_local_id(0);
    row[k] = in[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    store(out + 3, i, turned(row, order, k));
}

__kernel void computed_dimensions(__global int *out, uint n)
{
    int at = 0;
    for (uint d = 0; d < 4; ++d)
        at = 8 * at + get_global_id(d);
    out[at] = 1 + get_group_id(n % 4) + 100 * get_num_groups(n % 3);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Launch both kernels."""
    in_order, computed = kernels(ctx, SOURCE, "arrays_in_order", "computed_dimensions")
    random = np.random.default_rng(24)
    values = random.integers(0, 1000, 192).astype(np.int32)
    order = random.permutation(8).astype(np.int32)
    expected = np.full(200, -1, np.int32)
    expected[3:195] = values.reshape(-1, 8)[:, order ^ 1].ravel()
    out_dev = to_device(ctx, np.full(200, -1, np.int32))
    in_order(queue, (192,), (8,), out_dev, to_device(ctx, values), to_device(ctx, order), cl.LocalMemory(32))
    outputs: Outputs = {"arrays": to_host(queue, out_dev, expected)}
    same(outputs["arrays"], expected, "arrays in order")

    size, local = (8, 4, 2), (4, 1, 2)
    for n in range(4):
        expected = np.zeros(4096, np.int32)
        for x, y, z in np.ndindex(size):
            groups = (x // 4, y, z // 2, 0)
            counts = (2, 4, 1)
            expected[8 * (z + 8 * (y + 8 * x))] = 1 + groups[n % 4] + 100 * counts[n % 3]
        out_dev = to_device(ctx, np.zeros(4096, np.int32))
        computed(queue, size, local, out_dev, np.uint32(n))
        outputs[f"dimension{n}"] = to_host(queue, out_dev, expected)
        same(outputs[f"dimension{n}"], expected, f"computed dimension {n}")
    return outputs
