"""How a CUDA member sends short copies to devices of other processes, and takes theirs: by stream operations
on a word of page-locked memory.

No stream ever waits for a number that no other was given to write: the receiver hears of a copy only when the
sender's stream has it.  So whatever streams have to share a queue of the GPU, the oldest operation of all can
always go on.  Source: CUDA driver API, "Stream Memory Operations".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, cast

from sdi.devices.cuda.channel import Channel
from sdi.devices.cuda.driver import MAX_PITCH, check, copy_pitched, device_attribute, drv, quick
from sdi.devices.cuda.lane import CudaLane
from sdi.devices.cuda.memory import CudaBuffer, blocks_of, check_range
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
        self._is_used = False

    def reaches(self, words: Callable[[], Sequence[HostBytes]]) -> bool:
        if self._reaches is None:
            try:
                for each in words():
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
            handle = channel.stream.handle
            for there, packed, nbytes, count in _pieces(memory, region):
                from_ = own.address + region.base + there, _pitch(region)
                copy_pitched((here + packed, region.nbytes), from_, nbytes, count, handle)
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
            handle = channel.stream.handle
            if signal is None and not PAGE_LOCKS.offers(memory):
                for part, run in zip(packed_like(region).runs(), region.runs(), strict=True):
                    host = memory[part.start : part.stop]
                    drv.memcpy_htod_async(own.address + run.start, host, channel.stream)
                return
            here = PAGE_LOCKS.lock(memory)
            if signal is not None:
                word = PAGE_LOCKS.lock(signal.word)
                status = quick().cuStreamWaitValue32_v2(handle, word, signal.number, CU_STREAM_WAIT_VALUE_GEQ)
                check(status, "cuStreamWaitValue32")
                self._is_used = True
            try:
                for there, packed, nbytes, count in _pieces(memory, region):
                    to = own.address + region.base + there, _pitch(region)
                    copy_pitched(to, (here + packed, region.nbytes), nbytes, count, handle)
            except DeviceFailed:
                if signal is not None:
                    signal.give()  # nobody else knows of this wait
                raise

        return _untypical(self._lane.issue(channel, start, wait, SEEN, verdict=verdict))

    def may_wait(self) -> bool:
        """Whether a stream may be waiting for another process, whatever that does."""
        return self._is_used and bool(self._channel("peer").pending)


def signals_of(ordinal: int, lane: CudaLane, channel: Callable[[str], Channel]) -> CudaSignals | None:
    """Those of a member, where its GPU has what they need."""
    attribute = CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
    has_calls = hasattr(quick(), "cuStreamWaitValue32_v2")
    return CudaSignals(lane, channel) if has_calls and device_attribute(ordinal, attribute) else None


def _pitch(region: Region) -> int:
    """From one run to the next."""
    return region.levels[0][0] if region.levels else region.nbytes


def _pieces(memory: HostBytes, region: Region) -> list[tuple[int, int, int, int]]:
    """A copy between a region and ``memory`` in pieces of which each is in one slab: their offsets from the
    region's base and in ``memory``, and so many runs of so many bytes.
    """
    packed = packed_like(region)
    if PAGE_LOCKS.is_within_slab(memory):
        return [(0, 0, region.nbytes, region.num_runs)]
    stops = [part.stop for part in PAGE_LOCKS.parts(memory)]
    if not region.levels:
        return [(at, at, stop - at, 1) for at, stop in pairwise([0, *stops])]
    pitch, blocks = _pitch(region), blocks_of(packed, stops)
    return [(at // region.nbytes * pitch + at % region.nbytes, at, n, count) for at, n, count in blocks]


def _untypical(ticket: Ticket) -> Ticket:
    """Which took as long as others took before it, too."""
    ticket.is_typical = False
    return ticket
