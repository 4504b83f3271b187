"""Which bits of scalars decide what a launch touches: launches that differ in others touch the same bytes."""

from __future__ import annotations

from random import Random

import pytest

from sdi.ndrange import GroupBox
from sdi.sampling import KernelAnalysis, analyse
from sdi.sampling.model import AccessRange, Precision
from sdi.sampling.shaping import shaping_bits
from tests.sampling.generated import generate
from tests.sampling.sources import kernels_of, tree_of

ALL = (1 << 32) - 1
SIGN = 1 << 31


def analysed(source: str) -> KernelAnalysis:
    return analyse(tree := tree_of(source), kernels_of(tree)["k"])


@pytest.mark.parametrize(
    ("scalars", "index", "bits"),
    [
        ("uint t", "i + t % 2 * 64", {1: 1}),
        ("ulong t", "i + (t & 1 ? 64 : 0)", {1: 1}),
        ("int t", "i + (t & 3) * 64", {1: 3}),
        ("int t", "i + (t % 4 == 0 ? 64 : 0)", {1: SIGN | 3}),
        ("int t", "i + (int)(((uint)t + 3u) % 8u)", {1: 7}),
        ("int t", "i + ((t >> 2) & 1) * 64", {1: 4}),
        ("int t", "i + (t & 5)", {1: 5}),
        ("int t", "i + (uchar)t", {1: 255}),
        ("int t", "i + (int)(char)t + 200", {1: 255}),
        ("uint t", "i + (t * 5u) % 4u", {1: 3}),
        ("uint t", "i + (t ^ 6u) % 4u", {1: 3}),
        ("int t", "i + t", {1: ALL}),
        ("int t", "i + (t % 3) * 64", {1: ALL}),
        ("int t", "i + (t < 5 ? 64 : 0)", {1: ALL}),
        ("int t", "i + t % 2 * 0", {}),
        ("int t, float x", "i + (t & 1) + n", {1: 1, 3: ALL}),
        ("float x", "i + (int)(x * 2.0f)", {1: ALL}),
        ("double x", "i + (int)floor(x)", {1: (1 << 64) - 1}),
        ("int t, float x", "i + ((int)(t * x) & 1)", {1: ALL, 2: ALL}),
        ("int t, float x", "i + (int)(ceil((t & 3) / 4.0) + 0.5)", {1: 3}),
        ("int2 t", "i + (t.y & 1)", {1: 1 << 32}),
        ("int t", "i + (t & 1) * 64 + t / 1024", {1: ALL}),
    ],
)
def test_bits_that_count(scalars: str, index: str, bits: dict[int, int]) -> None:
    source = f"kernel void k(global int *a, {scalars}, int n) {{ int i = get_global_id(0); a[{index}] = 1; }}"
    source = source.replace(", int n)", ", int n)" if "float" in scalars else ")")
    assert shaping_bits(analysed(source)) == bits


def test_loops_and_conditions_count() -> None:
    source = """
    kernel void k(global int *a, int t, int n, int unused)
    {
        for (int j = 0; j < n; j++)
            if ((t & 1) == 0)
                a[get_global_id(0) * n + j] = unused;
    }
    """
    assert shaping_bits(analysed(source)) == {1: 1, 2: ALL}


def same(one: tuple[AccessRange, ...], other: tuple[AccessRange, ...]) -> bool:
    """Whether two correct answers can be about the same bytes."""
    for a, b in zip(one, other, strict=True):
        if a.precision is b.precision is Precision.EXACT and a.writes != b.writes:
            return False
        if Precision.EXACT in (a.precision, b.precision):
            exact, wide = (a, b) if a.precision is Precision.EXACT else (b, a)
            if exact.writes.difference(wide.writes):
                return False
    return True


def test_bits_that_do_not_count_change_no_answer_of_random_kernels() -> None:
    random, changed = Random(1), 0
    for seed in range(70):
        made = generate(seed)
        analysis = analysed(made.source)
        bits, launch = shaping_bits(analysis), made.launch
        given = launch.arguments
        sizes = tuple(None if isinstance(a, (bytes, int)) or a is None else a.nbytes for a in given)
        values = tuple(a if isinstance(a, bytes) else None for a in given)
        others = tuple(
            None if value is None else _with(value, bits.get(number, 0), random.getrandbits(8 * len(value)))
            for number, value in enumerate(values)
        )
        box = GroupBox((0, 0, 0), launch.ndrange.num_groups)
        changed += values != others
        answers = [analysis.bind(launch.ndrange, each, sizes).over(box) for each in (values, others)]
        assert same(*answers), f"seed {seed}: {bits}"
    assert changed > 10


def _with(value: bytes, counts: int, other: int) -> bytes:
    old = int.from_bytes(value, "little")
    return (old & counts | other & ~counts).to_bytes(len(value), "little")
