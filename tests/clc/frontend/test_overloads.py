"""Built-in functions beside functions of a program's own that have their names."""

from __future__ import annotations

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.frontend.base_header import HEADER_PATH, USUAL, header_text, language_macros
from sdi.clc.frontend.libclang import Unit
from sdi.clc.frontend.overloads import built_in, declaration, hidden, own_functions, probe_text
from sdi.clc.frontend.parse import clang_arguments
from sdi.clc.preprocess.options import parse_options
from sdi.errors import BuildError

NAMES = "step fract vload4 vstore_half4 atomic_add atomic_load_explicit read_imagef write_imageui barrier max"
NAMES += " async_work_group_copy ilogb shuffle convert_uchar4_sat_rte get_global_id get_work_dim mul24 nosuch"


@pytest.mark.parametrize("standard", ["CL1.2", "CL3.0"])
def test_what_clang_says_of_built_in_functions_declares_the_same_functions(standard: str) -> None:
    options = parse_options(f"-cl-std={standard}", None)
    macros = language_macros(options.version, USUAL)
    header = "".join(f"#define {n} {v}\n" for n, v in macros.items()) + header_text()
    arguments = [*clang_arguments(options, "spir64"), "-w", "-ferror-limit=0"]
    names = NAMES.split()
    with Unit({"/probe.cl": probe_text(names), HEADER_PATH: header.encode()}, arguments) as probe:
        found = built_in(probe, HEADER_PATH)
    assert {name for name, _, _ in found} >= set(names) - {"nosuch", "atomic_load_explicit"}
    assert "nosuch" not in {name for name, _, _ in found}
    text = "".join(map(declaration, sorted(found))).encode()
    with Unit({"/again.cl": text, HEADER_PATH: header.encode()}, arguments) as again:
        assert again.lib.clang_getNumDiagnostics(again.handle) == 0
        assert own_functions(again, HEADER_PATH) == found


def test_a_function_of_the_programs_own_replaces_the_built_in_one_of_its_parameters() -> None:
    there = [("f", "int", ("int",)), ("f", "float", ("float",)), ("g", "int", ("int",))]
    own = [("f", "float", ("float",)), ("h", "int", ("int",))]
    assert hidden(own, there) == "int __attribute__((overloadable)) f(int);\n"


def test_calls_go_to_the_function_of_their_arguments() -> None:
    text = "float min(float a, int2 b) { return a; }\nkernel void t(global int *o, global float *f) { %s }"
    compile_source(text % "o[0] = min(o[1], 3); f[0] = min(f[1], (int2)(1)) + min(f[2], f[3]);", "")
    with pytest.raises(BuildError, match="no matching function for call to 'min'"):
        compile_source(text % "f[0] = min(f[1], (uint4)(1), 2);", "")
