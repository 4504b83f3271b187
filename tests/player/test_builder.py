"""Which copies before a launch need not follow each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from sdi.intervals import ByteRange
from sdi.player.builder import _are_beside
from sdi.vmem.directory import HOST, Copy
from sdi.vmem.transfers import Transfer

A, B = object(), object()
ONE, TWO, THREE = 1, 2, 3


def transfer(buffer: object, source: int, target: int, start: int, stop: int) -> Transfer:
    """A copy of bytes [start, stop) between two memories."""
    made = SimpleNamespace(buffer=buffer, copy=Copy(source, target, ByteRange(start, stop)))
    return cast(Transfer, made)


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        # Halos: each memory is read at one end and written at the other.
        ([(A, ONE, TWO, 0, 8), (A, TWO, ONE, 8, 16)], True),
        ([(A, ONE, TWO, 0, 8), (A, THREE, TWO, 8, 16), (A, TWO, ONE, 16, 24)], True),
        ([(A, HOST, ONE, 0, 8), (A, HOST, TWO, 0, 8)], True),
        # The second one brings on what the first one brought.
        ([(A, HOST, ONE, 0, 8), (A, ONE, TWO, 4, 12)], False),
        ([(A, ONE, TWO, 4, 12), (A, HOST, ONE, 0, 8)], False),
        ([(A, HOST, ONE, 0, 8), (B, ONE, TWO, 4, 12)], True),
        # The same bytes are written twice.
        ([(A, TWO, ONE, 0, 8), (A, THREE, ONE, 7, 12)], False),
        # Each member brings its own to the host: on two lanes.
        ([(A, ONE, HOST, 0, 8), (A, TWO, HOST, 8, 16)], False),
        ([(A, ONE, HOST, 0, 8), (A, ONE, HOST, 8, 16)], True),
        ([(A, ONE, HOST, 0, 8), (B, TWO, HOST, 8, 16)], True),
    ],
)
def test_copies_are_beside_each_other_unless_one_writes_what_another_uses(
    copies: list[tuple[object, int, int, int, int]], expected: bool
) -> None:
    assert _are_beside([transfer(*each) for each in copies]) is expected
