"""The preprocessor: macros, conditions, and lines that stay where they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.clc.preprocess.conditions import evaluate
from sdi.clc.preprocess.macros import LEXER, Macro, MacroError, Origin, body_of
from sdi.clc.preprocess.preprocess import preprocess
from sdi.clc.preprocess.probe import PLACES


def tokens(text: str) -> str:
    """The text without line marks and with single spaces between tokens."""
    lines = [line for line in text.split("\n") if not line.startswith("#line")]
    return " ".join(t for t in LEXER.findall("\n".join(lines)) if not t.isspace())


@dataclass(frozen=True)
class Given:
    """``Predefined`` with what a test says: macros of the driver's, names that stay, and tests."""

    macros: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    tests: Mapping[str, str] = field(default_factory=dict)
    width: int = 128

    def look_up(self, names: Collection[str], in_directives: Collection[str]) -> dict[str, Macro]:
        found = {name: Macro(name, None, "", (), Origin.PLACE) for name in PLACES}
        found |= {n: Macro(n, None, "", body_of(text), Origin.DRIVER) for n, text in self.macros.items()}
        found |= {n: Macro(n, None, "", body_of(text), Origin.KEPT) for n, text in self.kept.items()}
        tests = {test.partition("(")[0] for test in self.tests}
        found |= {name: Macro(name, None, "", (), Origin.TEST) for name in tests}
        return {name: found[name] for name in names if name in found}

    def test(self, operator: str, operand: str) -> str:
        return self.tests[f"{operator}({operand})"]


