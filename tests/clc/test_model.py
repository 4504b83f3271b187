"""What the kernel model says about small kernels, each written for one way to reach memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.frontend.base_header import FLOAT_ATOMIC_FEATURES, SUB_GROUP_FEATURE, USUAL
from sdi.clc.model import ArgumentKind, KernelModel


def model_of(source: str, name: str = "k", options: str = "") -> KernelModel:
    return next(k for k in compile_source(source, options).kernels if k.name == name)


def effects_of(model: KernelModel) -> str:
    """``a:rw4 b:r``: for each global or constant argument what is done through it, and the unit."""
    words: list[str] = []
    for argument in model.arguments:
        if argument.kind in (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT, ArgumentKind.IMAGE):
            letters = "r" * argument.reads + "w" * argument.writes + "a" * argument.atomic
            words.append(f"{argument.name}:{letters}{argument.unit_nbytes or ''}")
    return " ".join(words)


@dataclass(frozen=True)
class Case:
    """``expected``: as effects_of; ``why``: part of why_whole, or empty when it may be split."""

    source: str
    expected: str
    why: str = ""


G = "__global"
CASES = {
    "plain": Case("kernel void k(global int *a, global int *b) { a[get_global_id(0)] = b[0]; }", "a:w4 b:r"),
    "nothing": Case("kernel void k(global int *a, constant int *c) { }", "a: c:"),
    "constant": Case("kernel void k(global int *a, constant int *c) { a[0] = c[1]; }", "a:w4 c:r"),
    "compound": Case("kernel void k(global int *a) { a[0] += 2; }", "a:rw4"),
    "increment": Case("kernel void k(global uchar *a) { a[3]++; }", "a:rw1"),
    "dereference": Case("kernel void k(global short *a, global short *b) { *a = *(b + 3); }", "a:w2 b:r"),
    "reversed subscript": Case("kernel void k(global int *a) { 2[a] = 1; }", "a:w4"),
    "pointer variable": Case(
        "kernel void k(global int *a, global int *b) { global int *p = b; p += 4; p++; *p = a[0]; }",
        "a:r b:w4",
    ),
    "pointer assigned conditionally": Case(
        "kernel void k(global int *a, global int *b, int n) { global int *p = a; if (n) p = b; *p = 1; }",
        "a:w4 b:w4",
    ),
    "pointer assigned after its use in a loop": Case(
        """kernel void k(global int *a, global int *b) {
             global int *p = a; for (int i = 0; i < 2; i++) { *p = 1; p = b; } }""",
        "a:w4 b:w4",
    ),
    "chain of pointers assigned backwards in a loop": Case(
        """kernel void k(global int *a, global int *b) {
             global int *p = a, *q = a, *r = a;
             for (int i = 0; i < 3; i++) { *p = 1; p = q; q = r; r = b; } }""",
        "a:w4 b:w4",
    ),
    "conditional operator": Case(
        "kernel void k(global int *a, global int *b, int n) { (n ? a : b)[n] = 1; }", "a:w4 b:w4"
    ),
    "comma operator": Case("kernel void k(global int *a, global int *b) { *(a, b) = 1; }", "a: b:w4"),
    "cast to a wider type": Case("kernel void k(global uchar *a) { *(global int *)(a + 4) = 1; }", "a:w4"),
    "cast to a narrower type": Case("kernel void k(global int *a) { ((global uchar *)a)[1] = 1; }", "a:w1"),
    "vector store": Case("kernel void k(global float4 *a) { a[0] = (float4)(1); }", "a:w4"),
    "component store": Case("kernel void k(global double4 *a) { a[0].xz = (double2)(1); }", "a:w8"),
    "component increment": Case("kernel void k(global short4 *a) { a[0].w++; }", "a:rw2"),
    "struct store": Case(
        "typedef struct { char c; short s[3]; float4 f; } S; kernel void k(global S *a, S s) { a[0] = s; }",
        "a:w4",
    ),
    "nested struct store": Case(
        """struct I { char c; double d[2]; }; struct O { int i; struct I in[2]; };
           kernel void k(global struct O *a, global struct O *b) { a[0].in[1] = b[0].in[0]; }""",
        "a:w8 b:r",
    ),
    "struct member through an arrow": Case(
        "struct S { char c; short s[3]; }; kernel void k(global struct S *a) { a->s[1] = a->c; }", "a:rw2"
    ),
    "address of an element": Case("kernel void k(global int *a) { global int *p = &a[4]; *p = 1; }", "a:w4"),
    "address of a member": Case(
        "struct S { int i; long l; }; kernel void k(global struct S *a) { global long *p = &a->l; *p = 1; }",
        "a:w8",
    ),
    "address of a dereference": Case("kernel void k(global int *a) { *&*a = 1; }", "a:w4"),
    "two-dimensional array pointer": Case(
        "kernel void k(global int (*a)[8], global int *b) { a[1][2] = b[0]; }", "a:w4 b:r"
    ),
    "vload and vstore": Case(
        "kernel void k(global float *a, global float *b) { vstore4(vload4(1, b), 2, a); }", "a:w4 b:r"
    ),
    "half storage": Case(
        "kernel void k(global half *a, global half *b) { vstore_half(vload_half(1, b), 2, a); }", "a:w2 b:r"
    ),
    "store helper into local memory": Case(
        "kernel void k(global float *a, local float *l) { vstore2((float2)(1), 0, l); a[0] = l[0]; }", "a:w4"
    ),
    "async copy in": Case(
        """kernel void k(global int *a, local int *l) {
             event_t e = async_work_group_copy(l, a, 16, 0); wait_group_events(1, &e); }""",
        "a:r",
    ),
    "async copy out": Case(
        """kernel void k(global int *a, local int *l) {
             event_t e = async_work_group_strided_copy(a, l, 16, 2, 0); wait_group_events(1, &e); }""",
        "a:w4",
    ),
    "mathematics with a second result": Case(
        "kernel void k(global float *a, global int *b) { a[0] = frexp(a[1], b); sincos(1.0f, a + 3); }",
        "a:rw4 b:w4",
    ),
    "prefetch": Case("kernel void k(global float *a) { prefetch(a, 4); }", "a:r"),
    "sizeof reads nothing": Case("kernel void k(global int *a) { int n = sizeof(a[0]); }", "a:"),
    "helper that writes": Case(
        """void put(global int *p, int v) { *p = v; }
           kernel void k(global int *a, global int *b) { put(a + 1, b[0]); }""",
        "a:w4 b:r",
    ),
    "helper declared before and defined after": Case(
        """void put(global int *p);
           kernel void k(global int *a, global int *b) { put(b); }
           void put(global int *p) { p[2] = 1; }""",
        "a: b:w4",
    ),
    "helper that returns a pointer": Case(
        """global int *pick(global int *p, global int *q, int n) { if (n) return p; return q + 1; }
           kernel void k(global int *a, global int *b, global int *c, int n) { *pick(a, b, n) = c[0]; }""",
        "a:w4 b:w4 c:r",
    ),
    "one helper with different arguments": Case(
        """int get(global const int *p) { return *p; } void put(global int *p, int v) { *p = v; }
           kernel void k(global int *a, global int *b, global int *c) { put(a, get(b)); put(b, get(c)); }""",
        "a:w4 b:rw4 c:r",
    ),
    "three helpers deep": Case(
        """void f(global uchar *p) { *p = 1; } void g(global uchar *p) { f(p + 1); } void h(global int *p) {
           g((global uchar *)p); } kernel void k(global int *a, global int *b) { h(b); }""",
        "a: b:w1",
    ),
    "kernel called as a function": Case(
        """kernel void inner(global int *p, global int *q) { *p = *q; }
           kernel void k(global int *a, global int *b) { inner(b, a); }""",
        "a:r b:w4",
    ),
    "macros": Case(
        """#define PUT(p, v) do { (p)[0] = (v); } while (0)
           #define NAME(n) a##n
           kernel void k(global int *a1, global int *a2) { PUT(NAME(1), *NAME(2)); }""",
        "a1:w4 a2:r",
    ),
    "private struct that holds a pointer": Case(
        """struct S { global int *p; int n; };
           kernel void k(global int *a, global int *b) { struct S s = { a, 1 }; s.p[0] = b[0]; }""",
        "a:w4 b:r",
    ),
    "struct with a pointer given to a helper by value": Case(
        """struct S { global int *p; int n; }; void put(struct S s) { s.p[s.n] = 1; }
           kernel void k(global int *a, global int *b) { struct S s; s.p = b; s.n = 1; put(s); }""",
        "a: b:w4",
    ),
    "members and components of values": Case(
        """typedef struct { int x[2]; float4 v; } S; S make(void) { S s; return s; }
           kernel void k(global float *a, global float *b) {
             a[0] = make().x[1] + make().v.y + ((float4)(b[0])).z + ((float4)(1, 2, 3, 4)).x; }""",
        "a:w4 b:r",
    ),
    "prototype inside a function": Case(
        """kernel void k(global int *a, global int *b) { void put(global int *p); put(b); }
           void put(global int *p) { p[get_global_id(0)] = 1; }""",
        "a: b:w4",
    ),
    "struct with a pointer given to a helper by address": Case(
        """struct S { global int *p; }; void set(struct S *s, global int *p) { s->p = p; }
           kernel void k(global int *a, global int *b) { struct S s; set(&s, b); s.p[0] = 1; }""",
        "a:w4 b:w4",
    ),
    "private array of pointers": Case(
        """kernel void k(global int *a, global int *b, int n) {
             global int *p[2]; p[0] = a; p[1] = b; *p[n] = 1; }""",
        "a:w4 b:w4",
    ),
    "array of pointers given to a helper": Case(
        """void fill(global int **p, global int *v) { p[1] = v; }
           kernel void k(global int *a, global int *b) { global int *p[2];
             p[0] = a; fill(p, b); *p[1] = 1; }""",
        "a:w4 b:w4",
    ),
    "pointer to a pointer": Case(
        """kernel void k(global int *a, global int *b) {
             global int *p = a; global int **q = &p; *q = b; *p = 1; }""",
        "a:w4 b:w4",
    ),
    "pointer made from an integer": Case(
        "kernel void k(global int *a, global int *b) { ulong x = (ulong)a; *(global int *)(x + 4) = 1; }",
        "a:w4 b:w4",
    ),
    "pointer in a union": Case(
        """union U { global int *p; ulong n; };
           kernel void k(global int *a, global int *b) { union U u; u.p = a; u.n += 4; *u.p = 1; }""",
        "a:w4 b:w4",
    ),
    "pointer passed through local memory": Case(
        """kernel void k(global int *a, global int *b, local ulong *l) {
             l[0] = (ulong)b; barrier(CLK_LOCAL_MEM_FENCE); ((global int *)l[0])[0] = 1; }""",
        "a:w4 b:w4",
    ),
    "statement expression": Case("kernel void k(global int *a) { int x = ({ a[1] = 2; a[0]; }); }", "a:rw4"),
    "initialisers": Case(
        "kernel void k(global int *a, global int *b) { int x[2] = { a[0], b[0] }; int4 v = (int4)(b[1]); }",
        "a:r b:r",
    ),
    "conditions of every statement": Case(
        """kernel void k(global int *a, global int *b, global int *c, global int *d, global int *e) {
             if (a[0]) return; while (b[0]) return; do { } while (c[0]); for (int i = d[0]; i < 1; i++) { }
             switch (e[0]) { case 1: return; default: break; } }""",
        "a:r b:r c:r d:r e:r",
    ),
    "null pointer": Case(
        "kernel void k(global int *a) { global int *p = 0; if (p != NULL) a[0] = 1; }", "a:w4"
    ),
    "const pointee that is written": Case(
        "kernel void k(global const int *a) { *(global int *)a = 1; }", "a:w4"
    ),
    "barriers and fences within a work-group": Case(
        """kernel void k(global int *a) { a[get_global_id(0)] = 1; barrier(CLK_GLOBAL_MEM_FENCE);
             mem_fence(CLK_GLOBAL_MEM_FENCE); a[get_global_id(0)] += a[get_global_id(0) ^ 1]; }""",
        "a:rw4",
    ),
    "barrier in a loop": Case(
        """kernel void k(global int *a) {
             for (int i = 0; i < 4; i++) { a[get_global_id(0)] += i; barrier(CLK_GLOBAL_MEM_FENCE); } }""",
        "a:rw4",
    ),
    "local atomics": Case(
        """kernel void k(global int *a, local int *l) {
             local int own; atomic_add(l, 1); atomic_inc(&own); atom_max(l + 1, 3); a[0] = l[0]; }""",
        "a:w4",
    ),
    "volatile local in a loop": Case(
        "kernel void k(global int *a, volatile local int *l) { while (l[0]) a[0] = 1; }", "a:w4"
    ),
    "volatile global outside a loop": Case("kernel void k(volatile global int *a) { a[0] = a[1]; }", "a:rw4"),
    "global atomics": Case(
        "kernel void k(global int *a, global int *b) {\n atomic_add(&a[b[0]], 1); }", "a:rwa4 b:r"
    ),
    "old global atomics": Case("kernel void k(global int *a) { atom_inc(a); }", "a:rwa4"),
    "64-bit atomics": Case("kernel void k(global long *a) { atom_min(a, 1L); }", "a:rwa8"),
    "atomics in a helper": Case(
        """void bump(volatile global int *p) { atomic_inc(p); }
           kernel void k(global int *a, global int *b) { bump(b); }""",
        "a: b:rwa4",
    ),
    "atomics whose result is used": Case(
        "kernel void k(global int *a, global int *b) {\n b[0] = atomic_inc(a); }", "a:rwa4 b:w4", "line 2"
    ),
    "atomics whose result a helper returns": Case(
        """int bump(volatile global int *p) { return atomic_inc(p); }
           kernel void k(global int *a) { bump(a); }""",
        "a:rwa4",
        "line 1",
    ),
    "atomics whose result is a condition": Case(
        "kernel void k(global int *a, global int *b) { if (atomic_dec(a)) b[0] = 1; }", "a:rwa4 b:w4", "'a'"
    ),
    "atomics whose result is the value of a statement expression": Case(
        "kernel void k(global int *a, global int *b) { b[0] = ({ atomic_inc(a); }); }", "a:rwa4 b:w4", "'a'"
    ),
    "atomics in every kind of statement": Case(
        """kernel void k(global int *a, int n) {
             if (n) atomic_inc(a); else (void)atomic_dec(a);
             for (int i = 0; i < n; i++) atomic_add(a, i);
             do atomic_sub(a, 1); while (--n);
             switch (n) { case 0: atomic_max(a, 1); break; default: atomic_min(a, 2); }
             atomic_inc(a), atomic_dec(a); { (atomic_xor(a, 1)); } }""",
        "a:rwa4",
    ),
    "atomics ordered by a fence": Case(
        """kernel void k(global int *a, global int *b) {
             b[0] = 1;
             mem_fence(CLK_GLOBAL_MEM_FENCE);
             atomic_inc(a); }""",
        "a:rwa4 b:w4",
        "line 3: updates global memory atomically and orders that with a fence",
    ),
    "atomics beside a fence for local memory": Case(
        "kernel void k(global int *a) { mem_fence(CLK_LOCAL_MEM_FENCE); atomic_inc(a); }", "a:rwa4"
    ),
    "exchange": Case("kernel void k(global int *a) { atomic_xchg(a, 1); }", "a:rwa4", "atomically"),
    "atomics through a pointer variable": Case(
        """kernel void k(global int *a, global int *b, int n) {
             global int *p = n ? a : b; atomic_xchg(p, 1); }""",
        "a:rwa4 b:rwa4",
        "atomically",
    ),
    "atomics through a macro": Case(
        "#define BUMP(p) atomic_inc(p)\nkernel void k(global int *a) { BUMP(a); }", "a:rwa4"
    ),
    "compare and exchange on a cast pointer": Case(
        "kernel void k(global float *a) { atomic_cmpxchg((volatile global int *)a, 1, 2); }",
        "a:rwa4",
        "through 'a'",
    ),
    "spinning on a volatile": Case(
        "kernel void k(volatile global int *a) { while (a[0] == 0) { } }", "a:r", "volatile"
    ),
    "spinning in a helper called in a loop": Case(
        """int look(volatile global int *p) { return *p; }
           kernel void k(global int *a) { for (;;) if (look(a)) break; }""",
        "a:r",
        "volatile",
    ),
    "spinning by goto": Case(
        "kernel void k(global int *a) { again: if (!*(volatile global int *)a) goto again; }",
        "a:r",
        "volatile",
    ),
    "spinning with a fence": Case(
        "kernel void k(global int *a) { while (a[0] == 0) read_mem_fence(CLK_GLOBAL_MEM_FENCE); }",
        "a:r",
        "read_mem_fence",
    ),
    "fence for local memory in a loop": Case(
        "kernel void k(global int *a) { for (int i = 0; i < a[0]; i++) mem_fence(CLK_LOCAL_MEM_FENCE); }",
        "a:r",
    ),
    "function declared but not defined": Case(
        "void outside(global int *p);\nkernel void k(global int *a, global int *b) { outside(a); }",
        "a:rw1 b:",
        "'outside'",
    ),
    "inline assembly": Case('kernel void k(global int *a) { __asm__ volatile("nop"); }', "a:rw1", "assembly"),
    "image reads": Case(
        """kernel void k(read_only image2d_t i, sampler_t s, global float4 *a) {
             a[0] = read_imagef(i, s, (float2)(0)); }""",
        "i:r a:w4",
    ),
    "image writes": Case(
        "kernel void k(write_only image2d_t i) { write_imagef(i, (int2)(0), (float4)(1)); }", "i:w1"
    ),
    "image writes in a helper": Case(
        """void put(write_only image2d_t i) { write_imagef(i, (int2)(0), (float4)(1)); }
           kernel void k(write_only image2d_t j) { put(j); }""",
        "j:w1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_effects_of_a_kernel_are_found(name: str) -> None:
    case = CASES[name]
    model = model_of(case.source)
    assert effects_of(model) == case.expected
    assert bool(model.why_whole) == bool(case.why), model.why_whole
    assert case.why in model.why_whole


def test_written_program_scope_variables_keep_a_kernel_whole() -> None:
    source = """
        int counter; global float table[4]; constant int fixed = 3;
        void bump(global int *p) { *p += 1; }
        kernel void direct(global int *a) { counter = a[0]; }
        kernel void member(global int *a) { table[1] = a[0]; }
        kernel void helper(global int *a) { bump(&counter); }
        kernel void reads(global int *a) { a[0] = counter + fixed; }
    """
    compiled = compile_source(source, "-cl-std=CL3.0")
    assert {k.name: bool(k.why_whole) for k in compiled.kernels} == {
        "direct": True,
        "member": True,
        "helper": True,
        "reads": False,
    }


@pytest.mark.parametrize("name", ["work_group_barrier", "sub_group_barrier"])
def test_barriers_that_order_memory_for_other_groups_keep_a_kernel_whole(name: str) -> None:
    with_sub_groups = replace(USUAL, features=(*USUAL.features, SUB_GROUP_FEATURE), sub_groups=True)

    def why_whole(scope: str) -> str:
        text = f"a[get_global_id(0)] = 1; {name}(CLK_GLOBAL_MEM_FENCE{scope});"
        source = f"kernel void k(global int *a) {{ {text} }}"
        return compile_source(source, "-cl-std=CL3.0", language=with_sub_groups).kernels[0].why_whole

    assert not any(map(why_whole, ("", ", memory_scope_work_group", ", memory_scope_sub_group")))
    assert f"orders memory across work-groups with {name}" in why_whole(", memory_scope_device")


UPDATES = {
    "atomic_inc(i); atomic_sub(i, 2);": "add4",
    "atomic_min(i, 1); atomic_min(u, 1u);": "min4s min4",
    "atom_max(l, 1L); atomic_or(u, 1u);": "max8s or4",
    "atomic_and(i, 1); atomic_xor(i, 1); atom_dec(l);": "and4 xor4 add8",
}


@pytest.mark.parametrize("text", UPDATES)
def test_updates_are_told_apart_by_operation_size_and_sign(text: str) -> None:
    source = f"kernel void k(global int *i, global uint *u, global long *l) {{ {text} }}"
    model = model_of(source)
    found = [u for argument in model.arguments for u in argument.updates]
    assert sorted(f"{u.operation}{u.nbytes}{'s' * u.signed}" for u in found) == sorted(UPDATES[text].split())
    assert all(argument.only_updates == bool(argument.updates) for argument in model.arguments)
    assert not model.why_whole


def test_an_argument_that_is_also_read_is_not_only_updated() -> None:
    model = model_of("kernel void k(global int *a, global int *b) { atomic_inc(a); b[0] = a[1]; }")
    assert model.arguments[0].updates and not model.arguments[0].only_updates


def test_only_relaxed_atomics_of_opencl_3_are_updates() -> None:
    source = """
        kernel void k(global atomic_uint *a) {
          atomic_fetch_min_explicit(a, 1u, memory_order_relaxed, memory_scope_device); }
        kernel void ordered(global atomic_uint *a) {
          atomic_fetch_add_explicit(a, 1u, memory_order_acq_rel, memory_scope_device); }
    """
    options = "-cl-std=CL3.0"
    (update,) = model_of(source, options=options).arguments[0].updates
    assert (update.operation, update.nbytes, update.signed) == ("min", 4, False)
    assert "atomically" in model_of(source, "ordered", options).why_whole


def test_relaxed_atomics_of_opencl_3_count_as_atomics() -> None:
    source = """
        kernel void k(global atomic_int *a, global int *b, local atomic_int *l) {
          atomic_fetch_add_explicit(l, 1, memory_order_relaxed, memory_scope_work_group);
          atomic_fetch_add_explicit(a, b[0], memory_order_relaxed, memory_scope_work_group);
        }
    """
    model = model_of(source, options="-cl-std=CL3.0")
    assert effects_of(model) == "a:rwa4 b:r"
    assert not model.why_whole


FLOATS = replace(
    USUAL, extensions=(*USUAL.extensions, "cl_khr_fp16"), float_atomics=tuple(FLOAT_ATOMIC_FEATURES)
)
"""With the functions of cl_ext_float_atomics."""
HALVES = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
SUM, EXTREME = "what floating-point numbers sum up to", "which zero or NaN is left"


@pytest.mark.parametrize("of", ["float", "double", "half"])
@pytest.mark.parametrize(
    ("name", "why"), [("add", SUM), ("sub", SUM), ("min", EXTREME), ("max", EXTREME)], ids=str
)
def test_atomic_functions_of_floats_are_no_updates_and_say_why(of: str, name: str, why: str) -> None:
    for call in (
        f"atomic_fetch_{name}(s, b[0])",
        f"atomic_fetch_{name}_explicit(s, 1, memory_order_relaxed)",
    ):
        for text in (call, f"b[1] = {call}", f"int i = {call}; b[i] = 1"):
            source = f"{HALVES}kernel void k(global atomic_{of} *s, global {of} *b) {{ {text}; }}"
            model = compile_source(source, "-cl-std=CL3.0", language=FLOATS).kernels[0]
            assert model.arguments[0].atomic and not (model.arguments[0].updates or model.appends)
            assert f"atomically through 's', where the order decides {why}" in model.why_whole


def test_atomic_functions_of_floats_in_local_memory_are_a_work_groups_own_matter() -> None:
    source = """
        kernel void k(global const float *in, global float *out) {
          local atomic_float sum;
          if (get_local_id(0) == 0) atomic_init(&sum, 0);
          barrier(CLK_LOCAL_MEM_FENCE);
          atomic_fetch_add_explicit(&sum, in[get_global_id(0)], memory_order_relaxed);
          barrier(CLK_LOCAL_MEM_FENCE);
          if (get_local_id(0) == 0)
            out[get_group_id(0)] = atomic_load_explicit(&sum, memory_order_relaxed);
        }
    """
    model = compile_source(source, "-cl-std=CL3.0", language=FLOATS).kernels[0]
    assert (effects_of(model), model.why_whole) == ("in:r out:w4", "")


ARGUMENTS = """
typedef struct { int a; char b; } pair;
struct foo { double d; float3 v; };
typedef float real;
kernel void k(global float *a, global const unsigned int *restrict b, constant volatile real *c,
              local int4 *d, unsigned char e, float3 f, struct foo g, pair h, read_only image2d_t i,
              write_only image3d_t j,
              sampler_t l, const int m, global struct foo *n, global void *o, uint p, unsigned long q,
              global real *const r, image1d_t s, global int (*t)[4], unsigned u) {}
