"""Counters that hand out places to store at: the noun in which kernels, plans and launches speak of them.

A work-item adds to a counter and stores at what the counter was before: it appends.  In which order that
happens is open on one device too.  Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from sdi.dataclass import dataclass


class Scalar(NamedTuple):
    """The number of an integer argument."""

    argument: int
    signed: bool


SMALL = 1 << 31
"""Below it no number of 32 bits wraps around."""
COPIES_MAX_NBYTES = 64 << 10
"""So much of counters, or of what is watched, the player compares and adds up; of more Python does.
[M] two members, two busy cores, a search with 60,000 bytes of results: 0.45 ms, by Python 8."""
MERGED_MAX_NBYTES, MERGED_COPIES_MAX = 2 << 20, 128
"""So much, in so many copies of members, the player merges of what several wrote: each is an operation of a
recording.  [M] two members on an H200, all of 1 MiB changed: 0.6 to 0.8 ms, some of it 0.2, by Python 1.1 to
1.8; 4 MiB: 2.1 to 3.3, 0.8, 1.2 to 1.8."""

Polynomial = tuple[tuple[int, tuple[Scalar, ...]], ...]
"""A sum of products: a coefficient, and the arguments that it is multiplied with."""


def room_of(copies: Iterable[int]) -> int:
    """Bytes that copies of so many bytes each take, one behind the other."""
    return sum(-(-nbytes // 8) * 8 for nbytes in copies)


def are_merged_by_player(copies: Sequence[int]) -> bool:
    """Whether it merges copies of so many bytes each, of all members that wrote."""
    return 0 < len(copies) <= MERGED_COPIES_MAX and room_of(copies) <= MERGED_MAX_NBYTES


def value_of(polynomial: Polynomial, values: Sequence[object]) -> int:
    """What it comes to; ``values``: of all arguments, of integers their bytes."""

    return sum(_terms(polynomial, values))


def magnitude_of(polynomial: Polynomial, values: Sequence[object]) -> int:
    """What nothing on the way to its value is beyond, above or below 0."""
    return sum(map(abs, _terms(polynomial, values)))


def _terms(polynomial: Polynomial, values: Sequence[object]) -> list[int]:
    def scalar(of: Scalar) -> int:
        value = values[of.argument]
        assert isinstance(value, bytes), "an integer"
        return int.from_bytes(value, "little", signed=of.signed)

    return [coefficient * prod(map(scalar, of)) for coefficient, of in polynomial]


@dataclass(frozen=True, slots=True)
class Load:
    """Integers of ``nbytes`` each that an argument points to."""

    argument: int
    nbytes: int
    signed: bool


@dataclass(frozen=True, slots=True)
class AppendStore:
    """What is stored for place p of a counter: all elements from ``scale`` p + ``start`` on, ``abs(scale)``
    of them, of ``element_nbytes`` each, through ``argument``.

    ``stride``: of counters in an array, times the counter's index is added.  ``base``: of these, the one with
    the counter's index is added.
    """

    argument: int
    element_nbytes: int
    scale: int
    start: Polynomial
    stride: Polynomial = ()
    base: Load | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """The kernel compares: what it does is the same for all places handed out up to ``bound``.

    A counter that stands at v in the end is below it where v + ``more`` <= ``bound``.
    """

    more: int
    bound: Polynomial


@dataclass(frozen=True, slots=True)
class Append:
    """One atomic addition, of at least 0, whose result only says where to store, or is compared with limits.

    ``counter``: the argument with counters of ``nbytes`` each.  ``index``: which of them, None: any.
    ``line``: of the user's text.  ``reads``: the arguments whose memory says where; nobody may change it.
    ``flat``: the dimensions in which work-groups must be one work-item wide, so that one of each adds.
    """

    counter: int
    nbytes: int
    index: Polynomial | None
    stores: tuple[AppendStore, ...]
    limits: tuple[Limit, ...]
    line: int
    reads: tuple[int, ...] = ()
    flat: tuple[int, ...] = ()


def is_simple(appends: Sequence[Append]) -> bool:
    """Whether places are handed out without a limit, each argument's by one counter, stored to in a row."""
    counters: dict[int, set[tuple[int, Polynomial | None]]] = {}
    indices: dict[int, set[Polynomial]] = {}
    for append in appends:
        if append.index is None or append.limits or append.reads:
            return False
        indices.setdefault(append.counter, set()).add(append.index)
        if len({store.argument for store in append.stores}) < len(append.stores):
            return False
        for store in append.stores:
            counters.setdefault(store.argument, set()).add((append.counter, append.index))
    # Two indices that arguments say may turn out to be one.
    are_known = all(len(found) == 1 or not any(map(_scalars, found)) for found in indices.values())
    return are_known and all(len(found) == 1 for found in counters.values())


def are_named(appends: Sequence[Append]) -> bool:
    """Whether arguments alone say which counters hand out places, and where these begin."""
    stores = [store for append in appends for store in append.stores]
    return all(each.index is not None and not each.reads for each in appends) and not any(
        store.stride or store.base for store in stores
    )


def are_small(appends: Sequence[Append], values: Sequence[object]) -> bool:
    """Whether nothing that says which counter it is, or where is stored, may wrap around or lose bits."""
    polynomials = [each.index or () for each in appends]
    polynomials += [of for each in appends for store in each.stores for of in (store.start, store.stride)]
    return all(magnitude_of(each, values) < SMALL for each in polynomials)


def _scalars(polynomial: Polynomial) -> list[Scalar]:
    return [scalar for _, of in polynomial for scalar in of]
