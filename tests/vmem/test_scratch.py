"""Scratch bytes come back once all that uses them is done, and there are none where there is no room."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.devices.ticket import Ticket
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.scratch import Scratch
from tests.vmem.conftest import MakeRig, Rig

NBYTES = 1 << 16


def taken(made: Rig, memory: int) -> Scratch:
    found = made.memory.scratch.take(memory, NBYTES)
    assert found is not None
    return found


def test_bytes_of_the_arena_are_used_again_only_behind_what_is_pending(rig: MakeRig) -> None:
    made = rig(1)
    first = taken(made, HOST)
    assert isinstance(first.bytes, memoryview)
    np.frombuffer(first.bytes, np.uint8)[:] = 7
    assert bytes(made.arena.view(first.offset, NBYTES)) == bytes([7]) * NBYTES
    pending = [Ticket(), Ticket()]
    first.give(pending)
    pending[0].complete()
    made.turn()
    assert taken(made, HOST).offset != first.offset
    pending[1].complete()
    made.turn()
    assert taken(made, HOST).offset == first.offset


def test_bytes_of_a_member_are_a_block_of_its_own_until_they_are_given_back(rig: MakeRig) -> None:
    made = rig(2)
    there = member_memory(1)
    first, pending = taken(made, there), Ticket()
    first.give([pending])
    second = taken(made, there)
    assert second.bytes is not first.bytes
    pending.complete()
    second.give([])
    assert {id(taken(made, there).bytes) for _ in range(2)} == {id(first.bytes), id(second.bytes)}


@pytest.mark.parametrize("memory", [HOST, member_memory(0)])
def test_where_there_is_no_room_there_are_none(memory: int, rig: MakeRig) -> None:
    made = rig(1)
    assert made.memory.scratch.take(memory, 1 << 40) is None
