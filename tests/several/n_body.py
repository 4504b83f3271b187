"""Bodies that are dealt out to all devices: each step every device needs all positions and moves its own."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs

SOURCE = """
__kernel void step_bodies(__global const float4 *from, __global float4 *to, __global float4 *speed, int count,
                          int first)
{
    int me = get_global_id(0) + first;
    float4 own = from[me], pull = (float4)(0);
    for (int k = 0; k < count; k++) {
        float4 way = from[k] - own;
        float square = way.x * way.x + way.y * way.y + way.z * way.z + 0.01f;
        pull += way * (from[k].w / (square * square));
    }
    pull.w = 0;
    speed[me] += pull * 0.125f;
    to[me] = own + speed[me] * 0.125f;
}
"""
BODIES, STEPS = 240, 12


def run(devices: list[cl.Device]) -> Outputs:
    """Two buffers of positions in turn, one of speeds, shared by all; events tell when a step is over."""
    context = cl.Context(devices)
    queues = [cl.CommandQueue(context, device) for device in devices]
    random = np.random.default_rng(11)
    start = random.random((BODIES, 4), dtype=np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    positions = [cl.Buffer(context, flags, hostbuf=start) for _ in range(2)]
    speeds = cl.Buffer(context, flags, hostbuf=np.zeros_like(start))
    program = cl.Program(context, SOURCE).build()
    kernels = [cl.Kernel(program, "step_bodies") for _ in devices]
    edges = np.linspace(0, BODIES // 8, len(devices) + 1).astype(int) * 8
    before: list[cl.Event] = []
    for step in range(STEPS):
        ends = positions[step % 2], positions[1 - step % 2]
        over = []
        for queue, kernel, first, stop in zip(queues, kernels, edges[:-1], edges[1:], strict=True):
            if first == stop:
                continue
            counts = np.int32(BODIES), np.int32(first)
            over.append(kernel(queue, (int(stop - first),), (8,), *ends, speeds, *counts, wait_for=before))
            queue.flush()
        before = over
    found = np.empty_like(start), np.empty_like(start)
    for array, buffer in zip(found, (positions[STEPS % 2], speeds), strict=True):
        cl.enqueue_copy(queues[-1], array, buffer, wait_for=before)
    assert np.isfinite(found[0]).all() and not np.array_equal(found[0], start)
    return {"positions": found[0], "speeds": found[1]}
