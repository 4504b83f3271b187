"""A transport over stream sockets between threads or processes of one machine.

A frame is the batch's length and the bulk's, both uint64, the batch, then the bulk bytes.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from sdi.cluster.transport import Receiver, Room, Traffic

_log = logging.getLogger(__name__)
_FRAME = struct.Struct("<2Q")
_RECV_NBYTES = 1 << 18
_BATCH_MAX_NBYTES = 1 << 30
"""No batch is larger; bulk bytes have no such limit."""
_ASIDE_MS = 1
"""Who polls may have much else to do: so long a message lies at most."""


def _no() -> bool:
    return False


class _Outgoing:
    """Bytes to one process that its socket has not taken yet."""

    __slots__ = ("parts", "sent")

    def __init__(self, parts: list[memoryview], sent: Callable[[], None] | None) -> None:
        self.parts = parts
        self.sent = sent


class _Peer:
    """One connection.  ``waiting``: guarded by ``lock``; the rest belongs to sdi-net.

    ``process``: a descriptor (pidfd) of who is at the other end, -1 where its end needs not be waited for.
    """

    def __init__(self, rank: int, end: socket.socket, process: int) -> None:
        self.rank: Final = rank
        self.end: Final = end
        self.process: Final = process
        self.lock: Final = threading.Lock()
        self.waiting: Final[deque[_Outgoing]] = deque()
        self.is_lost = False
        self.why_lost = ""
        self.unparsed = bytearray()
        self.room: Room | None = None
        self.filled_nbytes = 0


class Loopback:
    """``ends``: a connected stream socket to each other rank; they are this object's now.

    ``processes``: descriptors (pidfd) of the processes of some ranks, this object's too.  Such a rank whose
    connection ends is killed, and lost when it has ended: then it writes nothing more to shared memory.
    Implements ``Transport``.
    """

    def __init__(
        self,
        rank: int,
        ends: Mapping[int, socket.socket],
        name: str = "sdi-net",
        processes: Mapping[int, int] | None = None,
    ) -> None:
        self.rank = rank
        self.size = len(ends) + 1
        self.is_spare = False
        self.deaf: Mapping[int, str] = {}
        self.traffic = {peer: Traffic() for peer in ends}
        watched = processes or {}
        self._peers: Final = {peer: _Peer(peer, end, watched.get(peer, -1)) for peer, end in ends.items()}
        self._is_parting = False
        self._selector: Final = selectors.DefaultSelector()
        self._wake: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._changed: Final[set[int]] = set()
        self._refused: Final[deque[tuple[_Peer, str]]] = deque()
        self._ending = False
        self._reading: Final = threading.Lock()
        self.is_polled: Callable[[], bool] = _no
        """Whether somebody calls ``poll`` all the time: then this object's thread need not be woken."""
        self.look: Callable[[], bool] = _no
        """Called by this object's thread when there is nothing to read; whether to call again soon."""
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._selector.register(self._wake, selectors.EVENT_READ)
        for peer in self._peers.values():
            peer.end.setblocking(False)
            self._selector.register(peer.end, selectors.EVENT_READ, peer)
        self._thread.start()

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        peer, traffic = self._peers[to], self.traffic[to]
        nbytes = 0 if bulk is None else bulk.nbytes
        parts = [memoryview(_FRAME.pack(len(batch), nbytes) + batch)]
        if bulk is not None:
            parts.append(bulk)
        with peer.lock:
            traffic.messages += 1
            traffic.record_nbytes += len(batch)
            traffic.bulk_nbytes += nbytes
            is_first = not peer.waiting
            if not peer.is_lost:
                peer.waiting.append(_Outgoing(parts, sent))
            done = self._write(peer) if is_first and not peer.is_lost else []
            is_left = bool(peer.waiting)
            if peer.is_lost and sent is not None:
                done.append(sent)
        for call in done:
            call()
        if is_first and is_left:
            self._changed.add(to)
            os.eventfd_write(self._wake, 1)

    def refuse(self, rank: int, why: str, last: bytes = b"") -> None:
        if last:
            self.send(rank, last)
        self._refused.append((self._peers[rank], why))
        os.eventfd_write(self._wake, 1)

    def part(self) -> None:
        """Others end from now on: none is killed for that."""
        self._is_parting = True

    def close(self) -> None:
        self._ending = True
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
        for peer in self._peers.values():
            peer.end.close()
            if peer.process >= 0:
                os.close(peer.process)
        self._selector.close()
        os.close(self._wake)

    def poll(self) -> None:
        """Receive what is there, on this thread."""
        if self._reading.acquire(blocking=False):
            try:
                self._act(self._selector.select(0))
            finally:
                self._reading.release()

    def watch(self) -> None:
        """Nobody polls any more."""
        os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        aside = select.poll()
        aside.register(self._wake, select.POLLIN)
        while not (self._ending and not any(peer.waiting for peer in self._peers.values())):
            if self.is_polled():
                aside.poll(_ASIDE_MS)
                self.poll()
                continue
            ready = self._selector.select(0 if self.look() else None)
            if ready:
                with self._reading:
                    self._act(ready)

    def _act(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        """Receive and send; what is said to be ready may have been read by another thread meanwhile."""
        for key, events in ready:
            if key.data is None:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                self._watch_writers()
                self._drop_refused()
                continue
            peer: _Peer = key.data
            if key.fileobj == peer.process:
                assert self._receiver is not None
                if self._selector.get_map().get(peer.process) is not None:
                    self._selector.unregister(peer.process)
                    self._receiver.lost(peer.rank, peer.why_lost)
                continue
            if events & selectors.EVENT_WRITE and not peer.is_lost:
                self._write_on(peer)
            if events & selectors.EVENT_READ and not peer.is_lost:
                self._read(peer)

    def _drop_refused(self) -> None:
        while self._refused:
            peer, why = self._refused.popleft()
            if not peer.is_lost:
                self._drop(peer, why)

    def _watch_writers(self) -> None:
        while self._changed:
            peer = self._peers[self._changed.pop()]
            if not peer.is_lost and peer.waiting:
                self._selector.modify(peer.end, selectors.EVENT_READ | selectors.EVENT_WRITE, peer)

    def _write_on(self, peer: _Peer) -> None:
        with peer.lock:
            done = self._write(peer)
            is_left = bool(peer.waiting)
        for call in done:
            call()
        if not is_left and not peer.is_lost:
            self._selector.modify(peer.end, selectors.EVENT_READ, peer)

    def _write(self, peer: _Peer) -> list[Callable[[], None]]:
        """Send what the socket takes; the caller has the lock.  What to call for what is sent."""
        done: list[Callable[[], None]] = []
        while peer.waiting:
            first = peer.waiting[0]
            try:
                nbytes = peer.end.sendmsg(first.parts, (), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:  # reading will find out too, and say so
                done += [each.sent for each in peer.waiting if each.sent is not None]
                peer.waiting.clear()
                break
            while first.parts and nbytes >= first.parts[0].nbytes:
                nbytes -= first.parts.pop(0).nbytes
            if first.parts:
                first.parts[0] = first.parts[0][nbytes:]
                continue
            peer.waiting.popleft()
            if first.sent is not None:
                done.append(first.sent)
        return done

    def _read(self, peer: _Peer) -> None:
        try:
            if peer.room is not None:
                nbytes = peer.end.recv_into(peer.room.memory[peer.filled_nbytes :])
                if nbytes:
                    self._fill(peer, nbytes)
                    return
                data = b""
            else:
                data = peer.end.recv(_RECV_NBYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(peer, "the connection ended")
            return
        peer.unparsed += data
        try:
            self._parse(peer)
        except Exception as error:
            _log.exception("rank %d sent what can't be read", peer.rank)
            self._drop(peer, f"sent what can't be read: {error}")

    def _fill(self, peer: _Peer, nbytes: int) -> None:
        assert peer.room is not None
        peer.filled_nbytes += nbytes
        if peer.filled_nbytes == peer.room.memory.nbytes:
            room, peer.room, peer.filled_nbytes = peer.room, None, 0
            room.filled()

    def _parse(self, peer: _Peer) -> None:
        """Hand out all frames that are there, and the part of the bulk that came with them."""
        assert self._receiver is not None
        data, at = peer.unparsed, 0
        while peer.room is None and len(data) - at >= _FRAME.size:
            batch_nbytes, bulk_nbytes = _FRAME.unpack_from(data, at)
            if batch_nbytes > _BATCH_MAX_NBYTES:
                raise ValueError(f"a batch of {batch_nbytes} bytes")
            if len(data) - at - _FRAME.size < batch_nbytes:
                break
            batch = memoryview(bytes(data[at + _FRAME.size : at + _FRAME.size + batch_nbytes]))
            at += _FRAME.size + batch_nbytes
            room = self._receiver.received(peer.rank, batch, bulk_nbytes)
            if not bulk_nbytes:
                continue
            if room is None or room.memory.nbytes != bulk_nbytes:
                raise ValueError(f"no room for {bulk_nbytes} bytes")
            peer.room = room
            there = min(bulk_nbytes, len(data) - at)
            room.memory[:there] = data[at : at + there]
            at += there
            self._fill(peer, there)
        del data[:at]

    def _drop(self, peer: _Peer, why: str) -> None:
        """Nothing more is read from there, or sent; who is at the other end finds its connection ended."""
        assert self._receiver is not None
        self._selector.unregister(peer.end)
        with suppress(OSError):  # it has gone
            peer.end.shutdown(socket.SHUT_RDWR)
        with peer.lock:
            peer.is_lost = True
            done = [each.sent for each in peer.waiting if each.sent is not None]
            peer.waiting.clear()
        for call in done:
            call()
        if peer.process < 0 or self._is_parting:
            self._receiver.lost(peer.rank, why)
            return
        peer.why_lost = f"{why}, and its process was ended"
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(peer.process, signal.SIGKILL)
        self._selector.register(peer.process, selectors.EVENT_READ, peer)


def sockets(size: int) -> list[dict[int, socket.socket]]:
    """For each of ``size`` ranks a socket to each other one, by rank."""
    found: list[dict[int, socket.socket]] = [{} for _ in range(size)]
    for low in range(size):
        for high in range(low + 1, size):
            found[low][high], found[high][low] = socket.socketpair()
    return found
