"""Writes of more than is staged, on the first device: ``python -m tests.player.early_writes``."""

from __future__ import annotations

import threading

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void k(global const int *a, global int *b, int f) { size_t i = get_global_id(0); b[i] = a[i] * 2 + f; }
"""
COUNT, ROUNDS, MORE = 3 << 18, 30, 150


def main() -> None:
    """Raises AssertionError where bytes are wrong."""
    context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().k
    values, found = np.arange(COUNT, dtype=np.int32), np.zeros(COUNT, np.int32)
    source, target = (cl.Buffer(context, cl.mem_flags.READ_WRITE, values.nbytes) for _ in range(2))
    for number in range(ROUNDS):
        values[number] = -number
        cl.enqueue_copy(queue, source, values)
        kernel(queue, (COUNT,), (64,), source, target, np.int32(number))
        cl.enqueue_copy(queue, found, target)
        assert (found == values * 2 + number).all(), f"round {number}"
    # While launches that read it are under way a write comes after them.
    for number in range(ROUNDS):
        kernel(queue, (COUNT,), (64,), source, target, np.int32(number))
        cl.enqueue_copy(queue, source, values + number + 1, is_blocking=number % 2 == 0)
        cl.enqueue_copy(queue, found, target)
        expected = values + (number if number else 0)
        assert (found == expected * 2 + number).all(), f"round {number} of those behind launches"
    # Behind one that is on its way, as it was sent and nobody waited.
    for nbytes in (4 << 10, 1 << 20) * 8:
        queue.finish()
        cl.enqueue_copy(queue, source, np.full(nbytes // 4, 1, np.int32))
        cl.enqueue_copy(queue, source, values)
        cl.enqueue_copy(queue, found, source)
        assert (found == values).all(), f"{nbytes} bytes that were written before came later"
    # Each command of a queue sees all or nothing of another one, whoever enqueues them.
    done = threading.Event()

    def write() -> None:
        for number in range(MORE):
            cl.enqueue_copy(queue, source, np.full(COUNT, number, np.int32))
        done.set()

    cl.enqueue_copy(queue, source, np.zeros(COUNT, np.int32))
    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        cl.enqueue_copy(queue, found, source)
        assert (found == found[0]).all(), "a read saw a part of a write"
        kernel(queue, (COUNT,), (64,), source, target, np.int32(0))
        cl.enqueue_copy(queue, found, target)
        assert (found == found[0]).all(), "a launch saw a part of a write"
    writer.join()
    cl.enqueue_copy(queue, found, source)
    assert (found == MORE - 1).all(), "the last write is lost"


if __name__ == "__main__":
    main()
