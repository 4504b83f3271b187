"""A kernel of which several members write the same, launched again and again, while another queue reads.

``python -m tests.player.merges_beside ROUNDS STEPS QUEUES`` prints a digest; ROUNDS: what a work-item
multiplies.
"""

import hashlib
import sys

import numpy as np
import pyopencl as cl

from tests.programs.runner import choose_device

SOURCE = """
kernel void count(global const uint *in, volatile global uint *bins, uint rounds)
{
    uint v = in[get_global_id(0)];
    for (uint i = 0; i < rounds; i++)
        v = v * 1664525u + 1013904223u;
    atomic_inc(&bins[(v >> 8) % 64]);
}
"""
N = 4096


def main(rounds: int, steps: int, queues: int) -> None:
    """Launch it, and read beside it."""
    context = cl.Context([choose_device()])
    first, *_, last = [cl.CommandQueue(context) for _ in range(queues)] * 2
    kernel = cl.Program(context, SOURCE).build().count
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    numbers = cl.Buffer(context, flags, hostbuf=np.arange(N, dtype=np.uint32))
    bins, other = (cl.Buffer(context, flags, hostbuf=np.zeros(64, np.uint32)) for _ in range(2))
    found, digest = np.empty(64, np.uint32), hashlib.sha256()
    for _ in range(steps):
        kernel(first, (N,), (32,), numbers, bins, np.uint32(rounds))
        first.flush()
        cl.enqueue_copy(last, found, other)
        digest.update(found)
        first.finish()
    cl.enqueue_copy(first, found, bins)
    digest.update(found)
    print(found.sum(), digest.hexdigest()[:16])


if __name__ == "__main__":
    main(*[int(each) for each in sys.argv[1:4]])
