"""Which cut wins, and what it moves: matrix multiplication and a stencil, counted in bytes."""

from __future__ import annotations

import struct
from typing import cast

from sdi.clc.compile import compile_source
from sdi.launch.arguments import BufferArgument
from sdi.launch.cuts import cost, moved_nbytes
from sdi.launch.plan import CutPlan, make_plan
from sdi.launch.programs.access import access_of
from sdi.ndrange import NDRange
from sdi.partition.table import cuts
from sdi.vmem.directory import Directory
from sdi.vmem.memory import VirtualBuffer
from tests.service.conftest import Serve

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
