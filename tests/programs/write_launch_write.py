"""``write A; launch on A; write A; launch`` over and over without waiting, first behind a user event."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ww_take": "split"}

SOURCE = """
__kernel void ww_take(__global const uint *a, __global uint *out, uint k)
{
    size_t i = get_global_id(0);
    out[i] = out[i] * 31u + (a[i] ^ k);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Forty rounds; every other write covers only a part."""
    (take,) = kernels(ctx, SOURCE, "ww_take")
    n = 1040
    rng = np.random.default_rng(43)
    a, out = np.zeros(n, np.uint32), np.zeros(n, np.uint32)
    a_dev, out_dev = to_device(ctx, a), to_device(ctx, out)
    gate = cl.UserEvent(ctx)
    cl.enqueue_marker(queue, wait_for=[gate])
    kept: list[cl.Event] = []
    for k in range(40):
        first, last = (0, n) if k % 2 == 0 else (37 + k, 900 - 3 * k)
        fresh = rng.integers(0, 1 << 32, last - first, dtype=np.uint32)
        kept.append(cl.enqueue_copy(queue, a_dev, fresh, dst_offset=first * 4, is_blocking=False))
        take(queue, (n,), (40,), a_dev, out_dev, np.uint32(k))
        a[first:last] = fresh
        out = out * np.uint32(31) + (a ^ np.uint32(k))
        if k == 20:
            queue.flush()
            gate.set_status(cl.command_execution_status.COMPLETE)
    outputs = {"a": to_host(queue, a_dev, a), "out": to_host(queue, out_dev, out)}
    same(outputs["a"], a, "a")
    same(outputs["out"], out, "out")
    return outputs
