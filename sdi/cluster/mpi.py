"""The transport over MPI: the one file that knows mpi4py.

All calls of MPI are made by sdi-net.  MPI has no wait that sleeps: while something is under way messages
are looked for eagerly.  An idle process sleeps until somebody rings (``doorbell``), as who sends to one that
may be idle does; where rings don't arrive, it looks for messages now and then.

Batches and bulk bytes go over two communicators; since messages between two ranks of one communicator never
overtake each other, the bulk bytes of a batch are the next ones that come from there.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from types import ModuleType
from typing import Final, Protocol, TypeVar

from sdi.cluster.doorbell import Doorbell
from sdi.cluster.identity import Stranger, check_same, identity
from sdi.cluster.transport import Receiver, Room, Traffic

_log = logging.getLogger(__name__)
_BATCH, _BULK = 1, 2
_PREFIX_NBYTES = 8
"""Before a batch: how many bulk bytes follow it."""
_PIECE_NBYTES = 1 << 30
"""MPI counts to 2^31 - 1: larger bulk goes in pieces."""
_EAGER_NS, _RESTLESS_NS = 200_000, 20_000_000
"""So long after the last message it is looked again at once; and so long, or while something is under way,
soon."""
_SOON_S, _SPARE_S = 50e-6, 50e-3
"""Naps: while something is under way; and where all others are reached another way."""
_IDLE_PART, _IDLE_LEAST_S, _IDLE_MOST_S = 0.018, 200e-6, 1.2e-3
"""While nothing is under way naps are so long that they take this part of a core, within limits.  [M] On a
virtual machine one takes 18 to 40 us of processor time, the longer and busier the more, most in the kernel:
with up to 2 ms no less of a core was taken, and the first message took 1.3 ms."""
_TIMED_NAPS = 64
_SELDOM_S = 20e-3
"""Where all others ring, what nobody rang for is looked for so often: a ring may be lost."""
_UNSURE_NS = 15_000_000
"""Who was sent nothing for so long may be idle when a message arrives: less than _RESTLESS_NS."""
_START_S = 120.0
_CANCEL_S = 1.0
_PR_SET_TIMERSLACK = 29


_T = TypeVar("_T")


class MpiUnavailable(RuntimeError):
    """MPI can't be used; the text says what is missing."""


