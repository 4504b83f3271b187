"""Rows of buffers and boxes of images: written, launched on, copied and read, mostly elsewhere each time."""

import numpy as np
import pyopencl as cl
from pyopencl import _cl

from tests.programs._images import FLOAT, IMAGE2D, RGBA, image, read
from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"rt_step": "split", "rt_blend": "some"}

SOURCE = """
__kernel void rt_step(__global uint *data, uint k)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 69069u + k;
}
__kernel void rt_blend(read_only image2d_t from, write_only image2d_t to, float k)
{
    const sampler_t all = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, at, read_imagef(from, all, at) * 0.5f + k);
}
"""
PITCH, ROWS = 256, 64
STEPS = 40


def part(data: Array, pitch: int, at: tuple[int, int], shape: tuple[int, int]) -> Array:
    """The bytes of ``shape`` (row, rows) from row and column ``at`` on; it shares them."""
    (column, row), (nbytes, rows) = at, shape
    return data.view(np.uint8).reshape(-1, pitch)[row : row + rows, column : column + nbytes]


def buffers(queue: cl.CommandQueue, ctx: cl.Context, step: cl.Kernel) -> Outputs:
    """Rows: of these shapes in turn, at places that differ; the copies have another pitch."""
    random = np.random.default_rng(21)
    data, other = (random.integers(0, 1 << 32, PITCH * ROWS // 4, dtype=np.uint32) for _ in range(2))
    here, there = to_device(ctx, data), to_device(ctx, other)
    read_rows = []
    for number in range(STEPS):
        nbytes, rows = ((64, 20), (4, 50), (PITCH, 3))[number // 12 % 3]
        column, row = (int(random.integers(0, most + 1)) for most in (PITCH - nbytes, ROWS - rows))
        box = {"buffer_origin": (column, row, 0), "host_origin": (0, 0, 0), "region": (nbytes, rows, 1)}
        box |= {"buffer_pitches": (PITCH, 0), "host_pitches": (nbytes + 8, 0)}
        written = random.integers(0, 256, (rows, nbytes + 8), dtype=np.uint8)
        cl.enqueue_copy(queue, here, written, **box)
        part(data, PITCH, (column, row), (nbytes, rows))[:] = written[:, :nbytes]
        step(queue, (data.size,), (64,), here, np.uint32(number))
        data = data * np.uint32(69069) + np.uint32(number)
        found = np.zeros((rows, nbytes + 8), np.uint8)
        cl.enqueue_copy(queue, found, here, **box)
        same(found[:, :nbytes], part(data, PITCH, (column, row), (nbytes, rows)), f"rows of step {number}")
        read_rows.append(found.ravel())
        if nbytes <= PITCH // 2:
            (column, row), target = (8, 2), (12, 5)
            shape = {"src_pitches": (PITCH, 0), "dst_pitches": (PITCH // 2, 0)}
            places = {"src_origin": (column, row, 0), "dst_origin": (*target, 0), "region": (nbytes, rows, 1)}
            cl.enqueue_copy(queue, there, here, **shape, **places)
            copied = part(data, PITCH, (column, row), (nbytes, rows))
            part(other, PITCH // 2, target, (nbytes, rows))[:] = copied
        if number % 4 == 0:
            step(queue, (other.size,), (64,), there, np.uint32(7))
            other = other * np.uint32(69069) + np.uint32(7)
    outputs = {"data": to_host(queue, here, data), "copies": to_host(queue, there, other)}
    same(outputs["data"], data, "data")
    same(outputs["copies"], other, "copies")
    return outputs | {"read": np.concatenate(read_rows)}


def pictures(queue: cl.CommandQueue, ctx: cl.Context, blend: cl.Kernel) -> Outputs:
    """Boxes of an image, which a kernel makes another one of; all of that one, or a box."""
    random = np.random.default_rng(22)
    width, height = 16, 12
    truth, made = np.zeros((height, width, 4), np.float32), np.zeros((height, width, 4), np.float32)
    pair = [image(ctx, IMAGE2D, RGBA, FLOAT, (width, height), host=each) for each in (truth, made)]
    for number in range(STEPS):
        wide, high = ((8, 4), (width, 5), (3, height))[number // 12 % 3]
        x, y = (int(random.integers(0, most + 1)) for most in (width - wide, height - high))
        pixels = random.random((high, wide + 2, 4), np.float32)
        region, pitch = (wide, high, 1), 16 * (wide + 2)
        _cl._enqueue_write_image(queue, pair[0], (x, y, 0), region, pixels, pitch, is_blocking=True)
        truth[y : y + high, x : x + wide] = pixels[:, :wide]
        blend(queue, (width, height), (8, 4), *pair, np.float32(number))
        made = truth * np.float32(0.5) + np.float32(number)
        found = np.zeros((high, wide + 2, 4), np.float32)
        _cl._enqueue_read_image(queue, pair[1], (x, y, 0), region, found, pitch)
        same(found[:, :wide], made[y : y + high, x : x + wide], f"box of step {number}")
    outputs = {"picture": read(queue, pair[0], (width, height), truth)}
    outputs["made"] = read(queue, pair[1], (width, height), made)
    same(outputs["picture"], truth, "picture")
    same(outputs["made"], made, "what was made of it")
    return outputs


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Buffers, then images."""
    step, blend = kernels(ctx, SOURCE, *KERNELS)
    return buffers(queue, ctx, step) | pictures(queue, ctx, blend)
