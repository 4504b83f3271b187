"""What is known of places: who has one where, in which order they were used, and when they go."""

from __future__ import annotations

import pytest

from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.vmem.directory import member_memory
from sdi.vmem.placed import GRANULE_NBYTES, rounded
from tests.vmem.conftest import MakeRig

G = GRANULE_NBYTES


@pytest.mark.parametrize(
    ("over", "wanted"),
    [
        (ByteRange(0, 1), ByteRange(0, G)),
        (ByteRange(G - 1, G + 1), ByteRange(0, 2 * G)),
        (ByteRange(2 * G, 3 * G), ByteRange(2 * G, 3 * G)),
        (ByteRange(3 * G + 5, 3 * G + 9), ByteRange(3 * G, 3 * G + 9)),
    ],
)
def test_places_begin_and_end_at_granules_or_with_their_buffer(over: ByteRange, wanted: ByteRange) -> None:
    assert rounded(over, 3 * G + 9) == wanted


def test_a_place_is_known_from_when_it_is_given_until_it_is_taken_away(rig: MakeRig) -> None:
    made = rig(2)
    placed, buffer = made.memory.placed, made.buffer(bytes(4 * G))
    before = placed.generation
    made.reserve((buffer, 1, buffer.whole))
    allocation = buffer.allocations[1]
    assert allocation is not None and placed.generation > before
    assert placed.buffers[1] == {buffer.id: buffer} and not placed.buffers[0]
    before, pending = placed.generation, Ticket()
    buffer.dependencies[member_memory(1)].written_by(buffer.whole, pending)
    placed.give(buffer, 1, allocation)
    assert buffer.allocations[1] is None and not placed.buffers[1] and placed.generation > before
    other = placed.heaps[1].take(4 * G)
    assert other is not None and other.device_buffer is not allocation.device_buffer, "it is in use yet"
    pending.complete()
    again = placed.heaps[1].take(4 * G)
    assert again is not None and again.device_buffer is allocation.device_buffer


def test_what_was_used_last_has_the_latest_time(rig: MakeRig) -> None:
    made = rig(1)
    placed, buffers = made.memory.placed, [made.buffer(bytes(G)) for _ in range(3)]
    for buffer in buffers:
        made.reserve((buffer, 0, buffer.whole))
    first, second, third = (buffer.allocations[0] for buffer in buffers)
    assert first is not None and second is not None and third is not None
    placed.touch([second])
    placed.touch([third, first])
    assert second.used < third.used == first.used == placed.clock
