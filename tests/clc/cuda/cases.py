"""Small kernels, one per thing that CUDA C++ has differently; they run on the CPU driver too.

Each case is the body of a kernel ``t(f, n, of, on, lo)``: 64 work-items in groups of 16, eight floats and ints
in and out per item (``f``, ``n``, ``of``, ``on`` point to the item's own), 512 bytes of local memory in ``lo``.
"""

# ruff: noqa: E501
from __future__ import annotations

ITEMS, LOCAL_ITEMS, PER_ITEM, LOCAL_NBYTES = 64, 16, 8, 512

_HEAD = """
kernel void t(global const float *f_, global const int *n_, global float *of_, global int *on_, local float *lo)
{
    size_t i = get_global_id(0);
    global const float *f = f_ + 8 * i; global const int *n = n_ + 8 * i;
    global float *of = of_ + 8 * i; global int *on = on_ + 8 * i;
"""

BODIES: dict[str, str] = {
    # pointers to arrays
    "rows of arrays": "global int (*u)[1 + 3] = (global int (*)[1 + 3])on; u[1][2] = n[0]; u[0][1] = (*(u + 1))[2] + n[1];",
    "planes of arrays": "global const float (*w)[2][2] = (global const float (*)[2][2])f; global float (*u)[2][2]; u = (global float (*)[2][2])of; u[1][0][1] = w[0][1][1]; *u[0][1] = w[1][1][0];",
    "own rows by a pointer": "int at[2][3] = {{n[0], n[1], n[2]}, {n[3], n[4], n[5]}}; int (*row)[3] = at + 1; on[0] = row[0][2]; on[1] = row[-1][1];",
    # literals and swizzles
    "literal of scalars": "float4 v = (float4)(f[0], f[1], 2, n[0]); vstore4(v, 0, of);",
    "literal of one scalar": "vstore8((float8)(f[3]), 0, of);",
    "literal of vectors": "float4 v = (float4)((float2)(f[0], 1.0f), f[2], f[3]); vstore8((float8)(v, v.wzyx), 0, of);",
    "literal nested three deep": "int8 v = (int8)((int4)((int2)(n[0], n[1]), n[2], 7), (int2)(1), n[3], n[4]); vstore8(v, 0, on);",
    "literal from a vec3": "float3 a = (float3)(f[0], f[1], f[2]); vstore4((float4)(a, 9), 0, of);",
    "literal as an argument": "of[0] = dot((float4)(f[0], f[1], f[2], f[3]), (float4)(1, 2, 3, 4));",
    "literal of a true bool": "int4 v = (int4)((bool)(n[0] & 1)); vstore4(v, 0, on); v = (int4)(true); on[4] = v.x;",
    "splats of a bool": "bool b = n[0] & 1; int4 v = (int4)b, w = b; on[0] = v.x; on[1] = w.x; v = n[1]; v += b; on[2] = v.x; v = v * b; on[3] = v.x; float2 f2 = b; on[4] = f2.x; v = (int4)(b, b, 1, 2); on[5] = v.x; v.xy = b; on[6] = v.y;",
    "literal of a comparison": "int4 v = (int4)(n[0] > 0); vstore4(v, 0, on);",
    "literals as values of all kinds of expressions": "float4 v = n[0] > 0 ? (float4)(1, f[0], 2, 3) : (float4)(f[1]); v += (float4)(f[2], 1, 2, 3) * (float4)(2); v.yz = (float2)(f[3], f[4]); vstore4(v, 0, of); of[4] = ((float4)(f[0], f[1], f[2], f[3])).z; of[5] = (float4)(9, f[5], 8, 7).y; int4 k = -(int4)(n[0], 1, 2, 3) << (int4)(1, 2, 3, 4); vstore4(k, 0, on);",
    "literals in lists, fields and arguments": "float4 list[2] = {(float4)(f[0], 1, 2, 3), (float4)(f[1])}; struct { float2 p; int4 q; } r = {(float2)(f[2], f[3]), (int4)(n[0], n[1], 2, 3)}; r.p = (float2)(r.p.y, r.p.x); vstore4(list[n[0] & 1], 0, of); vstore2(fmax(r.p, (float2)(0.1f, 0.2f)), 2, of); vstore4((r.q, (int4)(r.q.wz, r.q.xy)), 0, on); of[6] = list[((int2)(0, 1)).y].x;",
    "literals in loops and conditions": "float2 s = (float2)(0); for (int2 k = (int2)(0, 3); any(k < (int2)(3, 0)); k += (int2)(1, -1)) s += (float2)(f[k.x & 7], k.y); while (all(s > (float2)(1e6f, 1e6f))) s *= (float2)(0.5f, 0.5f); vstore2(s, 0, of); switch ((int)((int2)(n[0], 1)).x & 1) { case 0: on[0] = ((int2)(5, 6)).y; break; default: on[0] = 1; }",
    "GNU's conditional": "int k = 0, j = 1; n[0] ?: (j = 5); k++ ?: (on[1] = 7); on[0] = (n[2] & 1) ?: n[3]; on[2] = j + k; on[3] = (int)((((n[4] & 1) ?: (n[5] ?: 1L << 40))) >> 8); of[0] = (n[6] & 3) ?: 2.5f; global const int *p = n[7] & 1 ? n : 0, *q = p ?: n + 1; on[4] = *q; uint u = (uchar)(n[1] & 1) ?: 7u; on[5] = u;",
    "literal in braces": "float4 v = {f[0], f[1], f[2], f[3]}; vstore4(v, 0, of);",
    "swizzle as a value": "float4 v = vload4(0, f); vstore4(v.wzyx, 0, of); vstore2(v.s31, 2, of); of[6] = v.hi.y; of[7] = v.odd.x;",
    "swizzle as a target": "float4 v = vload4(0, f); v.xz = v.wy; v.hi += v.lo; v.s1 *= 2; vstore4(v, 0, of);",
    "swizzle of a swizzle as a target": "float8 v = vload8(0, f); v.hi.xy = v.lo.wz; v.even.w = 5; (v.s0123).y = 6; vstore8(v, 0, of);",
    "swizzle through a pointer": "local float4 *p = (local float4 *)lo + get_local_id(0); *p = vload4(0, f); p->xy = p->zw; (*p).w = 1; vstore4(*p, 0, of);",
    "swizzle of sixteen": "int16 v = (int16)(vload8(0, n), vload8(0, n) + 1); vstore8(v.sf1e2d3c4, 0, on); on[0] = v.sB;",
    "vec3 upper half": "float3 v = vload3(0, f); v.hi.x = 3; of[0] = v.z; of[1] = v.lo.y; vstore3(v.zyx, 1, of);",
    "elements by index": "float4 v = vload4(0, f); for (int k = 0; k < 4; k++) v[k] = v[3 - k] + k; vstore4(v, 0, of);",
    # operators
    "integer vector operators": "int4 a = vload4(0, n), b = vload4(1, n) | 1; vstore4(a / b + a % b - (a ^ b) * (a & ~b), 0, on);",
    "scalar and vector": "float4 v = vload4(0, f); v = 2 * v + 1.0f; v /= 4.0f; vstore4(v, 0, of);",
    "vector comparisons": "float4 a = vload4(0, f), b = vload4(1, f); vstore4(a < b, 0, on); vstore4((a == b) || !(a >= b), 1, on);",
    "vector logic": "int4 a = vload4(0, n) & 1, b = vload4(1, n) & 1; vstore4(a && b, 0, on); vstore4(!a, 1, on);",
    "scalar comparisons are 1": "on[0] = (f[0] < f[1]) + (n[0] == n[0]) * 8 + !n[1]; on[1] = -(f[0] < 9); on[2] = ~(n[0] > 0);",
    "vector choice": "int4 c = vload4(0, n); vstore4(c < 0 ? vload4(0, f) : vload4(1, f), 0, of);",
    "scalar choice of vectors": "vstore4(n[0] > 0 ? vload4(0, f) : vload4(1, f), 0, of);",
    "unary vector operators": "int4 v = vload4(0, n); v++; --v.x; vstore4(-v, 0, on); vstore4(~v, 1, on);",
    "shifts wrap at the width": "on[0] = n[0] << 33; on[1] = n[0] >> 34; on[2] = (uint)n[0] >> (n[1] + 64); on[3] = (int)(((long)n[0]) << (n[1] & 63)); char c = n[2]; on[4] = c << 3;",
    "vector shifts wrap": "uchar4 v = convert_uchar4(vload4(0, n) & 255); v = v << (uchar4)(9, 1, 2, 3); v >>= (uchar4)(1); vstore4(convert_int4(v), 0, on);",
    "shift assignments": "char c = n[0]; c <<= 3; uint u = n[1]; u >>= 5; int4 v = vload4(0, n); v.xy <<= (int2)(2, 3); v.z >>= 1; on[0] = c; on[1] = u; vstore4(v, 1, on);",
    "small integers wrap": "uchar a = n[0]; a += 200; a *= 3; short s = n[1]; s -= 30000; on[0] = a; on[1] = s; uchar4 v = (uchar4)(250) + (uchar4)(a); on[2] = v.x;",
    "integer promotion": "uchar a = 200, b = 100; on[0] = a + b; on[1] = (uchar)(a + b); on[2] = -a; char c = 'z'; on[3] = c + '\\n'; on[4] = sizeof('a');",
    "comma and side effects": "int a = n[0], b; b = (a++, a + 1); on[0] = a; on[1] = b; on[2] = a++ * 2; on[3] = a;",
    # conversions
    "conversions to integers": "float4 v = vload4(0, f) * 100; vstore4(convert_int4(v), 0, on); vstore4(convert_int4_rte(v), 1, on);",
    "conversions with rounding": "float4 v = vload4(0, f) * 10; vstore4(convert_int4_rtp(v), 0, on); vstore4(convert_int4_rtn(v), 1, on);",
    "saturated conversions": "float4 v = vload4(0, f) * 1000; vstore4(convert_int4(convert_uchar4_sat(v)), 0, on); vstore4(convert_int4(convert_char4_sat(vload4(0, n))), 1, on);",
    "saturated from integers": "int4 v = vload4(0, n) * 100000; vstore4(convert_int4(convert_ushort4_sat(v)), 0, on); on[4] = convert_short_sat(v.x); on[5] = (int)convert_uint_sat(v.y); on[6] = convert_int_sat((long)v.z * 100000);",
    "saturated extremes": "on[0] = convert_int_sat(1e20f); on[1] = convert_int_sat(-1e20f); on[2] = (int)convert_uint_sat(-3.0f); on[3] = convert_int_sat(NAN); on[4] = (int)convert_long_sat(f[0] + 1e30f); on[5] = convert_uchar_sat_rte(254.5f);",
    "floats from integers": "of[0] = convert_float_rtz(n[0] * 123457); of[1] = convert_float_rtp(n[0] * 123457); of[2] = convert_float_rtn(n[0] * 123457); of[3] = convert_float(n[0] * 123457);",
    "reinterpretations": "on[0] = as_int(f[0]); of[0] = as_float(as_int(f[1])); vstore4(as_int4(vload4(0, f)), 1, on); ushort2 u = as_ushort2(n[0]); on[1] = u.y; of[1] = as_float4((int4)(as_int(f[3]))).z;",
    "implicit conversions": "float x = n[0]; int k = f[0] * 9; long l = n[1]; double d = f[1]; d = d / 3; of[0] = x + k; of[1] = d; on[0] = l * 2; bool b = f[2]; on[1] = b; on[2] = 3.99f; uint u = n[0]; of[2] = u;",
    # memory
    "vector loads and stores": "float3 a = vload3(1, f); vstore3(a, 0, of); vstore2(vload2(3, f), 3, of); of[3] = 0; of[4] = 0; of[5] = 0;",
    "half loads and stores": "local half *h = (local half *)lo + 16 * get_local_id(0); vstore_half(f[0], 0, h); vstore_half4(vload4(0, f), 1, h); vstore_half_rtz(f[5], 1, h); of[0] = vload_half(0, h); of[1] = vload_half(1, h); vstore4(vload_half4(1, h), 1, of);",
    "local array": "local int a[16][2]; int l = get_local_id(0); a[l][0] = n[0]; a[l][1] = n[1]; barrier(CLK_LOCAL_MEM_FENCE); on[0] = a[15 - l][1] + a[l ^ 1][0];",
    "local argument": "int l = get_local_id(0); lo[l] = f[0]; barrier(CLK_LOCAL_MEM_FENCE); of[0] = lo[15 - l];",
    "asynchronous copy": "local int a[128]; event_t e = async_work_group_copy(a, n_ + 128 * get_group_id(0), 128, 0); wait_group_events(1, &e); on[0] = a[127 - get_local_id(0)];",
    "strided copy": "local int a[16]; event_t e = async_work_group_strided_copy(a, n_ + 128 * get_group_id(0), 16, 8, 0); wait_group_events(1, &e); on[0] = a[15 - get_local_id(0)];",
    "private arrays": "int a[4] = {n[0], n[1]}, b[2][2] = {{1, 2}, {3}}, c[2][2] = {1, 2, 3, 4}; on[0] = a[n[2] & 3]; on[1] = b[1][n[0] & 1] + c[n[0] & 1][1];",
    "pointers": "global const int *p = n + 2; int (*q)[2]; int m[2][2] = {{1, 2}, {3, 4}}; q = m; on[0] = *p++ + p[-1] + q[1][0]; on[1] = p - n; void *v = m; on[2] = ((int *)v)[3]; global int *none = 0; on[3] = none == NULL;",
    # functions
    "maxima and minima": "float4 v = vload4(0, f); vstore4(max(min(v, 0.5f), -0.5f), 0, of); vstore4(clamp(vload4(0, n), -3, (int4)(4).x), 0, on); on[4] = max(n[0], n[1]);",
    "absolute values": "vstore4(convert_int4(abs(vload4(0, n))), 0, on); on[4] = abs_diff(n[0], n[1]); on[5] = abs((char)n[2]);",
    "saturated sums": "uchar4 a = convert_uchar4(vload4(0, n) & 255); vstore4(convert_int4(add_sat(a, (uchar4)(100))), 0, on); on[4] = sub_sat(n[0], INT_MAX); on[5] = add_sat((char)n[0], (char)100); on[6] = (int)sub_sat((uint)n[0], (uint)n[1]);",
    "halves and highs": "on[0] = hadd(n[0], n[1]); on[1] = rhadd(n[0], n[1]); on[2] = mul_hi(n[0] * 99999, n[1] * 99999); on[3] = mad_hi(n[0] * 99999, n[1] * 99999, 7); on[4] = mad_sat(n[0] * 99999, n[1] * 99999, 7); on[5] = (int)mul_hi((ulong)n[0], (ulong)n[1]); on[6] = mad_sat((char)n[0], (char)n[1], (char)n[2]);",
    "bits": "on[0] = rotate(n[0], n[1]); on[1] = clz(n[0]); on[2] = popcount(n[0]); on[3] = clz((uchar)n[0]); on[4] = rotate((uchar)n[0], (uchar)9); on[5] = upsample((short)n[0], (ushort)n[1]); on[6] = mul24(n[0], n[1]); on[7] = popcount((char)n[0]);",
    "selections": "vstore4(select(vload4(0, f), vload4(1, f), vload4(0, n)), 0, of); of[4] = select(f[0], f[1], n[0] > 0); vstore4(bitselect(vload4(0, n), vload4(1, n), (int4)(0xff)), 0, on); of[5] = bitselect(f[0], f[1], 1.0f);",
    "relations": "float4 a = vload4(0, f), b = vload4(1, f); vstore4(isless(a, b), 0, on); on[4] = isgreater(f[0], f[1]); on[5] = any(a < b) + 2 * all(a < b); on[6] = isnan(f[0] / 0.0f - INFINITY) + 2 * isinf(MAXFLOAT * 2) + 4 * isfinite(f[0]) + 8 * isnormal(f[1]); on[7] = signbit(f[2]);",
    "shuffles": "vstore4(shuffle(vload4(0, f), convert_uint4(vload4(0, n) & 3)), 0, of); vstore4(shuffle2(vload4(0, n), vload4(1, n), (uint4)(7, 0, 5, 2)), 0, on);",
    "exact float functions": "float4 v = vload4(0, f) * 3; vstore4(floor(v) + ceil(v) * 2 + trunc(v) * 3 + rint(v) * 4, 0, of); of[4] = fabs(f[0]); of[5] = copysign(f[0], f[1]); of[6] = fma(f[0], f[1], f[2]); of[7] = ldexp(f[0], 3) + round(f[1] * 7);",
    "functions with two results": "float w; of[0] = fract(f[0] * 9, &w); of[1] = w; int e; of[2] = frexp(f[1], &e); on[0] = e; of[3] = modf(f[2] * 9, &w); of[4] = w; float4 c; of[5] = remquo(f[3] * 9, 0.7f, &e); on[1] = e & 7; on[2] = ilogb(f[1]);",
    "common functions": "of[0] = mix(f[0], f[1], 0.25f); of[1] = step(0.1f, f[2]); of[2] = smoothstep(0.0f, 1.0f, f[3]); of[3] = sign(f[4]); of[4] = degrees(f[5]); of[5] = radians(f[6]); vstore2(mix(vload2(0, f), vload2(1, f), 0.5f), 3, of);",
    "geometry": "float4 a = vload4(0, f), b = vload4(1, f); of[0] = dot(a, b); vstore3(cross(a.xyz, b.xyz), 1, of); of[1] = length(a); of[2] = distance(a, b); vstore2(normalize(a).xy, 3, of);",
    "large lengths": "of[0] = length((float2)(3e25f, 4e25f)); of[1] = length((float2)(3e-30f, 4e-30f)); of[2] = normalize((float2)(3e25f, 4e25f)).x;",
    "elementary functions": "float4 v = fabs(vload4(0, f)) + 0.1f; vstore4(exp(v) + log(v) + pow(v, (float4)(1.5f)), 0, of); vstore4(sin(v) + cos(v) * 2 + tan(v) + atan2(v, v.wzyx), 1, of);",
    "native and half functions": "of[0] = half_exp(f[0]); of[1] = half_sqrt(fabs(f[1])); of[2] = half_divide(f[2], 3.0f); of[3] = half_sin(f[3]);",
    "whole powers and roots": "of[0] = pown(f[0], 3); of[1] = rootn(fabs(f[1]), 3); of[2] = rootn(-fabs(f[1]), 5); of[3] = powr(fabs(f[2]), 1.5f); of[4] = cbrt(f[3]); of[5] = hypot(f[4], f[5]); of[6] = erf(f[6]); of[7] = exp10(f[7]);",
    "double arithmetic": "double2 d = convert_double2(vload2(0, f)); d = d * d / (d.yx + 3.0) - sqrt(fabs(d)); vstore2(convert_float2(d), 0, of); on[0] = d.x < d.y; on[1] = convert_int_rte(d.x * 1000);",
    "atomics on local memory": "local int c[4]; if (get_local_id(0) < 4) c[get_local_id(0)] = 100; barrier(CLK_LOCAL_MEM_FENCE); atomic_inc(&c[0]); atomic_add(&c[1], n[0]); atomic_max(&c[2], n[1]); atomic_dec(&c[3]); barrier(CLK_LOCAL_MEM_FENCE); for (int k = 0; k < 4; k++) on[k] = c[k];",
    "atomics on global memory": "atomic_inc(&on_[6]); atomic_xchg(&on[0], n[0]); on[1] = atomic_cmpxchg(&on[0], n[0], 5); on[2] = atomic_min((volatile global uint *)&on[0], 3u); atomic_or(&on_[7], 1 << (i & 15)); atomic_xchg(&of[0], f[0]); on[3] = atomic_sub(&on[0], 1) + atomic_and(&on[0], 3) + atomic_xor(&on[0], 9);",
    "atomics of 64 bits": "local long c[2]; if (!get_local_id(0)) c[0] = c[1] = 1L << 40; barrier(CLK_LOCAL_MEM_FENCE); atom_add(&c[0], (long)n[0]); atom_min(&c[1], (long)n[1]); barrier(CLK_LOCAL_MEM_FENCE); on[0] = (int)c[0]; on[1] = (int)c[1]; on[2] = (int)(c[0] >> 32);",
    # statements and names
    "loops": "int s = 0; for (int k = 0, m = 9; k < 4; k++, m--) { if (k == 2) continue; s += m; } for (;;) { if (s > n[0]) break; s += 7; } do s++; while (s & 3); int k; for (k = 0; k < 3;) k++; while (k-- > 0) s += k; on[0] = s;",
    "unrolled loops": "int s = 0;\n#pragma unroll 4\nfor (int k = 0; k < 8; k++) s += n[k];\n__attribute__((opencl_unroll_hint(2))) for (int k = 0; k < 4; k++) s ^= n[k];\non[0] = s;",
    "ranges of cases": "int s = 0; switch (n[0] & 15) { case 1 ... 3: s = 5; break; case -2 ... 0: s = 7; case 0x8 ... 10: s++; break; case 12: s = 2; break; default: s = 9; } on[0] = s;",
    "switch and goto": "int s = 0; switch (n[0] & 7) { case 0: case 1: s = 5; break; case 2: s += 1; case 3: s += 2; break; default: s = 9; } if (s > 4) goto done; s = 100; done: on[0] = s;",
    "names that C++ keeps for itself": "int new = n[0], class = n[1], this = new + class; float template = f[0]; { int operator = this; on[0] = operator; } on[1] = new; of[0] = template; int threadIdx = 3; on[2] = threadIdx;",
    "names of built-in functions": "int max = n[0], min = n[1]; float dot = f[0]; on[0] = max + min; of[0] = dot;",
    "volatile": "local float4 a[16]; volatile local float4 *p = a; int l = get_local_id(0); p[l] = vload4(0, f); p[l].x = 3; float4 v = p[l]; v.zw = p[l].xy; vstore4(v, 0, of);",
    "operators on volatile vectors": "local int4 a[16]; volatile local int4 *p = a; int l = get_local_id(0); p[l] = vload4(0, n); p[l] += (int4)(1, 2, 3, 4); p[l] *= 3; p[l] <<= (int4)(1); p[l].yx -= (int2)(7, 8); p[l] ^= vload4(1, n); vstore4(p[l], 0, on);",
    "volatile arrays": "local volatile int a[2][16]; local volatile float4 b[16]; volatile int own[4]; int l = get_local_id(0) & 15; a[1][l] = n[0]; a[1][l] += 3; a[1][l]++; a[1][l] <<= 1; b[l] = vload4(0, f); b[l].zx += (float2)(1, 2); b[l] *= 2; own[l & 3] = a[1][l]; vstore4(b[l], 0, of); on[0] = own[l & 3];",
    "volatile records": "typedef struct { float x; int n[2]; char c; } pair; typedef struct { volatile uchar c[3]; } bytes; local volatile pair a[16]; volatile pair own; bytes t = {{1, 2, 3}}; int l = get_local_id(0) & 15; a[l].x = f[0]; a[l].n[1] = n[0]; a[l].n[0] = 5; a[l].c = 7; pair p = a[l]; p.n[0]++; own = p; a[l] = own; bytes u = t; of[0] = a[l].x; on[0] = a[l].n[0] + a[l].n[1] + own.c + u.c[2];",
    "geometry functions": "on[0] = get_global_id(0) + 10 * get_group_id(0) + 100 * get_local_id(0); on[1] = get_global_size(0) + get_local_size(0) + get_num_groups(0); on[2] = get_work_dim() + get_global_id(1) + get_global_size(2) + get_local_size(1) + get_global_offset(0);",
    "constants": "on[0] = INT_MAX; on[1] = CHAR_BIT; of[0] = M_PI_F; of[1] = FLT_EPSILON; of[2] = MAXFLOAT; of[3] = INFINITY; of[4] = 1e-3f + 2.f + .5f + 0x1p4f; on[2] = 010 + 0xff; of[5] = 1.0 / 3; on[3] = (int)UINT_MAX; of[6] = FLT_MIN; on[4] = true + false;",
    "sizes": "on[0] = sizeof(float3); on[1] = sizeof(int[3]); float4 v; on[2] = sizeof v; on[3] = vec_step(float3); on[4] = sizeof(size_t); on[5] = sizeof(n);",
    "sizes of 64 bits": "size_t big = ((size_t)1 << 40) + get_global_id(0); on[0] = (int)(big >> 36); ptrdiff_t d = (ptrdiff_t)n[0] << 33; on[1] = (int)(d >> 33); on[2] = (get_global_id(0) - 1) > 5; uintptr_t p = (uintptr_t)&n[1] - (uintptr_t)n; on[3] = (int)p; on[4] = sizeof(size_t) + sizeof(big);",
    "overloads by argument": "on[0] = max((char)n[0], (char)3); on[1] = max((uint)n[0], 5u) & 255; of[0] = max(f[0], 1.0f); of[1] = fmax(f[0], 0); of[2] = pow(2.0f, 3); of[3] = clamp(f[0], -1.0f, 1.0f);",
}  # fmt: skip

