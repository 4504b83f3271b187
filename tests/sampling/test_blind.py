"""Kernels that can't be followed all the way: what they write is still known of their other arguments."""

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.frontend.base_header import PTX_TARGET
from sdi.intervals import ByteRange
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import KernelAnalysis
from sdi.sampling.machine import MAX_OPERATIONS
from sdi.sampling.model import AccessRange, Precision

ADD = """
inline void add(local float *at, float value) {
    union { uint u; float f; } old, new;
again:
    old.f = *at; new.f = old.f + value;
    if (atomic_cmpxchg((volatile local uint *)at, old.u, new.u) != old.u) goto again;
}
"""
HISTOGRAM = """
kernel void k(global const float *values, global float *sums, local float *own) {
    int i = get_global_id(0), l = get_local_id(0);
    own[l] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    add(&own[(int)values[i] & 7], values[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    sums[i] = own[l];
}
"""
GROUPS, LOCAL = 8, 16
NBYTES = 4 * GROUPS * LOCAL
EVERYTHING = ByteRange(0, NBYTES)
SECOND_HALF = ByteRange(NBYTES // 2, NBYTES)


def accesses(
    source: str, *, groups: tuple[int, int] = (GROUPS // 2, GROUPS), operations: int = MAX_OPERATIONS
) -> list[AccessRange]:
    """What the work-groups of the second half do through each argument."""
    compiled = compile_source(source, "")
    (model,) = compiled.kernels
    ndrange = NDRange(1, (0, 0, 0), (GROUPS * LOCAL, 1, 1), (LOCAL, 1, 1))
    values = tuple(None for _ in model.arguments)
    nbytes = tuple(NBYTES if each.nbytes else None for each in model.arguments)
    bound = access_of(compiled, model, operations).bind(ndrange, values, nbytes)
    return [*bound.over(GroupBox((groups[0], 0, 0), (groups[1], 1, 1)))]


def is_exact(access: AccessRange, over: ByteRange) -> bool:
    return access.precision is Precision.EXACT and access.writes.regions == (over,)


def is_only_read(access: AccessRange) -> bool:
    return access.precision is Precision.EXACT and not access.writes and bool(access.reads)


def test_a_helper_that_jumps_in_local_memory_leaves_the_rest_exact() -> None:
    values, sums = accesses(ADD + HISTOGRAM)
    assert is_only_read(values) and values.reads.regions == (SECOND_HALF,)
    assert is_exact(sums, SECOND_HALF)


def test_a_helper_that_jumps_may_do_anything_through_what_it_is_given() -> None:
    helper = "void f(global int *x, global const int *y) { again: if (y[1] > *x) { *x += 1; goto again; } }"
    kernel = """
        kernel void k(global int *a, global const int *b, global int *c) {
            int i = get_global_id(0);
            c[i] = i; f(a + i, b);
        }"""
    a, b, c = accesses(helper + kernel)
    assert a.precision is not Precision.EXACT and a.writes.regions == (EVERYTHING,) == a.reads.regions
    assert is_only_read(b) and b.reads.regions == (EVERYTHING,)
    assert is_exact(c, SECOND_HALF)


def test_variables_of_which_a_helper_that_jumps_has_the_address_are_not_known_afterwards() -> None:
    helper = "void f(int *x) { again: if (*x % 3) { *x += 1; goto again; } }"
    kernel = """
        kernel void k(global int *a) {
            int i = get_global_id(0), j = i;
            f(&j);
            a[j] = 1; a[i] = 2;
        }"""
    (a,) = accesses(helper + kernel)
    assert a.precision is not Precision.EXACT and a.writes.regions == (EVERYTHING,)


HIDDEN = {
    "in a structure": "struct s { global int *p; }; void f(struct s x) { a: if (--*x.p) goto a; }",
    "behind a pointer": "struct s { global int *p; }; void f(struct s *x) { a: if (--*x->p) goto a; }",
    "as a number": "void f(ulong x) { a: if (*(global int *)x) { *(global int *)x -= 1; goto a; } }",
    "as bytes": "void f(uchar *x) { a: if (--**(global int **)x) goto a; }",
    "in what it calls": "void g(ulong x) { --*(global int *)x; } void f(ulong x) { a: g(x); if (x) goto a; }",
}
GIVEN = {"in a structure": "s", "behind a pointer": "&s", "as a number": "(ulong)p"}
GIVEN |= {"as bytes": "(uchar *)&p", "in what it calls": "(ulong)p"}


@pytest.mark.parametrize("how", HIDDEN)
def test_addresses_that_a_helper_that_jumps_gets_otherwise_reach_everything(how: str) -> None:
    makes = "struct s s; s.p = p;" if "struct" in HIDDEN[how] else ""
    kernel = f"""
        kernel void k(global int *p, global int *q) {{ {makes} q[get_global_id(0)] = 1; f({GIVEN[how]}); }}"""
    p, q = accesses(HIDDEN[how] + kernel)
    assert p.precision is q.precision is Precision.WHOLE and p.reads_whole
    assert p.writes.regions == q.writes.regions == (EVERYTHING,)


JUMPS = """
    kernel void k(global const int *a, global int *b) {
        int i = get_global_id(0);
    again:
        b[i] += a[i];
        if (b[i] < 9) goto again;
        %s
    }"""


def test_what_no_path_writes_is_read_in_a_kernel_that_jumps_itself() -> None:
    a, b = accesses(JUMPS % "")
    assert is_only_read(a) and a.reads_whole
    assert b.precision is Precision.WHOLE and b.writes.regions == (EVERYTHING,)


DROPPED = {
    "a cast": "*(global int *)a = 1;",
    "an assignment": "global int *c = a; *c = 1;",
    "a number": "ulong n = (ulong)a; *(global int *)n = 1;",
    "a pointer in memory": "struct { global int *p; } s; s.p = a; *s.p = 1;",
}


@pytest.mark.parametrize("how", DROPPED)
def test_const_that_is_dropped_says_nothing(how: str) -> None:
    a, b = accesses(JUMPS % DROPPED[how])
    for found in (a, b):
        assert found.precision is Precision.WHOLE and found.writes.regions == (EVERYTHING,)


THROUGH_MEMORY = """
    struct scene { global const float *seen; global float *shown; };
    kernel void k(global const float *a, global float *b, global struct scene *s) {
        *s[get_global_id(0)].shown = *s[1].seen + a[0];
        b[get_global_id(0)] = 1;
    }"""


def test_a_pointer_out_of_memory_writes_no_argument_that_is_const() -> None:
    a, b, s = accesses(THROUGH_MEMORY)
    assert is_only_read(a)
    assert b.precision is Precision.WHOLE and s.precision is Precision.WHOLE
    a, _, _ = accesses(THROUGH_MEMORY.replace("a[0];", "a[0]; s[0].shown = (global float *)a;"))
    assert a.precision is Precision.WHOLE and a.writes.regions == (EVERYTHING,)


def test_assembly_that_stores_writes_no_argument_that_is_const() -> None:
    source = """
        kernel void k(global const int *a, global int *b) {
            b[get_global_id(0)] = a[0];
            asm volatile("st.global.u32 [%%0], 1;" :: "l"(b) : "memory");
        }"""
    compiled = compile_source(source.replace("%%", "%"), "")
    assert compiled.tree.target == PTX_TARGET
    a, b = compiled.kernels[0].arguments
    assert (a.reads, a.writes, a.atomic) == (True, False, False)
    assert b.writes and compiled.kernels[0].why_whole


@pytest.mark.parametrize(
    "text",
    [
        "((global int (*)[4])a)[i][0] = b[i];",
        "*(__typeof__(b))a = 1;",
        "((global struct {int x;} *)a)->x = 1;",
        "global const int *q = a; **(global int **)&q = 1;",
        "global const int *q = a; void *v = &q; global int **r = v; **r = 1;",
        "global const int *q[2]; q[0] = a; global int **r = (global int **)q; **r = 1;",
        "global const int *q = a; global int *r; *(ulong *)&r = *(ulong *)&q; *r = 1;",
        'asm volatile("st.global.u32 [%0], 1;" :: "l"(a) : "memory");',
    ],
)
def test_const_that_may_be_dropped_says_nothing(text: str) -> None:
    source = f"kernel void k(global const int *a, global int *b) {{ size_t i = get_global_id(0); {text} }}"
    compiled = compile_source(source, "")
    assert compiled.kernels[0].arguments[0].writes, text


FEW = 10_000  # operations


def chain(body: str, given: str, depth: int = 6) -> str:
    """Functions that call each other, each the one before in a loop: some 30,000 operations."""
    first = f"float f0(float x, {given}) {{ {body} return x; }}"
    names = ", ".join(part.split()[-1].lstrip("*") for part in given.split(","))
    calls = "".join(
        f"float f{k}(float x, {given}) {{ for (int j = 0; j < 9; j++) if (x < j)"
        f" x += f{k - 1}(x, {names}) * f{k - 1}(x + j, {names}); return x; }}"
        for k in range(1, depth)
    )
    return first + calls + f"\n#define F f{depth - 1}\n"


def test_long_helpers_that_store_nothing_leave_the_rest_exact() -> None:
    table, out = accesses(
        chain("x *= t[(int)x & 7];", "constant float *t")
        + """
        kernel void k(constant float *table, global float *out) {
            int i = get_global_id(0);
            out[i] = F(i, table);
        }""",
        operations=FEW,
    )
    assert is_only_read(table) and table.reads.regions == (EVERYTHING,)
    assert is_exact(out, SECOND_HALF)


def test_long_helpers_that_store_nothing_read_what_they_reach_and_change_private_memory() -> None:
    first, second, places = accesses(
        chain("x += t->at[(int)x & 7]; *n += 1;", "T *t, int *n").replace(
            "float f0", "typedef struct { global float *at; } T;\nfloat f0", 1
        )
        + """
        kernel void k(global float *a, global float *b, global float *c) {
            int i = get_global_id(0), n = i, m = i;
            T t; t.at = b;
            a[i] = F(i, &t, &n);
            b[m] = 1; c[n] = 2;
        }""",
        operations=FEW,
    )
    assert first.precision is not Precision.WHOLE and first.writes.regions == (SECOND_HALF,)
    assert second.writes.regions == (SECOND_HALF,) and second.reads.regions == (EVERYTHING,)
    assert places.precision is not Precision.EXACT and places.writes.regions == (EVERYTHING,)


def test_long_helpers_that_read_are_followed_where_leaving_out_the_others_is_enough() -> None:
    reads = f"float g(global const float *a, int i) {{ float s = 0; {'s += a[i]; ' * 300} return s; }}"
    kernel = """
        kernel void k(global const float *a, global float *out) {
            int i = get_global_id(0), n = 0;
            out[i] = g(a, i) + F(i, &n);
        }"""
    a, out = accesses(chain("x += *n; *n += 1;", "int *n") + reads + kernel, operations=FEW)
    assert is_only_read(a) and a.reads.regions == (SECOND_HALF,)
    assert is_exact(out, SECOND_HALF)
    a, out = accesses(
        chain("x += a[*n & 7];", "global const float *a, int *n")
        + reads
        + kernel.replace("F(i, &n)", "F(i, a, &n)"),
        operations=FEW,
    )
    assert a.reads.regions == (EVERYTHING,) and is_exact(out, SECOND_HALF)


STORING = {
    "an assignment": "*(x > 0 ? o : o + 1) = x;",
    "a step": "o[1]++;",
    "a part of a vector": "((global float4 *)o)->xy = x;",
    "a store of a vector": "vstore4((float4)x, 0, o);",
    "an atomic": "atomic_xchg(o, x);",
    "a second result": "fract(x, o);",
    "an operator of clang": "__atomic_store_n((global int *)o, 1, 0);",
    "assembly": 'asm("mov.f32 %0, %1;" : "=f"(o[1]) : "f"(x));',
}


@pytest.mark.parametrize("how", STORING)
def test_a_kernel_whose_long_helpers_store_is_too_long(how: str) -> None:
    source = chain(STORING[how], "global float *o") + "kernel void k(global float *out) { F(1, out); }"
    compiled = compile_source(source, "")
    (model,) = compiled.kernels
    short, long = (access_of(compiled, model, operations) for operations in (MAX_OPERATIONS, FEW))
    assert isinstance(short, KernelAnalysis) and not short.too_long and short.operations > FEW
    assert isinstance(long, KernelAnalysis) and long.too_long == "line 3: is too long to analyse"
