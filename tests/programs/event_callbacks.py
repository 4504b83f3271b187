"""Event callbacks: each runs once, after its event, and the data it reads are there."""

import threading

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device

KERNELS: dict[str, str] = {"ec_square": "split"}

SOURCE = """
__kernel void ec_square(__global const uint *in, __global uint *out)
{
    size_t i = get_global_id(0);
    out[i] = in[i] * in[i];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Callbacks on reads, launches and a user event collect results."""
    (square,) = kernels(ctx, SOURCE, "ec_square")
    n, rounds = 96, 8
    status = cl.command_execution_status
    seen: list[int] = []
    statuses: list[int] = []
    all_done = threading.Semaphore(0)
    gate = cl.UserEvent(ctx)
    results = np.zeros((rounds, n), np.uint32)
    captured = np.zeros((rounds, n), np.uint32)
    events: list[cl.Event] = []

    for k in range(rounds):
        source = to_device(ctx, np.arange(n, dtype=np.uint32) + k)
        out = to_device(ctx, np.zeros(n, np.uint32))
        launched = square(queue, (n,), (8,), source, out, wait_for=[gate])
        read = cl.enqueue_copy(queue, results[k], out, is_blocking=False)

        def landed(code: int, k: int = k) -> None:
            captured[k] = results[k]
            seen.append(k)
            statuses.append(code)
            all_done.release()

        read.set_callback(status.COMPLETE, landed)
        launched.set_callback(status.COMPLETE, lambda code: all_done.release())
        events += [launched, read]
    gate.set_callback(status.COMPLETE, lambda code: all_done.release())
    queue.flush()
    assert not seen, "a callback ran before its event"
    gate.set_status(status.COMPLETE)
    queue.finish()
    for _ in range(2 * rounds + 1):
        assert all_done.acquire(timeout=20), "a callback did not run"
    assert sorted(seen) == list(range(rounds)) and set(statuses) == {0}, (seen, statuses)
    expected = (np.arange(n, dtype=np.uint32) + np.arange(rounds, dtype=np.uint32)[:, None]) ** 2
    same(captured, expected, "captured by callbacks")
    return {"captured": captured, "results": results}
