"""Images of OpenCL drivers, for ``opencl.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pyopencl as cl
from pyopencl import _cl

from sdi.devices.image import ImageShape, Slabs, is_known_format
from sdi.wire.opencl import MemFlags, MemObjectType

_ACCESSES = (MemFlags.READ_WRITE, MemFlags.WRITE_ONLY, MemFlags.READ_ONLY, MemFlags.KERNEL_READ_AND_WRITE)


@dataclass(slots=True, eq=False)
class MemberImage:
    """An image of a driver's context.

    ``backing``: the bytes themselves, for an image that the driver wants to be a view of a buffer.
    """

    memory: cl.Image
    shape: ImageShape
    backing: cl.Buffer | None

    @property
    def nbytes(self) -> int:
        """Of the member's memory."""
        return self.shape.nbytes

    def release(self) -> None:
        """Give the driver's objects back."""
        self.memory.release()
        if self.backing is not None:
            self.backing.release()


def new_image(context: cl.Context, shape: ImageShape) -> MemberImage:
    """An image of this shape, its pixels undefined.  Raises cl.Error."""
    flags, backing = cl.mem_flags.READ_WRITE, None
    if shape.type == MemObjectType.IMAGE1D_BUFFER:
        backing = cl.Buffer(context, flags, shape.nbytes)
    image_format = cl.ImageFormat(shape.order, shape.data_type)
    return MemberImage(
        cl.Image(context, flags, image_format, desc=_descriptor(shape, backing)), shape, backing
    )


def copy_pixels(
    queue: cl.CommandQueue, image: MemberImage, slabs: Slabs, buffer: cl.Buffer, offset: int, to_image: bool
) -> cl.Event:
    """Between a buffer and an image: one command where the pixels have no gaps, else one for each row."""
    shape = image.shape
    origin, (width, rows, planes) = shape.region_of(slabs)
    dense_rows = rows == 1 or shape.row_pitch == width * shape.pixel_nbytes
    dense_planes = dense_rows and (planes == 1 or shape.plane_pitch == rows * shape.row_pitch)
    counts = (1, 1) if dense_planes else (planes, 1) if dense_rows else (planes, rows)
    region = (width, rows // counts[1], planes // counts[0])
    event = None
    for plane in range(counts[0]):
        for row in range(counts[1]):
            at = (origin[0], origin[1] + row, origin[2] + plane)
            byte = offset + at[0] * shape.pixel_nbytes + at[1] * shape.row_pitch + at[2] * shape.plane_pitch
            if image.backing is not None:
                here, there = (byte, at[0] * shape.pixel_nbytes)
                source, target = (buffer, image.backing) if to_image else (image.backing, buffer)
                event = cl.enqueue_copy(
                    queue,
                    target,
                    source,
                    src_offset=here if to_image else there,
                    dst_offset=there if to_image else here,
                    byte_count=region[0] * shape.pixel_nbytes,
                )
            elif to_image:
                event = _cl._enqueue_copy_buffer_to_image(queue, buffer, image.memory, byte, at, region)
            else:
                event = _cl._enqueue_copy_image_to_buffer(queue, image.memory, buffer, at, region, byte)
    assert event is not None
    return event


def _descriptor(shape: ImageShape, backing: cl.Buffer | None) -> cl.ImageDescriptor:
    made = cl.ImageDescriptor()
    made.image_type = cast(cl.mem_object_type, shape.type)
    made.shape = (shape.width, shape.rows, shape.planes)
    layers = {MemObjectType.IMAGE1D_ARRAY: shape.rows, MemObjectType.IMAGE2D_ARRAY: shape.planes}
    made.array_size = layers.get(cast(MemObjectType, shape.type), 0)
    made.pitches = (0, 0)
    made.num_mip_levels = made.num_samples = 0
    made.buffer = backing
    return made


def image_formats(context: cl.Context) -> dict[tuple[int, int], int]:
    """See ``Capabilities.formats``."""
    found: dict[tuple[int, int], int] = {}
    for image_type in range(MemObjectType.IMAGE2D, MemObjectType.IMAGE1D_BUFFER + 1):
        for access, flag in enumerate(_ACCESSES):
            try:
                formats = cl.get_supported_image_formats(
                    context, cast(cl.mem_flags, flag.value), cast(cl.mem_object_type, image_type)
                )
            except cl.Error:
                continue  # the driver does not know this access
            for item in formats:
                key = (int(item.channel_order), int(item.channel_data_type))
                if is_known_format(*key):
                    found[key] = found.get(key, 0) | 1 << (4 * (image_type - MemObjectType.IMAGE2D) + access)
    return found
