"""From records of the wire to commands of the runtime.

Whether a record agrees with itself is checked here, whether with what the application has made: ``door``.
Everything here raises BadRecord for what no client sends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from math import prod
from typing import cast, get_args, get_type_hints

from sdi.commands import Command, Fill, Launch, Map, Marker, Rectangle, Unmap, Write
from sdi.dataclass import dataclass
from sdi.devices.base import SubGroupQuery
from sdi.devices.image import is_known_format
from sdi.errors import BadRecord, insist
from sdi.launch.kernel import Build
from sdi.launch.programs import builds
from sdi.launch.programs.builds import Compiled, Target
from sdi.ndrange import Int3
from sdi.service.pixel import COLOR_NBYTES, pixel_of
from sdi.wire.layout import layout
from sdi.wire.opencl import MapFlags, Number
from sdi.wire.records import (
    CARRIED_MAX_NBYTES,
    COMMAND,
    COMMANDS,
    HEADER,
    HEADER_ENTRY,
    PATTERN_MAX_NBYTES,
    STAGED_MAX_NBYTES,
    STAGING_NBYTES,
    STAGING_OFFSET,
    Op,
    record_fields,
)

_HEADER_ENTRY = layout(HEADER_ENTRY)
_PREFIX_NBYTES = layout(HEADER, COMMAND).size
_AT = {op: record_fields(op) for op in Op}
QUEUE, SLOT, NUM_WAITS = (_AT[Op.MARKER][name] for name in ("queue", "slot", "num_waits"))
"""Where all commands have these fields."""
_INVALIDATES = MapFlags.WRITE_INVALIDATE_REGION.value
_WRITES = MapFlags.WRITE | MapFlags.WRITE_INVALIDATE_REGION


@dataclass(slots=True)
class CommandRecord:
    """A command's record.  ``fields``: all of the table's; ``variable``: what is behind the wait list.

    ``bare``: what is between the fields that all commands have and the wait list.
    """

    op: Op
    at: dict[str, int]
    fields: tuple[int, ...]
    variable: bytes
    bare: bytes

    def __getitem__(self, name: str) -> int:
        """A field, or the first element of one."""
        return self.fields[self.at[name]]

    def three(self, name: str) -> Int3:
        """A field of three elements."""
        at = self.at[name]
        return self.fields[at], self.fields[at + 1], self.fields[at + 2]

    def behind(self, count: str, last_nbytes: int = 0) -> bytes:
        """The variable part, of so many bytes, without what it is padded with and ``last_nbytes`` behind."""
        nbytes, found = self[count], self.variable
        if not nbytes <= len(found) - last_nbytes < nbytes + 8:
            raise BadRecord(count, f"{nbytes} with {len(found) - last_nbytes} bytes behind")
        return found[:nbytes]


def command_of(
    op: Op, fields: tuple[int, ...], record: bytes, fixed_nbytes: int
) -> tuple[Command, tuple[int, ...]]:
    """The command of a record and the ids of its wait list.  ``fields``: all of the table's."""
    num_waits = fields[NUM_WAITS]
    rest = fixed_nbytes + 8 * num_waits
    if rest > len(record):
        raise BadRecord("num_waits", f"{num_waits} in a record of {len(record)} bytes")
    waits = struct.unpack_from(f"<{num_waits}Q", record, fixed_nbytes) if num_waits else ()
    decoder = _DECODERS[op]
    if not decoder.has_variable and rest != len(record):
        raise BadRecord("nbytes", f"{len(record)} with {num_waits} waits")
    return decoder.made(fields, record[rest:], record[_PREFIX_NBYTES:fixed_nbytes]), waits


def field_of(op: Op, fields: tuple[int, ...], name: str) -> int:
    """One of the fields of a record."""
    return fields[_AT[op][name]]


def _carried(record: CommandRecord) -> bytes:
    """The bytes of a write that come with its record."""
    found = record.behind("carried_nbytes")
    insist(len(found) <= CARRIED_MAX_NBYTES, "carried_nbytes", f"{len(found)}")
    if found:
        whole = prod(record.three("region"))
        insist(len(found) == whole, "carried_nbytes", f"{len(found)} of {whole}")
    return found


def _staged_at(record: CommandRecord) -> int:
    """Where a write's bytes are staged; 0: they are not."""
    at = record["staged_at"]
    if at:
        nbytes, room = prod(record.three("region")), STAGING_OFFSET + STAGING_NBYTES - at
        may_be = at >= STAGING_OFFSET and nbytes <= min(room, STAGED_MAX_NBYTES)
        others = record["carried_nbytes"] or record["written_ns"]
        insist(may_be and not others, "staged_at", f"{at} with {nbytes} bytes")
    return at


def _pattern(record: CommandRecord) -> bytes:
    pattern, order, data_type = record.behind("pattern_nbytes"), record["order"], record["data_type"]
    if data_type:
        insist(len(pattern) == COLOR_NBYTES, "pattern_nbytes", f"{len(pattern)} for a color")
        insist(is_known_format(order, data_type), "data_type", f"{data_type:#x} with order {order:#x}")
        pattern = pixel_of(pattern, order, data_type)
    row_nbytes = record["region"]
    insist(0 < len(pattern) <= PATTERN_MAX_NBYTES, "pattern_nbytes", f"{len(pattern)}")
    insist(row_nbytes % len(pattern) == 0, "region", f"rows of {row_nbytes} bytes in units of {len(pattern)}")
    return pattern


