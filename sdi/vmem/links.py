"""What it costs to move bytes from one memory to another, measured as copies complete.

Chooses sources: a memory that is sending, or has still to receive the bytes itself, is worth less than one
that is free, so that a buffer which all members want spreads along a tree.  Between nodes it is the bytes
that leave each node in one plan that are kept even: what all want of one goes along a chain, and what all
want of each other leaves each node about once.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sdi.devices.capabilities import MemberKind
from sdi.devices.ticket import Ticket
from sdi.vmem.directory import HOST

LATENCY_NS = 20_000.0
MEASURED_NBYTES = 1 << 18
"""Shorter copies say more about latency than about the link."""
_WEIGHT, _MOST = 0.2, 4.0
"""Of a new time, and how often it counts the rate that was known: a copy that had to wait for something else
now and then takes a hundred times as long.
"""
_LATEST = 8
"""Of so many copies from member to member the best says what their link can: whatever else they waited for,
made one after the other by Python, is not the link's, and a link that once seemed slower than the way through
the host would not be tried again.
"""
_TELLING = 10
"""A copy between members that took so many latencies tells how slow a link is, however few bytes it had."""
_KNOWN_COPIES = 10
"""After so many, a tenth of what a rate says is left of what was assumed; between members nothing."""
_NETWORK = 1.0
"""ns per byte between nodes, host memory of rank 0 included, before any copy between nodes is measured."""
_HOP_NS = 100_000.0
"""Of a copy from node to node, where no message was measured: what `bench/simulation` has."""
_COPY_NS, _ROW_NS = 40_000.0, 300.0
CHUNK_NBYTES = 1 << 20
"""Of a copy between nodes so much is passed on as soon as it has come."""


def each_of(memories: int) -> Iterator[int]:
    """The memories of a bit set, in order."""
    while memories:
        yield (memories & -memories).bit_length() - 1
        memories &= memories - 1


class Links:
    """Times per byte between the memories 0 (host) to N.  Owned by: sdi-scheduler; any thread measures.

    ``kinds``: of each member, and of what else is a memory.  ``nodes``: the node of each, if they are not all
    on the host's; ``near``: whether they share memory with it all the same.  ``own``: the memories
    that are no members' but nodes' own.  ``hops_ns``: what messages to nodes were measured to take, 0: not.
    """

    def __init__(
        self,
        kinds: Sequence[MemberKind],
        now_ns: Callable[[], int] = time.monotonic_ns,
        nodes: Sequence[int] = (),
        near: Sequence[bool] = (),
        own: Iterable[int] = (),
        network: float = _NETWORK,
        hops_ns: Iterable[int] = (),
    ) -> None:
        """``network``: ns per byte between machines, before a copy there is measured."""
        self._clock_ns = now_ns
        self._at_ns: int | None = None
        self._sends_now: Counter[int] = Counter()  # bytes that leave each place, of what goes out together
        self._kinds = tuple(kinds)
        nodes = (0, *(nodes or (0,) * len(kinds)))
        is_near = (True, *(near or [node == 0 for node in nodes[1:]]))
        self._places = tuple(0 if here else node for here, node in zip(is_near, nodes, strict=True))
        self.is_far: Final = any(self._places)
        """Whether any copy goes over a network."""
        self.num_places: Final = len(set(self._places))
        self._homes: dict[int, int] = {self._places[HOST]: 1 << HOST}
        for memory in own:
            self._homes[self._places[memory]] = self.home(self._places[memory]) | 1 << memory
        self._network = network  # of links between nodes that were not measured themselves
        self._hop_ns = statistics.median([each for each in hops_ns if each] or [_HOP_NS])
        count = len(kinds) + 1
        self._rates = [[0.0] * count for _ in range(count)]
        for source in range(count):
            for target in range(count):
                ends = [kinds[m - 1] for m in (source, target) if m != HOST]
                if self.crosses(source, target):
                    rate = network
                elif len(ends) == 2 and ends[0] == ends[1] and nodes[source] == nodes[target]:
                    rate = ends[0].peer_ns_per_byte
                else:  # two members: through memory that both share
                    rate = sum(end.host_ns_per_byte for end in ends)
                self._rates[source][target] = rate
        self._measured: Counter[tuple[int, int]] = Counter()
        self._latest: dict[tuple[int, int], deque[float]] = {}  # of members of one machine
        self._free_ns = [0.0] * count
        self._filled_ns = [0.0] * count
        self._leaving_ns = dict.fromkeys(self._places, 0.0)  # of each place, until when bytes leave it

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is planned within goes out together, however long it takes to plan it, and whatever is still
        on its way from before.
        """
        self._at_ns = self._clock_ns()
        try:
            yield
        finally:
            self._at_ns = None
            self._sends_now.clear()

    def _now_ns(self) -> int:
        return self._clock_ns() if self._at_ns is None else self._at_ns

    def place(self, memory: int) -> int:
        """The machine that a memory is on: 0 for the host's, and all that share memory with it."""
        return self._places[memory]

    def home(self, place: int) -> int:
        """The bit set of the memories of a machine that are no members'."""
        return self._homes.get(place, 0)

    def crosses(self, source: int, target: int) -> bool:
        """Whether a copy goes over a network."""
        return self._places[source] != self._places[target]

    def cost_ns(self, source: int, target: int, nbytes: int) -> float:
        """Expected time of one copy on a link that is free."""
        return LATENCY_NS + nbytes * self._rate(source, target)

    def more_ns(self, source: int, target: int, copies: int, rows: int) -> float:
        """What so many copies, and runs of these, cost beside the first: [M] CPU members, two busy cores."""
        if HOST in (source, target) or self.crosses(source, target):
            return copies * _COPY_NS + rows * _ROW_NS
        here, there = self._kinds[source - 1], self._kinds[target - 1]
        each_ns = max(here.peer_copy_ns, there.peer_copy_ns)
        return copies * each_ns + rows * max(here.peer_row_ns, there.peer_row_ns)

    def merges(self, member: int) -> bool:
        """Whether a member, if it can, compares and merges faster than the host does (design/0019): all where
        some are on other machines, since all that is compared would go over the network otherwise.
        """
        return self.is_far or self._kinds[member].merges

    def merge_ns(self, members: Sequence[int], nbytes: int) -> float | None:
        """Expected time in which they merge so many bytes, of which one of them has the result then.  None
        where the host merges, or the network counts.
        """
        kinds = [self._kinds[member] for member in members]
        if self.is_far or not all(kind.merges for kind in kinds):
            return None
        return LATENCY_NS + nbytes * sum(kind.merge_ns_per_byte for kind in kinds)

    def hop_ns(self, nbytes: float) -> float:
        """Expected time of one copy from node to node, between any two of them."""
        return self._hop_ns + nbytes * self._network

    def places_of(self, memories: int) -> set[int]:
        """The machines on which any of a bit set of memories are."""
        return {self._places[memory] for memory in each_of(memories)}

    def _rate(self, source: int, target: int) -> float:
        """ns per byte: where a link between nodes is not measured, as others are."""
        is_measured = not self.crosses(source, target) or (source, target) in self._measured
        return self._rates[source][target] if is_measured else self._network

    def occupies(self, source: int, target: int) -> float:
        """The part of such a copy's time for which ``source`` can't serve others."""
        is_from_host = source == HOST and target != HOST and not self.crosses(source, target)
        return self._kinds[target - 1].host_share if is_from_host else 1.0

    def rates(self) -> list[tuple[int, int, float]]:
        """Source, target, ns per byte of the links that were measured often enough to be known."""
        return [
            (*ends, self._rates[ends[0]][ends[1]])
            for ends, copies in sorted(self._measured.items())
            if copies >= _KNOWN_COPIES
        ]

    def nearest(self, target: int, holders: int) -> int:
        """The memory among the bit set ``holders`` that is fastest to copy from, when all are free."""
        if holders & (holders - 1) == 0:
            return holders.bit_length() - 1
        return min(each_of(holders), key=lambda source: self._rate(source, target))

    def through_host(self, source: int, target: int, nbytes: int) -> bool:
        """Whether two copies through the arena are expected to be faster than one between these members.

        Never over a network: rank 0's link is everybody's.
        """
        if self.crosses(source, target) or self.crosses(HOST, target):
            return False
        two = self.cost_ns(source, HOST, nbytes) + self.cost_ns(HOST, target, nbytes)
        return two < self.cost_ns(source, target, nbytes)

    def choose(self, target: int, holders: int, nbytes: int) -> int:
        """The memory among the bit set ``holders`` from which ``target`` gets ``nbytes`` soonest.

        It counts as asked for them.
        """
        best = (holders & -holders).bit_length() - 1
        if holders & (holders - 1):
            best = self._soonest(target, holders, nbytes)
        if self._at_ns is not None and self.crosses(best, target):
            self._sends_now[self._places[best]] += nbytes
        return best

    def _soonest(self, target: int, holders: int, nbytes: int) -> int:
        best = HOST
        now, lowest = self._now_ns(), (True, float("inf"), 0.0)
        for source in each_of(holders):
            start = max(now, self._free_ns[source], self._filled_ns[source])
            end = start + self.cost_ns(source, target, nbytes)
            is_far = self.crosses(source, target)
            sent_nbytes = self._sent_nbytes(self._places[source]) if is_far else 0
            if (is_far, sent_nbytes, end) < lowest:
                best, lowest = source, (is_far, sent_nbytes, end)
        return best

    def _sent_nbytes(self, place: int) -> int:
        """Bytes that leave a place with what goes out together; else whether any are on their way."""
        if self._at_ns is not None:
            return self._sends_now[place]
        return int(self._leaving_ns[place] > self._now_ns())

    def planned(self, source: int, target: int, nbytes: int) -> None:
        """A copy will be issued now: until it is over both ends are busy.

        The host can serve all members that are near at once.
        """
        start = max(float(self._now_ns()), self._free_ns[source], self._filled_ns[source])
        end = start + self.cost_ns(source, target, nbytes)
        is_leaving = self.crosses(source, target)
        if source != HOST or is_leaving:
            self._free_ns[source] = end
        if is_leaving:
            place = self._places[source]
            self._leaving_ns[place] = max(self._leaving_ns[place], end)
        if target != HOST:
            self._filled_ns[target] = max(self._filled_ns[target], end)

    def issued(self, source: int, target: int, nbytes: int, ticket: Ticket) -> None:
        """A planned copy was issued; its time is taken when it is done, unless it is too short to tell or
        the next one will be faster.
        """
        if nbytes >= MEASURED_NBYTES and ticket.is_typical:
            ticket.when_done(lambda done: self._measure(source, target, nbytes, done))

    def _measure(self, source: int, target: int, nbytes: int, ticket: Ticket) -> None:
        took = ticket.end_ns - ticket.start_ns
        if ticket.error is not None or took <= 0:
            return
        if self.crosses(source, target):
            self._rates[source][target] = self._rate(source, target)
            self._network += _WEIGHT * (took / nbytes - self._network)
        rates = self._rates[source]
        if HOST not in (source, target) and not self.crosses(source, target):
            if nbytes * rates[target] < LATENCY_NS and took < _TELLING * LATENCY_NS:
                return  # a link that is as quick as it was taken to be shows nothing but latency
            assumed = self._kinds[target - 1].peer_ns_per_byte
            latest = self._latest.setdefault((source, target), deque([rates[target]], _LATEST))
            latest.append(max(took / nbytes, assumed / _MOST))  # no clock is exact
            rates[target] = min(latest)
            self._measured[source, target] += 1
            return
        self._measured[source, target] += 1
        most = math.inf if self.crosses(source, target) else _MOST * rates[target]
        rates[target] += _WEIGHT * (min(took / nbytes, most) - rates[target])
