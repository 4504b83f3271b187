"""Copies between two processes: one reads bytes and sends them in chunks, the other takes them in.

Each end has a wait list and a ticket of its own.  A copy is known by a key, which is the same at both ends;
the bytes of rows travel without what lies between them.  Bytes may arrive before it was said where they
belong.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from sdi.cluster.records import Kind, failure, failure_of, packed
from sdi.cluster.transport import Room, Transport
from sdi.devices.base import Device, DeviceBuffer, HostBytes, Rows
from sdi.devices.join import join
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed

CHUNK_NBYTES = 4 << 20
"""Chunks of a copy are read, sent and written at the same time."""
_KEPT_NBYTES = 64 << 20
_PAGE_NBYTES = 1 << 16


def chunks(rows: Rows) -> Iterator[tuple[int, Rows]]:
    """``rows`` in parts of at most ``CHUNK_NBYTES``, each with the number of packed bytes before it.

    A row that is larger is cut, too, where it is the only one.
    """
    if rows.count == 1:
        for at in range(0, rows.nbytes, CHUNK_NBYTES):
            nbytes = min(CHUNK_NBYTES, rows.nbytes - at)
            yield at, Rows(1, nbytes, nbytes)
        return
    each = max(1, CHUNK_NBYTES // rows.nbytes)
    for first in range(0, rows.count, each):
        yield first * rows.nbytes, Rows(min(each, rows.count - first), rows.nbytes, rows.pitch)


def plain(nbytes: int) -> Rows:
    """``nbytes`` without gaps."""
    return Rows(1, nbytes, nbytes)


class Staging:
    """Host memory for bytes on their way.  Any thread."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._kept: dict[int, list[memoryview]] = {}
        self._kept_nbytes = 0

    def take(self, nbytes: int) -> memoryview:
        """``nbytes`` of memory, content undefined."""
        size = -(-nbytes // _PAGE_NBYTES) * _PAGE_NBYTES
        with self._lock:
            found = self._kept.get(size)
            if found:
                self._kept_nbytes -= size
                return found.pop()[:nbytes]
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:nbytes]

    def give(self, memory: memoryview) -> None:
        """What ``take`` gave is not used any more."""
        whole = memoryview(memory.obj)
        with self._lock:
            if self._kept_nbytes + whole.nbytes <= _KEPT_NBYTES:
                self._kept.setdefault(whole.nbytes, []).append(whole)
                self._kept_nbytes += whole.nbytes


@dataclass(slots=True, eq=False)
class _Chunk:
    """``memory``: where its bytes go.  ``arrived``: is done when they are there."""

    memory: memoryview
    arrived: Ticket


