"""Which expression of ``_Generic`` is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdi.clc.cuda.translate import translate
from sdi.errors import BuildError
from tests.clc.host_kernels import agree

BEFORE = """
typedef struct { int a; } S;
typedef uint own;
typedef global int *numbers;
#define KIND(x) _Generic((x), own: 1, long int: 2, unsigned char: 3, numbers: 4, const __global int *: 5, \\
  float4: 6, S: 7, int (*)[3]: 8, unsigned long int: 9, double: 10, ushort4: 11, default: 0)
#define LARGER(a, b) _Generic((a), int: ({ int x = (a), y = (b); x > y ? x : y; }), float: (b))
"""


def test_types_choose(tmp_path: Path) -> None:
    body = """
        S s = { 3 }; float4 v = 1; int list[3]; int (*row)[3] = &list; global const int *p = o; ushort4 w = 1;
        o[g] = KIND(1u) + KIND(1L) * 10 + KIND((uchar)1) * 100 + KIND(o) * 1000 + KIND(p) * 10000;
        o[g + 4] = KIND(v) + KIND(s) * 10 + KIND(row) * 100 + KIND(1UL) * 1000 + KIND(1.0) * 10000;
        o[g + 8] = KIND(w) + KIND(1.0f) * 100 + KIND(g) * 1000 + LARGER(g, 2) * 10000;
        f[g] = _Generic(f[0], int: 3, float: f[g] + 1.5f, default: 2);"""
    agree(body, tmp_path, BEFORE)


def test_enumerations_and_pointers_to_vectors_choose(tmp_path: Path) -> None:
    body = """
        int4 w; int3 v; enum e x = A; enum m y = X;
        o[g] = _Generic(&w, int4 *: 1, default: 2) + _Generic(&v, int4 *: 30, int3 *: 10, default: 20);
        o[g + 4] = _Generic(x, uint: 1, default: 2) + _Generic(y, int: 10, default: 20);
        o[g + 8] = _Generic(x, enum m: 2, enum e: 1, default: 3);"""
    agree(body, tmp_path, "enum e { A, B }; enum m { X = -1 };")


@pytest.mark.parametrize(
    "choice",
    [
        "_Generic(1, T: 1, float: 2)",
        "_Generic(1.0f, T: 1, default: 2)",
        "_Generic(1, enum e: 1, default: 2)",
        "_Generic(&o, const P *: 1, default: 2)",
        "_Generic(1, __typeof__(*o): 1, default: 2)",
    ],
)
def test_a_type_that_is_not_recognised_is_refused_with_its_line(choice: str) -> None:
    before = "enum e { A }; typedef global int *P; kernel void k(global int *o) {"
    with pytest.raises(BuildError, match=r"<kernel>:2: error: .*_Generic"):
        translate(f"{before}\n typedef int T; o[0] = {choice}; }}", ())
