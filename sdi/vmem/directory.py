"""The residency directory: which memories hold the current bytes of a root buffer, byte by byte.

Pure: it plans copies and performs none.  Source: papers/1 section 3.6, with data that may stay on members.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from sdi.dataclass import dataclass
from sdi.intervals import ByteRange
from sdi.region import Bytes
from sdi.region_map import RegionMap
from sdi.regions import RegionSet, as_few

HOST = 0
"""The host memory's number; member k is memory k + 1."""

HeldRun = tuple[ByteRange, int, bool]
"""A run, the bit set of the memories that hold it, and whether it is defined."""
State = RegionMap[int]
"""All holders of a buffer at one time; equal states of one directory are the same object.  Never changed."""

_UNDEFINED = 1
"""Marks bytes that nobody has written yet: the arena's content stands for them where it matters.

Below the bits of the memories, of which there may be any number.
"""
_HOLDER = 2
"""The host's bit in a directory's own bit sets, ``_HOLDER << m`` that of memory m; elsewhere it is bit m."""


def member_memory(member: int) -> int:
    """Number of member ``member``'s memory."""
    return member + 1


@dataclass(slots=True)
class Copy:
    """Bytes that have to go from memory ``source`` to memory ``target`` to make ``over`` current there."""

    source: int
    target: int
    over: Bytes


class _StateKey:
    """Hashed once: it may be long."""

    __slots__ = ("_hash", "_of")

    def __init__(self, of: tuple[object, ...]) -> None:
        self._of = of
        self._hash = hash(of)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StateKey) and self._of == other._of


_STATES_MAX, _STATES_ENTRIES_MAX = 64, 1 << 20
"""So many states are known, or fewer that have so many entries together."""
_NUMBERS_MAX = 1 << 12


