"""The access maps against isl's sets, at sizes that no recorder can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from sdi.intervals import ByteRange
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling import AccessRange, KernelAnalysis, Precision, analyse
from sdi.sampling.analysis import BoundKernel
from tests.kernels.cases import FOLDER, LAUNCHES, B, I, launch
from tests.sampling.checking import Launch
from tests.sampling.comparing import Asked, Tally, compare, larger, some_boxes
from tests.sampling.generated import generate
from tests.sampling.patterns import PATTERNS, Pattern
from tests.sampling.sources import kernels_of, tree_of
from tests.sampling.test_arrays import ITEMS, Writer

NOT_EXACT = {
    "triangle 65536",
    "triangle, packed 2048",
    "bits reversed, 20",
}
"""More ranges than are listed, a product of ids, and what has no closed form."""

SHARED = {"bits reversed, 20"}
"""Any member may write any byte."""

FEW_REGIONS = {
    "checkerboard",
    "checkerboard, halved",
    "volume 256, z in a loop",
    "blocks of a work-item",
    "tiled layout, rows",
    "tiled layout, columns",
}
OPEN = {"bits reversed, 10", "bricks of 8 x 8 x 4", "butterfly by masks"}
"""Too much for isl."""


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_answers_for_layouts_of_real_kernels_are_isls(pattern: Pattern) -> None:
    tree = tree_of(pattern.source)
    analysis, tally = analyse(tree, kernels_of(tree)["k"]), Tally()
    asked = Asked(pattern.ndrange, pattern.values, pattern.buffer_nbytes)
    compare(analysis, asked, pattern.slabs(), tally)
    assert not tally.open or pattern.name in OPEN, tally
    bound = analysis.bind(asked.ndrange, asked.values, asked.buffer_nbytes)
    is_exact = all(found.precision is Precision.EXACT for box in pattern.slabs() for found in bound.over(box))
    assert is_exact is (pattern.name not in NOT_EXACT)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_members_write_different_bytes_in_layouts_of_real_kernels(pattern: Pattern) -> None:
    """But where the index is not followed; in regular ones these are few regions."""
    tree = tree_of(pattern.source)
    bound = analyse(tree, kernels_of(tree)["k"]).bind(pattern.ndrange, pattern.values, pattern.buffer_nbytes)
    answers = [[found.writes for found in bound.over(box)] for box in pattern.slabs()]
    for written in zip(*answers, strict=True):
        is_shared = any(a.intersection(b) for a, b in combinations(written, 2))
        assert is_shared is (pattern.name in SHARED and any(written))
        assert pattern.name not in FEW_REGIONS or max(len(each.regions) for each in written) <= 8


@pytest.mark.parametrize("file", LAUNCHES)
def test_answers_for_larger_launches_of_every_kernel_are_isls(file: str) -> None:
    tree = tree_of((FOLDER / f"{file}.cl").read_text())
    tally = Tally()
    for name, launches in LAUNCHES[file].items():
        analysis = analyse(tree, kernels_of(tree)[name])
        for number in range(4):
            random = Random(f"{name} {number}")
            compare_larger(analysis, random.choice(launches), random, tally)
    assert tally.equal + tally.contain > 10 * tally.open, tally


@pytest.mark.parametrize("seed", range(0, 40, 10))
def test_answers_for_random_kernels_are_isls(seed: int) -> None:
    tally = Tally()
    for number in range(seed, seed + 10):
        made = generate(number)
        tree = tree_of(made.source)
        compare_larger(analyse(tree, kernels_of(tree)["k"]), made.launch, Random(number), tally)
    assert tally.equal + tally.contain > 4 * tally.open, tally


@pytest.mark.parametrize("seed", range(5))
def test_answers_for_random_kernels_with_private_arrays_are_isls(seed: int) -> None:
    tree = tree_of(Writer(seed).kernel())
    analysis, random, tally = analyse(tree, kernels_of(tree)["k"]), Random(seed), Tally()
    compare_larger(analysis, launch(ITEMS, 2, [B(64 * ITEMS), B(ITEMS), I(3)]), random, tally)
    assert tally.equal + tally.contain > 10 * tally.open, tally


def compare_larger(analysis: KernelAnalysis, given: Launch, random: Random, tally: Tally) -> None:
    """Compare the answers for two boxes of a launch like this one."""
    asked = larger(given.ndrange, given.arguments, random)
    compare(analysis, asked, some_boxes(asked.ndrange.num_groups, random, 2), tally)


COPY = "__kernel void k(__global int *a, __global int *b) { int i = get_global_id(0); a[2 * i] = b[i]; }"
WRONG: dict[str, tuple[int, Callable[[RegionSet], RegionSet]]] = {
    "writes unit": (0, lambda found: RegionSet.of(found.runs()[1:])),
    "EXACT, but does not write": (0, lambda found: found.union(RegionSet((ByteRange(0, 4),)))),
    "reads unit": (1, lambda found: found.difference(RegionSet((ByteRange(0, found.runs()[0].start + 4),)))),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_answer_is_found(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of(COPY)
    analysis = analyse(tree, kernels_of(tree)["k"])
    asked = Asked(NDRange(1, (0, 0, 0), (4096, 1, 1), (64, 1, 1)), (None, None), (1 << 15, 1 << 14))
    box = GroupBox((8, 0, 0), (32, 1, 1))
    compare(analysis, asked, [box], Tally())
    number, change = WRONG[message]
    answer = BoundKernel.over

    def wrong(bound: BoundKernel, over: GroupBox) -> tuple[AccessRange, ...]:
        found = list(answer(bound, over))
        one = found[number]
        reads, writes = (change(one.reads), one.writes) if number else (one.reads, change(one.writes))
        found[number] = replace(one, reads=reads, writes=writes)
        return tuple(found)

    monkeypatch.setattr(BoundKernel, "over", wrong)
    with pytest.raises(AssertionError, match=message):
        compare(analysis, asked, [box], Tally())
