"""A 1D image over a buffer: kernels and the host see each other's bytes through either of them."""

import numpy as np
import pyopencl as cl

from tests.programs._images import IMAGE1D_BUFFER, INT32, RGBA, R, image
from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ib_gather": "split", "ib_scale": "split", "ib_store": "whole"}

SOURCE = """
__kernel void ib_gather(read_only image1d_buffer_t image, __global int4 *result)
{
    int i = get_global_id(0);
    result[i] = read_imagei(image, (i * 7) % (int)get_global_size(0)) + read_imagei(image, i);
}
__kernel void ib_scale(__global int *data, int factor) { data[get_global_id(0)] *= factor; }
__kernel void ib_store(write_only image1d_buffer_t image, __global const int *permutation)
{
    int i = get_global_id(0);
    write_imagei(image, permutation[i], (int4)(i, -i, i * i, 7));
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Buffer and image by turns."""
    gather, scale, store = kernels(ctx, SOURCE, *KERNELS)
    n = 240
    data = np.arange(4 * n + 12, dtype=np.int32)  # more bytes than pixels
    buffer = to_device(ctx, data)
    pixels = image(ctx, IMAGE1D_BUFFER, RGBA, INT32, (n,), buffer=buffer)
    narrow = image(ctx, IMAGE1D_BUFFER, R, INT32, (4 * n,), buffer=buffer)
    wide = to_device(ctx, np.zeros((n, 4), np.int32))
    thin = to_device(ctx, np.zeros((4 * n, 4), np.int32))
    outputs: Outputs = {}

    gather(queue, (n,), (8,), pixels, wide)
    outputs["first"] = to_host(queue, wide, np.zeros((n, 4), np.int32))
    scale(queue, (4 * n + 12,), (4,), buffer, np.int32(3))
    gather(queue, (n,), (8,), pixels, wide)
    outputs["after a kernel"] = to_host(queue, wide, np.zeros((n, 4), np.int32))
    gather(queue, (4 * n,), (8,), narrow, thin)
    outputs["of one channel"] = to_host(queue, thin, np.zeros((4 * n, 4), np.int32))
    cl.enqueue_copy(queue, buffer, data[::-1].copy())
    gather(queue, (n,), (8,), pixels, wide)
    outputs["after the host"] = to_host(queue, wide, np.zeros((n, 4), np.int32))

    order = np.random.default_rng(8).permutation(n).astype(np.int32)
    store(queue, (n,), (8,), pixels, to_device(ctx, order))
    scale(queue, (2 * n,), (4,), buffer, np.int32(-1))
    written = to_host(queue, buffer, data)
    expected = data[::-1].copy()
    i = np.arange(n)
    expected[: 4 * n].reshape(n, 4)[order] = np.stack([i, -i, i * i, np.full(n, 7)], 1)
    expected[: 2 * n] *= -1
    same(written, expected, "a buffer written through its image")
    gather(queue, (4 * n,), (8,), narrow, thin)
    outputs["at last"] = to_host(queue, thin, np.zeros((4 * n, 4), np.int32))
    outputs["buffer"] = written
    return outputs
