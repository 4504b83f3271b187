"""Which atomic additions only append, and which kernels stay whole for what they do with a result."""

from __future__ import annotations

import pytest

from sdi.appends import Limit, Scalar, value_of
from sdi.clc.model import KernelModel
from tests.clc.test_model import model_of

INTS = "global int *out, volatile global int *n"


TABLES = (
    "constant int counts[4] = {0, 3, 6, 3}; constant int steps[2] = {1, -1}; constant int bits[1] = {~0};"
    "constant int pairs[2][1] = {{1}, {2}}; constant int large[1] = {0x80000001};"
)
RUN = "int p = atomic_add(n, k); for (int i = 0; i < k; i++) out[p + i] = g;"


def kernel(arguments: str, body: str) -> KernelModel:
    """The model of a kernel."""
    source = f"{TABLES} kernel void k({arguments}) {{ int g = get_global_id(0); {body} }}"
    return model_of(source, options="-cl-std=CL3.0")


APPENDS = {
    "at once": (INTS, "if (g % 3) out[atomic_inc(n)] = g;"),
    "a variable": (INTS, "int p = atomic_inc(n); out[p] = g;"),
    "assigned later": (INTS, "int p; p = atom_add(n, 1); out[p] = g;"),
    "a variable of a variable": (
        INTS,
        "int p = atomic_inc(n); int at = 2 * p; out[at] = g; out[at + 1] = 1;",
    ),
    "a limit": (INTS + ", uint m", "uint p = atomic_inc(n); if (p < m) out[p] = g;"),
    "a limit on the left": (INTS + ", uint m", "uint p = atomic_inc(n); if (m > p && p < 100) out[p] = g;"),
    "no store beyond a limit": (INTS + ", int m", "int p = atomic_inc(n); if (p >= m) return; out[p] = g;"),
    "a limit for something else": (
        INTS + ", int m, global int *f",
        "int p = atomic_inc(n); out[p] = g; f[g] = p < m;",
    ),
    "two columns": (INTS + ", global float4 *f", "int p = atomic_inc(n); out[p] = g; f[p] = g * 2.0f;"),
    "two counters": (INTS, "if (g & 1) out[atomic_inc(&n[0])] = g; else out[1000 + atomic_inc(&n[1])] = g;"),
    "two calls": (INTS, "if (g & 1) out[atomic_inc(n)] = g; else { int p = atomic_inc(n); out[p] = -g; }"),
    "three elements": (INTS, "int p = atomic_add(n + 1, 3); out[p] = g; out[p + 2] = g; out[p + 1] = g;"),
    "a vector": ("global float *out, global int *n", "int p = atomic_inc(n); vstore3((float3)(g), p, out);"),
    "as many as data say": (
        INTS + ", global const uint *c",
        "uint k = c[g], p = atomic_add(n, k); for (uint i = 0; i < k; i++) out[p + i] = g;",
    ),
    "as many as were counted": (
        INTS,
        "int k = 0; for (int j = 0; j < 5; j++) if (j * g % 3) k++;"
        " int p = atomic_add(n, k); for (int i = 0; i < k; i++) { int at = p + i; out[at] = g; }",
    ),
    "as many as a table says": (
        INTS,
        "int k = counts[g & 3]; " + RUN,
    ),
    "as many as a table of tables says": (
        INTS,
        "int k = pairs[g & 1][0]; " + RUN,
    ),
    "if there are any": (
        INTS + ", global const int *c",
        "int k = c[g]; if (k > 0 && g) { " + RUN + " }",
    ),
    "triangles": (
        INTS + ", global const uchar *c",
        "int t = c[g]; int p = atomic_add(n, 3 * t);"
        " for (int i = 0; i < t; ++i) { out[p + 3*i] = 1; out[p + 3*i + 1] = 2; out[p + 3*i + 2] = 3; }",
    ),
    "triangles in steps": (
        INTS + ", global const uchar *c",
        "int t = 3 * c[g]; int k = t; int p = atomic_add(n, 6);"
        " for (int i = 0; i < 6; i += 3) { out[p + i] = 1; out[p + i + 1] = 2; out[p + i + 2] = k; }",
    ),
    "runs below a limit": (
        INTS + ", global const uint *c, uint m",
        "uint k = c[g], p = atomic_add(n, k); if (p + k > m) return;"
        " for (uint i = 0; i < k; i++) out[p + i] = g;",
    ),
    "cells": (
        INTS + ", global const float *x, int room",
        "int c = (int)x[g]; int s = atomic_inc(&n[c]); if (s < room) out[c * room + s] = g;",
    ),
    "cells by an index array": (
        INTS + ", global const int *c",
        "int p = atomic_inc(&n[c[g]]); out[c[g] * 8 + p] = 1;",
    ),
    "from where cells begin": (
        INTS + ", global const uint *starts, global const int *c",
        "int cell = c[g]; out[starts[cell] + atomic_inc(&n[cell])] = g;",
    ),
    "from where cells begin, by a variable": (
        INTS + ", global const uint *starts, global const int *c",
        "int cell = c[g]; uint at = starts[cell]; int p = atomic_inc(&n[cell]); out[at + p] = g;",
    ),
    "C11": ("global int *out, global atomic_uint *n", "uint p = atomic_fetch_add(n, 1u); out[p] = g;"),
    "C11, relaxed": (
        "global int *out, global atomic_int *n",
        "out[atomic_fetch_add_explicit(&n[2], 1, memory_order_relaxed)] = g;",
    ),
    "downwards": (INTS + ", int size", "out[size - 1 - atomic_inc(n)] = g;"),
    "in a loop": (
        INTS,
        "for (int i = 0; i < g; i++) { if (i % 3) continue; int p = atomic_inc(n); out[p] = i; }",
    ),
    "a long counter": ("global int *out, volatile global long *n", "long p = atom_inc(n); out[p] = g;"),
    "columns of one buffer": (
        INTS + ", uint m",
        "uint p = atomic_inc(n); if (p < m) { out[p] = g; out[m + p] = 1; out[2 * m + p] = 2; }",
    ),
    "components": ("global int2 *out, global int *n", "int p = atomic_inc(n); out[p].x = g; out[p].y = 1;"),
    "components by numbers": (
        "global float4 *out, global int *n",
        "int p = atomic_inc(n); out[p].s01 = (float2)(g); out[p].zw = (float2)(1);",
    ),
    "fields": (
        "global struct { int a; float b; } *out, global int *n",
        "int p = atomic_inc(n); out[p].b = g; out[p].a = 1;",
    ),
    "a limit for each of several": (
        INTS + ", global const uint *c, uint m",
        "uint k = c[g], p = atomic_add(n, k); for (uint i = 0; i < k; i++) if (p + i < m) out[p + i] = g;",
    ),
    "counted only up to a limit": (INTS + ", int m", "int p = atomic_inc(n); if (p < m) { }"),
}
REFUSED = {
    "the result is stored": (INTS, "out[g] = atomic_inc(n);"),
    "the result is stored where it says": (INTS, "int p = atomic_inc(n); out[p] = p;"),
    "the result is stored by a helper": (INTS, "int p = atomic_inc(n); out[p] = abs(p);"),
    "it is compared with one value": (INTS, "int p = atomic_inc(n); if (p == 7) out[p] = 1;"),
    "it is compared with memory": (
        INTS + ", global int *m",
        "int p = atomic_inc(n); if (p < *m) out[p] = 1;",
    ),
    "it is compared with what differs": (INTS, "int p = atomic_inc(n); if (p < g) out[p] = 1;"),
    "it is odd": (INTS, "int p = atomic_inc(n); if (p & 1) return; out[p] = 1;"),
    "it is what a loop ends at": (
        INTS,
        "int p = atomic_inc(n); for (int i = 0; i < p; i++) g += i; out[p] = g;",
    ),
    "what is stored to is read": (INTS, "int v = out[g]; int p = atomic_inc(n); out[p] = v;"),
    "what is stored to is added to": (INTS, "int p = atomic_inc(n); out[p] += g;"),
    "the counter is read": (INTS, "int v = n[0]; int p = atomic_inc(n); out[p] = v;"),
    "the counter is set": (INTS, "if (g == 0) *n = 0; int p = atomic_inc(n); out[p] = g;"),
    "the counter is also counted": (INTS, "int p = atomic_inc(n); out[p] = 1; atomic_inc(n);"),
    "a counter depends on another": (
        INTS,
        "int p = atomic_inc(n); int q = atomic_add(&n[1], p); out[q] = 1;",
    ),
    "places are left out": (INTS, "int p = atomic_inc(n); if (g & 1) out[p] = 1;"),
    "every second place is left out": (INTS, "int p = atomic_inc(n); out[2 * p] = 1;"),
    "fewer than handed out": (INTS, "int p = atomic_add(n, 2); out[p] = 1;"),
    "more than handed out": (INTS, "int p = atomic_inc(n); out[p] = 1; out[p + 1] = 2;"),
    "a loop leaves some out": (INTS, "int p = atomic_add(n, 4); for (int i = 1; i < 4; i++) out[p + i] = 1;"),
    "a loop ends early": (
        INTS,
        "int p = atomic_add(n, 4); for (int i = 0; i < 4; i++) { if (i > g) break; out[p + i] = 1; }",
    ),
    "the loop's bound is another": (
        INTS + ", uint m",
        "uint k = m + g, p = atomic_add(n, k); k++; for (uint i = 0; i < k; i++) out[p + i] = 1;",
    ),
    "it leaves before it stores": (
        INTS,
        "for (int i = 0; i < 3; i++) { int p = atomic_inc(n); if (g == i) break; out[p] = 1; }",
    ),
    "a narrow variable": (INTS, "uchar p = atomic_inc(n); out[p] = 1;"),
    "a narrow index": (INTS, "out[(uchar)atomic_inc(n)] = 1;"),
    "bits of it": (INTS, "out[atomic_inc(n) & 3] = 1;"),
    "a ring": (INTS + ", uint m", "uint p = atomic_inc(n); out[p % m] = 1;"),
    "a float": (INTS, "float p = atomic_inc(n); out[(int)p] = 1;"),
    "it may count down": (
        INTS + ", int k",
        "int p = atomic_add(n, k); for (int i = 0; i < k; i++) out[p+i] = 1;",
    ),
    "a table says it may": (INTS, "int k = steps[g & 1]; " + RUN),
    "a table has bits": (INTS, "int k = bits[0]; " + RUN),
    "a table has large numbers": (INTS, "int k = large[0]; " + RUN),
    "a large number": (INTS, "int k = 0x80000001; " + RUN),
    "if there may be less than none": (
        INTS + ", global const int *c",
        "int k = c[g]; if (k > -2) { " + RUN + " }",
    ),
    "if there are none": (
        INTS + ", global const int *c",
        "int k = c[g]; if (k > 0) { } else { " + RUN + " }",
    ),
    "if there were any": (INTS + ", global const int *c", "int k = c[g]; if (k > 0) { k -= 5; " + RUN + " }"),
    "if they are not 0u": (INTS + ", global const int *c", "int k = c[g]; if (k > 0u) { " + RUN + " }"),
    "a loop that does not count a large number": (
        INTS + ", global const int *c",
        "uint k = c[g], p = atomic_add(n, k); for (int i = 0; i < (int)k; i++) out[p + i] = 1;",
    ),
    "as many as local memory says": (
        INTS + ", local uint *c",
        "uint p = atomic_add(n, c[0]); c[0] = 3; for (uint i = 0; i < c[0]; i++) out[p + i] = 1;",
    ),
    "as many as a pointer changes": (
        INTS + ", global const uint *c",
        "uint k = c[g]; uint *q = &k; uint p = atomic_add(n, k); *q = 3;"
        " for (uint i = 0; i < k; i++) out[p + i] = 1;",
    ),
    "a cell that a pointer changes": (
        INTS,
        "int c = g & 3, *q = &c; int p = atomic_inc(&n[c]); *q = 2; out[c * 64 + p] = 1;",
    ),
    "the size of a dimension that changes": (
        INTS,
        "int d = 0; uint p = atomic_add(n, (uint)get_local_id(d)); d = 1;"
        " for (uint i = 0; i < get_local_id(d); i++) out[p + i] = 1;",
    ),
    "it counts down": (INTS, "int p = atomic_dec(n); out[p] = 1;"),
    "it subtracts": (INTS, "int p = atomic_sub(n, 1); out[p] = 1;"),
    "the result changes": (INTS, "int p = atomic_inc(n); p += 2; out[p] = 1;"),
    "a local variable": (INTS, "local int p; p = atomic_inc(n); out[p] = 1;"),
    "a work-group's first place": (
        INTS,
        "local int base; if (!get_local_id(0)) base = atomic_add(n, 64);"
        " barrier(CLK_LOCAL_MEM_FENCE); out[base + get_local_id(0)] = g;",
    ),
    "stores to elsewhere too": (INTS, "int p = atomic_inc(n); out[p] = 1; out[g] = 3;"),
    "calls that store elsewhere": (
        INTS,
        "if (g & 1) out[atomic_inc(n)] = 1; else out[atomic_inc(n) + 5] = 2;",
    ),
    "a pointer variable": (INTS, "global int *o = out; int p = atomic_inc(n); o[p] = 1;"),
    "another type": (INTS, "int p = atomic_inc(n); ((global char *)out)[p] = 1;"),
    "a field": ("global int2 *out, global int *n", "int p = atomic_inc(n); out[p].x = 1;"),
    "not all fields": (
        "global struct { int a; float b; } *out, global int *n",
        "int p = atomic_inc(n); out[p].b = g;",
    ),
    "an element of a field": (
        "global struct { int a[2]; float b; } *out, global int *n",
        "int p = atomic_inc(n); out[p].b = g; out[p].a[0] = 1; out[p].a[1] = 1;",
    ),
    "fields of two places": (
        "global int2 *out, global int *n",
        "int p = atomic_add(n, 2); out[p].x = 1; out[p + 1].y = 1;",
    ),
    "halves": ("global int4 *out, global int *n", "int p = atomic_inc(n); out[p].lo = 1; out[p].hi = 1;"),
    "in a choice": (INTS, "int p = g ? atomic_inc(n) : 3; out[p] = 1;"),
    "in a condition": (INTS, "if (g && atomic_inc(n) < 5) out[0] = 1;"),
    "a cell that changes": (INTS, "int c = g; int p = atomic_inc(&n[c]); c++; out[c * 8 + p] = 1;"),
    "cells by what changes": (
        INTS + ", global int *c",
        "int p = atomic_inc(&n[c[g]]); out[c[g] * 8 + p] = 1; c[g] = 0;",
    ),
    "from where another cell begins": (
        INTS + ", global const int *starts, global const int *c",
        "int cell = c[g]; int p = atomic_inc(&n[cell]); out[starts[cell + 1] + p] = g;",
    ),
    "from where an earlier cell began": (
        INTS + ", global const int *starts, global const int *c",
        "int cell = c[g]; int at = starts[cell]; cell++; int p = atomic_inc(&n[cell]); out[at + p] = g;",
    ),
    "from where data say": (
        INTS + ", global const int *starts",
        "int p = atomic_inc(n); out[starts[g] + p] = g;",
    ),
    "stores before it": (
        INTS,
        "int p = 0; for (int i = 0; i < 2; i++) { if (i) out[p] = 1; p = atomic_inc(n); }",
    ),
    "a jump": (INTS, "int p = atomic_inc(n); if (g) goto end; out[p] = 1; end: ;"),
    "a switch": (INTS, "int p; switch (g) { case 0: p = atomic_inc(n); case 1: out[p] = 1; }"),
    "to private memory": (INTS, "int own[9]; own[atomic_inc(n)] = g; out[g] = own[0];"),
    "a stack": (INTS + ", global int *in", "int p = atomic_inc(n); out[g] = in[p];"),
    "the last group": (INTS, "out[g] = 1; if (atomic_inc(n) == get_num_groups(0) - 1) out[0] = 2;"),
    "exchanged": (INTS, "int p = atomic_xchg(n, g); out[p] = 1;"),
}


