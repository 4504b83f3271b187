"""From records of the wire to commands of the runtime.

Whether a record agrees with itself is checked here, whether with what the application has made: ``door``.
Everything here raises BadRecord for what no client sends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from sdi.commands import Command, CopyBuffer, Fill, Launch, Map, Marker, Read, Rectangle, Unmap, Write
from sdi.devices.image import is_known_format
from sdi.errors import BadRecord, insist
from sdi.launch.kernel import Build
from sdi.launch.programs import builds
from sdi.launch.programs.builds import Compiled, Target
from sdi.ndrange import Int3
from sdi.service.pixel import COLOR_NBYTES, pixel_of
from sdi.wire.layout import layout
from sdi.wire.opencl import MapFlags
from sdi.wire.records import CARRIED_MAX_NBYTES, COMMAND, HEADER, HEADER_ENTRY, PATTERN_MAX_NBYTES, Op

_HEADER_ENTRY = layout(HEADER_ENTRY)
_PREFIX_NBYTES = layout(HEADER, COMMAND).size
_WITH_VARIABLE = frozenset({Op.NDRANGE, Op.WRITE, Op.FILL})
_INVALIDATES = MapFlags.WRITE_INVALIDATE_REGION.value
_WRITES = MapFlags.WRITE | MapFlags.WRITE_INVALIDATE_REGION


def command_of(
    op: Op, body: tuple[int, ...], num_waits: int, record: bytes, fixed_nbytes: int
) -> tuple[Command, tuple[int, ...]]:
    """The command of a record and the ids of its wait list.

    ``body``: the fields after the command prefix.
    """
    rest = fixed_nbytes + 8 * num_waits
    if rest > len(record):
        raise BadRecord("num_waits", f"{num_waits} in a record of {len(record)} bytes")
    waits = struct.unpack_from(f"<{num_waits}Q", record, fixed_nbytes) if num_waits else ()
    if op not in _WITH_VARIABLE and rest != len(record):
        raise BadRecord("nbytes", f"{len(record)} with {num_waits} waits")
    return _command(op, body, record[rest:], record[_PREFIX_NBYTES:fixed_nbytes]), waits


def _command(op: Op, body: tuple[int, ...], variable: bytes, bare: bytes) -> Command:
    """``bare``: the record between the command fields and the wait list."""
    match op:
        case Op.NDRANGE:
            return _launch(body, variable, bare + variable)
        case Op.READ:
            return Read(
                body[0],
                _rectangle(body[1], body[2:5], body[5], body[6]),
                bool(body[7]),
                bool(body[8]),
                body[9],
                bare,
            )
        case Op.WRITE:
            rectangle = _rectangle(body[1], body[2:5], body[5], body[6])
            return Write(
                body[0],
                rectangle,
                bool(body[7]),
                body[9],
                bool(body[8]),
                _carried(body[10], rectangle, variable),
                bare if body[9] or body[10] else b"",  # the bytes of the next one like it are others
            )
        case Op.COPY:
            source, target, source_offset, target_offset = body[:4]
            region, pitches = body[4:7], body[7:11]
            return CopyBuffer(
                source,
                target,
                _rectangle(source_offset, region, pitches[0], pitches[1]),
                _rectangle(target_offset, region, pitches[2], pitches[3]),
                bare,
            )
        case Op.FILL:
            return _fill(body, variable, bare)
        case Op.MAP:
            flags, transfer, blocking = body[7:]
            return Map(
                body[0],
                _rectangle(body[1], body[2:5], body[5], body[6]),
                fetch=not flags & _INVALIDATES,
                for_writing=bool(flags & _WRITES),
                transfer=bool(transfer),
                blocking=bool(blocking),
                record=bare,
            )
        case Op.UNMAP:
            wrote, transfer = body[7:]
            rectangle = _rectangle(body[1], body[2:5], body[5], body[6])
            return Unmap(body[0], rectangle, bool(wrote), bool(transfer and wrote), bare)
        case Op.MARKER | Op.BARRIER:
            return Marker(barrier=op is Op.BARRIER)
        case _:
            raise BadRecord("op", f"{op.name} is no command")


_NO_FOLDER = "/dev/null"
"""The working directory of an application that has none, since it was removed: nothing is found there."""

BuildWork = Callable[[Target], Build | Compiled]
"""Blocks."""


def build_work(op: Op, body: tuple[int, ...], record: bytes, fixed_nbytes: int) -> BuildWork:
    """What a BUILD, COMPILE or LINK record asks for."""
    take = _Taker(record, fixed_nbytes)
    match op:
        case Op.BUILD:
            options, directory, source = _texts(take, body)
            take.end()
            return partial(builds.build, source, options, directory or _NO_FOLDER)
        case Op.COMPILE:
            options, directory, source = _texts(take, body)
            headers: dict[str, str] = {}
            for _ in range(body[3]):
                name_nbytes, text_nbytes = _HEADER_ENTRY.unpack(take.bytes("num_headers", _HEADER_ENTRY.size))
                name = take.string("name_nbytes", name_nbytes)
                headers.setdefault(name, take.text("text_nbytes", text_nbytes))
            take.end()
            return partial(builds.compile_only, source, options, directory or _NO_FOLDER, headers)
        case _:
            options_nbytes, num_objects, again = body[:3]
            sizes = [int.from_bytes(take.bytes("num_objects", 8), "little") for _ in range(num_objects)]
            options = take.string("options_nbytes", options_nbytes)
            objects = [take.bytes("an object's size", nbytes) for nbytes in sizes]
            take.end()
            if again:
                insist(num_objects == 1, "rebuild", f"of {num_objects} objects")
                return partial(builds.rebuild, b"".join(objects))
            return partial(builds.link, objects, options)


def _texts(take: _Taker, body: tuple[int, ...]) -> tuple[str, str, str]:
    """Options, working directory and source of a BUILD or COMPILE."""
    options = take.string("options_nbytes", body[0])
    directory = take.string("directory_nbytes", body[1])
    insist(directory[:1] in ("", "/"), "directory_nbytes", f"{body[1]} of {directory[:64]!r}")
    return options, directory, take.text("source_nbytes", body[2])


class _Taker:
    """Reads a record's variable part from front to back."""

    def __init__(self, record: bytes, at: int) -> None:
        self._record = record
        self._at = at

    def bytes(self, field: str, nbytes: int) -> bytes:
        end = self._at + nbytes
        insist(end <= len(self._record), field, f"{nbytes} bytes past the record's end")
        found = self._record[self._at : end]
        self._at = end
        return found

    def text(self, field: str, nbytes: int) -> str:
        return self.bytes(field, nbytes).decode("utf-8", "surrogateescape")

    def string(self, field: str, nbytes: int) -> str:
        """A text that was a C string."""
        found = self.text(field, nbytes)
        insist("\0" not in found, field, f"{nbytes} bytes with a NUL among them")
        return found

    def end(self) -> None:
        """Nothing but padding is left."""
        left = len(self._record) - self._at
        insist(left < 8, "nbytes", f"{left} bytes too many")


