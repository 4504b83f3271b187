"""The patterns in which a launch's copies bring bytes to nodes, or to members where all are on one.

Nothing decides by them; people want to see them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from sdi.dataclass import dataclass
from sdi.region import Bytes
from sdi.regions import EMPTY, RegionSet
from sdi.sizes import size
from sdi.vmem.links import Links
from sdi.vmem.merging.members import MemberMerge
from sdi.vmem.transfers import Transfer

PatternName = Literal[
    "none",
    "copy",
    "scatter",
    "broadcast",
    "gather",
    "all-gather",
    "all-to-all",
    "halo",
    "reduce",
    "reduce-scatter",
]
_SEVERAL = 1.5
"""So many must want a byte, on average, of what comes from one place: else it is divided among them."""
_NEARLY = 0.75
"""Such a part of what an all-gather or an all-to-all has is enough: parts may be there already."""

Move = tuple[int, int, Bytes]
"""Where bytes come from, where they go, and which they are."""


@dataclass(frozen=True, slots=True)
class CopyPattern:
    """What was copied for ``argument``.

    ``nbytes``: that arrive in all.  ``most_nbytes``: that leave one place, the one that most leave.
    ``passed_nbytes``: sent by who had got them for the same launch.  Of reductions what is compared counts,
    and what one place keeps; what was changed is known only afterwards.  ``rounds``: so many it takes, see
    ``vmem/rounds.py``; 0 where each copy goes when its bytes are there.
    """

    argument: str
    pattern: PatternName
    nbytes: int
    most_nbytes: int
    passed_nbytes: int = 0
    rounds: int = 0


def pattern_for(
    argument: str, moves: Sequence[Move], place: Callable[[int], int], nbytes: int, rounds: int = 0
) -> CopyPattern:
    """Of copies of one buffer of ``nbytes``, in so many ``rounds``.

    ``place``: the node of a memory.  Copies within nodes count only where there are no others.
    """
    between = [(place(source), place(target), over) for source, target, over in moves]
    between = [move for move in between if move[0] != move[1]] or list(moves)
    arrived = _arrived(between)
    sent: Counter[int] = Counter()
    passed_nbytes = 0
    for source, _, over in between:
        sent[source] += over.total_nbytes
        if source in arrived:
            passed_nbytes += RegionSet.of([over]).intersection(arrived[source]).nbytes
    most_nbytes = max(sent.values(), default=0)
    pattern = pattern_of(between, nbytes)
    return CopyPattern(argument, pattern, sent.total(), most_nbytes, passed_nbytes, rounds)


def patterns_of(
    transfers: Iterable[Transfer], merges: Iterable[tuple[str, Sequence[MemberMerge]]], links: Links
) -> tuple[CopyPattern, ...]:
    """Of a part of a launch: its copies, and what members bring together after it, by argument."""
    moves: dict[tuple[str, int], list[Move]] = {}
    rounds: Counter[tuple[str, int]] = Counter()
    for each in transfers:
        ends, key = (each.copy.source, each.copy.target), (_argument(each.cause), each.buffer.nbytes)
        moves.setdefault(key, []).append((*ends, each.copy.over))
        rounds[key] = max(rounds[key], each.round)
    place = links.place if links.is_far else _itself
    found = [
        pattern_for(argument, parts, place, nbytes, rounds[argument, nbytes])
        for (argument, nbytes), parts in moves.items()
    ]
    for cause, parts in merges:
        written = [part.over.nbytes * (len(part.parts) - 1) for part in parts]
        pattern: PatternName = "reduce-scatter" if len(parts) > 1 else "reduce"
        found.append(CopyPattern(_argument(cause), pattern, sum(written), max(written)))
    return tuple(found)


def _argument(cause: str) -> str:
    return cause.partition(": ")[2]


def _itself(memory: int) -> int:
    return memory


def described(one: CopyPattern) -> str:
    """For people."""
    if one.pattern in ("reduce", "reduce-scatter"):
        where = "one of them" if one.pattern == "reduce" else "all of them in parts"
        return f"{one.pattern} of what members changed in {size(one.nbytes)}, to {where}"
    most = f", at most {size(one.most_nbytes)} from one place" if one.most_nbytes < one.nbytes else ""
    passed = f", {size(one.passed_nbytes)} of it passed on" if one.passed_nbytes else ""
    rounds = f", in {one.rounds} rounds" if one.rounds else ""
    return f"{one.pattern} of {size(one.nbytes)}{rounds}{most}{passed}"


def pattern_of(moves: Sequence[Move], nbytes: int) -> PatternName:
    """How copies of a buffer of ``nbytes`` bring bytes from those who had them to those who want them.

    However often bytes are passed on on their way.
    """
    arrived = _arrived(moves)
    owned = _owned(moves, arrived)
    total = sum(regions.nbytes for regions in arrived.values())
    distinct = RegionSet.of(over for _, _, over in moves).nbytes
    if not moves:
        return "none"
    if len(owned) <= 1:
        if len(arrived) == 1:
            return "copy"
        return "broadcast" if total >= _SEVERAL * distinct else "scatter"
    if len(arrived) == 1:
        return "gather"
    ends = len(owned | set(arrived))
    if total >= _NEARLY * distinct * (ends - 1) and (ends > 2 or 2 * distinct >= nbytes):
        return "all-gather"
    pairs = len({(source, target) for source, target, _ in moves})
    return "all-to-all" if ends > 2 and pairs >= _NEARLY * ends * (ends - 1) else "halo"


def _arrived(moves: Iterable[Move]) -> dict[int, RegionSet]:
    """What reaches each place."""
    return _sets((target, over) for _, target, over in moves)


def _sets(parts: Iterable[tuple[int, Bytes]]) -> dict[int, RegionSet]:
    found: dict[int, list[Bytes]] = {}
    for at, over in parts:
        found.setdefault(at, []).append(over)
    return {at: RegionSet.of(regions) for at, regions in found.items()}


def _owned(moves: Iterable[Move], arrived: dict[int, RegionSet]) -> set[int]:
    """The places that send what they had before."""
    left = _sets((source, over) for source, _, over in moves)
    return {source for source, over in left.items() if over.difference(arrived.get(source, EMPTY))}
