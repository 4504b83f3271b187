"""Two queues of one context that hand a buffer back and forth by events."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"tq_left": "split", "tq_right": "split"}

SOURCE = """
__kernel void tq_left(__global uint *data, __global uint *log)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 3u + 1u;
    log[i] += data[i] & 1u;
}

__kernel void tq_right(__global const uint *in, __global uint *out, uint k)
{
    size_t i = get_global_id(0);
    out[i] = in[(i + k) % get_global_size(0)] ^ k;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Alternate kernels on the two queues, each waiting for the other's last event."""
    left, right = kernels(ctx, SOURCE, *KERNELS)
    other = cl.CommandQueue(ctx)
    n = 520
    data = np.random.default_rng(22).integers(0, 1 << 32, n, dtype=np.uint32)
    log = np.zeros(n, np.uint32)
    a, b, log_dev = to_device(ctx, data), to_device(ctx, np.zeros(n, np.uint32)), to_device(ctx, log)
    last: list[cl.Event] = []
    for k in range(12):
        done = left(queue, (n,), (40,), a, log_dev, wait_for=last)
        queue.flush()
        done = right(other, (n,), (40,), a, b, np.uint32(k), wait_for=[done])
        copied = cl.enqueue_copy(other, a, b, wait_for=[done])
        other.flush()
        last = [copied]
        data = data * np.uint32(3) + np.uint32(1)
        log += data & 1
        data = np.roll(data, -k) ^ np.uint32(k)
    result = np.empty_like(data)
    cl.enqueue_copy(queue, result, a, wait_for=last)
    outputs = {"data": result, "log": to_host(queue, log_dev, log)}
    same(outputs["data"], data, "data")
    same(outputs["log"], log, "log")
    return outputs