@pytest.mark.parametrize(("arguments", "body"), APPENDS.values(), ids=APPENDS)
def test_a_kernel_that_appends_may_be_split(arguments: str, body: str) -> None:
    model = kernel(arguments, body)
    assert (model.why_whole, bool(model.appends)) == ("", True)


@pytest.mark.parametrize(("arguments", "body"), REFUSED.values(), ids=REFUSED)
def test_a_kernel_that_does_anything_else_with_a_result_does_not_append(arguments: str, body: str) -> None:
    model = kernel(arguments, body)
    assert not model.appends
    assert model.watched or model.why_whole.startswith(
        "line 1: updates global memory atomically through 'n', "
    )


@pytest.mark.parametrize(
    ("own", "body"),
    [
        ("uint atomic_inc(volatile global int *p) { return 7; }", "out[atomic_inc(n)] = 1;"),
        (
            "void vstore2(int2 x, int i, global int *p) { p[i] = 3; }",
            "vstore2((int2)(1), atomic_inc(n), out);",
        ),
    ],
)
def test_a_kernel_that_calls_its_own_functions_of_such_names_does_not_append(own: str, body: str) -> None:
    source = f"__attribute__((overloadable)) {own} kernel void k({INTS}) {{ {body} }}"
    assert not model_of(source, options="-cl-std=CL3.0").appends


