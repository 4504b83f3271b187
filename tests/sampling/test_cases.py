"""Indices that a condition chooses are read, and written, case by case."""

from __future__ import annotations

import struct

import pytest

from sdi.clc.compile import compile_source
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling.cases import MAX_CASES, cases
from sdi.sampling.model import Precision
from sdi.sampling.terms import I32, TermOp, Terms

N, LOCAL = 4096, 64
HALF = 4 * N // 2
INDICES = {
    "clamped below": ("i ? i - 1 : 0", [(0, HALF - 4)], [(HALF - 4, 4 * N - 4)]),
    "clamped above": ("i < n - 1 ? i + 1 : n - 1", [(4, HALF + 4)], [(HALF + 4, 4 * N)]),
    "periodic below": ("i == 0 ? n - 1 : i - 1", [(0, HALF - 4), (4 * N - 4, 4 * N)],
                       [(HALF - 4, 4 * N - 4)]),
    "periodic above": ("i == n - 1 ? 0 : i + 1", [(4, HALF + 4)], [(0, 4), (HALF + 4, 4 * N)]),
    "of both ends": ("(int)i - 3 < 0 ? 0 : (int)i - 3 >= (int)n ? n - 1 : i - 3", [(0, HALF - 12)],
                     [(HALF - 12, 4 * N - 12)]),
    "times a scalar": ("(i < n / 2 ? 1 : 0) * (n / 2)", [(HALF, HALF + 4)], [(0, 4)]),
}  # fmt: skip


def ranges(
    text: str, members: int = 2
) -> list[tuple[list[tuple[int, int]], list[tuple[int, int]], Precision]]:
    """Of a kernel of ``out``, ``in`` and ``n``: what parts of the groups read and write, and how exactly."""
    arguments = "global uint *out, global const uint *in, uint n"
    source = f"kernel void k({arguments}) {{ uint i = get_global_id(0); {text} }}"
    compiled = compile_source(source, "")
    bound = access_of(compiled, compiled.kernels[0]).bind(
        NDRange(1, (0, 0, 0), (N, 1, 1), (LOCAL, 1, 1)),
        (None, None, struct.pack("<I", N)),
        (4 * N, 4 * N, None),
    )
    groups = N // LOCAL
    found = []
    for k in range(members):
        box = GroupBox((groups * k // members, 0, 0), (groups * (k + 1) // members, 1, 1))
        out, given = bound.over(box)
        found.append((_plain(given.reads), _plain(out.writes), out.precision))
    return found


def _plain(found: RegionSet) -> list[tuple[int, int]]:
    return [(each.start, each.stop) for each in found.runs()]


@pytest.mark.parametrize("name", INDICES)
def test_reads_are_those_of_the_cases(name: str) -> None:
    index, first, second = INDICES[name]
    assert [each[0] for each in ranges(f"out[i] = in[{index}];")] == [first, second]


def test_a_variable_that_a_branch_sets_is_a_choice_too() -> None:
    found = ranges("uint l = i - 1; if (i == 0) l = n - 1; out[i] = in[l];")
    assert [each[0] for each in found] == [[(0, HALF - 4), (4 * N - 4, 4 * N)], [(HALF - 4, 4 * N - 4)]]


def test_writes_of_the_cases_are_exact() -> None:
    found = ranges("out[i < n / 4 ? i : i + n / 4 < n ? i + n / 4 : i - n / 2] = 1;")
    assert [each[2] for each in found] == [Precision.EXACT] * 2
    quarter = 4 * N // 4
    assert [each[1] for each in found] == [
        [(0, quarter), (2 * quarter, 3 * quarter)],
        [(quarter, 2 * quarter), (3 * quarter, 4 * quarter)],
    ]


def test_taps_in_loops_that_stop_at_the_edges_read_the_rows_around_a_part() -> None:
    source = """
    kernel void blur(global float *out, global const float *in, int w, int h)
    {
        int x = get_global_id(0), y = get_global_id(1);
        float sum = 0;
        for (int dy = -2; dy <= 2; dy++)
            for (int dx = -2; dx <= 2; dx++) {
                int at = x + dx, row = y + dy;
                at = at < 0 ? 0 : at >= w ? w - 1 : at;
                row = row < 0 ? 0 : row >= h ? h - 1 : row;
                sum += in[row * w + at];
            }
        out[y * w + x] = sum;
    }
    """
    compiled, side = compile_source(source, ""), 256
    nbytes, number = 4 * side * side, struct.pack("<i", side)
    bound = access_of(compiled, compiled.kernels[0]).bind(
        NDRange(2, (0, 0, 0), (side, side, 1), (16, 16, 1)),
        (None, None, number, number),
        (nbytes, nbytes, None, None),
    )
    for first, stop in ((0, 4), (4, 12), (12, 16)):
        out, given = bound.over(GroupBox((0, first, 0), (16, stop, 1)))
        around = (max(16 * first - 2, 0), min(16 * stop + 2, side))
        assert _plain(given.reads) == [(4 * side * around[0], 4 * side * around[1])]
        assert (
            _plain(out.writes) == [(64 * side * first, 64 * side * stop)] and out.precision is Precision.EXACT
        )


def test_what_data_choose_is_anywhere_between() -> None:
    found = ranges("out[i] = in[in[i] ? i : n - 1 - i];")
    assert [each[0] for each in found] == [[(0, 4 * N)], [(0, 4 * N)]]


def test_many_choices_of_choices_are_taken_together_and_cost_little() -> None:
    terms = Terms()
    i = terms.make(TermOp.GLOBAL_ID, (), I32, 0)
    term = i
    for number in range(200):
        more = terms.add(term, terms.const(number))
        term = terms.select(terms.less(i, terms.const(number)), more, term)
    before = terms.operations
    assert cases(terms, term) == [((), term)]
    assert terms.operations - before < 10_000


def test_no_more_than_the_most_cases_are_told_apart() -> None:
    terms = Terms()
    i = terms.make(TermOp.GLOBAL_ID, (), I32, 0)
    total, found = terms.const(0), []
    for number in range(5):
        total = terms.add(
            total, terms.select(terms.less(i, terms.const(number)), terms.const(1 << number), i)
        )
        found.append(len(cases(terms, total)))
    assert found == [2, 4, 8, 1, 1] and MAX_CASES == 9
