"""Images of OpenCL drivers: objects of their own, or views of a buffer's bytes in host memory."""

from __future__ import annotations

import ctypes
import math
from typing import cast

import numpy as np
import pyopencl as cl
from pyopencl import _cl

from sdi.dataclass import dataclass
from sdi.devices.handles import HostBytes
from sdi.devices.image import ImageShape, LinearImage, Slabs, is_known_format
from sdi.devices.opencl.memory import IN_HOST_MEMORY, OpenCLBuffer
from sdi.ndrange import Int3
from sdi.wire.opencl import ChannelOrder, ChannelType, MemFlags, MemObjectType

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


def linear_image(context: cl.Context, image: LinearImage) -> cl.Image:
    """A view of pixels in a buffer whose bytes the host has; it is kept with the buffer.  Raises cl.Error."""
    buffer, shape = cast(OpenCLBuffer, image.buffer), image.shape
    found = buffer.views.get((image.offset, shape))
    if found is None:
        # Not all of the pixels need be inside of the buffer, and kernels use none that is not.
        at = buffer.near + image.offset
        nbytes = max(shape.planes * shape.plane_pitch, shape.rows * shape.row_pitch)
        host = memoryview((ctypes.c_char * nbytes).from_address(at)).cast("B")
        found = _view_of(context, shape, host)
        buffer.keep_view((image.offset, shape), found)
    return found


def _view_of(context: cl.Context, shape: ImageShape, host: HostBytes) -> cl.Image:
    image_format = cl.ImageFormat(shape.order, shape.data_type)
    if shape.type == MemObjectType.IMAGE1D_BUFFER:
        backing = cl.Buffer(context, IN_HOST_MEMORY, hostbuf=host)  # the descriptor does not retain it
        return cl.Image(context, cl.mem_flags.READ_WRITE, image_format, desc=_descriptor(shape, backing))
    desc = _descriptor(shape, None, is_linear=True)
    return cl.Image(context, IN_HOST_MEMORY, image_format, desc=desc, hostbuf=host)


def are_views(context: cl.Context, device: cl.Device) -> bool:
    """Whether the driver's images of host memory are these very bytes, whoever writes to them.

    A driver may keep a copy.  Blocks for a moment.
    """
    shape = ImageShape(MemObjectType.IMAGE2D, ChannelOrder.RGBA, ChannelType.UNSIGNED_INT8, 2, 2, 1, 16, 32)
    host = np.zeros(shape.plane_pitch, np.uint8)
    one, two = (np.full(4, value, np.uint8) for value in (1, 2))
    last, size = (1, 1, 0), (1, 1, 1)
    try:
        queue = cl.CommandQueue(context, device)
        image = _view_of(context, shape, host.data)
        _cl._enqueue_write_image(queue, image, last, size, one, is_blocking=True)
        is_seen = host.nonzero()[0].tolist() == [20, 21, 22, 23]
        host[20:24] = two
        _cl._enqueue_read_image(queue, image, last, size, one, is_blocking=True)
    except cl.Error:
        return False
    return is_seen and np.array_equal(one, two)


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
            else:
                event = _copy_box(queue, image, at, region, buffer, byte, to_image)
    assert event is not None
    return event


def _copy_box(
    queue: cl.CommandQueue,
    image: MemberImage,
    at: Int3,
    region: Int3,
    buffer: cl.Buffer,
    byte: int,
    to_image: bool,
) -> cl.Event:
    """Between a buffer and a box of an image; where the driver has no such copy through the host, waiting."""
    memory = image.memory
    try:
        if to_image:
            return _cl._enqueue_copy_buffer_to_image(queue, buffer, memory, byte, at, region)
        return _cl._enqueue_copy_image_to_buffer(queue, memory, buffer, at, region, byte)
    except cl.Error:
        if image.shape.type != MemObjectType.IMAGE1D_ARRAY:
            raise
    # NVIDIA's driver refuses arrays of rows, but reads and writes them; it may read the host's bytes at once.
    host = np.empty(math.prod(region) * image.shape.pixel_nbytes, np.uint8)
    if to_image:
        cl.enqueue_copy(queue, host, buffer, src_offset=byte)
        return _cl._enqueue_write_image(queue, memory, at, region, host, is_blocking=False)
    _cl._enqueue_read_image(queue, memory, at, region, host, is_blocking=True)
    return cl.enqueue_copy(queue, buffer, host, dst_offset=byte, is_blocking=False)


def _descriptor(shape: ImageShape, backing: cl.Buffer | None, is_linear: bool = False) -> cl.ImageDescriptor:
    """``is_linear``: its rows and planes lie as ``shape`` says."""
    made = cl.ImageDescriptor()
    made.image_type = cast(cl.mem_object_type, shape.type)
    made.shape = (shape.width, shape.rows, shape.planes)
    layers = {MemObjectType.IMAGE1D_ARRAY: shape.rows, MemObjectType.IMAGE2D_ARRAY: shape.planes}
    made.array_size = layers.get(cast(MemObjectType, shape.type), 0)
    plane_pitch = shape.plane_pitch if shape.planes > 1 else 0
    made.pitches = (shape.row_pitch, plane_pitch) if is_linear else (0, 0)
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