class Exchange:
    """The copies of one process.  Owned by: the issuing thread; sdi-net says what arrives."""

    def __init__(self, transport: Transport) -> None:
        self._transport: Final = transport
        self._staging: Final = Staging()
        self._lock: Final = threading.Lock()
        self._coming: Final[dict[tuple[int, int], dict[int, _Chunk]]] = {}
        self._failed: Final[dict[tuple[int, int], Exception]] = {}
        self._lost: Final[dict[int, DeviceFailed]] = {}

    # -- sending ------------------------------------------------------------------------------------------

    def send(
        self,
        device: Device,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
        to: int,
        key: int,
    ) -> Ticket:
        """Send ``rows`` of ``buffer``; the ticket says that they were read."""
        reads: list[Ticket] = []
        start = offset
        for at, part in chunks(rows):
            memory = self._staging.take(part.extent)
            if part.count == 1:
                ticket = device.download(buffer, start, memory, wait)
            else:
                ticket = device.download_rows(buffer, start, memory, part, wait)
            start += part.nbytes if rows.count == 1 else part.count * part.pitch
            reads.append(ticket)
            ticket.when_done(partial(self._read, to, key, at, part, memory))
        device.flush()
        return _last(reads)

    def _read(self, to: int, key: int, at: int, rows: Rows, memory: memoryview, ticket: Ticket) -> None:
        if ticket.error is not None:
            self._staging.give(memory)
            self.send_failure(to, key, ticket.error)
            return
        if rows.count > 1:
            memory = self._moved(memory, rows, rows.pitch, rows.nbytes)
        batch = packed(Kind.DATA, 0, key, (at, memory.nbytes))
        self._transport.send(to, batch, memory, lambda: self._staging.give(memory))

    def _moved(self, memory: memoryview, rows: Rows, pitch: int, new_pitch: int) -> memoryview:
        """``rows`` with another pitch, in other memory; ``memory`` goes back."""
        moved = self._staging.take((rows.count - 1) * new_pitch + rows.nbytes)
        np.copyto(_grid(moved, rows, new_pitch), _grid(memory, rows, pitch))
        self._staging.give(memory)
        return moved

    def send_host(self, host: HostBytes, rows: Rows, wait: Sequence[Ticket], to: int, key: int) -> Ticket:
        """Send ``rows`` of ``host``, from its start; the ticket says that ``host`` may change."""
        read = Ticket()

        def ready(error: BaseException | None) -> None:
            if error is not None:
                self.send_failure(to, key, error)
                read.complete(error)
                return
            left = [sum(1 for _ in chunks(rows))]
            lock = threading.Lock()

            def sent() -> None:
                with lock:
                    left[0] -= 1
                    is_last = not left[0]
                if is_last:
                    read.complete()

            start = 0
            for at, part in chunks(rows):
                nbytes = part.count * part.nbytes
                batch = packed(Kind.DATA, 0, key, (at, nbytes))
                if part.count == 1:
                    self._transport.send(to, batch, host[start : start + nbytes], sent)
                else:
                    memory = self._staging.take(nbytes)
                    np.copyto(_grid(memory, part, part.nbytes), _grid(host[start:], part, part.pitch))
                    self._transport.send(to, batch, memory, partial(_both, sent, self._staging, memory))
                start += part.nbytes if rows.count == 1 else part.count * part.pitch

        join(wait, ready)
        return read

    def send_failure(self, to: int, key: int, error: BaseException) -> None:
        """The copy ``key`` fails at its other end too."""
        self._transport.send(to, packed(Kind.DATA, 0, key, (0, 0), tail=failure(error)))

    # -- receiving ----------------------------------------------------------------------------------------

    def receive(
        self,
        device: Device,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
        source: int,
        key: int,
    ) -> Ticket:
        """Write the ``rows`` that ``source`` sends to ``buffer``; the ticket says that they are there."""
        writes: list[Ticket] = []
        start = offset
        for at, part in chunks(rows):
            nbytes = part.count * part.nbytes
            chunk = self._chunk(source, key, at, nbytes)
            if part.count == 1:
                ticket = device.upload(chunk.memory, buffer, start, [*wait, chunk.arrived])
                used = [ticket, chunk.arrived]
            else:
                ticket = self._receive_rows(device, buffer, start, part, wait, chunk)
                used = [ticket]
            start += part.nbytes if rows.count == 1 else part.count * part.pitch
            writes.append(ticket)
            # Where it failed its bytes may still be on their way into that memory.
            join(used, partial(self._used, source, key, at, chunk))
        device.flush()
        return _last(writes)

    def _receive_rows(
        self,
        device: Device,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
        chunk: _Chunk,
    ) -> Ticket:
        memory, spread = self._staging.take(rows.extent), Ticket()

        def arrived(ticket: Ticket) -> None:
            if ticket.error is None:
                np.copyto(_grid(memory, rows, rows.pitch), _grid(chunk.memory, rows, rows.nbytes))
            spread.complete(ticket.error)

        chunk.arrived.when_done(arrived)
        ticket = device.upload_rows(memory, buffer, offset, rows, [*wait, spread])
        whole = Ticket()

        def written(error: BaseException | None) -> None:
            self._staging.give(memory)
            whole.complete(error, ticket.start_ns, ticket.end_ns)

        join([ticket, spread], written)
        return whole

    def receive_host(self, host: HostBytes, rows: Rows, source: int, key: int) -> Ticket:
        """Write the ``rows`` that ``source`` sends to ``host``, from its start, as soon as they come.

        To be called before ``source`` is asked for them.
        """
        arrivals: list[Ticket] = []
        start = 0
        for at, part in chunks(rows):
            nbytes = part.count * part.nbytes
            if part.count == 1:
                chunk = self._chunk(source, key, at, nbytes, host[start : start + nbytes])
                arrivals.append(chunk.arrived)
            else:
                chunk = self._chunk(source, key, at, nbytes)
                spread = Ticket()
                chunk.arrived.when_done(partial(self._spread, chunk, host[start:], part, spread))
                arrivals.append(spread)
            chunk.arrived.when_done(partial(self._came, source, key, at))
            start += part.nbytes if rows.count == 1 else part.count * part.pitch
        return _last(arrivals)

    def _spread(self, chunk: _Chunk, host: memoryview, rows: Rows, spread: Ticket, arrived: Ticket) -> None:
        if arrived.error is None:
            np.copyto(_grid(host, rows, rows.pitch), _grid(chunk.memory, rows, rows.nbytes))
            self._staging.give(chunk.memory)
        spread.complete(arrived.error)

    def _used(self, source: int, key: int, at: int, chunk: _Chunk, _: BaseException | None) -> None:
        if chunk.arrived.error is None:
            self._staging.give(chunk.memory)
        self._came(source, key, at, chunk.arrived)

    def _came(self, source: int, key: int, at: int, _: Ticket) -> None:
        """Nothing more is to be known of this part of the copy."""
        with self._lock:
            self._failed.pop((source, key), None)
            parts = self._coming.get((source, key))
            if parts is not None:
                parts.pop(at, None)
                if not parts:
                    del self._coming[source, key]

    def _chunk(self, source: int, key: int, at: int, nbytes: int, memory: memoryview | None = None) -> _Chunk:
        """The part of a copy that begins ``at``, whether its bytes are there already or not."""
        with self._lock:
            why = self._lost.get(source) or self._failed.get((source, key))
            if why is not None:
                return _Chunk(memory or self._staging.take(nbytes), completed(why))
            parts = self._coming.setdefault((source, key), {})
            found = parts.get(at)
            if found is None:
                found = parts[at] = _Chunk(memory or self._staging.take(nbytes), Ticket())
            return found

    # -- what the transport's receiver passes on --------------------------------------------------------

    def room(self, source: int, key: int, at: int, nbytes: int) -> Room:
        """Where bytes of a copy go that arrive now."""
        chunk = self._chunk(source, key, at, nbytes)
        if chunk.arrived.done or chunk.memory.nbytes != nbytes:  # it has failed meanwhile
            return Room(self._staging.take(nbytes), lambda: None)

        def filled() -> None:
            if not chunk.arrived.done:
                chunk.arrived.complete()

        return Room(chunk.memory, filled)

    def failed(self, source: int, key: int, tail: bytes | memoryview) -> None:
        """The copy failed at its other end."""
        why = failure_of(tail) or DeviceFailed(f"rank {source}", "a copy failed")
        with self._lock:
            self._failed[source, key] = why
            parts = list(self._coming.pop((source, key), {}).values())
        _fail(parts, why)

    def lost(self, rank: int, why: DeviceFailed) -> None:
        """Nothing comes from ``rank`` any more."""
        with self._lock:
            self._lost[rank] = why
            keys = [key for key in self._coming if key[0] == rank]
            parts = [chunk for key in keys for chunk in self._coming.pop(key).values()]
        _fail(parts, why)


def _fail(parts: Sequence[_Chunk], why: Exception) -> None:
    for chunk in parts:
        if not chunk.arrived.done:
            chunk.arrived.complete(why)


def _last(parts: Sequence[Ticket]) -> Ticket:
    """A ticket that stands for all of ``parts``."""
    if len(parts) == 1:
        return parts[0]
    whole = Ticket()

    def finished(error: BaseException | None) -> None:
        starts = [part.start_ns for part in parts if part.start_ns]
        whole.complete(error, min(starts, default=0), max(part.end_ns for part in parts))

    join(parts, finished)
    return whole


def _both(sent: Callable[[], None], staging: Staging, memory: memoryview) -> None:
    staging.give(memory)
    sent()


def _grid(memory: memoryview, rows: Rows, pitch: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """``rows`` of ``memory``, one every ``pitch`` bytes, as uint8 of shape (count, nbytes)."""
    flat = np.frombuffer(memory, np.uint8, count=(rows.count - 1) * pitch + rows.nbytes)
    return np.lib.stride_tricks.as_strided(flat, (rows.count, rows.nbytes), (pitch, 1))


__all__ = ["CHUNK_NBYTES", "Exchange", "Staging", "chunks", "plain"]
