"""The kernels of generated programs, each beside what it does to numpy arrays.

Results never depend on the order of work-items.  Together they have all kinds of accesses that splitting and
merging tell apart: exact, shifted, strided, by columns, guarded by data, permuted, by an index from memory
(all that store to one place store the same), smaller than their neighbours' stores, atomic, and atomic beside
plain ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SOURCE = """
__kernel void scale(__global uint *a, int k, int n) {
    int i = get_global_id(0);
    if (i < n) a[i] = a[i] * k + i;
}
__kernel void shift(__global const uint *in, __global uint *out, int k, int n) {
    int i = get_global_id(0);
    if (i < n) out[i] = in[clamp(i + k, 0, n - 1)] + 1;
}
__kernel void pick(__global const uint *in, __global uint *out, int k, int n) {
    int i = get_global_id(0);
    if (i < n && (in[i] & k)) out[i] = in[i] + 3;
}
__kernel void scatter(__global const int *in, __global int *out, int k, int n) {
    int i = get_global_id(0);
    if (i < n) out[(i * 31 + 5) % n] = in[i] ^ k;
}
__kernel void gather(__global const uint *in, __global uint *out, int k, int n) {
    int i = get_global_id(0);
    if (i < n) out[i] = in[(in[i] + k) % n];
}
__kernel void mark(__global const uint *in, __global uint *out, int k, int n) {
    int i = get_global_id(0);
    if (i < n) out[in[i] % n] = in[i] % n * 5 + k;
}
__kernel void reverse(__global const uchar *in, __global uchar *out, int k, int n) {
    int i = get_global_id(0);
    if (i < n) out[n - 1 - i] = in[i] + (uchar)(i * k);
}
__kernel void halves(__global const uint *in, __global short *out, int k, int n) {
    int i = get_global_id(0);
    if (i < n && (in[i] & 4)) out[2 * i + 1] = (short)(in[i] + k);
}
__kernel void smooth(__global const uint *in, __global uint *out, int width, int n) {
    int x = get_global_id(0), y = get_global_id(1), i = y * width + x, rows = n / width;
    if (x > 0 && y > 0 && x < width - 1 && y < rows - 1)
        out[i] = in[i - 1] + in[i + 1] + in[i - width] + in[i + width];
}
__kernel void down(__global uint *a, int width, int n) {
    int x = get_global_id(0);
    if (x < width)
        for (int y = 1; y < n / width; y++)
            a[y * width + x] += a[(y - 1) * width + x];
}
__kernel void swap_in_group(__global uint *a, int k, int n) {
    __local uint t[16];
    int i = get_global_id(0), l = get_local_id(0);
    t[l] = i < n ? a[i] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i - l + 16 <= n) a[i] = t[15 - l] + k;
}
__kernel void count(__global const uchar *in, __global int *bins, int k, int n) {
    int i = get_global_id(0);
    if (i < n) atomic_add(&bins[in[i] % 16], k);
}
__kernel void extremes(__global const int *in, __global int *bins, int k, int n) {
    int i = get_global_id(0);
    if (i >= n) return;
    atomic_min(&bins[in[i] & 3], in[i]);
    atomic_max(&bins[4 + (in[i] & 3)], (int)((uint)in[i] + k));
}
__kernel void count_and_read(__global const uchar *in, __global int *bins, int k, int n) {
    int i = get_global_id(0);
    if (i < n && bins[16] != k) atomic_inc(&bins[in[i] % 16]);
}
"""
LOCAL = 16
BINS = 17


@dataclass(frozen=True, slots=True)
class Kind:
    """A kernel.  ``elements``: bytes of an element of each buffer argument, 0 for ``BINS`` integers.

    ``writes``: which of them are written.  ``model(views, k, n)`` changes the arguments' bytes as the kernel
    does; the views are as long as ``n`` elements.  ``shape(n, width)``: work-items.
    ``rows``: ``k`` is the width of rows.
    """

    elements: tuple[int, ...]
    writes: tuple[bool, ...]
    model: Callable[[Sequence[Array], int, int], None]
    shape: Callable[[int, int], tuple[int, ...]] = lambda n, _: (n,)
    rows: bool = False


def _int(view: Array) -> Array:
    return view.view(np.int32)


def _scale(views: Sequence[Array], k: int, n: int) -> None:
    a = _int(views[0])
    a[:] = a * np.int32(k) + np.arange(n, dtype=np.int32)


def _shift(views: Sequence[Array], k: int, n: int) -> None:
    _int(views[1])[:] = _int(views[0])[np.clip(np.arange(n) + k, 0, n - 1)] + np.int32(1)


def _pick(views: Sequence[Array], k: int, _: int) -> None:
    in_, out = map(_int, views)
    np.copyto(out, in_ + np.int32(3), where=(in_ & np.int32(k)) != 0)


def _scatter(views: Sequence[Array], k: int, n: int) -> None:
    _int(views[1])[(np.arange(n) * 31 + 5) % n] = _int(views[0]) ^ np.int32(k)


def _gather(views: Sequence[Array], k: int, n: int) -> None:
    in_ = _int(views[0])
    _int(views[1])[:] = in_[(in_ + np.int32(k)).view(np.uint32) % np.uint32(n)]


def _mark(views: Sequence[Array], k: int, n: int) -> None:
    at = views[0].view(np.uint32) % np.uint32(n)
    _int(views[1])[at] = (at * np.uint32(5)).view(np.int32) + np.int32(k)


def _reverse(views: Sequence[Array], k: int, n: int) -> None:
    views[1][::-1] = views[0] + (np.arange(n) * k).astype(np.uint8)


def _halves(views: Sequence[Array], k: int, _: int) -> None:
    in_, out = _int(views[0]), views[1].view(np.int16)
    np.copyto(out[1::2], (in_ + np.int32(k)).astype(np.int16), where=(in_ & 4) != 0)


def _smooth(views: Sequence[Array], width: int, _: int) -> None:
    in_, out = (_int(view).reshape(-1, width) for view in views)
    out[1:-1, 1:-1] = in_[1:-1, :-2] + in_[1:-1, 2:] + in_[:-2, 1:-1] + in_[2:, 1:-1]


def _down(views: Sequence[Array], width: int, _: int) -> None:
    a = _int(views[0]).reshape(-1, width)
    a[:] = np.cumsum(a, axis=0, dtype=np.int32)


def _swap(views: Sequence[Array], k: int, n: int) -> None:
    groups = _int(views[0])[: n // LOCAL * LOCAL].reshape(-1, LOCAL)
    groups[:] = groups[:, ::-1] + np.int32(k)


def _count(views: Sequence[Array], k: int, _: int) -> None:
    np.add.at(_int(views[1]), views[0] % 16, np.int32(k))


def _extremes(views: Sequence[Array], k: int, _: int) -> None:
    in_, bins = _int(views[0]), _int(views[1])
    np.minimum.at(bins, in_ & 3, in_)
    np.maximum.at(bins, 4 + (in_ & 3), in_ + np.int32(k))


def _count_and_read(views: Sequence[Array], k: int, _: int) -> None:
    bins = _int(views[1])
    if bins[16] != k:
        np.add.at(bins, views[0] % 16, 1)


_PAIR = (False, True)
KINDS: dict[str, Kind] = {
    "scale": Kind((4,), (True,), _scale),
    "shift": Kind((4, 4), _PAIR, _shift),
    "pick": Kind((4, 4), _PAIR, _pick),
    "scatter": Kind((4, 4), _PAIR, _scatter),
    "gather": Kind((4, 4), _PAIR, _gather),
    "mark": Kind((4, 4), _PAIR, _mark),
    "reverse": Kind((1, 1), _PAIR, _reverse),
    "halves": Kind((4, 4), _PAIR, _halves),
    "smooth": Kind((4, 4), _PAIR, _smooth, lambda n, width: (width, n // width), True),
    "down": Kind((4,), (True,), _down, lambda _, width: (width,), True),
    "swap_in_group": Kind((4,), (True,), _swap),
    "count": Kind((1, 0), _PAIR, _count),
    "extremes": Kind((4, 0), _PAIR, _extremes),
    "count_and_read": Kind((1, 0), _PAIR, _count_and_read),
}
"""By name, in the order of the source."""
