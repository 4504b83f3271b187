"""Copies between processes of a machine whose order their devices keep themselves.

A device writes a number behind the bytes that it has brought to shared memory, and another process' device
waits for that number.  So neither host has to see the end of one operation before it issues the next, and
what is issued ahead of the devices may be far ahead.  The word belongs to whoever lends the memory: where the
sender fails the receiver's host writes the number itself, and nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

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
