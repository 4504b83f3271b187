"""Compiled objects put together: one program, each name meaning what it meant in its object."""

from __future__ import annotations

import itertools

import pytest

from sdi.clc.compile import compile_object, compile_text
from sdi.clc.frontend.link import link_options, merge
from sdi.clc.frontend.objects import ObjectText, pack_objects, unpack_objects
from sdi.clc.model import CompiledProgram
from sdi.errors import BuildError, ClError, Status

HEADER = """
typedef struct { int a; float b; } pair;
enum { FIRST, SECOND };
static inline int twice(int x) { return 2 * x; }
static __constant int table[2] = { 5, 7 };
int outer(int x);
"""


def compiled(source: str, options: str = "", **headers: str) -> ObjectText:
    named = {name.replace("_h", ".h"): text for name, text in headers.items()}
    return compile_object(source, options, None, named)[0]


def linked(*objects: ObjectText) -> CompiledProgram:
    return compile_text(merge(objects), "", linked=True)


def test_what_a_common_header_declares_is_kept_once() -> None:
    first = compiled('#include "common.h"\nint outer(int x) { return twice(x) + table[1]; }', common_h=HEADER)
    second = compiled(
        '#include "common.h"\n'
        "kernel void k(global pair *p) { p[SECOND].a = outer(twice(p[0].a)) + table[0]; }",
        common_h=HEADER,
    )
    program = linked(first, second)
    assert [kernel.name for kernel in program.kernels] == ["k"]
    assert program.object.text.count("twice(int x)") == 1
    assert program.object.text.count("} pair;") == 1


def test_helpers_of_the_same_name_stay_apart() -> None:
    objects = [
        compiled(
            f"static int helper(int x) {{ return x + {n}; }} static int user(int x) {{ return helper(x); }}"
            f"kernel void k{n}(global int *a) {{ a[0] = user(a[0]); }}"
        )
        for n in (1, 2)
    ]
    text = linked(*objects).object.text
    assert "int helper(int x) { return x + 1; }" in text
    assert "int helper__o1(int x) { return x + 2; }" in text
    assert "return helper__o1(x);" in text and "user__o1(a[0])" in text


def test_only_whole_words_outside_strings_are_renamed() -> None:
    first = compiled("static int f(int x) { return x; } kernel void a(global int *p) { p[0] = f(1); }")
    second = compiled(
        "struct s { int g; };\nstatic int f(int x) { return -x; }\n"
        'kernel void b(global int *ff) { struct s f1; f1.g = f(2); printf("f %d\\n", f1.g); ff[0] = 1; }'
    )
    text = linked(first, second).object.text
    assert 'printf("f %d' in text and "f1.g = f__o1(2)" in text and "ff[0] = 1" in text


@pytest.mark.parametrize(
    "body",
    [
        "int twin(int x) { return x; }",
        "__constant int twin = 1;",
        "kernel void twin(global int *a) { *a = 1; }",
    ],
)
def test_what_all_objects_see_is_defined_once(body: str) -> None:
    with pytest.raises(BuildError, match="more than one object") as caught:
        merge([compiled(body), compiled(body)])
    assert caught.value.status is Status.LINK_PROGRAM_FAILURE
    assert "'twin' is defined in more than one object" in caught.value.log


STATIC = "static int f(int x) { return x + 1; }\nkernel void a(global int *o) { o[0] = f(10); }"
SHARED = "int f(int x) { return x + 2; }\nkernel void b(global int *o) { o[1] = f(10); }"
USING = "int f(int x);\nkernel void c(global int *o) { o[2] = f(10); }"


@pytest.mark.parametrize("sources", list(itertools.permutations((STATIC, SHARED, USING))))
def test_a_static_function_does_not_stand_for_one_that_others_share(sources: tuple[str, ...]) -> None:
    text = linked(*map(compiled, sources)).object.text
    number = sources.index(STATIC)
    assert f"o[0] = f__o{number}(10)" in text and "o[1] = f(10)" in text and "o[2] = f(10)" in text


def test_a_static_function_of_the_first_object_is_not_found_by_the_second() -> None:
    with pytest.raises(BuildError) as caught:
        linked(compiled(STATIC), compiled(USING))
    assert caught.value.log == "error: undefined symbol 'f'\n"


def test_a_function_that_nobody_defines_is_named() -> None:
    source = "int absent(int x);\nint unused(int x);\nkernel void k(global int *a) { a[0] = absent(1); }"
    with pytest.raises(BuildError) as caught:
        linked(compiled(source))
    assert caught.value.log == "error: undefined symbol 'absent'\n"


def test_contradicting_declarations_are_an_error() -> None:
    first = compiled("int f(int x) { return x; }")
    second = compiled("float f(float x);\nkernel void k(global float *a) { a[0] = f(a[1]); }")
    with pytest.raises(BuildError):
        linked(first, second)


def test_lines_are_those_of_the_sources() -> None:
    first = compiled("\n\nint f(int x) { return x; }\n")
    second = compiled("\n\n\nint f(int x);\nkernel void k(global int *a) { a[0] = f(a[1]); }\n")
    assert linked(first, second).kernels[0].line == 5


