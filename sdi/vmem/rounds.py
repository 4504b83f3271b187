"""What all want of each other, in rounds: each node gets from one other all that this one has by then.

Of K nodes each has everything after log2 K copies, of twice as many bytes each time, where parts that come
one by one, or along a chain, take K - 1.  No byte comes to a node twice, so nothing is lost by it while bytes
come from all of them; what one has and all want leaves it in every round.  So the shorter of both ways is
taken, by what a message and a byte between nodes cost.  Source: recursive doubling, and for numbers of nodes
that are no powers of two Bruck et al., IEEE TPDS 8 (1997).

Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sdi.dataclass import dataclass, field
from sdi.region import Bytes
from sdi.regions import RegionSet
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.links import CHUNK_NBYTES, Links
from sdi.vmem.transfers import Transfer, Transfers

_PLACES_MIN = 4
"""So few have all as soon without rounds."""
_REGIONS_MAX = 4
"""So many regions for each place: what is more scattered would be as many copies in each round."""

_Has = npt.NDArray[np.bool_]


def rounds(count: int) -> list[list[int]]:
    """Of so many, whom each asks, round by round: for what both together have, then everyone has all."""
    is_power = count & (count - 1) == 0
    found, step = [], 1
    while step < count:
        found.append([to ^ step if is_power else (to + step) % count for to in range(count)])
        step *= 2
    return found


@dataclass(slots=True)
class _Held:
    """Bytes that the same ``holders``, a bit set of memories, have.  ``places``: which of those that want."""

    holders: int
    places: tuple[int, ...]
    regions: list[Bytes] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return sum([each.total_nbytes for each in self.regions])


class AllGather:
    """What ``memories``, one on each of as many machines, are to get of ``wanted``, which all want."""

    def __init__(
        self, buffer: VirtualBuffer, wanted: RegionSet, memories: Sequence[int], links: Links
    ) -> None:
        self._buffer: Final = buffer
        self._links: Final = links
        machines = {links.place(memory): number for number, memory in enumerate(memories)}
        found: dict[int, _Held] = {}
        for over, holders in buffer.directory.missing(0, wanted):
            part = found.get(holders)
            if part is None:
                places = tuple({machines.get(place, -1) for place in links.places_of(holders)} - {-1})
                part = found[holders] = _Held(holders, places)
            part.regions.append(over)
        parts = [part for part in found.values() if len(part.places) < len(memories)]
        parts.sort(key=lambda part: part.regions[0].base)
        self._parts: Final = parts
        # Who has what comes first is first: neighbours' bytes are then one region.
        order = list(dict.fromkeys(number for part in parts for number in part.places))
        order = list(dict.fromkeys([*order, *range(len(memories))]))
        self._memories: Final = [memories[number] for number in order]
        position = {number: at for at, number in enumerate(order)}
        self._has: _Has = np.zeros((len(memories), len(parts)), np.bool_)
        for number, part in enumerate(parts):
            self._has[[position[each] for each in part.places], number] = True

    @property
    def is_sooner(self) -> bool:
        """Whether rounds are predicted to be over before what goes from one to the next, or by parts."""
        count, parts = len(self._memories), self._parts
        if not parts or sum([len(part.regions) for part in parts]) > _REGIONS_MAX * count:
            return False
        links = self._links
        sizes = np.array([part.nbytes for part in parts], np.float64)
        lacks = ~self._has @ sizes
        missing, owners = float(lacks.max()), len({part.places for part in parts})
        steps = min(count - 1, int(np.count_nonzero(lacks)))
        along_ns = steps * links.hop_ns(min(CHUNK_NBYTES, missing) / owners) + links.hop_ns(missing)
        most = [float((gets @ sizes).max()) for _, gets in self._gets()]
        return sum([links.hop_ns(nbytes) for nbytes in most if nbytes]) < along_ns

    def _gets(self) -> Iterable[tuple[list[int], _Has]]:
        """By round: whom each asks, and which parts it gets."""
        has = self._has.copy()
        outside = ~has.any(axis=0)
        has[0] |= outside
        for asked in rounds(len(self._memories)):
            gets = has[asked] & ~has
            yield asked, gets
            has |= gets

    def plan(self, transfers: Transfers, cause: str) -> list[Transfer]:
        """The copies, in order; they count as made."""
        buffer, memories, found = self._buffer, self._memories, list[Transfer]()
        for at, memory in enumerate(memories):
            mine = self._regions([n for n, part in enumerate(self._parts) if self._is_near(at, n, part)])
            found += transfers.plan(buffer, memory, mine, False, cause)
        for number, (asked, gets) in enumerate(self._gets(), 1):
            for at, (source, got) in enumerate(zip(asked, gets, strict=True)):
                regions = self._regions(np.flatnonzero(got).tolist())
                if regions:
                    copies = transfers.plan(buffer, memories[at], regions, False, cause, memories[source])
                    for each in copies:
                        each.round = number
                    found += copies
        return found

    def _is_near(self, at: int, number: int, part: _Held) -> bool:
        """Whether the memory gets the part from its own machine; the first one, also what none of all has."""
        is_here = bool(self._has[at, number]) or (at == 0 and not part.places)
        return is_here and not part.holders >> self._memories[at] & 1

    def _regions(self, numbers: Iterable[int]) -> tuple[Bytes, ...]:
        return RegionSet.of(over for number in numbers for over in self._parts[number].regions).regions


def in_rounds(
    transfers: Transfers, buffer: VirtualBuffer, wants: Sequence[tuple[int, RegionSet]], cause: str
) -> list[Transfer]:
    """Copies that bring to machines what the memories of several want alike, where rounds are the sooner way.

    ``wants``: memories, and what is wanted there.  What else is missing is for the caller to plan.
    """
    links, found = transfers.links, list[Transfer]()
    alike: dict[RegionSet, dict[int, int]] = {}
    for memory, wanted in wants if links.is_far and len(wants) >= _PLACES_MIN else ():
        if wanted:
            alike.setdefault(wanted, {}).setdefault(links.place(memory), memory)
    for wanted, memories in alike.items():
        if len(memories) >= _PLACES_MIN:
            gather = AllGather(buffer, wanted, list(memories.values()), links)
            found += gather.plan(transfers, cause) if gather.is_sooner else []
    return found
