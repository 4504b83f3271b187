"""The programs that sequences run: what their arguments are, and which local sizes they take.

Results never depend on the order of work-items.  Item ``i`` counts over all dimensions; ``n`` elements are
looked at, whatever the NDRange.
"""

from __future__ import annotations

from dataclasses import dataclass

_ITEM = """
#ifndef K
#define K 3
#endif
#ifdef WIDE
typedef long word;
#else
typedef int word;
#endif
static size_t item(void) {
    return get_global_id(0) + get_global_size(0) * (get_global_id(1) + get_global_size(1) * get_global_id(2));
}
"""
BASIC = (
    _ITEM
    + """
__kernel void scale(__global int *a, int k, uint n) {
    size_t i = item();
    if (i < n) a[i] = a[i] * k + (int)i * K;
}
__kernel void rotate_by(__global const int *in, __global int *out, int shift, uint n) {
    size_t i = item();
    if (i < n) out[i] = in[(i + (uint)shift) % n] ^ (int)sizeof(word);
}
__kernel void bytes_of(__global const uchar *in, __global uchar *out, uint n) {
    size_t i = item();
    if (i < n) out[n - 1 - i] = in[i] + (uchar)(i * K);
}
__kernel void pick(__global const int *in, __global int *out, int mask, uint n) {
    size_t i = item();
    if (i < n && (in[i] & mask)) out[i] = in[i] + K;
}
"""
)
MORE = (
    _ITEM
    + """
typedef struct { short a; float b[2]; char c; } pack;
__constant int table[4] = {K, 5, 7, 11};
__kernel void count(__global const uchar *in, __global uint *bins, uint n) {
    size_t i = item();
    if (i < n) atomic_add(&bins[in[i] % 16], K);
}
__kernel void scatter(__global const uint *in, __global uint *out, uint n) {
    size_t i = item();
    if (i < n) out[(i * 7 + 3) % n] = n % 7 ? in[i] + table[i % 4] : (uint)n;
}
__kernel void values(__global float4 *out, float4 v, pack p, uchar3 w, uint n) {
    size_t i = item();
    if (i < n) out[i] = v + (float4)(p.a, p.b[0], p.b[1], p.c + w.z) * (float)(i % 9);
}
__kernel void whereabouts(__global ulong *out, __global const int *maybe, uint n) {
    size_t i = item();
    ulong h = get_work_dim();
    for (uint d = 0; d < 3; d++) // pocl answers 0 instead of 1 for more
        h = h * 31 + get_global_id(d) + 3 * get_local_id(d) + 5 * get_group_id(d) + 7 * get_num_groups(d)
            + 11 * get_local_size(d) + 13 * get_global_size(d) + 17 * get_global_offset(d);
    if (i < n) out[i] = h + (maybe ? maybe[i % 4] : -1);
}
__kernel void swap_in_group(__global int *a, __local int *t, uint n) {
    size_t i = item(), l = get_local_id(0), s = get_local_size(0);
    t[l] = i < n ? a[i] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n && i - l + s <= n) a[i] = t[s - 1 - l] + K;
}
__kernel void take_turns(__global uint *next, __global uint *done, uint n) {
    if (item() < n) done[atomic_inc(next) % n] = K;
}
"""
)
HEADER = """
int twice(int x);
typedef struct { int low, high; } span_t;
static inline int middle(span_t s) { return (s.low + s.high) / 2; }
"""
LIBRARY = """
#include "spans.h"
static int helper(int x) { return x * K; }
int twice(int x) { return helper(x) + helper(1); }
"""
USER = """
#include "spans.h"
static int helper(int x) { return x + K; }
__kernel void scale(__global int *a, int k, uint n) {
    size_t i = get_global_id(0);
    span_t s = {a[i < n ? i : 0], k};
    if (i < n && get_global_id(1) + get_global_id(2) == get_global_offset(1) + get_global_offset(2))
        a[i] = twice(helper(middle(s) / 2));
}
"""


@dataclass(frozen=True, slots=True)
class KernelKind:
    """``arguments``: "in", "out" or "inout" and the bytes of an element; "int", "n" (the number of elements),
    "local", "maybe" (a buffer of 16 bytes or more, or NULL), "bins" (of 64), or the size of a value as text.

    ``local_sizes``: None is NULL, where the result does not depend on it.
    """

    name: str
    arguments: tuple[tuple[str, int], ...]
    local_sizes: tuple[tuple[int, ...] | None, ...]


_LINES = ((16,), (8, 2), None)
_N = ("n", 0)
KINDS: dict[str, KernelKind] = {
    kind.name: kind
    for kind in (
        KernelKind("scale", (("inout", 4), ("int", 4), _N), _LINES),
        KernelKind("rotate_by", (("in", 4), ("out", 4), ("int", 4), _N), _LINES),
        KernelKind("bytes_of", (("in", 1), ("out", 1), _N), ((64,), (4, 4), None)),
        KernelKind("pick", (("in", 4), ("inout", 4), ("int", 4), _N), _LINES),
        KernelKind("count", (("in", 1), ("bins", 64), _N), ((64,), None)),
        KernelKind("scatter", (("in", 4), ("out", 4), _N), ((16,),)),
        KernelKind("values", (("out", 16), ("value", 16), ("value", 16), ("value", 4), _N), ((16,), None)),
        KernelKind("whereabouts", (("out", 8), ("maybe", 16), _N), ((8,), (4, 2), (2, 2, 2))),
        KernelKind("swap_in_group", (("inout", 4), ("local", 64), _N), ((16,), (8,))),
        KernelKind("take_turns", (("bins", 64), ("out", 4), _N), ((16,),)),
    )
}
SOURCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "basic": (BASIC, ("scale", "rotate_by", "bytes_of", "pick")),
    "more": (MORE, ("count", "scatter", "values", "whereabouts", "swap_in_group", "take_turns")),
}
OPTIONS = ("", "-DK=3", "-D K=5", "-DK=5 -DWIDE", "-cl-opt-disable", "-w -DK=(2+2)")
