"""What initialisers become: as clang reads them, on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdi.clc.cuda.translate import translate
from sdi.errors import BuildError
from tests.clc.host_kernels import HostKernels, agree, aligned, calls

LISTS = {
    "vectors of scalars": (
        "float4 w[3] = { 1.5f, 2, (float4)(3, 4, 5, 6) }; r = w[k];",
        [[1.5] * 4, [2] * 4, [3, 4, 5, 6]],
    ),
    "one of several": ("float4 w[3] = { [1] = 7 }; r = w[k];", [[0] * 4, [7] * 4, [0] * 4]),
    "arrays of arrays": ("float4 w[3][2] = { 1, 2, 3, 4, 5, 6 }; r = w[k][1];", [[2] * 4, [4] * 4, [6] * 4]),
    "a member": (
        "struct { int a; float4 v; } s = { .v = 3, .a = 1 }; r = s.v + s.a + k;",
        [[4] * 4, [5] * 4, [6] * 4],
    ),
    "without inner braces": (
        "struct { float4 v; float a[2]; } s[3] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }; r = s[k].v + s[k].a[1];",
        [[4] * 4, [10] * 4, [16] * 4],
    ),
    "lists, strings and records among others": (
        """struct { int a; float b; } in = { 5, 6 };
        struct { int a[2]; char c[4]; float4 v; struct { int a; float b; } d; } s = { 1, 2, "ab", 3, { 4 } };
        struct { int a[2]; int b[2]; float4 c; } t = { 1, 2, { 2, 3 }, 4 };
        r = (float4)(s.v.w, s.d.a + s.c[1], t.c.w + k, in.b);""",
        [[3, 4 + 98, 4, 6], [3, 4 + 98, 5, 6], [3, 4 + 98, 6, 6]],
    ),
    "unions": (
        "struct { int q[2]; union { int i; float j; } u; float4 w; int x; } s = { 1, 2, 3, 4, 5 };"
        " r = s.w + s.u.i + s.x + k;",
        [[12] * 4, [13] * 4, [14] * 4],
    ),
    "what is true": (
        "bool t = k > 0; float4 w[1] = { t }; int4 x[1] = { t }; r = w[0] * 2 + x[0].y;",
        [[0] * 4, [-3] * 4, [-3] * 4],
    ),
    "too many": ("float w[3] = { 1, 2, 3, 4 }; r = w[k];", [[1] * 4, [2] * 4, [3] * 4]),
    "computed designators": (
        "float w[3] = { [1 + 1] = 5, [0x1] = 4 }; r = w[k];",
        [[0] * 4, [4] * 4, [5] * 4],
    ),
    "characters without a 0": ('char w[3] = "abc"; r = w[k];', [[97] * 4, [98] * 4, [99] * 4]),
    "characters with one": ('char w[] = "ab"; r = w[k];', [[97] * 4, [98] * 4, [0] * 4]),
}


@pytest.mark.parametrize("name", LISTS)
def test_each_element_gets_what_clang_gives_it(name: str, tmp_path: Path) -> None:
    body, expected = LISTS[name]
    source = f"kernel void k(global float4 *out) {{ int k = get_global_id(0); float4 r; {body} out[k] = r; }}"
    (kernel,) = calls(HostKernels(source, tmp_path), "k")
    out = aligned(np.zeros((3, 4), np.float32))
    kernel(None, (3,), (1,), out)
    assert out.tolist() == expected


DESIGNATED = {
    "what follows a designator": """
        struct { int a[3]; struct { int x, y; } p[2]; int z; } s = { .a[1] = 5, 6, 1, 2, 3, 4, g };
        for (int i = 0; i < 8; i++) o[g * 8 + i] = ((int *)&s)[i];""",
    "what is said twice": """
        struct { int a[3]; struct { int x, y; } p[2]; int z; } s = { { 1, 2, 3 }, { { 4, 5 }, { 6, 7 } }, 8,
          .p[0].y = g, 9, .a = { [2] = 11 }, .z = 12, .p[0 ... 1].x = 13, 14, 15 };
        for (int i = 0; i < 8; i++) o[g * 8 + i] = ((int *)&s)[i];""",
    "ranges": """
        int w[3][4] = { [0 ... 1][1 ... 2] = 5, 6, 7, [2][3] = 9 }, q[] = { [1 ... 2] = 3, [0] = g };
        for (int i = 0; i < 12; i++) o[g * 12 + i] = ((int *)w)[i] + q[i % 3] * 100 + sizeof(q) * 10000;""",
    "enumerators and tables": """
        int own[LAST + 1] = { [LAST] = 5, [Y] = 3 };
        o[g] = T[g].n[0] + T[1].v * 10 + LIST[g] * 100 + own[1] * 1000 + own[g] * 10000 + E[1].k * 100000;
        f[g] = M[1][g & 1] + M[0][1];""",
    "vectors": """
        struct { float4 v[2]; int a; } s = { { 1, { 2, 3, 4, 5 } }, g }, t = { .v[1] = (float4)(3), 4 },
          u = { .v = { [1] = 2 } };
        float4 w = { (float2)(1, 2), 3, g }, x[] = { [2] = { 1, 2, 3, 4 }, [0] = 9 };
        f[g] = s.v[0].w + s.v[1].w * 10 + t.v[1].x * 100 + t.v[0].y + u.v[1].z * 1000;
        f[g + 4] = w.w + x[0].y * 10 + x[2].w + s.a + t.a;""",
    "unions": """
        union U { int a[2]; float f; char c; };
        union U u = { { 1, 2 } }, v = { .f = 1.5f }, w = { 1, 2 }, z = { .a[1] = g },
          list[2] = { [1].f = 2.0f }, last = { .a = { 1, 2 }, .f = 1.0f };
        struct { union U u; int b; } s = { .u.f = 2.5f, 7 }, t = { 1, 2, 3 };
        o[g] = u.a[1] + w.a[1] * 10 + z.a[1] * 100 + s.b * 1000 + t.b * 10000;
        f[g] = v.f + s.u.f * 10 + list[1].f * 100 + last.f * 1000;""",
    "records without a name": """
        struct S s = { 1, { 2 }, { 3, 4 } }, t = { .a = 1, .f = 2.5f, .c = 7, .d = g }, u = { .b = 3, 4, 5 };
        union V v = { .b = 2 }, w = { .x = { 3, g } };
        o[g] = s.b + s.d * 10 + t.c * 100 + t.d * 1000 + u.c * 10000 + u.d * 100000;
        o[g + 4] = v.b + v.i * 10 + w.x.q * 100;
        f[g] = t.f;""",
    "strings": """
        char a[2] = "abc", b[] = { "xyz" }, c[4] = { "a" "b" }, d[2][3] = { "ab", { "cd" } };
        uchar e[5] = ("q\\x41\\0z");
        struct { char n[4]; int i; } s = { "abcd", 3 }, t = { { "ef" }, g };
        o[g] = a[1] + b[3] + c[1] + c[3] + d[1][0] + e[1] + e[3] + e[4] + s.n[3] + t.n[1];
        o[g + 4] = t.i + sizeof(b);""",
    "ranges of structures": """
        struct { int a, b; } s[6] = { [0 ... 3] = { .a = 1, .b = g }, [4].b = 3 };
        o[g] = s[2].b * 10 + s[3].a + s[4].b * 100;""",
    "addresses of constants": """
        int z = 4; o[g] = *FAR + *FIELD + ROWS[0][1] + *(&(LIST[g % 3])) + *&(z);""",
    "constants that C++ does not compute": """
        f[g] = A[g]; f[g + 4] = B.x; f[g + 8] = C[g].x; o[g] = D[0].f > 1e38f && D[0].d > 1e308;""",
}
BEFORE = """
enum { X, Y, Z, LAST };
constant struct { char n[4]; int v; } T[LAST + 1] =
  { [X] = { "ab", 1 }, [Z].v = 5, [Y] = { .v = 9 }, [LAST] = { { 1, 2 }, 3 } };
