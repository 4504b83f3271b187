"""Random kernels with private arrays and pointers to private variables: the maps against the record."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.cases import B, I, launch
from tests.sampling.checking import check
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of

ITEMS = 8
HELPERS = """
void fill(int x, int *to) { for (int k = 0; k < 4; k++) to[k] = x + 5 * k; }
void swap(int *one, int *other) { int kept = *one; *one = *other; *other = kept; }
void early(int x, int *to, int c) { if (x < c) { *to = 3; return; } *to += c; }
int *later(int *to, int c) { return to + (c & 1); }
int both(int *one, int *other) { *one = *other + 1; return *other; }
"""


class Writer:
    """Writes a kernel: arrays p and q, variables s and t with an address, and two pointers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counters = 0

    def value(self, depth: int = 0) -> str:
        pick = self.random.randrange(12 if depth < 2 else 8)
        match pick:
            case 0 | 1:
                return str(self.random.randrange(16))
            case 2:
                return self.random.choice(("x", "n"))
            case 3 | 4:
                return self.random.choice(("s", "t", "*r", "*w"))
            case 5 | 6:
                return f"{self.random.choice('pq')}[{self.random.randrange(4)}]"
            case 7:
                return "b[x]"
            case 8:
                return f"{self.random.choice('pq')}[{self.value(depth + 1)} & 3]"
            case 9:
                return f"({self.test(depth + 1)} ? {self.value(depth + 1)} : {self.value(depth + 1)})"
            case _:
                return f"({self.value(depth + 1)} {self.random.choice('+-')} {self.value(depth + 1)})"

    def test(self, depth: int = 0) -> str:
        left = self.random.choice(("x", "n", "s", "b[x]", f"{self.value(depth + 1)}"))
        return f"{left} {self.random.choice(('<', '==', '>='))} {self.random.randrange(9)}"

    def place(self) -> str:
        index = str(self.random.randrange(4)) if self.random.random() < 0.7 else f"{self.value(1)} & 3"
        return self.random.choice((f"p[{index}]", f"q[{index}]", "s", "t", "*r", "*w"))

    def address(self) -> str:
        return self.random.choice(
            ("&s", "&t", "p", "q", "&p[2]", "q + 1", "r", "w", f"later(p, {self.value(1)})")
        )

    def statement(self, depth: int = 0) -> str:
        match self.random.randrange(14 if depth < 2 else 7):
            case 0 | 1 | 2:
                return f"{self.place()} {self.random.choice(('=', '=', '+='))} {self.value()};"
            case 3:
                return f"{self.random.choice('rw')} = {self.address()};"
            case 4:
                other = f"{self.test(1)} ? {self.address()} : {self.address()}"
                return self.random.choice((f"r = {other};", f"fill({self.value(1)}, p);", "fill(x, q);"))
            case 5:
                return self.random.choice(
                    (
                        f"swap({self.address()}, {self.address()});",
                        f"early({self.value(1)}, {self.address()}, {self.random.randrange(6)});",
                        f"s = both({self.address()}, {self.address()});",
                    )
                )
            case 6:
                return f"a[x * 64 + (({self.value()}) & 63)] = 1;"
            case 7 | 8:
                other = f" else {self.block(depth)}" if self.random.random() < 0.5 else ""
                return f"if ({self.test()}) {self.block(depth)}{other}"
            case 9 | 10:
                self.counters += 1
                name, most = f"i{self.counters}", self.random.choice(("3", "4", "n", "2", "x"))
                own = f"{self.random.choice('pq')}[{name} & 3] = {self.value()};"
                return f"for (int {name} = 0; {name} < {most}; {name}++) {{ {own} {self.block(depth)} }}"
            case 11:
                self.counters += 1
                name, leaves = f"i{self.counters}", self.random.choice(("break", "continue"))
                return (
                    f"for (int {name} = 0; {name} < 4; {name}++) {{ if ({self.test()}) {leaves};"
                    f" {self.block(depth)} }}"
                )
            case 12:
                cases = " ".join(f"case {k}: {self.statement(depth + 1)} break;" for k in range(2))
                return f"switch ({self.value()}) {{ {cases} default: {self.statement(depth + 1)} }}"
            case _:
                self.counters += 1
                name = f"i{self.counters}"
                return f"{{ int {name} = 0; do {{ {self.block(depth)} }} while (++{name} < 3); }}"

    def block(self, depth: int) -> str:
        return "{ " + " ".join(self.statement(depth + 1) for _ in range(self.random.randint(1, 3))) + " }"

    def kernel(self) -> str:
        lines = [self.statement() for _ in range(self.random.randint(3, 9))]
        last = [f"a[x * 64 + ({place} & 63)] = 1;" for place in ("p[1]", "q[2]", "s", "t", "*r")]
        body = "\n    ".join([*lines, *self.random.sample(last, 3)])
        return f"""{HELPERS}
__kernel void k(__global int *a, __global const int *b, int n)
{{
    int x = get_global_id(0);
    int p[4] = {{0, 1, 2, 3}}, q[4], s = 4, t = x;
    int *r = &s, *w = &s;
    fill(7, q);
    {body}
}}
"""


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(seed=st.integers(0, 1_000_000))
def test_maps_of_kernels_with_private_arrays_agree_with_what_they_touch(
    seed: int, recorder: Recorder
) -> None:
    check_seed(seed, recorder)


def check_seed(seed: int, recorder: Recorder) -> None:
    """Compare one kernel's maps with the record."""
    source = Writer(seed).kernel()
    tree = tree_of(source)
    for n in (0, 3):
        made = launch(ITEMS, 2, [B(64 * ITEMS), B(ITEMS), I(n)])
        check(recorder, tree, kernels_of(tree)["k"], "", made, ("random", "zeros"))
