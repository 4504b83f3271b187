"""Arguments of kernels as a launch's record has them.

An argument is ARG_ENTRY and, padded to 8 bytes, what its kind says.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from sdi.wire.layout import fields, layout


class ArgumentKind(IntEnum):
    """What ``clSetKernelArg`` accepts for an argument; in records and in kernel tables."""

    VALUE = 0
    GLOBAL = 1
    CONSTANT = 2
    LOCAL = 3
    IMAGE = 4
    SAMPLER = 5


ARG_ENTRY = fields("u32 kind; u32 nbytes")
POINTER_ARGUMENT = fields("u64 buffer; u64 offset; u64 nbytes")
"""Of GLOBAL and CONSTANT: root buffer, 0 is NULL; where the bound (sub-)buffer lies there, and how many bytes
of it, 0 for all up to the root's end."""
LOCAL_ARGUMENT = fields("u64 nbytes")
IMAGE_ARGUMENT = fields(
    "u64 buffer; u64 offset; u32 type; u32 order; u32 data_type; u32 reserved; u64 width; u64 rows;"
    " u64 planes; u64 row_pitch; u64 plane_pitch"
)
"""Where an image's linear bytes lie, and how: the layers of a 1D array are its rows, those of a 2D array its
planes.  ``type``, ``order``, ``data_type``: CL_MEM_OBJECT_IMAGE..., CL_RGBA..., CL_UNORM_INT8..."""
SAMPLER_ARGUMENT = fields("u32 normalized; u32 addressing; u32 filter; u32 reserved")

ENTRY = layout(ARG_ENTRY)
POINTER, LOCAL = layout(POINTER_ARGUMENT), layout(LOCAL_ARGUMENT)
IMAGE, SAMPLER = layout(IMAGE_ARGUMENT), layout(SAMPLER_ARGUMENT)
LAYOUTS = {
    ArgumentKind.GLOBAL: POINTER,
    ArgumentKind.CONSTANT: POINTER,
    ArgumentKind.LOCAL: LOCAL,
    ArgumentKind.IMAGE: IMAGE,
    ArgumentKind.SAMPLER: SAMPLER,
}
"""Of all kinds but VALUE, of which the bytes themselves are there."""


def entries(data: bytes, at: int, count: int) -> Iterator[tuple[int, int, int]]:
    """(kind, where its bytes begin, how many) of ``count`` arguments in ``data`` from ``at`` on.

    Raises struct.error for arguments that are cut off.
    """
    for _ in range(count):
        kind, nbytes = ENTRY.unpack_from(data, at)
        at += ENTRY.size
        yield kind, at, nbytes
        at += nbytes + -nbytes % 8
