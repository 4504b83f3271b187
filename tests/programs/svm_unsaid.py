"""Addresses of regions in a plain buffer, and nobody says of which: bindings may have no call for it."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same
from tests.programs._svm import from_svm, has_svm, to_svm

NEEDS = has_svm
KERNELS: dict[str, str] = {"su_fill": "split", "su_add": "split", "su_more": "split"}

SOURCE = """
typedef struct { global const float *one, *other; global float *sum; } arrays;

kernel void su_fill(global float *one, global float *other)
{
    int i = get_global_id(0);
    one[i] = 3 * i;
    other[i] = i + 1;
}

kernel void su_add(global const arrays *in)
{
    int i = get_global_id(0);
    in->sum[i] = in->one[i] + in->other[i];
}

kernel void su_more(global float *sum, float term)
{
    sum[get_global_id(0)] += term;
}
"""
COUNT = 4096


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """What members computed is added up, and used by them again; then in other regions."""
    fill, add, more = kernels(ctx, SOURCE, *KERNELS)
    zeros, found, kept = np.zeros(COUNT, np.float32), {}, []
    for step in range(3):
        one, other, total = (to_svm(ctx, queue, zeros) for _ in range(3))
        places = np.array([one.svm_ptr, other.svm_ptr, total.svm_ptr], np.uint64)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        fill.set_args(one, other)
        cl.enqueue_nd_range_kernel(queue, fill, (COUNT,), (16,))
        in_buffer = cl.Buffer(ctx, flags, hostbuf=places)
        kept.append((one, other, total, in_buffer))  # kernels' arguments hold nothing
        add.set_args(in_buffer)
        more.set_args(total, np.float32(step))
        for kernel in (add, more, add, more, more):
            cl.enqueue_nd_range_kernel(queue, kernel, (COUNT,), (16,))
        found[f"sum {step}"] = from_svm(queue, total, zeros)
        same(found[f"sum {step}"], (4 * np.arange(COUNT) + 1 + 2 * step).astype(np.float32), "sums")
    return found
