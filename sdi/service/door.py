"""The door: every record of the command stream is checked here, by arithmetic, before anything is done.

The client checks its calls, so a record that breaks a rule shows that the stream is damaged, and nothing
that follows can be trusted: it ends the session (BadRecord).  What an application can bring about by itself
is none of that: a buffer that another of its threads released just now is unknown, and the command fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from struct import Struct
from typing import NamedTuple

from sdi.clc.model import ArgumentKind, KernelModel
from sdi.commands import Command, CopyBuffer, Fill, Launch, Migrate, regions
from sdi.dataclass import dataclass
from sdi.errors import BadRecord, ClError, insist
from sdi.launch.arguments import ImageArgument, decode_arguments
from sdi.service.decode import (
    QUEUE,
    SLOT,
    BuildWork,
    build_work,
    command_of,
    field_of,
    ids_behind,
    sub_group_query,
)
from sdi.vmem.arena import PAGE_NBYTES
from sdi.wire.arguments import ENTRY, LAYOUTS, LOCAL, POINTER
from sdi.wire.layout import layout
from sdi.wire.records import COMMANDS, HEADER, MAX_RECORD_NBYTES, NUM_SLOTS, SHIFT_NBYTES, Op, record_layout

_OPS: dict[int, Op] = {op.value: op for op in Op if op not in (Op.FACTS, Op.REPLY, Op.NOTICE, Op.RING)}
_LAYOUTS: dict[Op, Struct] = {op: record_layout(op) for op in _OPS.values()}
_BUILDS = frozenset({Op.BUILD, Op.COMPILE, Op.LINK})
_WITH_MORE = _BUILDS | {Op.REACH}
_SIZES = {op.value: _LAYOUTS[op].size for op in _OPS.values()}
_FIXED = frozenset(op.value for op in _OPS.values() if op not in COMMANDS and op not in _WITH_MORE)
_HEADER = layout(HEADER)


class RecordEntry(NamedTuple):
    """A record that may come in.  ``fields``: all of the table's, header first; ``get`` has them by name.

    ``command``, ``waits``: of a command, and the ids of its wait list.  ``work``: of a build.
    ``reached``: of a REACH, the ids of the buffers.
    """

    op: Op
    id: int
    fields: tuple[int, ...]
    command: Command | None = None
    waits: tuple[int, ...] = ()
    work: BuildWork | None = None
    reached: tuple[int, ...] = ()

    def get(self, name: str) -> int:
        """A field, or the first element of one."""
        return field_of(self.op, self.fields, name)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the devices, as the client was told.  ``members``: how many are devices of their own, 0: none."""

    local_mem_nbytes: int
    work_group_size: int
    members: int = 0


class ArgumentBlock:
    """What the argument entries of a kernel's launches look like: all have the same size and kinds."""

    def __init__(self, model: KernelModel) -> None:
        self._model = model
        self._pointers: list[str] = []
        self._locals: list[int] = []
        self._has_images = False
        example, mask, code = b"", b"", "<"
        for argument in model.arguments:
            kind = argument.kind
            nbytes = argument.nbytes if kind is ArgumentKind.VALUE else LAYOUTS[kind].size
            whole = nbytes + -nbytes % 8
            is_pointer = kind in (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)
            if is_pointer:
                self._pointers.append(f"argument {argument.name} of {model.name}")
            elif kind is ArgumentKind.LOCAL:
                self._locals.append(len(example) + ENTRY.size)
            self._has_images |= kind in (ArgumentKind.IMAGE, ArgumentKind.SAMPLER)
            example += ENTRY.pack(kind.value, nbytes) + bytes(whole)
            mask += b"\xff" * ENTRY.size + bytes(whole)
            code += f"{ENTRY.size}x" + (POINTER.format[1:] if is_pointer else f"{whole}x")
        self._mask = int.from_bytes(mask, "little")
        self._heads = int.from_bytes(example, "little")
        self._parts = Struct(code)

    def check(self, launch: Launch, limits: Limits, buffer: Callable[[str, int], int | None]) -> None:
        """``buffer(field, id)``: the size of a buffer, None where it is gone."""
        data, model = launch.arguments, self._model
        if launch.num_args != len(model.arguments) or len(data) != self._parts.size:
            what = f"{launch.num_args} in {len(data)} bytes for {len(model.arguments)} in {self._parts.size}"
            raise BadRecord("num_args", f"{what} of {model.name}")
        if int.from_bytes(data, "little") & self._mask != self._heads:
            raise BadRecord("arguments", f"other kinds or sizes than those of {model.name}")
        pointers = iter(self._parts.unpack(data))
        for field, root, start, nbytes in zip(self._pointers, pointers, pointers, pointers, strict=True):
            total = buffer(field, root) if root else None
            if total is not None and (start >= total or nbytes > total - start):
                raise BadRecord(field, f"[{start}, {start + nbytes}) of buffer {root}'s {total} bytes")
        if self._locals:
            local = sum(LOCAL.unpack_from(data, at)[0] for at in self._locals)
            insist(local <= limits.local_mem_nbytes, "__local arguments", f"{local} bytes for {model.name}")
        if self._has_images:
            self._check_images(launch, buffer)

    def _check_images(self, launch: Launch, buffer: Callable[[str, int], int | None]) -> None:
        name = self._model.name
        try:
            values = decode_arguments(self._model, launch)
        except ClError as error:
            raise BadRecord(f"arguments of {name}", error.what) from error
        for argument, value in zip(self._model.arguments, values, strict=True):
            if isinstance(value, ImageArgument):
                field, shape = f"argument {argument.name} of {name}", value.view.shape
                total, stop = buffer(field, value.buffer), value.offset + shape.plane_pitch * shape.planes
                insist(total is None or stop <= total, field, f"an image up to byte {stop} of {total}")


