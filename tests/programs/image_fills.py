"""Images filled with colors, whole and in part, and read by kernels afterwards."""

import numpy as np
import pyopencl as cl

from tests.programs._images import (
    BGRA,
    FLOAT,
    HALF,
    IMAGE1D_ARRAY,
    IMAGE2D,
    IMAGE3D,
    INT8,
    INT32,
    RGBA,
    UINT8,
    UINT16,
    UNORM8,
    R,
    image,
    read,
    region_of,
)
from tests.programs._kit import Outputs, kernels, to_device, to_host

KERNELS: dict[str, str] = {"il_read": "split"}

SOURCE = """
__kernel void il_read(read_only image2d_t image, __global float4 *result)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    result[at.y * get_global_size(0) + at.x] = read_imagef(image, at);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Colors of all types into images of several kinds."""
    (reads,) = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(11)
    outputs: Outputs = {}
    floats = np.array([0.2, 1.0, 2.5, -3.0], np.float32)  # 0.2 * 255 is 51
    signed = np.array([-7, 100, 300, -300], np.int32)
    unsigned = np.array([7, 100, 300, 70000], np.uint32)
    cases = [
        *((RGBA, UNORM8, floats, np.uint8), (BGRA, UNORM8, floats, np.uint8), (R, FLOAT, floats, np.float32)),
        *((RGBA, HALF, floats, np.float16), (RGBA, INT8, signed, np.int8), (R, INT32, signed, np.int32)),
        *((RGBA, UINT8, unsigned, np.uint8), (RGBA, UINT16, unsigned, np.uint16)),
    ]
    shapes = [(IMAGE2D, (30, 8)), (IMAGE3D, (10, 6, 4)), (IMAGE1D_ARRAY, (16, 5))]
    for order, channel, color, stored in cases:
        for kind, shape in shapes:
            channels = 1 if order == R else 4
            pixels = random.integers(0, 100, (*reversed(shape), channels)).astype(stored)
            picture = image(ctx, kind, order, channel, shape, host=pixels)
            full = region_of(shape)
            part = tuple(max(1, s // 2) for s in full)
            cl.enqueue_fill_image(queue, picture, color, tuple(s // 4 for s in full), part)
            key = f"{int(order):x} {int(channel):x} {len(shape)}"
            outputs[f"{key} part"] = read(queue, picture, shape, pixels)
            cl.enqueue_fill_image(queue, picture, color, (0, 0, 0), full)
            if kind == IMAGE2D and channel in (UNORM8, FLOAT, HALF):
                result = to_device(ctx, np.zeros((shape[1], shape[0], 4), np.float32))
                reads(queue, shape, (2, 2), picture, result)
                outputs[f"{key} read"] = to_host(queue, result, np.zeros((shape[1], shape[0], 4), np.float32))
            outputs[f"{key} whole"] = read(queue, picture, shape, pixels)
    return outputs
