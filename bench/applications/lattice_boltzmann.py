"""A gas in a closed box by the lattice Boltzmann method (D3Q19), in place.

One array holds 19 populations of each cell side by side.  In an even step a cell collides what is its own
and leaves it in the opposite slots; in an odd one it collides what its neighbours left for it and puts the
results into their slots.  So two cells on both sides of a plane write different bytes of the plane between
them.  A layer of solid cells around the box keeps what arrives until the cell that sent it takes it back.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Array, Arrays, Session, WrongResult, expect_close

TITLE = "Lattice Boltzmann"
RELAXATION = 1.2
WAYS = (
    (0, 0, 0),
    *((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)),
    *((1, 1, 0), (-1, -1, 0), (1, -1, 0), (-1, 1, 0), (1, 0, 1), (-1, 0, -1)),
    *((1, 0, -1), (-1, 0, 1), (0, 1, 1), (0, -1, -1), (0, 1, -1), (0, -1, 1)),
)
"""Direction 2 k is opposite to 2 k - 1."""
WEIGHTS = np.array([1 / 3] + [1 / 18] * 6 + [1 / 36] * 12)
LOCAL = (16, 4, 1)


@dataclass(frozen=True, slots=True)
class Size:
    """A box of ``width`` x ``side`` x ``side`` cells; ``steps`` is even."""

    width: int
    side: int
    steps: int


SIZES = {
    "smoke": Size(14, 9, 4),
    "cpu": Size(96, 62, 10),
    "paper": Size(254, 254, 50),
    "gpu": Size(510, 510, 100),
}


def _opposite(way: int) -> int:
    return way if way == 0 else way + 1 if way % 2 else way - 1


def _each_way(line: str) -> str:
    """``line`` for every direction: I and O are the numbers of it and of its opposite, X, Y, Z its steps."""
    return "\n".join(
        f"    {line};".replace("I", str(i))
        .replace("O", str(_opposite(i)))
        .replace("X", f"({x})")
        .replace("Y", f"({y})")
        .replace("Z", f"({z})")
        for i, (x, y, z) in enumerate(WAYS)
    )


SOURCE = f"""
size_t slot(int x, int y, int z, int way, int width, int height)
{{
    return 19 * (((size_t)z * height + y) * width + x) + way;
}}

float weight(int way)
{{
    return way == 0 ? 1.0f / 3.0f : way < 7 ? 1.0f / 18.0f : 1.0f / 36.0f;
}}

float balanced(int way, float density, float rest, float along)
{{
    return weight(way) * density * (rest + 3.0f * along + 4.5f * along * along);
}}

void collide(float *f, float relaxation)
{{
    float density = 0.0f, x = 0.0f, y = 0.0f, z = 0.0f;
{_each_way("density += f[I]; x += X * f[I]; y += Y * f[I]; z += Z * f[I]")}
    x /= density;
    y /= density;
    z /= density;
    float rest = 1.0f - 1.5f * (x * x + y * y + z * z);
{_each_way("f[I] += relaxation * (balanced(I, density, rest, X * x + Y * y + Z * z) - f[I])")}
}}

/* Densities that differ from cell to cell, at rest. */
__kernel void start_gas(__global float *cells, int width, int height, int depth)
{{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    if (x >= width || y >= height || z >= depth)
        return;
    float density = 1.0f + 0.01f * ((7 * x + 11 * y + 13 * z) % 17);
    for (int i = 0; i < 19; i++)
        cells[slot(x, y, z, i, width, height)] = density * weight(i);
}}

__kernel void even_step(__global float *cells, int width, int height, int depth, float relaxation)
{{
    int x = get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
    if (x >= width - 1 || y >= height - 1 || z >= depth - 1)
        return;
    float f[19];
{_each_way("f[I] = cells[slot(x, y, z, I, width, height)]")}
    collide(f, relaxation);
{_each_way("cells[slot(x, y, z, O, width, height)] = f[I]")}
}}

