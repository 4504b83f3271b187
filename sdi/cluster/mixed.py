"""Two transports as one: sockets to the processes of rank 0's machine, the job's own (MPI) to all others.

A socket wakes who waits for it: no thread looks for messages over and over, none is handed what it is to
send, and what is lost is known at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from sdi.cluster.loopback import Loopback
from sdi.cluster.near import Met
from sdi.cluster.transport import Receiver, Room, Traffic, Transport

_HANGS_NS = 10_000_000_000


class MixedTransport:
    """``far``, until ``meet`` names processes that are near.  Implements ``Transport``.

    ``near``: the ranks of these.
    """

    def __init__(self, far: Transport) -> None:
        self.rank = far.rank
        self.size = far.size
        self.is_spare = False
        self.traffic: dict[int, Traffic] = far.traffic
        self.near: Mapping[int, object] = {}
        self._far: Final = far
        self._sockets: Loopback | None = None
        self._receiver: Receiver | None = None
        self._turn: Final = threading.Lock()
        self._teller = 0  # the thread that has the turn
        self._since_ns = 0  # when it was last told of something received
        self._lost: Final[set[int]] = set()
        self._heard: set[int] = set()
        self._is_polled: Callable[[], bool] | None = None
        self._look: Callable[[], bool] | None = None

    @property
    def deaf(self) -> Mapping[int, str]:
        return {} if self._far.is_spare else self._far.deaf

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._far.start(_Far(self))

    def pace(self, is_polled: Callable[[], bool] | None, look: Callable[[], bool] | None) -> None:
        """Before ``meet``: see ``Loopback``, where sockets have these."""
        self._is_polled, self._look = is_polled, look

    def poll(self) -> None:
        """Receive what has come over sockets, on this thread.

        Nothing where this thread is just telling of a message: who hears of it may issue, and look.
        """
        if self._sockets is not None and self._teller != threading.get_ident():
            self._sockets.poll()

    def watch(self) -> None:
        """Nobody polls any more."""
        if self._sockets is not None:
            self._sockets.watch()

    def meet(self, met: Met) -> None:
        """From now on messages to the processes that were met go over their sockets.

        Nothing is on its way to or from them that is to arrive before these.
        """
        sockets = Loopback(self.rank, met.ends, "sdi-near", met.processes)
        sockets.traffic = {rank: self.traffic[rank] for rank in met.ends}
        sockets.is_polled = self._is_polled or sockets.is_polled
        sockets.look = self._look or sockets.look
        self._sockets = sockets
        self.near = met.ends
        self._far.is_spare = len(met.ends) + 1 == self.size
        sockets.start(_Near(self))

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        sockets = self._sockets
        if sockets is not None and to in self.near:
            sockets.send(to, batch, bulk, sent)
        else:
            self._far.send(to, batch, bulk, sent)

    def refuse(self, rank: int, why: str, last: bytes = b"") -> None:
        if self._sockets is not None and rank in self.near:
            self._sockets.refuse(rank, why, last)
        else:
            self._far.refuse(rank, why, last)

    def heard(self) -> set[int]:
        """Ranks of which something was received since this was asked; what is being told of is told first."""
        with self._turn:
            found, self._heard = self._heard, set()
        return found

    def part(self) -> None:
        """Others end from now on: that is no loss."""
        if self._sockets is not None:
            self._sockets.part()

    def close(self) -> None:
        if self._sockets is not None:
            self._sockets.close()
        self._far.close()

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        """What either transport has received, one batch at a time."""
        assert self._receiver is not None
        with self._turn:
            self._teller, self._since_ns = threading.get_ident(), time.monotonic_ns()
            try:
                if source in self._lost:  # what it still says does not count
                    return Room(memoryview(bytearray(bulk_nbytes)), _nothing) if bulk_nbytes else None
                self._heard.add(source)
                return self._receiver.received(source, batch, bulk_nbytes)
            finally:
                self._teller = 0

    def hangs(self) -> bool:
        """Whether something has been told of for so long that the driver may wait for another process, of
        whose end nobody can be told meanwhile.
        """
        return self._teller != 0 and time.monotonic_ns() - self._since_ns > _HANGS_NS

    def lost(self, rank: int, why: str) -> None:
        """Either transport has lost ``rank``: told once."""
        assert self._receiver is not None
        with self._turn:
            self._teller, self._since_ns = threading.get_ident(), time.monotonic_ns()
            try:
                if rank not in self._lost:
                    self._lost.add(rank)
                    self._receiver.lost(rank, why)
            finally:
                self._teller = 0

    def is_far_busy(self) -> bool:
        """Whether the far transport is to look for messages eagerly."""
        assert self._receiver is not None
        return not self._far.is_spare and self._receiver.is_busy()


def _nothing() -> None:
    """Nobody waits for it."""


class _Far:
    """What the far transport tells.  Implements ``Receiver``."""

    def __init__(self, mixed: MixedTransport) -> None:
        self._mixed: Final = mixed

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        return self._mixed.received(source, batch, bulk_nbytes)

    def lost(self, rank: int, why: str) -> None:
        if rank not in self._mixed.near:  # its socket tells when the process has ended
            self._mixed.lost(rank, why)

    def is_busy(self) -> bool:
        return self._mixed.is_far_busy()


class _Near(_Far):
    """What sockets tell."""

    def lost(self, rank: int, why: str) -> None:
        self._mixed.lost(rank, why)
