"""Straight code for access ranges: the same answers as the usual way, for other scalars, sizes and boxes."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.clc.compile import compile_source
from sdi.intervals import ByteRange
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling import AccessRange, KernelAnalysis, Precision, analyse, parametric
from sdi.sampling.parametric import Parametric, ParametricBound
from sdi.sampling.shaping import shaping_scalars
from sdi.sampling.straight import compiled
from sdi.sampling.tracing import Trace, Untraceable
from tests.kernels.cases import FOLDER, LAUNCHES
from tests.sampling.checking import Launch
from tests.sampling.generated import generate
from tests.sampling.sources import kernels_of, tree_of
from tests.seeds import num_seeds

Questions = list[tuple[NDRange, tuple[bytes | None, ...], list[GroupBox]]]


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace early and often."""
    monkeypatch.setattr(parametric, "TRACE_AFTER", 1)
    monkeypatch.setattr(parametric, "TRACES_MAX", 40)


def varied(launch: Launch, analysis: KernelAnalysis, random: Random, count: int) -> Questions:
    """Launches like this one, with other scalars and numbers of groups, and boxes of them."""
    values = [a if isinstance(a, bytes) else None for a in launch.arguments]
    found: Questions = []
    for _ in range(count):
        changed = list(values)
        for argument, offset, kind in shaping_scalars(analysis):
            raw, nbytes = changed[argument], kind.bits // 8
            if raw is None or len(raw) < offset + nbytes or random.random() < 0.3:
                continue
            old = int.from_bytes(raw[offset : offset + nbytes], "little", signed=kind.signed)
            new = random.choice(
                (old + random.randint(-5, 5), random.randint(0, 70), 1 << random.randint(0, 9))
            )
            if random.random() < 0.05:
                new = random.choice((kind.lo, kind.hi))
            made = kind.wrap(new).to_bytes(nbytes, "little", signed=kind.signed)
            changed[argument] = raw[:offset] + made + raw[offset + nbytes :]
        old_range = launch.ndrange
        groups = [
            max(1, g + random.randint(-2, 4)) if dim < old_range.work_dim and random.random() < 0.5 else g
            for dim, g in enumerate(old_range.num_groups)
        ]
        sizes = [g * n for g, n in zip(groups, old_range.local_size, strict=True)]
        ndrange = NDRange(
            old_range.work_dim, old_range.offset, (sizes[0], sizes[1], sizes[2]), old_range.local_size
        )
        boxes = []
        for _ in range(3):
            pairs = [sorted(random.sample(range(g + 1), 2)) for g in groups]
            (a, b), (c, d), (e, f) = pairs
            boxes.append(GroupBox((a, c, e), (b, d, f)))
        found.append((ndrange, tuple(changed), boxes))
    return found


def compare(analysis: KernelAnalysis, launch: Launch, random: Random, count: int) -> tuple[int, int]:
    """Fail on the first answer that differs; (questions answered by straight code, all of them)."""
    sizes = tuple(None if isinstance(a, (bytes, int)) or a is None else a.nbytes for a in launch.arguments)
    quick = Parametric(analysis)
    hits = asked = 0
    for ndrange, values, boxes in varied(launch, analysis, random, count):
        bound, usual = quick.bind(ndrange, values, sizes), analysis.bind(ndrange, values, sizes)
        if not isinstance(bound, ParametricBound):
            continue
        runs = bound.shape.bounds, bound.shape.exact
        before = sum(each.hits for each in runs)
        for box in boxes:
            assert bound.bounds(box) == usual.bounds(box), f"{analysis.name} {ndrange} {values} {box}"
            assert bound.over(box) == usual.over(box), f"{analysis.name} {ndrange} {values} {box}"
        hits += sum(each.hits for each in runs) - before
        asked += 2 * len(boxes)
    return hits, asked


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_kernels_are_answered_as_by_the_usual_way(first: int) -> None:
    hits = asked = 0
    for seed in range(first, first + 10):
        made = generate(seed)
        analysis = analyse(tree := tree_of(made.source), kernels_of(tree)["k"])
        found = compare(analysis, made.launch, Random(seed), num_seeds(40, 80))
        hits, asked = hits + found[0], asked + found[1]
    assert hits > asked // 5, f"straight code answered {hits} of {asked} questions"