def _rectangle(offset: int, region: tuple[int, ...], row_pitch: int, slice_pitch: int) -> Rectangle:
    """Rows never overlap: so there are at most as many as the bytes of the buffer in which they are found."""
    row, rows, slices = region
    if not (row and rows and slices):
        raise BadRecord("region", f"{region}")
    if rows > 1 and row_pitch < row:
        raise BadRecord("row_pitch", f"{row_pitch} for rows of {row} bytes")
    if slices > 1 and slice_pitch < (rows - 1) * row_pitch + row:
        raise BadRecord("slice_pitch", f"{slice_pitch} for {rows} rows at {row_pitch} bytes")
    return Rectangle(offset, (row, rows, slices), row_pitch, slice_pitch)


def _carried(nbytes: int, rectangle: Rectangle, variable: bytes) -> bytes:
    """The bytes of a write that come with its record."""
    exact = nbytes <= len(variable) < nbytes + 8
    insist(exact, "carried_nbytes", f"{nbytes} with {len(variable)} bytes behind")
    insist(nbytes <= CARRIED_MAX_NBYTES, "carried_nbytes", f"{nbytes}")
    insist(nbytes in (0, rectangle.nbytes), "carried_nbytes", f"{nbytes} of {rectangle.nbytes}")
    return variable[:nbytes]


def _fill(body: tuple[int, ...], variable: bytes, bare: bytes) -> Fill:
    rectangle = _rectangle(body[1], body[2:5], body[5], body[6])
    size, order, data_type = body[7:10]
    exact = size <= len(variable) < size + 8
    insist(exact, "pattern_nbytes", f"{size} with {len(variable)} bytes behind")
    pattern = variable[:size]
    if data_type:
        insist(size == COLOR_NBYTES, "pattern_nbytes", f"{size} for a color")
        insist(is_known_format(order, data_type), "data_type", f"{data_type:#x} with order {order:#x}")
        pattern = pixel_of(pattern, order, data_type)
    row_nbytes = rectangle.region[0]
    insist(0 < len(pattern) <= PATTERN_MAX_NBYTES, "pattern_nbytes", f"{len(pattern)}")
    insist(row_nbytes % len(pattern) == 0, "region", f"rows of {row_nbytes} bytes in units of {len(pattern)}")
    return Fill(body[0], rectangle, pattern, b"" if data_type else bare)


def _launch(body: tuple[int, ...], variable: bytes, bare: bytes) -> Launch:
    build, _, index, work_dim = body[:4]
    local: Int3 = (body[10], body[11], body[12])
    num_args, args_nbytes = body[13:15]
    if not args_nbytes <= len(variable) < args_nbytes + 8:
        raise BadRecord("args_nbytes", f"{args_nbytes} with {len(variable)} bytes behind")
    if not 1 <= work_dim <= 3:
        raise BadRecord("work_dim", f"{work_dim}")
    for dim in range(3):
        offset, size = body[4 + dim], body[7 + dim]
        is_used = dim < work_dim
        if not (size > 0 and offset + size < 1 << 64 if is_used else (offset, size) == (0, 1)):
            raise BadRecord("global_size", f"{size} from {offset} on in dimension {dim} of {work_dim}")
        if not (local[dim] > 0 if is_used else local[dim] == 1) and local != (0, 0, 0):
            raise BadRecord("local_size", f"{local} in {work_dim} dimensions")
    return Launch(
        build,
        index,
        work_dim,
        (body[4], body[5], body[6]),
        (body[7], body[8], body[9]),
        None if local == (0, 0, 0) else local,
        variable[:args_nbytes],
        num_args,
        record=bare,
    )
