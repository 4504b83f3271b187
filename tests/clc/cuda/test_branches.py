"""``if`` on ``&&`` and ``||`` on CUDA members: which side runs, and which operands are computed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from sdi.clc.cuda.translate import translate
from tests.clc.host_kernels import HostKernels, aligned

_OPERANDS = "abcde"


def _condition(seed: random.Random, depth: int) -> str:
    if depth == 0 or seed.random() < 0.15:
        return f"see({seed.randrange(len(_OPERANDS))}, p, m)"
    inner = f"({_condition(seed, depth - 1)} {seed.choice(('&&', '||'))} {_condition(seed, depth - 1)})"
    return f"!{inner}" if seed.random() < 0.3 else inner


def test_jumps_go_where_the_condition_says_and_compute_no_more_than_it_asks_for(tmp_path: Path) -> None:
    seed = random.Random(5)
    conditions = [_condition(seed, 4) for _ in range(40)]
    branches = "".join(
        f"s = 0; if ({c}) {{ int t = 1; o[i * {len(conditions)} + {n}] = 2 * s + t; }}"
        + (f" else {{ int t = 0; o[i * {len(conditions)} + {n}] = 2 * s + t; }}\n" if n % 2 else "\n")
        for n, c in enumerate(conditions)
    ).replace("p, m", "i, &s")
    source = f"""
    int see(int bit, int i, int *s) {{ *s = *s * 6 + bit + 1; return i >> bit & 1; }}
    kernel void k(global int *o) {{ int i = get_global_id(0), s; {branches} }}"""
    found = aligned(np.full((32, len(conditions)), -1, np.int32))
    HostKernels(source, tmp_path).launch("k", 32, 4, found)
    for i, (n, condition) in itertools.product(range(32), enumerate(conditions)):
        seen = [0]

        def see(bit: int, *_: object, i: int = i, seen: list[int] = seen) -> bool:
            seen[0] = seen[0] * 6 + bit + 1
            return bool(i >> bit & 1)

        python = condition.replace("&&", "and").replace("||", "or").replace("!", "not ")
        is_true = eval(python, {"see": see, "p": 0, "m": 0})
        expected = int(np.array(2 * seen[0] + is_true).astype(np.int32)) if is_true or n % 2 else -1
        assert found[i, n] == expected, (i, condition)


def test_a_branch_goes_from_operand_to_operand_and_takes_no_comparison_for_a_number() -> None:
    source = """
    kernel void k(global int *o, int n) {
      int i = get_global_id(0);
      if (i < n || (i == n && n > 3)) o[i] = 1;
      while (i < n && !(i == 7)) o[i++] = n > 3 || i == 2 ? 5 : 6;
      for (; i < n; i++) o[i] = i > 2 && n;
    }"""
    text = translate(source, ()).text
    program = text[text.index("namespace sdi_program") :]
    assert "if ((i < n)) goto _cl_to0;" in program
    assert "while (((i < n) && (!(i == 7))))" in program
    assert "(((n > 3) || (i == 2)) ? 5 : 6)" in program
    assert "for (; (i < n); (i++))" in program
    assert "((int)((i > 2) && n))" in program


@pytest.mark.parametrize(
    ("condition", "written"),
    [
        ("i < n && x * x + y * y < 4", "(bool((i < n)) & (_cl_fused(x, x, (y * y)) < ((float)4)))"),
        ("i && n && x + y > 1.0f", "(bool((i && n)) & ((x + y) > 1.0f))"),
        ("i < n && v.x - v.y > 0.5f", "(bool((i < n)) & ((v.v[0] - v.v[1]) > 0.5f))"),
        ("x * x < 4 && i < n", "(((x * x) < ((float)4)) && (i < n))"),
        ("i < n && i * i < n", "((i < n) && ((i * i) < n))"),
        ("i < n && f[i] + x < 4", "((i < n) && ((f[i] + x) < ((float)4)))"),
        ("i < n && u + x < 4", "((i < n) && ((u + x) < ((float)4)))"),
        ("i < n && w + x < 4", "((i < n) && ((w + x) < ((float)4)))"),
        ("i < n && x / y < 4", "((i < n) && ((x / y) < ((float)4)))"),
        ("i < n && sin(x) + y < 4", "((i < n) && ((_cl_sin(x) + y) < ((float)4)))"),
        ("i < n && (x = y) + y < 4", "((i < n) && (((x = y) + y) < ((float)4)))"),
        ("i < n && x + y + x + y + x + y < 4", "&& ("),
    ],
)
@pytest.mark.parametrize("loop", ["while ({}) i++", "for (; {}; i++) {{ }}", "do i++; while ({})"])
def test_a_turn_has_one_branch_where_what_it_hangs_on_is_a_little_arithmetic(
    condition: str, written: str, loop: str
) -> None:
    source = """
    kernel void k(global int *o, global const float *f, float x, float y, int n, float2 v) {
      local float u; volatile float w = x; int i = get_global_id(0);
      if (i == 0) u = x;
      barrier(CLK_LOCAL_MEM_FENCE);
      LOOP;
      o[i] = i + w + u;
    }"""
    text = translate(source.replace("LOOP", loop.format(condition)), ()).text
    assert written in text[text.index("namespace sdi_program") :]


def test_loops_turn_as_often_as_their_condition_says(tmp_path: Path) -> None:
    source = """
    kernel void k(global int *o, global const float *f, int n) {
      int i = get_global_id(0), k = 0, most = i % 5 * n; float x = 0, y = 0;
      for (; k < most && x * x + y * y < 4.0f; k++) {
        float t = x * x - y * y + f[i]; y = 2.0f * x * y + 0.3f; x = t;
      }
      o[3 * i] = k; k = 0; x = f[i];
      while (most && x + x < 7.0f) { x += 0.5f; k++; }
      o[3 * i + 1] = k; k = 0; x = f[i];
      do { k++; x -= 0.25f; } while (most - k && !(most == 18) && x - f[i] > -1.9f);
      o[3 * i + 2] = k;
    }"""
    values = aligned(np.linspace(-2.5, 1.0, 64, dtype=np.float32))
    found = aligned(np.full((64, 3), -1, np.int32))
    HostKernels(source, tmp_path).launch("k", 64, 4, found, values, np.int32(6))
    for i, f in enumerate(values):
        most, k = i % 5 * 6, 0
        x = y = np.float32(0)
        while k < most and x * x + y * y < 4:
            x, y, k = x * x - y * y + f, np.float32(2) * x * y + np.float32(0.3), k + 1
        assert abs(int(found[i, 0]) - k) <= 1, "contraction may turn the last"
        assert found[i, 1] == (max(0, int(np.ceil((3.5 - float(f)) / 0.5))) if most else 0)
        assert found[i, 2] == {6: 6, 18: 1}.get(most, 8)
