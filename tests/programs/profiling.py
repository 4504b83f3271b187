"""A queue with profiling, whose four times per command must be in order and in the order of the queue."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, failure, kernels, same, to_device

KERNELS: dict[str, str] = {"pr_step": "split"}

SOURCE = """
__kernel void pr_step(__global float *data) { data[get_global_id(0)] = data[get_global_id(0)] * 0.5f + 1.0f; }
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Writes, launches, copies and reads with their times."""
    (step,) = kernels(ctx, SOURCE, "pr_step")
    profiled = cl.CommandQueue(ctx, properties=cl.command_queue_properties.PROFILING_ENABLE)
    n = 640
    data = np.arange(n, dtype=np.float32)
    a, b = to_device(ctx, np.zeros_like(data)), to_device(ctx, np.zeros_like(data))
    result = np.empty_like(data)
    events = [cl.enqueue_copy(profiled, a, data, is_blocking=False)]
    events += [step(profiled, (n,), (40,), a) for _ in range(4)]
    events.append(cl.enqueue_copy(profiled, b, a))
    events.append(cl.enqueue_marker(profiled))
    mapped, event = cl.enqueue_map_buffer(
        profiled, b, cl.map_flags.READ, 0, (n,), np.float32, is_blocking=False
    )
    events += [event, mapped.base.release(profiled), cl.enqueue_barrier(profiled)]
    events.append(cl.enqueue_fill_buffer(profiled, a, np.float32(1), 0, data.nbytes))
    events.append(cl.enqueue_migrate_mem_objects(profiled, [b]))
    events.append(cl.enqueue_copy(profiled, result, b, is_blocking=False))
    profiled.finish()
    last_end = 0
    for k, event in enumerate(events):
        times = event.profile
        stamps = times.queued, times.submit, times.start, times.end
        assert stamps[0] > 0 and list(stamps) == sorted(stamps), f"times of command {k}: {stamps}"
        assert times.start >= last_end, (
            f"command {k} starts {last_end - times.start} ns before the last one ends"
        )
        last_end = times.end
    plain_event = step(queue, (n,), (40,), a)
    plain_event.wait()
    error = failure(lambda: plain_event.profile.start, "times of a queue without profiling")
    assert error.code == cl.status_code.PROFILING_INFO_NOT_AVAILABLE, error
    for _ in range(4):
        data = data * np.float32(0.5) + np.float32(1)
    same(result, data, "result")
    return {"result": result}
