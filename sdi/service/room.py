"""Where the application can map the arena, as its service is told at the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sdi.wire.records import ARENA_NBYTES, SHARED_ADDRESSES


class ArenaRoom(NamedTuple):
    """So many bytes, and the addresses at which it has nothing there, best first."""

    nbytes: int
    addresses: tuple[int, ...]


ANY_ROOM = ArenaRoom(ARENA_NBYTES, SHARED_ADDRESSES)


def room_of(arguments: Sequence[str]) -> ArenaRoom:
    """From ROOM, a number, and ADDRESSES, hexadecimal ones with commas between; none: no memory is shared at
    the application's addresses.  Raises ValueError.
    """
    nbytes, addresses = arguments
    return ArenaRoom(int(nbytes), tuple([int(each, 16) for each in addresses.split(",") if each]))
