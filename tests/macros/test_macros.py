"""The preprocessor against clang, and an image against the plain driver: the same macros, the same values."""

from __future__ import annotations

from ctypes import c_char_p, c_void_p
from random import Random

import pytest

from sdi.clc.frontend.base_header import FUNCTION_MACROS, USUAL, header_text, language_macros
from sdi.clc.frontend.libclang import CXCursor, Unit, text_of
from sdi.clc.preprocess.dialect import Definitions
from sdi.clc.preprocess.macros import MacroError
from sdi.clc.preprocess.options import parse_options
from sdi.clc.preprocess.preprocess import preprocess
from sdi.clc.preprocess.probe import PLACES, is_operator, usual_questions
from tests.macros.compare import differing, told
from tests.macros.generate import NEXT, PRELUDE, TESTS, program, together
from tests.seeds import num_seeds

CLANG, BOTH = 120, num_seeds(40, 100)
"""How many programs."""
OPTIONS = (
    "",
    "-cl-std=CL1.2",
    "-cl-std=CL3.0",
    "-cl-fast-relaxed-math",
    "-cl-opt-disable -cl-finite-math-only",
)


def told_by_clang(text: str, header: str) -> str | None:
    """What the string ``said`` is in a text; None for a text that clang refuses."""
    arguments = ["-x", "cl", "-cl-std=CL1.2", "-target", "spir64", "-cl-no-stdinc", "-nostdinc", "-w"]
    with Unit({"/k.cl": text.encode(), "/h.h": header.encode()}, [*arguments, "-include", "/h.h"]) as unit:
        lib = unit.lib
        lib.clang_Cursor_Evaluate.argtypes, lib.clang_Cursor_Evaluate.restype = [CXCursor], c_void_p
        lib.clang_EvalResult_getAsStr.argtypes, lib.clang_EvalResult_getAsStr.restype = [c_void_p], c_char_p
        lib.clang_EvalResult_dispose.argtypes, lib.clang_EvalResult_dispose.restype = [c_void_p], None
        for number in range(lib.clang_getNumDiagnostics(unit.handle)):
            if lib.clang_getDiagnosticSeverity(c_void_p(lib.clang_getDiagnostic(unit.handle, number))) >= 3:
                return None
        for cursor in unit.children(unit.root()):
            if text_of(lib.clang_getCursorSpelling(cursor)) == "said":
                value = lib.clang_Cursor_Evaluate(cursor)
                said: bytes = lib.clang_EvalResult_getAsStr(value)
                lib.clang_EvalResult_dispose(value)
                return said.decode("utf-8", "replace")
    return None


def test_generated_programs_come_to_what_clang_makes_of_them() -> None:
    refused = 0
    for seed in range(CLANG):
        text = '#line 1 "<kernel>"\n' + together([program(seed)])
        definitions = Definitions(USUAL, parse_options("", None))
        plain = None
        try:
            plain = preprocess(text, "<options>", (), definitions)
        except MacroError:
            refused += 1
        macros = {**language_macros(120, USUAL), **definitions.header()}
        given = {name: value for name, value in macros.items() if not name.startswith("__STDC")}
        header = "".join(f"#define {n} {v}\n" for n, v in given.items() if v is not None) + header_text()
        header += "".join(f"#undef {n}\n" for n, v in given.items() if v is None)
        expected = told_by_clang(text, header)
        assert (plain and told_by_clang(plain, "typedef unsigned int uint;\n")) == expected, seed
    assert 0 < refused < CLANG / 4


def test_generated_programs_come_to_the_same_on_the_driver_and_on_an_image() -> None:
    assert differing(range(100_000, 100_000 + BOTH), members=2) == []


def test_every_name_of_the_compilers_is_defined_as_on_the_driver() -> None:
    names = [name for name in usual_questions()[1:] if not name.startswith("cl_")]
    pieces = [_asks(name) for name in names]
    tests = [f"{operator}({operand})" for operator, operands in TESTS.items() for operand in operands]
    pieces += [
        f'#ifdef {test.partition("(")[0]}\n#if {test}\n"1"\n#else\n"0"\n#endif\n#endif\n' for test in tests
    ]
    texts = [(together(pieces), f"-w {options}") for options in OPTIONS]
    plain, image = told("plain", texts), told("image", texts)
    assert [code for _, code in plain] == [0] * len(OPTIONS)
    for options, (a, _), (b, _) in zip(OPTIONS, plain, image, strict=True):
        found = zip([*names, *tests], a.split(NEXT), b.split(NEXT), strict=False)
        assert [(each, x, y) for each, x, y in found if x != y] == [], options
    assert "__clang__" in names and "__opencl_c_fp64" in names


def _asks(name: str) -> str:
    """Some are only defined: what takes arguments, or depends on the place."""
    is_text = not (is_operator(name) or name in PLACES or name.startswith("as_") or name in FUNCTION_MACROS)
    return f'#ifdef {name}\n"=" {f"TEXT({name})" if is_text else ""}\n#endif\n'


