"""A kernel with 24 arguments of all kinds and sizes, set one by one and in another order."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"my_sum": "split"}

SOURCE = """
__kernel void my_sum(char c, uchar uc, short s, ushort us, int i, uint ui, long l, ulong ul,
                     float f, double d,
                     char2 c2, short3 s3, int4 i4, long8 l8, uchar16 uc16, float3 f3,
                     __global const int *a, __global const short *b, __constant long *k, __local int *tmp,
                     __global long *out, __global float *fout, int n, const int last)
{
    int g = get_global_id(0);
    tmp[get_local_id(0)] = g < n ? a[g] + b[g] : last;
    barrier(CLK_LOCAL_MEM_FENCE);
    long sum = c + uc + s + us + i + (long)ui + l + (long)ul + c2.x * c2.y + s3.z - s3.x + i4.w * i4.y
             + l8.s7 - l8.s0 + uc16.sf + uc16.s3 + k[g & 3];
    if (g < n) {
        out[g] = sum + tmp[(get_local_id(0) + 1) % get_local_size(0)];
        fout[g] = f * g + (float)d + f3.z;
    }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Two launches of 9 groups; the second changes three arguments."""
    (total,) = kernels(ctx, SOURCE, "my_sum")
    n = 70
    a, b, k = np.arange(72, dtype=np.int32) * 11, np.arange(72, dtype=np.int16) - 30, np.arange(4) * 10**12
    out_dev, fout_dev = to_device(ctx, np.full(72, -1, np.int64)), to_device(ctx, np.full(72, -1, np.float32))
    values = [
        np.int8(-7), np.uint8(200), np.int16(-3000), np.uint16(60000), np.int32(-(1 << 30)),
        np.uint32(1 << 31), np.int64(-(1 << 40)), np.uint64(1 << 41), np.float32(0.5), np.float64(2.25),
        np.array([-5, 6], np.int8), np.array([1, 2, 3, 0], np.int16), np.array([1, 20, 3, 40], np.int32),
        np.arange(8, dtype=np.int64) * 1000 + 1, np.arange(16, dtype=np.uint8) * 16,
        np.array([1, 2, 3, 0], np.float32),
        to_device(ctx, a), to_device(ctx, b), to_device(ctx, k), cl.LocalMemory(4 * 8),
        out_dev, fout_dev, np.int32(n), np.int32(-99),
    ]  # fmt: skip
    order = np.random.default_rng(41).permutation(len(values))
    for at in order:
        total.set_arg(int(at), values[at])
    cl.enqueue_nd_range_kernel(queue, total, (72,), (8,))
    outputs = {"first": to_host(queue, out_dev, np.zeros(72, np.int64))}
    for at, value in ((6, np.int64(5)), (22, np.int32(33)), (8, np.float32(-4))):
        total.set_arg(at, value)
    cl.enqueue_nd_range_kernel(queue, total, (72,), (8,))
    outputs["second"] = to_host(queue, out_dev, np.zeros(72, np.int64))
    outputs["floats"] = to_host(queue, fout_dev, np.zeros(72, np.float32))

    def expected(big: int, count: int, before: np.ndarray) -> np.ndarray:
        small = -7 + 200 - 3000 + 60000 - (1 << 30) + (1 << 31) + big + (1 << 41)
        vectors = -30 + 3 - 1 + 40 * 20 + 7001 - 1 + 240 + 48
        g = np.arange(72)
        tmp = np.where(g < count, a.astype(np.int64) + b, -99).reshape(9, 8)
        return np.where(g < count, small + vectors + k[g & 3] + np.roll(tmp, -1, axis=1).ravel(), before)

    first = expected(-(1 << 40), 70, np.full(72, -1))
    same(outputs["first"], first, "first")
    same(outputs["second"], expected(5, 33, first), "second")
    g = np.arange(72)
    floats = np.where(g < 33, g * -4 + 5.25, np.where(g < 70, g * 0.5 + 5.25, -1))
    same(outputs["floats"], floats.astype(np.float32), "floats")
    return outputs