def _regions(record: CommandRecord) -> tuple[int, ...]:
    """Behind the arguments, which were looked at."""
    num = record["num_regions"]
    return struct.unpack_from(f"<{num}Q", record.variable, len(record.variable) - 8 * num)


def _local_size(record: CommandRecord) -> Int3 | None:
    """None where the application left it open; all of the geometry is looked at."""
    work_dim, local = record["work_dim"], record.three("local_size")
    if not 1 <= work_dim <= 3:
        raise BadRecord("work_dim", f"{work_dim}")
    sizes = zip(record.three("offset"), record.three("global_size"), strict=True)
    for dim, (offset, size) in enumerate(sizes):
        is_used = dim < work_dim
        if not (size > 0 and offset + size < 1 << 64 if is_used else (offset, size) == (0, 1)):
            raise BadRecord("global_size", f"{size} from {offset} on in dimension {dim} of {work_dim}")
        if not (local[dim] > 0 if is_used else local[dim] == 1) and local != (0, 0, 0):
            raise BadRecord("local_size", f"{local} in {work_dim} dimensions")
    return None if local == (0, 0, 0) else local


def _rectangle(
    fields: tuple[int, ...], offset: int, region: int, row_pitch: int, slice_pitch: int
) -> Rectangle:
    """From the fields with these numbers.

    Rows never overlap: so there are at most as many as the bytes of the buffer in which they are found.
    """
    row, rows, slices = shape = fields[region], fields[region + 1], fields[region + 2]
    pitch, high = fields[row_pitch], fields[slice_pitch]
    if not (row and rows and slices):
        raise BadRecord("region", f"{shape}")
    if rows > 1 and pitch < row:
        raise BadRecord("row_pitch", f"{pitch} for rows of {row} bytes")
    if slices > 1 and high < (rows - 1) * pitch + row:
        raise BadRecord("slice_pitch", f"{high} for {rows} rows at {pitch} bytes")
    return Rectangle(fields[offset], shape, pitch, high)


_Part = Callable[[CommandRecord], object]
_DERIVED: dict[type, dict[str, _Part]] = {
    Write: {
        "data": _carried,
        # of what was written early, carried or staged; the bytes of the next one like others are others
        "record": lambda r: r.bare if r["written_ns"] or r["carried_nbytes"] or r["staged_at"] else b"",
        "staged_at": _staged_at,
    },
    Fill: {"pattern": _pattern, "record": lambda r: b"" if r["data_type"] else r.bare},
    Map: {
        "fetch": lambda r: not r["flags"] & _INVALIDATES,
        "for_writing": lambda r: bool(r["flags"] & _WRITES),
    },
    Unmap: {"transfer": lambda r: bool(r["transfer"] and r["wrote"])},
    Launch: {
        "local_size": _local_size,
        "arguments": lambda r: r.behind("args_nbytes", 8 * r["num_regions"]),
        "regions": lambda r: _regions(r) if r["num_regions"] else (),
        "prints": lambda _: False,
        "record": lambda r: r.bare + r.variable,
    },
    Marker: {"barrier": lambda r: r.op is Op.BARRIER},
}
"""What of a command is no field of its record."""


class _Decoder:
    """Makes commands of one class: what its fields are called and typed says where in the record they are.

    A number or ``Int3``: the field of that name; ``source_rectangle``: ``source_offset``, ``region`` and its
    pitches; ``record``: the bare one; a tuple of ``Int3``: behind the wait list, ``num_`` of that name.
    """

    def __init__(self, op: Op) -> None:
        self._op, self._at = op, _AT[op]
        made: type = _BY_NAME[_CLASS_NAMES.get(op, op.name)]
        types, derived = get_type_hints(made), _DERIVED.get(made, {})
        self._made = cast(Callable[..., Command], made)
        self._parts = [derived.get(name) or _part(op, name, of) for name, of in types.items()]
        self.has_variable = op in _WITH_VARIABLE or tuple[Int3, ...] in types.values()

    def made(self, fields: tuple[int, ...], variable: bytes, bare: bytes) -> Command:
        """The command of a record."""
        record = CommandRecord(self._op, self._at, fields, variable, bare)
        return self._made(*[part(record) for part in self._parts])


def _part(op: Op, name: str, of: object) -> _Part:
    """How one field of a command is found."""
    at = _AT[op]
    if name == "record":
        return lambda r: r.bare
    if of is Rectangle:
        prefix = name.removesuffix("rectangle")
        names = (f"{prefix}offset", "region", f"{prefix}row_pitch", f"{prefix}slice_pitch")
        offset, region, row_pitch, slice_pitch = (at[each] for each in names)
        return lambda r: _rectangle(r.fields, offset, region, row_pitch, slice_pitch)
    if of == tuple[Int3, ...]:
        return lambda r: _threes(r, f"num_{name}")
    number = at[name]
    if of == Int3:
        return lambda r: r.fields[number : number + 3]
    return (lambda r: bool(r.fields[number])) if of is bool else (lambda r: r.fields[number])


