"""2D images over buffers with gaps between the rows: kernels and the host see each other's bytes either way.

The image always has such images; on a driver that has none the program copies between buffers and images.
"""

import numpy as np
import pyopencl as cl

from tests.programs._images import IMAGE2D, UINT32, R, image, read
from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ip_turn": "split", "ip_gaps": "split", "ip_add": "split"}

SOURCE = """
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
__kernel void ip_turn(read_only image2d_t from, write_only image2d_t to, int shift)
{
    int x = get_global_id(0), y = get_global_id(1), height = get_image_height(from);
    uint4 above = read_imageui(from, nearest, (int2)(x, y - 1));
    uint4 there = read_imageui(from, nearest, (int2)(x, (y + shift) % height));
    write_imageui(to, (int2)(x, y), above * 3u + there);
}
__kernel void ip_gaps(__global uint *rows, uint pitch, uint width)
{
    uint x = get_global_id(0), y = get_global_id(1);
    rows[y * pitch + width + x] += 1000u * y + x;
}
__kernel void ip_add(__global uint *rows, uint pitch)
{
    rows[get_global_id(1) * pitch + get_global_id(0)] += get_global_id(0);
}
"""

WIDTH, HEIGHT, PITCH, START = 40, 48, 44, 1024
"""In pixels of 4 bytes; START: the first pixel's byte in the buffers."""


class Plane:
    """A 2D image of a part of a buffer, or of its own where the driver has no other."""

    def __init__(self, ctx: cl.Context, queue: cl.CommandQueue, data: Array) -> None:
        self.queue, self.rows = queue, to_device(ctx, data)
        part = self.rows.get_sub_region(START, PITCH * HEIGHT * 4)
        is_image = queue.device.platform.name == "SDI"
        self.is_view = is_image or "cl_khr_image2d_from_buffer" in queue.device.extensions.split()
        over = {"pitches": (PITCH * 4, 0), "buffer": part} if self.is_view else {}
        self.pixels = image(ctx, IMAGE2D, R, UINT32, (WIDTH, HEIGHT), **over)

    def to_image(self) -> None:
        """What a view does not need."""
        for y in range(0 if self.is_view else HEIGHT):
            at = START + y * PITCH * 4
            cl.enqueue_copy(self.queue, self.pixels, self.rows, offset=at, origin=(0, y), region=(WIDTH, 1))

    def to_rows(self) -> None:
        """What a view does not need."""
        for y in range(0 if self.is_view else HEIGHT):
            at = START + y * PITCH * 4
            cl.enqueue_copy(self.queue, self.rows, self.pixels, offset=at, origin=(0, y), region=(WIDTH, 1))


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Images and their buffers by turns."""
    turn, gaps, add = kernels(ctx, SOURCE, *KERNELS)
    data = np.arange(START // 4 + PITCH * HEIGHT + 64, dtype=np.uint32)
    planes = [Plane(ctx, queue, data), Plane(ctx, queue, data[::-1].copy())]
    expected = [data.copy(), data[::-1].copy()]
    views = [e[START // 4 :][: PITCH * HEIGHT].reshape(HEIGHT, PITCH) for e in expected]
    x, y = np.meshgrid(np.arange(WIDTH, dtype=np.uint32), np.arange(HEIGHT, dtype=np.uint32))
    beyond = PITCH - WIDTH
    outputs: Outputs = {}
    for step in range(4):
        source, target = step % 2, 1 - step % 2
        planes[source].to_image()
        turn(queue, (WIDTH, HEIGHT), (8, 4), planes[source].pixels, planes[target].pixels, np.int32(step + 5))
        planes[target].to_rows()
        old = views[source][:, :WIDTH]
        views[target][:, :WIDTH] = old[np.maximum(np.arange(HEIGHT) - 1, 0)] * np.uint32(3)
        views[target][:, :WIDTH] += np.roll(old, -(step + 5), axis=0)

        rows = planes[target].rows.get_sub_region(START, PITCH * HEIGHT * 4)
        gaps(queue, (beyond, HEIGHT), (beyond, 4), rows, np.uint32(PITCH), np.uint32(WIDTH))
        views[target][:, WIDTH:] += 1000 * y[:, :beyond] + x[:, :beyond]
        add(queue, (WIDTH, HEIGHT), (8, 4), rows, np.uint32(PITCH))
        views[target][:, :WIDTH] += x
        planes[target].to_image()
        outputs[f"pixels {step}"] = read(queue, planes[target].pixels, (WIDTH, HEIGHT), x)
        same(outputs[f"pixels {step}"], views[target][:, :WIDTH], f"pixels of step {step}")
    for number, plane in enumerate(planes):
        outputs[f"rows {number}"] = to_host(queue, plane.rows, data)
        same(outputs[f"rows {number}"], expected[number], f"buffer {number}")
    return outputs
