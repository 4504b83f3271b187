"""Reads, writes and copies of narrow columns that several members hold, with all widths and pitches."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"co_step": "split", "co_some": "split"}

SOURCE = """
__kernel void co_step(__global uint *data, uint k)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 69069u + k;
}

__kernel void co_some(__global uint *data, uint k)
{
    size_t i = get_global_id(0) * 16;
    data[i] = data[i] * 69069u + k;
}
"""
ROWS, SLICES = 70, 3
SHAPES = (
    (1, (64, 0), (1, 0)),
    (2, (64, 0), (7, 0)),
    (4, (48, 48 * 80), (4, 0)),
    (8, (256, 0), (8, 8 * 100)),
    (12, (64, 0), (12, 0)),
    (40, (128, 128 * 71), (41, 0)),
)
"""Bytes of a row, and the pitches (0: none) of rows and slices in the buffer and on the host."""
LARGE = (192, 24576, 400)
"""Bytes of a row, rows, pitch: so many bytes that several threads of the application copy them."""


def box(start: int, region: tuple[int, int, int], pitches: tuple[int, int]) -> Array:
    """Where the bytes of a rectangle are."""
    row = pitches[0] or region[0]
    slice_ = pitches[1] or row * region[1]
    z, y, x = np.ogrid[: region[2], : region[1], : region[0]]
    return np.asarray(start + z * slice_ + y * row + x).ravel()


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Columns to the host and back, to where other columns are; between kernels that members share."""
    step, some = kernels(ctx, SOURCE, "co_step", "co_some")
    random = np.random.default_rng(9)
    outputs: Outputs = {}
    data = random.integers(0, 1 << 32, 1 << 14, dtype=np.uint32)
    device = to_device(ctx, data)
    truth = data.copy()
    for number, (nbytes, pitches, host_pitches) in enumerate(SHAPES):
        region = (nbytes, ROWS, SLICES)
        step(queue, (data.size,), (64,), device, np.uint32(number))
        truth = truth * np.uint32(69069) + np.uint32(number)
        inside, outside = box(5 + number, region, pitches), box(3, region, host_pitches)
        size = int(outside.max()) + 9
        read, expected = np.full(size, 7, np.uint8), np.full(size, 7, np.uint8)
        expected[outside] = truth.view(np.uint8)[inside]
        shape = {
            "buffer_origin": (5 + number, 0, 0),
            "host_origin": (3, 0, 0),
            "region": region,
            "buffer_pitches": pitches,
            "host_pitches": host_pitches,
        }
        cl.enqueue_copy(queue, read, device, is_blocking=number % 2 == 0, **shape)
        written = random.integers(0, 256, size, dtype=np.uint8)
        if number % 3:
            step(queue, (data.size,), (64,), device, np.uint32(number))
            truth = truth * np.uint32(69069) + np.uint32(number)
        cl.enqueue_copy(queue, device, written, is_blocking=number % 2 == 1, **shape)
        truth.view(np.uint8)[inside] = written[outside]
        queue.finish()
        same(read, expected, f"read of {nbytes} bytes a row")
        outputs[f"read {nbytes}"] = read
    outputs["data"] = to_host(queue, device, data)
    same(outputs["data"], truth, "data")
    nbytes, rows, pitch = LARGE
    data = random.integers(0, 1 << 32, rows * pitch // 4, dtype=np.uint32)
    device = to_device(ctx, data)
    some(queue, (data.size // 16,), (64,), device, np.uint32(1))
    truth = data.copy()
    truth[::16] = truth[::16] * np.uint32(69069) + np.uint32(1)
    read = np.zeros((rows, nbytes), np.uint8)
    for at in (0, 64):  # what is read is written a little further on
        shape = {
            "buffer_origin": (at, 0, 0),
            "host_origin": (0, 0, 0),
            "region": (nbytes, rows, 1),
            "buffer_pitches": (pitch, 0),
            "host_pitches": (nbytes, 0),
        }
        cl.enqueue_copy(queue, *((device, read) if at else (read, device)), **shape)
    pixels = truth.view(np.uint8).reshape(rows, pitch)
    same(read, pixels[:, :nbytes], "large read")
    pixels[:, 64 : 64 + nbytes] = read
    some(queue, (data.size // 16,), (64,), device, np.uint32(2))
    truth[::16] = truth[::16] * np.uint32(69069) + np.uint32(2)
    result = to_host(queue, device, data)
    same(result, truth, "large data")
    outputs["sums"] = result.reshape(rows, -1).sum(axis=1, dtype=np.uint64)
    return outputs