def expand(text: str, given: Given | None = None, folders: tuple[str, ...] = ()) -> str:
    return preprocess(text, "<kernel>", folders, given or Given())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("#define A 1\nA", "1"),
        ("#define A B\n#define B A\nA B", "A B"),
        ("#define F(x) x*x\nF(2) F (3) F", "2 * 2 3 * 3 F"),
        ("#define F() 1\nF()", "1"),
        ("#define F (1)\nF(2)", "( 1 ) ( 2 )"),
        ("#define NEG -x\n-NEG", "- - x"),
        ("#define MINUS(x) -x\nMINUS(-1)", "- - 1"),
        ("#define CAT(a, b) a##b\n#define AB 7\nCAT(A, B) CAT(x,) CAT(,y) CAT(,)", "7 x y"),
        ("#define CAT(a, b) a ## b\n#define X(a, b) CAT(a, b)\n#define A 1\nX(A, A) CAT(A, A)", "11 AA"),
        ('#define S(x) #x\nS( a  +  "b\\n" ) S()', '"a + \\"b\\\\n\\"" ""'),
        ("#define S(x) #x\n#define T(x) S(x)\n#define A 1\nS(A) T(A)", '"A" "1"'),
        (
            "#define S(x) #x\n#define T(x) S(x)\n#define D /a b\n#define E(x) x\nT(D/c.h E(1)+2)",
            '"/a b/c.h 1+2"',
        ),
        ("#define V(f, ...) f(__VA_ARGS__)\nV(g, 1, (2, 3)) V(h)", "g ( 1 , ( 2 , 3 ) ) h ( )"),
        ("#define V(f, ...) g(f, ##__VA_ARGS__)\nV(1) V(1, 2)", "g ( 1 ) g ( 1 , 2 )"),
        ("#define V(f, rest...) f(rest)\nV(g, 1, 2)", "g ( 1 , 2 )"),
        ("#define F(x) x\nF(F(F(1))) F((a, b))", "1 ( a , b )"),
        ("#define F(x) G x\n#define G(x) x\nF((1))", "1"),
        ("#define F(x) x F\nF(1)(2)", "1 F ( 2 )"),
        ("#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)", "2 * 9 * g"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#define A(x) \\\n  x + \\\n  1\nA(2)", "2 + 1"),
        ("#define A /* a\n b */ 1\nA", "1"),
        ("\"A\" /* A */ 'A' // A\n#define A 1\n\"A\" 'A'", "\"A\" 'A' \"A\" 'A'"),
        ("#if 1\na\n#elif 1\nb\n#else\nc\n#endif", "a"),
        ("#if 0\n#if 1\na\n#endif\n#elif defined(X) || !defined X\nb\n#else\nc\n#endif", "b"),
        ("#ifdef X\n#error no\n#include <none>\n#else\nc\n#endif", "c"),
        ("#define X\n#ifndef X\na\n#elif 0\n#else\nb\n#endif", "b"),
        ("#define F(x) x\n#if F(1) && UNKNOWN == 0\na\n#endif", "a"),
        ("#define HAS defined(X)\n#define X\n#if HAS\na\n#endif", "a"),
        ("__LINE__\n\n__LINE__ __FILE__\n__COUNTER__ __COUNTER__", '1 3 "<kernel>" 0 1'),
        ('#line 40 "x.cl"\n__LINE__ __FILE__', '40 "x.cl"'),
        ("#define N 4\n#pragma unroll N\nN", "# pragma unroll 4 4"),
        ("#define enable no\n#pragma OPENCL EXTENSION x : enable\n", "# pragma OPENCL EXTENSION x : enable"),
        ("#define E(x) 1.0e+x .5f 0x1p-3\nE(3)", "1.0e+x .5f 0x1p-3"),
        ("#define A(x) 0\nA(1,\n2) ", None),
        ("# \n#define A 1\n#   define B A\nB", "1"),
    ],
)
def test_macros_expand_as_in_c99(source: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(MacroError):
            expand(source)
    else:
        assert tokens(expand(source)) == expected


def test_text_without_macros_passes_byte_for_byte() -> None:
    text = "kernel  void\tk(global int *a)\n{\n  a[0] = 'x';\t\n\n}\n"
    assert expand("#define UNUSED 1\n" + text) == "\n" + text


def test_names_of_the_language_are_defined_and_stay() -> None:
    given = Given(kept={"M_PI": "3.1", "FLT_MAX": "1e38f", "CLK_R": "0x10B0"})
    source = "#ifdef M_PI\nx = M_PI + FLT_MAX;\n#endif\n#undef FLT_MAX\n#define FLT_MAX 3\ny = FLT_MAX;"
    assert tokens(expand(source, given)) == "x = M_PI + FLT_MAX ; y = 3 ;"
    source = "#define S(x) #x\n#define T(x) S(x)\nS(M_PI) T(M_PI)\n#if CLK_R == 4272\ny\n#endif\n"
    assert tokens(expand(source, given)) == '"M_PI" "3.1" y'


def test_a_name_that_the_program_takes_from_the_driver_is_taken_from_it_in_the_text_too() -> None:
    given = Given(kept={"NULL": "0"}, macros={"unix": "1"})
    text = expand("a = NULL;\n#undef NULL\nint NULL;\n#undef unix\nint unix;\n#define NULL 3\nNULL", given)
    assert text == "a = NULL;\n#undef NULL\nint NULL;\n#undef unix\nint unix;\n\n 3 \n"


@pytest.mark.parametrize(
    "source",
    [
        "#define A 1\n\n/* two\nlines */ here\n",
        "#define F(x) x\nF(\n1\n) \nhere\n",
        "#define LONG a \\\n b \\\n c\n#if 0\n/*\n*/ x \\\n y\n#endif\nhere\n",
        "// comment \\\n goes on\nhere\n",
        "a /* x\n*/ b /* y\n\n*/ c \\\n d\nhere\n",
        "#define A 1 /* x\ny */\nA\nhere\n",
    ],
)
def test_every_line_stays_where_it_was(source: str) -> None:
    wanted = next(i for i, line in enumerate(source.split("\n")) if "here" in line)
    assert "here" in expand(source).split("\n")[wanted]


def test_included_files_are_marked_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#ifndef A\n#define A\nint a = __LINE__;\n#include "b.h"\nint z;\n#endif\n')
    (tmp_path / "b.h").write_text("#pragma once\nint b = X;\n")
    source = '#define X 5\n#include <a.h>\n#include "a.h"\n#include "b.h"\nint c = __LINE__;\n'
    text = expand(source, folders=(str(tmp_path),))
    assert tokens(text) == "int a = 3 ; int b = 5 ; int z ; int c = 5 ;"
    lines = text.split("\n")
    assert lines[lines.index("int z;") - 1] == f'#line 5 "{tmp_path / "a.h"}"'
    assert lines[lines.index(next(x for x in lines if "int c" in x)) - 1] == '#line 5 "<kernel>"'


def test_an_include_that_includes_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "a.h"\n')
    with pytest.raises(MacroError, match="nested"):
        expand('#include "a.h"', folders=(str(tmp_path),))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("1 ? 2 : 3", 2),
        ("0 ? 1 : 0 ? 2 : 3", 3),
        ("1 || 1 / 0", 1),
        ("0 && 1 / 0", 0),
        ("0 ? 1 / 0 : 4", 4),
        ("-1 > 0u", 1),
        ("-1 < 0", 1),
        ("0x10 + 010 + 0b11", 27),
        ("'a' == 97", 1),
        ("~0 == -1", 1),
        ("!0 + !5", 1),
        ("1 << 3 | 1", 9),
        ("5 & 6 ^ 1", 5),
        ("340282366920938463463374607431768211455u == -1", 1),
        ("1 << 64", 1 << 64),
        ("1 << 128", 0),
        ("1 << -1", 0),
        ("-8 >> 200", -1),
        ("(-1u >> 127) == 1 && (-1u >> 300) == 1", 1),
        ("0x80000000000000000000000000000000 > 0", 1),
        ("(-170141183460469231731687303715884105727 - 1) / -1 < 0", 1),
        (r"'\377' < 0", 1),
        (r"'\xff' == -1", 1),
        ("'ab' == 24930", 1),
        (r"L'\377' == 255", 1),
        (r"'\1234' == 21300", 1),
        ("0 ? 1u : -1", (1 << 128) - 1),
        ("1 ? 2 : (3, 4)", 2),
        ("true + false", 1),
        ("10 - 3 - 2", 5),
        ("unknown", 0),
        ("120UL >= 120", 1),
    ],
)
def test_conditions_are_evaluated_as_in_c(text: str, value: int) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "(1",
        "1 2",
        "1 / 0",
        "a b",
        "@",
        "1 ? 2",
        "= 1",
        "08",
        "1uu",
        "1.0",
        "1lL",
        "f(1)",
        r"'\400'",
    ],
)
def test_what_is_no_integer_expression_is_an_error(text: str) -> None:
    with pytest.raises(MacroError):
        evaluate(text)


_NUMBERS = st.integers(-50, 50).map(lambda n: f"({n})" if n < 0 else str(n))
_EXPRESSIONS = st.recursive(
    _NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "&", "|", "^", "<", ">=", "=="]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        inner.map(lambda e: f"(~{e})"),
    ),
    max_leaves=12,
)


@given(_EXPRESSIONS)
@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")  # of newer Pythons: ~(0 < 0)
def test_small_signed_expressions_agree_with_python(text: str) -> None:
    assert evaluate(text) == int(eval(text))


@given(st.text(alphabet="ab1 +-*()[]{};,.<>=\n\t\"'", max_size=60))
def test_any_text_without_directives_keeps_its_tokens_and_lines(text: str) -> None:
    expanded = expand("#define zz 1\n" + text)
    assert expanded.count("\n") >= text.count("\n")
    assert tokens(expanded) == tokens(text)
