"""How kernels lay out what they write, at sizes of real problems, where no recorder can run them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from sdi.ndrange import GroupBox, NDRange

MEMBERS = 4


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kernel and a launch of it: ``buffers`` are bytes, before the ``scalars``, ints.

    ``dim``: along which it is cut.
    """

    name: str
    source: str
    ndrange: NDRange
    buffers: tuple[int, ...]
    scalars: tuple[int, ...]
    dim: int

    @property
    def values(self) -> tuple[bytes | None, ...]:
        """The arguments' bytes, None for buffers."""
        return (*(None,) * len(self.buffers), *(struct.pack("<i", value) for value in self.scalars))

    @property
    def buffer_nbytes(self) -> tuple[int | None, ...]:
        """The buffers' sizes, None for scalars."""
        return (*self.buffers, *(None,) * len(self.scalars))

    def slabs(self, members: int = MEMBERS) -> list[GroupBox]:
        """A box for each member."""
        found = []
        for k in range(members):
            start, stop = [0, 0, 0], list(self.ndrange.num_groups)
            count = stop[self.dim]
            start[self.dim], stop[self.dim] = count * k // members, count * (k + 1) // members
            found.append(GroupBox((start[0], start[1], start[2]), (stop[0], stop[1], stop[2])))
        return found


def _pattern(
    name: str,
    body: str,
    size: Sequence[int],
    local: Sequence[int],
    buffers: dict[str, int],
    scalars: dict[str, int],
    dim: int,
) -> Pattern:
    """``buffers``: "int *a" to bytes; ``scalars``: "int n" to the value.  ``x``, ``y``: the global ids."""
    parameters = ", ".join([*(f"__global {each}" for each in buffers), *scalars])
    ids = "int x = get_global_id(0), y = get_global_id(1);"
    source = f"__kernel void k({parameters})\n{{\n    {ids}\n    {body}\n}}\n"
    grid, groups = (*size, *(1,) * (3 - len(size))), (*local, *(1,) * (3 - len(local)))
    ndrange = NDRange(len(size), (0, 0, 0), (grid[0], grid[1], grid[2]), (groups[0], groups[1], groups[2]))
    return Pattern(name, source, ndrange, tuple(buffers.values()), tuple(scalars.values()), dim)


N = 4096
SQUARE, TILE = (N, N), (16, 16)
MATRIX = 4 * N * N
LINE, ITEMS = (1 << 22,), (256,)
INTS = 1 << 24

_STENCIL = "b[y * w + x] = a[y * w + x - 1] + a[y * w + x + 1] + a[(y - 1) * w + x] + a[(y + 1) * w + x];"
_CLAMPED = """int l = max(x - 1, 0), r = min(x + 1, w - 1), u = max(y - 1, 0), d = min(y + 1, h - 1);
    b[y * w + x] = a[y * w + l] + a[y * w + r] + a[u * w + x] + a[d * w + x];"""
_LU = """x += k + 1, y += k + 1;
    if (x < n && y < n)
        a[y * n + x] -= a[y * n + k] * a[k * n + x];"""
_BLOCK = """int lo = x * c, hi = min(n, lo + c);
    for (int j = lo; j < hi; j++)
        a[j] = 1;"""
_BAND = """int lo = max(0, x - b), hi = min(n - 1, x + b);
    for (int k = lo; k <= hi; k++)
        a[x * n + k] = 1;"""
_CORRELATION = """if (x < m - 1) {
        s[x * m + x] = 1;
        for (int k = x + 1; k < m; k++) {
            s[x * m + k] = 0;
            for (int i = 0; i < m; i++)
                s[x * m + k] += d[i * m + x] * d[i * m + k];
            s[k * m + x] = s[x * m + k];
        }
    }"""
_BRICKS = """int b = x / 256, r = x % 256;
    int i = r % 8 + 8 * (b % 32), j = r / 8 % 8 + 8 * (b / 32 % 32), k = r / 64 + 4 * (b / 1024);
    a[(k * 256 + j) * 256 + i] = 1;"""
_BUTTERFLY = """int j = x % s, p = 2 * (x - j) + j;
    float2 t = a[p];
    a[p] = t + a[p + s];
    a[p + s] = t;"""
_MASKED = """uint i = x, j = i & (s - 1), p = ((i & ~(s - 1)) << 1) | j;
    float2 t = a[p];
    a[p] = t + a[p + s];
    a[p + s] = t;"""
_RADIX_4 = """int k = x & (p - 1), to = ((x - k) << 2) + k;
    float2 r[4];
    for (int m = 0; m < 4; m++)
        r[m] = a[x + m * get_global_size(0)];
    for (int m = 0; m < 4; m++)
        b[to + m * p] = r[m];"""
