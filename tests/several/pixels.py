"""Images that go from device to device: written by one, sampled by the next, read by the host."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same

SOURCE = """
__kernel void turn(read_only image2d_t from, write_only image2d_t to)
{
    const sampler_t exact = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imageui(to, (int2)(at.y, get_global_size(0) - 1 - at.x), read_imageui(from, exact, at) + 1);
}
"""
SIDE = 32


def run(devices: list[cl.Device]) -> Outputs:
    """A quarter turn each, eight times."""
    context = cl.Context(devices)
    queues = [cl.CommandQueue(context, device) for device in devices]
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8)
    ends = [cl.create_image(context, cl.mem_flags.READ_WRITE, form, shape=(SIDE, SIDE)) for _ in range(2)]
    pixels = np.random.default_rng(4).integers(0, 200, (SIDE, SIDE, 4), dtype=np.uint8)
    cl.enqueue_copy(queues[0], ends[0], pixels, origin=(0, 0), region=(SIDE, SIDE))
    turn = cl.Kernel(cl.Program(context, SOURCE).build(), "turn")
    before: list[cl.Event] = []
    for k in range(8):
        before = [turn(queues[k % len(queues)], (SIDE, SIDE), None, *ends, wait_for=before)]
        ends.reverse()
        pixels = np.rot90(pixels, k=1) + 1
    found = np.empty_like(pixels, order="C")
    cl.enqueue_copy(queues[-1], found, ends[0], origin=(0, 0), region=(SIDE, SIDE), wait_for=before)
    same(found, pixels, "pixels")
    return {"pixels": found}