def _threes(record: CommandRecord, count: str) -> tuple[Int3, ...]:
    num, variable = record[count], record.variable
    insist(24 * num == len(variable), count, f"{num} with {len(variable)} bytes behind")
    numbers = memoryview(variable).cast("Q")
    return tuple([(numbers[at], numbers[at + 1], numbers[at + 2]) for at in range(0, 3 * num, 3)])


_WITH_VARIABLE = frozenset({Op.NDRANGE, Op.WRITE, Op.FILL})
_CLASS_NAMES = {Op.NDRANGE: "LAUNCH", Op.COPY: "COPYBUFFER", Op.BARRIER: "MARKER"}
"""Of commands whose classes are called otherwise."""
_BY_NAME: dict[str, type] = {each.__name__.upper(): each for each in get_args(Command)}
_DECODERS = {op: _Decoder(op) for op in COMMANDS}

_NO_FOLDER = "/dev/null"
"""The working directory of an application that has none, since it was removed: nothing is found there."""

_QUERIES = {
    Number.KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE: (range(1, 4), range(1, 2)),
    Number.KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE: (range(1, 4), range(1, 2)),
    Number.KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT: (range(1, 2), range(1, 4)),
    Number.KERNEL_MAX_NUM_SUB_GROUPS: (range(1), range(1, 2)),
    Number.KERNEL_COMPILE_NUM_SUB_GROUPS: (range(1), range(1, 2)),
    Number.KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL: (range(1), range(1, 2)),
}
"""How many numbers come with a query of sub-groups, and how many answer it."""


def sub_group_query(fields: tuple[int, ...]) -> SubGroupQuery:
    """What a SUB_GROUPS record asks for.  ``fields``: all of the table's."""
    asked = partial(field_of, Op.SUB_GROUPS, fields)
    param, num_given, num_answers = asked("param"), asked("num_given"), asked("num_answers")
    insist(param in _QUERIES, "param", f"{param:#x}")
    given, answers = _QUERIES[Number(param)]
    insist(num_given in given, "num_given", f"{num_given} for query {param:#x}")
    insist(num_answers in answers, "num_answers", f"{num_answers} for query {param:#x}")
    at = _AT[Op.SUB_GROUPS]["given"]
    return SubGroupQuery(param, fields[at : at + num_given], num_answers)


BuildWork = Callable[[Target], Build | Compiled]
"""Blocks."""


def build_work(op: Op, fields: tuple[int, ...], record: bytes, fixed_nbytes: int) -> BuildWork:
    """What a BUILD, COMPILE or LINK record asks for.  ``fields``: all of the table's."""
    asked = partial(field_of, op, fields)
    take = _Taker(record, fixed_nbytes)
    match op:
        case Op.BUILD:
            options, directory, source = _texts(take, asked)
            take.end()
            return partial(builds.build, source, options, directory or _NO_FOLDER)
        case Op.COMPILE:
            options, directory, source = _texts(take, asked)
            headers: dict[str, str] = {}
            for _ in range(asked("num_headers")):
                name_nbytes, text_nbytes = _HEADER_ENTRY.unpack(take.bytes("num_headers", _HEADER_ENTRY.size))
                name = take.string("name_nbytes", name_nbytes)
                headers.setdefault(name, take.text("text_nbytes", text_nbytes))
            take.end()
            return partial(builds.compile_only, source, options, directory or _NO_FOLDER, headers)
        case _:
            num_objects = asked("num_objects")
            sizes = [int.from_bytes(take.bytes("num_objects", 8), "little") for _ in range(num_objects)]
            options = take.string("options_nbytes", asked("options_nbytes"))
            objects = [take.bytes("an object's size", nbytes) for nbytes in sizes]
            take.end()
            if asked("rebuild"):
                insist(num_objects == 1, "rebuild", f"of {num_objects} objects")
                return partial(builds.rebuild, b"".join(objects))
            return partial(builds.link, objects, options)


def ids_behind(op: Op, fields: tuple[int, ...], record: bytes, fixed_nbytes: int) -> tuple[int, ...]:
    """The ids that a REACH names."""
    num, room = field_of(op, fields, "num_regions"), len(record) - fixed_nbytes
    insist(8 * num == room, "num_regions", f"{num} with {room} bytes behind")
    return struct.unpack_from(f"<{num}Q", record, fixed_nbytes)


def _texts(take: _Taker, asked: Callable[[str], int]) -> tuple[str, str, str]:
    """Options, working directory and source of a BUILD or COMPILE."""
    options = take.string("options_nbytes", asked("options_nbytes"))
    directory = take.string("directory_nbytes", asked("directory_nbytes"))
    insist(directory[:1] in ("", "/"), "directory_nbytes", f"{len(directory)} of {directory[:64]!r}")
    return options, directory, take.text("source_nbytes", asked("source_nbytes"))


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