constant float M[][2] = { [1] = { 1, 2 }, [0] = { [1] = 3 } };
constant int LIST[] = { [X ... Z] = 4, [LAST] = 7 };
typedef struct { int k; } K;
constant K E[2] = { (K){ 1 }, { .k = 2 } };
struct S { int a; union { int b; float f; }; struct { int c, d; }; };
union V { char i; struct { short a, b; }; struct { int p, q; } x; };
constant int *constant FAR = &LIST[2], *constant FIELD = &E[1].k, *constant ROWS[] = { &LIST[1], 0 };
constant float A[] = { 1.0f / 3, 1e30f * 1e30f - 1, -(2.5f + 1), (float)(1 << 3) };
constant float2 B = (float2)(1e30f * 1e30f, 2), C[4] = { (float2)(1.0f / 3, 1), { 1e30f * 1e30f, 3 }, 5 };
constant struct { float f; double d; } D[1] = { { 1e38f * 10, 1e308 * 10 } };
"""


@pytest.mark.parametrize("name", DESIGNATED)
def test_designators_say_where_values_go(name: str, tmp_path: Path) -> None:
    agree(DESIGNATED[name], tmp_path, BEFORE)


def test_a_value_that_is_computed_once_for_several_elements_is_refused() -> None:
    before = "int f(void) { return 1; } kernel void k(global int *o) {"
    for value in ("f()", "o[1]++", "(o[1] = 2)"):
        with pytest.raises(BuildError, match="<kernel>:2: error: a range of elements whose value is comp"):
            translate(f"{before}\nint w[2] = {{ [0 ... 1] = {value} }}; }}", ())
