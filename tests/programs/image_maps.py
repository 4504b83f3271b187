"""Images mapped whole and in part, with pitches of the application's own, over memory of the application."""

import numpy as np
import pyopencl as cl
from pyopencl import _cl

from tests.programs._images import IMAGE1D_ARRAY, IMAGE2D, IMAGE3D, RGBA, UINT8, image, read
from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"im_sum": "split", "im_set": "some"}

SOURCE = """
__kernel void im_sum(read_only image2d_t image, __global uint *result)
{
    uint sum = 0;
    int x = get_global_id(0);
    for (int y = 0; y < get_image_height(image); y++) {
        uint4 p = read_imageui(image, (int2)(x, y));
        sum = sum * 31 + p.x + p.y * 3 + p.z * 5 + p.w * 7;
    }
    result[x] = sum;
}
__kernel void im_set(write_only image2d_t image)
{
    write_imageui(image, (int2)(get_global_id(0), get_global_id(1)), (uint4)(1, 2, get_global_id(1), 4));
}
"""
READ, WRITE, INVALIDATE = cl.map_flags.READ, cl.map_flags.WRITE, cl.map_flags.WRITE_INVALIDATE_REGION


def strided(
    queue: cl.CommandQueue, picture: cl.Image, flags: int, origin: tuple[int, ...], region: tuple[int, ...]
) -> tuple[Array, object]:
    """A blocking map: planes, rows, pixels and channels, strided as the driver says; and what unmaps it."""
    flat, _, row, plane = _cl.enqueue_map_image(
        queue, picture, flags, origin, region, (1,), np.dtype(np.uint8)
    )
    address = flat.ctypes.data
    shape = (region[2], region[1], region[0], 4)
    strides = (plane or row * region[1], row, 4, 1)
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    memory = (np.ctypeslib.ctypes.c_uint8 * last).from_address(address)
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, np.uint8), shape, strides), flat.base


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Map, look, change, launch."""
    sums, fill = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(10)
    outputs: Outputs = {}
    width, height = 36, 14
    totals = to_device(ctx, np.zeros(width, np.uint32))

    def total(picture: cl.Image) -> Array:
        sums(queue, (width,), (4,), picture, totals)
        return to_host(queue, totals, np.zeros(width, np.uint32))

    for name, flag in (("copied", cl.mem_flags.COPY_HOST_PTR), ("used", cl.mem_flags.USE_HOST_PTR)):
        memory = random.integers(0, 256, (height, width + 5, 4), np.uint8)
        pixels = memory[:, :width]
        picture = image(
            ctx,
            IMAGE2D,
            RGBA,
            UINT8,
            (width, height),
            flag | cl.mem_flags.READ_WRITE,
            memory,
            (memory.strides[0], 0),
        )
        outputs[f"{name}: sum"] = total(picture)
        view, handle = strided(queue, picture, READ, (3, 2, 0), (20, 9, 1))
        same(view[0], pixels[2:11, 3:23], f"{name}: a part mapped for reading")
        handle.release(queue)  # type: ignore[attr-defined]
        view, handle = strided(queue, picture, WRITE | READ, (0, 4, 0), (10, 5, 1))
        other, second = strided(queue, picture, INVALIDATE, (10, 4, 0), (width - 10, 5, 1))
        view[0, :, :] ^= 85
        other[...] = 17
        handle.release(queue)  # type: ignore[attr-defined]
        second.release(queue)  # type: ignore[attr-defined]
        outputs[f"{name}: sum of the changed"] = total(picture)
        outputs[f"{name}: changed"] = read(
            queue, picture, (width, height), np.zeros((height, width, 4), np.uint8)
        )
        view, handle = strided(queue, picture, WRITE, (0, 0, 0), (width, 3, 1))
        cl.enqueue_nd_range_kernel(queue, fill_with(fill, picture), (width, height - 3), (4, 1), (0, 3))
        queue.finish()
        view[0, :, 0] = 99
        handle.release(queue)  # type: ignore[attr-defined]
        outputs[f"{name}: beside a kernel"] = read(
            queue, picture, (width, height), np.zeros((height, width, 4), np.uint8)
        )
        view, handle = strided(queue, picture, READ, (0, 0, 0), (width, height, 1))
        if name == "used":
            same(pixels, view[0], "memory of the application while it is mapped")
        outputs[f"{name}: mapped"] = view.copy()
        handle.release(queue)  # type: ignore[attr-defined]

    volume = random.integers(0, 256, (4, 6, 10, 4), np.uint8)
    cube = image(ctx, IMAGE3D, RGBA, UINT8, (10, 6, 4), host=volume)
    view, handle = strided(queue, cube, READ | WRITE, (1, 2, 1), (8, 3, 2))
    same(view, volume[1:3, 2:5, 1:9], "a box of a volume")
    view[...] += 3
    handle.release(queue)  # type: ignore[attr-defined]
    outputs["volume"] = read(queue, cube, (10, 6, 4), volume)

    lines = random.integers(0, 256, (7, 12, 4), np.uint8)
    array = image(ctx, IMAGE1D_ARRAY, RGBA, UINT8, (12, 7), host=lines)
    _cl._enqueue_read_image(queue, array, (2, 3, 0), (5, 2, 1), part := np.zeros((2, 5, 4), np.uint8))
    outputs["lines"] = part
    padded = np.zeros((9, 64), np.uint8)
    _cl._enqueue_read_image(queue, cube, (1, 1, 1), (5, 3, 2), padded, row_pitch=64, slice_pitch=4 * 64)
    outputs["with pitches"] = padded
    _cl._enqueue_write_image(queue, cube, (0, 0, 0), (5, 3, 2), padded[1:], row_pitch=64, slice_pitch=4 * 64)
    outputs["written with pitches"] = read(queue, cube, (10, 6, 4), volume)
    return outputs


def fill_with(kernel: cl.Kernel, picture: cl.Image) -> cl.Kernel:
    """The kernel with its argument set."""
    kernel.set_args(picture)
    return kernel
