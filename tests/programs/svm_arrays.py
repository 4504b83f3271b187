"""Arrays in shared virtual memory: kernels that follow no pointer are split as on buffers."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same
from tests.programs._svm import allocate, from_svm, has_svm, set_pointer, to_svm

NEEDS = has_svm
KERNELS: dict[str, str] = {
    "sa_axpy": "split",
    "sa_stencil": "split",
    "sa_copy": "split",
    "sa_before": "split",
}

SOURCE = """
kernel void sa_axpy(global const float *x, global float *y, float a)
{
    int i = get_global_id(0);
    y[i] += a * x[i];
}

kernel void sa_stencil(global const int *a, global int *b, int n)
{
    int i = get_global_id(0);
    b[i] = a[i] + (i ? a[i - 1] : 1) + (i + 1 < n ? a[i + 1] : 2);
}

kernel void sa_copy(global const uchar *from, global uchar *to)
{
    int i = get_global_id(0);
    to[i] = from[i] ^ 0x5a;
}

/* What is before a pointer is the application's too. */
kernel void sa_before(global const int *from, global int *to)
{
    int i = get_global_id(0);
    to[i - 100] = from[i - 300] + from[i];
}
"""
COUNT = 1920


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Launches again and again, pointers into regions, copies, fills, maps in maps, buffers over regions."""
    axpy, stencil, copy, before = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(3)
    out: Outputs = {}

    x, y = (random.integers(-9, 9, COUNT).astype(np.float32) for _ in range(2))
    x_svm, y_svm = to_svm(ctx, queue, x), to_svm(ctx, queue, y)
    for step in range(6):
        axpy.set_args(x_svm, y_svm, np.float32(step))
        cl.enqueue_nd_range_kernel(queue, axpy, (COUNT,), (16,))
    out["axpy"] = from_svm(queue, y_svm, y)
    same(out["axpy"], y + 15 * x, "axpy")

    a = random.integers(0, 99, COUNT).astype(np.int32)
    a_svm, b_svm = to_svm(ctx, queue, a), to_svm(ctx, queue, np.zeros_like(a))
    for _ in range(4):
        for one, other in ((a_svm, b_svm), (b_svm, a_svm)):
            stencil.set_args(one, other, np.int32(COUNT))
            cl.enqueue_nd_range_kernel(queue, stencil, (COUNT,), (16,))
    with a_svm.map_rw(queue) as whole, a_svm.map_rw(queue, size=400) as part:  # of the same bytes
        whole.view(np.int32)[50:60] = 7
        part.view(np.int32)[:10] += 1
    stencil.set_args(a_svm, b_svm, np.int32(COUNT))
    cl.enqueue_nd_range_kernel(queue, stencil, (COUNT,), (16,))
    out["stencil"] = from_svm(queue, b_svm, a)

    # From and to bytes in the middle of a region, which are aligned to nothing; then it is freed at once.
    raw = random.integers(0, 256, 4096, np.uint8)
    raw_svm, to = to_svm(ctx, queue, raw), to_svm(ctx, queue, np.zeros(4096, np.uint8))
    set_pointer(copy, 0, raw_svm.svm_ptr + 1001)
    set_pointer(copy, 1, to.svm_ptr + 333)
    cl.enqueue_nd_range_kernel(queue, copy, (1600,), (16,))
    raw_svm.enqueue_release(queue)
    out["inner"] = from_svm(queue, to, raw)
    same(out["inner"][333:1933], raw[1001:2601] ^ 0x5A, "inner")

    back = to_svm(ctx, queue, np.zeros_like(a))
    set_pointer(before, 0, a_svm.svm_ptr + 1200)
    set_pointer(before, 1, back.svm_ptr + 400)
    cl.enqueue_nd_range_kernel(queue, before, (COUNT - 480,), (16,))
    out["before"] = from_svm(queue, back, a)
    held = from_svm(queue, a_svm, a)
    same(out["before"][: COUNT - 480], held[: COUNT - 480] + held[300 : COUNT - 180], "before")

    cl.enqueue_svm_memfill(queue, to, np.array([1, 2, 3, 4], np.uint8), byte_count=2048)
    again = allocate(ctx, queue, 4096)
    cl.enqueue_copy(queue, again, to)
    cl.enqueue_svm_migrate_mem(queue, [again], 0)
    out["copied"] = from_svm(queue, again, raw)
    same(out["copied"][:2048], np.tile(np.array([1, 2, 3, 4], np.uint8), 512), "filled")

    over = again.as_buffer(ctx)
    part = over.get_sub_region(1024, 2048)
    last = to_svm(ctx, queue, np.zeros(2048, np.uint8))
    copy(queue, (2048,), (16,), part, last)
    read = np.empty(4096, np.uint8)
    cl.enqueue_copy(queue, read, over)
    same(read, out["copied"], "the same bytes")
    out["over"] = from_svm(queue, last, np.zeros(2048, np.uint8))
    return out
