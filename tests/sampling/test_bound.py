"""Bound kernels: what they find out only when they are asked, and once."""

from __future__ import annotations

import struct
from unittest.mock import patch

from sdi.clc.compile import compile_source
from sdi.intervals import ByteRange
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling.analysis import KernelAnalysis
from sdi.sampling.bound import BoundKernel
from sdi.sampling.model import Precision
from tests.kernels.cases import FOLDER

SOURCE = """
kernel void rows(global const float *in, global float *out, int n) {
    int y = get_global_id(0);
    for (int x = 0; x < n; x++)
        for (int k = 0; k < 4; k++) out[4 * (y * n + x) + k] = in[4 * (y * n + x) + k] + in[k];
}
"""
N = 64
EVERY = GroupBox((0, 0, 0), (4, 1, 1))


def analysis_of(source: str, kernel: int = 0) -> KernelAnalysis:
    compiled = compile_source(source, "")
    access = access_of(compiled, compiled.kernels[kernel])
    assert isinstance(access, KernelAnalysis)
    return access


def bound() -> BoundKernel:
    nbytes = 16 * N * N
    return analysis_of(SOURCE).bind(
        NDRange(1, (0, 0, 0), (N, 1, 1), (16, 1, 1)),
        (None, None, struct.pack("<i", N)),
        (nbytes, nbytes, None),
    )


def test_how_much_there_is_to_do_needs_no_access_ranges() -> None:
    with patch.object(BoundKernel, "_compile", side_effect=AssertionError("nobody asked for ranges")):
        effort = bound().effort()
    assert effort is not None and 1.5 <= effort / (N * N * 4 * 3) <= 2, "three accesses, and the loops"


def test_loops_are_looked_at_once_for_all_that_is_in_them() -> None:
    found, looked = bound(), list[tuple[int, ...]]()
    closed = BoundKernel._find_closed
    with patch.object(
        BoundKernel, "_find_closed", lambda self, loops: (looked.append(loops), closed(self, loops))[1]
    ):
        ranges = found.over(EVERY)
        assert found.over(EVERY) is ranges
    assert len(looked) == len(set(looked)) == 1
    assert [each.precision for each in ranges] == [Precision.EXACT] * 2
    assert ranges[1].writes.nbytes == 16 * N * N


def test_rows_that_work_items_transform_in_stages_are_their_own() -> None:
    source = (FOLDER / "loops.cl").read_text()
    names = [kernel.name for kernel in compile_source(source, "").kernels]
    analysis = analysis_of(source, names.index("stages_of_rows"))
    items, bits = 1 << 16, 9
    nbytes = 4 * items << bits
    ndrange = NDRange(1, (0, 0, 0), (items, 1, 1), (64, 1, 1))
    found = analysis.bind(ndrange, (None, None, struct.pack("<i", bits)), (nbytes, nbytes, None))
    for k in range(4):
        own = RegionSet((ByteRange(nbytes * k // 4, nbytes * (k + 1) // 4),))
        for one in found.over(GroupBox((256 * k, 0, 0), (256 * k + 256, 1, 1))):
            assert (one.precision, one.writes, one.reads) == (Precision.COVER, own, own)
