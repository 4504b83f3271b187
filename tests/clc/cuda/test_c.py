"""What C and clang have and CUDA C++ lacks: each program builds for an OpenCL driver and for NVRTC.

What they compute: ``tests/programs/gnu_c.py``, here by what CUDA members get, compiled for this machine.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pyopencl as cl
import pytest

from sdi.clc.compile import compile_source
from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text, version
from sdi.errors import BuildError
from tests.clc.host_kernels import HostKernels, aligned, calls
from tests.clc.members import build
from tests.programs import gnu_c

H100 = (9, 0)


def kernel(body: str, before: str = "") -> str:
    return f"{before} kernel void k(global int *o, global int4 *v) {{ int g = get_global_id(0); {body} }}"


CASES = {
    "a prototype in a block": kernel("int f(int), x = f(g); o[g] = x;") + "int f(int x) { return x * 3; }",
    "a prototype of what asks for ids": kernel("for (;;) { int f(void); o[g] = f(); break; }")
    + "int f(void) { return get_global_id(0); }",
    "a structure among a kernel's parameters": """
        kernel void k(global int *o, struct p { int a; float b; } q, struct { int c; } r,
                      global struct s { int d; } *const s) { o[0] = q.a + r.c + s->d; }""",
    "a structure and an enumeration among a function's parameters": kernel(
        "o[g] = f(0, 1);", "int f(struct s { int a; } *q, enum { B = 7 } r) { return q ? q->a : r + B; }"
    ),
    "structures in casts and literals": kernel(
        "o[g] = ((struct s { int a; } *)0 == 0) + ((struct t { int a, b; }){1, 2}).b + sizeof(struct s);"
    ),
    "a structure that names itself inside": kernel(
        "o[g] = 0;", "struct s { struct t { global struct s *up; } inner; union { int a; float b; }; };"
    ),
    "statement expressions that end inside": kernel("""
        o[g] = ({ int a = 0; for (int i = 0; i < g; i++) { if (i == 5) break; a += i; } a; });
        o[g] += ({ int a; switch (g) { case 1: a = 3; break; default: a = 4; } a; });
        o[g] += ({ int i = 0; again: i++; if (i < g) goto again; last: i; }); ({ });"""),
    "statement expressions that are left": kernel("""
        for (int i = 0; i < 9; i++) {
          int a = ({ if (i == g) break; i; });
          o[g] += ({ if (a == 2) continue; a; });
          ({ if (a == 4) goto out; });
        }
        o[g] = ({ if (g > 5) return; (char)g; }); out: ;"""),
    "a vector or another": kernel("v[g] = v[g] ?: (int4)(3); v[g + 1] = v[g]++ ?: 3;"),
    "a structure that hides another": kernel(
        """struct s q; q.a = 1;
        { struct s { float x; int y; }; struct s z = { .y = q.a }; o[g] = z.y; }
        { struct s { int b, c; } x = (struct s){ 1, 2 };
          union u { float x; int y; } z = { .y = x.c }; o[g] += z.y; }
        struct s w = { 3 }; o[g] += w.a;""",
        "struct s { int a; }; union u { long a; };",
    ),
    "variables and functions with the name of a structure": kernel(
        "int s = t(3); struct s q; struct t r; q.a = s; r.a = q.a; o[g] = r.a;",
        "struct s { int a; }; struct t { int a; }; int t(int x) { return x; }",
    ),
    "an enumerator that hides another": kernel(
        "o[g] = A; { enum { A = 5, B = -0x7fffffff - 1 }; o[g] += A + B; } o[g] += A;", "enum { A = 1 };"
    ),
    "names beyond ASCII": """
        #define ÄNDERE(größe, ö) ((größe) + ü##ö)
        struct Maß { int länge; }; enum Art { klein, groß = 3 }; constant float π = 3.14f;
        int größe(int ä);
        kernel void größen(global int *ausgänge, global const int *const λ) {
          int ü1 = get_global_id(0); struct Maß m = { .länge = größe(λ[0]) };
          if (m.länge > π) goto übrig; ausgänge[ü1] = ÄNDERE(m.länge, 1) + groß;
          übrig: ;
        }
        int größe(int ä) { return get_global_id(0) + ä; }""",
    "universal character names": kernel(
        "o[g] = gr\\u00f6\\u00dfer(g);", "int größer(int a) { return a + 1; }"
    ),
    "pointers that lose their const": kernel(
        """int4 own = v[g]; const int4 *q = &own; const int many[3] = { 1, 2, 3 };
        global const int *r = o; o[g] = first(q) + second(r, many); { int *w = many; o[g] += *w; }""",
        "int first(int4 *p) { return p->x; } int second(global int *p, int *q) { return p[0] + q[1]; }",
    ),
    "constants that clang computes": """
        constant float least = -INFINITY, scale = 255.0f, tiny = 1e-50;
        static const constant float part = 16.0f / scale;
        constant int wrapped = 2147483647 + 1;
        constant uint2 pair[2] = { (uint2)(wrapped, 3), 5 };
        constant char letters[3] = "abc";
        extern constant int table[2];
        constant int table[2] = { [1] = 7 };
        kernel void k(global float *o) {
          constant float inside = scale * 2;
          o[0] = least + part + tiny + pair[1].y + letters[2] + table[0] + inside;
        }""",
    "a loop whose body hides its variable": kernel("for (int i = 0; i < 3; i++) { float i = 2; o[g] += i; }"),
    "jumps over vectors": kernel("""
        if (g > 3) goto end;
        int4 x = v[g] * 2;
        struct { int4 a; } y = { x };
        v[g] = y.a;
        end: switch (g) { case 1:; const int4 z = v[0]; v[1] = z; break; case 2: o[0] = 1; }"""),
    "arithmetic of pointers to void": kernel("""
        global void *p = o; const local void *q = 0; p = p + 4; p += 4; p++; --p; q -= g;
        o[g] = *(global int *)(p + 3) + (int)(p - (global void *)v) + (uchar)(size_t)q;"""),
    "overloads by address space": kernel(
        "local int l[1]; l[0] = g; int own = 3; o[g] = f(o) + f(l) + f(&own);",
        "".join(
            f"int __attribute__((overloadable)) f({space} int *p) {{ return p[0] * {n}; }}"
            for n, space in enumerate(("global", "local", "private"))
        ),
    ),
    "what clang knows": kernel("""
        __builtin_assume(g >= 0);
        if (g > 1 << 30) __builtin_unreachable();
        int4 w = __builtin_shufflevector(v[g], v[0], 0, 5, -1, 3);
        float4 x = __builtin_convertvector(w, float4);
        float parts[2]; __builtin_memcpy(parts, &x, 8);
        o[g] = __builtin_fabsf(parts[1]) + __builtin_sqrtf(x.z) + __builtin_constant_p(g);"""),
    "a pragma before what a kernel does": kernel("\n#pragma OPENCL FP_CONTRACT OFF\no[g] = 1;").replace(
        "int g = get_global_id(0); ", ""
    ).replace("o[g]", "o[get_global_id(0)]"),
    "matrices that are const": """
        struct s { float m[3][3]; };
        float trace(const float m[3][3]) { return m[0][0] + m[1][1] + m[2][2]; }
        kernel void k(global float *o, const struct s s) { o[0] = trace(s.m); }""",
    "members that are packed, and an enumeration there": kernel(
        "struct s t = { 1, 2, A }; o[g] = t.b + t.c + sizeof(t);",
        "struct s { char a; int b __attribute__((packed)); enum { A, B = 5 } c; };",
    ),
    "assertions, attributes and constants without a value": kernel(
        "_Static_assert(sizeof(int) == 4, \"int\"); const int none; int a[2] = { 1, 2, 3 };"
        " switch (g) { case 1: o[0] = a[1]; __attribute__((fallthrough)); case 2: o[1] = 1; }",
        "_Static_assert(sizeof(char) == 1, \"char\");",
    ),
    "a built-in function that is declared again": kernel(
        "o[g] = abs(g) + (int)o;", "uint __attribute__((overloadable)) abs(int);"
    ),
    "a name with a dollar": kernel("int a$b = g; o[g] = a$b;"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_builds_for_drivers_and_for_cuda(name: str) -> None:
    build(CASES[name], ["-w"])
    compiled = compile_source(CASES[name], "")
    build(compiled.text, compiled.member_options)
    program = translate(compiled.text, compiled.member_options)
    assert program.text.isascii() and len(program.kernels) == 1
    try:
        version()
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
    assert compile_text(program.text, nvrtc_options(compiled.member_options, program.contracts), H100)


def test_it_computes_what_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kernels(ctx: None, source: str, *names: str, options: object) -> tuple[object, ...]:
        return calls(HostKernels(source, tmp_path), *names)

    monkeypatch.setattr(gnu_c, "kernels", kernels)
    monkeypatch.setattr(gnu_c, "to_device", lambda ctx, array: aligned(array))
    monkeypatch.setattr(gnu_c, "to_host", lambda queue, buffer, like: buffer.copy())
    assert gnu_c.run(cast(cl.Context, None), cast(cl.CommandQueue, None))


def test_names_beyond_ascii_are_told_as_they_were_written() -> None:
    compiled = compile_source(CASES["names beyond ASCII"], "")
    (found,) = compiled.kernels
    assert (found.name, [a.name for a in found.arguments]) == ("größen", ["ausgänge", "λ"])
    (translated,) = translate(compiled.text, compiled.member_options).kernels
    assert translated.name == "größen" and translated.symbol.isascii()


def test_names_that_differ_beyond_ascii_stay_apart() -> None:
    source = kernel("int ä = 1, _e4_ = 2, _u_u__e4_ = 3, ö = 4; o[g] = ä + _e4_ + _u_u__e4_ + ö;")
    written = translate(source, ()).text
    assert "((_u_u__e4_ + _e4_) + _u__u_u__e4_) + _u_u__f6_" in written


def test_strings_keep_their_bytes() -> None:
    source = kernel('constant char *s = "gr\u00f6\\x41"; o[g] = s[g]; printf("%d gr\u00f6\\n", g);')
    program = translate(source, ())
    assert '"gr\\303\\266\\x41"' in program.text
    assert b" gr\xc3\xb6\n" in program.formats[0]


def test_a_jump_out_of_the_middle_of_an_expression_is_refused_with_its_line() -> None:
    with pytest.raises(BuildError, match="<kernel>:2: error: a jump out of a statement expression"):
        translate(kernel("\no[g] = 1 + ({ if (g) return; g; });"), ())


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("#pragma unroll", ""),
        ("#pragma unroll 4", " 4"),
        ("#pragma unroll(N)", " 6"),
        ("#pragma unroll (N + 2) // more", " 8"),
        ("#pragma unroll 0x10u", " 16"),
        ("#pragma nounroll", " 1"),
        ("#pragma clang loop vectorize(enable) unroll_count(N)", " 6"),
        ("#pragma clang loop unroll(full)", ""),
        ("#pragma clang loop unroll(disable)", " 1"),
        ("#pragma GCC unroll N", " 6"),
        ("__attribute__((opencl_unroll_hint))", ""),
        ("__attribute__((opencl_unroll_hint(N)))", " 6"),
        ("__attribute__((__opencl_unroll_hint__(N * 2)))", " 12"),
        ('_Pragma("unroll 4")', " 4"),
        ("#pragma unroll COUNT", None),
        ("#pragma clang loop vectorize(enable)", None),
    ],
)
def test_each_way_to_ask_for_an_unrolled_loop_passes_through(before: str, expected: str | None) -> None:
    source = "#define N (2 * 3)\nenum { COUNT = 3 };\n"
    source += kernel(f"\n{before}\nfor (int i = 0; i < 8; i++) o[i] = i;")
    build(source, ["-w"])
    compiled = compile_source(source, "")
    build(compiled.text, compiled.member_options)
    written = translate(compiled.text, compiled.member_options).text
    found = re.findall(r"\n#pragma unroll(.*)\nfor", written[written.index("namespace sdi_program") :])
    assert found == ([] if expected is None else [expected])
