"""Which copies before a launch need not follow each other, and which one kernel brings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from sdi.devices.native import FETCHED_MAX
from sdi.intervals import ByteRange
from sdi.player.builder import _are_beside, _by_ends
from sdi.vmem.directory import HOST, Copy
from sdi.vmem.transfers import Transfer

A, B = object(), object()
ONE, TWO, THREE = 1, 2, 3


def transfer(buffer: object, source: int, target: int, start: int, stop: int) -> Transfer:
    """A copy of bytes [start, stop) between two memories."""
    copy = Copy(source, target, ByteRange(start, stop))
    return cast(Transfer, SimpleNamespace(buffer=buffer, copy=copy, cause="halo", is_staged=False))


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


def test_one_kernel_brings_what_a_member_gets_of_another_one_as_far_as_it_can() -> None:
    planes = [
        (k % 2, transfer(A, ONE + k % 2, TWO - k % 2, 8 * k, 8 * k + 8)) for k in range(2 * FETCHED_MAX + 2)
    ]
    other = transfer(B, THREE, ONE, 0, 8)
    there, back = ([each for way, each in planes if way == k] for k in (0, 1))
    found = _by_ends([each for _, each in planes] + [other])
    assert found == [there[:-1], back[:-1], there[-1:], back[-1:], [other]]