def test_flags_that_loosen_arithmetic_hold_where_all_objects_have_them() -> None:
    plain = compiled("int f(int x) { return x; }")
    fast = compiled("int g(int x) { return x; }", "-cl-fast-relaxed-math -cl-mad-enable")
    assert merge([fast, plain]).flags == ()
    assert merge([fast, plain], more_flags=("-cl-finite-math-only",)).flags == ("-cl-finite-math-only",)
    assert merge([fast]).flags == ("-cl-fast-relaxed-math", "-cl-mad-enable")


def test_the_newest_language_version_wins() -> None:
    old = compiled("int f(int x) { return x; }", "-cl-std=CL1.1")
    new = compiled("kernel void k(global int *a) { a[0] = 1; }", "-cl-std=CL3.0")
    assert linked(old, new).object.standard == "CL3.0"


@pytest.mark.parametrize("name", ["inc.h", "sub/inc.h", "../inc.h", "../../up/inc.h"])
def test_an_embedded_header_comes_before_files(name: str, tmp_path: object) -> None:
    source = f'#include "{name}"\nkernel void k(global int *a) {{ a[0] = VALUE; }}'
    made, _ = compile_object(source, "", str(tmp_path), {name: "#define VALUE 41\n"})
    assert "a[0] = 41" in " ".join(made.text.split())
    assert "sdi-headers" not in made.text


def test_an_error_in_an_embedded_header_names_it_as_the_program_does() -> None:
    with pytest.raises(BuildError) as caught:
        compile_object('#include "bad.h"\n', "", None, {"bad.h": "\nint f( {\n"})
    assert caught.value.log.startswith("In file included") or caught.value.log.startswith("bad.h:2:")
    assert "sdi-headers" not in caught.value.log


@pytest.mark.parametrize(
    ("options", "library", "flags"),
    [
        ("", False, ()),
        ("-create-library", True, ()),
        ("-create-library -enable-link-options", True, ()),
        ("-cl-finite-math-only", False, ("-cl-finite-math-only",)),
    ],
)
def test_link_options(options: str, library: bool, flags: tuple[str, ...]) -> None:
    assert link_options(options.split()) == (library, flags)


@pytest.mark.parametrize("options", ["-enable-link-options", "-cl-mad-enable", "-w", "x"])
def test_wrong_link_options(options: str) -> None:
    with pytest.raises(BuildError) as caught:
        link_options(options.split())
    assert caught.value.status is Status.INVALID_LINKER_OPTIONS


def test_objects_survive_packing() -> None:
    made = compiled("/* \udcff */ kernel void k(global int *a) { a[0] = 1; }", "-cl-mad-enable")
    assert unpack_objects(pack_objects([made, made])) == [made, made]
    for data in (b"", b"{}", b"[]", b"[1]", b'[{"text": 1}]', b"\xff"):
        with pytest.raises(ClError) as caught:
            unpack_objects(data)
        assert caught.value.status is Status.INVALID_BINARY


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "constant struct bar {float x, y; int color;} foo = {0, 0, 3};",
            "extern constant struct bar{float x, y; int color; } foo; int get() { return foo.color; }",
        ),
        (
            "constant enum e {A, B} foo = B;",
            "extern constant enum e {A, B} foo; int get() { return foo == A; }",
        ),
        (
            "struct P {int x;} f(int a) { struct P p; p.x = a; return p; }",
            "struct P {int x;} f(int a); int get() { return f(1).x; }",
        ),
        (
            "extern constant struct bar {int a;} foo; int other() { return foo.a; }",
            "constant struct bar {int a;} foo = {1}; int get() { return foo.a; }",
        ),
        (
            "struct bar {int a;}; int other(struct bar of) { return of.a; }",
            "constant struct bar {int a;} foo = {1}, more = {2}; int get() { return foo.a + more.a; }",
        ),
        (
            "constant struct bar {int a;} foo = {1}, more = {2};",
            "struct bar {int a;}; extern constant struct bar more; int get() { return more.a; }",
        ),
    ],
)
def test_a_type_that_stands_in_a_declaration_is_the_same_in_all_objects(first: str, second: str) -> None:
    ends = "int get(); kernel void k(global int *p) { p[0] = get(); }"
    for objects in itertools.permutations((first, second)):
        text = linked(*map(compiled, (*objects, ends))).object.text
        assert (
            "__o" not in text
            and sum(text.count(body) for body in ("int a;", "A, B", "int x;", "int color;")) == 1
        )


def test_types_in_declarations_that_differ_stay_apart() -> None:
    objects = (
        "constant struct S {int a;} foo = {1}; int other() { return foo.a; }",
        "struct S {int b; int c;}; int get() { struct S s = {1, 2}; return s.b; }",
        "int get(); int other(); kernel void k(global int *p) { p[0] = get() + other(); }",
    )
    text = linked(*map(compiled, objects)).object.text
    assert "struct S {int a;} foo" in text.replace("__o0", "") and "struct S__o1 {int b" in text
