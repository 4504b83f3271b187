"""How a CUDA member sends short copies to devices of other processes, and takes theirs: by stream operations
on a word of page-locked memory.

No stream ever waits for a number that no other was given to write: the receiver hears of a copy only when the
sender's stream has it.  So whatever streams have to share a queue of the GPU, the oldest operation of all can
always go on.  Rounds of copies, which may wait for what another process has yet to issue, have a stream of
their own, in which they are in the same order on all members, and go there only when all that was asked for
before is with its stream, so that nothing is ever behind what waits for a later round: so the oldest one can
go on there, too (``design/0011-nodes.md``).
Source: CUDA driver API, "Stream Memory Operations".
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, cast

from sdi.devices.cuda.channel import Channel
from sdi.devices.cuda.driver import MAX_PITCH, check, copy_pitched, device_attribute, drv, quick
from sdi.devices.cuda.lane import CudaLane, late
from sdi.devices.cuda.memory import CudaBuffer, blocks_of, check_range
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.issue import SEEN
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.signals import CopyRound, RepeatedCopy, Signal
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.region import Region, packed_like
from sdi.wire.cuda import (
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_STREAM_WAIT_VALUE_GEQ,
    CU_STREAM_WRITE_VALUE_DEFAULT,
)

_log = logging.getLogger(__name__)
_CALLS_MAX = 384
"""So many driver's calls of rounds may be with a GPU: one that has no room for more has the caller wait, who
may have to tell others what the first of these rounds waits for."""
_CALLS_EACH, _CALLS_BESIDE = 3, 4
"""Calls for a copy of a round, and for the kernel behind it."""


class CudaSignals:
    """Of one member.  Implements ``Signals``.  ``channel``: its streams, by name."""

    def __init__(self, lane: CudaLane, channel: Callable[[str], Channel]) -> None:
        self._lane: Final = lane
        self._channel: Final = channel
        self._reaches: bool | None = None
        self._waiting: Final[set[Channel]] = set()  # those whose streams ever wait for others
        self.last_round: Ticket = completed()
        self._rounds: Final[deque[tuple[Ticket, int]]] = (
            deque()
        )  # those that may not be done, with their calls

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
                self._waiting.add(channel)
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
        return any(channel.pending for channel in self._waiting)

    def round_of(self, copies: Sequence[RepeatedCopy]) -> CopyRound:
        channel = self._channel("round")
        self._waiting.add(channel)
        return _CudaRound(self, self._lane, channel, copies)

    def room_for(self, num_calls: int) -> list[Ticket]:
        """What is to be done before a round of so many calls goes to the device."""
        rounds, left = self._rounds, _CALLS_MAX - num_calls
        while rounds and rounds[0][0].done:
            rounds.popleft()
        for ticket, calls in reversed(rounds):
            left -= calls
            if left < 0:
                return [_done(ticket)]
        return []

    def issued(self, ticket: Ticket, num_calls: int) -> None:
        """``ticket`` is of the last round."""
        self.last_round = ticket
        self._rounds.append((ticket, num_calls))


def _done(ticket: Ticket) -> Ticket:
    """One that is done when ``ticket`` is; that it was given to a stream says nothing of it."""
    done = Ticket()
    ticket.when_done(lambda _: done.complete())
    return done


class _Move(NamedTuple):
    """A copy by one half of a mailbox, as addresses.  ``pieces``: as ``copy_pitched`` wants them."""

    pieces: tuple[tuple[tuple[int, int], tuple[int, int], int, int], ...]
    filled: int
    emptied: int
    is_sent: bool


class _CudaRound:
    """Implements ``CopyRound``."""

    def __init__(
        self, signals: CudaSignals, lane: CudaLane, channel: Channel, copies: Sequence[RepeatedCopy]
    ) -> None:
        self._signals: Final = signals
        self._lane: Final = lane
        self._channel: Final = channel
        self._copies: Final = copies
        self._moves: tuple[list[_Move], list[_Move]] | None = None
        self._used = [0, 0]  # the number of the last time of each half
        self._times = 0

    def issue(
        self,
        number: int,
        wait: Sequence[Ticket],
        after: Sequence[Ticket],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        half, self._times = self._times % 2, self._times + 1
        before, self._used[half] = self._used[half], number
        start = partial(self._start, half, before, number)
        self._lane.mark()  # or who waits for that might wait for what waits for this
        wait = [*wait, self._signals.last_round]
        calls = _CALLS_EACH * len(self._copies) + _CALLS_BESIDE
        first = [*after, *late(), *self._signals.room_for(calls)]
        ticket = _untypical(self._lane.issue(self._channel, start, wait, SEEN, verdict=verdict, after=first))
        self._signals.issued(ticket, calls)
        return ticket

    def _start(self, half: int, before: int, number: int) -> None:
        """``before``: the number with which that half was used last; 0: never."""
        if self._moves is None:
            self._moves = [_move(each, 0) for each in self._copies], [_move(each, 1) for each in self._copies]
        handle, driver = self._channel.stream.handle, quick()
        for move in self._moves[half]:
            awaited, word = (before, move.emptied) if move.is_sent else (number, move.filled)
            if awaited:
                status = driver.cuStreamWaitValue32_v2(handle, word, awaited, CU_STREAM_WAIT_VALUE_GEQ)
                check(status, "cuStreamWaitValue32")
            for to, from_, nbytes, count in move.pieces:
                copy_pitched(to, from_, nbytes, count, handle)
            written = move.filled if move.is_sent else move.emptied
            status = driver.cuStreamWriteValue32_v2(handle, written, number, CU_STREAM_WRITE_VALUE_DEFAULT)
            check(status, "cuStreamWriteValue32")


def _move(copy: RepeatedCopy, half: int) -> _Move:
    """Raises DeviceFailed."""
    own, region, memory = cast(CudaBuffer, copy.buffer), copy.region, copy.mailbox.halves[half]
    check_range(region.span_nbytes, region.base, own.nbytes)
    here, pieces = PAGE_LOCKS.lock(memory), []
    for there, packed, nbytes, count in _pieces(memory, region):
        ends = (here + packed, region.nbytes), (own.address + region.base + there, _pitch(region))
        to, from_ = ends if copy.is_sent else reversed(ends)
        pieces.append((to, from_, nbytes, count))
    words = PAGE_LOCKS.lock(copy.mailbox.filled), PAGE_LOCKS.lock(copy.mailbox.emptied)
    return _Move(tuple(pieces), *words, copy.is_sent)


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
