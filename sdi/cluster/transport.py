"""What carries batches and bulk bytes between the processes of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sdi.dataclass import dataclass, replace


@dataclass(slots=True)
class Traffic:
    """What was sent to one process.  ``bulk_nbytes``: bytes of buffers; ``record_nbytes``: of batches;
    ``shared_nbytes``: bytes of buffers that were not sent, since both ends reach them where they are.
    ``rings``: how often it was to be woken.
    """

    messages: int = 0
    record_nbytes: int = 0
    bulk_nbytes: int = 0
    shared_nbytes: int = 0
    rings: int = 0

    def since(self, before: Traffic) -> Traffic:
        """What was sent since."""
        return Traffic(
            self.messages - before.messages,
            self.record_nbytes - before.record_nbytes,
            self.bulk_nbytes - before.bulk_nbytes,
            self.shared_nbytes - before.shared_nbytes,
            self.rings - before.rings,
        )


def copied(traffic: Mapping[int, Traffic]) -> dict[int, Traffic]:
    """``traffic`` as it is now."""
    return {rank: replace(each) for rank, each in traffic.items()}


@dataclass(frozen=True, slots=True)
class Room:
    """Where bulk bytes go: all of ``memory``, writable; ``filled`` is called when they are there."""

    memory: memoryview
    filled: Callable[[], None]


class Receiver(Protocol):
    """Who is told what arrives.  Called by the transport's thread alone; never blocks."""

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        """A batch from rank ``source``, valid until this returns.

        The room for the ``bulk_nbytes`` > 0 bytes that follow it; None without any.
        """

    def lost(self, rank: int, why: str) -> None:
        """Nothing will be received from ``rank`` any more.  Told once."""

    def is_busy(self) -> bool:
        """Whether anything is under way: then messages are looked for eagerly."""


class Transport(Protocol):
    """Connects the processes 0 to ``size`` - 1 of a job, of which this is ``rank``.

    Batches from one process to another arrive whole, once and in the order of ``send``.  A thread of its own,
    sdi-net, receives; it makes all calls of MPI, if it is that.
    ``is_spare``: all others are reached another way, so that messages need only be looked for now and then.
    """

    rank: int
    size: int
    is_spare: bool
    traffic: dict[int, Traffic]

    @property
    def deaf(self) -> Mapping[int, str]:
        """Of ranks that nothing wakes when a message comes, why: idle they look for messages now and then."""

    def start(self, receiver: Receiver) -> None:
        """Begin to receive.  Raises OSError or RuntimeError with a sentence for the user."""

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        """Send ``batch`` and then ``bulk``, from any thread; never blocks.

        ``bulk`` must stay as it is until ``sent`` is called, on any thread, also if that process is lost.
        """

    def refuse(self, rank: int, why: str, last: bytes = b"") -> None:
        """Hear ``rank`` no more, which is lost then; from any thread.

        ``last``: a batch for it, in case that it hears again.  Nothing that it sends is received, and where
        it shares memory it has ended before it counts as lost.
        """

    def close(self) -> None:
        """Send what was given so far, then stop; joins the thread.  Receivers are told nothing more."""