def test_a_helper_that_appends_keeps_its_kernels_whole() -> None:
    model = model_of(
        "int next(volatile global int *n) { return atomic_inc(n); }"
        "kernel void k(global int *out, volatile global int *n) { out[next(n)] = 1; }"
    )
    assert model.why_whole and not model.appends


def test_a_kernel_that_appends_does_nothing_else_with_results_in_a_helper() -> None:
    model = model_of(
        "int claim(volatile global int *f) { return atomic_cmpxchg(f, 0, 1) == 0; }"
        "kernel void k(global int *out, volatile global int *n, volatile global int *f, global const int *in)"
        "{ int g = get_global_id(0); if (in[g] == 7 && claim(&f[g])) f[g] = 2; out[atomic_inc(n)] = g; }"
    )
    assert model.why_whole and not (model.appends or model.watched)


@pytest.mark.parametrize(
    "body",
    [
        'int p = atomic_inc(n); out[p] = g; printf("%d", g);',
        "int p = atomic_inc(n); out[p] = g; *(global int *)(ulong)m[0] = 1;",
        "int p = atomic_inc(n); out[p] = g; while (f[g] == 0) ; f[g + 1] = 1;",
    ],
)
def test_what_can_not_be_undone_may_reach_anything_or_waits_runs_whole(body: str) -> None:
    model = kernel(INTS + ", global const int *m, global int *f", body)
    assert model.why_whole
    assert not (model.appends or model.watched)


