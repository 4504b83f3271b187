"""Pointers compared, chosen, kept in structures and arrays: maps of random kernels against the record."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdi.ndrange import GroupBox
from sdi.sampling import Precision, analyse
from tests.kernels.cases import FOLDER, LAUNCHES, B, I, launch
from tests.sampling.checking import check
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of

ITEMS = 8
ROOM = 256
"""Items before the first that a pointer begins at, and after the last one: so far no kernel walks."""
HELPERS = """
typedef __global int *G;
typedef struct { G p; int s; } V;
void put(V *v, int i) { v->p[i * (v->s & 3)] = 1; }
void step(V *v, int by) { v->p += by; v->s = by; }
void early(V *v, int c) { if (v->s < c) return; v->p += 1; }
void swap(G *one, G *other) { G kept = *one; *one = *other; *other = kept; }
G pick(G one, G other, int c) { if (c < 3) return one; return other; }
void fill(G from, G to) { while (from < to) *from++ = 1; }
"""


class Writer:
    """Writes a kernel: pointers g and h, structures v and w, a pointer u to one, an array q of pointers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counters = 0

    def one_of(self, *texts: str) -> str:
        return self.random.choice(texts)

    def value(self, depth: int = 0) -> str:
        match self.random.randrange(9 if depth < 2 else 6):
            case 0 | 1:
                return str(self.random.randrange(8))
            case 2 | 3:
                return self.one_of("x", "n", "s", "v.s")
            case 4:
                return self.one_of("(int)(g - h)", "(int)(v.p - w.p)", "u->s", "(int)(q[1] - q[0])")
            case 5:
                return self.one_of("b[x]", "x", "n", "x", "n", "3")
            case 6:
                return f"({self.test(depth + 1)} ? {self.value(depth + 1)} : {self.value(depth + 1)})"
            case _:
                return f"({self.value(depth + 1)} {self.one_of('+', '-')} {self.value(depth + 1)})"

    def test(self, depth: int = 0) -> str:
        operator = self.one_of("<", "<=", ">", ">=", "==", "!=")
        if self.random.random() < 0.5:
            return f"{self.pointer(2)} {operator} {self.pointer(2)}"
        return (
            f"{self.one_of('x', 'n', 'n & 1', self.value(depth + 1))} {operator} {self.random.randrange(6)}"
        )

    def start(self) -> str:
        more = self.one_of(f"({self.value(1)} & 7)", "n", str(self.random.randrange(8)))
        return f"{self.one_of('a', 'a', 'a', 'c')} + {ROOM} + 16 * x + {more}"

    def pointer(self, depth: int = 0) -> str:
        match self.random.randrange(8 if depth < 2 else 5):
            case 0 | 1 | 2:
                return self.one_of("g", "h", "v.p", "w.p", "u->p", "q[0]", "q[1]", "g")
            case 3:
                return f"q[{self.value(2)} & 1]" if self.random.random() < 0.3 else "q[1]"
            case 4:
                return f"({self.start()})"
            case 5:
                return f"({self.test(depth + 1)} ? {self.pointer(depth + 1)} : {self.pointer(depth + 1)})"
            case 6:
                return f"({self.pointer(depth + 1)} + {self.random.randrange(3)})"
            case _:
                return f"pick({self.pointer(depth + 1)}, {self.pointer(depth + 1)}, {self.value(1)})"

    def place(self) -> str:
        return self.one_of("g", "h", "g", "h", "v.p", "w.p", "u->p", "q[0]", "q[1]", "q[n & 1]")

    def statement(self, depth: int = 0) -> str:
        match self.random.randrange(17 if depth < 2 else 10):
            case 0 | 1:
                return f"{self.place()} = {self.one_of(self.start(), self.pointer())};"
            case 2 | 3:
                return f"*{self.pointer()} = 1;"
            case 4:
                return f"({self.pointer()})[{self.value(1)} & 7] = 1;"
            case 5:
                view = self.one_of("&v", "&w", "u")
                by = self.random.randrange(3)
                return self.one_of(
                    f"put({view}, {self.value(1)} & 3);", f"step({view}, {by});", f"early({view}, {by});"
                )
            case 6:
                return self.one_of(
                    "w = v;", "v = w;", "u = &v;", "u = &w;", "*u = v;", f"u = {self.test(1)} ? &v : &w;"
                )
            case 7:
                return self.one_of(
                    f"s = {self.value()};", f"v.s = {self.value()};", f"u->s = {self.value()};"
                )
            case 8:
                self.counters += 1
                name, end = f"f{self.counters}", f"e{self.counters}"
                head = f"{{ G {name} = {self.pointer()}, {end} = {name} + ({self.value(1)} & 3);"
                return head + self.one_of(
                    f" for (; {name} < {end}; {name}++) *{name} = 1; }}",
                    f" while ({name} != {end}) *{name}++ = 1; }}",
                    f" for (; {end} >= {name}; {end} -= 2) *{end} = 1; }}",
                    f" fill({name}, {end}); }}",
                    f" if ({end} - {name} > 1) *{end} = 1; }}",
                )
            case 9:
                return self.one_of("g++;", "h--;", "v.p++;", "q[0] += 1;", "swap(&q[0], &q[1]);", "++u->p;")
            case 10 | 11 | 12:
                other = f" else {self.block(depth)}" if self.random.random() < 0.5 else ""
                return f"if ({self.test()}) {self.block(depth)}{other}"
            case 13 | 14:
                self.counters += 1
                name, most = f"i{self.counters}", self.one_of("3", "2", "n", "x & 3")
                own = f"{self.one_of('g', 'h', 'q[0]', 'v.p')}[{name}] = 1;"
                return f"for (int {name} = 0; {name} < {most}; {name}++) {{ {own} {self.block(depth)} }}"
            case 15:
                self.counters += 1
                name = f"i{self.counters}"
                leave = f"if ({self.test()}) {self.one_of('break', 'continue')};"
                walk = f"{self.one_of('g', 'v.p')}++;" if self.random.random() < 0.7 else ""
                return (
                    f"for (int {name} = 0; {name} < 4 && {self.test()}; {name}++)"
                    f" {{ {walk} {leave} {self.block(depth)} }}"
                )
            case _:
                self.counters += 1
                name = f"i{self.counters}"
                return f"{{ int {name} = 0; do {{ {self.block(depth)} }} while (++{name} < 3); }}"

    def block(self, depth: int) -> str:
        return "{ " + " ".join(self.statement(depth + 1) for _ in range(self.random.randint(1, 3))) + " }"

    def kernel(self) -> str:
        body = "\n    ".join(self.statement() for _ in range(self.random.randint(1, 5)))
        swapped = "swap(&g, &h);" if self.random.random() < 0.3 else ""
        last = ("*g = 1;", "h[8] = 1;", "v.p[16] = 1;", "w.p[24] = 1;", "q[0][32] = 1;", "u->p[40] = 1;")
        starts = [f"{root} + {ROOM} + 16 * x" for root in "aaca"]
        return f"""{HELPERS}
__kernel void k(__global int *a, __global const int *b, __global int *c, int n)
{{
    int x = get_global_id(0), s = 2;
    G g = {starts[0]}, h = {starts[1]} + 3, q[2] = {{{starts[2]}, {starts[3]}}};
    V v = {{g + 1, 1}}, w = {{h, n}}, *u = &v;
    {body}
    {swapped}
    {" ".join(self.random.sample(last, 2))}
}}
"""


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(seed=st.integers(0, 1_000_000))
def test_maps_of_kernels_with_pointers_agree_with_what_they_touch(seed: int, recorder: Recorder) -> None:
    check_seed(seed, recorder)


