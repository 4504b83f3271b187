"""A client of the service in Python: speaks the wire as the C library does, for tests without it."""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from sdi.devices.base import Device
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory
from sdi.launch.launcher import SplitMode
from sdi.profile.record.recorder import Recorder
from sdi.service.facts import announce
from sdi.service.session import Session
from sdi.settings import Balance, Verify
from sdi.vmem.arena import Arena, map_fixed
from sdi.vmem.memory import Coherence
from sdi.vmem.spill.budget import Spill
from sdi.wire.arguments import ARG_ENTRY, ArgumentKind
from sdi.wire.layout import Field, layout, offset_of, padded
from sdi.wire.records import (
    ARENA_HEADER,
    BODY,
    COMMAND,
    HEADER,
    HEAP_OFFSET,
    SLOT,
    SLOT_NBYTES,
    SLOTS_OFFSET,
    STAGING_OFFSET,
    NoticeKind,
    Op,
    record_layout,
)
from tests.image_runs import PLAYER

QUEUE = 1
_HEADER = layout(HEADER)
_SLOT = layout(SLOT)


def _flat(fields: tuple[Field, ...], values: dict[str, int | Sequence[int]]) -> list[int]:
    flat: list[int] = []
    for field in fields:
        value = values.pop(field.name, 0)
        if isinstance(value, int):
            flat += [value] * max(1, field.count)
        else:
            assert len(value) == field.count
            flat += value
    assert not values, f"unknown fields {values}"
    return flat


