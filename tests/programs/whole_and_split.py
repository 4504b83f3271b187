"""Kernels that can be divided and kernels with used atomic results, in turn on the same buffers."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ws_grow": "split", "ws_serial": "whole"}

SOURCE = """
__kernel void ws_grow(__global uint *data, __global const uint *counter)
{
    size_t i = get_global_id(0);
    data[i] += counter[0] + (uint)i;
}

__kernel void ws_serial(__global uint *data, __global uint *counter, __global uchar *taken)
{
    uint ticket = atomic_add(&counter[0], 2u);
    taken[ticket / 2 % get_global_size(0)] += 1;
    if (ticket % 2 == 0)
        data[get_global_id(0) * 3] ^= 0x5555u;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Twelve rounds with a partial host write every third one."""
    grow, serial = kernels(ctx, SOURCE, *KERNELS)
    n, items = 480, 160
    data, counter, taken = np.zeros(n, np.uint32), np.zeros(1, np.uint32), np.zeros(items, np.uint8)
    data_dev, counter_dev, taken_dev = (to_device(ctx, x) for x in (data, counter, taken))
    for k in range(12):
        grow(queue, (n,), (32,), data_dev, counter_dev)
        data += counter[0] + np.arange(n, dtype=np.uint32)
        serial(queue, (items,), (16,), data_dev, counter_dev, taken_dev)
        counter += 2 * items
        taken += 1
        data[::3] ^= 0x5555
        if k % 3 == 0:
            patch = np.full(50, k, np.uint32)
            cl.enqueue_copy(queue, data_dev, patch, dst_offset=4 * 30 * k)
            data[30 * k : 30 * k + 50] = k
    outputs = {
        "data": to_host(queue, data_dev, data),
        "counter": to_host(queue, counter_dev, counter),
        "taken": to_host(queue, taken_dev, taken),
    }
    for name, expected in (("data", data), ("counter", counter), ("taken", taken)):
        same(outputs[name], expected, name)
    return outputs
