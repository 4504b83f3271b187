"""``if`` on ``&&`` and ``||`` on CUDA members: which side runs, and which operands are computed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np

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
