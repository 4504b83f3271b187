"""The hidden last argument of every emitted kernel: which part of which NDRange it runs.

Layout, little-endian, aligned to 8: ``GEOMETRY``, and one long per global or constant pointer argument: how
many bytes before the passed pointer byte 0 of the application's buffer would lie.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from sdi.clc.model import ArgumentKind, KernelModel
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.wire.kernels import GEOMETRY_LAYOUT

_SHIFTED = (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)


def shifted_arguments(kernel: KernelModel) -> int:
    """How many arguments have a shift: the GLOBAL and CONSTANT pointers."""
    return len([argument for argument in kernel.arguments if argument.kind in _SHIFTED])


def pack_hidden(kernel: KernelModel, ndrange: NDRange, box: GroupBox, shifts: Sequence[int]) -> bytes:
    """The hidden argument for running ``box`` of ``ndrange``.

    ``shifts``: bytes, one per GLOBAL or CONSTANT argument in order: the offset, in the application's
    buffer, of the byte that the passed pointer names.  A few microseconds.
    """
    count = shifted_arguments(kernel)
    if len(shifts) != count:
        raise ValueError(f"kernel {kernel.name}: {len(shifts)} shifts for {count} pointers")
    (x, y, z), groups = box.stop, ndrange.num_groups
    if x > groups[0] or y > groups[1] or z > groups[2]:
        raise ValueError(f"kernel {kernel.name}: box {box.start}..{box.stop} of {groups} groups")
    geometry = GEOMETRY_LAYOUT.pack(
        *box.start, *groups, *ndrange.offset, *ndrange.global_size, ndrange.work_dim, 0
    )
    return geometry + struct.pack(f"<{count}q", *shifts)


def offsets_of(hidden: bytes) -> tuple[Int3, Int3]:
    """First group of the box, and global offset of the NDRange."""
    found = GEOMETRY_LAYOUT.unpack_from(hidden)
    return found[:3], found[6:9]


def shifts_of(hidden: bytes) -> tuple[int, ...]:
    """See ``pack_hidden``."""
    count = (len(hidden) - GEOMETRY_LAYOUT.size) // 8
    return struct.unpack_from(f"<{count}q", hidden, GEOMETRY_LAYOUT.size)