_BITONIC = """uint i = x, p = i ^ j;
    if (p > i) {
        int t = a[i];
        a[i] = a[p];
        a[p] = t;
    }"""
_REVERSED = """uint r = 0, t = x;
    for (int k = 0; k < BITS; k++) {
        r = (r << 1) | (t & 1);
        t >>= 1;
    }
    a[r] = b[x];"""
_VOLUME = """x++, y++;
    for (int z = 1; z < nz - 1; z++)
        if (x < nx - 1 && y < ny - 1)
            b[(z * ny + y) * nx + x] = a[((z - 1) * ny + y) * nx + x] + a[(z * ny + y - 1) * nx + x];"""
_TILED = """int t = y / 16 * (w / 16) + x / 16;
    a[t * 256 + y % 16 * 16 + x % 16] = 1;"""
_REFLECTED = """int l = x - 5, r = x + 5;
    if (l < 0)
        l = -l;
    if (r >= n)
        r = 2 * n - 2 - r;
    b[x] = a[l] + a[r];"""

PATTERNS = (
    _pattern(
        "copy, guarded",
        "if (x < n) a[x] = b[x];",
        (1 << 24,),
        ITEMS,
        {"int *a": 1 << 26, "int *b": 1 << 26},
        {"int n": (1 << 24) - 7},
        0,
    ),
    *(
        _pattern(
            f"matrix {side}, {what}",
            "if (x < w && y < h) a[y * w + x] = 1;",
            (side, side),
            TILE,
            {"int *a": 4 * side * side},
            {"int w": side - less, "int h": side - less},
            dim,
        )
        for side, what, less, dim in ((N, "rows", 3, 1), (N, "columns", 3, 0), (16384, "columns", 0, 0))
    ),
    _pattern(
        "a work-item per column, 16384",
        "for (int k = 0; k < h; k++) a[k * w + x] = 1;",
        (16384,),
        (64,),
        {"int *a": 1 << 30},
        {"int w": 16384, "int h": 16384},
        0,
    ),
    _pattern(
        "stencil, interior",
        f"if (x > 0 && x < w - 1 && y > 0 && y < h - 1) {_STENCIL}",
        SQUARE,
        TILE,
        {"int *b": MATRIX, "const int *a": MATRIX},
        {"int w": N, "int h": N},
        1,
    ),
    _pattern(
        "stencil, clamped",
        _CLAMPED,
        SQUARE,
        TILE,
        {"int *b": MATRIX, "const int *a": MATRIX},
        {"int w": N, "int h": N},
        1,
    ),
    _pattern("LU, step k", _LU, SQUARE, TILE, {"float *a": MATRIX}, {"int n": N, "int k": 17}, 1),
    _pattern(
        "transposition",
        "b[x * h + y] = a[y * w + x];",
        SQUARE,
        TILE,
        {"int *b": MATRIX, "const int *a": MATRIX},
        {"int w": N, "int h": N},
        1,
    ),
    _pattern(
        "triangle 8192",
        "if (x <= y && y < n) a[y * n + x] = 1;",
        (8192, 8192),
        TILE,
        {"int *a": 1 << 28},
        {"int n": 8192},
        1,
    ),
    _pattern(
        "triangle 65536",
        "size_t u = x, v = y; if (u <= v && v < n) a[v * n + u] = 1;",
        (65536, 65536),
        TILE,
        {"char *a": 1 << 32},
        {"int n": 65536},
        1,
    ),
    _pattern(
        "triangle in a loop 16384",
        "for (int k = 0; k <= x; k++) a[x * n + k] = 1;",
        (16384,),
        (64,),
        {"int *a": 1 << 30},
        {"int n": 16384},
        0,
    ),
    _pattern(
        "triangle, packed 2048",
        "if (x <= y) a[y * (y + 1) / 2 + x] = 1;",
        (2048, 2048),
        TILE,
        {"int *a": 2 * 2048 * 2049},
        {},
        1,
    ),
    _pattern(
        "blocks of a work-item",
        _BLOCK,
        (N,),
        (64,),
        {"int *a": INTS},
        {"int n": (1 << 22) - 100, "int c": 1024},
        0,
    ),
    _pattern(
        "volume 256, z in a loop",
        _VOLUME,
        (256, 256),
        TILE,
        {"float *b": 1 << 26, "const float *a": 1 << 26},
        {"int nx": 256, "int ny": 256, "int nz": 256},
        1,
    ),
    _pattern("band", _BAND, (N,), (64,), {"int *a": MATRIX}, {"int n": N, "int b": 9}, 0),
    _pattern("a field of structures", "a[4 * x + 1] = 1;", LINE, ITEMS, {"int *a": 1 << 26}, {}, 0),
    _pattern(
        "checkerboard",
        "if ((x + y) % 2 == c) a[y * w + x] = 1;",
        SQUARE,
        TILE,
        {"int *a": MATRIX},
        {"int w": N, "int c": 1},
        1,
    ),
    _pattern(
        "checkerboard, halved",
        "a[y * w + 2 * x + ((y + c) & 1)] = 1;",
        (N // 2, N),
        TILE,
        {"int *a": MATRIX},
        {"int w": N, "int c": 1},
        1,
    ),
    _pattern(
        "ring", "a[(x + s) % n] = 1;", LINE, ITEMS, {"int *a": INTS}, {"int n": 1 << 22, "int s": 777}, 0
    ),
    *(
        _pattern(f"bitonic partners, {j}", _BITONIC, LINE, ITEMS, {"int *a": INTS}, {"uint j": j}, 0)
        for j in (1024, 2)
    ),
    *(
        _pattern(
            f"correlation {m}",
            _CORRELATION,
            (m,),
            (64,),
            {"float *s": 4 * m * m, "float *d": 4 * m * m},
            {"int m": m},
            0,
        )
        for m in (512, 1024, 4096)
    ),
    *(
        _pattern(
            f"flat index over width {w}",
            "int u = x % w, v = x / w; a[v * (w + 8) + u] = 1;",
            LINE,
            ITEMS,
            {"int *a": 4 * 2100 * 2056},
            {"int w": w},
            0,
        )
        for w in (2048, 2001)
    ),
    _pattern(
        "transposition, flat",
        "a[(x % w) * h + x / w] = 1;",
        LINE,
        ITEMS,
        {"int *a": INTS},
        {"int w": 2048, "int h": 2048},
        0,
    ),
    _pattern(
        "grid stride",
        "for (int i = x; i < n; i += get_global_size(0)) a[i] = 1;",
        (1 << 16,),
        ITEMS,
        {"int *a": 1 << 26},
        {"int n": (1 << 24) - 5},
        0,
    ),
    *(
        _pattern(f"tiled layout, {what}", _TILED, SQUARE, TILE, {"float *a": MATRIX}, {"int w": N}, dim)
        for what, dim in (("rows", 1), ("columns", 0))
    ),
    _pattern(
        "even and odd halves",
        "a[x / 2 + x % 2 * (n / 2)] = 1;",
        LINE,
        ITEMS,
        {"int *a": INTS},
        {"int n": 1 << 22},
        0,
    ),
    _pattern("bricks of 8 x 8 x 4", _BRICKS, (1 << 24,), ITEMS, {"float *a": 1 << 26}, {}, 0),
    *(
        _pattern(f"butterfly, {s}", _BUTTERFLY, LINE, ITEMS, {"float2 *a": 1 << 26}, {"int s": s}, 0)
        for s in (1024, 1 << 21)
    ),
    *(
        _pattern(
            f"radix 4, {p}",
            _RADIX_4,
            (1 << 18,),
            (64,),
            {"const float2 *a": 1 << 23, "float2 *b": 1 << 23},
            {"int p": p},
            0,
        )
        for p in (4, 4096)
    ),
    _pattern("butterfly by masks", _MASKED, LINE, ITEMS, {"float2 *a": 1 << 26}, {"uint s": 1024}, 0),
    *(
        _pattern(
            f"bits reversed, {bits}",
            _REVERSED.replace("BITS", str(bits)),
            (1 << bits,),
            (64,),
            {"int *a": 4 << bits, "int *b": 4 << bits},
            {},
            0,
        )
        for bits in (10, 20)
    ),
    _pattern(
        "anti-diagonal",
        "int v = d - x; if (v >= 0 && v < w && x < w) a[v * w + x] = 1;",
        (N,),
        (64,),
        {"int *a": MATRIX},
        {"int w": N, "int d": N},
        0,
    ),
    _pattern(
        "ends reflected",
        _REFLECTED,
        LINE,
        ITEMS,
        {"float *b": INTS, "const float *a": INTS},
        {"int n": 1 << 22},
        0,
    ),
    _pattern(
        "halved picture",
        "b[y * (w / 2) + x] = a[2 * y * w + 2 * x] + a[(2 * y + 1) * w + 2 * x + 1];",
        (N // 2, N // 2),
        TILE,
        {"float *b": N * N, "const float *a": MATRIX},
        {"int w": N},
        1,
    ),
)
