"""Sums of absolute differences, as video encoders compare blocks of a frame with the frame before.

For each block of 4 x 4 pixels and each offset within a range the sum; then those of 8 x 8 and 16 x 16, from
four smaller ones each.  The host takes the best offset of each of the largest.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Array, Arrays, Session, WrongResult, sample

TITLE = "SAD"
LOCAL = 32


@dataclass(frozen=True, slots=True)
class Size:
    """Frames of ``width`` x ``height`` pixels, multiples of 16; offsets up to ``reach`` in each direction."""

    width: int
    height: int
    reach: int
    frames: int

    @property
    def offsets(self) -> int:
        """How many offsets there are."""
        return (2 * self.reach + 1) ** 2


SIZES = {
    "smoke": Size(48, 32, 3, 3),
    "cpu": Size(176, 144, 16, 4),
    "gpu": Size(1920, 1072, 16, 4),
}

SOURCE = """
__kernel void sums_of_4(__global const uchar *frame, __global const uchar *before, __global ushort *sums,
                        int width, int height, int reach, int offsets)
{
    int offset = get_global_id(0), block = get_global_id(1);
    if (offset >= offsets)
        return;
    int side = 2 * reach + 1, x = block % (width / 4) * 4, y = block / (width / 4) * 4;
    int right = offset % side - reach, down = offset / side - reach;
    int sum = 0;
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            int from_x = clamp(x + i + right, 0, width - 1), from_y = clamp(y + j + down, 0, height - 1);
            sum += abs_diff(frame[(y + j) * width + x + i], before[from_y * width + from_x]);
        }
    sums[block * offsets + offset] = sum;
}

/* per_row: of the larger blocks */
__kernel void larger_sums(__global const ushort *small, __global ushort *sums, int per_row, int offsets)
{
    int offset = get_global_id(0), block = get_global_id(1);
    if (offset >= offsets)
        return;
    int first = block / per_row * 4 * per_row + block % per_row * 2;
    sums[block * offsets + offset] = small[first * offsets + offset] + small[(first + 1) * offsets + offset]
                                     + small[(first + 2 * per_row) * offsets + offset]
                                     + small[(first + 2 * per_row + 1) * offsets + offset];
}
"""


def inputs(size: Size) -> Arrays:
    """A picture that moves, and noise."""
    random = np.random.default_rng(14)
    picture = random.integers(0, 200, (size.height, size.width))
    moved = [np.roll(picture, (k, 2 * k), (0, 1)) for k in range(size.frames)]
    return {"frames": np.array([m + random.integers(0, 50, m.shape) for m in moved]).astype(np.uint8)}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """Each frame against the one before."""
    blocks = size.width // 4 * (size.height // 4)
    results = [session.empty(2 * size.offsets * blocks // parts) for parts in (1, 4, 16)]
    items, offsets = -(-size.offsets // LOCAL) * LOCAL, np.int32(size.offsets)
    before, best, last = session.upload(inputs["frames"][0]), [], np.empty(0, np.uint16)
    for frame in inputs["frames"][1:]:
        now = session.upload(frame)
        scalars = np.int32(size.width), np.int32(size.height), np.int32(size.reach), offsets
        session.launch("sums_of_4", [items, blocks], [LOCAL, 1], now, before, results[0], *scalars)
        for level in (1, 2):
            small, large = results[level - 1], results[level]
            scalars = np.int32(size.width >> (2 + level)), offsets
            session.launch("larger_sums", [items, blocks >> 2 * level], [LOCAL, 1], small, large, *scalars)
        last = session.download(results[2], (blocks // 16, size.offsets), np.uint16)
        best.append(last.argmin(axis=1))
        before = now
    return {"sums": last, "best": np.array(best)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Some blocks of the last frame, all offsets."""
    before, frame = (inputs["frames"][k].astype(np.int64) for k in (-2, -1))
    padded = np.pad(before, size.reach, "edge")
    for block in sample(outputs["sums"].shape[0], 6):
        wanted = _sums(size, frame, padded, int(block))
        if not np.array_equal(outputs["sums"][block], wanted):
            raise WrongResult(f"sums of block {block} are {outputs['sums'][block][:4]}, not {wanted[:4]}")
        if outputs["best"][-1][block] != wanted.argmin():
            raise WrongResult(f"the best offset of block {block} is not {outputs['best'][-1][block]}")


def _sums(size: Size, frame: Array, padded: Array, block: int) -> Array:
    y, x = (16 * part for part in divmod(block, size.width // 16))
    own, side = frame[y : y + 16, x : x + 16], 2 * size.reach + 1
    return np.array(
        [abs(own - padded[y + k // side :, x + k % side :][:16, :16]).sum() for k in range(side * side)]
    )
