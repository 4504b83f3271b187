"""Large generated kernels: work grows with their length, and ends at a count that is the same everywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bench.large_kernels import STYLES
from sdi.clc import effects
from sdi.clc.compile import compile_source
from sdi.explain.advice import advice_for
from sdi.launch.programs import access
from sdi.launch.programs.access import accesses_of
from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import KernelAnalysis, affine_context, analyse, analysis, blind
from sdi.sampling.machine import MAX_OPERATIONS, MAX_WEIGHT
from sdi.sampling.model import AccessRange, Precision
from tests.sampling.sources import kernels_of, tree_of

NDRANGE = NDRange(1, (0, 0, 0), (4096, 1, 1), (64, 1, 1))
SCALARS = tuple(n.to_bytes(4, "little") for n in (64, 64, 0, 3))
SIZES: tuple[int | None, ...] = (1 << 20,) * 4 + (None,) * 4


def analysed(style: str, lines: int, operations: int = MAX_OPERATIONS) -> KernelAnalysis:
    tree = tree_of(STYLES[style](lines))
    return analyse(tree, kernels_of(tree)["large"], operations)


def ranges(found: KernelAnalysis) -> tuple[AccessRange, ...]:
    return found.bind(NDRANGE, (None,) * 4 + SCALARS, SIZES).over(GroupBox((0, 0, 0), (16, 1, 1)))


def assert_nothing_is_known(found: tuple[AccessRange, ...]) -> None:
    assert len(found) == 4
    for each in found:
        assert each.reads_whole and each.precision is Precision.WHOLE
        assert each.reads.nbytes == each.writes.nbytes == 1 << 20


@pytest.mark.parametrize("style", ["straight", "switched", "nested", "sums"])
def test_twice_the_lines_take_about_twice_the_operations(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "FIRST", MAX_OPERATIONS)
    taken: list[list[int]] = []
    first = {"nested": 100, "sums": 500}.get(style, 250)
    for lines in (first, 2 * first):
        found = analysed(style, lines)
        assert not found.too_long
        kernel = found.bind(NDRANGE, (None,) * 4 + SCALARS, SIZES)
        assert kernel._groups
        taken.append(
            [found.operations, kernel._binding._made, sum(len(row.args) for row in found.table.rows)]
        )
    for before, after in zip(*taken, strict=True):
        assert after < 2.5 * before, f"{taken}: operations, forms, parts of terms"


def test_thousands_of_lines_without_branches_are_analysed() -> None:
    found = analysed("straight", 2000)
    assert not found.too_long and len(found.accesses) > 1000
    assert found.operations < MAX_OPERATIONS / 5, "so that 10,000 are too"


def test_the_count_depends_on_nothing_but_the_text() -> None:
    first, again = analysed("inlined", 300), analysed("inlined", 300)
    assert first == again and first.operations == again.operations > 1000


@pytest.mark.parametrize("style", STYLES)
def test_of_a_kernel_beyond_the_count_nothing_is_known(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blind, "LONG", MAX_OPERATIONS)  # otherwise not for "inlined"
    whole = analysed(style, 100)
    assert not whole.too_long
    found = analysed(style, 100, whole.operations // 2)
    assert found.too_long.startswith("line ") and found.too_long.endswith("is too long to analyse")
    assert found.operations < whole.operations and not found.accesses and found.images is None
    assert {reason.argument for reason in found.reasons} == {0, 1, 2, 3}
    assert_nothing_is_known(ranges(found))


def test_accesses_under_very_many_conditions_are_too_much() -> None:
    found = analysed("branches", 2500)
    assert found.too_long.endswith("reaches memory in too many ways to analyse")
    assert_nothing_is_known(ranges(found))
    less = analysed("branches", 400)
    assert not less.too_long
    assert sum(1 + len(a.guards) + len(a.loops) for a in less.accesses) <= MAX_WEIGHT


def test_a_launch_with_too_many_forms_is_bound_to_whole_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = analysed("straight", 300)
    assert any(each.precision is not Precision.WHOLE for each in ranges(found))
    monkeypatch.setattr(affine_context, "MAX_EXPRS", 100)
    assert_nothing_is_known(ranges(found))


def test_kernels_of_one_program_share_a_count_and_each_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "".join(f"a[n + {k}] = n * {k};" for k in range(200))
    source = "".join(f"kernel void k{k}(global int *a, int n) {{ {long} }}\n" for k in range(3))
    compiled = compile_source(source + "kernel void tiny(global int *a) { a[get_global_id(0)] = 1; }", "")
    _, (one, *_) = accesses_of(compiled)
    assert isinstance(one, KernelAnalysis)
    monkeypatch.setattr(access, "PROGRAM_OPERATIONS", 2 * one.operations)
    monkeypatch.setattr(access, "LEAST_OPERATIONS", one.operations // 2)
    models, found = accesses_of(compiled)
    assert [isinstance(a, KernelAnalysis) and bool(a.too_long) for a in found] == [False, False, True, False]
    assert [model.why_whole for model in models] == ["", "", "line 3: is too long to analyse", ""]
    assert advice_for(models[2].why_whole)


def test_a_kernel_that_the_front_end_would_visit_too_often_runs_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = STYLES["inlined"](300)
    (model,) = compile_source(source, "").kernels
    assert not model.why_whole
    monkeypatch.setattr(effects, "MAX_VISITS", 500)
    (model,) = compile_source(source, "").kernels
    assert model.why_whole.endswith("is too long to analyse")
    assert all(a.reads and a.writes and a.atomic for a in model.arguments[:4])


def test_pointers_handed_on_in_many_rounds_settle() -> None:
    count = 70  # from the last to the first: each round of the loop gets one further
    names = [f"p{k}" for k in range(count)]
    body = "".join(f"{a} = {b};" for a, b in pairwise(names))
    declared = ", *".join(f"{name} = a" for name in names)
    source = (
        f"kernel void k(global int *a, global int *b, int n) {{ global int *{declared};"
        f"for (int i = 0; i < n; i++) {{ {body} {names[-1]} = b; *p0 = i; }} }}"
    )
    (model,) = compile_source(source, "").kernels
    assert [argument.writes for argument in model.arguments] == [True, True, False]


@pytest.mark.parametrize("style", ["straight", "switched"])
def test_loops_are_searched_for_fences_once(style: str) -> None:
    visits = []
    for lines in (200, 400):
        tree = tree_of(STYLES[style](lines))
        lines_of = effects.LineMap(tree.text)
        kernel = kernels_of(tree)["large"]
        visits.append(effects.EffectAnalysis(tree, kernel, lines_of, effects.FoundAppends()).visits)
    assert visits[1] < 2.5 * visits[0]
