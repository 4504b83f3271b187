"""Every built-in function with every type and width compiles on CUDA members (no GPU needed).

What they compute is compared with the CPU driver by ``tests/devices/cuda/test_builtins.py``.
"""

from __future__ import annotations

import pytest

from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text, version
from tests.clc.builtin_programs import groups, program

GROUPS = groups()
# Some that compile soon; a GPU host compiles and runs all.
COMPILED = ("relations of double", "conversions to uchar", "swizzles of ushort", "halves", "structs")


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_of_cases_is_translated(name: str) -> None:
    translated = translate(program(GROUPS[name]), ())
    assert len(translated.kernels) == len(GROUPS[name])


@pytest.mark.parametrize("name", COMPILED)
def test_a_group_of_cases_is_compiled(name: str) -> None:
    try:
        version()
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
    translated = translate(program(GROUPS[name]), ())
    words = nvrtc_options((), translated.contracts)
    assert compile_text(translated.text, (*words, "--Ofast-compile=max"), (9, 0))


ONE = """acos acosh acospi asin asinh asinpi atan atanh atanpi cbrt ceil cos cosh cospi degrees erf erfc exp
exp2 exp10 expm1 fabs floor lgamma log log2 log10 log1p logb normalize radians rint round rsqrt sign sin sinh
sinpi sqrt tan tanh tanpi tgamma trunc"""
TWO = """atan2 atan2pi copysign fdim fmax fmin fmod hypot max maxmag min minmag nextafter pow powr remainder
step"""
THREE = "bitselect clamp fma mad mix smoothstep"
OTHERS = """
h += ldexp(h, 2) + pown(h, 2) + rootn(h, 3) + fract(h, &a) + frexp(h, &n) + modf(h, &a) + sincos(h, &a);
h += remquo(h, h, &n) + lgamma_r(h, &n) + nan((ushort)3) + dot(v, v) + distance(v, v) + length(v) + ilogb(h);
v += ldexp(v, i) + pown(v, i) + rootn(v, i) + fract(v, &w) + frexp(v, &i) + modf(v, &w) + sincos(v, &w);
v += remquo(v, v, &i) + lgamma_r(v, &i) + nan((ushort4)(1)) + cross(v, v) + fmax(v, h) + fmin(v, h);
v += max(v, h) + min(v, h) + step(h, v) + mix(v, v, h) + clamp(v, h, h) + smoothstep(h, h, v) + ldexp(v, 2);
short4 s = isequal(v, v) + isnan(v) + isinf(v) + signbit(v) + isless(v, v) + isordered(v, v);
v = select(select(v, v, s), v, as_ushort4(s)); v = shuffle(v, (ushort4)(3, 2, 1, 0));
h += isfinite(h) + isnormal(h) + select(h, h, (short)1) + convert_half_rtp(1.0f) + as_half(s.x);
v += convert_half4_rtz((double4)(1)) + convert_half4(i) + convert_half4(convert_uchar4_sat_rte(v));
"""


def test_all_functions_of_halves_compile() -> None:
    calls = [f"h += {name}(h); v += {name}(v);" for name in ONE.split()]
    calls += [f"h += {name}(h, h); v += {name}(v, v);" for name in TWO.split()]
    calls += [f"h += {name}(h, h, h); v += {name}(v, v, v);" for name in THREE.split()]
    source = f"""
    #pragma OPENCL EXTENSION cl_khr_fp16 : enable
    kernel void k(global half *p, half h) {{
      half4 v = vload4(0, p), w; half a; int4 i = convert_int4(v); int n; {" ".join(calls)} {OTHERS}
      vstore4(v, 0, p); p[4] = h + a + n + w.x;
    }}"""
    translated = translate(source, ())
    try:
        words = (*nvrtc_options((), translated.contracts), "--Ofast-compile=max")
        assert compile_text(translated.text, words, (9, 0))
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
