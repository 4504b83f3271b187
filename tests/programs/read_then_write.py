"""A non-blocking read into an array, then a non-blocking write from the same array, in order."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"rw_step": "split"}

SOURCE = """
__kernel void rw_step(__global ushort *data, ushort k)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 3 + k;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Twenty times A, array, B without a wait, with A changed in between; half of it behind a user event."""
    (step,) = kernels(ctx, SOURCE, "rw_step")
    n = 1536
    a = np.arange(n, dtype=np.uint16)
    b = np.zeros(n, np.uint16)
    a_dev, b_dev = to_device(ctx, a), to_device(ctx, b)
    array = np.zeros(n, np.uint16)
    kept: list[cl.Event] = []
    gate = cl.UserEvent(ctx)
    for k in range(20):
        if k == 10:
            cl.enqueue_marker(queue, wait_for=[gate])
        step(queue, (n,), (64,), a_dev, np.uint16(k))
        kept.append(cl.enqueue_copy(queue, array, a_dev, is_blocking=False))
        kept.append(cl.enqueue_copy(queue, b_dev, array, is_blocking=False))
        step(queue, (n,), (64,), b_dev, np.uint16(100 + k))
        a = a * np.uint16(3) + np.uint16(k)
        b = a * np.uint16(3) + np.uint16(100 + k)
    queue.flush()
    gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    same(array, a, "array")
    outputs = {"array": array, "a": to_host(queue, a_dev, a), "b": to_host(queue, b_dev, b)}
    same(outputs["a"], a, "a")
    same(outputs["b"], b, "b")
    return outputs
