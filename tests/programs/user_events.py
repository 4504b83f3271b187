"""Commands held back by user events, alone and together with other events; and a user event that fails."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, failure, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ue_append": "split"}

SOURCE = """
__kernel void ue_append(__global uint *data, uint digit)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 10u + digit;
}
"""

STATUS = cl.command_execution_status


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Open gates in another order than they were enqueued; then fail one and see its dependants fail."""
    (append,) = kernels(ctx, SOURCE, "ue_append")
    n = 88
    outputs: Outputs = {}
    device, other_dev = to_device(ctx, np.zeros(n, np.uint32)), to_device(ctx, np.zeros(n, np.uint32))
    other = cl.CommandQueue(ctx)

    gates = [cl.UserEvent(ctx) for _ in range(3)]
    held = [
        append(queue, (n,), (8,), device, np.uint32(k + 1), wait_for=[gate]) for k, gate in enumerate(gates)
    ]
    tail = append(other, (n,), (8,), other_dev, np.uint32(7), wait_for=[held[0], gates[2]])
    queue.flush()
    other.flush()
    assert all(event.command_execution_status > STATUS.COMPLETE for event in [*held, tail])
    for gate in reversed(gates):
        assert gate.command_execution_status == STATUS.SUBMITTED
        gate.set_status(STATUS.COMPLETE)
    cl.wait_for_events([*held, tail])
    assert all(event.command_execution_status == STATUS.COMPLETE for event in [*held, *gates, tail])
    outputs["gated"] = to_host(queue, device, np.zeros(n, np.uint32))
    outputs["tail"] = to_host(other, other_dev, np.zeros(n, np.uint32))
    same(outputs["gated"], np.full(n, 123, np.uint32), "gated")
    same(outputs["tail"], np.full(n, 7, np.uint32), "tail")

    lonely = cl.CommandQueue(ctx)
    gate = cl.UserEvent(ctx)
    marker = cl.enqueue_marker(lonely, wait_for=[gate])
    lonely.flush()
    gate.set_status(-5)
    error = failure(lambda: cl.wait_for_events([marker]), "waiting for a command whose wait list failed")
    assert error.code == cl.status_code.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, error
    assert gate.command_execution_status == -5 and marker.command_execution_status < 0
    return outputs
