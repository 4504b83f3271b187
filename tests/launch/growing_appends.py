"""Appends a number that changes, to a buffer of which nobody has written all: ``grown``, or ``beside``.

``grown``: more with every launch, as in a few launches of a row before it.  ``beside``: as many each time,
while the host has written more of the buffer elsewhere.
"""

import sys

import numpy as np
import pyopencl as cl

from tests.programs.runner import choose_device

SOURCE = """
__kernel void keep(__global const int *in, __global int *out, volatile __global int *size)
{
    int v = in[get_global_id(0)];
    if (v & 1)
        out[atomic_inc(size)] = v;
}
"""
N, LAUNCHES = 1024, 60


def main() -> None:
    """Launch, and see what was kept."""
    context = cl.Context([choose_device()])
    queue = cl.CommandQueue(context)
    keep = cl.Kernel(cl.Program(context, SOURCE).build(), "keep")
    source, out, size = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * each) for each in (N, 8 * N, 1))
    rest = np.arange(5 * N, dtype=np.int32)
    if sys.argv[1] == "beside":
        cl.enqueue_copy(queue, out, rest, dst_offset=8 * N)
    for number in range(LAUNCHES):
        chosen = np.arange(N) < (100 if sys.argv[1] == "beside" else 100 + 5 * (number // 3))
        data = (2 * np.arange(N) + chosen).astype(np.int32)
        cl.enqueue_copy(queue, source, data)
        cl.enqueue_copy(queue, size, np.zeros(1, np.int32))
        keep(queue, (N,), (32,), source, out, size)
        queue.finish()
    count, kept = np.empty(1, np.int32), np.empty(np.count_nonzero(chosen), np.int32)
    cl.enqueue_copy(queue, count, size)
    cl.enqueue_copy(queue, kept, out)
    assert count[0] == kept.size and np.array_equal(np.sort(kept), data[chosen])
    if sys.argv[1] == "beside":
        found = np.empty_like(rest)
        cl.enqueue_copy(queue, found, out, src_offset=8 * N)
        assert np.array_equal(found, rest)


main()
