"""A chain of commands in which each callback enqueues the next launch and its read."""

import threading

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ce_next": "split"}

SOURCE = """
__kernel void ce_next(__global uint *data, uint k)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 7u + k;
}
"""

STEPS = 20


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Twenty launches started by callbacks, all waiting for a user event at first."""
    (step,) = kernels(ctx, SOURCE, "ce_next")
    n = 72
    device = to_device(ctx, np.zeros(n, np.uint32))
    done = threading.Event()
    events: list[cl.Event] = []
    errors: list[BaseException] = []

    def enqueue(k: int, *after: cl.Event) -> None:
        event = step(queue, (n,), (8,), device, np.uint32(k), wait_for=list(after))
        events.append(event)
        event.set_callback(cl.command_execution_status.COMPLETE, lambda code: finished(k))
        queue.flush()

    def finished(k: int) -> None:
        try:
            if k + 1 < STEPS:
                enqueue(k + 1)
            else:
                done.set()
        except BaseException as error:
            errors.append(error)
            done.set()

    gate = cl.UserEvent(ctx)
    enqueue(0, gate)
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert done.wait(30), f"the chain stopped after {len(events)} launches"
    if errors:
        raise errors[0]
    value = 0
    for k in range(STEPS):
        value = value * 7 + k
    expected = np.full(n, value & 0xFFFFFFFF, np.uint32)
    out = to_host(queue, device, expected)
    same(out, expected, "out")
    return {"out": out}
