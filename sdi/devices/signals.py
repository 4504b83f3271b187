"""Copies between processes of a machine whose order their devices keep themselves.

A device writes a number behind the bytes that it has brought to shared memory, and another process' device
waits for that number.  So neither host has to see the end of one operation before it issues the next, and
what is issued ahead of the devices may be far ahead.  The word belongs to whoever lends the memory: where the
sender fails the receiver's host writes the number itself, and nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sdi.dataclass import dataclass
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.ticket import Ticket
from sdi.region import Region


class Signal(NamedTuple):
    """Bytes are there when ``word``, 4 bytes of shared memory, holds ``number``, or one after it."""

    word: HostBytes
    number: int

    def give(self) -> None:
        """As the device would."""
        self.word[:] = self.number.to_bytes(4, "little")

    def is_given(self) -> bool:
        """Whether anybody has; numbers go round."""
        return (int.from_bytes(self.word, "little") - self.number) & 0xFFFFFFFF < 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class Mailbox:
    """Memory that both ends of a copy know, which is made again and again: nobody has to be told where.

    Its halves are used in turn.  The sender writes the number of the time to ``filled`` once its bytes are in
    a half, the receiver to ``emptied`` once it has them, for which the sender waits before it uses that half
    again.  Later times have later numbers; they go round.
    """

    halves: tuple[HostBytes, HostBytes]
    filled: HostBytes
    emptied: HostBytes


class RepeatedCopy(NamedTuple):
    """This end of a copy by ``mailbox``: ``region`` of ``buffer`` is sent there, or comes from there."""

    buffer: DeviceBuffer
    region: Region
    mailbox: Mailbox
    is_sent: bool


class CopyRound(Protocol):
    """What a member does of the copies that are made together, each time in the same order.

    Rounds of a member go to its device in the order in which they are issued, and each only when all that
    members of this process were asked for before is with theirs: what is behind a round on a device keeps
    back what comes later, and must not keep back what others may have to do before that round can end.
    """

    def issue(
        self,
        number: int,
        wait: Sequence[Ticket],
        after: Sequence[Ticket],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        """Make all copies once more, behind ``wait``; ``verdict`` as for ``Signals.receive``.  ``number``: a
        later one each time.  ``after``: it goes to the device when these are done, failed or not.

        Where that fails nobody writes the numbers that the other ends wait for.
        """


def sends_first(copies: Sequence[RepeatedCopy]) -> list[RepeatedCopy]:
    """``copies`` with each send in front that reads nothing of what one before it brings.

    So no process waits for bytes before it has sent those that others wait for.
    """
    first: list[RepeatedCopy] = []
    then: list[RepeatedCopy] = []
    for copy in copies:
        own = copy.region.bounds
        is_behind = any(
            other.buffer is copy.buffer
            and other.region.base < own.stop
            and other.region.bounds.stop > own.start
            for other in then
        )
        (first if copy.is_sent and not is_behind else then).append(copy)
    return [*first, *then]


class Signals(Protocol):
    """What a member offers for that.  Memory of both ends has the region's bytes one after the other."""

    def reaches(self, words: Callable[[], Sequence[HostBytes]]) -> bool:
        """Whether the device can use ``words``, all that there will be, and what memory they are of.

        Found out once; asked for each copy.
        """

    def carries(self, region: Region) -> bool:
        """Whether it copies this region so; the same at both ends."""

    def send(
        self,
        buffer: DeviceBuffer,
        region: Region,
        memory: HostBytes,
        signal: Signal,
        wait: Sequence[Ticket],
        given: Callable[[], None],
    ) -> Ticket:
        """Copy ``region`` to ``memory`` behind ``wait``, and give the signal; the ticket of both.

        ``given`` is called once nothing but the device is in the way, and never where it failed before that.
        The signal of a copy that fails is never given.
        """

    def receive(
        self,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        came: Callable[[], tuple[HostBytes, Signal | None]],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        """Write ``region`` behind ``wait``, and then the signal, with the bytes that lie where ``came`` says
        once all of ``wait`` is done; it raises why there are none.

        ``verdict``: why the bytes were not right although there was a signal, if anything; asked at the end.
        """

    def round_of(self, copies: Sequence[RepeatedCopy]) -> CopyRound:
        """What makes ``copies``, whose regions it ``carries``, in this order, each time it is asked to."""
