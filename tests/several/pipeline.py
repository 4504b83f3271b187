"""Blocks that go through all devices in turn, each stage waiting for the one before by its event."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same

SOURCE = """
__kernel void stage(__global uint *data, uint by)
{
    data[get_global_id(0)] = data[get_global_id(0)] * 1664525u + by;
}
"""
BLOCKS, LENGTH, STAGES = 6, 512, 9


def run(devices: list[cl.Device]) -> Outputs:
    """Nothing begins until a user event is set; then blocks are under way on all devices at once."""
    context = cl.Context(devices)
    queues = [cl.CommandQueue(context, device) for device in devices]
    program = cl.Program(context, SOURCE).build()
    data = np.random.default_rng(5).integers(0, 1 << 32, (BLOCKS, LENGTH), dtype=np.uint32)
    gate = cl.UserEvent(context)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    blocks = [cl.Buffer(context, flags, hostbuf=block) for block in data]
    last: list[cl.Event] = [gate] * BLOCKS
    for number in range(STAGES):
        for k, block in enumerate(blocks):
            queue = queues[(number + k) % len(queues)]
            last[k] = cl.Kernel(program, "stage")(
                queue, (LENGTH,), (64,), block, np.uint32(number), wait_for=[last[k]]
            )
    assert all(each.command_execution_status > cl.command_execution_status.COMPLETE for each in last)
    gate.set_status(cl.command_execution_status.COMPLETE)
    found = np.empty_like(data)
    for k, block in enumerate(blocks):
        cl.enqueue_copy(queues[k % len(queues)], found[k], block, wait_for=[last[k]])
    for number in range(STAGES):
        data = data * np.uint32(1664525) + np.uint32(number)
    same(found, data, "blocks")
    return {"blocks": found}
