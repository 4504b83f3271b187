"""The first byte in which two runs of a launch differ, in the words of the kernel's author."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from sdi.clc.model import KernelModel
from sdi.dataclass import dataclass
from sdi.launch.arguments import ArgumentValue, BufferArgument, ImageArgument
from sdi.ndrange import GroupBox, Int3
from sdi.vmem.memory import VirtualBuffer
from sdi.vmem.merging.host import Bytes

_CHUNK_NBYTES = 1 << 20
_SCALARS = {
    "char": "i1",
    "uchar": "u1",
    "bool": "u1",
    "short": "i2",
    "ushort": "u2",
    "half": "f2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "long": "i8",
    "ulong": "u8",
    "size_t": "u8",
    "double": "f8",
}
_TYPE = re.compile(r"([a-z_]+)(2|3|4|8|16)?\*\Z")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """``offset``: the first byte that differs; ``nbytes``: how many do."""

    offset: int
    nbytes: int


def first_difference(a: Bytes, b: Bytes) -> Mismatch | None:
    """Where two arrays of one length differ, or None."""
    first, count = -1, 0
    for start in range(0, a.shape[0], _CHUNK_NBYTES):
        stop = start + _CHUNK_NBYTES
        if np.array_equal(a[start:stop], b[start:stop]):
            continue
        different = np.flatnonzero(a[start:stop] != b[start:stop])
        count += different.size
        if first < 0:
            first = start + int(different[0])
    return Mismatch(first, count) if count else None


def locate_argument(
    model: KernelModel, values: Sequence[ArgumentValue], buffer_id: int, offset: int
) -> tuple[int, int]:
    """The argument through which byte ``offset`` of a root buffer was most likely written, and its start.

    Of several that name the buffer: one that the kernel writes, then the one that starts last before it.
    (-1, 0): none does.
    """
    found = [
        (model.arguments[index].writes, value.offset, -index)
        for index, value in enumerate(values)
        if isinstance(value, BufferArgument | ImageArgument) and value.buffer == buffer_id
    ]
    if not found:
        return -1, 0
    reaching = [entry for entry in found if entry[1] <= offset]
    _, start, index = max(reaching or found)
    return -index, start


@dataclass(slots=True)
class Difference:
    """The first difference between a split and a whole run of one launch.

    ``offset``: of the scalar that differs, in the root buffer ``buffer``; ``start``: where the argument's
    memory starts in it.  ``split``, ``whole``: the scalar's bytes.  ``nbytes``: how many bytes of the buffer
    differ.
    ``member``: who ran the work-group ``group`` that writes the scalar, as part of ``member_box``; None while
    nobody is known.
    """

    argument: str
    type_name: str
    buffer: VirtualBuffer
    start: int
    offset: int
    split: bytes
    whole: bytes
    nbytes: int
    member: int | None = None
    member_box: GroupBox | None = None
    group: Int3 | None = None

    @staticmethod
    def of(
        model: KernelModel,
        at: tuple[int, int],
        buffer: VirtualBuffer,
        found: Mismatch,
        split: Bytes,
        whole: Bytes,
    ) -> Difference:
        """``found`` between the bytes ``split`` and ``whole``; ``at``: from locate_argument."""
        index, start = at
        name, type_name, unit_nbytes = "...", f"{buffer.nbytes} bytes reached by pointers", 1
        if index >= 0:
            argument = model.arguments[index]
            name, type_name, unit_nbytes = argument.name, argument.type_name, argument.unit_nbytes
        scalar = _scalar(type_name)
        unit = scalar[0].itemsize if scalar else max(unit_nbytes, 1)
        offset = max(start, 0) + (found.offset - start) // unit * unit
        stop = min(offset + unit, buffer.nbytes)
        return Difference(
            name,
            type_name,
            buffer,
            start,
            offset,
            split[offset:stop].tobytes(),
            whole[offset:stop].tobytes(),
            found.nbytes,
        )

    def describe(self, kernel: str, members: int) -> str:
        """Three lines for the user."""
        at = self.offset - self.start
        scalar = _scalar(self.type_name)
        element = f" (element {at // scalar[1]})" if scalar else ""
        lines = [
            f"kernel '{kernel}' split over {members} members leaves other bytes than whole on one:",
            f"  argument '{self.argument}' ({self.type_name}), byte {at}{element}: "
            f"{self._value(self.split)} split, {self._value(self.whole)} whole; "
            f"{self.nbytes} byte{'s differ' if self.nbytes != 1 else ' differs'} in all",
        ]
        if self.member is None or self.member_box is None:
            lines.append("  no work-group changes it: the split counts it to a member that leaves it alone")
        else:
            group = f"work-group {self.group}" if self.group else "a work-group"
            box = self.member_box
            lines.append(f"  {group} writes it, which member {self.member} ran in {box.start} to {box.stop}")
        return "\n".join(lines)

    def _value(self, data: bytes) -> str:
        """The bytes, most significant first, and the number that they stand for."""
        text = f"0x{data[::-1].hex()}"
        scalar = _scalar(self.type_name)
        if scalar is None or scalar[0].itemsize != len(data):
            return text
        return f"{np.frombuffer(data, scalar[0])[0]} ({text})"


def _scalar(type_name: str) -> tuple[np.dtype[np.generic], int] | None:
    """The scalar type behind a pointer's type, and the bytes of one element; None for structs and others."""
    match = _TYPE.match(type_name)
    if match is None or match[1] not in _SCALARS:
        return None
    scalar = np.dtype(f"<{_SCALARS[match[1]]}")
    count = int(match[2] or 1)
    return scalar, scalar.itemsize * (4 if count == 3 else count)
