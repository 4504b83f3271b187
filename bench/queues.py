"""Kernels of two queues: whether they run side by side, and what they cost behind each other.

``[sdi run --] python bench/queues.py [--launches 200] [--steps 20000]``: milliseconds for so many launches of
one work-group, which takes so many steps and adds to one counter that all share: in one queue; in two by
turns; in two, each behind the one before by an event.  The best of five rounds each, by turns; the counter is
checked.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void work(global uint *counter, global uint *own, uint steps)
{
    uint value = own[get_local_id(0)];
    for (uint n = 0; n < steps; n++)
        value = value * 1664525u + 1013904223u;
    own[get_local_id(0)] = value;
    atomic_add(counter, 1u);
}
"""
ITEMS = 64


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    context = cl.create_some_context(interactive=False)
    queues = [cl.CommandQueue(context) for _ in range(2)]
    kernel = cl.Program(context, SOURCE).build().work
    counter, *own = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * ITEMS) for _ in range(3))
    for buffer in (counter, *own):
        cl.enqueue_fill_buffer(queues[0], buffer, np.uint32(0), 0, 4 * ITEMS)
    queues[0].finish()
    launched = 0

    def round_ms(used: list[cl.CommandQueue], is_ordered: bool) -> float:
        nonlocal launched
        begin, before = time.perf_counter(), None
        for number in range(options.launches):
            kernel.set_args(counter, own[number % 2], np.uint32(options.steps))
            waits = [before] if is_ordered and before is not None else None
            queue = used[number % len(used)]
            before = cl.enqueue_nd_range_kernel(queue, kernel, (ITEMS,), (ITEMS,), wait_for=waits)
        for queue in used:
            queue.finish()
        launched += options.launches
        return 1e3 * (time.perf_counter() - begin)

    ways = {"one queue": (queues[:1], False), "two queues": (queues, False), "in order": (queues, True)}
    for way in ways.values():
        round_ms(*way)
    found = [{name: round_ms(*way) for name, way in ways.items()} for _ in range(5)]
    total = np.empty(1, np.uint32)
    cl.enqueue_copy(queues[0], total, counter)
    assert total[0] == launched * ITEMS, (total[0], launched * ITEMS)
    print(queues[0].device.name)
    for name in ways:
        print(f"{name}: {min(each[name] for each in found):.2f} ms")


if __name__ == "__main__":
    main()
