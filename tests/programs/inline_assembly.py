"""Inline PTX and unrolled loops, as programs for NVIDIA's GPUs have them; on other devices the same in C."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "ia_registers": "split",
    "ia_kinds": "split",
    "ia_groups": "split",
    "ia_memory": "split",
}
ITEMS, GROUP = 192, 32

PTX = r"""
inline uint field(uint x) { uint r; asm("bfe.u32 %0, %1, %2, 8;" : "=r"(r) : "r"(x), "n"(4 + 4)); return r; }
inline uint mix(uint a, uint b, uint c)
{
    uint r;
    asm volatile("{\n\t.reg .b32 t;\n\t"
                 "lop3.b32 t, %1, %2, %3, 0x96; // all three\n\t"
                 "prmt.b32 %0, t, t, 0x0123;\n\t}" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
inline uint2 wide(uint a, uint b)
{
    uint2 r;
    asm("mul.lo.u32 %0, %2, %3;\n\tmul.hi.u32 %1, %2, %3;" : "=&r"(r.x), "=r"(r.y) : "r"(a), "r"(b));
    return r;
}
inline int clamped(int x)
{
    asm("{ .reg .pred p; setp.gt.s32 p, %0, %[most]; @p mov.s32 %0, %[most]; }" : "+r"(x) : [most] "r"(100));
    return x;
}
inline ulong sum64(ulong a, uint b) { asm("add.u64 %0, %0, %1;" : "+l"(a) : "l"((ulong)b)); return a; }
inline float twice(float x) { asm("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(2.0f), "f"(1.0f)); return x; }
inline double half_of(double x) { asm("mul.rn.f64 %0, %0, %1;" : "+d"(x) : "d"(0.5)); return x; }
inline short low(short x) { asm("add.s16 %0, %0, %1;" : "+h"(x) : "h"((short)7)); return x; }
inline float bits(uint x) { float r; asm("mov.b32 %0, %1;" : "=r"(r) : "r"(x)); return r; }
inline uchar byte(uchar x) { asm("add.u32 %0, %1, 1;" : "=r"(x) : "0"(x)); return x; }
inline uint lane(void) { uint r; asm("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }
inline uint group(void) { uint r; asm("mov.u32 %0, %%ctaid.x;" : "=r"(r)); return r; }
inline uint groups(void) { uint r; asm("mov.u32 %0, %%nctaid.x;" : "=r"(r)); return r; }
inline uint loaded(__global const uint *p)
{
    uint r;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
    return r;
}
inline void stored(__local uint *p, uint x)
{
    asm volatile("st.shared.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory");
}
"""
PLAIN = r"""
inline uint field(uint x) { return x >> 8 & 255; }
inline uint mix(uint a, uint b, uint c)
{
    uint t = a ^ b ^ c;
    return t << 24 | (t & 0xff00) << 8 | (t >> 8 & 0xff00) | t >> 24;
}
inline uint2 wide(uint a, uint b) { return (uint2)(a * b, mul_hi(a, b)); }
inline int clamped(int x) { return min(x, 100); }
inline ulong sum64(ulong a, uint b) { return a + b; }
inline float twice(float x) { return 2 * x + 1; }
inline double half_of(double x) { return x / 2; }
inline short low(short x) { return x + 7; }
inline float bits(uint x) { return as_float(x); }
inline uchar byte(uchar x) { return x + 1; }
inline uint lane(void) { return get_local_id(0); }
inline uint group(void) { return get_group_id(0); }
inline uint groups(void) { return get_num_groups(0); }
inline uint loaded(__global const uint *p) { return *p; }
inline void stored(__local uint *p, uint x) { *p = x; }
"""
SOURCE = r"""
#define ROUNDS 3
#define UNROLLED _Pragma("unroll 2")
__kernel void ia_registers(__global const uint *in, __global uint *out)
{
    size_t i = get_global_id(0);
    uint x = in[i];
    #pragma unroll ROUNDS
    for (int k = 0; k < ROUNDS; k++)
        x = mix(x, field(x), in[i] + k);
    #pragma unroll
    for (int k = 0; k < 4; k++)
        x ^= wide(x, in[i] | 1).y;
    __attribute__((opencl_unroll_hint(ROUNDS)))
    for (int k = 0; k < 9; k++)
        x += clamped(k * (int)i);
    #pragma nounroll
    for (int k = 0; k < 2; k++)
        x += wide(x, 5).x;
    UNROLLED
    for (int k = 0; k < 2; k++)
        x ^= k;
    out[i] = x;
}

__kernel void ia_kinds(__global const uint *in, __global ulong *sums, __global float *floats,
                       __global double *doubles, __global int *others)
{
    size_t i = get_global_id(0);
    sums[i] = sum64((ulong)in[i] << 8, in[i]);
    floats[i] = twice((float)(in[i] & 1023)) + bits(0x3f800000);
    doubles[i] = half_of(in[i]);
    others[i] = low((short)in[i]) + byte((uchar)in[i]) + lane();
}

__kernel void ia_groups(__global uint *out)
{
    out[get_global_id(0)] = group() * 1000 + groups();
}

__kernel void ia_memory(__global const uint *in, __global uint *out)
{
    __local uint shared[32];
    size_t i = get_global_id(0), l = get_local_id(0);
    stored(shared + l, loaded(in + i));
    barrier(CLK_LOCAL_MEM_FENCE);
    out[i] = shared[31 - l];
}
"""


def expected_registers(given: Array) -> Array:
    """What ``ia_registers`` makes of it."""
    i = np.arange(ITEMS)
    x = given.astype(np.uint64)
    for k in range(3):
        mixed = (x ^ (x >> 8 & 255) ^ (given.astype(np.uint64) + k & 0xFFFFFFFF)).astype(np.uint32)
        x = mixed.byteswap().astype(np.uint64)
    for _ in range(4):
        x ^= x * (given | 1) >> 32
    for k in range(9):
        x = x + np.minimum(k * i, 100).astype(np.uint64) & 0xFFFFFFFF
    for _ in range(2):
        x = x * 6 & 0xFFFFFFFF
    return (x ^ 1).astype(np.uint32)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """192 items in groups of 32; each kernel against the host."""
    is_nvidia = "NVIDIA" in ctx.devices[0].vendor
    source = (PTX if is_nvidia else PLAIN) + SOURCE
    registers, kinds, groups, memory = kernels(ctx, source, *KERNELS, options=["-w"])
    given = np.random.default_rng(7).integers(0, 1 << 32, ITEMS, dtype=np.uint32)
    i = np.arange(ITEMS)
    in_dev = to_device(ctx, given)
    wanted: Outputs = {
        "registers": expected_registers(given),
        "sums": (given.astype(np.uint64) << 8) + given,
        "floats": ((given & 1023) * 2 + 2).astype(np.float32),
        "doubles": given / 2,
        "others": ((given & 0xFFFF).astype(np.int16) + np.int16(7))
        + (given + 1 & 255).astype(np.int32)
        + i % GROUP,
        "groups": (i // GROUP * 1000 + ITEMS // GROUP).astype(np.uint32),
        "memory": given.reshape(-1, GROUP)[:, ::-1].ravel(),
    }
    wanted["others"] = wanted["others"].astype(np.int32)
    buffers = {name: to_device(ctx, np.zeros_like(array)) for name, array in wanted.items()}
    registers(queue, (ITEMS,), (GROUP,), in_dev, buffers["registers"])
    kinds(queue, (ITEMS,), (GROUP,), in_dev, *(buffers[n] for n in ("sums", "floats", "doubles", "others")))
    groups(queue, (ITEMS,), (GROUP,), buffers["groups"])
    memory(queue, (ITEMS,), (GROUP,), in_dev, buffers["memory"])
    outputs = {name: to_host(queue, buffers[name], array) for name, array in wanted.items()}
    for name, array in wanted.items():
        same(outputs[name], array, name)
    return outputs
