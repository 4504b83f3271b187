"""Types: what clang makes of enumerations, names that CUDA keeps for itself."""

from __future__ import annotations

from pathlib import Path

from sdi.clc.cuda.types import safe_name
from tests.clc.host_kernels import agree


def test_enumerations_are_the_integers_that_clang_makes_of_them(tmp_path: Path) -> None:
    before = """
        enum E { A, B, C = 5 };
        enum N { LOW = -1, HIGH };
        enum __attribute__((packed)) P { P0, P1, P2 };
        typedef enum { Q0, Q1 = 300 } __attribute__((packed)) Q;
        enum L { L0, L1 = 0x1234567890L };
        struct S { char a; enum P p; Q q; };"""
    body = """
        enum E e = -1; enum N n = -1; enum P p = P2; Q q = Q1; enum L l = L1; struct S s = { 1, g, Q1 };
        long wide = e, narrow = n;
        o[g] = wide >> 32; o[g + 4] = narrow >> 32; o[g + 8] = (e > 0) + (n < 0) * 2 + (e >> 31) * 4;
        f[g] = e; f[g + 4] = n;
        o[g + 12] = sizeof(e) + sizeof(p) * 10 + sizeof(q) * 100 + sizeof(l) * 1000 + sizeof(s) * 10000;
        o[g + 16] = p + q + (int)(l >> 4); s.p = 300; o[g + 20] = s.p + s.q; p--; o[g + 24] = p;
        switch (q) { case Q1: o[g + 28] = 7; }
        int *i = (int *)&e; *i = C; o[g + 32] = e + B;"""
    agree(body, tmp_path, before)


def test_names_of_cuda_are_renamed(tmp_path: Path) -> None:
    assert safe_name("__shared__") == "_u___shared__"
    assert safe_name("__sdi_launch") == "__sdi_launch"
    body = """
        int __device__ = 1, __global__ = 2, __CUDA_ARCH__ = 3, __shared__ = 4, __align__ = 6, __host__ = g;
        struct __managed__ { int __constant__; } s = { 8 };
        goto __grid_constant__;
        __grid_constant__:
        o[g] = __device__ + __global__ + __CUDA_ARCH__ + __shared__ + __align__ + __host__ + s.__constant__
               + __noinline__(3);"""
    agree(body, tmp_path, "int __noinline__(int __CUDACC__) { return __CUDACC__; }")
