"""Appends to a buffer of which nobody has written all, ``grown`` or ``beside``, or to many: ``columns``.

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
COLUMNS = range(33)


def columns(context: cl.Context, queue: cl.CommandQueue) -> None:
    """So many buffers that all members together have more to move than the player does at a time."""
    source = f"""
    __kernel void keep(__global const int *in, volatile __global int *size,
                       {", ".join(f"__global int *out{n}" for n in COLUMNS)})
    {{
        int v = in[get_global_id(0)];
        if (v & 1) {{
            int p = atomic_inc(size);
            {" ".join(f"out{n}[p] = v + {n};" for n in COLUMNS)}
        }}
    }}"""
    keep = cl.Kernel(cl.Program(context, source).build(), "keep")
    data = np.arange(N, dtype=np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    given, size, *outs = (
        cl.Buffer(context, flags, hostbuf=each)
        for each in (data, np.zeros(1, np.int32), *[np.zeros(N, np.int32) for _ in COLUMNS])
    )
    for _ in range(LAUNCHES):
        cl.enqueue_copy(queue, size, np.zeros(1, np.int32))
        keep(queue, (N,), (32,), given, size, *outs)
        queue.finish()
    for number, out in enumerate(outs):
        kept = np.empty(N // 2, np.int32)
        cl.enqueue_copy(queue, kept, out)
        assert np.array_equal(np.sort(kept), data[1::2] + number)


def main() -> None:
    """Launch, and see what was kept."""
    context = cl.Context([choose_device()])
    queue = cl.CommandQueue(context)
    if sys.argv[1] == "columns":
        columns(context, queue)
        return
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
