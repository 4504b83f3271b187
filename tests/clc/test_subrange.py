"""Emitted text over boxes against the plain program over the whole NDRange, on the CPU driver."""

from __future__ import annotations

import functools

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.clc.compile import compile_source
from sdi.clc.launch import pack_hidden
from sdi.ndrange import GroupBox, NDRange
from tests.clc.members import Runner, build, cut_everywhere, queue, whole

SHAPES = [
    (NDRange(1, (0, 0, 0), (24, 1, 1), (4, 1, 1)), [[2, 5]]),
    (NDRange(1, (7, 0, 0), (15, 1, 1), (5, 1, 1)), [[1]]),
    (NDRange(2, (0, 0, 0), (8, 6, 1), (2, 3, 1)), [[1, 3], [1]]),
    (NDRange(2, (3, 11, 0), (8, 6, 1), (4, 1, 1)), [[1], [2, 3, 5]]),
    (NDRange(3, (1, 2, 3), (4, 6, 4), (2, 2, 1)), [[1], [2], [1, 3]]),
    (NDRange(3, (0, 0, 5), (2, 2, 12), (1, 2, 3)), [[], [], [3]]),
]

# Every item writes what it sees at a place computed from native-looking ids.
ID_PROGRAM = """
ulong where(void) {
  ulong x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);
  return ((get_global_id(2) - get_global_offset(2)) * get_global_size(1) + y) * get_global_size(0) + x;
}
__kernel void ids(__global ulong *out, uint extra) {
  __global ulong *o = out + where() * 64;
  int n = 0;
  o[n++] = get_work_dim();
  for (uint d = 0; d < 3 + extra; d++) {
    o[n++] = get_global_id(d);
    o[n++] = get_group_id(d);
    o[n++] = get_num_groups(d);
    o[n++] = get_global_size(d);
    o[n++] = get_global_offset(d);
    o[n++] = get_local_id(d);
    o[n++] = get_local_size(d);
  }
  o[n++] = get_global_id(0) * 1000000 + get_global_id(1) * 1000 + get_global_id(2);
}
"""


@functools.cache
def runner(source: str, options: str = "") -> Runner:
    return Runner(source, options)


@pytest.mark.parametrize(("ndrange", "cuts"), SHAPES)
def test_every_id_function_answers_for_the_whole_ndrange(ndrange: NDRange, cuts: list[list[int]]) -> None:
    items = ndrange.global_size[0] * ndrange.global_size[1] * ndrange.global_size[2]
    out = np.zeros(items * 64, np.uint64)
    arguments = [out, np.uint32(0)]
    runner(ID_PROGRAM).assert_same("ids", arguments, ndrange, cut_everywhere(ndrange, cuts))
    runner(ID_PROGRAM).assert_same("ids", arguments, ndrange, whole(ndrange))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_cut_of_any_ndrange_gives_the_same_ids(data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, 3))
    local, groups, offset = [1, 1, 1], [1, 1, 1], [0, 0, 0]
    for dim in range(dims):
        local[dim] = data.draw(st.integers(1, 3))
        groups[dim] = data.draw(st.integers(1, 4))
        offset[dim] = data.draw(st.integers(0, 9))
    ndrange = NDRange(
        dims,
        (offset[0], offset[1], offset[2]),
        (local[0] * groups[0], local[1] * groups[1], local[2] * groups[2]),
        (local[0], local[1], local[2]),
    )
    cuts = [data.draw(st.lists(st.integers(1, 4), max_size=2)) for _ in range(3)]
    items = ndrange.global_size[0] * ndrange.global_size[1] * ndrange.global_size[2]
    out = np.zeros(items * 64, np.uint64)
    runner(ID_PROGRAM).assert_same("ids", [out, np.uint32(0)], ndrange, cut_everywhere(ndrange, cuts))


def test_dimensions_that_do_not_exist_have_the_values_of_the_specification() -> None:
    source = """
        __kernel void k(__global ulong *out, uint d) {
          __global ulong *o = out + 5 * get_global_id(0);
          o[0] = get_global_id(d);
          o[1] = get_group_id(d);
          o[2] = get_num_groups(d);
          o[3] = get_global_size(d);
          o[4] = get_global_offset(d);
        }
    """
    ndrange = NDRange(1, (9, 0, 0), (4, 1, 1), (2, 1, 1))
    for dim in (1, 2, 3, 4, 1 << 31, (1 << 32) - 1):
        out = np.zeros(5 * 13, np.uint64)
        found = runner(source).run_boxes("k", [out, np.uint32(dim)], ndrange, whole(ndrange))
        assert np.frombuffer(found[0], np.uint64)[45:].tolist() == [0, 0, 1, 1, 0] * 4


