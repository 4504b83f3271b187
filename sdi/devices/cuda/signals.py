"""How a CUDA member sends short copies to devices of other processes, and takes theirs: by stream operations
on a word of page-locked memory.

No stream ever waits for a number that no other was given to write: the receiver hears of a copy only when the
sender's stream has it.  So whatever streams have to share a queue of the GPU, the oldest operation of all can
always go on.  Source: CUDA driver API, "Stream Memory Operations".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, cast

from sdi.devices.cuda.channel import Channel
from sdi.devices.cuda.driver import MAX_PITCH, check, copy_pitched, device_attribute, drv, quick
from sdi.devices.cuda.lane import CudaLane
from sdi.devices.cuda.memory import CudaBuffer, check_range
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.issue import SEEN
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.signals import Signal
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.region import Region, packed_like
from sdi.wire.cuda import (
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_STREAM_WAIT_VALUE_GEQ,
    CU_STREAM_WRITE_VALUE_DEFAULT,
)

_log = logging.getLogger(__name__)


class CudaSignals:
    """Of one member.  Implements ``Signals``.  ``channel``: its streams, by name."""

    def __init__(self, lane: CudaLane, channel: Callable[[str], Channel]) -> None:
        self._lane: Final = lane
        self._channel: Final = channel
        self._reaches: bool | None = None

    def reaches(self, words: Sequence[HostBytes]) -> bool:
        if self._reaches is None:
            try:
                for each in words:
                    PAGE_LOCKS.lock(each)
                self._reaches = True
            except DeviceFailed as cause:
                self._reaches = False
                _log.warning("%s: copies to other processes wait for the host: %s", self._lane.name, cause)
        return self._reaches

    def carries(self, region: Region) -> bool:
        return not region.levels or (len(region.levels) == 1 and region.levels[0][0] <= MAX_PITCH)

    def send(
        self,
        buffer: DeviceBuffer,
        region: Region,
        memory: HostBytes,
        signal: Signal,
        wait: Sequence[Ticket],
        given: Callable[[], None],
    ) -> Ticket:
        channel, own = self._channel("down"), cast(CudaBuffer, buffer)

        def start() -> None:
            check_range(region.span_nbytes, region.base, own.nbytes)
            here, word = PAGE_LOCKS.lock(memory), PAGE_LOCKS.lock(signal.word)
            pitch, count = _rows(region)
            there, handle = own.address + region.base, channel.stream.handle
            copy_pitched((here, region.nbytes), (there, pitch), region.nbytes, count, handle)
            status = quick().cuStreamWriteValue32_v2(
                handle, word, signal.number, CU_STREAM_WRITE_VALUE_DEFAULT
            )
            check(status, "cuStreamWriteValue32")
            given()

        return _untypical(self._lane.issue(channel, start, wait, SEEN, memory))

    def receive(
        self,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        came: Callable[[], tuple[HostBytes, Signal | None]],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        channel, own = self._channel("peer"), cast(CudaBuffer, buffer)

        def start() -> None:
            check_range(region.span_nbytes, region.base, own.nbytes)
            memory, signal = came()
            if signal is None:
                _upload(memory, own.address, region, channel)
                return
            here, word = PAGE_LOCKS.lock(memory), PAGE_LOCKS.lock(signal.word)
            handle = channel.stream.handle
            status = quick().cuStreamWaitValue32_v2(handle, word, signal.number, CU_STREAM_WAIT_VALUE_GEQ)
            check(status, "cuStreamWaitValue32")
            pitch, count = _rows(region)
            there = own.address + region.base, pitch
            copy_pitched(there, (here, region.nbytes), region.nbytes, count, handle)

        return _untypical(self._lane.issue(channel, start, wait, SEEN, verdict=verdict))


def signals_of(ordinal: int, lane: CudaLane, channel: Callable[[str], Channel]) -> CudaSignals | None:
    """Those of a member, where its GPU has what they need."""
    attribute = CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
    has_calls = hasattr(quick(), "cuStreamWaitValue32_v2")
    return CudaSignals(lane, channel) if has_calls and device_attribute(ordinal, attribute) else None


def _rows(region: Region) -> tuple[int, int]:
    """From one run to the next, and how many there are."""
    return region.levels[0] if region.levels else (region.nbytes, 1)


def _upload(memory: HostBytes, address: int, region: Region, channel: Channel) -> None:
    """Bytes that are there, of memory that need not be page-locked: the driver takes those at once."""
    for part, run in zip(packed_like(region).runs(), region.runs(), strict=True):
        drv.memcpy_htod_async(address + run.start, memory[part.start : part.stop], channel.stream)


def _untypical(ticket: Ticket) -> Ticket:
    """Which took as long as others took before it, too."""
    ticket.is_typical = False
    return ticket