class Directory:
    """Holders of one root buffer of ``nbytes`` bytes, which starts undefined, or ``defined`` on the host.

    A byte always has at least one holder (the host, for undefined bytes).  Describes the state after all
    issued actions.  Opaque copies (images, whose layout only a driver knows) are no holders: bytes that
    these changed are written back at once, and every other write makes them old.  Owned by: sdi-scheduler.
    ``together``: the bit set of memories that are one: who has something in one of them has it in all.
    """

    __slots__ = (
        "_cell",
        "_cells",
        "_copies",
        "_first",
        "_forgotten",
        "_holders",
        "_key",
        "_key_of",
        "_next_number",
        "_num_entries",
        "_numbered",
        "_numbers",
        "_state",
        "_states",
        "nbytes",
        "together",
    )

    def __init__(self, nbytes: int, defined: bool = False, together: int = 0) -> None:
        self.nbytes = nbytes
        self.together = together
        self._holders = self._new(defined)
        self._copies: RegionMap[int] | None = None
        self._state: State | None = None  # what _holders is, if that is known
        self._first: dict[bool, State] = {}  # states of a new directory, by whether it is defined
        self._states: OrderedDict[object, State] = OrderedDict()
        self._num_entries = 0
        self._key: object = None  # of the state _key_of
        self._key_of: State | None = None
        self._cells: memoryview | None = None
        self._cell = 0
        self._forgotten: Callable[[], None] | None = None
        self._numbers: dict[int, int] = {}
        self._numbered: dict[int, State] = {}
        self._next_number = 1

    def _new(self, defined: bool) -> RegionMap[int]:
        return RegionMap[int](self.nbytes, self._holder(HOST) | (0 if defined else _UNDEFINED))

    def _holder(self, memory: int) -> int:
        """The bits of a memory, and of those that are one with it."""
        return self.together * _HOLDER if self.together >> memory & 1 else _HOLDER << memory

    def mirror(
        self, cells: memoryview | None, cell: int, forgotten: Callable[[], None] | None = None
    ) -> None:
        """Keep the present state's number in ``cells[cell]`` from now on, 0 where it has none; or nowhere.

        ``forgotten``: called when numbers that were given mean nothing any more.
        """
        self._cells, self._cell, self._forgotten = cells, cell, forgotten
        self._show()

    def _show(self) -> None:
        if self._cells is not None:
            state = self._state if self._copies is None else None
            self._cells[self._cell] = 0 if state is None else self.number_of(state)

    def number_of(self, state: State) -> int:
        """The number of one of this directory's states; no other ever has it."""
        found = self._numbers.get(id(state))
        if found is None:
            if len(self._numbers) >= _NUMBERS_MAX:
                self._forget_numbers()
            found = self._numbers[id(state)] = self._next_number
            self._numbered[found] = state  # so that its id stays its own
            self._next_number += 1
        return found

    def _forget_numbers(self) -> None:
        """But those of ``fresh`` states; and the cell has none of the others."""
        first = {id(state) for state in self._first.values()}
        self._numbered = {n: state for n, state in self._numbered.items() if id(state) in first}
        self._numbers = {id(state): n for n, state in self._numbered.items()}
        if self._cells is not None and self._cells[self._cell] not in self._numbered:
            self._cells[self._cell] = 0
        if self._forgotten is not None:
            self._forgotten()

    def follow(self, is_new: bool = False) -> None:
        """Be in the state that somebody else wrote to the cell.

        ``is_new``: it was as a new one meanwhile, without opaque copies.
        """
        if is_new:
            self._copies = None
        assert self._cells is not None
        self._state = self._holders = self._numbered[self._cells[self._cell]]

    def reset(self, defined: bool = False) -> None:
        """Be as a new one, without opaque copies; states that were known stay the same objects."""
        self._copies = None
        self.enter(self.fresh(defined))

    def fresh(self, defined: bool = False) -> State:
        """The state of a new one, always the same object."""
        found = self._first.get(defined)
        if found is None:
            found = self._first[defined] = self._known(self._new(defined))
        return found

    def _known(self, holders: State) -> State:
        """The state that equals ``holders``: this one, if there is none yet."""
        key = holders.key()
        known = self._states.setdefault(key, holders)
        self._states.move_to_end(key)
        if known is holders:
            self._num_entries += len(known)
        while len(self._states) > _STATES_MAX or (
            self._num_entries > _STATES_ENTRIES_MAX and len(self._states) > 1
        ):
            self._num_entries -= len(self._states.popitem(last=False)[1])
        return known

    def state(self) -> State | None:
        """The present state, to compare by identity and to ``enter`` again.

        None where there are opaque copies, of which a state says nothing.  A launch that is repeated finds
        its buffers in the same few states again and again.
        """
        if self._copies is not None:
            return None
        if self._state is None:
            self._state = self._holders = self._known(self._holders)
            self._show()
        return self._state

    def key(self) -> object:
        """The present holders, to compare with those of any directory; None where ``state`` is None."""
        state = self.state()
        if state is None:
            return None
        if self._key_of is not state:
            self._key_of, self._key = state, _StateKey((self.nbytes, *state.key()))
        return self._key

    def one_mask(self) -> int | None:
        """What is the same for directories of which all bytes have the same holders, and are all defined or
        all not; None where they differ.
        """
        return self._holders.whole()

    def is_only_on(self, memory: int) -> bool:
        """Whether ``memory`` alone holds all bytes, all of them defined, and there are no opaque copies."""
        return self._copies is None and self._holders.whole() == self._holder(memory)

    def enter(self, state: State) -> None:
        """Be in ``state``, which was this directory's before; O(1)."""
        self._state = self._holders = state
        self._show()

    def _changing(self) -> RegionMap[int]:
        """The holders, to be changed."""
        if self._state is not None:
            self._holders = self._holders.copy()
            self._state = None
            self._show()
        return self._holders

    def is_current(self, memory: int, over: Bytes) -> bool:
        """Whether ``memory`` holds all of ``over``."""
        bit = _HOLDER << memory
        return all(mask & bit for mask in self._holders.values(over))

    def read(
        self,
        memory: int,
        over: Bytes,
        same_undefined: bool = False,
        choose: Callable[[int, int], int] | None = None,
    ) -> list[Copy]:
        """Plan what ``memory`` lacks of ``over`` and record it as current there.

        Source: what ``choose(holders, nbytes)`` picks from the bit set of holders, asked once for each such
        set, for all that these hold; without it, the holder with the lowest number.  Undefined bytes are not
        moved, unless all memories must agree on them (``same_undefined``: a twin is compared later).
        """
        bit = self._holder(memory)
        skip = bit if same_undefined else bit | _UNDEFINED
        stale = [(part, mask) for part, mask in self._holders.items(over) if not mask & skip]
        if not stale:
            return []
        held: dict[int, list[Bytes]] = {}
        for part, mask in stale:
            held.setdefault(mask >> 1, []).append(part)
        parts: dict[int, list[Bytes]] = {}
        for holders, found in held.items():
            if choose is None:
                source = (holders & -holders).bit_length() - 1
            else:
                source = choose(holders, sum([part.total_nbytes for part in found]))
            parts.setdefault(source, []).extend(found)
        if len(stale) == 1:
            self._changing().assign(part, mask | bit)
        else:
            self._changing().update(over, lambda mask: mask if mask & skip else mask | bit)
        return [Copy(source, memory, each) for source, found in parts.items() for each in as_few(found)]

    def stale(self, memory: int, regions: RegionSet) -> Iterator[tuple[Bytes, int]]:
        """What a ``read`` of ``regions`` for ``memory`` would move, with the bit set of its holders."""
        return self.missing(1 << memory, regions)

    def missing(self, memories: int, regions: RegionSet) -> Iterator[tuple[Bytes, int]]:
        """The same of what none of the bit set ``memories`` holds."""
        skip = memories << 1 | _UNDEFINED
        whole = self._holders.whole()
        if whole is not None and whole & skip:
            return
        for over in regions.regions:
            for part, mask in self._holders.items(over):
                if not mask & skip:
                    yield part, mask >> 1

    def stale_nbytes(self, memory: int, regions: RegionSet) -> int:
        """Bytes of ``regions`` that a ``read`` for ``memory`` would move."""
        return sum([part.total_nbytes for part, _ in self.stale(memory, regions)])

    def wrote(self, memory: int, over: Bytes) -> None:
        """``memory`` is the only holder of ``over`` from now on; opaque copies of these bytes are old."""
        self._changing().assign(over, self._holder(memory))
        if self._copies is not None:
            self._copies.assign(over, 0)

    def copied(self, memory: int, over: Bytes) -> None:
        """``memory`` holds ``over`` too from now on."""
        bit = self._holder(memory)
        self._changing().update(over, lambda mask: mask | bit)

    def copied_opaquely(self, number: int, over: Bytes) -> None:
        """The opaque copy ``number`` (an image on a member) agrees with ``over`` from now on."""
        if self._copies is None:
            self._copies = RegionMap[int](self.nbytes, 0)
            self._show()
        self._copies.update(over, lambda mask: mask | 1 << number)

    def old_in(self, number: int, over: Bytes) -> list[Bytes]:
        """The parts of ``over`` with which the opaque copy ``number`` may disagree."""
        if self._copies is None:
            return [over]
        bit = 1 << number
        return as_few([part for part, mask in self._copies.items(over) if not mask & bit])

    def dropped_opaquely(self, number: int) -> None:
        """The opaque copy ``number`` is gone; another one may have its number."""
        if self._copies is not None:
            keep = ~(1 << number)
            self._copies.update(ByteRange(0, self.nbytes), lambda mask: mask & keep)

    def define(self) -> None:
        """Undefined bytes become what the arena holds: one value for all memories."""
        self._changing().update(
            ByteRange(0, self.nbytes), lambda mask: self._holder(HOST) if mask & _UNDEFINED else mask
        )

    def dropped(self, memory: int, over: Bytes | None = None) -> None:
        """``memory`` no longer holds ``over`` (default: anything); it must not be a byte's only holder."""
        keep = ~(_HOLDER << memory)
        self._changing().update(over or ByteRange(0, self.nbytes), lambda mask: mask & keep)

    def without(self, bad: Sequence[tuple[int, Bytes]], lost: int | None) -> list[Bytes]:
        """Memories do not hold what they should: ``bad`` names them with the bytes, ``lost`` one with all.

        Where others hold the bytes, these alone are holders from now on.  Where nobody does, the bytes are
        gone: those of ``lost`` are the answer, and the caller writes to them; of others the holders stay.
        """
        wrong = RegionMap[int](self.nbytes, 0 if lost is None else _HOLDER << lost)
        for memory, over in bad:
            bit = _HOLDER << memory
            wrong.update(over, lambda mask, bit=bit: mask | bit)  # type: ignore[misc]
        gone: list[Bytes] = []
        changes: list[tuple[Bytes, int]] = []
        for part, mask in self._holders.items(ByteRange(0, self.nbytes)):
            for over, doubtful in wrong.items(part):
                good = mask & ~doubtful
                if good & ~_UNDEFINED:
                    new = good
                elif lost is not None and mask & _HOLDER << lost:
                    gone.append(over)
                    continue
                else:
                    new = mask
                if new != mask:
                    changes.append((over, new))
        for over, new in changes:
            self._changing().assign(over, new)
        return as_few(gone)

    def only_in(self, memory: int, over: Bytes) -> list[Bytes]:
        """The parts of ``over`` that no other memory holds, of those that are not one with it."""
        bit = self._holder(memory)
        return as_few([part for part, mask in self._holders.items(over) if mask == bit])

    def current_in(self, memory: int, over: Bytes) -> list[Bytes]:
        """The parts of ``over`` that ``memory`` holds."""
        bit = _HOLDER << memory
        return as_few([part for part, mask in self._holders.items(over) if mask & bit])

    def complete(self, memories: int) -> int:
        """Those of the bit set ``memories`` that hold all that is defined."""
        for _, mask in self._holders.items(ByteRange(0, self.nbytes)):
            if not mask & _UNDEFINED:
                memories &= mask >> 1
                if not memories:
                    break
        return memories

    def holders(self, over: Bytes) -> list[tuple[Bytes, int, bool]]:
        """Disjoint parts of ``over``, by their first bytes: the bit set of the memories that hold them, and
        whether they are defined.
        """
        found = [(part, mask >> 1, not mask & _UNDEFINED) for part, mask in self._holders.items(over)]
        return sorted(found, key=lambda item: item[0].base) if len(found) > 1 else found

    def runs(self, over: ByteRange, most: int) -> list[HeldRun] | None:
        """The same run by run, in order; None where these are more than ``most``."""
        found = self.holders(over)
        if sum([part.num_runs for part, _, _ in found]) > most:
            return None
        each = [(run, holders, defined) for part, holders, defined in found for run in part.runs()]
        return sorted(each, key=lambda item: item[0].start)

    def check(self) -> None:
        """Assert the invariants (for tests)."""
        self._holders.check()
        assert all(mask >> 1 > 0 for _, mask in self._holders.items(ByteRange(0, self.nbytes)))
