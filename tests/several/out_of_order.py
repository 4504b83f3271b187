"""Out-of-order queues of all devices: only events say what comes before what."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same

SOURCE = """
__kernel void add_up(__global const int *a, __global const int *b, __global int *sum)
{
    size_t i = get_global_id(0);
    sum[i] = a[i] * 3 + b[i];
}
"""
LEAVES, LENGTH = 16, 256


def run(devices: list[cl.Device]) -> Outputs:
    """A tree of sums, whose nodes are dealt out to devices and enqueued with the root first in mind."""
    context = cl.Context(devices)
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queues = [cl.CommandQueue(context, device, order) for device in devices]
    program = cl.Program(context, SOURCE).build()
    values = [np.random.default_rng(k).integers(-99, 99, LENGTH, dtype=np.int32) for k in range(LEAVES)]
    level = []
    for k, value in enumerate(values):
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, value.nbytes)
        level.append((buffer, cl.enqueue_copy(queues[k % len(queues)], buffer, value, is_blocking=False)))
    number = 0
    while len(level) > 1:
        above = []
        for (a, first), (b, second) in zip(level[::2], level[1::2], strict=True):
            into = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * LENGTH)
            queue = queues[number % len(queues)]
            number += 1
            node = cl.Kernel(program, "add_up")
            above.append((into, node(queue, (LENGTH,), (32,), a, b, into, wait_for=[first, second])))
        level = above
        values = [3 * a + b for a, b in zip(values[::2], values[1::2], strict=True)]
    found = np.empty(LENGTH, np.int32)
    cl.enqueue_copy(queues[-1], found, level[0][0], wait_for=[level[0][1]])
    same(found, values[0], "root")
    return {"root": found}
