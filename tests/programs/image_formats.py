"""Pixels of every format: what kernels read of the host's bytes, and the bytes that kernels write."""

import numpy as np
import pyopencl as cl

from tests.programs._images import (
    BGRA,
    FLOAT,
    HALF,
    IMAGE2D,
    INT8,
    INT16,
    INT32,
    RGBA,
    SNORM8,
    SNORM16,
    UINT8,
    UINT16,
    UINT32,
    UNORM8,
    UNORM16,
    A,
    R,
    image,
    read,
)
from tests.programs._kit import Outputs, kernels, to_device, to_host

KERNELS: dict[str, str] = {
    **dict.fromkeys(("if_read_f", "if_read_i", "if_read_ui"), "split"),
    **dict.fromkeys(("if_write_f", "if_write_i", "if_write_ui"), "some"),
}

TEMPLATE = """
__kernel void if_read_SUFFIX(read_only image2d_t image, __global TYPE4 *result)
{
    const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    result[at.y * get_global_size(0) + at.x] = read_imageSUFFIX(image, s, at);
}
__kernel void if_write_SUFFIX(write_only image2d_t image, __global const TYPE4 *values)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imageSUFFIX(image, at, values[at.y * get_global_size(0) + at.x]);
}
__kernel void if_facts_SUFFIX(read_only image2d_t image, __global int *facts)
{
    facts[0] = get_image_channel_order(image);
    facts[1] = get_image_channel_data_type(image);
    facts[2] = get_image_width(image);
    facts[3] = get_image_height(image);
}
"""
TYPES = {"f": "float", "i": "int", "ui": "uint"}
STORED = {
    UNORM8: (np.uint8, "f"),
    SNORM8: (np.int8, "f"),
    UNORM16: (np.uint16, "f"),
    SNORM16: (np.int16, "f"),
    HALF: (np.float16, "f"),
    FLOAT: (np.float32, "f"),
    INT8: (np.int8, "i"),
    INT16: (np.int16, "i"),
    INT32: (np.int32, "i"),
    UINT8: (np.uint8, "ui"),
    UINT16: (np.uint16, "ui"),
    UINT32: (np.uint32, "ui"),
}


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Read and write images of all formats that the device has."""
    source = "".join(TEMPLATE.replace("SUFFIX", s).replace("TYPE", t) for s, t in TYPES.items())
    made = {s: kernels(ctx, source, f"if_read_{s}", f"if_write_{s}", f"if_facts_{s}") for s in TYPES}
    flags = cl.mem_flags.READ_WRITE
    found = cl.get_supported_image_formats(ctx, flags, IMAGE2D)
    supported = {(int(f.channel_order), int(f.channel_data_type)) for f in found}
    outputs: Outputs = {"supported": np.array(sorted(supported), np.int32)}
    random = np.random.default_rng(7)
    width, height = 20, 12
    for order in (R, A, RGBA, BGRA):
        for channel, (stored, suffix) in STORED.items():
            if (int(order), int(channel)) not in supported:
                continue
            reads, writes, facts = made[suffix]
            channels = 1 if order in (R, A) else 4
            raw = random.integers(0, 256, (height, width, channels, np.dtype(stored).itemsize), np.uint8)
            if channel in (HALF, FLOAT):
                raw = random.normal(0, 100, (height, width, channels)).astype(stored).view(np.uint8)
            pixels = raw.reshape(height, width, -1)
            picture = image(ctx, IMAGE2D, order, channel, (width, height), flags, pixels)
            like = np.zeros((height, width, 4), {"f": np.float32, "i": np.int32, "ui": np.uint32}[suffix])
            values = to_device(ctx, like)
            reads(queue, (width, height), (4, 4), picture, values)
            key = f"{int(order):x} {int(channel):x}"
            outputs[f"{key} read"] = to_host(queue, values, like)
            if suffix != "f":
                changed = random.integers(-70000 if suffix == "i" else 0, 70000, like.shape).astype(
                    like.dtype
                )
            else:
                scale = 1000.0 if channel in (HALF, FLOAT) else 1.5
                changed = (random.integers(-256, 257, like.shape) / np.float32(256) * scale).astype(
                    np.float32
                )
                if channel not in (HALF, FLOAT):
                    changed = np.round(changed)  # how a driver rounds fractions is its own affair
            writes(queue, (width, height), (4, 4), picture, to_device(ctx, changed))
            outputs[f"{key} written"] = read(queue, picture, (width, height), pixels)
            numbers = to_device(ctx, np.zeros(4, np.int32))
            facts(queue, (1,), None, picture, numbers)
            outputs[f"{key} facts"] = to_host(queue, numbers, np.zeros(4, np.int32))
    return outputs
