"""A program in parts: headers given by the application, a library, objects that are linked."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same, to_device, to_host

KERNELS: dict[str, str] = {"cl_blend": "split", "cl_shift": "split"}

HEADER = """
typedef struct { int low, high; } span_t;
static inline int middle(span_t s) { return (s.low + s.high) / 2; }
int weighted(span_t s, int weight);
int bias(void);
"""
LIBRARY = """
#include "spans.h"
static int helper(int x) { return x * 3; }
int weighted(span_t s, int weight) { return helper(middle(s)) + weight; }
"""
BIAS = """
static int helper(int x) { return x + 100; }
int bias(void) { return helper(1); }
"""
KERNEL_SOURCE = """
#include "spans.h"
__kernel void cl_blend(__global const span_t *in, __global int *out) {
    int i = get_global_id(0);
    out[i] = weighted(in[i], i) + bias() + middle(in[i]);
}
__kernel void cl_shift(__global int *out) { out[get_global_id(0)] += SHIFT; }
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Compile three objects, make a library of two, link, run; again from the program's binary."""
    header = cl.Program(ctx, HEADER)
    objects = [
        cl.Program(ctx, source).compile(options=["-DSHIFT=7"], headers=[("spans.h", header)])
        for source in (LIBRARY, BIAS, KERNEL_SOURCE)
    ]
    library = cl.link_program(ctx, objects[:2], options="-create-library")
    program = cl.link_program(ctx, [objects[2], library])
    n = 120
    spans = np.random.default_rng(5).integers(-1000, 1000, (n, 2), np.int32)
    middle = np.trunc((spans[:, 0] + spans[:, 1]) / 2).astype(np.int32)
    expected = (middle * 3 + np.arange(n, dtype=np.int32) + 101 + middle + 7).astype(np.int32)
    given = to_device(ctx, spans)
    out = to_device(ctx, np.zeros(n, np.int32))
    cl.Kernel(program, "cl_blend")(queue, (n,), (8,), given, out)
    cl.Kernel(program, "cl_shift")(queue, (n,), (8,), out)
    found = to_host(queue, out, expected)
    same(found, expected, "out")
    return {"out": found}
