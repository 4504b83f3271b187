"""Whether stores fill all places that a counter hands out, and nothing else.

Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdi.clc.linear import ONE, Linear, Symbol, divided, scaled, without
from sdi.dataclass import dataclass

_ELEMENTS_MAX = 4096


class Refused(Exception):
    """Why a result is used in another way than to append; ``args[0]``: for the user."""


@dataclass(frozen=True, slots=True)
class Trip:
    """A loop around stores: ``symbol`` goes from 0 in steps of ``step`` while it is less than ``stop``."""

    symbol: Symbol
    step: int
    stop: Linear


@dataclass(frozen=True, slots=True)
class Store:
    """One store: ``index`` in elements, as many of them as ``width``.

    ``parts``: of the element, all of it if empty.
    """

    argument: int
    element_nbytes: int
    index: Linear
    width: int
    trip: Trip | None
    parts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Filled:
    """For place p all elements from ``scale`` p + ``rest`` + ``start`` on, ``abs(scale)`` of them."""

    scale: int
    rest: Linear
    start: int


def filled(stores: Sequence[Store], place: Symbol, addend: Linear, every: frozenset[str]) -> Filled:
    """What stores through one argument fill, together, of ``addend`` places from ``place`` on.

    ``every``: the parts of an element, none where they are not known.  Raises Refused where that is more or
    less than all places.
    """
    first = stores[0]
    scale, trip = first.index[place,], first.trip
    rest = rest_of(first, place)
    stored: dict[int, set[str]] = {}
    for store in stores:
        if (store.trip, rest_of(store, place), store.index[place,]) != (trip, rest, scale):
            raise Refused("and stores at places that are not followed")
        begin = store.index.get(ONE, 0)
        for offset in range(begin, begin + store.width):
            stored.setdefault(offset, set()).update(store.parts or every or {""})
    if any(parts != (every or {""}) for parts in stored.values()):
        raise Refused("and may not store to all of the places")
    if trip is None:
        places = addend.get(ONE, 0)
        if list(addend) != [ONE]:
            raise Refused("and may not store to all of the places")
    else:
        step = rest.get((trip.symbol,), 0) * trip.step
        places, left = divmod(step, scale) if scale > 0 else (0, 1)
        trips = divided(trip.stop, trip.step)
        if left or places <= 0 or trips is None or scaled(trips, places) != addend:
            raise Refused("and may not store to all of the places, or to others too")
        rest = without(rest, (trip.symbol,))
    start, count = min(stored), abs(scale) * places
    is_all = count <= _ELEMENTS_MAX and set(stored) == set(range(start, start + count))
    if not is_all or (scale < 0 and places != 1):
        raise Refused("and may not store to all of the places, or to others too")
    return Filled(scale, rest, start)


def rest_of(store: Store, place: Symbol) -> Linear:
    """Its index without the place and without numbers."""
    return without(without(store.index, (place,)), ONE)
