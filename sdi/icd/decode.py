"""From records of the wire to commands of the runtime."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from sdi.errors import ClError, Status, require
from sdi.icd.pixel import pixel_of
from sdi.icd.wire import HEADER_ENTRY, PATTERN_MAX_NBYTES, Op, layout
from sdi.ndrange import Int3
from sdi.runtime import builds
from sdi.runtime.builds import Compiled, Target
from sdi.runtime.commands import Command, CopyBuffer, Fill, Launch, Map, Marker, Read, Rectangle, Unmap, Write
from sdi.runtime.programs import Build

_HEADER_ENTRY = layout(HEADER_ENTRY)
_MAP_WRITE = 1 << 1
_MAP_WRITE_INVALIDATE = 1 << 2


def command_of(
    op: Op, body: tuple[int, ...], num_waits: int, record: bytes, fixed_nbytes: int
) -> tuple[Command, tuple[int, ...]]:
    """The command of a record and the ids of its wait list.

    ``body``: the fields after the command prefix.  Raises ClError or ValueError for what no client sends.
    """
    rest = fixed_nbytes + 8 * num_waits
    require(rest <= len(record), Status.INVALID_VALUE, f"{op.name}: {num_waits} waits in {len(record)} bytes")
    waits = struct.unpack_from(f"<{num_waits}Q", record, fixed_nbytes) if num_waits else ()
    return _command(op, body, record[rest:]), waits


def _command(op: Op, body: tuple[int, ...], variable: bytes) -> Command:
    match op:
        case Op.NDRANGE:
            return _launch(body, variable)
        case Op.READ:
            return Read(body[0], _rectangle(body[1], body[2:5], body[5], body[6]), bool(body[7]))
        case Op.WRITE:
            rectangle = _rectangle(body[1], body[2:5], body[5], body[6])
            return Write(body[0], rectangle, bool(body[7]), landed_ns=body[9])
        case Op.COPY:
            source, target, source_offset, target_offset = body[:4]
            region, pitches = body[4:7], body[7:11]
            return CopyBuffer(
                source,
                target,
                _rectangle(source_offset, region, pitches[0], pitches[1]),
                _rectangle(target_offset, region, pitches[2], pitches[3]),
            )
        case Op.FILL:
            return _fill(body, variable)
        case Op.MAP:
            flags, transfer, blocking = body[7:]
            return Map(
                body[0],
                _rectangle(body[1], body[2:5], body[5], body[6]),
                fetch=not flags & _MAP_WRITE_INVALIDATE,
                for_writing=bool(flags & (_MAP_WRITE | _MAP_WRITE_INVALIDATE)),
                transfer=bool(transfer),
                blocking=bool(blocking),
            )
        case Op.UNMAP:
            wrote, transfer = body[7:]
            rectangle = _rectangle(body[1], body[2:5], body[5], body[6])
            return Unmap(body[0], rectangle, bool(wrote), bool(transfer and wrote))
        case Op.MARKER | Op.BARRIER:
            return Marker(barrier=op is Op.BARRIER)
        case _:
            raise ClError(Status.INVALID_OPERATION, f"{op.name} is no command")


_NO_FOLDER = "/dev/null"
"""The working directory of an application that has none, since it was removed: nothing is found there."""

BuildWork = Callable[[Target], Build | Compiled]
"""Blocks."""


def build_work(op: Op, body: tuple[int, ...], record: bytes, fixed_nbytes: int) -> BuildWork:
    """What a BUILD, COMPILE or LINK record asks for.  Raises ClError for what no client sends."""
    take = _Taker(record, fixed_nbytes)
    match op:
        case Op.BUILD:
            options, directory, source = (take.text(nbytes) for nbytes in body[:3])
            return partial(builds.build, source, options, directory or _NO_FOLDER)
        case Op.COMPILE:
            options, directory, source = (take.text(nbytes) for nbytes in body[:3])
            headers: dict[str, str] = {}
            for _ in range(body[3]):
                name_nbytes, text_nbytes = _HEADER_ENTRY.unpack(take.bytes(_HEADER_ENTRY.size))
                name = take.text(name_nbytes)
                headers.setdefault(name, take.text(text_nbytes))
            return partial(builds.compile_only, source, options, directory or _NO_FOLDER, headers)
        case _:
            options_nbytes, num_objects, again = body[:3]
            sizes = [int.from_bytes(take.bytes(8), "little") for _ in range(num_objects)]
            options = take.text(options_nbytes)
            objects = [take.bytes(nbytes) for nbytes in sizes]
            if again:
                return partial(builds.rebuild, b"".join(objects))
            return partial(builds.link, objects, options)


class _Taker:
    """Reads a record's variable part from front to back."""

    def __init__(self, record: bytes, at: int) -> None:
        self._record = record
        self._at = at

    def bytes(self, nbytes: int) -> bytes:
        end = self._at + nbytes
        require(end <= len(self._record), Status.INVALID_VALUE, f"{nbytes} bytes past a record's end")
        found = self._record[self._at : end]
        self._at = end
        return found

    def text(self, nbytes: int) -> str:
        return self.bytes(nbytes).decode("utf-8", "surrogateescape")


def _rectangle(offset: int, region: tuple[int, ...], row_pitch: int, slice_pitch: int) -> Rectangle:
    row, rows, slices = region
    require(row and rows and slices, Status.INVALID_VALUE, f"a region of {region}")
    apart = (rows == 1 or row_pitch >= row) and (slices == 1 or slice_pitch >= rows * row_pitch)
    require(apart, Status.INVALID_VALUE, f"a region of {region} with pitches {row_pitch}, {slice_pitch}")
    return Rectangle(offset, (row, rows, slices), row_pitch, slice_pitch)


def _fill(body: tuple[int, ...], variable: bytes) -> Fill:
    rectangle = _rectangle(body[1], body[2:5], body[5], body[6])
    size, order, data_type = body[7:10]
    pattern = variable[:size]
    require(len(pattern) == size, Status.INVALID_VALUE, f"fill: {len(pattern)} bytes of a pattern of {size}")
    if data_type:
        pattern = pixel_of(pattern, order, data_type)
    row_nbytes = rectangle.region[0]
    require(
        0 < len(pattern) <= PATTERN_MAX_NBYTES and row_nbytes % len(pattern) == 0,
        Status.INVALID_VALUE,
        f"fill: a pattern of {len(pattern)} bytes over {row_nbytes}",
    )
    return Fill(body[0], rectangle, pattern)


def _launch(body: tuple[int, ...], variable: bytes) -> Launch:
    build, _, index, work_dim = body[:4]
    local: Int3 = (body[10], body[11], body[12])
    num_args, args_nbytes = body[13:15]
    require(args_nbytes <= len(variable), Status.INVALID_KERNEL_ARGS, f"{args_nbytes} bytes of arguments")
    return Launch(
        build,
        index,
        work_dim,
        (body[4], body[5], body[6]),
        (body[7], body[8], body[9]),
        None if local == (0, 0, 0) else local,
        variable[:args_nbytes],
        num_args,
    )
