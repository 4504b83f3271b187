"""What a device does for itself: atomic operations on a shared buffer, local memory, and printf."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same

SOURCE = """
__kernel void count(__global const int *data, __global int *bins, int first)
{
    __local int own[8];
    if (get_local_id(0) < 8)
        own[get_local_id(0)] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&own[data[first + get_global_id(0)] & 7]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) < 8)
        atomic_add(&bins[get_local_id(0)], own[get_local_id(0)]);
}
__kernel void say(int n) { printf("device %d\\n", n); }
"""
LENGTH = 16 * 60


def run(devices: list[cl.Device]) -> Outputs:
    """All devices count into the same bins, without events: a launch is done as one."""
    context = cl.Context(devices)
    queues = [cl.CommandQueue(context, device) for device in devices]
    program = cl.Program(context, SOURCE).build()
    data = np.random.default_rng(2).integers(0, 1 << 20, LENGTH, dtype=np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    given, bins = (cl.Buffer(context, flags, hostbuf=each) for each in (data, np.zeros(8, np.int32)))
    edges = np.linspace(0, LENGTH // 16, len(devices) + 1).astype(int) * 16
    for k, queue in enumerate(queues):
        if edges[k] < edges[k + 1]:
            size = (int(edges[k + 1] - edges[k]),)
            cl.Kernel(program, "count")(queue, size, (16,), given, bins, np.int32(edges[k])).wait()
        cl.Kernel(program, "say")(queue, (1,), None, np.int32(k))
        queue.finish()
    found = np.empty(8, np.int32)
    cl.enqueue_copy(queues[-1], found, bins)
    same(found, np.bincount(data & 7, minlength=8).astype(np.int32), "bins")
    return {"bins": found}
