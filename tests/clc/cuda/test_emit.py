"""The CUDA emitter: what it writes, what it refuses, and that the compiler takes it (no GPU needed)."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.cuda.translate import CudaProgram, ParameterKind, nvrtc_options, translate
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text, version
from sdi.errors import BuildError
from tests.clc.cuda.cases import SOURCES

Compile = Callable[[CudaProgram, tuple[str, ...]], None]
H100 = (9, 0)
INEXACT = ("--prec-div=false", "--prec-sqrt=false")


@functools.cache
def has_nvrtc() -> bool:
    try:
        version()
    except NvrtcMissing:
        return False
    return True


@pytest.fixture
def compiles(tmp_path: Path) -> Compile:
    """Compile CUDA C++ with NVRTC, else with nvcc; fails with its log."""
    nvcc = shutil.which("nvcc")
    if not has_nvrtc() and nvcc is None:
        pytest.skip("neither NVRTC nor nvcc is installed")

    def compile_(program: CudaProgram, options: tuple[str, ...] = ()) -> None:
        words = nvrtc_options(options, program.contracts)
        if has_nvrtc():
            assert compile_text(program.text, words, H100)
            return
        source = tmp_path / "program.cu"
        source.write_text(program.text)
        command = [
            nvcc or "nvcc",
            "-arch=sm_90",
            "-ptx",
            *words,
            "-o",
            str(tmp_path / "out.ptx"),
            str(source),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return compile_


def body_of(program: CudaProgram) -> str:
    """What was written for the program itself, without the header and the line numbers."""
    text = program.text[program.text.index("namespace sdi_program") :]
    return re.sub(r"\n#line[^\n]*\n", "\n", text)


def kernel(body: str, parameters: str = "global float4 *a, global int4 *b") -> str:
    return f"kernel void k({parameters}) {{ {body} }}"


@pytest.mark.parametrize("name", SOURCES)
def test_each_case_compiles(name: str, compiles: Compile) -> None:
    compiles(translate(SOURCES[name], ()), ())


@pytest.mark.parametrize("name", ["structs", "helpers", "a kernel that calls a kernel", "local argument"])
def test_each_case_compiles_for_boxes_of_work_groups(name: str, compiles: Compile) -> None:
    compiled = compile_source(SOURCES[name], "")
    compiles(translate(compiled.text, compiled.member_options), compiled.member_options)


@pytest.mark.parametrize("name", SOURCES)
def test_no_vector_literal_stays_a_cast_of_a_comma_expression(name: str) -> None:
    written = body_of(translate(SOURCES[name], ()))
    assert not re.search(r"\(_cl_vec<[^>]*>\s*\)", written)
    assert not re.search(r"\b(float|int|uint|uchar|double)(2|3|4|8|16)\b", written)


def test_a_vector_literal_is_made_of_its_parts() -> None:
    written = body_of(translate(kernel("a[0] = (float4)((float2)(1, 2), 3.0f, b[0].x);"), ()))
    pair = "_cl_make<_cl_vec<float, 2>>(((float)1), ((float)2))"
    made = f"_cl_make<_cl_vec<float, 4>>({pair}, 3.0f, ((float)_cl_get<0>(b[0])))"
    assert f"(a[0] = {made});" in written


def test_components_of_a_vector_in_memory_are_read_at_once() -> None:
    body = "float4 c = b[3]; a[0].x = b[1].x * b[1].y + b->z + (*b).w + c.x; a[2].y += 1;"
    program = translate(kernel(body, "global float4 *a, global float4 *b"), ())
    written = body_of(program)
    read = "_cl_fused(_cl_get<0>(b[1]), _cl_get<1>(b[1]), _cl_get<2>((*b))) + _cl_get<3>((*b))"
    assert f"(a[0].v[0] = (({read}) + c.v[0]));" in written
    assert "(a[2].v[1] += " in written
    if not has_nvrtc():
        pytest.skip("NVRTC is not installed")
    ptx = compile_text(program.text, nvrtc_options((), program.contracts), (99, 0)).decode()
    loads = [line.split()[0] for line in ptx.splitlines() if "ld.global" in line]
    assert sum(".v" in load for load in loads) == 2 and len(loads) == 4, "a[2].y and c.x by themselves"


def test_components_of_components_are_found_at_once() -> None:
    written = body_of(translate(kernel("a[0].hi.yx = a[1].wzyx.lo; a[2].odd.y = 1;"), ()))
    assert "(_cl_ref<3, 2>(a[0]) = _cl_swizzle<3, 2>(a[1]));" in written
    assert "(a[2].v[3] = ((float)1));" in written


def test_words_of_cpp_are_renamed_and_stay_apart() -> None:
    source = "int template(int this, int _u_this) { return this + _u_this; } " + kernel(
        "b[0].x = template(1, 2);"
    )
    written = body_of(translate(source, ()))
    assert "int _u_template(int _u_this, int _u__u_this)" in written


def test_parameters_say_how_they_are_packed() -> None:
    source = "typedef struct { char c; double d; } s; "
    source += "kernel void k(global int *a, char c, float3 v, s t, local int *l, short h, sampler_t m, "
    source += "read_only image3d_t i) {}"
    (found,) = translate(source, ()).kernels
    assert found.symbol == "sdi_k_k"
    assert [(p.kind, p.nbytes, p.alignment) for p in found.parameters] == [
        (ParameterKind.POINTER, 8, 8),
        (ParameterKind.VALUE, 1, 1),
        (ParameterKind.VALUE, 16, 16),
        (ParameterKind.VALUE, 16, 8),
        (ParameterKind.LOCAL, 4, 4),
        (ParameterKind.VALUE, 2, 2),
        (ParameterKind.SAMPLER, 4, 4),
        (ParameterKind.IMAGE, 72, 8),
    ]


def test_layouts_are_checked_by_the_compiler(compiles: Compile) -> None:
    source = "typedef struct { char c; float3 p; } s; " + kernel("a[0].xyz = ((global s *)b)->p;")
    program = translate(source, ())
    name = "_cl_record0_s"
    check = f"static_assert(sizeof({name}) == 32 && alignof({name}) == 16 && _CL_OFFSET({name}, c) == 0"
    assert check in program.text
    text = program.text.replace(f"sizeof({name}) == 32", f"sizeof({name}) == 28")
    wrong = CudaProgram(text, program.kernels, True)
    compiles(program, ())
    with pytest.raises((BuildError, AssertionError), match=f"layout of {name}"):
        compiles(wrong, ())


def test_samplers_are_numbers_that_the_compiler_knows(compiles: Compile) -> None:
    source = """
    constant sampler_t far = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_LINEAR;
    float4 look(read_only image2d_t i, sampler_t s, float2 at) { return read_imagef(i, s, at); }
    kernel void k(read_only image2d_t i, read_only image3d_t v, sampler_t s, global float4 *a,
                  global int2 *b) {
      const sampler_t near = CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
      a[0] = look(i, far, a[1].xy) + look(i, near, a[1].zw) + read_imagef(v, s, a[2]);
      b[0] = get_image_dim(i) + get_image_dim(v).yz + (int2)(get_image_channel_order(i) == CLK_RGBA);
    }
    kernel void both(read_write image1d_array_t i, read_only image1d_buffer_t j) {
      int2 at = (int2)(get_global_id(0), get_image_array_size(i) - 1);
      write_imageui(i, at, read_imageui(i, at) + read_imageui(j, at.x));
    }"""
    program = translate(source, ("-cl-std=CL3.0",))
    written = body_of(program)
    assert "static constexpr const _cl_sampler far = ((_cl_sampler)((1 | 6) | 32));" in written
    assert "_cl_vec<float, 4> look(_cl_image<0x10f1> i, _cl_sampler s, _cl_vec<float, 2> at)" in written
    compiles(program, ())


def test_flags_are_set_and_cleared(compiles: Compile) -> None:
    source = """
    kernel void k(volatile global atomic_flag *f, global int *a, local atomic_flag *l) {
      atomic_flag_clear_explicit(l, memory_order_relaxed, memory_scope_work_group);
      a[0] = atomic_flag_test_and_set_explicit(f, memory_order_relaxed, memory_scope_work_group);
    }"""
    program = translate(source, ("-cl-std=CL3.0",))
    assert "_cl_atomic_flag_test_and_set(f, ((unsigned int)0), ((unsigned int)1))" in body_of(program)
    compiles(program, ())


def test_arrays_stay_volatile() -> None:
    written = body_of(translate(SOURCES["volatile arrays"], ()))
    assert "__shared__ volatile int a[2][16];" in written
    assert "__shared__ volatile _cl_vec<float, 4> b[16];" in written
    assert "\nvolatile int own[4];" in written
    records = translate(SOURCES["volatile records"], ()).text
    assert "volatile unsigned char c[3];" in records


def test_ranges_of_cases_become_cases() -> None:
    source = kernel("switch (b[0].x) { case -1 ... 0x2: b[0].y = 1; }")
    assert "case -1: case 0: case 1: case 2: (b[0].v[1] = 1);" in body_of(translate(source, ()))
    source = "enum { A, B }; " + kernel("switch (b[0].x) { case A ... (B + 1): b[0].y = 1; }")
    assert "case 0: case 1: case 2: (b[0].v[1] = 1);" in body_of(translate(source, ()))
    with pytest.raises(BuildError, match="a range of 5000 cases"):
        translate(kernel("switch (b[0].x) { case 1 ... 5000: b[0].y = 1; }"), ())


def test_a_required_work_group_size_bounds_the_launch() -> None:
    source = "__attribute__((reqd_work_group_size(8, 4, 2))) " + kernel("b[0].x = 1;")
    program = translate(source, ())
    assert "__launch_bounds__(64) sdi_k_k" in program.text
    assert program.kernels[0].required_work_group_size == (8, 4, 2)


def test_printf_writes_a_record(compiles: Compile) -> None:
    source = kernel('printf("%d %v4hlf %s %5.2v2f%%\\n", 3, a[0], "x", a[1].xy);')
    program = translate(source, ())
    written = body_of(program)
    assert '_cl_printf(0u, (3), (a[0]), _cl_text_of((const char *)"x"), (_cl_swizzle<0, 1>(a[1])))' in written
    compiles(program, ())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\nkernel void k(read_only image2d_depth_t i, global int *a) { *a = 1; }", "<kernel>:2: error: "),
        (kernel('asm goto("bra %l0;" :::: out); out: ;'), "this inline assembly"),
        (kernel("b[0].x = 1 + ({ int z = 1; if (z) return; z; });"), "a jump out of a statement expression"),
    ],
)  # fmt: skip
def test_what_the_emitter_does_not_know_fails_with_the_line(source: str, said: str) -> None:
    with pytest.raises(BuildError) as caught:
        translate(source, ())
    assert said in caught.value.log
    assert "not supported on CUDA members" in caught.value.log


def test_errors_of_the_program_are_clangs() -> None:
    with pytest.raises(BuildError) as caught:
        translate(kernel("\nb[0].x = nothing;"), ())
    assert "<kernel>:2:10: error: use of undeclared identifier 'nothing'" in caught.value.log


@pytest.mark.parametrize(
    ("options", "contracts", "expected"),
    [
        ((), True, INEXACT),
        (("-cl-fp32-correctly-rounded-divide-sqrt",), True, ()),
        (("-cl-fast-relaxed-math",), True, ("--use_fast_math",)),
        (("-cl-unsafe-math-optimizations",), False, ("--use_fast_math",)),
        (
            ("-cl-fast-relaxed-math", "-cl-fp32-correctly-rounded-divide-sqrt"),
            True,
            ("--use_fast_math", "--prec-div=true", "--prec-sqrt=true"),
        ),
        (("-cl-denorms-are-zero",), False, (*INEXACT, "--ftz=true", "--fmad=false")),
        (("-cl-mad-enable",), False, INEXACT),
    ],
)  # fmt: skip
def test_options_for_the_compiler(
    options: tuple[str, ...], contracts: bool, expected: tuple[str, ...]
) -> None:
    assert nvrtc_options(options, contracts)[2:] == expected


def test_a_pragma_forbids_contraction() -> None:
    assert translate(kernel("a[0] *= 2;"), ()).contracts
    assert not translate("#pragma OPENCL FP_CONTRACT OFF\n" + kernel("a[0] *= 2;"), ()).contracts


def test_double_literals_are_floats_where_the_program_says_so() -> None:
    source = "kernel void k(global float *a) { *a = *a * 1.5; }"
    assert "((float)1.5)" in body_of(translate(source, ("-cl-single-precision-constant",)))
    assert "((double)a[0])" not in body_of(translate(source, ("-cl-single-precision-constant",)))


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    ("flags", "fence"),
    [
        ("CLK_LOCAL_MEM_FENCE", "membar.cta"),
        ("CLK_GLOBAL_MEM_FENCE", "membar.gl"),
        ("CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE", "membar.cta"),
    ],
)
def test_a_fence_of_local_and_global_memory_orders_for_the_work_group(flags: str, fence: str) -> None:
    program = translate(kernel(f"a[0] = 1; mem_fence({flags}); a[1] = 2;", "global int *a"), ())
    ptx = compile_text(program.text, nvrtc_options((), program.contracts), (99, 0)).decode()
    assert [line.strip(" \t;") for line in ptx.splitlines() if "membar" in line] == [fence]
