"""Functions of clang's own, which drivers that are made of it have: hints, and questions about bits."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"expected": "split", "bits": "split"}

SOURCE = """
#define likely(x) __builtin_expect(!!(x), 1)

__kernel void expected(__global int *a, int n)
{
    int i = get_global_id(0);
    if (likely(i < n))
        a[i] += i;
}

__kernel void bits(__global const uint *some, __global const ulong *wide, __global uint *told,
                   __global ulong *turned)
{
    int i = get_global_id(0);
    told[7 * i] = __builtin_popcount(some[i]);
    told[7 * i + 1] = __builtin_clz(some[i] | 1);
    told[7 * i + 2] = __builtin_ctz(some[i] | 0x80000000u);
    told[7 * i + 3] = __builtin_bswap32(some[i]);
    told[7 * i + 4] = __builtin_popcountl(wide[i]);
    told[7 * i + 5] = __builtin_clzl(wide[i] | 1);
    told[7 * i + 6] = __builtin_ctzl(wide[i] | 0x8000000000000000ul) + __builtin_bswap16((ushort)some[i]);
    turned[i] = __builtin_bswap64(wide[i]);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Add below a bound, and ask about random bits."""
    expected, bits = kernels(ctx, SOURCE, "expected", "bits")
    n, rng = 4096, np.random.default_rng(5)
    some, wide = rng.integers(0, 1 << 32, n, np.uint32), rng.integers(0, 1 << 63, n).astype(np.uint64) * 2
    sums, told, turned = np.ones(n, np.int32), np.zeros(7 * n, np.uint32), np.zeros(n, np.uint64)
    on_device = [to_device(ctx, array) for array in (sums, some, wide, told, turned)]
    expected(queue, (n,), (64,), on_device[0], np.int32(3001))
    bits(queue, (n,), (64,), *on_device[1:])
    sums, told, turned = (
        to_host(queue, on_device[k], like) for k, like in ((0, sums), (3, told), (4, turned))
    )
    same(sums, np.where(np.arange(n) < 3001, 1 + np.arange(n), 1).astype(np.int32), "sums")
    same(told[::7], np.unpackbits(some.view(np.uint8)).reshape(n, 32).sum(1).astype(np.uint32), "bits set")
    same(told[3::7], some.byteswap(), "bytes of 32 bits turned")
    same(turned, wide.byteswap(), "bytes of 64 bits turned")
    return {"sums": sums, "told": told, "turned": turned}