def test_extensions_are_those_that_the_device_lists_whatever_the_pragmas_say() -> None:
    names = [name for name in usual_questions() if name.startswith("cl_khr")]
    pragmas = "#pragma OPENCL EXTENSION all : disable\n" + "".join(
        f"#if defined({name})\n#pragma OPENCL EXTENSION {name} : enable\n#endif\n" for name in names
    )
    ((image, code),) = told("image", [(pragmas + together([_asks(name) for name in names]), "-w")])
    found = {name for name, text in zip(names, image.split(NEXT), strict=False) if text}
    assert code == 0 and "cl_khr_fp64" in found
    assert not found & {"cl_khr_fp16", "cl_khr_depth_images", "cl_khr_subgroups", "cl_khr_spir"}


NAMED = """
#if '\\377' < 0 && defined(__has_include) && !__has_include("nothing.h") && __has_feature(blocks) < 2
"signed"
#endif
#define __has_foo 3
#if __has_foo == 3 && defined(__has_foo)
TEXT(__has_foo)
#endif
#define __has_bar(x) x##1
TEXT(__has_bar(2)) TEXT(CALL(__has_bar, 3))
TEXT(GLUE(
#ifdef __clang__
a,
#else
b,
#endif
__LINE__) __SIZEOF_LONG__ __BYTE_ORDER__)
#if sizeof_date
#endif
#define STRLEN(x) sizeof(x)
TEXT(__FLT_EPSILON__ M_PI CLK_R GLUE(__INT_, MAX__) sin __OPENCL_C_VERSION__ __FAST_RELAXED_MATH__)
"""


def test_what_programs_do_with_names_of_the_compiler_is_what_the_driver_does() -> None:
    texts = [(together([NAMED]), options) for options in ("", "-cl-std=CL1.1", "-cl-fast-relaxed-math")]
    assert told("image", texts) == told("plain", texts)


def test_dates_are_those_of_the_build() -> None:
    text = together(['#ifdef __DATE__\n__DATE__ "," __TIME__ "," __TIMESTAMP__\n#endif\n'])
    (plain, _), (image, _) = told("plain", [(text, "")])[0], told("image", [(text, "")])[0]
    assert [len(each) for each in plain.split(",")] == [len(each) for each in image.split(",")]
    assert plain.split(",")[0][-4:] == image.split(",")[0][-4:]


_WORDS = (
    "-DA='S'",
    "-DA='\\\\'",
    '-DA="x y"',
    '-D"A=x y"',
    '-D "A=1 2"',
    "-DA",
    "-DA=",
    "-D A=3",
    "-D   B=4",
    "-DA=B",
    "-DB=(1+2)",
    "-D'A=1'",
    '"-DA=1"',
    '-DA=x"y z"w',
    "-DA=$",
    "-DA=#",
    "-DA=a,b",
    "-DA=//c",
    "-DA=/*c*/d",
    '-DA=""',
    '-D"F(x,y)=x + y"',
    "-DF(x)=x*2",
    "-DA=F(2)",
    "-DA-B=3",
    "-DA=b=c",
    "-DA=;",
    "-DA=<",
    "-D1X=3",
    "-D=3",
    "-UA",
    "-DA=' '",
    "x",
    "-Wall",
    "-O2",
    "-w",
    "-g",
    "-Werror",
    "-cl-mad-enable",
    "-cl-std=CL1.2",
    "-cl-std=CL3.0",
    "-I.",
    "-I nowhere",
    "-DA=%d",
    "-DA=\\x",
    "-DB=1\t-DA=2",
    "-DA=1\n-DB=2",
    "-DA=???=",
    "-DA=`",
    "-cl-nothing",
    "-DA=é",
    "-DA=1 -DA=2",
)


def test_build_options_are_split_as_the_driver_splits_them() -> None:
    """Codes too.  A quote that is never closed takes in the driver's own options."""
    random = Random(4)
    pieces = [f'#ifdef {name}\n"=" TEXT({name})\n#endif\n' for name in ("A", "B", "X")]
    text = together([*pieces, "#if defined(F) && !defined(A)\nTEXT(F(1))\n#endif\n"]).replace(
        "\n__kernel", "\n/**/__kernel"
    )
    lists = [*_WORDS, *(" ".join(random.sample(_WORDS[:40], random.randint(2, 4))) for _ in range(10))]
    lists.append('-DA="x')
    texts = [(text, options) for options in lists]
    answers = zip(lists, told("plain", texts), told("image", texts), strict=True)
    assert [each for each in answers if each[1] != each[2]] == []


def test_a_suite_with_characters_for_its_classes_builds() -> None:
    text = (
        PRELUDE
        + "\n#if CLASS == 'S'\n__constant char said[] = TEXT(CLASS) \"\\004~\\004\";\n#endif\n"
        + (
            "__kernel void tell(__global char *out, uint room) {"
            " for (uint i = 0; i < sizeof(said) && i < room; i++) out[i] = CLASS == 'S' ? said[i] : 0; }\n"
        )
    )
    assert told("image", [(text, "-DCLASS='S' -I. -DM=2")]) == [("'S'", 0)]


@pytest.mark.parametrize("where", ["plain", "image"])
def test_what_a_program_may_not_say_fails_its_build(where: str) -> None:
    wrong = (
        "#if 1 / 0\n#endif\n",
        "#if 08\n#endif\n",
        "#define F(x) #y\n",
        "#if FOO(1)\n#endif\n",
        "#if 1 +\n#endif\n",
    )
    assert {code for _, code in told(where, [(together([each]), "") for each in wrong])} == {-11}
