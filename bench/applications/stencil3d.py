"""Heat in a box: a seven-point stencil over a three-dimensional NDRange; the border stays."""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, expect_close

TITLE = "Stencil 3-D"
READ_PLANES = 32
LOCAL = (16, 4, 4)


@dataclass(frozen=True, slots=True)
class Size:
    """A cube of ``side`` points, no round number needed."""

    side: int
    steps: int


SIZES = {"smoke": Size(30, 4), "cpu": Size(160, 10), "paper": Size(512, 50), "gpu": Size(1536, 60)}

SOURCE = """
__kernel void start_box(__global float *heat, int side)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    if (x < side && y < side && z < side)
        heat[((size_t)z * side + y) * side + x] = (31 * x + 17 * y + 7 * z) % 97 / 97.0f;
}

__kernel void relax_box(__global const float *heat, __global float *next, int side)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    if (x >= side || y >= side || z >= side)
        return;
    size_t plane = (size_t)side * side, at = z * plane + (size_t)y * side + x;
    float value = heat[at];
    if (x > 0 && y > 0 && z > 0 && x < side - 1 && y < side - 1 && z < side - 1)
        value = 0.4f * value + 0.1f * (heat[at - 1] + heat[at + 1] + heat[at - side] + heat[at + side]
                                       + heat[at - plane] + heat[at + plane]);
    next[at] = value;
}
"""


def inputs(size: Size) -> Arrays:
    """None: the device makes the first state."""
    return {}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """A launch for each step; the lowest planes are read."""
    nbytes = 4 * size.side**3
    heat, following = session.empty(nbytes), session.empty(nbytes)
    items = [-(-size.side // part) * part for part in LOCAL]
    session.launch("start_box", items, LOCAL, heat, np.int32(size.side))
    for _ in range(size.steps):
        session.launch("relax_box", items, LOCAL, heat, following, np.int32(size.side))
        heat, following = following, heat
    planes = min(size.side, READ_PLANES)
    return {"heat": session.download(heat, (planes, size.side, size.side), np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The planes that were read, from so many planes that what lies above can't reach them."""
    planes = min(size.side, READ_PLANES + size.steps)
    z, y, x = np.ogrid[:planes, : size.side, : size.side]
    heat = (31 * x + 17 * y + 7 * z) % 97 / 97.0
    inner = slice(1, -1)
    for _ in range(size.steps):
        around = heat[inner, inner, :-2] + heat[inner, inner, 2:]
        around += heat[inner, :-2, inner] + heat[inner, 2:, inner]
        around += heat[:-2, inner, inner] + heat[2:, inner, inner]
        heat[inner, inner, inner] = 0.4 * heat[inner, inner, inner] + 0.1 * around
    found = outputs["heat"]
    expect_close("heat", found, heat[: len(found)], 1e-4, 1.0)