def check_seed(seed: int, recorder: Recorder) -> list[Precision]:
    """Compare one kernel's maps with the record; how well they are known."""
    tree = tree_of(Writer(seed).kernel())
    found = []
    for n in (0, 1, 3):
        room = B(2 * ROOM + 16 * ITEMS)
        made = launch(ITEMS, 2, [room, B(ITEMS), room, I(n)])
        found += [
            p for _, p, _ in check(recorder, tree, kernels_of(tree)["k"], "", made, ("random", "zeros"))
        ]
    return found


FOLLOWED = (
    "to_the_end until_equal backwards by_twos with_the_last which_end by_distance never"
    " one_by_condition moved_choice one_of_three one_by_item by_view several several_ends"
    " pointers_to_pointers views_in_views parts_of_views"
)


@pytest.mark.parametrize("name", FOLLOWED.split())
def test_what_is_done_through_pointers_is_known_exactly(name: str) -> None:
    tree = tree_of((FOLDER / "pointers.cl").read_text())
    analysis = analyse(tree, kernels_of(tree)[name])
    assert analysis.reasons == ()
    for each in LAUNCHES["pointers"][name]:
        values = tuple(a if isinstance(a, bytes) else None for a in each.arguments)
        sizes = tuple(a.nbytes if isinstance(a, np.ndarray) else None for a in each.arguments)
        found = analysis.bind(each.ndrange, values, sizes).over(GroupBox((0, 0, 0), each.ndrange.num_groups))
        assert {of.precision for of in found} == {Precision.EXACT}