def check_header(number: int, nbytes: int) -> None:
    """Whether a record of kind ``number`` may have ``nbytes``: before the rest of it is waited for."""
    least = _SIZES.get(number)
    if least is None:
        raise BadRecord("op", f"{number}")
    if not least <= nbytes <= MAX_RECORD_NBYTES or nbytes % 8 or (nbytes != least and number in _FIXED):
        raise BadRecord("nbytes", f"{nbytes}")


def name_of(number: int) -> str:
    """What a kind of record is called."""
    op = _OPS.get(number)
    return op.name if op is not None else "a record"


class Door:
    """What the application has made, as far as records name it.  Owned by: sdi-scheduler.

    ``check`` changes nothing; ``admit`` takes notice of what it let in.
    """

    def __init__(self, limits: Limits, is_event: Callable[[int], bool]) -> None:
        """``is_event(id)``: whether that is a command or user event which is not forgotten."""
        self._limits = limits
        self._is_event = is_event
        self._buffers: dict[int, int] = {}
        self._recycled: set[int] = set()
        self._queues: set[int] = set()
        self._reaches: set[int] = set()
        self._builds: dict[int, tuple[ArgumentBlock, ...]] = {}

    @property
    def buffers(self) -> Mapping[int, int]:
        """Bytes of each buffer."""
        return self._buffers

    # -- checks ---------------------------------------------------------------------------------------

    def check(self, record: bytes) -> RecordEntry:
        """A whole record, whose header says so.  Raises BadRecord."""
        nbytes, number, record_id = _HEADER.unpack_from(record)
        insist(nbytes == len(record), "nbytes", f"{nbytes} of {len(record)}")
        check_header(number, nbytes)
        op = _OPS[number]
        fields = _LAYOUTS[op].unpack_from(record)
        insist(record_id, "id", "0")
        if op in COMMANDS:
            return self._command(op, record_id, fields, record)
        if op in _BUILDS:
            self._new(record_id)
            return RecordEntry(op, record_id, fields, work=build_work(op, fields, record, _LAYOUTS[op].size))
        if op is Op.REACH:
            self._new(record_id)
            reached = ids_behind(op, fields, record, _LAYOUTS[op].size)
            for buffer in reached:
                self._buffer("regions", buffer)
            return RecordEntry(op, record_id, fields, reached=reached)
        entry = RecordEntry(op, record_id, fields)
        self._other(entry)
        return entry

    def _command(self, op: Op, command_id: int, fields: tuple[int, ...], record: bytes) -> RecordEntry:
        queue, slot = fields[QUEUE], fields[SLOT]
        self._new(command_id)
        _check_slot(slot)
        if queue not in self._queues:
            self._no_other("queue", queue, "a queue")
        command, waits = command_of(op, fields, record, _LAYOUTS[op].size)
        for event in waits:
            if not self._is_event(event):
                self._no_other("wait list", event, "an event")
        self._check(command)
        return RecordEntry(op, command_id, fields, command, waits)

    def launch(self, record: bytes) -> Launch:
        """What a whole record asks to launch, whatever it waits for.  Raises BadRecord."""
        fields = _LAYOUTS[Op.NDRANGE].unpack_from(record)
        launch, _ = command_of(Op.NDRANGE, fields, record, _LAYOUTS[Op.NDRANGE].size)
        assert isinstance(launch, Launch)
        self._check(launch)
        return launch

    def _check(self, command: Command) -> None:
        for field, buffer, over in regions(command):
            total = self._buffer(field, buffer)
            if total is not None and over.stop > total:
                raise BadRecord("region", f"[{over.start}, {over.stop}) of buffer {buffer}'s {total} bytes")
        if isinstance(command, Launch):
            self._launch(command)
        if (
            isinstance(command, Launch | CopyBuffer | Fill | Migrate)
            and command.member > self._limits.members
        ):
            raise BadRecord("member", f"{command.member} of {self._limits.members}")

    def _launch(self, launch: Launch) -> None:
        local = launch.local_size
        if local is not None and prod(local) > self._limits.work_group_size:
            raise BadRecord("local_size", f"{local} with groups of up to {self._limits.work_group_size}")
        block = self._kernel(launch.build, launch.kernel_index)
        if block is not None:
            block.check(launch, self._limits, self._buffer)
        for region in launch.regions:
            self._buffer("regions", region)
        if launch.reach and launch.reach not in self._reaches:
            self._no_other("reach", launch.reach, "a reach")

    def _kernel(self, build: int, index: int) -> ArgumentBlock | None:
        """Of the kernel of that number; None where there is no such build any more."""
        blocks = self._builds.get(build)
        if blocks is None:
            self._no_other("build", build, "a build")
            return None
        if index >= len(blocks):
            raise BadRecord("kernel_index", f"{index} of {len(blocks)}")
        return blocks[index]

    def _other(self, entry: RecordEntry) -> None:
        record_id = entry.id
        match entry.op:
            case Op.CREATE_BUFFER:
                self._new(record_id)
                insist(entry.get("buffer_nbytes") > 0, "buffer_nbytes", "0")
                shift = entry.get("shift")
                insist(shift < PAGE_NBYTES and not shift % SHIFT_NBYTES, "shift", f"{shift}")
            case Op.CREATE_QUEUE:
                self._new(record_id)
            case Op.SUB_GROUPS:
                self._new(record_id)
                self._kernel(entry.get("build"), entry.get("kernel_index"))
                sub_group_query(entry.fields)
            case Op.CREATE_USER_EVENT:
                self._new(record_id)
                _check_slot(entry.get("slot"))
            case Op.RECYCLE_BUFFER:
                insist(record_id in self._buffers, "id", f"{record_id} is no buffer")
                insist(record_id not in self._recycled, "id", f"buffer {record_id} is recycled")
                insist(entry.get("slot"), "slot", "0")
                _check_slot(entry.get("slot"))
            case Op.REUSE_BUFFER:
                insist(record_id in self._recycled, "id", f"{record_id} is no recycled buffer")
            case Op.RELEASE_BUFFER:
                self._buffer("id", record_id)
            case Op.RELEASE_QUEUE if record_id not in self._queues:
                self._no_other("id", record_id, "a queue")
            case Op.KEEP_BUILD | Op.RELEASE_BUILD if record_id not in self._builds:
                self._no_other("id", record_id, "a build")
            case Op.RELEASE_REACH if record_id not in self._reaches:
                self._no_other("id", record_id, "a reach")
            case Op.SET_USER_EVENT | Op.WATCH | Op.TRANSFER_DONE | Op.RELEASE_EVENT if not self._is_event(
                record_id
            ):
                self._no_other("id", record_id, "an event")

    def _kind(self, number: int) -> str:
        if number in self._buffers:
            return "a buffer"
        if number in self._queues:
            return "a queue"
        if number in self._builds:
            return "a build"
        if number in self._reaches:
            return "a reach"
        return "an event" if self._is_event(number) else ""

    def _new(self, number: int) -> None:
        kind = self._kind(number)
        if kind:
            raise BadRecord("id", f"{number} is {kind} already")

    def _no_other(self, field: str, number: int, wanted: str) -> None:
        """``number`` is not ``wanted``, which may have been released; but it is nothing else."""
        kind = self._kind(number)
        if kind:
            raise BadRecord(field, f"{number} is {kind}, not {wanted}")

    def _buffer(self, field: str, number: int) -> int | None:
        """Bytes of a buffer; None where there is none any more."""
        total = self._buffers.get(number)
        if total is None:
            self._no_other(field, number, "a buffer")
        return total

    # -- what came in ---------------------------------------------------------------------------------

    def admit(self, entry: RecordEntry) -> None:
        """A record that was checked comes in."""
        match entry.op:
            case Op.CREATE_BUFFER:
                self._buffers[entry.id] = entry.get("buffer_nbytes")
            case Op.RELEASE_BUFFER:
                self._buffers.pop(entry.id, None)
                self._recycled.discard(entry.id)
            case Op.RECYCLE_BUFFER:
                self._recycled.add(entry.id)
            case Op.REUSE_BUFFER:
                self._recycled.discard(entry.id)
            case Op.CREATE_QUEUE:
                self._queues.add(entry.id)
            case Op.RELEASE_QUEUE:
                self._queues.discard(entry.id)
            case Op.BUILD | Op.LINK | Op.COMPILE:
                self._builds[entry.id] = ()
            case Op.RELEASE_BUILD:
                self._builds.pop(entry.id, None)
            case Op.REACH:
                self._reaches.add(entry.id)
            case Op.RELEASE_REACH:
                self._reaches.discard(entry.id)

    def recycled(self, buffer: int, is_recycled: bool) -> None:
        """A buffer was recycled or reused, without Python."""
        (self._recycled.add if is_recycled else self._recycled.discard)(buffer)

    def forget(self, number: int) -> None:
        """What a record with this id was to make could not be made, or has no kernels."""
        self._buffers.pop(number, None)
        self._builds.pop(number, None)
        self._reaches.discard(number)

    def built(self, build: int, kernels: Sequence[KernelModel]) -> None:
        """A build has these kernels."""
        if build in self._builds:
            self._builds[build] = tuple(ArgumentBlock(model) for model in kernels)


def _check_slot(slot: int) -> None:
    if slot >= NUM_SLOTS:
        raise BadRecord("slot", f"{slot}")
