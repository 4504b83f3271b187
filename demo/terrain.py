"""Erodes a real landscape with OpenCL and draws it before and after.

The data are those that matplotlib ships: the elevations around the Jacksboro fault in Tennessee, on a
grid of 3 arc seconds.  Material slides down slopes that are steeper than it can bear.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pyopencl as cl
from matplotlib.cbook import get_sample_data

mpl.use("Agg")
import matplotlib.pyplot as plt

Grid = npt.NDArray[np.float32]

GROUP = (32, 8)
METRES_PER_CELL = 92.6

SOURCE = """
float at(__global const float *grid, int x, int y, int w, int h)
{
    return grid[clamp(y, 0, h - 1) * w + clamp(x, 0, w - 1)];
}

__kernel void enlarge(__global const short *coarse, __global float *fine, int factor, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w * factor || y >= h * factor)
        return;
    float u = (x + 0.5f) / factor - 0.5f, v = (y + 0.5f) / factor - 0.5f;
    int x0 = (int)floor(u), y0 = (int)floor(v);
    float fx = u - x0, fy = v - y0;
    int left = clamp(x0, 0, w - 1), right = clamp(x0 + 1, 0, w - 1);
    int low = clamp(y0, 0, h - 1) * w, high = clamp(y0 + 1, 0, h - 1) * w;
    fine[y * w * factor + x] = (coarse[low + left] * (1 - fx) + coarse[low + right] * fx) * (1 - fy)
                             + (coarse[high + left] * (1 - fx) + coarse[high + right] * fx) * fy;
}

/* What slides over an edge whose ends differ by d. */
float slide(float d, float bearable)
{
    return 0.12f * (d - clamp(d, -bearable, bearable));
}

__kernel void erode(__global const float *old, __global float *new_grid, float bearable, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h)
        return;
    float here = old[y * w + x];
    new_grid[y * w + x] = here
        + slide(at(old, x - 1, y, w, h) - here, bearable) + slide(at(old, x + 1, y, w, h) - here, bearable)
        + slide(at(old, x, y - 1, w, h) - here, bearable) + slide(at(old, x, y + 1, w, h) - here, bearable);
}

