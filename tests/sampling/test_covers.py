"""Stores that data switch on or off: answers contain the record, and are apart where their boxes are."""

from __future__ import annotations

import pytest

from sdi.ndrange import GroupBox
from sdi.sampling import Precision, analyse
from tests.kernels.cases import B, I, launch
from tests.sampling.checking import check
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of

WIDTH, HEIGHT = 24, 16
IDS = "int x = get_global_id(0), y = get_global_id(1);"
COLUMNS = {
    "a condition in a loop": "for (int i = 0; i < h; i++) if (b[i * w + x] > 1) a[i * w + x] = 1;",
    "a float": "for (int i = 0; i < h; i++) if (as_float(b[i * w + x]) > 0.5f) a[i * w + x] = 1;",
    "a break": "for (int i = 0; i < h; i++) { if (b[i * w + x] > 1) break; a[i * w + x] = 1; }",
    "an earlier return": "if (b[x] > 1) return; for (int i = 0; i < h; i++) a[i * w + x] = 1;",
    "a loop's bound": "for (int i = 0; i < min(h, b[x]); i++) a[i * w + x] = 1;",
    "also a triangle": "for (int i = 0; i < h; i++) if (x <= i && b[x]) a[i * w + x] = 1;",
    "also every third": "if (x % 3 == 1 && b[y * w + x]) a[y * w + x] = 1;",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_boxes_of_columns_are_apart_whatever_the_data(name: str) -> None:
    source = (
        f"__kernel void k(__global int *a, __global const int *b, int w, int h) {{ {IDS} {COLUMNS[name]} }}"
    )
    tree = tree_of(source)
    size, local = ((WIDTH, HEIGHT), (4, 4)) if "third" in name else ((WIDTH,), (4,))
    made = launch(size, local, [B(WIDTH * HEIGHT), B(WIDTH * HEIGHT), I(WIDTH), I(HEIGHT)])
    kernel = kernels_of(tree)["k"]
    check(Recorder(), tree, kernel, "", made, ("random", "zeros", "ones", "nan"))
    nbytes = 4 * WIDTH * HEIGHT
    values = tuple(each if isinstance(each, bytes) else None for each in made.arguments)
    bound = analyse(tree, kernel).bind(made.ndrange, values, (nbytes, nbytes, None, None))
    groups = made.ndrange.num_groups
    one, other = (
        bound.over(GroupBox((start, 0, 0), (stop, *groups[1:])))[0]
        for start, stop in ((0, 2), (2, groups[0]))
    )
    assert {one.precision, other.precision} == {Precision.COVER}
    assert one.writes and other.writes and not one.writes.overlaps(other.writes)


@pytest.mark.parametrize(
    ("body", "precision"),
    [
        ("if (b[x] > 1) a[x] = 1; else a[x] = 2;", Precision.EXACT),
        ("a[clamp(b[x], 0, 31)] = 1;", Precision.MAY),
        ("if (b[x] > 1) a[x] = 1; a[clamp(b[x], 0, 31)] = 1;", Precision.MAY),
        ("if (b[x] > 1) a[x] = 1; a[x] = 2;", Precision.EXACT),
    ],
)
def test_a_cover_is_neither_exact_nor_bounds(body: str, precision: Precision) -> None:
    source = f"__kernel void k(__global int *a, __global const int *b) {{ {IDS} {body} }}"
    tree = tree_of(source)
    made = launch(64, 8, [B(64), B(64)])
    check(Recorder(), tree, kernels_of(tree)["k"], "", made)
    bound = analyse(tree, kernels_of(tree)["k"]).bind(made.ndrange, (None, None), (256, 256))
    assert bound.over(GroupBox((1, 0, 0), (3, 1, 1)))[0].precision is precision
