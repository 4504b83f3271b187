"""What work-groups have to do, as estimated from loops: against counting the iterations."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from sdi.clc.compile import compile_source
from sdi.launch.programs.access import access_of
from sdi.ndrange import NDRange
from sdi.sampling import work as work_of_loops
from sdi.sampling.affine_context import AffineContext
from sdi.sampling.model import BoundAccess, WorkEstimate

SOURCE = """
__kernel void lower(__global const float *a, __global float *b, int n, int m) {
    int i = get_global_id(0);
    if (i < n)
        for (int j = 0; j <= i; j++) b[i] += a[i * n + j];
}
__kernel void upper(__global const float *a, __global float *b, int n, int m) {
    uint i = get_global_id(0);
    float sum = 0;
    for (uint j = i; j < (uint)n; j += 3)
        for (int k = 0; k < m; k++) sum += a[j] * k;
    b[i] = sum;
}
__kernel void guarded(__global const float *a, __global float *b, int n, int m) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > y) return;
    for (int k = 0; k < m; k++) b[y * n + x] += a[k];
}
__kernel void silent(__global const float *a, __global float *b, int n, int m) {
    uint group = get_group_id(0), rounds = n ? 40 * group * group : 9u, x = group;
    for (uint k = 0; k < rounds; k++) x = x * 5 + 1;
    b[get_global_id(0)] = x;
}
__kernel void even(__global const float *a, __global float *b, int n, int m) {
    int i = get_global_id(0);
    if (i < n)
        for (int k = 0; k < m; k++) b[i] += a[k];
}
__kernel void data(__global const float *a, __global float *b, int n, int m) {
    int i = get_global_id(0);
    for (int k = 0; k < i; k++)
        for (int j = 0; j < (int)a[k]; j++) b[i] += j;
}
__kernel void outside(__global const float *a, __global float *b, int n, int m) {
    int i = get_global_id(0);
    for (int j = 0; j < (int)a[i]; j++)
        for (int k = 0; k < i; k++) b[i] += k;
}
__kernel void pairs(__global const float *a, __global uint *b, int n, int m) {
    __local uint bins[8];
    int part = get_group_id(0), first = part < (int)get_num_groups(0) / 2 ? part : 0;
    for (int i = get_local_id(0); i < m; i += get_local_size(0))
        for (int j = first ? i : 0; j < m; j++) {
            float x = a[first * m + i] * a[j];
            int low = 0, high = 8;
            while (high - low > 1) {
                int middle = (low + high) / 2;
                if (x > a[middle]) high = middle; else low = middle;
            }
            atomic_inc(&bins[low]);
        }
    b[get_global_id(0)] = bins[get_local_id(0)];
}
__kernel void never(__global const float *a, __global float *b, int n, int m) {
    uint i = get_global_id(0) & 7;
    for (uint k = i + 8; k < i; k++) b[i] += a[k >> 1];
    for (uint k = 0; k < 0u * i; k++) b[i] += a[k & 3];
    for (int k = n; k < (int)i - n; k++) b[i] += a[k];
}
"""
N, M = 1024, 100


def bound(kernel: str, dims: int = 1, n: int = N) -> BoundAccess:
    compiled = compile_source(SOURCE, "")
    model = next(k for k in compiled.kernels if k.name == kernel)
    size, local = ((N, N, 1), (8, 8, 1)) if dims == 2 else ((N, 1, 1), (8, 1, 1))
    scalars = struct.pack("<i", n), struct.pack("<i", M)
    return access_of(compiled, model).bind(
        NDRange(dims, (0, 0, 0), size, local), (None, None, *scalars), (1 << 24, 1 << 24, None, None)
    )


def work(kernel: str, dim: int = 0, dims: int = 1, n: int = N) -> WorkEstimate | None:
    return bound(kernel, dims, n).work(dim)


@pytest.mark.parametrize(
    ("kernel", "dim", "dims", "iterations"),
    [
        ("lower", 0, 1, lambda at: at),
        ("upper", 0, 1, lambda at: (N - at) / 3 * M),
        ("guarded", 1, 2, lambda at: at / N * M),
        ("guarded", 0, 2, lambda at: (N - at) / N * M),
        ("silent", 0, 1, lambda at: 40 * (at / 8) ** 2),
        ("data", 0, 1, lambda at: at),
        ("pairs", 0, 1, lambda at: M * M / 8 * (0.5 if at < N / 2 else 1)),
    ],
)
def test_work_follows_the_iterations(
    kernel: str, dim: int, dims: int, iterations: Callable[[float], float]
) -> None:
    found = work(kernel, dim, dims)
    assert found is not None
    middles = (np.arange(len(found.density)) + 0.5) / len(found.density) * N
    expected = np.array([iterations(at) for at in middles])
    shares, wanted = np.cumsum(found.density) / np.sum(found.density), np.cumsum(expected) / expected.sum()
    assert np.abs(shares - wanted).max() < 0.03
    assert found.accesses >= 0.95 * expected.mean() * N * (N if dims == 2 else 1)


def test_even_work_is_even() -> None:
    found = work("even")
    assert found is None or max(found.density) < 1.01 * min(found.density)
    half = work("even", n=N // 2)
    assert half is not None and half.density[0] > 50 * half.density[-1]
    nine = work("silent", n=0)
    assert nine is not None and nine.density == pytest.approx([10.0] * len(nine.density), rel=0.02)


def test_what_data_decide_is_unknown() -> None:
    assert work("outside") is None


def test_loops_that_never_run_are_no_work() -> None:
    found = work("never")
    assert found is None or max(found.density) == 1.0


@pytest.mark.logs("its work can.t be estimated")
def test_an_estimate_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("sdi.sampling.work.work_of", fails)
    assert work("lower") is None


@pytest.mark.parametrize(
    ("kernel", "dims", "accesses"),
    [("lower", 1, N * N / 2), ("guarded", 2, N * N * M / 2), ("even", 1, N * M), ("never", 1, 0)],
)
def test_the_effort_of_all_work_items_is_known_where_loops_are(
    kernel: str, dims: int, accesses: float
) -> None:
    found = bound(kernel, dims).effort()
    items = N**dims
    # Each iteration has up to three accesses and counts once itself; each item counts once.
    assert found is not None and items + accesses * 0.9 <= found <= 9 * items + 4.5 * accesses


def test_the_effort_of_a_kernel_whose_data_decide_is_not_known() -> None:
    for kernel in ("data", "outside", "pairs"):
        assert bound(kernel).effort() is None


@pytest.mark.parametrize(("kernel", "looked"), [("lower", 2), ("outside", 0)])
def test_loops_are_looked_at_once_for_each_question_and_not_at_all_where_data_decide(
    monkeypatch: pytest.MonkeyPatch, kernel: str, looked: int
) -> None:
    made: list[int] = []
    sample = work_of_loops._Sample

    def counted(binding: AffineContext, dim: int, look: work_of_loops._Look) -> work_of_loops._Sample:
        made.append(look.parts)
        return sample(binding, dim, look)

    monkeypatch.setattr(work_of_loops, "_Sample", counted)
    access = bound(kernel)
    for _ in range(2):
        assert (access.effort() is None) == (access.work(0) is None) == (not looked)
    assert len(made) == len(set(made)) == looked