# Whole programs, for what is outside of kernels' bodies.
PROGRAMS: dict[str, str] = {
    "structs": """
        typedef struct { char c; float3 p; int q[3]; } part;
        struct outer { struct { int a, b; } in; double d; char e; part p; };
        union both { float f; int n; struct { short low, high; }; };
        part make(float x, int k) { part p = {1, {x, x + 1, 2}, {k, 2, 3}}; p.p.zy = p.p.xy; return p; }
        HEAD part p = make(f[0], n[0]), r = p, z = {0}; struct outer o = {{1, n[1]}, 2.5, 'x', p};
        union both u; u.f = f[1]; part list[2] = {{.q = {7, n[2]}}, p};
        r.q[1] += o.in.b + list[1].q[0] + z.q[2]; on[0] = r.q[1]; on[1] = u.n; on[2] = u.high; on[3] = sizeof(part);
        on[4] = sizeof(struct outer); on[5] = list[0].q[1]; vstore3(r.p, 0, of); of[3] = o.d + o.e; of[4] = o.p.p.y; }
    """,
    "packed and aligned structs": """
        typedef struct __attribute__((packed)) { char c; int i; short s; } tight;
        typedef struct { char c; float4 v __attribute__((aligned(32))); } wide;
        HEAD tight t[2] = {{1, n[0], 3}, {4, n[1], 6}}; on[0] = t[1].i + t[0].s; on[1] = sizeof(tight); on[2] = sizeof(wide); }
    """,
    "structs that a pragma packs": """
        #pragma pack(push, 1)
        typedef struct { char c; int i; short s; } one;
        #pragma pack(pop)
        #pragma pack(push, 2)
        typedef struct { char c; int i; one o; char d[3]; } two;
        #pragma pack(pop)
        typedef struct { two t; int z; } loose;
        HEAD loose q[2] = {{{1, n[0], {2, 3, 4}, {5}}, 6}, {{7, n[1]}, 8}}; on[0] = q[1].t.i + q[0].t.o.s; on[1] = sizeof(one); on[2] = sizeof(two); on[3] = sizeof(loose); }
    """,
    "constants of the program": """
        constant float table[4] = {1, 2.5f, -3, 4e2f};
        constant int grid[2][3] = {{1, 2, 3}, {4, 5, 6}}, flat[2][2] = {1, 2, 3, 4};
        constant float4 four = (float4)(1, 2, 3, 4);
        constant struct { int a; float2 b; } both = {7, (float2)(8, 9)};
        constant char text[] = "abc";
        float pick(constant float *t, int k) { return t[k & 3]; }
        HEAD of[0] = pick(table, n[0]); on[0] = grid[1][n[1] & 1] + flat[n[0] & 1][1]; vstore4(four, 1, of); on[1] = both.a; of[1] = both.b.y; on[2] = text[n[0] & 1]; }
    """,
    "enumerations": """
        enum color { RED, GREEN = 5, BLUE }; typedef enum { LOW = -1, HIGH } level;
        int use(enum color c, level l) { return c * 10 + l; }
        HEAD enum color c = n[0] & 1 ? BLUE : RED; level l = LOW; on[0] = use(c, l); on[1] = c == BLUE; switch (c) { case RED: on[2] = 1; break; default: on[2] = GREEN; } }
    """,
    "helpers": """
        int twice(int x); float4 add(float4 a, const float4 b) { return a + b; }
        void put(global float *p, local float *l, float *q) { *p = *q + l[0]; *q = 3; }
        size_t where(void) { return get_global_id(0) * 2 + get_local_id(0); }
        size_t deep(int k) { return k ? where() + get_group_id(0) : 0; }
        inline int twice(int x) { return x * 2; }
        HEAD float x = f[0]; if (get_local_id(0) == 0) lo[0] = 5; barrier(CLK_LOCAL_MEM_FENCE); put(of, lo, &x); of[1] = x; on[0] = twice(n[0]) + deep(1); vstore4(add(vload4(0, f), (float4)(1, 2, 3, 4)), 1, of); }
    """,
    "a kernel that calls a kernel": """
        kernel void inner(global int *p, local int *l) { int k = get_local_id(0); l[k] = p[0]; barrier(CLK_LOCAL_MEM_FENCE); p[0] = l[k ^ 1] + 1; }
        HEAD on[0] = n[0]; inner(on, (local int *)lo); }
    """,
    "statement expressions": """
        #define SWAP_ADD(a, b) ({ int t_ = (a); t_ += (b); t_ * 2; })
        HEAD on[0] = SWAP_ADD(n[0], n[1]); }
    """,
    "a required work-group size": """
        kernel void t(global const float *f_, global const int *n_, global float *of_, global int *on_, local float *lo) __attribute__((reqd_work_group_size(16, 1, 1)));
        HEAD on[0] = get_local_size(0); }
    """,
}  # fmt: skip

SOURCES: dict[str, str] = {
    **{name: f"{_HEAD}    {body}\n}}\n" for name, body in BODIES.items()},
    **{name: text.replace("HEAD", _HEAD) for name, text in PROGRAMS.items()},
}

# Results of these may differ in the last places: (ULP, absolute).  All others are equal bit by bit.
INEXACT: dict[str, float] = {
    "literal as an argument": 1e-5,
    "scalar and vector": 1e-6,
    "common functions": 1e-5,
    "geometry": 1e-5,
    "large lengths": 1e-5,
    "elementary functions": 1e-4,
    "native and half functions": 1e-2,
    "whole powers and roots": 1e-5,
    "double arithmetic": 1e-6,
    "functions with two results": 1e-5,
}
