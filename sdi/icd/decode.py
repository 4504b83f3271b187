"""From records of the wire to commands of the runtime."""

from __future__ import annotations

import struct

from sdi.errors import ClError, Status, require
from sdi.icd.wire import PATTERN_MAX_NBYTES, Op
from sdi.intervals import ByteRange
from sdi.ndrange import Int3
from sdi.runtime.commands import Command, CopyBuffer, Fill, Launch, Map, Marker, Read, Rectangle, Unmap, Write

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
            return Write(body[0], _rectangle(body[1], body[2:5], body[5], body[6]), bool(body[7]))
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
            buffer, offset, nbytes, size = body[:4]
            pattern = variable[:size]
            require(
                0 < len(pattern) == size <= PATTERN_MAX_NBYTES and nbytes % size == 0,
                Status.INVALID_VALUE,
                f"fill: a pattern of {size} bytes over {nbytes}",
            )
            return Fill(buffer, ByteRange(offset, offset + nbytes), pattern)
        case Op.MAP:
            buffer, offset, nbytes, flags, transfer, blocking = body
            return Map(
                buffer,
                ByteRange(offset, offset + nbytes),
                fetch=not flags & _MAP_WRITE_INVALIDATE,
                for_writing=bool(flags & (_MAP_WRITE | _MAP_WRITE_INVALIDATE)),
                transfer=bool(transfer),
                blocking=bool(blocking),
            )
        case Op.UNMAP:
            buffer, offset, nbytes, wrote, transfer = body
            return Unmap(buffer, ByteRange(offset, offset + nbytes), bool(wrote), bool(transfer and wrote))
        case Op.MARKER | Op.BARRIER:
            return Marker(barrier=op is Op.BARRIER)
        case _:
            raise ClError(Status.INVALID_OPERATION, f"{op.name} is no command")


def _rectangle(offset: int, region: tuple[int, ...], row_pitch: int, slice_pitch: int) -> Rectangle:
    row, rows, slices = region
    require(row and rows and slices, Status.INVALID_VALUE, f"a region of {region}")
    return Rectangle(offset, (row, rows, slices), row_pitch, slice_pitch)


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
