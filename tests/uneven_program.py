"""An application whose work-groups cost more the larger their id is: ``uneven_program.py LAUNCHES OUT.npy``.

With ``--even`` they all cost the same.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pyopencl as cl

SOURCE = """
__kernel void work(__global const uint *in, __global uint *out, uint even) {
    uint i = get_global_id(0), rounds = even ? 12000 : 24 * (uint)get_group_id(0) + 12, x = in[i];
    for (uint k = 0; k < rounds; k++)
        x = x * 1664525u + 1013904223u;
    out[i] = x;
}
"""
GROUPS, LOCAL = 1024, 4


def main() -> None:
    """Run the launches one after the other."""
    launches, out = int(sys.argv[1]), sys.argv[2]
    name = os.environ.get("OCL_TEST_PLATFORM", "")
    device = next(p for p in cl.get_platforms() if name in p.name).get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, SOURCE).build().work
    values = np.arange(GROUPS * LOCAL, dtype=np.uint32)
    flags = cl.mem_flags
    given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=values)
    found = cl.Buffer(context, flags.WRITE_ONLY, values.nbytes)
    for _ in range(launches):
        kernel(queue, (values.size,), (LOCAL,), given, found, np.uint32("--even" in sys.argv))
        queue.finish()
    result = np.empty_like(values)
    cl.enqueue_copy(queue, result, found)
    np.save(out, result)


if __name__ == "__main__":
    main()