def test_what_is_found_of_cells_with_room_for_some() -> None:
    (append,) = kernel(*APPENDS["cells"]).appends
    (store,) = append.stores
    room = ((1, (Scalar(3, True),)),)
    assert (append.counter, append.nbytes, append.index) == (1, 4, None)
    assert (store.argument, store.element_nbytes, store.scale, store.stride) == (0, 4, 1, room)
    assert append.limits == (Limit(0, room),)
    values = [b"", b"", b"", (7).to_bytes(4, "little")]
    assert (value_of(store.start, values), value_of(store.stride, values)) == (0, 7)


@pytest.mark.parametrize(
    ("comparison", "more"),
    [
        ("p < m", 0),
        ("p <= m", -1),
        ("p + 3 <= m", 2),
        ("p >= m", 0),
        ("p > m", -1),
        ("m > p + 1", 1),
        ("p + k <= m", 0),
    ],
)
def test_how_far_a_counter_may_go_below_a_limit(comparison: str, more: int) -> None:
    adds = "k" if "k" in comparison else "1"
    body = f"uint k = g, p = atomic_add(n, {adds}); if ({comparison}) {{ }}"
    (append,) = kernel(INTS + ", uint m", body).appends
    assert append.limits == (Limit(more, ((1, (Scalar(2, False),)),)),)