@pytest.mark.parametrize("file", LAUNCHES)
def test_kernels_are_answered_as_by_the_usual_way(file: str) -> None:
    tree = tree_of((FOLDER / f"{file}.cl").read_text())
    hits = asked = 0
    for name, launches in LAUNCHES[file].items():
        analysis = analyse(tree, kernels_of(tree)[name])
        found = compare(analysis, launches[0], Random(name), num_seeds(30, 60))
        hits, asked = hits + found[0], asked + found[1]
    assert hits > asked // 3, f"straight code answered {hits} of {asked} questions"


def test_a_loop_over_a_scalar_is_answered_by_straight_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    source = """
    __kernel void lu(__global float *a, int n, int k)
    {
        int x = k + 1 + get_global_id(0), y = k + 1 + get_global_id(1);
        if (x < n && y < n)
            a[y * n + x] -= a[y * n + k] * a[k * n + x];
    }
    """
    tree = tree_of(source)
    quick = Parametric(analyse(tree, kernels_of(tree)["lu"]))
    ndrange = NDRange(2, (0, 0, 0), (4096, 4096, 1), (16, 16, 1))
    boxes = [GroupBox((0, 64 * k, 0), (256, 64 * k + 64, 1)) for k in range(4)]
    bound = None
    for k in range(2000):
        values = (None, struct.pack("<i", 4096), struct.pack("<i", k))
        bound = quick.bind(ndrange, values, (4 << 24, None, None))
        assert isinstance(bound, ParametricBound)
        for box in boxes:
            bound.bounds(box)
            bound.over(box)
    assert isinstance(bound, ParametricBound)
    for runs in (bound.shape.bounds, bound.shape.exact):
        assert runs.misses < 400 and runs.hits > 7600


def test_a_kernel_without_pointers_is_answered_by_straight_code() -> None:
    tree = tree_of('__kernel void tell(int n) { if (get_global_id(0) < n) printf("%d\\n", n); }')
    quick = Parametric(analyse(tree, kernels_of(tree)["tell"]))
    for n in range(20):
        bound = quick.bind(NDRange(1, (0, 0, 0), (64, 1, 1), (8, 1, 1)), (struct.pack("<i", n),), (None,))
        box = GroupBox((0, 0, 0), (4, 1, 1))
        assert bound.bounds(box) == bound.over(box) == ()


def _divisions(a: int, b: int, c: int) -> int:
    quotient, remainder = divmod(a, 7)
    return quotient * 3 - remainder + (b // (abs(c) + 1)) % 5 + (a * b) // 9


def _bits(a: int, b: int, c: int) -> int:
    return ((a >> 2) + (b << 3) + (c & 15)) * abs(a).bit_length() + ~b


def _choices(a: int, b: int, c: int) -> int:
    lowest, *_, highest = sorted((a, b * 2, c - 3))
    if a == b or not c:
        return lowest
    if 2 * a + 1 != 3 * b and a <= 2 * c:
        return highest - lowest
    return max(a, b, -c) * min(b, c)


def _pinned(a: int, b: int, c: int) -> int:
    return sum(k * b for k in range(abs(a) % 6)) + (a ^ b) - (c | 5)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    run=st.sampled_from((_divisions, _bits, _choices, _pinned)),
    first=st.tuples(*[st.integers(-40, 40)] * 3),
    others=st.lists(st.tuples(*[st.integers(-40, 40)] * 3), min_size=5, max_size=30),
)
def test_a_traced_run_gives_the_plain_answer_wherever_it_gives_one(
    run: Callable[[int, int, int], int], first: tuple[int, int, int], others: list[tuple[int, int, int]]
) -> None:
    trace = Trace(first, [(-(1 << 31), (1 << 31) - 1)] * 3)
    try:
        found = run(trace.input(0), trace.input(1), trace.input(2)) + 10_000_000
    except Untraceable:
        pytest.fail("these runs have expressions")
    ranges = RegionSet((ByteRange(found, found + 1),))
    answer = (AccessRange(0, ranges, ranges, Precision.EXACT),)
    evaluate = compiled(trace, [], (0, 1, 2), answer)
    assert evaluate(first) is not None
    for inputs in (first, *others):
        made = evaluate(inputs)
        if made is not None:
            assert made[0].reads.runs()[0].start == run(*inputs) + 10_000_000


