"""Errors and warnings as the application's author reads them, and build options."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.frontend.base_header import USUAL
from sdi.clc.preprocess.options import Quotes, parse_options
from sdi.errors import BuildError, Status

GOOD = "__kernel void k(__global int *a) { a[0] = 1; }\n"


def log_of(source: str, options: str = "", working_directory: str | None = None) -> str:
    with pytest.raises(BuildError) as failure:
        compile_source(source, options, working_directory)
    assert failure.value.status is Status.BUILD_PROGRAM_FAILURE
    return failure.value.log


def test_an_error_shows_the_users_line_and_a_caret() -> None:
    log = log_of("__kernel void k(__global int *a) {\n\n    a[0] = missing + 1;\n}\n")
    assert log == (
        "<kernel>:3:12: error: use of undeclared identifier 'missing'\n"
        "    a[0] = missing + 1;\n"
        "           ^\n"
        "1 error generated.\n"
    )


def test_lines_stay_right_after_directives_includes_and_options(tmp_path: Path) -> None:
    (tmp_path / "one.h").write_text("#pragma once\n\ntypedef float real;\n")
    source = '#include "one.h"\n#define A(x) \\\n  (x)\n/* two\nlines */\n'
    source += "kernel void k(global real *a) { a = 1.5; }\n"
    log = log_of(source, "-D B=1 -DC", str(tmp_path))
    assert log.startswith("<kernel>:6:35: error: ")


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "bad.h").write_text("\nint f(void) { return nowhere; }\n")
    log = log_of(f'#include "bad.h"\n{GOOD}', f'-I "{tmp_path}"')
    assert f"{tmp_path / 'bad.h'}:2:22: error: use of undeclared identifier 'nowhere'\n" in log
    assert "int f(void) { return nowhere; }\n                     ^\n" in log


def test_a_missing_include_is_an_error() -> None:
    assert "<kernel>:2:10: fatal error: 'nowhere.h' file not found" in log_of('\n#include "nowhere.h"\n')


def test_an_error_inside_a_macro_points_at_its_use() -> None:
    log = log_of("#define BAD(x) ((x) + nowhere)\nkernel void k(global int *a) {\n  a[0] = BAD(1);\n}\n")
    assert "<kernel>:3:10: error: use of undeclared identifier 'nowhere'\n  a[0] = BAD(1);\n         ^" in log


def test_the_carets_of_lines_with_tabs_and_umlauts_stand_under_the_error() -> None:
    log = log_of("kernel void k(global int *a) {\n\t/* äö */ a[0] = x; }\n")
    assert "\n\t/* äö */ a[0] = x; }\n\t                ^\n" in log


def test_an_error_in_an_option_is_no_crash() -> None:
    assert "error" in log_of("kernel void k(global VALUE *a) { a[0] = VALUE; }", "-DVALUE=int")


def test_warnings_are_in_the_log_of_a_good_program_and_can_be_silenced_or_raised() -> None:
    source = "kernel void k(global int *a) {\n  int x = a[0];\n  if (x = 2) a[0] = 1;\n}\n"
    log = compile_source(source, "").log
    assert (
        "<kernel>:3:9: warning: using the result of an assignment as a condition without parentheses" in log
    )
    assert log.endswith("1 warning generated.\n")
    assert compile_source(source, "-w").log == ""
    assert "<kernel>:3:9: error: using the result" in log_of(source, "-Werror")


def test_recursion_depth_of_long_expressions_is_no_crash() -> None:
    terms = " + ".join(f"a[{n}]" for n in range(1500))
    model = compile_source(f"kernel void k(global int *a, global int *b) {{ b[0] = {terms}; }}", "")
    assert [(a.reads, a.writes) for a in model.kernels[0].arguments] == [(True, False), (False, True)]


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\n",
        "\0",
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.rstrip(),
        GOOD + "// end",
        GOOD + "\0\0",
    ],
)
def test_unusual_but_valid_sources_compile(source: str) -> None:
    assert len(compile_source(source, "").kernels) == ("kernel" in source)


@pytest.mark.parametrize(
    ("options", "members"),
    [
        ("", "-cl-std=CL1.2 -w"),
        ("-cl-std=CL1.1 -g", "-cl-std=CL1.2 -cl-single-precision-constant -w"),
        ("-cl-std=CL3.0", "-cl-std=CL3.0 -w"),
        ("-cl-fast-relaxed-math  -cl-kernel-arg-info\t-Werror", "-cl-std=CL1.2 -cl-fast-relaxed-math -w"),
        ("-cl-mad-enable -cl-uniform-work-group-size -w", "-cl-std=CL1.2 -cl-mad-enable -w"),
        ("-DX=1 -D Y -I. -I /tmp -cl-opt-disable", "-cl-std=CL1.2 -cl-opt-disable -w"),
    ],
)
def test_members_get_the_options_that_change_code_and_no_others(options: str, members: str) -> None:
    assert " ".join(compile_source(GOOD, options).member_options) == members


@pytest.mark.parametrize(
    "options",
    [
        "-cl-nv-verbose",
        "-foo",
        "-cl-std=CL2.1",
        "-cl-std=",
        "-D",
        "-I",
        "-O3",
        "x.cl",
        "-DA='x y'",
        "-cl-fast",
    ],
)
def test_unknown_and_malformed_options_are_invalid_build_options(options: str) -> None:
    with pytest.raises(BuildError) as failure:
        compile_source(GOOD, options)
    assert failure.value.status is Status.INVALID_BUILD_OPTIONS
    assert failure.value.log


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("-DA", (("A", "1"),)),
        ("-D A", (("A", "1"),)),
        ("-DA=", (("A", ""),)),
        ("-D A=3 -D B=4", (("A", "3"), ("B", "4"))),
        ('-D "A=x y"', (("A", "x y"),)),
        ("-DCLASS='S'", (("CLASS", "'S'"),)),
        (r"-DA='\\'", (("A", r"'\\'"),)),
        ('"-DA=x y"', (("A", "x y"),)),
        ('-DA=\\"q\\"', (("A", '"q"'),)),
        ('-DA=\\"q r\\"', (("A", '"q r"'),)),
        ('-D"F(x, y)=x + y"', (("F(x, y)", "x + y"),)),
        ("-DA=1\t-DB=2\n-DC", (("A", "1"), ("B", "2"), ("C", "1"))),
        ("-DF(x)=x+1", (("F(x)", "x+1"),)),
        ("-DA=1=2", (("A", "1=2"),)),
    ],
)
def test_definitions_are_split_at_blanks_outside_double_quotes(
    options: str, expected: tuple[tuple[str, str], ...]
) -> None:
    assert parse_options(options, None).defines == expected


@pytest.mark.parametrize("options", ["-D 1x", "-D=3", "-D'X=1'", '-DA="b'])
def test_what_no_compiler_can_define_fails_the_build(options: str) -> None:
    with pytest.raises(BuildError) as failure:
        compile_source(GOOD, options)
    assert failure.value.status is Status.BUILD_PROGRAM_FAILURE


@pytest.mark.parametrize(
    ("quotes", "value"),
    [(Quotes.BLANK, "x  c \\ d\\"), (Quotes.REMOVED, "x c\\d\\"), (Quotes.ESCAPED, 'x c"d"')],
)
def test_quotes_are_read_as_the_driver_reads_them(quotes: Quotes, value: str) -> None:
    assert parse_options('-DA="a b" -D "B=1 2"', None, quotes=quotes).defines == (("A", "a b"), ("B", "1 2"))
    assert parse_options('-DA=x" c"\\"d\\"', None, quotes=quotes).defines == (("A", value),)
    if quotes is not Quotes.ESCAPED:
        with pytest.raises(BuildError):
            parse_options('"-DA=1"', None, quotes=quotes)


@pytest.mark.parametrize("options", ['-I "" -I x', '-I" " -I x', '-I"" -I x'])
def test_a_folder_without_a_name_is_none(options: str) -> None:
    quotes = Quotes.BLANK if '-I""' in options else Quotes.REMOVED
    assert parse_options(options, "/w", quotes=quotes).include_folders[0] == "/w/x"


@pytest.mark.parametrize("options", ["-I", "-D", '-D ""'])
def test_options_that_lack_their_value_are_refused(options: str) -> None:
    with pytest.raises(BuildError) as failure:
        parse_options(options, None, quotes=Quotes.REMOVED)
    assert failure.value.status is Status.INVALID_BUILD_OPTIONS


def test_literals_are_floats_where_the_language_has_no_doubles() -> None:
    source = "kernel void k(global float *a) { a[0] = a[1] * 0.1; }"
    flag = "-cl-single-precision-constant"
    enabled = f"#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n{source}"
    for text, options, is_float in (
        (source, "-cl-std=CL1.1", True),
        (source, "-cl-std=CL1.0", True),
        (enabled, "-cl-std=CL1.1", False),
        (source, "-cl-std=CL1.2", False),
        (source, "", False),
    ):
        assert (flag in compile_source(text, options).member_options) == is_float


def test_definitions_reach_the_program_and_the_last_one_wins() -> None:
    source = "kernel void k(global T *a) { a[0] = F(N); }"
    compiled = compile_source(source, '-DT=long -D N=1 -DN=2 "-D F(x)=((x) + 1)" -DM_PI=3')
    assert "a[0] =  (( 2 ) + 1) " in compiled.text.replace("  2  ", " 2 ")
    assert compiled.kernels[0].arguments[0].unit_nbytes == 8


def test_folders_are_meant_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir" / "n.h").write_text("#define N 3\n")
    (tmp_path / "m.h").write_text('#include "sub dir/n.h"\n#define M N\n')
    source = '#include <n.h>\n#include "m.h"\nkernel void k(global int *a) { a[M] = N; }'
    text = compile_source(source, '-I "sub dir"', str(tmp_path)).text
    assert "3" in text and "#include" not in text and "#define" not in text


def test_macros_of_the_version_and_of_extensions_are_as_the_device_says() -> None:
    source = """
        #if __OPENCL_VERSION__ != 300 || __OPENCL_C_VERSION__ != WANT || !defined(cl_khr_fp64)
        #error version
        #endif
        #if defined(cl_khr_fp16) || !defined(cl_khr_byte_addressable_store) || !__ENDIAN_LITTLE__
        #error extension
        #endif
        #if CL_VERSION_1_2 != 120 || INT_MAX != 0x7fffffff || !defined FLT_MAX || !defined CLK_LOCAL_MEM_FENCE
        #error constant
        #endif
        #ifdef __FAST_RELAXED_MATH__
        kernel void fast(void) {}
        #endif
        kernel void k(global double *a) { a[0] = M_PI; }
    """
    for options in ("-DWANT=120", "-cl-std=CL1.1 -DWANT=110", "-cl-std=CL3.0 -DWANT=300"):
        assert len(compile_source(source, options).kernels) == 1
    assert len(compile_source(source, "-DWANT=120 -cl-fast-relaxed-math").kernels) == 2


def test_half_arithmetic_needs_its_extension() -> None:
    body = "kernel void k(global half *a) { a[0] = sqrt(a[1]) + 1; }"
    source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" + body
    with pytest.raises(BuildError):
        compile_source(source, "")
    assert compile_source(source, "", language=replace(USUAL, extensions=("cl_khr_fp16",))).kernels


def test_a_pragma_defines_no_extension() -> None:
    source = """
        #if defined(cl_khr_fp16)
        #pragma OPENCL EXTENSION cl_khr_fp16 : enable
        #define REAL half
        #else
        #pragma OPENCL EXTENSION all : disable
        #define REAL float
        #endif
        kernel void k(global REAL *a) { a[0] = sqrt(a[1]) + 1; }
    """
    assert compile_source(source, "").kernels[0].arguments[0].unit_nbytes == 4
    with_half = replace(USUAL, extensions=("cl_khr_fp16",))
    assert compile_source(source, "", language=with_half).kernels[0].arguments[0].unit_nbytes == 2


def test_many_threads_build_at_once() -> None:
    def build(number: int) -> str:
        source = f"kernel void k{number}(global int *a) {{ a[get_global_id(0)] = {number}; }}"
        compiled = compile_source(source, f"-DN={number}")
        if number % 3 == 0:
            with pytest.raises(BuildError):
                compile_source(f"kernel void k(global int *a) {{ a = {number}.5f; }}", "")
        return compiled.kernels[0].name

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(build, range(64))) == [f"k{n}" for n in range(64)]


def test_a_build_leaves_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    compile_source(GOOD, "-DX=1")
    log_of("kernel void k(")
    assert list(tmp_path.iterdir()) == []


def test_importing_the_front_end_loads_no_libclang() -> None:
    code = "import sys, sdi.clc; print([m for m in sys.modules if m in ('clang', 'numpy', 'ctypes')])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "[]\n"
