"""The application's side of a generated program: enqueues, copies when told, and looks at what it reads."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from sdi.commands import Rectangle
from sdi.wire.records import NoticeKind, Op
from tests.generated.generate import (
    Copy,
    Create,
    Enqueue,
    Fill,
    Gate,
    Launch,
    Map,
    Marker,
    Open,
    Program,
    Read,
    Release,
    Touch,
    Unmap,
    Wait,
    Work,
    Write,
    rows_of,
)
from tests.generated.kernels import KINDS, SOURCE, Array
from tests.service.wire_client import WireClient

_INDEX = {name: number for number, name in enumerate(KINDS)}


class Application:
    """Runs programs in one session, one after the other."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._build, status, log = client.build(SOURCE)
        assert status == 0, log
        self._transfers: dict[int, Callable[[], None]] = {}
        self._complete: set[int] = set()
        self._buffers: dict[int, tuple[int, int]] = {}
        self._events: dict[int, int] = {}
        self._queues: list[int] = []

    def run(self, program: Program) -> None:
        """Run it to its end.  Raises AssertionError where it reads wrong bytes or a command fails."""
        client = self._client
        self._buffers, self._events, self._queues = {}, {}, []
        for in_order in program.in_order:
            self._queues.append(client.new_id())
            client.send(Op.CREATE_QUEUE, self._queues[-1], properties=not in_order)
        for number, step in enumerate(program.steps):
            try:
                self._step(step)
                while not client.drained():
                    self._notice()
            except AssertionError as error:
                raise AssertionError(
                    f"program {program.seed}, step {number}, {step!s:.200}: {error}"
                ) from None
        try:
            self._end()
        except AssertionError as error:
            raise AssertionError(f"program {program.seed}: {error}") from None

    def _step(self, step: object) -> None:
        client = self._client
        match step:
            case Create(buffer, nbytes, data):
                self._buffers[buffer] = client.buffer(nbytes if data is None else data), nbytes
            case Release(buffer):
                client.send(Op.RELEASE_BUFFER, self._buffers.pop(buffer)[0])
            case Enqueue(event, queue, waits, work):
                where = self._queues[queue], [self._events[wait] for wait in waits]
                self._events[event] = self._enqueue(work, *where)
            case Wait(event):
                self._wait(self._events[event])
            case Touch(event, buffer, offset, expected, data):
                self._wait(self._events[event])
                nbytes = len(expected if expected is not None else data or b"")
                mapped = self._bytes(buffer)[offset : offset + nbytes]
                if expected is not None:
                    _same(mapped.tobytes(), expected, f"mapped bytes of buffer {buffer} from {offset} on")
                if data is not None:
                    mapped[:] = np.frombuffer(data, np.uint8)
            case Gate(event):
                self._events[event] = client.new_id()
                client.send(Op.CREATE_USER_EVENT, self._events[event])
            case Open(event):
                client.send(Op.SET_USER_EVENT, self._events[event], status=0)
            case _:
                raise TypeError(f"no step: {step!r}")

    def _enqueue(self, work: Work, queue: int, waits: list[int]) -> int:
        """The command's id."""
        client, id_ = self._client, self._id
        match work:
            case Read(buffer, rectangle, expected):
                event = client.command(Op.READ, b"", waits, queue, buffer=id_(buffer), **asdict(rectangle))
                data = self._bytes_of(buffer)
                what = f"buffer {buffer}, {rectangle}"
                self._transfers[event] = lambda: _same(
                    self._rows(event, data, rectangle).tobytes(), expected, what
                )
            case Write(buffer, rectangle, given):
                event = client.command(Op.WRITE, b"", waits, queue, buffer=id_(buffer), **asdict(rectangle))
                target = self._bytes_of(buffer)

                def write() -> None:
                    rows = self._rows(event, target, rectangle)
                    rows[:] = np.frombuffer(given, np.uint8).reshape(rows.shape)

                self._transfers[event] = write
            case Copy(source, target_, from_, to):
                event = client.command(
                    Op.COPY, b"", waits, queue, source=id_(source), target=id_(target_),
                    source_offset=from_.offset, target_offset=to.offset, region=from_.region,
                    source_row_pitch=from_.row_pitch, target_row_pitch=to.row_pitch,
                    source_slice_pitch=from_.slice_pitch, target_slice_pitch=to.slice_pitch,
                )  # fmt: skip
            case Fill(buffer, rectangle, pattern):
                size = {"pattern_nbytes": len(pattern)}
                event = client.command(
                    Op.FILL, pattern, waits, queue, buffer=id_(buffer), **asdict(rectangle), **size
                )
            case Map(buffer, rectangle, flags):
                event = client.command(
                    Op.MAP, b"", waits, queue, buffer=id_(buffer), **asdict(rectangle), flags=flags
                )
            case Unmap(buffer, rectangle, wrote):
                event = client.command(
                    Op.UNMAP, b"", waits, queue, buffer=id_(buffer), **asdict(rectangle), wrote=wrote
                )
            case Launch(kernel, buffers, k, n, global_size, local_size):
                pointers = [(id_(buffer), offset, nbytes) for buffer, offset, nbytes in buffers]
                numbers = [struct.pack("<i", value) for value in (k, n)]
                event = client.launch(
                    self._build, [*pointers, *numbers], global_size, local_size, _INDEX[kernel],
                    waits=waits, queue=queue,
                )  # fmt: skip
            case Marker(barrier):
                event = client.command(Op.BARRIER if barrier else Op.MARKER, b"", waits, queue)
        return event

    def _end(self) -> None:
        """Wait for everything, look at how it ended, and give it back."""
        client = self._client
        for queue in self._queues:
            self._wait(client.command(Op.MARKER, queue=queue))
            client.send(Op.RELEASE_QUEUE, queue)
        assert not self._transfers, f"{len(self._transfers)} transfers were not asked for"
        for event in self._events.values():
            if event in client.slots:
                status = client.slot(event)[0]
                assert status == 0, f"a command ended with {status}"
            client.send(Op.RELEASE_EVENT, event)
        for buffer, _ in self._buffers.values():
            client.send(Op.RELEASE_BUFFER, buffer)
        client.slots.clear()
        self._complete.clear()

    def _wait(self, event: int) -> None:
        self._client.send(Op.WATCH, event, status=0)
        while event not in self._complete:
            self._notice()

    def _notice(self) -> None:
        kind, event, status = self._client.notice()
        if kind is NoticeKind.TRANSFER_READY:
            self._transfers.pop(event)()
            self._client.send(Op.TRANSFER_DONE, event, status=0)
        else:
            assert status == 0, f"a command ended with {status}"
            self._complete.add(event)

    def _rows(self, event: int, data: Callable[[], Array], rectangle: Rectangle) -> Array:
        """Where the application copies a transfer's rows."""
        packed_at = self._client.packed_at(event)
        if not packed_at:
            return rows_of(data(), rectangle)
        packed = np.frombuffer(self._client.arena, np.uint8, rectangle.nbytes, packed_at)
        return packed.reshape(rectangle.region[::-1])

    def _id(self, buffer: int) -> int:
        return self._buffers[buffer][0]

    def _bytes(self, buffer: int) -> Array:
        return self._bytes_of(buffer)()

    def _bytes_of(self, buffer: int) -> Callable[[], Array]:
        """The buffer's bytes in the arena, also when it is released meanwhile."""
        client, (id_, nbytes) = self._client, self._buffers[buffer]
        return lambda: np.frombuffer(client.arena, np.uint8, nbytes, client.offsets[id_])


def _same(found: bytes, expected: bytes, what: str) -> None:
    if found != expected:
        differ = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(expected, np.uint8))
        raise AssertionError(f"{what}: {differ.size} bytes differ, from {differ[0]} to {differ[-1]}")


__all__ = ["Application"]
