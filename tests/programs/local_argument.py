"""``__local`` memory passed as two arguments, whose sizes change from launch to launch."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"la_window": "split"}

SOURCE = """
__kernel void la_window(__global const int *in, __local int *tile, __global long *out, __local long *sums,
                        int radius, int n)
{
    int lid = get_local_id(0), size = get_local_size(0), base = get_group_id(0) * size;
    for (int t = lid; t < size + 2 * radius; t += size) {
        int i = base + t - radius;
        tile[t] = i >= 0 && i < n ? in[i] : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    long sum = 0;
    for (int t = 0; t <= 2 * radius; ++t)
        sum += (long)tile[lid + t] * (t + 1);
    sums[lid] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (base + lid < n)
        out[base + lid] = sums[lid] - sums[(lid + 1) % size];
}
"""


def expected_window(data: np.ndarray, local: int, radius: int) -> np.ndarray:
    """The windowed differences, computed on the host."""
    n = data.size
    padded_n = -(-n // local) * local
    padded = np.zeros(padded_n + 2 * radius, np.int64)
    padded[radius : radius + n] = data
    sums = sum(
        (padded[t : t + padded_n] * (t + 1) for t in range(2 * radius + 1)), np.zeros(padded_n, np.int64)
    )
    rows = sums.reshape(-1, local)
    return (rows - np.roll(rows, -1, axis=1)).ravel()[:n]


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Three launches with different group sizes and radii."""
    (window,) = kernels(ctx, SOURCE, "la_window")
    data = np.random.default_rng(3).integers(-1000, 1000, 700, dtype=np.int32)
    in_dev = to_device(ctx, data)
    outputs: Outputs = {}
    for local, radius in ((32, 3), (64, 17), (16, 5)):
        out_dev = to_device(ctx, np.zeros(data.size, np.int64))
        tile, sums = cl.LocalMemory(4 * (local + 2 * radius)), cl.LocalMemory(8 * local)
        size = -(-data.size // local) * local
        window(queue, (size,), (local,), in_dev, tile, out_dev, sums, np.int32(radius), np.int32(data.size))
        expected = expected_window(data, local, radius)
        outputs[f"local{local}"] = to_host(queue, out_dev, expected)
        same(outputs[f"local{local}"], expected, f"local size {local}, radius {radius}")
    return outputs
