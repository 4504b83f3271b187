"""Products that are fused with a sum or difference on CUDA members."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdi.clc.cuda.translate import translate
from tests.clc.host_kernels import HostKernels, aligned

_PROGRAM = """
kernel void k(global float *o, global const float *p, float a, float b, float c, float3 u, float3 v,
              int n, double d, half h) {{
  volatile float w = c;
  {0};
}}
"""


def _written(statement: str, before: str = "") -> str:
    source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" + before + _PROGRAM.format(statement)
    text = translate(source, ()).text
    return text[text.index("namespace sdi_program") :]


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("o[0] = a * b + c", "_cl_fused(a, b, c)"),
        ("o[0] = c + (a * b)", "_cl_fused(a, b, c)"),
        ("o[0] = a * b - c", "_cl_fused(a, b, -c)"),
        ("o[0] = c - a * -b", "_cl_fused(-a, (-b), c)"),
        ("o[0] = a * b + b * c", "_cl_fused(a, b, (b * c))"),
        ("o[0] = a * b - b * c", "_cl_fused(a, b, -(b * c))"),
        ("o[0] = a * b + b * c + c * a", "_cl_fused(c, a, _cl_fused(a, b, (b * c)))"),
        ("o[0] = a * 2 + 1", "_cl_fused(a, ((float)2), ((float)1))"),
        ("u = u * v - v", "_cl_fused(u, v, -v)"),
        ("d = d * d + a", "_cl_fused(d, d, ((double)a))"),
        ("o[0] -= a * b", "_cl_fused_to(o[0], -a, b)"),
        ("u.xy -= v.yz * a", "_cl_fused_to(_cl_ref<0, 1>(u), -_cl_swizzle<1, 2>(v), "),
    ],
)
def test_a_product_is_fused_with_what_is_added_or_subtracted(statement: str, written: str) -> None:
    assert written in _written(statement)
    assert "_cl_fused" not in _written(statement, "#pragma OPENCL FP_CONTRACT OFF\n")


@pytest.mark.parametrize(
    "statement",
    [
        "o[0] = a + 2.0f * (3.0f - -1.0f)",
        "o[n] = n * n + n",
        "o[0] = a / b + c",
        "o[0] += a * b",
        "w -= a * b",
        "d -= a * b",
        "h = h * h + h",
        "h -= h * h",
        "n -= a * b",
        "float t = a * b; o[0] = t + c",
    ],
)
def test_other_types_and_what_is_known_before_are_not(statement: str) -> None:
    assert "_cl_fused" not in _written(statement)


def test_it_is_rounded_once(tmp_path: Path) -> None:
    source = """
    constant float k1[2] = {2.0f * 3.0f + 1.0f, -1.0f};
    kernel void k(global float *o, global const float *p) {
      int i = get_global_id(0);
      float3 v = (float3)(p[i], 1.0f, 2.0f), w = v;
      w -= v * v;
      o[4 * i] = p[i] * p[i] - 1.0f;
      o[4 * i + 1] = k1[0] - p[i] * p[i];
      o[4 * i + 2] = w.x;
      o[4 * i + 3] = (v * v + v).x;
    }"""
    given = aligned((1 + np.arange(8) * np.float32(2) ** -20).astype(np.float32))
    found = aligned(np.zeros((8, 4), np.float32))
    HostKernels(source, tmp_path).launch("k", 8, 4, found, given)
    x = given.astype(np.float64)
    expected = np.stack([x * x - 1, 7 - x * x, x - x * x, x * x + x], 1).astype(np.float32)
    assert found.tolist() == expected.tolist()