__kernel void odd_step(__global float *cells, int width, int height, int depth, float relaxation)
{{
    int x = get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
    if (x >= width - 1 || y >= height - 1 || z >= depth - 1)
        return;
    float f[19];
{_each_way("f[I] = cells[slot(x - X, y - Y, z - Z, O, width, height)]")}
    collide(f, relaxation);
{_each_way("cells[slot(x + X, y + Y, z + Z, I, width, height)] = f[I]")}
}}
"""


def inputs(size: Size) -> Arrays:
    """None: the device makes the first state."""
    return {}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """Even and odd steps in turns; the lowest planes of cells are read."""
    width, side = size.width + 2, size.side + 2
    cells = session.empty(19 * 4 * width * side * side)
    extent = np.int32(width), np.int32(side), np.int32(side)
    everywhere = [-(-width // LOCAL[0]) * LOCAL[0], -(-side // LOCAL[1]) * LOCAL[1], side]
    inside = [-(-size.width // LOCAL[0]) * LOCAL[0], -(-size.side // LOCAL[1]) * LOCAL[1], size.side]
    session.launch("start_gas", everywhere, LOCAL, cells, *extent)
    for step in range(size.steps):
        kernel = "odd_step" if step % 2 else "even_step"
        session.launch(kernel, inside, LOCAL, cells, *extent, np.float32(RELAXATION))
    return {"cells": session.download(cells, (_planes(size), side, width, 19), np.float32)}


def _planes(size: Size) -> int:
    """How many planes are read: all of a small box."""
    return min(size.side + 2, 16)


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The same steps on the host; of a large box the planes that its far end can't reach."""
    width, side = size.width + 2, size.side + 2
    planes = min(side, _planes(size) + size.steps + 2)
    z, y, x = np.ogrid[:planes, :side, :width]
    density = 1 + 0.01 * ((7 * x + 11 * y + 13 * z) % 17)
    cells = density[..., None] * WEIGHTS
    found = outputs["cells"]
    if planes * side * width > 4_000_000:
        # Too much for the host: nothing is lost or made, whatever moves.
        if not np.all(np.isfinite(found)) or abs(found.mean() / cells[: len(found)].mean() - 1) > 1e-2:
            raise WrongResult(f"the mean population is {found.mean()}, not {cells[: len(found)].mean()}")
        return
    for step in range(size.steps):
        if step % 2:
            f = np.stack([_seen(cells, way, -1)[..., _opposite(i)] for i, way in enumerate(WAYS)], axis=-1)
            f = _collide(f)
            for i, way in enumerate(WAYS):
                _seen(cells, way, 1)[..., i] = f[..., i]
        else:
            inner = cells[1:-1, 1:-1, 1:-1]
            inner[...] = _collide(inner)[..., [_opposite(i) for i in range(19)]]
    expect_close("cells", found, cells[: len(found)], 1e-4, 0.01)
    if planes == side == len(found):
        expect_close(
            "mass", found.sum(dtype=np.float64, keepdims=True), np.full((1,) * 4, density.sum()), 1e-5
        )


def _seen(cells: Array, way: tuple[int, int, int], sign: int) -> Array:
    """The cells that lie one step from the inner ones."""
    x, y, z = (sign * part for part in way)
    planes, rows, columns = (n - 1 for n in cells.shape[:3])
    return cells[1 + z : planes + z, 1 + y : rows + y, 1 + x : columns + x]


def _collide(f: Array) -> Array:
    """What collisions make of all populations."""
    ways = np.array(WAYS, np.float64)
    density = f.sum(axis=-1, keepdims=True)
    flow = f @ ways / density
    along = flow @ ways.T
    balanced = WEIGHTS * density * (1 - 1.5 * (flow**2).sum(-1, keepdims=True) + 3 * along + 4.5 * along**2)
    result: Array = f + RELAXATION * (balanced - f)
    return result
