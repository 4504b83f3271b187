"""``&&`` and ``||`` on CUDA members: which second operands are computed in any case, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdi.clc.cuda.translate import translate
from tests.clc.host_kernels import HostKernels, aligned

_PROGRAM = """
int f(int a) {{ return a; }}
kernel void k(global int *o, global const int *p, int n, float x, local int *shared) {{
  int i = get_global_id(0), j = n - i;
  volatile int v = i;
  int4 w = (int4)(i);
  local int one;
  o[i] = i < n {0};
}}
"""


def _is_computed(operand: str) -> bool:
    text = translate(_PROGRAM.format(operand), ()).text
    program = text[text.index("namespace sdi_program") :]
    return "_cl_both(" in program or "_cl_either(" in program


@pytest.mark.parametrize(
    "operand",
    [
        "&& i != j",
        "|| (i & 3) == (j ^ ~i)",
        "&& i + j - 2 * n > -1",
        "&& x * 2.0f < (float)i",
        "&& w.y > 3",
        "|| get_local_id(0) == 0",
        "&& j < (int)get_global_id(0) && j > 2",
        "|| !j",
    ],
)
def test_short_operands_of_registers_are_computed_in_any_case(operand: str) -> None:
    assert _is_computed(operand)


@pytest.mark.parametrize(
    "operand",
    [
        "&& p[i] > 0",
        "&& *p",
        "&& 10 / j > 1",
        "|| i % j",
        "&& (i << j) > 2",
        "&& f(i)",
        "&& j++ > 2",
        "&& (j = 3)",
        "&& v > 2",
        "&& one > 2",
        "&& shared[0]",
        "&& (int)x > 2",
        "&& get_global_id(j) > 2",
        "&& -j > 2",
        "&& p",
        "&& (((i + j) ^ n) + ((i * 2) & j) + ((j + n) | i) + (i ^ n)) > 5",
    ],
)
def test_what_reads_memory_may_go_wrong_or_is_long_is_computed_only_where_needed(operand: str) -> None:
    assert not _is_computed(operand)


@pytest.mark.parametrize(
    "body",
    [
        "o[i] = (j = p[i]) > 2 && j < n;",
        "while (j++ < n && j != 3) o[i]++;",
        "o[i] = (j -= 3) > 0 || j < -5;",
        "o[i] = g(&j) && j > 2;",
        "int q; if (n) q = p[i]; o[i] = n && q > 3;",
        "o[i] = ({ j = n; j; }) && j > 2;",
    ],
)
def test_what_the_first_operand_may_change_or_nobody_has_set_is_computed_only_where_needed(body: str) -> None:
    source = f"""
    int g(int *a) {{ return *a = 5; }}
    kernel void k(global int *o, global const int *p, int n) {{ int i = get_global_id(0), j = n; {body} }}"""
    text = translate(source, ()).text
    program = text[text.index("namespace sdi_program") :]
    assert "_cl_both(" not in program and "_cl_either(" not in program


def test_a_sum_that_is_not_needed_may_overflow_and_changes_nothing(tmp_path: Path) -> None:
    source = """
    kernel void k(global int *o, global const int *p) {
      int i = get_global_id(0), a = p[i];
      o[i] = (a < 1000 && a * 3000000 < 2000000000) | ((a >= 1000 || a + 2147483647 > 0) << 1);
    }"""
    given = aligned(np.array([0, 1, 700, 999, 1000, 2147483647, -2147483648, 5], np.int32))
    found = aligned(np.zeros(8, np.int32))
    HostKernels(source, tmp_path).launch("k", 8, 4, found, given)
    with np.errstate(over="ignore"):
        product, total = given * np.int32(3000000), given + np.int32(2147483647)
    expected = ((given < 1000) & (product < 2000000000)) | (((given >= 1000) | (total > 0)) << 1)
    assert found.tolist() == expected.tolist()