__kernel void hillshade(__global const float *grid, __global uchar *shade, float cell, float3 sun,
                        int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h)
        return;
    float dx = (at(grid, x + 1, y, w, h) - at(grid, x - 1, y, w, h)) / (2 * cell);
    float dy = (at(grid, x, y + 1, w, h) - at(grid, x, y - 1, w, h)) / (2 * cell);
    float3 normal = normalize((float3)(-3 * dx, 3 * dy, 1));
    shade[y * w + x] = convert_uchar_sat(255 * max(dot(normal, sun), 0.0f));
}
"""


@dataclass(frozen=True)
class Landscape:
    """Heights in metres and brightness from 0 to 255, both (rows, columns)."""

    heights: Grid
    shade: npt.NDArray[np.uint8]


class Terrain:
    """The landscape on the first OpenCL device."""

    def __init__(self, elevation: npt.NDArray[np.int16], factor: int) -> None:
        platforms = cl.get_platforms()
        device = platforms[0].get_devices()[0]
        self.name = device.name
        self.shape = (elevation.shape[0] * factor, elevation.shape[1] * factor)
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context)
        program = cl.Program(self._context, SOURCE).build()
        self._enlarge = cl.Kernel(program, "enlarge")
        self._erode = cl.Kernel(program, "erode")
        self._hillshade = cl.Kernel(program, "hillshade")
        read_only = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        self._coarse = cl.Buffer(self._context, read_only, hostbuf=np.ascontiguousarray(elevation))
        nbytes = 4 * self.shape[0] * self.shape[1]
        self._now, self._next = (cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes) for _ in range(2))
        self._shade = cl.Buffer(self._context, cl.mem_flags.WRITE_ONLY, nbytes // 4)
        self._cell = METRES_PER_CELL / factor
        self._factor = factor
        self.start()

    def start(self) -> None:
        """Set the landscape to the data."""
        height, width = self.shape
        sizes = np.int32(self._factor), np.int32(width // self._factor), np.int32(height // self._factor)
        self._enlarge(self._queue, self._global_size, GROUP, self._coarse, self._now, *sizes)

    def erode(self, steps: int, bearable_slope: float) -> None:
        """Let material slide for so many steps."""
        bearable = np.float32(bearable_slope * self._cell)
        for _ in range(steps):
            self._erode(self._queue, self._global_size, GROUP, self._now, self._next, bearable, *self._sizes)
            self._now, self._next = self._next, self._now

    def look(self) -> Landscape:
        """The landscape as it is now, lit from the north-west."""
        sun = np.array([-0.5, 0.5, 0.7071, 0], np.float32)
        cell = np.float32(self._cell)
        self._hillshade(
            self._queue, self._global_size, GROUP, self._now, self._shade, cell, sun, *self._sizes
        )
        heights, shade = np.empty(self.shape, np.float32), np.empty(self.shape, np.uint8)
        cl.enqueue_copy(self._queue, heights, self._now)
        cl.enqueue_copy(self._queue, shade, self._shade)
        return Landscape(heights, shade)

    @property
    def _global_size(self) -> tuple[int, int]:
        """Columns and rows, rounded up to whole groups."""
        return (-(-self.shape[1] // GROUP[0]) * GROUP[0], -(-self.shape[0] // GROUP[1]) * GROUP[1])

    @property
    def _sizes(self) -> tuple[np.int32, np.int32]:
        return np.int32(self.shape[1]), np.int32(self.shape[0])


def draw(path: Path, before: Landscape, after: Landscape, steps: int) -> None:
    """Save both landscapes, coloured by height and shaded, and what the erosion has moved."""
    moved = after.heights - before.heights
    extreme = float(np.abs(moved).max()) or 1.0
    low, high = float(before.heights.min()), float(before.heights.max())
    figure, axes = plt.subplots(1, 3, figsize=(16, 5), layout="constrained")
    for axis, landscape, title in zip(
        axes, (before, after), ("before", f"after {steps} steps"), strict=False
    ):
        colour = plt.get_cmap("gist_earth")((landscape.heights - low) / (high - low))[..., :3]
        axis.imshow(colour * (0.25 + 0.75 * landscape.shade[..., None] / 255))
        axis.set_title(title)
    image = axes[2].imshow(moved, cmap="RdBu", vmin=-extreme / 2, vmax=extreme / 2)
    axes[2].set_title("moved")
    figure.colorbar(image, ax=axes[2], label="metres", shrink=0.85)
    for axis in axes:
        axis.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Erode, check, draw, and print checksum and time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--factor", type=int, default=3, help="how much finer than the data the grid is")
    parser.add_argument("--slope", type=float, default=0.15, help="what the material can bear")
    parser.add_argument("--out", type=Path, default=Path("terrain.png"))
    parser.add_argument("--raw", type=Path, help="also store the heights and the shade, as bytes")
    options = parser.parse_args()

    data: Mapping[str, npt.NDArray[np.int16]] = get_sample_data("jacksboro_fault_dem.npz")  # type: ignore[assignment]
    terrain = Terrain(data["elevation"], options.factor)
    before = terrain.look()
    terrain.erode(2, options.slope)  # some drivers compile at the first launch, which is not measured
    terrain.start()
    terrain.look()

    start = time.perf_counter()
    terrain.erode(options.steps, options.slope)
    after = terrain.look()
    seconds = time.perf_counter() - start

    drift = float(after.heights.mean(dtype=np.float64) - before.heights.mean(dtype=np.float64))
    if not abs(drift) < 0.01:
        raise SystemExit(f"the mean height has changed by {drift} m: material was lost or made")
    draw(options.out, before, after, options.steps)
    result = after.heights.tobytes() + after.shade.tobytes()
    if options.raw:
        options.raw.write_bytes(result)
    print(f"device {terrain.name}")
    print(f"{options.steps} steps on {terrain.shape[1]} x {terrain.shape[0]} cells: right")
    print(f"picture {options.out}")
    print(f"checksum {hashlib.sha256(result).hexdigest()[:16]}")
    print(f"time {seconds:.3f}")


if __name__ == "__main__":
    main()
