"""Closed forms of random indices and guards against the same kernels computed work-item by work-item.

No device runs, so that hundreds of kernels cost a few seconds.
"""

from __future__ import annotations

import struct
from random import Random

import pytest

from sdi.ndrange import NDRange
from sdi.sampling import KernelAnalysis, analyse, dense
from sdi.sampling.model import AccessRange, Precision
from tests.differential.expressions import PRELUDE, VARIABLE, Bounded, Expressions
from tests.sampling.checking import boxes
from tests.sampling.sources import kernels_of, tree_of

KERNELS, PARTS = 60, 4
_ELEMENTS = 1 << 14
_FROM_DATA = ("in[", "in +", "bytes", "vload", "in)", "in,", "popcount", "as_int")
"""What makes an expression one that cannot be computed without running the kernel."""
_STORES = (
    "b[{}] = 1;",
    "((__global short *)b)[{}] = 1;",
    "((__global int2 *)b)[{}].y = 1;",
    "vstore3((int3)(1), {}, b);",
    "((__global int4 *)b)[{}] = 1;",
)


def kernel_of(random: Random, dims: int) -> str:
    """A kernel with one store: the lines of its body."""
    make = Expressions(random)
    make.known = [each for each in make.known if "pr." not in each.text]
    lines: list[str] = []
    for dim, name in zip(range(dims), "xy", strict=False):
        ids = f"{name} = get_global_id({dim}), g{name} = get_group_id({dim}), l{name} = get_local_id({dim})"
        lines.append(f"int {ids};")
        make.known += [Bounded(name, 0, 150)] * 2 + [Bounded(f"g{name}", 0, 16), Bounded(f"l{name}", 0, 16)]

    def without_data(text: str) -> bool:
        return not any(word in text for word in _FROM_DATA)

    def condition() -> str:
        return next(c for c in iter(lambda: make.condition(1), "") if without_data(c))

    def integer() -> Bounded:
        return next(
            i for i in iter(lambda: make.integer(random.choice((1, 2, 3))), None) if without_data(i.text)
        )

    if random.random() < 0.3:
        lines.append(f"int v = {make.fitting(integer()).text};")
        if random.random() < 0.5:
            lines.append(f"if ({condition()}) v = {random.randint(-9, 90)};")
        make.known.append(Bounded("v", -VARIABLE, VARIABLE))
    for _ in range(random.randint(0, 2)):
        lines.append(f"if ({condition()})" + random.choice(("", " return;")))
    end = ""
    if random.random() < 0.35:
        step = random.randint(1, 3)
        heads = (
            f"int i = 0; i < {random.randint(1, 9)}; i += {step}",
            f"int i = 8; i > {random.randint(-1, 5)}; i -= {step}",
            f"int i = x; i < {random.randint(10, 40)}; i += {step * 3}",
            f"int i = 0; i < n - {random.randint(0, 4)}; i++",
            "uint i = 5; i > 0; i--",
            "int i = 1; i < 30; i *= 2",
            f"int i = 0; i <= min(x, {random.randint(3, 12)}); i++",
        )
        lines.append(f"for ({random.choice(heads)})")
        make.known += [Bounded("(int)i", 0, 40)] * 2
        if random.random() < 0.3:
            lines[-1] += f" {{ if ({condition()}) {random.choice(('continue', 'break'))};"
            end = " }"
    at = integer()
    fits = at.hi - at.lo < _ELEMENTS and abs(at.lo) < _ELEMENTS
    index = f"{at.text} + {max(-at.lo, 0)}" if fits else f"({at.text} & {_ELEMENTS - 1})"
    return "\n".join((*lines, random.choice(_STORES).format(index) + end))


def ndrange_of(random: Random, dims: int) -> NDRange:
    local = random.choice(((4, 1), (8, 1), (5, 1))) if dims == 1 else random.choice(((4, 2), (8, 1), (3, 4)))
    groups = [random.choice((1, 2, 3, 5, 8)) if d < dims else 1 for d in range(2)]
    offset = tuple(random.choice((0, 0, 0, 3)) if d < dims else 0 for d in range(2))
    return NDRange(dims, (*offset, 0), (local[0] * groups[0], local[1] * groups[1], 1), (*local, 1))


@pytest.mark.parametrize("part", range(PARTS))
def test_closed_forms_agree_with_every_single_work_item(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    decided = 0
    for seed in range(part * KERNELS, (part + 1) * KERNELS):
        random = Random(seed)
        dims = random.choice((1, 1, 2))
        body = kernel_of(random, dims)
        tree = tree_of(f"{PRELUDE}__kernel void k(__global int *b, int n, uint m)\n{{\n{body}\n}}\n")
        analysis = analyse(tree, kernels_of(tree)["k"])
        ndrange = ndrange_of(random, dims)
        values = (None, struct.pack("<i", random.randint(0, 12)), struct.pack("<I", random.randint(0, 40)))
        monkeypatch.setattr(dense, "MAX_POINTS", 1 << 17)
        by_points = answers(analysis, ndrange, values)
        monkeypatch.setattr(dense, "MAX_POINTS", 0)
        for (truth, wide), (form, bounds) in zip(by_points, answers(analysis, ndrange, values), strict=True):
            if truth.precision is not Precision.EXACT:
                continue
            what = f"kernel {seed} of {ndrange}, {values}:\n{body}\n"
            for found in (wide, form, bounds):
                missed = truth.writes.difference(found.writes).runs()
                assert not missed, f"{what}writes {missed[:4]} too"
                if found.precision is Precision.EXACT:
                    excess = found.writes.difference(truth.writes).runs()
                    assert not excess, f"{what}EXACT, but does not write {excess[:4]}"
            decided += form.precision is Precision.EXACT
    assert decided > 100


def answers(
    analysis: KernelAnalysis, ndrange: NDRange, values: tuple[bytes | None, ...]
) -> list[tuple[AccessRange, AccessRange]]:
    """The ranges and the bounds of the first argument, for each box."""
    bound = analysis.bind(ndrange, values, (16 * _ELEMENTS + 64, None, None))
    return [(bound.over(box)[0], bound.bounds(box)[0]) for box in boxes(ndrange.num_groups)]