class WireClient:
    """One session on its own thread, and the application's side of it.  Use as a context manager."""

    def __init__(
        self,
        devices: Sequence[Device],
        split: SplitMode = "always",
        coherence: Coherence = "lazy",
        pooled: PooledMemory | None = None,
        balance: Balance = ("off", 0),
        verify: Verify = "off",
        share: Callable[[Arena], None] | None = None,
        plays: bool = PLAYER == "on",
        recorder: Recorder | None = None,
        polling: Polling | None = None,
        is_image: bool = True,
        nodes: Sequence[Device] = (),
        spill: Spill | None = None,
        has_limits: bool = True,
    ) -> None:
        self.commands, commands = socket.socketpair()
        self.notices, notices = socket.socketpair()
        self._ends = (self.commands, commands, self.notices, notices)
        self.sendall: Callable[[bytes | bytearray], object] = self.commands.sendall
        for end in (self.commands, self.notices):
            end.settimeout(60)
        shared = announce(commands, devices, share=share, is_image=is_image, pooled=pooled, spill=spill)
        self.session = Session(
            commands,
            notices,
            devices,
            split,
            verify,
            coherence,
            pooled=pooled,
            balance=balance,
            shared=shared,
            plays=plays,
            recorder=recorder,
            polling=polling,
            is_image=is_image,
            nodes=nodes,
            spill=spill,
            has_limits=has_limits,
        )
        self._thread = threading.Thread(target=self.session.run, name="sdi-scheduler")
        self._thread.start()
        first, descriptors, _, _ = socket.recv_fds(self.commands, 1, 2)
        header = first + self._exactly(record_layout(Op.FACTS).size - 1)
        facts = record_layout(Op.FACTS).unpack(header)
        self.arena_address = facts[6]
        self.facts_body = self._exactly(facts[0] - len(header))
        self.staged_at = STAGING_OFFSET
        self.arena = mmap.mmap(descriptors[0], facts[5], flags=mmap.MAP_SHARED | 0x4000)
        self.file_offset = facts[7] or facts[5]
        if facts[7]:
            at = ctypes.addressof(ctypes.c_char.from_buffer(self.arena)) + facts[7]
            map_fixed(at, facts[5] - facts[7], descriptors[1])
        for descriptor in descriptors:
            os.close(descriptor)
        self._next_id = QUEUE
        self._next_slot = 1
        self._held: bytearray | None = None
        self.slots: dict[int, int] = {}
        self.text = b""
        self.offsets: dict[int, int] = {}
        self.send(Op.CREATE_QUEUE, QUEUE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The application ends; once is enough."""
        if not self._thread.is_alive() and self.arena.closed:
            return
        self.commands.close()
        self._thread.join()
        self.session.close()
        self.session.end_profile()
        for end in self._ends:
            end.close()
        self.arena.close()

    def has_ended(self, timeout_s: float) -> bool:
        """Whether the service ends the session, by then."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _exactly(self, nbytes: int) -> bytes:
        data = b""
        while len(data) < nbytes:
            more = self.commands.recv(nbytes - len(data))
            assert more, "the service closed the command socket"
            data += more
        return data

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is sent within arrives in one piece."""
        self._held = bytearray()
        yield
        held, self._held = self._held, None
        self.sendall(held)

    @contextmanager
    def taken(self) -> Iterator[list[bytes]]:
        """What would be sent within is not, but for the one who asks."""
        kept: list[bytes] = []
        before, self._held = self._held, bytearray()
        yield kept
        at, held = 0, bytes(self._held)
        while at < len(held):
            nbytes = _HEADER.unpack_from(held, at)[0]
            kept.append(held[at : at + nbytes])
            at += nbytes
        self._held = before

    def _sends(self, record: bytes) -> None:
        if self._held is None:
            self.sendall(record)
        else:
            self._held += record

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def send(self, op: Op, record_id: int, variable: bytes = b"", **fields: int | Sequence[int]) -> None:
        """Send a record that is no command."""
        body = layout(BODY[op]).pack(*_flat(BODY[op], dict(fields)))
        tail = body + padded(variable)
        self._sends(_HEADER.pack(_HEADER.size + len(tail), op, record_id) + tail)

    def command(
        self,
        op: Op,
        variable: bytes = b"",
        waits: Sequence[int] = (),
        queue: int = QUEUE,
        **fields: int | Sequence[int],
    ) -> int:
        """Send a command with a slot of its own; its id."""
        command_id, slot = self.new_id(), self._next_slot
        self._next_slot += 1
        self.slots[command_id] = slot
        _SLOT.pack_into(self.arena, SLOTS_OFFSET + slot * SLOT_NBYTES, 3, 0, 0, 0, 0, 0, 0, 0, 0)
        body = layout(COMMAND).pack(queue, slot, len(waits)) + layout(BODY[op]).pack(
            *_flat(BODY[op], dict(fields))
        )
        tail = body + struct.pack(f"<{len(waits)}Q", *waits) + padded(variable)
        self._sends(_HEADER.pack(_HEADER.size + len(tail), op, command_id) + tail)
        return command_id

    def reply(self) -> tuple[int, int, bytes]:
        """Status, value and payload of the next reply."""
        head = record_layout(Op.REPLY)
        nbytes, op, _, status, _, value, payload_nbytes = head.unpack(self._exactly(head.size))
        assert op == Op.REPLY
        return status, value, self._exactly(nbytes - head.size)[:payload_nbytes]

    def notice(self) -> tuple[NoticeKind, int, int]:
        """Kind, id and status of the next notice; its text is in ``text``."""
        head = record_layout(Op.NOTICE)
        nbytes, _, event, kind, status, text_nbytes = head.unpack(self._noticed(head.size))
        self.text = self._noticed(nbytes - head.size)[:text_nbytes]
        return NoticeKind(kind), event, status

    def _noticed(self, nbytes: int) -> bytes:
        data = b""
        while len(data) < nbytes:
            more = self.notices.recv(nbytes - len(data))
            assert more, "the service closed the notice socket"
            data += more
        return data

    def slot(self, command_id: int) -> tuple[int, int, int, int, int, int]:
        """Status, ready bytes, queued, submitted, started and ended times."""
        values = _SLOT.unpack_from(self.arena, SLOTS_OFFSET + self.slots[command_id] * SLOT_NBYTES)
        return (values[0], *values[2:7])  # type: ignore[return-value]

    def packed_at(self, command_id: int) -> int:
        """Where in the arena a transfer's rows are in a row; 0: in the buffer."""
        values = _SLOT.unpack_from(self.arena, SLOTS_OFFSET + self.slots[command_id] * SLOT_NBYTES)
        return int(values[7])

    # -- calls as an application makes them ----------------------------------------------------------

    def buffer(self, data: bytes | int) -> int:
        """A buffer of that many bytes, or with this content (COPY_HOST_PTR)."""
        nbytes = data if isinstance(data, int) else len(data)
        buffer = self.new_id()
        self.send(
            Op.CREATE_BUFFER, buffer, flags=1 | (0 if isinstance(data, int) else 1 << 5), buffer_nbytes=nbytes
        )
        status, offset, _ = self.reply()
        assert status == 0, status
        self.offsets[buffer] = offset
        if not isinstance(data, int):
            self.arena[offset : offset + nbytes] = data
        return buffer

    def address(self, buffer: int) -> bytes:
        """Where kernels find the buffer's first byte, as they have it in memory."""
        assert self.arena_address, "earlier sessions still have all addresses: collect what is left of them"
        return (self.arena_address + self.offsets[buffer]).to_bytes(8, "little")

    def recycle(self, buffer: int) -> Callable[[], int]:
        """Release a buffer that may be reused; asks for the status in its slot."""
        slot = self._next_slot
        self._next_slot += 1
        at = SLOTS_OFFSET + slot * SLOT_NBYTES
        _SLOT.pack_into(self.arena, at, 3, 0, 0, 0, 0, 0, 0, 0, 0)
        self.send(Op.RECYCLE_BUFFER, buffer, slot=slot)
        return lambda: int(_SLOT.unpack_from(self.arena, at)[0])

    def reuse(self, buffer: int, data: bytes = b"") -> None:
        """Use a recycled buffer again, with this content or any."""
        self.send(Op.REUSE_BUFFER, buffer, flags=1 | (1 << 5 if data else 0))
        offset = self.offsets[buffer]
        self.arena[offset : offset + len(data)] = data

    def build(self, source: str, options: str = "") -> tuple[int, int, bytes]:
        """Build id, status, payload."""
        build_id, texts = self.new_id(), [options.encode(), b"", source.encode()]
        self.send(
            Op.BUILD,
            build_id,
            b"".join(texts),
            options_nbytes=len(texts[0]),
            directory_nbytes=0,
            source_nbytes=len(texts[2]),
        )
        status, _, payload = self.reply()
        return build_id, status, payload

    def launch(
        self,
        build: int,
        arguments: Sequence[
            bytes | tuple[int, int] | tuple[int, int, int] | tuple[ArgumentKind, bytes] | int
        ],
        global_size: Sequence[int],
        local_size: Sequence[int] | None,
        kernel_index: int = 0,
        regions: Sequence[int] = (),
        **more: int | Sequence[int],
    ) -> int:
        """Enqueue a kernel.  Arguments: a value, (buffer, offset), (buffer, offset, bytes), a ``__local``
        size, or (kind, bytes).  ``regions``: buffers that it may reach through pointers.
        """
        entries = b""
        for argument in arguments:
            if isinstance(argument, bytes):
                entries += layout(ARG_ENTRY).pack(0, len(argument)) + padded(argument)
            elif isinstance(argument, int):
                entries += layout(ARG_ENTRY).pack(3, 8) + struct.pack("<Q", argument)
            elif isinstance(argument[1], bytes):
                entries += layout(ARG_ENTRY).pack(argument[0], len(argument[1])) + padded(argument[1])
            else:
                buffer, offset, *nbytes = argument
                entries += layout(ARG_ENTRY).pack(1, 24) + struct.pack(
                    "<QQQ", buffer, offset, *(nbytes or (0,))
                )
        fill = [1] * (3 - len(global_size))
        return self.command(
            Op.NDRANGE,
            entries + struct.pack(f"<{len(regions)}Q", *regions),
            build=build,
            kernel_index=kernel_index,
            work_dim=len(global_size),
            global_size=[*global_size, *fill],
            local_size=[*local_size, *fill] if local_size else [0, 0, 0],
            num_args=len(arguments),
            args_nbytes=len(entries),
            **{"num_regions": len(regions)} | more,
        )

    def read(self, buffer: int, nbytes: int, offset: int = 0) -> bytes:
        """A blocking read: wait for the transfer, copy, answer."""
        command = self.command(Op.READ, buffer=buffer, offset=offset, region=[nbytes, 1, 1])
        kind, event, _ = self.notice()
        assert (kind, event) == (NoticeKind.TRANSFER_READY, command)
        assert self.slot(command)[1] == nbytes
        at = self.offsets[buffer] + offset
        data = self.arena[at : at + nbytes]
        self.send(Op.TRANSFER_DONE, command, status=0)
        assert self.wait(command) == 0
        return data

    def write(self, buffer: int, data: bytes, offset: int = 0) -> int:
        """A write whose copy is made at once when asked for; the command."""
        command = self.command(Op.WRITE, buffer=buffer, offset=offset, region=[len(data), 1, 1])
        kind, event, _ = self.notice()
        assert (kind, event) == (NoticeKind.TRANSFER_READY, command)
        at = self.offsets[buffer] + offset
        self.arena[at : at + len(data)] = data
        self.send(Op.TRANSFER_DONE, command, status=0)
        return command

    def new_queue(self) -> int:
        """One more queue in order."""
        queue = self.new_id()
        self.send(Op.CREATE_QUEUE, queue)
        return queue

    def put(self, buffer: int, data: bytes, offset: int = 0, **more: int | Sequence[int]) -> int:
        """A write whose bytes come with its record."""
        shape: dict[str, int | Sequence[int]] = {"region": [len(data), 1, 1], **more}
        return self.command(Op.WRITE, data, buffer=buffer, offset=offset, carried_nbytes=len(data), **shape)

    def stage(self, buffer: int, data: bytes, offset: int = 0, **more: int | Sequence[int]) -> int:
        """A write whose bytes are staged, each time behind those before."""
        if self.staged_at + len(data) > HEAP_OFFSET:
            self.staged_at = STAGING_OFFSET
        at, self.staged_at = self.staged_at, self.staged_at + len(data)
        self.arena[at : at + len(data)] = data
        shape: dict[str, int | Sequence[int]] = {"region": [len(data), 1, 1], **more}
        return self.command(Op.WRITE, buffer=buffer, offset=offset, staged_at=at, **shape)

    @property
    def taken_nbytes(self) -> int:
        """Of what was staged, what the service has taken."""
        at = offset_of(ARENA_HEADER, "taken_nbytes")
        return int.from_bytes(self.arena[at : at + 8], "little")

    def wait(self, command: int) -> int:
        """Final status of ``command``: asked for by WATCH, waited for on the notice socket.

        Whether it runs only Python knows, so that Python acts then, and counts what was played.
        """
        self.send(Op.WATCH, command, status=1)
        while True:
            kind, event, status = self.notice()
            if kind is NoticeKind.EVENT_STATUS and event == command and status <= 0:
                return self.slot(command)[0]

    def finish(self) -> None:
        """Wait for everything in the queue."""
        assert self.wait(self.command(Op.MARKER)) == 0

    def drained(self) -> bool:
        """Whether no notice is waiting to be read."""
        return not select.select([self.notices], [], [], 0)[0]
