"""Heat on a plane: a five-point stencil that goes from one buffer to the other; the border stays."""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, expect_close

TITLE = "Stencil 2-D"
READ_ROWS = 256


@dataclass(frozen=True, slots=True)
class Size:
    """``width`` x ``height`` points, no round numbers needed."""

    width: int
    height: int
    steps: int


SIZES = {
    "smoke": Size(70, 53, 5),
    "cpu": Size(2000, 1500, 20),
    "paper": Size(8192, 8192, 100),
    "gpu": Size(49152, 49152, 200),
}

SOURCE = """
__kernel void start_plane(__global float *heat, int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x < width && y < height)
        heat[(size_t)y * width + x] = (31 * x + 17 * y) % 97 / 97.0f;
}

__kernel void relax_plane(__global const float *heat, __global float *next, int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    size_t at = (size_t)y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1)
        next[at] = heat[at];
    else
        next[at] = 0.5f * heat[at] + 0.125f * (heat[at - 1] + heat[at + 1]
                                               + heat[at - width] + heat[at + width]);
}
"""


def inputs(size: Size) -> Arrays:
    """None: the device makes the first state."""
    return {}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """A launch for each step; the first rows are read."""
    nbytes = 4 * size.width * size.height
    heat, following = session.empty(nbytes), session.empty(nbytes)
    items = [-(-size.width // 32) * 32, -(-size.height // 8) * 8]
    extent = np.int32(size.width), np.int32(size.height)
    session.launch("start_plane", items, [32, 8], heat, *extent)
    for _ in range(size.steps):
        session.launch("relax_plane", items, [32, 8], heat, following, *extent)
        heat, following = following, heat
    return {"heat": session.download(heat, (min(size.height, READ_ROWS), size.width), np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The rows that were read, from so many rows that what lies below can't reach them."""
    rows = min(size.height, READ_ROWS + size.steps)
    y, x = np.ogrid[:rows, : size.width]
    heat = (31 * x + 17 * y) % 97 / 97.0
    for _ in range(size.steps):
        around = heat[1:-1, :-2] + heat[1:-1, 2:] + heat[:-2, 1:-1] + heat[2:, 1:-1]
        heat[1:-1, 1:-1] = 0.5 * heat[1:-1, 1:-1] + 0.125 * around
    found = outputs["heat"]
    expect_close("heat", found, heat[: len(found)], 1e-4, 1.0)
