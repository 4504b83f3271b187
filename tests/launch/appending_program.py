"""Appends below a limit and beyond it, as its arguments say: limits of launches, one after the other.

Prints, of each launch, where the counter stood afterwards and whether what was stored is right, or that it
failed.
"""

import sys

import numpy as np
import pyopencl as cl

from tests.programs.runner import choose_device

SOURCE = """
__kernel void keep(__global const int *in, __global int *out, volatile __global int *size, int limit)
{
    int v = in[get_global_id(0)];
    if (v & 1) {
        int p = atomic_inc(size);
        if (p < limit)
            out[p] = v;
    }
}
"""
N = 4096


def main() -> None:
    """Launch as often as there are limits."""
    context = cl.Context([choose_device()])
    queue = cl.CommandQueue(context)
    keep = cl.Program(context, SOURCE).build().keep
    data = np.random.default_rng(1).permutation(N).astype(np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    source, out = (cl.Buffer(context, flags, hostbuf=each) for each in (data, np.full(N, -1, np.int32)))
    for limit in map(int, sys.argv[1:]):
        size = cl.Buffer(context, flags, hostbuf=np.zeros(1, np.int32))
        cl.enqueue_copy(queue, out, np.full(N, -1, np.int32))
        keep(queue, (N,), (64,), source, out, size, np.int32(limit))
        count, found = np.empty(1, np.int32), np.empty(N, np.int32)
        try:
            cl.enqueue_copy(queue, count, size)
            cl.enqueue_copy(queue, found, out)
        except cl.Error:
            print("failed")
            continue
        kept = min(limit, N // 2)
        is_right = (
            np.unique(found[:kept]).size == kept and np.all(found[:kept] & 1) and np.all(found[kept:] == -1)
        )
        print(count[0], is_right)


main()
