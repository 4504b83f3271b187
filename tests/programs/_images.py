"""What the programs about images share: making them, moving pixels."""

from collections.abc import Sequence

import numpy as np
import pyopencl as cl
from pyopencl import _cl

from tests.programs._kit import Array

RGBA, BGRA, R, A = (cl.channel_order.RGBA, cl.channel_order.BGRA, cl.channel_order.R, cl.channel_order.A)
UNORM8, SNORM8 = cl.channel_type.UNORM_INT8, cl.channel_type.SNORM_INT8
UNORM16, SNORM16 = cl.channel_type.UNORM_INT16, cl.channel_type.SNORM_INT16
INT8, INT16, INT32 = (cl.channel_type.SIGNED_INT8, cl.channel_type.SIGNED_INT16, cl.channel_type.SIGNED_INT32)
UINT8, UINT16 = cl.channel_type.UNSIGNED_INT8, cl.channel_type.UNSIGNED_INT16
UINT32, HALF, FLOAT = (cl.channel_type.UNSIGNED_INT32, cl.channel_type.HALF_FLOAT, cl.channel_type.FLOAT)
IMAGE1D, IMAGE1D_ARRAY = cl.mem_object_type.IMAGE1D, cl.mem_object_type.IMAGE1D_ARRAY
IMAGE1D_BUFFER, IMAGE2D = cl.mem_object_type.IMAGE1D_BUFFER, cl.mem_object_type.IMAGE2D
IMAGE2D_ARRAY, IMAGE3D = cl.mem_object_type.IMAGE2D_ARRAY, cl.mem_object_type.IMAGE3D


def image(
    ctx: cl.Context,
    kind: int,
    order: int,
    channel: int,
    shape: Sequence[int],
    flags: int = cl.mem_flags.READ_WRITE,
    host: Array | None = None,
    pitches: Sequence[int] = (0, 0),
    buffer: cl.Buffer | None = None,
) -> cl.Image:
    """An image of ``shape`` pixels (x first; the layers of an array last)."""
    described = cl.ImageDescriptor()
    described.image_type = kind
    described.shape = (*shape, 1, 1)[:3] if kind != IMAGE1D_ARRAY else (shape[0], 1, 1)
    described.array_size = shape[-1] if kind in (IMAGE1D_ARRAY, IMAGE2D_ARRAY) else 0
    described.pitches = tuple(pitches)
    described.num_mip_levels = described.num_samples = 0
    described.buffer = buffer
    if host is not None and not flags & (cl.mem_flags.USE_HOST_PTR | cl.mem_flags.COPY_HOST_PTR):
        flags |= cl.mem_flags.COPY_HOST_PTR
    return cl.Image(ctx, flags, cl.ImageFormat(order, channel), desc=described, hostbuf=host)


def region_of(shape: Sequence[int]) -> tuple[int, int, int]:
    """``shape`` with ones for what it lacks."""
    full = (*shape, 1, 1)
    return (full[0], full[1], full[2])


def read(queue: cl.CommandQueue, source: cl.Image, shape: Sequence[int], like: Array) -> Array:
    """All pixels, in an array shaped and typed like ``like``."""
    result = np.empty_like(like, order="C")
    # Not enqueue_copy: it knows no arrays of images.
    _cl._enqueue_read_image(queue, source, (0, 0, 0), region_of(shape), result)
    return result


def write(queue: cl.CommandQueue, target: cl.Image, shape: Sequence[int], pixels: Array) -> None:
    """Set all pixels."""
    _cl._enqueue_write_image(queue, target, (0, 0, 0), region_of(shape), pixels, is_blocking=True)
