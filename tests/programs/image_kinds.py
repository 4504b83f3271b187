"""Images of every kind read and written by kernels: lines, planes, volumes and arrays of them."""

import numpy as np
import pyopencl as cl

from tests.programs._images import (
    IMAGE1D,
    IMAGE1D_ARRAY,
    IMAGE2D,
    IMAGE2D_ARRAY,
    IMAGE3D,
    RGBA,
    UINT16,
    image,
    read,
    write,
)
from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KINDS = {
    "image1d_t": (IMAGE1D, (60,), "(int)x"),
    "image1d_array_t": (IMAGE1D_ARRAY, (60, 7), "(int2)(x, y)"),
    "image2d_t": (IMAGE2D, (60, 7), "(int2)(x, y)"),
    "image2d_array_t": (IMAGE2D_ARRAY, (12, 9, 10), "(int4)(x, y, z, 0)"),
    "image3d_t": (IMAGE3D, (12, 9, 10), "(int4)(x, y, z, 0)"),
}
KERNELS: dict[str, str] = {
    f"ik_{what}_{name}": "some" for name in KINDS for what in ("read", "write", "move")
}

PROLOGUE = """
#ifdef cl_khr_3d_image_writes
#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable
#endif
constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
"""
TEMPLATE = """
__kernel void ik_read_TYPE(read_only TYPE image, __global uint4 *result)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    size_t at = (z * get_global_size(1) + y) * get_global_size(0) + x;
    result[at] = read_imageui(image, nearest, AT) + (uint4)(x, y, z, get_image_width(image));
}
__kernel void ik_write_TYPE(write_only TYPE image, __global const uint4 *source)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    size_t at = (z * get_global_size(1) + y) * get_global_size(0) + x;
    write_imageui(image, AT, source[at] * 3 + 1);
}
__kernel void ik_move_TYPE(read_only TYPE from, write_only TYPE to)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    uint4 value = read_imageui(from, AT);
    if ((x + y + z) % 3 != 0)
        write_imageui(to, AT, value.yzwx);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Host to image, image to buffer, buffer to image, image to image and back, for every kind."""
    random = np.random.default_rng(6)
    outputs: Outputs = {}
    source = PROLOGUE + "".join(TEMPLATE.replace("TYPE", n).replace("AT", k[2]) for n, k in KINDS.items())
    for name, (kind, shape, _) in KINDS.items():
        reads, writes, moves = kernels(ctx, source, f"ik_read_{name}", f"ik_write_{name}", f"ik_move_{name}")
        pixels = random.integers(0, 60000, (*reversed(shape), 4), np.uint16)
        first = image(ctx, kind, RGBA, UINT16, shape, host=pixels)
        second = image(ctx, kind, RGBA, UINT16, shape, cl.mem_flags.WRITE_ONLY)
        wide = to_device(ctx, np.zeros(pixels.shape, np.uint32))
        local = (6,) + (1,) * (len(shape) - 1)

        reads(queue, shape, local, first, wide)
        outputs[f"{name} read"] = to_host(queue, wide, np.zeros(pixels.shape, np.uint32))
        writes(queue, shape, local, second, wide)
        outputs[f"{name} written"] = read(queue, second, shape, pixels)
        write(queue, second, shape, pixels[::-1].copy())
        moves(queue, shape, local, first, second)
        outputs[f"{name} moved"] = read(queue, second, shape, pixels)
        same(read(queue, first, shape, pixels), pixels, f"{name}: an image that is only read")
    return outputs