class MpiTransport:
    """This process as a rank of ``MPI_COMM_WORLD``.  Implements ``Transport``.

    ``expected``: as many ranks as the launcher says that there are; MPI that sees another number is not the
    launcher's.  ``rings``: whether idle processes are to be woken by rings; on all ranks, or on none.
    Raises MpiUnavailable.
    """

    def __init__(self, expected: int | None = None, rings: bool = True) -> None:
        self._wake: Final = threading.Lock()  # to wait for it costs less than for a descriptor
        self._wake.acquire()
        self._outgoing: Final[deque[tuple[int, bytes, memoryview | None, Callable[[], None] | None]]] = (
            deque()
        )
        self._refused: Final[deque[tuple[int, str, bytes]]] = deque()
        self._loop: _Loop | None = None
        self._begun: Final = threading.Event()
        self._started: Final = threading.Event()
        self._receiver: Receiver | None = None
        self._refusal = ""
        self._expected: Final = expected
        self._ending = False
        self._is_napping = self._is_listening = False
        self._rings: Final = rings
        self._sent_ns: Final[dict[int, int]] = {}  # the last time, by rank
        self._bell: Doorbell | None = None
        self.rank = self.size = 0
        self.library = ""
        self.is_spare = False
        self.traffic: dict[int, Traffic] = {}
        self.deaf: Mapping[int, str] = {}
        self._thread: Final = threading.Thread(target=self._main, name="sdi-net", daemon=True)
        self._thread.start()
        if not self._begun.wait(_START_S):
            raise MpiUnavailable(f"MPI did not start within {_START_S:.0f} s")
        if self._refusal:
            self._thread.join()
            raise MpiUnavailable(self._refusal)

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._started.set()

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        self._outgoing.append((to, batch, bulk, sent))
        if self._is_napping:
            self._rouse()
            if self._is_listening:  # both ends wake at the same time
                self._ring(to)

    def refuse(self, rank: int, why: str, last: bytes = b"") -> None:
        self._refused.append((rank, why, last))
        self._rouse()

    def abort(self, status: int) -> None:
        """End all processes of the job, after ``close``: some can't be reached.  Where a job survives losses
        (ULFM) this ends no others.
        """
        assert self._loop is not None
        self._loop.abort(status)

    def close(self) -> None:
        self._ending = True
        self._started.set()
        self._rouse()
        self._thread.join()
        if self._bell is not None:
            self._bell.close()

    def _rouse(self) -> None:
        """Have sdi-net wake, or not nap the next time.  Any thread."""
        if self._is_listening:
            assert self._bell is not None
            self._bell.ring_here()
            return
        with suppress(RuntimeError):  # somebody else just did
            self._wake.release()

    def _ring(self, to: int) -> None:
        """Wake a rank that something is sent to, if it may be idle.  Any thread."""
        now_ns, last_ns = time.monotonic_ns(), self._sent_ns.get(to)
        self._sent_ns[to] = now_ns
        may_be_idle = last_ns is None or now_ns - last_ns > _UNSURE_NS
        if self._bell is not None and may_be_idle and self._bell.ring(to):
            self.traffic[to].rings += 1

    # -- sdi-net --------------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1000, 0, 0, 0)
            loop = self._loop = self._begin()
        except Exception as error:
            self._refusal = str(error)
            return
        finally:
            self._begun.set()
        self._started.wait()
        try:
            loop.run()
        except Exception:
            _log.exception("MPI failed")
            assert self._receiver is not None
            for rank in range(self.size):
                if rank != self.rank:
                    self._receiver.lost(rank, "MPI failed")
        finally:
            loop.end()

    def _begin(self) -> _Loop:
        try:
            import mpi4py

            mpi4py.rc.initialize = False
            mpi4py.rc.finalize = False
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise MpiUnavailable(f"mpi4py finds no MPI: {error}; pip install 'sdi[mpi]'") from error
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
        self.rank, self.size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
        self.library = MPI.Get_library_version().split("\n")[0].split(",")[0].strip()
        if self._expected is not None and self.size != self._expected:
            MPI.Finalize()
            raise MpiUnavailable(
                f"this is one of {self._expected} processes of its job, but MPI sees a world of {self.size}: "
                f"mpi4py uses {self.library}, and the job was started by another MPI's mpiexec"
            )
        try:
            self._meet_same(MPI.COMM_WORLD)
        except Stranger as error:
            MPI.Finalize()
            raise MpiUnavailable(str(error)) from error
        self.traffic = {rank: Traffic() for rank in range(self.size) if rank != self.rank}
        self._bell = self._hang(MPI.COMM_WORLD)
        return _Loop(self, MPI)

    def _meet_same(self, comm: Communicator) -> None:
        """Raises Stranger, on all ranks, where one has another version; text is what all of them read."""
        own, said = identity(), comm.allgather(identity())
        for rank, each in enumerate(said):
            check_same(self.rank, own, rank, each)

    def _hang(self, comm: Communicator) -> Doorbell | None:
        """A doorbell, if there is anybody whom all others can ring."""
        bell, why = None, "it was told not to"
        try:
            bell = Doorbell(self.rank) if self._rings else None
        except OSError as error:
            why = f"it gets no socket: {error}"
        given = comm.allgather(why if bell is None else bell.card)
        cards = [each for each in given if not isinstance(each, str)]
        if bell is None or len(cards) < self.size:
            rank, why = next((rank, each) for rank, each in enumerate(given) if isinstance(each, str))
            self.deaf = dict.fromkeys(range(self.size), f"rank {rank} can't ring: {why}")
        else:
            bell.meet(cards, comm.Barrier, comm.allgather)
            self.deaf = bell.deaf
        if bell is not None and len(self.deaf) == self.size:
            bell.close()
            return None
        return bell


class Request(Protocol):
    """What is used of a request of mpi4py."""

    def Cancel(self) -> None: ...  # noqa: N802

    def Test(self) -> bool: ...  # noqa: N802


class Communicator(Protocol):
    """What is used of a communicator of mpi4py."""

    def allgather(self, mine: _T, /) -> list[_T]: ...

    def Barrier(self) -> None: ...  # noqa: N802

    def Isend(self, buffer: list[object], to: int, tag: int, /) -> Request: ...  # noqa: N802


