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