PROGRAMS: dict[str, str] = {
    "forward declared helper, used before its definition": """
        float late(__global const float *p, size_t i);
        __kernel void k(__global float *out, __global const float *in) {
          out[get_global_id(0)] = late(in, get_global_id(0));
        }
        float late(__global const float *p, size_t i) { return p[i] * 2 + get_group_id(0); }
        """,
    "braces and brackets as digraphs": """
        __kernel void k(__global float *out, __global const float *in)
        <% out<:get_global_id(0):> = in<:get_global_id(0):> + get_group_id(0); %>
        """,
    "forward declared kernel": """
        __kernel void k(__global float *, __global const float *);
        __kernel void k(__global float *out, __global const float *in) {
          out[get_global_id(0)] = in[get_global_id(0)] + get_num_groups(0);
        }
        """,
    "kernel that calls a kernel": """
        kernel void inner(global float *out, global const float *in) {
          out[get_global_id(0)] = in[get_global_id(0)] + get_global_size(0);
        }
        kernel void k(global float *out, global const float *in) { inner(out, in); }
        """,
    "helper that calls a kernel without arguments of its own": """
        kernel void nothing(void) { }
        int through(void) { nothing(); return get_group_id(0); }
        kernel void k(global float *out, global const float *in) {
          out[get_global_id(0)] = through() + in[get_global_id(0)];
        }
        """,
    "two kernels and one helper three levels deep": """
        size_t a() { return get_global_id(0); }
        size_t b(void) { return a(); }
        static inline size_t c(int x) { return b() + x; }
        __kernel void other(__global float *out) { out[c(0)] = 1; }
        __kernel void k(__global float *out, __global const float *in) { out[c(0)] = in[c(0)] + c(3); }
        """,
    "overloaded helpers": """
        float __attribute__((overloadable)) f(float x) { return x + get_global_id(0); }
        int __attribute__((overloadable)) f(int x) { return x * 2; }
        float2 __attribute__((overloadable)) f(float2 x) { return x + (float2)(get_group_id(0), 1); }
        __kernel void k(__global float *out, __global const float *in) {
          size_t i = get_global_id(0);
          out[i] = f(in[i]) + f((int)i) + f((float2)(in[i], 2)).x;
        }
        """,
    "ids through macros": """
        #define ID(d) get_global_id(d)
        #define LOOP(v, n) for (int v = 0; v < (n); v++)
        #define STORE(p, v) do { (p)[ID(0)] = (v); } while (0)
        #define X(name) size_t name##_of(void) { return get_##name(0); }
        X(group_id) X(num_groups)
        __kernel void k(__global float *out, __global const float *in) {
          float s = 0;
          LOOP(j, 3) s += in[ID(j) % 24];
          STORE(out, s + group_id_of() * 10 + num_groups_of());
        }
        """,
    "ids inside type reinterpretation": """
        __kernel void k(__global float *out, __global const float *in) {
          out[get_global_id(0)] = as_float(as_int(in[get_global_id(0)]) ^ (int)get_group_id(0));
        }
        """,
    "const and restrict pointer parameters": """
        typedef __global float *fp;
        __kernel void k(__global float * const restrict out, const __global float *const in) {
          out[get_global_id(0)] = in[get_global_id(0)] + 1;
        }
        __kernel void typedef_const(const fp out) { out[get_global_id(0)] = 1; }
        """,
    "array parameters": """
        __kernel void k(__global float out[], __global const float in[24]) {
          out[get_global_id(0)] = in[get_global_id(0)] + get_group_id(0);
        }
        """,
    "attributes before and after, work-group size, local declarations": """
        __attribute__((reqd_work_group_size(4, 1, 1))) __attribute__((vec_type_hint(float)))
        __kernel
        void k(__global float *out,
               __global const float *in)
        {
          __local float tile[4];
          const size_t l = get_local_id(0);
          tile[l] = in[get_global_id(0)];
          barrier(CLK_LOCAL_MEM_FENCE);
          out[get_global_id(0)] = tile[3 - l];
        }
        void __kernel later(__global float *out) { out[0] = 1; }
        """,
    "program-scope constants, structs, typedefs, enums": """
        typedef struct { float x; int4 v; } S;
        enum { THREE = 3 };
        __constant float table[] = { 1, 2, 3, 4 };
        __constant sampler_t unused = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
        S make(float x) { S s; s.x = x; s.v = (int4)(get_group_id(0), 1, 2, THREE); return s; }
        __kernel void k(__global float *out, __global const float *in) {
          S s = make(in[get_global_id(0)]);
          out[get_global_id(0)] = s.x + s.v.s0 + s.v.w + table[get_group_id(0) & 3];
        }
        """,
    "names that collide with nothing": """
        __kernel void k(__global float *out, __global const float *in) {
          int range = 1, launch = 2, shift = 3, r = 4, d = 5;
          out[get_global_id(0)] = in[get_global_id(0)] + range + launch + shift + r + d;
        }
        """,
    "calls over two lines, comma expressions, nested calls": """
        size_t f(size_t a, size_t b) { return a + b + get_global_id(1); }
        __kernel void k(__global float *out, __global const float *in) {
          size_t i = get_global_id
            (0);
          out[i] = (in[i], f(f(get_group_id(0), 1), get_num_groups	( 0 )));
        }
        """,
    "unnamed helper parameters in prototypes": """
        int g(int, __global const float *);
        int g(int a, __global const float *p) { return a + (int)get_group_id(0) + (int)p[0]; }
        __kernel void k(__global float *out, __global const float *in) { out[get_global_id(0)] = g(1, in); }
        """,
    "parameter list in a string and a comment": """
        __kernel void k(/* ) { */ __global float *out, // ) {
                        __global const float *in) {
          if (in[0] == 12345.5f) printf(") { %d\\n", (int)get_global_id(0));
          out[get_global_id(0)] = in[get_global_id(0)]; /* get_global_id(0) */
        }
        """,
    "prototype inside a function": """
        __kernel void k(__global float *out, __global const float *in) {
          float late(int, size_t);
          out[get_global_id(0)] = late(1, 2) + in[0];
        }
        float late(int a, size_t b) { return a + b + get_global_id(0); }
        """,
    "helpers that nothing calls": """
        float used(float x) { return x + get_global_id(0); }
        float unused(float x) { if (x > 1) {
          return used(x); } return get_group_id(0); }
        static inline void unused_too() { unused(1); }
        __kernel void k(__global float *out, __global const float *in) {
          out[get_global_id(0)] = used(in[get_global_id(0)]);
        }
        """,
    "an operand that GNU's a ?: b names once": """
        int half_of(int x) { return x / 2 + (int)get_group_id(0) * 0; }
        __kernel void k(__global float *out, __global const float *in) {
          int i = get_global_id(0);
          out[i] = (half_of(i) - 3 ?: (int)get_num_groups(0)) + (get_group_id(0) ?: get_global_id(0)) + in[i];
        }
        """,
    "shadowed parameter names": """
        __kernel void k(__global float *out, __global const float *in) {
          { __global const float *out = in; float in = out[0]; if (in == 99999) return; }
          out[get_global_id(0)] = in[get_global_id(0)];
        }
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_in_boxes_gives_the_bytes_of_the_whole(name: str) -> None:
    ndrange = NDRange(1, (0, 0, 0), (24, 1, 1), (4, 1, 1))
    data = np.random.default_rng(1).random(24).astype(np.float32)
    arguments = [np.zeros(24, np.float32), data]
    runner(PROGRAMS[name]).assert_same("k", arguments, ndrange, cut_everywhere(ndrange, [[1, 2, 5]]))


TRANSPOSE = """
__kernel void transpose(__global int *out, __global const int *in, __local int *tile, int width, int height) {
  int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
  if (x < width && y < height) tile[ly * get_local_size(0) + lx] = in[y * width + x];
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (x < width && y < height) out[x * height + y] = tile[ly * get_local_size(0) + lx] + get_group_id(1);
}
"""


@pytest.mark.parametrize("cuts", [[[1], []], [[], [2]], [[1, 2], [1]]])
def test_local_memory_and_guards_survive_the_cut(cuts: list[list[int]]) -> None:
    width, height = 10, 13
    ndrange = NDRange(2, (0, 0, 0), (12, 16, 1), (4, 4, 1))
    data = np.arange(width * height, dtype=np.int32)
    arguments = [np.zeros_like(data), data, 64, np.int32(width), np.int32(height)]
    runner(TRANSPOSE).assert_same("transpose", arguments, ndrange, cut_everywhere(ndrange, cuts))


SHIFTED = """
__kernel void scale(__global float *out, __global const float *in, __constant float *factor,
                    __global int *maybe) {
  size_t i = get_global_id(0);
  out[i] = in[i] * factor[5] + (maybe ? 100.0f : 0.0f);
}
"""


def test_a_buffer_that_holds_only_its_range_is_addressed_as_the_whole_one() -> None:
    compiled = compile_source(SHIFTED, "")
    model = compiled.kernels[0]
    kernel = cl.Kernel(build(compiled.text, compiled.member_options), "scale")
    ndrange = NDRange(1, (0, 0, 0), (32, 1, 1), (8, 1, 1))
    data = np.arange(32, dtype=np.float32)
    factor = np.array([3], np.float32)
    out = np.zeros(16, np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    context = queue().context
    buffers = [cl.Buffer(context, flags, hostbuf=host) for host in (out, data[16:].copy(), factor)]
    hidden = pack_hidden(model, ndrange, GroupBox((2, 0, 0), (4, 1, 1)), [64, 64, 20, 4096])
    assert len(hidden) == 104 + 4 * 8
    for index, value in enumerate([*buffers, None, hidden]):
        kernel.set_arg(index, value)
    cl.enqueue_nd_range_kernel(queue(), kernel, (16,), (8,))
    cl.enqueue_copy(queue(), out, buffers[0])
    queue().finish()
    assert out.tolist() == (data[16:] * 3).tolist()


def test_struct_and_vector_values_arrive_before_the_hidden_argument() -> None:
    source = """
        typedef struct { char c; double d; short s[3]; } S;
        __kernel void k(__global double *out, S s, float3 v, uchar b, long4 w) {
          out[get_global_id(0)] = s.c + s.d + s.s[2] + v.z + b + w.s3 + get_group_id(0);
        }
    """
    dtype = np.dtype([("c", "i1"), ("d", "f8"), ("s", "i2", 3)], align=True)
    value = np.zeros((), dtype)
    value["c"], value["d"], value["s"] = 1, 2.5, (1, 2, 3)
    three = np.array([1, 2, 3, 0], np.float32)
    arguments = [
        np.zeros(8, np.float64),
        value.tobytes(),
        three.tobytes(),
        np.uint8(7),
        np.arange(4).tobytes(),
    ]
    ndrange = NDRange(1, (0, 0, 0), (8, 1, 1), (2, 1, 1))
    assert [a.nbytes for a in runner(source).model("k").arguments] == [8, 24, 16, 1, 32]
    runner(source).assert_same("k", arguments, ndrange, cut_everywhere(ndrange, [[1, 3]]))


def test_a_kernel_without_pointers_has_a_hidden_argument_without_shifts() -> None:
    compiled = compile_source("__kernel void k(void) { } __kernel void l() { } kernel void m(int a) { }", "")
    ndrange = NDRange(1, (0, 0, 0), (8, 1, 1), (2, 1, 1))
    hidden = [pack_hidden(k, ndrange, GroupBox((0, 0, 0), (4, 1, 1)), []) for k in compiled.kernels]
    assert [len(each) for each in hidden] == [104, 104, 104]
    build(compiled.text, compiled.member_options)


def test_shifts_must_match_the_pointers() -> None:
    model = compile_source("__kernel void k(__global int *a, __local int *l, int n) { }", "").kernels[0]
    ndrange = NDRange(1, (0, 0, 0), (4, 1, 1), (1, 1, 1))
    box = GroupBox((1, 0, 0), (2, 1, 1))
    assert len(pack_hidden(model, ndrange, box, [-8])) == 112
    with pytest.raises(ValueError, match="2 shifts for 1"):
        pack_hidden(model, ndrange, box, [0, 0])
    with pytest.raises(ValueError, match="box"):
        pack_hidden(model, ndrange, GroupBox((1, 0, 0), (5, 1, 1)), [0])


def test_a_members_message_names_the_users_line() -> None:
    source = "#define A 1\n#define F(x) \\\n   x\n\n__kernel void k(__global int *p) {\n"
    source += "  p[0] = F(\n A);\n  SPOT;\n}\n"
    compiled = compile_source(source.replace("SPOT", "p[1] = 2"), "")
    broken = compiled.text.replace("p[1] = 2", "p[1] = nowhere")
    with pytest.raises(cl.RuntimeError) as failure:
        build(broken, compiled.member_options)
    assert "<kernel>:8:" in str(failure.value)
