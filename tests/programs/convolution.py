"""A 3-D box filter that leaves its rim alone (global offsets) and a 1-D filter that reads backwards."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, same, to_device, to_host

KERNELS: dict[str, str] = {"co_box": "split", "co_line": "split"}

SOURCE = """
__kernel void co_box(__global const ushort *in, __global ushort *out)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    int nx = get_global_size(0) + 2 * get_global_offset(0);
    int ny = get_global_size(1) + 2 * get_global_offset(1);
    uint sum = 0;
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                sum += in[((z + dz) * ny + y + dy) * nx + x + dx];
    out[(z * ny + y) * nx + x] = sum / 27;
}

__kernel void co_line(__global const float *in, __global float *out, __constant float *taps, int n, int width)
{
    for (int i = get_global_size(0) - 1 - get_global_id(0); i >= 0; i -= get_global_size(0)) {
        float sum = 0.0f;
        int k = width;
        while (--k >= 0) {
            if (i - k < 0)
                continue;
            sum = mad(taps[k], in[i - k], sum);
        }
        if (i < n)
            out[i] = sum;
    }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Twice a box filter of 20 x 14 x 12 points and one convolution of 400 samples."""
    box, line = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(40)
    volume = rng.integers(0, 65536, (12, 14, 20), dtype=np.uint16)
    a, b = to_device(ctx, volume), to_device(ctx, volume)
    expected, current = volume.copy(), volume
    for source, target in ((a, b), (b, a)):
        box(queue, (18, 12, 10), (6, 3, 1), source, target, global_offset=(1, 1, 1))
        total = np.zeros((10, 12, 18), np.uint32)
        for dz, dy, dx in np.ndindex(3, 3, 3):
            total += current[dz : dz + 10, dy : dy + 12, dx : dx + 18]
        expected = volume.copy()
        expected[1:-1, 1:-1, 1:-1] = total // 27
        current = expected
    samples, taps = rng.random(400, dtype=np.float32), rng.random(9, dtype=np.float32)
    line_dev = to_device(ctx, np.zeros(400, np.float32))
    line(
        queue,
        (400,),
        (40,),
        to_device(ctx, samples),
        line_dev,
        to_device(ctx, taps),
        np.int32(400),
        np.int32(9),
    )
    outputs = {"volume": to_host(queue, a, volume), "line": to_host(queue, line_dev, samples)}
    same(outputs["volume"], expected, "volume")
    near(outputs["line"], np.convolve(samples.astype(float), taps)[:400], "line")
    return outputs