class _Loop:
    """What sdi-net does once MPI has begun."""

    def __init__(self, transport: MpiTransport, mpi: ModuleType) -> None:
        self._transport: Final = transport
        self._mpi: Final = mpi
        self._batches: Final = mpi.COMM_WORLD.Dup()
        self._bulk: Final = mpi.COMM_WORLD.Dup()
        for each in (self._batches, self._bulk):
            each.Set_errhandler(mpi.ERRORS_RETURN)
        self._requests: list[Request] = []
        self._then: list[Callable[[], None] | None] = []
        self._peers: list[tuple[int, bool]] = []  # of each request the other end, and whether it is sent to
        self._abandoned: list[Request] = []  # which keep their memory
        self._lost: Final[set[int]] = set()
        self._status: Final = mpi.Status()
        self._idle_s = 1e-3

    def run(self) -> None:
        """Carry messages until the transport is closed and everything is sent."""
        transport = self._transport
        last_ns = time.monotonic_ns()
        while True:
            is_active = self._refuse() | self._send() | self._receive() | self._complete()
            now_ns = time.monotonic_ns()
            if is_active:
                last_ns = now_ns
                continue
            if transport._ending and not self._requests and not transport._outgoing:
                return
            receiver = transport._receiver
            quiet_ns = now_ns - last_ns
            if quiet_ns < _EAGER_NS:
                os.sched_yield()
                continue
            is_busy = bool(self._requests) or (receiver is not None and receiver.is_busy())
            if is_busy or quiet_ns < _RESTLESS_NS:
                self._nap()
            else:
                self._idle()
                last_ns = time.monotonic_ns()

    def _nap(self) -> None:
        """Until there is something to send, for a moment at most."""
        transport = self._transport
        transport._is_napping = True
        if not transport._outgoing:
            self._sleep(_SOON_S)
        transport._is_napping = False

    def _idle(self) -> None:
        """Until there is something to send or something came; all that is done meanwhile costs."""
        transport = self._transport
        if transport._bell is not None and transport._bell.is_rung and not transport.is_spare:
            self._listen(transport._bell)
            return
        transport._is_napping = True
        naps, began_ns = 0, time.thread_time_ns()
        while not transport._outgoing:
            if self._sleep(_SPARE_S if transport.is_spare else self._idle_s) or self._receive():
                break
            naps += 1
            if naps == _TIMED_NAPS:
                now_ns = time.thread_time_ns()
                wanted_s = (now_ns - began_ns) / (1e9 * _TIMED_NAPS * _IDLE_PART)
                self._idle_s = min(max(wanted_s, _IDLE_LEAST_S), _IDLE_MOST_S)
                naps, began_ns = 0, now_ns
        transport._is_napping = False

    def _listen(self, bell: Doorbell) -> None:
        """As ``_idle``, where all others ring."""
        transport = self._transport
        transport._is_listening = True
        transport._is_napping = True
        while not transport._outgoing and not transport._ending:
            if bell.wait(_SELDOM_S) or self._receive():
                break
        transport._is_napping = False
        transport._is_listening = False

    def _sleep(self, seconds: float) -> bool:
        """Whether it was woken."""
        return self._transport._wake.acquire(timeout=seconds)

    def _send(self) -> bool:
        transport, outgoing = self._transport, self._transport._outgoing
        is_any = False
        while outgoing:
            to, batch, bulk, sent = outgoing.popleft()
            is_any = True
            if to in self._lost:
                if sent is not None:
                    sent()
                continue
            nbytes = 0 if bulk is None else bulk.nbytes
            traffic = transport.traffic[to]
            traffic.messages += 1
            traffic.record_nbytes += len(batch)
            traffic.bulk_nbytes += nbytes
            try:
                self._isend(
                    self._batches, nbytes.to_bytes(_PREFIX_NBYTES, "little") + batch, to, _BATCH, None
                )
                transport._ring(to)
                if bulk is None:
                    if sent is not None:
                        sent()
                    continue
                for at in range(0, nbytes, _PIECE_NBYTES):
                    is_last = at + _PIECE_NBYTES >= nbytes
                    piece = bulk[at : at + _PIECE_NBYTES]
                    self._isend(self._bulk, piece, to, _BULK, sent if is_last else None)
            except self._mpi.Exception as error:
                self._drop(to, str(error))
                if sent is not None:
                    sent()
        return is_any

    def _isend(
        self,
        comm: Communicator,
        data: bytes | memoryview,
        to: int,
        tag: int,
        sent: Callable[[], None] | None,
    ) -> None:
        self._requests.append(comm.Isend([data, self._mpi.BYTE], to, tag))
        self._then.append(sent)
        self._peers.append((to, True))

    def _receive(self) -> bool:
        """Take the batches that are there."""
        is_any = False
        probe, asked = self._batches.Improbe, (self._mpi.ANY_SOURCE, _BATCH, self._status)
        while True:
            try:
                # MPI answers by what it knows, and only then finds out what has come: asked again it tells.
                message = probe(*asked) or probe(*asked)
                if message is None:
                    return is_any
                is_any = True
                source = self._status.Get_source()
                data = bytearray(self._status.Get_count(self._mpi.BYTE))
                message.Recv([data, self._mpi.BYTE])
            except self._mpi.Exception as error:
                if not self._find_lost(str(error)):
                    raise
                return True
            if source not in self._lost:
                self._received(source, memoryview(data))

    def _received(self, source: int, data: memoryview) -> None:
        receiver = self._transport._receiver
        assert receiver is not None
        nbytes = int.from_bytes(data[:_PREFIX_NBYTES], "little")
        room = receiver.received(source, data[_PREFIX_NBYTES:], nbytes)
        if not nbytes:
            return
        if room is None or room.memory.nbytes != nbytes:
            raise ValueError(f"no room for {nbytes} bytes of rank {source}")
        self._take(source, room)

    def _take(self, source: int, room: Room) -> None:
        for at in range(0, room.memory.nbytes, _PIECE_NBYTES):
            is_last = at + _PIECE_NBYTES >= room.memory.nbytes
            piece = room.memory[at : at + _PIECE_NBYTES]
            self._requests.append(self._bulk.Irecv([piece, self._mpi.BYTE], source, _BULK))
            self._then.append(room.filled if is_last else None)
            self._peers.append((source, False))

    def _complete(self) -> bool:
        """Find out which sends and receptions are done."""
        if not self._requests:
            return False
        try:
            found = self._mpi.Request.Testsome(self._requests)
        except self._mpi.Exception as error:
            if not self._find_lost(str(error)):
                raise
            # Of those that are left some may be done all the same, and are told once.
            found = [index for index, request in enumerate(self._requests) if not request]
        if not found:
            return False
        calls = [self._then[index] for index in found]
        self._forget(set(found))
        for call in calls:
            if call is not None:
                call()
        return True

    def _forget(self, gone: Set[int]) -> None:
        """These requests are done, or will never be."""
        self._requests = [each for index, each in enumerate(self._requests) if index not in gone]
        self._then = [each for index, each in enumerate(self._then) if index not in gone]
        self._peers = [each for index, each in enumerate(self._peers) if index not in gone]

    def _abandon(self, rank: int) -> None:
        """Nothing is waited for any more that was under way with a rank that is lost: MPI may never tell.

        What came from there is not passed on, whether all of it is there or not.
        """
        gone = [index for index, (peer, _) in enumerate(self._peers) if peer == rank]
        sent = [self._then[index] for index in gone if self._peers[index][1]]
        self._abandoned += [self._requests[index] for index in gone]
        self._forget(set(gone))
        for call in sent:
            if call is not None:
                call()

    def _refuse(self) -> bool:
        """Drop ranks that are heard no more, whatever they are doing."""
        transport, refused = self._transport, self._transport._refused
        is_any = bool(refused)
        while refused:
            rank, why, last = refused.popleft()
            if rank in self._lost:
                continue
            if last:
                with suppress(self._mpi.Exception):
                    self._isend(self._batches, bytes(_PREFIX_NBYTES) + last, rank, _BATCH, None)
            if transport.rank == 0 and not self._cancel(rank):
                _log.error("rank %d was sending, and MPI may still write what it sends: the job ends", rank)
                self.abort(1)
            self._drop(rank, why)
        return is_any

    def _cancel(self, rank: int) -> bool:
        """Whether nothing is written here any more that comes from a rank: memory will be used again."""
        left = [
            request
            for request, (peer, is_sent) in zip(self._requests, self._peers, strict=True)
            if peer == rank and not is_sent
        ]
        for request in left:
            request.Cancel()
        deadline = time.monotonic() + _CANCEL_S
        while left and time.monotonic() < deadline:
            left = [request for request in left if not request.Test()]
        return not left

    def abort(self, status: int) -> None:
        """End all processes of the job, this one too."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._mpi.COMM_WORLD.Abort(status)

    def _find_lost(self, why: str) -> bool:
        """Whether a rank is lost, where this MPI can tell (ULFM)."""
        found = False
        for comm in (self._batches, self._bulk):
            try:
                comm.Ack_failed()
                failed = comm.Get_failed()
            except (NotImplementedError, AttributeError, self._mpi.Exception):
                return found
            if failed.size:
                ranks = failed.Translate_ranks(list(range(failed.size)), comm.Get_group())
                for rank in ranks:
                    found |= self._drop(rank, why)
            failed.Free()
        return found

    def _drop(self, rank: int, why: str) -> bool:
        if rank in self._lost:
            return True
        self._lost.add(rank)
        self._abandon(rank)
        receiver = self._transport._receiver
        if receiver is not None:
            receiver.lost(rank, why)
        return True

    def end(self) -> None:
        """Leave the job.  Where a rank was lost, without MPI's end: Open MPI may wait in it for that rank."""
        if self._lost:
            return
        try:
            self._batches.Free()
            self._bulk.Free()
            self._mpi.Finalize()
        except self._mpi.Exception:
            _log.debug("MPI's end", exc_info=True)
