"""The compat header of CUDA members as C++ for this machine, with a few words of CUDA made plain."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sdi.clc.cuda.builtins import header_part

_BEFORE = """
#include <cmath>
#define _CL_FILTERS
#define __device__
#define __global__
#define __shared__
#define __align__(n)
#define __forceinline__ inline
#define __noinline__
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline int to_int(float a) {
  return !(a == a) ? 0 : a < -2147483648.0f ? -2147483647 - 1 : a >= 2147483648.0f ? 2147483647 : (int)a;
}
static inline int __float2int_rn(float a) { return to_int(rintf(a)); }
static inline int __float2int_rd(float a) { return to_int(floorf(a)); }
static inline float __fmul_rn(float a, float b) { return a * b; }
template<class T> static inline T atomicAdd(T *p, T n) { T before = *p; *p += n; return before; }
static inline unsigned short to_half(double x) { return __builtin_bit_cast(unsigned short, (_Float16)x); }
static inline float of_half(unsigned short h) { return (float)__builtin_bit_cast(_Float16, h); }
"""
_TO_HALF = re.compile(r'asm\("cvt\.\w\w\.f16\.f\d\d %0, %1;" : "=h"\(([\w.]+)\) : "\w"\((\w+)\)\)')
_FROM_HALF = 'asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits))'
_WORDS = ("-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-fno-strict-aliasing", "-ffp-contract=off")


def host_text(*parts: str) -> str:
    """Files of the compat header, after what they need of CUDA."""
    text = "".join(header_part(part) for part in parts)
    return _BEFORE + _TO_HALF.sub(r"\1 = to_half(\2)", text).replace(_FROM_HALF, "x = of_half(bits)")


def host_library(text: str, folder: Path) -> ctypes.CDLL:
    """``text`` compiled in ``folder``.  Skips the test without a C++ compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source, library = folder / "host.cpp", folder / "host.so"
    source.write_text(text)
    command = [compiler, *_WORDS, "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))