def test_binding_a_kernel_imports_neither_sympy_nor_islpy() -> None:
    text = "import sys, sdi.service.main; sys.exit(bool({'sympy', 'islpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


def test_atomic_updates_are_answered_as_by_the_usual_way() -> None:
    source = """
    __kernel void k(__global int *a, __global const int *in, int n, int m)
    {
        int i = get_global_id(0);
        a[i] = in[i + m];
        atomic_add(&a[n + i % 4], in[i]);
        atomic_max(&a[n + m + 8], i);
    }
    """
    tree = tree_of(source)
    analysis = analyse(tree, kernels_of(tree)["k"])
    numbers = struct.pack("<i", 600), struct.pack("<i", 3)
    ndrange = NDRange(1, (0, 0, 0), (512, 1, 1), (16, 1, 1))
    launch = Launch(ndrange, (np.zeros(1024, np.int32), np.zeros(1024, np.int32), *numbers))
    hits, asked = compare(analysis, launch, Random(1), 60)
    assert hits > asked // 3


def test_launches_on_other_buffers_ask_the_usual_maps_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    compiled = compile_source(
        "__kernel void k(__global int *out, uint w, float x) {"
        " uint i = get_global_id(0); out[i / w + i % w * 64] = x; }",
        "",
    )
    analysis = access_of(compiled, compiled.kernels[0])
    assert isinstance(analysis, KernelAnalysis)
    maps = Parametric(analysis)
    ndrange = NDRange(1, (0, 0, 0), (4096, 1, 1), (64, 1, 1))
    box = GroupBox((3, 0, 0), (40, 1, 1))

    def over(w: int, x: float) -> object:
        values = (None, struct.pack("<I", w), struct.pack("<f", x))
        return maps.bind(ndrange, values, (1 << 20, None, None)).over(box)

    first = over(16, 1.0)
    assert over(16, 2.0) is first
    for w in (2, 4, 8, 32, 64):
        assert over(w, 1.0) != first
    assert over(16, 1.0) == first


@pytest.mark.parametrize("exact", [False, True])
def test_of_many_boxes_that_are_foreseen_nearly_all_are_answered_by_straight_code(
    monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    monkeypatch.undo()
    tree = tree_of("""
    __kernel void relax(__global const float *from, __global float *to, int w, int h)
    {
        int x = get_global_id(0), y = get_global_id(1);
        if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
            to[y * w + x] = from[y * w + x - 1] + from[(y - 1) * w + x] + from[(y + 1) * w + x];
    }
    """)
    analysis = analyse(tree, kernels_of(tree)["relax"])
    ndrange, side = NDRange(2, (0, 0, 0), (1024, 1024, 1), (16, 16, 1)), struct.pack("<i", 1024)
    given = ndrange, (None, None, side, side), (4 << 20, 4 << 20, None, None)
    bound, usual = Parametric(analysis).bind(*given), analysis.bind(*given)
    assert isinstance(bound, ParametricBound)
    for boxes in (
        [GroupBox((0, y, 0), (64, y + 1, 1)) for y in range(64)],
        [GroupBox((x, 0, 0), (x + 1, 64, 1)) for x in range(64)],
    ):
        bound.foresee(boxes, exact)
        for box in boxes:
            assert (bound.over if exact else bound.bounds)(box) == (usual.over if exact else usual.bounds)(
                box
            )
    runs = bound.shape.exact if exact else bound.shape.bounds
    assert runs.misses <= 4 and runs.hits >= 124
