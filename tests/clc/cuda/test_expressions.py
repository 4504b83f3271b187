"""Expressions that C and C++ understand differently, as the driver has them; and halves, which it has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text
from tests.clc.host_kernels import agree

FP16 = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
BODIES = {
    "steps of truth": """
        bool a = g, b = 1, c = 0, d; a++; o[g] = a; a--; o[g + 4] = a; --a; o[g + 8] = a; d = b--;
        o[g + 12] = d + b * 2; d = c++; o[g + 16] = d + c * 2; ++c; o[g + 28] = c; a = g; a += 2; a <<= 1;
        a *= 0.5f; o[g + 20] = a; b = ~0; o[g + 24] = b;""",
    "casts to unions": """
        union U u = (union U)g, w = (union U)2.5f; union U z; z = (union U)7;
        o[g] = u.i + z.i * 10 + ((union U)(int2)(g, 3)).v.y * 100 + of((union U)8) * 1000; f[g] = w.f;""",
    "names of functions": """
        constant char *s = __func__; o[g] = s[0] + sizeof(__func__) * 1000;
        o[g + 4] = of((union U)1) + __FUNCTION__[0];""",
    "what clang computes": """
        o[g] = __builtin_offsetof(struct S, y) + 100 * __builtin_offsetof(struct S, in[1].b);
        o[g + 4] = __builtin_types_compatible_p(int, uint) + 2 * __builtin_types_compatible_p(int, int);
        f[g] = __builtin_choose_expr(sizeof(int) == 4, f[g] + 1.5f, o) + __builtin_choose_expr(0, o, g);""",
    "reinterpretations beside operators": """
        o[g] = 1 + __builtin_astype(1.0f, int) + __builtin_astype((float4)(g), int4).y;
        f[g] = __builtin_astype(g + 0x40000000, float) * 2;""",
    "ranges of cases": """
        switch (g) { case A ... B: o[g] = 1; break; case 'a' ... 'c': o[g] = 3; break; case C: o[g] = 2; }
        switch ((uchar)(g + 250)) { case 250 ... 252: o[g + 4] = 1; break; default: o[g + 4] = 2; }
        switch (-g) { case -3 ... -2: o[g + 8] = 1; break; case (1 << 2) ... sizeof(long): o[g + 8] = 2; }""",
}
BEFORE = """
union U { int i; float f; int2 v; };
struct S { int a; union { int q; struct { int x, y; }; }; struct { int b; } in[2]; };
enum { A, B, C };
int of(union U u) { return u.i + __func__[1]; }
"""


@pytest.mark.parametrize("name", BODIES)
def test_it_is_what_c_makes_of_it(name: str, tmp_path: Path) -> None:
    agree(BODIES[name], tmp_path, BEFORE)


HALVES = {
    "steps": """
        h++; ++h; h--; --h; p[0] = h++; p[0]++;
        half4 v = vload4(0, p); v.x++; v.yz = v.zy; v *= h; vstore4(v, 0, p);""",
    "assignments with others": """
        int i = 5; i += h; i *= h; uchar u = 3; u /= h; h += 0.1; h += 1e-3f; h -= i; h *= u;
        float w = 1; w += h; double d = 1; d -= h; p[0] = h + w + d; bool b = h;
        p[1] = b ? h : 1.5h; p[2] = T[1] + V.y;""",
    "volatile ones": """
        volatile half x = h; x++; --x; h = x-- + ++x; x = x + h;
        x += 2; x *= 0.5; h = -x; volatile half4 v = (half4)(h); v.x = x;
        v.xy = v.zw; v.x += h; half4 w = v; v = w; l[0] = x; l[1] = l[0];
        p[0] = v.y + w.z + l[1] + fabs(x);""",
}


@pytest.mark.parametrize("name", HALVES)
def test_halves_compile(name: str) -> None:
    source = f"""{FP16}
    constant half T[] = {{ 1.0h, 2.5h, 3, -1 }}; constant half2 V = (half2)(1, 2.5h);
    kernel void k(global half *p, half h, volatile local half *l) {{ {HALVES[name]} }}"""
    program = translate(source, ())
    try:
        assert compile_text(program.text, nvrtc_options((), program.contracts), (9, 0))
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
