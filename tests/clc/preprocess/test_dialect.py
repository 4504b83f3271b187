"""What compilers are asked, what is kept of it, and what an image makes of several answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.cuda.translate import translate
from sdi.clc.frontend.base_header import USUAL, Language
from sdi.clc.preprocess import nvidia_dialect
from sdi.clc.preprocess.clang_dialect import clang_dialect
from sdi.clc.preprocess.compiler import Compiler
from sdi.clc.preprocess.dialect import Definitions, common, default_standard, quotes_of, require_standard
from sdi.clc.preprocess.macros import MacroError, Origin
from sdi.clc.preprocess.options import Quotes, as_lines, parse_options
from sdi.clc.preprocess.probe import Answers, answers, probe_text, usual_questions
from sdi.errors import BuildError, Status


class FakeCompiler:
    """Answers from a dictionary, and remembers what it was asked; refuses ``refused``."""

    def __init__(self, said: dict[str, str], refused: str = "") -> None:
        self.said, self.refused = said, refused
        self.asked: list[tuple[str, ...]] = []

    def ask(self, questions: Sequence[str], options: Sequence[str]) -> Answers:
        self.asked.append(tuple(options))
        if self.refused in questions:
            raise BuildError("error: no\n")
        return {question: self.said.get(question) for question in questions}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_compiler_is_asked_once_for_each_list_of_options_by_all_processes() -> None:
    first, later = FakeCompiler({"__clang__": "1"}), FakeCompiler({"__clang__": "2"})
    dialect = Compiler("one 1.0", first.ask)
    assert dialect.answers(["__clang__", "__AVX__"], ()) == {"__clang__": "1", "__AVX__": None}
    assert dialect.answers(["__x86_64__"], ())["__x86_64__"] is None
    dialect.answers(["__clang__"], ("-cl-std=CL3.0",))
    assert first.asked == [(), ("-cl-std=CL3.0",)]
    assert Compiler("one 1.0", later.ask).answers(["__clang__"], ())["__clang__"] == "1"
    assert not later.asked
    assert Compiler("one 1.1", later.ask).answers(["__clang__"], ())["__clang__"] == "2"
    assert dialect.answers(["__of_a_vendor"], ()) == {"__of_a_vendor": None}
    assert len(first.asked) == 3


def test_a_question_that_a_compiler_refuses_costs_no_other_its_answer() -> None:
    compiler = FakeCompiler({"__clang__": "1", "M_PI": "3"}, refused="CLK_R")
    found = Compiler("one", compiler.ask).answers(["__clang__", "M_PI", "CLK_R"], ())
    assert found == {"__clang__": "1", "M_PI": "3", "CLK_R": None}


def test_several_compilers_have_in_common_what_all_have_with_one_value() -> None:
    said = {"__SIZEOF_INT__": "4", "__clang_major__": "15", "__x86_64__": "1", "__OPENCL_C_VERSION__": "300"}
    other = {"__SIZEOF_INT__": "4", "__clang_major__": "7", "__OPENCL_C_VERSION__": "120"}
    kinds = [Compiler(name, FakeCompiler(each).ask) for name, each in (("a", said), ("b", other))]
    both = common([*kinds, Compiler("a", FakeCompiler({}).ask)])
    assert both.answers(["__SIZEOF_INT__", "__clang_major__", "__x86_64__"], ()) == {
        "__SIZEOF_INT__": "4", "__clang_major__": None, "__x86_64__": None,
    }  # fmt: skip
    assert default_standard(both) == "CL1.2" and default_standard(kinds[0]) == "CL3.0"


def test_opencl_c_2_is_there_where_all_members_compilers_have_it() -> None:
    asked = parse_options("-cl-std=CL2.0 -w", None)
    has, lacks, other = (
        Compiler(name, FakeCompiler({"__OPENCL_C_VERSION__": said}, refused).ask)
        for name, said, refused in (("a", "200", ""), ("b", "200", "__SDI_WIDTH__"), ("c", "300", ""))
    )
    require_standard(asked, has)
    require_standard(parse_options("-cl-std=CL3.0", None), lacks)
    for dialect in (common([has, lacks]), other):
        with pytest.raises(BuildError, match=r"not all members have OpenCL C 2\.0") as failure:
            require_standard(asked, dialect)
        assert failure.value.status is Status.INVALID_BUILD_OPTIONS


def test_a_compiler_that_refuses_options_is_not_asked_question_by_question() -> None:
    compiler = FakeCompiler({"__clang__": "1"}, "__SDI_WIDTH__")
    dialect = Compiler("one", compiler.ask)
    assert dialect.answers(["__clang__"], ("-cl-std=CL2.0",)) == {"__clang__": None}
    assert len(compiler.asked) == 2


@pytest.mark.parametrize(
    ("said", "quotes"), [("x y z", Quotes.BLANK), ("xyz", Quotes.REMOVED), ('x"y"z', Quotes.ESCAPED)]
)
def test_how_quotes_are_read_is_asked(said: str, quotes: Quotes) -> None:
    assert quotes_of(Compiler("one", FakeCompiler({"SDI_QUOTED": said}).ask)) is quotes


def definitions(said: dict[str, str], options: str = "", **language: object) -> Definitions:
    dialect = Compiler("one", FakeCompiler(said).ask, is_kept=False)
    found = replace(
        Language(("cl_khr_fp64", "cl_khr_own"), ("__opencl_c_fp64",)), dialect=dialect, **language
    )
    return Definitions(found, parse_options(options, None))


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("\\", ""),
        ("\\ hi\\ ", "\\ hi"),
        ("a\\\\\\", "a\\\\ /**/"),
        (" \\\\ ", " \\\\ /**/"),
        ("a??/", "a??/ /**/"),
        ("a\\b", "a\\b"),
    ],
)
def test_a_macro_of_the_options_ends_with_its_line(value: str, kept: str) -> None:
    expected = f'#line 1 "<options>"\n#undef F\n#define F(x) {kept}\n#undef B\n#define B 1\n'
    assert as_lines([("F(x)", value), ("B", "1")]) == expected
    source = "kernel void k(global int *a) { a[0] = B; }"
    assert compile_source(source, [f"-DA={value}", "-DB=7"]).text.count("7")
    assert translate(source, [f"-DA={value}", "-DB=7"]).text.count("= 7")


def test_what_the_image_lists_is_defined_and_of_extensions_nothing_else() -> None:
    said = {"cl_khr_fp64": "2", "cl_khr_fp16": "1", "__opencl_c_pipes": "1", "__IMAGE_SUPPORT__": "1"}
    names = [*said, "cl_khr_own", "__opencl_c_fp64", "__OPENCL_C_VERSION__", "__OPENCL_VERSION__"]
    given = definitions(said, "-cl-std=CL3.0", withheld=("__opencl_c_pipes",), images=False)
    found = given.look_up(names, names)
    texts = {name: "".join(macro.body) for name, macro in found.items()}
    assert texts == {
        "cl_khr_fp64": "2", "cl_khr_own": "1", "__opencl_c_fp64": "1",
        "__OPENCL_C_VERSION__": "300", "__OPENCL_VERSION__": "300",
    }  # fmt: skip
    assert "__opencl_c_fp64" not in definitions(said).look_up(names, names)


def test_names_of_functions_and_constants_stay_and_others_are_replaced() -> None:
    said = {
        "sin": "_cl_sin",
        "M_PI": "3.1",
        "__SIZEOF_INT__": "4",
        "as_int": "as_int",
        "__LINE__": "",
        "inline": "",
    }
    found = definitions({**said, "__has_builtin": ""}).look_up([*said, "__has_builtin", "user"], ())
    origins = {name: macro.origin for name, macro in found.items()}
    kept = dict.fromkeys(("sin", "M_PI", "as_int", "inline"), Origin.KEPT)
    assert origins == {
        **kept, "__SIZEOF_INT__": Origin.DRIVER, "__LINE__": Origin.PLACE, "__has_builtin": Origin.TEST,
    }  # fmt: skip


def test_the_pragma_operator_counts_as_defined_and_stays_what_it_is() -> None:
    made = definitions({"_Pragma": "", "__NV_CL_C_VERSION": "300"})
    found = made.look_up(["_Pragma", "__NV_CL_C_VERSION"], ())
    assert found["_Pragma"].origin is Origin.KEPT and found["_Pragma"].body == ("_Pragma",)
    assert made.header() == {"__NV_CL_C_VERSION": "300"}
    without = definitions({})
    assert without.look_up(["_Pragma"], ()) == {} and without.header() == {}


def test_names_of_the_language_that_are_no_macros_to_a_compiler_are_not_taken_from_clang() -> None:
    made = definitions({})
    assert made.look_up(["CLK_FILTER_NEAREST", "as_float", "sin", "__SIZEOF_INT__"], ()) == {}
    assert made.header() == {"__SIZEOF_INT__": None}


def test_names_without_underscores_are_only_asked_for_if_they_are_listed() -> None:
    compiler = FakeCompiler({})
    dialect = Compiler("one", compiler.ask, is_kept=False)
    found = Definitions(replace(USUAL, dialect=dialect), parse_options("", None))
    found.look_up(["USE_DOUBLE", "width", "__kernel_of_mine", "x"], ["USE_DOUBLE"])
    assert compiler.asked == []
    found.look_up(["__kernel_of_mine"], ["__kernel_of_mine"])
    assert len(compiler.asked) == 1


def test_names_in_directives_that_were_met_in_another_file_are_not_asked_for_again() -> None:
    """As of a header that defines a macro by a function which is called before that is included."""
    found = definitions({"convert_uint": "_cl_convert_uint", "__has_builtin(x)": "1"})
    assert found.look_up(["UNUSED", "x"], ["convert_uint", "UNUSED", "__has_builtin(x)"]) == {}
    assert found.tests == {"__has_builtin(x)": "1"} and found.header() == {}


def test_tests_are_answered_by_the_compiler() -> None:
    found = definitions({"__has_builtin": "", "__has_builtin(__builtin_popcount)": "1"})
    assert found.test("__has_builtin", "__builtin_popcount") == "1"
    assert found.test("__has_builtin", "other") == "0"
    assert not found.agrees_with_clang() or found.tests.keys() <= {"__has_builtin(other)"}
    with pytest.raises(MacroError):
        found.test("__has_builtin", "a b")


def test_clang_answers_where_there_is_no_driver() -> None:
    said = clang_dialect().answers(["__clang__", "__SIZEOF_LONG__", "INT_MAX", "M_PI", "cl_khr_nothing"], ())
    assert (said["__clang__"], said["__SIZEOF_LONG__"], said["INT_MAX"]) == ("1", "8", "2147483647")
    assert said["M_PI"] and said["cl_khr_nothing"] is None


def test_answers_that_are_cut_are_none() -> None:
    assert answers(["a", "b"], b"=1\036\036\004rest") == {"a": "1", "b": None}
    for said in (b"=1\036\036", b"=1\036\004", b""):
        with pytest.raises(ValueError):
            answers(["a", "b"], said)
    assert probe_text(["a"]).count("#ifdef a") == 1 and len(set(usual_questions())) == len(usual_questions())


def test_the_recorded_answers_are_those_of_the_options_that_are_most_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = {
        "": {"__clang__": "1", "__OPENCL_C_VERSION__": "120", "__has_feature": "", "__has_feature(a)": "1"},
        "-cl-std=CL3.0": {"__OPENCL_C_VERSION__": "300", "__clang__": None},
        "-cl-fast-relaxed-math": {"__FAST_RELAXED_MATH__": "1"},
    }
    monkeypatch.setattr(nvidia_dialect, "table", lambda: recorded)

    def said(question: str, *options: str) -> str | None:
        return nvidia_dialect.nvidia_answers([question], options)[question]

    assert [said("__OPENCL_C_VERSION__", *each) for each in ((), ("-cl-std=CL3.0", "-cl-opt-disable"))] == [
        "120",
        "300",
    ]
    assert said("__clang__", "-cl-std=CL3.0") is None and said("__clang__") == "1"
    assert said("__FAST_RELAXED_MATH__", "-cl-mad-enable", "-cl-fast-relaxed-math") == "1"
    assert [said(f"__has_feature({x})") for x in "ab"] == ["1", "0"] and said("__has_builtin(a)") == "0"


def test_members_of_nvidia_have_what_every_compiler_of_the_language_has() -> None:
    names = ["__OPENCL_C_VERSION__", "__ENDIAN_LITTLE__", "INT_MAX", "__SIZEOF_LONG__", "M_PI", "FLT_MAX"]
    said = nvidia_dialect.nvidia_answers(names, ("-cl-std=CL1.2",))
    assert all(said[name] for name in names) and int(said["__OPENCL_C_VERSION__"] or 0) == 120


def test_samplers_outside_of_functions_are_constant_where_nvidia_takes_them_so() -> None:
    source = """
    sampler_t near = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    kernel void k(read_only image2d_t i, global float4 *a) { a[0] = read_imagef(i, near, (int2)(0, 0)); }"""
    ours = Compiler(nvidia_dialect.nvidia_name(), nvidia_dialect.nvidia_answers)
    compiled = compile_source(source, "", language=replace(USUAL, dialect=ours))
    assert [kernel.name for kernel in compiled.kernels] == ["k"]
    with pytest.raises(BuildError, match="global sampler requires"):
        compile_source(
            source, "", language=replace(USUAL, dialect=common([ours, Compiler("another", ask_clang)]))
        )
    with pytest.raises(BuildError, match="global sampler requires"):
        compile_source(source, "")


def ask_clang(questions: Sequence[str], options: Sequence[str]) -> Answers:
    return clang_dialect().answers(questions, tuple(options))
