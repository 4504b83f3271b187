"""What initialisers become: as clang reads them, on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdi.clc.cuda.translate import translate
from sdi.errors import BuildError
from tests.clc.host_kernels import HostKernels, aligned, calls

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


def test_a_designator_that_is_not_known_is_refused_with_its_line() -> None:
    with pytest.raises(BuildError, match="<kernel>:2: error: this designator"):
        translate("enum { A }; kernel void k(global int *o) {\nint w[2] = { [A] = 1 }; o[0] = w[0]; }", ())
