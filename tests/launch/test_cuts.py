"""Which cut wins, and what it moves: matrix multiplication and a stencil, counted in bytes."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import cast

import pytest

from sdi.clc.compile import compile_source
from sdi.launch.arguments import BufferArgument
from sdi.launch.cuts import candidate_plans, moved_nbytes
from sdi.launch.plan import CutPlan, CutPlans, make_plan
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.partition.table import cuts
from sdi.region import Region
from sdi.regions import RegionSet
from sdi.vmem.directory import Directory
from sdi.vmem.memory import VirtualBuffer
from tests.service.conftest import Serve


def cost(plan: CutPlan) -> tuple[bool, int, int, int]:
    """Order of cuts by bytes: those that may run; to move now and after; all needed; contiguous ranges."""
    every = [assignment for buffer in plan.buffers for assignment in buffer.assignments]
    needed = sum(assignment.needs.nbytes for assignment in every)
    num_ranges = sum(assignment.needs.num_runs + assignment.owns.num_runs for assignment in every)
    return bool(plan.why_whole), moved_nbytes(plan), needed, num_ranges


MATMUL = """
__kernel void mm(__global float *C, __global const float *A, __global const float *B, int WA, int WB) {
    int i = get_global_id(0), j = get_global_id(1);
    float acc = 0.0f;
    for (int k = 0; k < WA; k++)
        acc += A[k + j * WA] * B[i + k * WB];
    C[i + j * WB] = acc;
}
"""
N = 512
MATRIX_NBYTES = 4 * N * N

STENCIL = """
__kernel void relax(__global const float *in, __global float *out, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1]
                                  + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}
"""


def matmul_plans() -> dict[str, dict[tuple[int, int, int], CutPlan]]:
    """Plans of all cuts over four members, from bounds and from exact sets; everything is on the host."""
    compiled = compile_source(MATMUL, "")
    (model,) = compiled.kernels
    number = struct.pack("<i", N)
    values = (BufferArgument(1, 0), BufferArgument(2, 0), BufferArgument(3, 0), number, number)
    buffers = {
        k: VirtualBuffer(k, MATRIX_NBYTES, 0, Directory(MATRIX_NBYTES, True), [], cast(list, [None] * 4))
        for k in (1, 2, 3)
    }
    ndrange = NDRange(2, (0, 0, 0), (N, N, 1), (16, 16, 1))
    sizes = (MATRIX_NBYTES,) * 3 + (None, None)
    access = access_of(compiled, model).bind(ndrange, (None, None, None, number, number), sizes)
    return {
        name: {
            cut.shape: make_plan(model, values, over, cut.boxes, buffers)
            for cut in cuts(ndrange.num_groups, 4)
        }
        for name, over in (("bounds", access.bounds), ("exact", access.over))
    }


def test_rows_win_when_ranges_are_contiguous_bounds_and_quarters_when_they_are_exact() -> None:
    plans = matmul_plans()
    rows, quarters = (1, 4, 1), (2, 2, 1)
    # Rows: a quarter of A and all of B for each.  Bounds of a quarter: half of A, but nearly all of B, and C
    # overlaps.  Exactly, half of A and half of B.
    assert moved_nbytes(plans["bounds"][rows]) == 5 * MATRIX_NBYTES
    assert moved_nbytes(plans["bounds"][quarters]) > 6 * MATRIX_NBYTES
    assert min(plans["bounds"].values(), key=cost) is plans["bounds"][rows]
    assert moved_nbytes(plans["exact"][rows]) == 5 * MATRIX_NBYTES
    assert moved_nbytes(plans["exact"][quarters]) == 4 * MATRIX_NBYTES
    assert min(plans["exact"].values(), key=cost) is plans["exact"][quarters]


def test_a_stencil_moves_only_halo_rows_between_iterations(serve: Serve) -> None:
    client, members, n = serve(4), 4, 64
    build, status, _ = client.build(STENCIL)
    assert status == 0
    a, b = client.buffer(bytes(4 * n * n)), client.buffer(bytes(4 * n * n))
    number = struct.pack("<i", n)

    def iterate(times: int) -> int:
        """Bytes that reached a member while the stencil ran."""
        moved = client.session.counters._accounting.moved
        client.finish()
        before = moved.host_to_member + moved.member_to_member
        for _ in range(times):
            for source, target in ((a, b), (b, a)):
                client.launch(build, [(source, 0), (target, 0), number], [n, n], [8, 8])
        client.finish()
        return moved.host_to_member + moved.member_to_member - before

    iterate(2)
    row = 4 * n
    # Each inner boundary is crossed both ways; the rows' first and last elements are never written, and were
    # there from the start.
    halo = 2 * (members - 1) * row
    assert halo // 2 < iterate(1) / 2 <= halo
    assert iterate(10) <= 20 * halo


class Scattered:
    """Two cuts whose bounds have to be merged: the second one's exact bytes are a hundred thousand runs.

    ``dear``: what its bounds cost, where those of the first cost 1.  ``asked``: plans whose costs were asked.
    ``is_endless``: they are on no common grid, either.
    """

    BOXES = tuple((GroupBox((k, 0, 0), (k + 1, 1, 1)),) for k in range(2))

    def __init__(self, dear: int) -> None:
        self.asked: list[tuple[int, bool]] = []
        self.dear, self.is_endless = dear, False

    def plan(self, boxes: tuple[GroupBox, ...], exact: bool) -> CutPlan:
        number = self.BOXES.index(boxes)
        runs = ((64, 100_000),) if exact and number else ()
        more = (Region(1 << 40, 4, ((100, 200_000),)),) if runs and self.is_endless else ()
        access = SimpleNamespace(needs=RegionSet((Region(0, 4, runs), *more)), owns=RegionSet())
        buffers = (SimpleNamespace(assignments=(access,)),)
        found = SimpleNamespace(boxes=boxes, number=number, exact=exact, buffers=buffers)
        found.merged_nbytes, found.why_whole = (0 if exact else 1), ""
        return cast(CutPlan, found)

    def order(self, plan: CutPlan) -> tuple[float, ...]:
        of = cast(SimpleNamespace, plan)
        self.asked.append((of.number, of.exact))
        return (False, 0 if of.exact else self.dear if of.number else 1, 0)

    def found(self) -> list[tuple[int, bool]]:
        plans = candidate_plans(self.BOXES, cast(CutPlans, self), self.order)
        return [(plan.number, plan.exact) for plan in cast(list[SimpleNamespace], plans)]


@pytest.mark.parametrize(("dear", "is_asked"), [(2, True), (16, True), (17, False), (1000, False)])
def test_what_many_runs_cost_is_not_asked_where_other_bounds_cost_much_less(
    dear: int, is_asked: bool
) -> None:
    plans = Scattered(dear)
    assert plans.found() == [(0, True), (1, is_asked)]
    assert ((1, True) in plans.asked) is is_asked


def test_runs_that_no_map_can_hold_as_a_few_entries_are_left_to_their_bounds() -> None:
    plans = Scattered(2)
    plans.is_endless = True
    assert plans.found() == [(0, True), (1, False)]
