"""The hidden last argument of every emitted kernel: which part of which NDRange it runs.

Layout, little-endian, aligned to 8: group_offset, num_groups, global_offset, global_size (ulong[3]
each), work_dim, reserved (uint), and one long per global or constant pointer argument: how many
bytes before the passed pointer byte 0 of the application's buffer would lie.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from sdi.clc.model import ArgumentKind, KernelModel
from sdi.ndrange import GroupBox, NDRange

GEOMETRY_NBYTES = 104
_GEOMETRY = struct.Struct("<12Q2I")


def shifted_arguments(kernel: KernelModel) -> int:
    """How many arguments have a shift: the GLOBAL and CONSTANT pointers."""
    return sum(a.kind in (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT) for a in kernel.arguments)


def hidden_nbytes(kernel: KernelModel) -> int:
    """Size of the hidden argument: 104, and 8 for each global or constant pointer."""
    return GEOMETRY_NBYTES + 8 * shifted_arguments(kernel)


def pack_hidden(kernel: KernelModel, ndrange: NDRange, box: GroupBox, shifts: Sequence[int]) -> bytes:
    """The hidden argument for running ``box`` of ``ndrange``.

    ``shifts``: bytes, one per GLOBAL or CONSTANT argument in order: the offset, in the application's
    buffer, of the byte that the passed pointer names.  A few microseconds.
    """
    count = shifted_arguments(kernel)
    if len(shifts) != count:
        raise ValueError(f"kernel {kernel.name}: {len(shifts)} shifts for {count} pointers")
    if any(stop > groups for stop, groups in zip(box.stop, ndrange.num_groups, strict=True)):
        raise ValueError(f"kernel {kernel.name}: box {box.start}..{box.stop} of {ndrange.num_groups} groups")
    geometry = _GEOMETRY.pack(
        *box.start, *ndrange.num_groups, *ndrange.offset, *ndrange.global_size, ndrange.work_dim, 0
    )
    return geometry + struct.pack(f"<{count}q", *shifts)