"""


def test_argument_information_is_what_the_specification_asks() -> None:
    table = [
        (
            a.name,
            a.type_name,
            a.kind.name,
            a.nbytes,
            a.address_qualifier,
            a.access_qualifier,
            a.type_qualifier,
        )
        for a in model_of(ARGUMENTS).arguments
    ]
    none, read, write = 0x11A3, 0x11A0, 0x11A1
    assert table == [
        ("a", "float*", "GLOBAL", 8, 0x119B, none, 0),
        ("b", "uint*", "GLOBAL", 8, 0x119B, none, 1 | 2),
        ("c", "real*", "CONSTANT", 8, 0x119D, none, 1 | 4),
        ("d", "int4*", "LOCAL", 0, 0x119C, none, 0),
        ("e", "uchar", "VALUE", 1, 0x119E, none, 0),
        ("f", "float3", "VALUE", 16, 0x119E, none, 0),
        ("g", "struct foo", "VALUE", 32, 0x119E, none, 0),
        ("h", "pair", "VALUE", 8, 0x119E, none, 0),
        ("i", "image2d_t", "IMAGE", 8, 0x119B, read, 0),
        ("j", "image3d_t", "IMAGE", 8, 0x119B, write, 0),
        ("l", "sampler_t", "SAMPLER", 8, 0x119E, none, 0),
        ("m", "int", "VALUE", 4, 0x119E, none, 0),
        ("n", "struct foo*", "GLOBAL", 8, 0x119B, none, 0),
        ("o", "void*", "GLOBAL", 8, 0x119B, none, 0),
        ("p", "uint", "VALUE", 4, 0x119E, none, 0),
        ("q", "ulong", "VALUE", 8, 0x119E, none, 0),
        ("r", "real*", "GLOBAL", 8, 0x119B, none, 0),
        ("s", "image1d_t", "IMAGE", 8, 0x119B, read, 0),
        ("t", "int[4]*", "GLOBAL", 8, 0x119B, none, 0),
        ("u", "uint", "VALUE", 4, 0x119E, none, 0),
    ]


def test_attributes_are_told_as_declared() -> None:
    source = """
        #define B 4
        kernel __attribute__((reqd_work_group_size(B * 2, 1 << 1, 1))) __attribute__((vec_type_hint(float4)))
        void k(global int *a) {}
        __kernel void plain(void) {}
    """
    model = model_of(source)
    assert model.required_work_group_size == (8, 2, 1)
    assert model.attributes.replace(" ", "") == "reqd_work_group_size(4*2,1<<1,1)vec_type_hint(float4)"
    assert model.line == 4
    plain = model_of(source, "plain")
    assert (plain.required_work_group_size, plain.attributes, plain.why_whole) == (None, "", "")


def test_kernels_come_in_the_order_of_the_text_and_helpers_are_none() -> None:
    source = (
        "int h(int x) { return x; } kernel void b(void) {} void kernel_like(void) {} __kernel void a(void) {}"
    )
    assert [k.name for k in compile_source(source, "").kernels] == ["b", "a"]


@pytest.mark.parametrize("name", ["size_t", "ptrdiff_t", "intptr_t", "uintptr_t"])
def test_types_for_sizes_and_addresses_have_eight_bytes(name: str) -> None:
    (argument,) = model_of(f"kernel void k(global {name} *a) {{ a[0] = ({name})a; }}").arguments
    assert argument.unit_nbytes == argument.smallest_unit_nbytes == 8
    compile_source(f"typedef char eight[sizeof({name}) == 8 ? 1 : -1];", "")
