"""Reads of the same few bytes: planned once, and done by nodes where they keep it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sdi.devices.issue import Issue, Timing
from sdi.devices.ticket import Ticket, completed
from sdi.intervals import ByteRange
from sdi.launch.kernel import Binding
from sdi.launch.recording import Recording
from sdi.launch.replayers import IssueParts
from sdi.runtime.reads import Reads
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST
from tests.vmem.conftest import FOR, MakeRig, Rig

NBYTES = 64


class Parts:
    """Implements ``PartsReplayer``.  ``asked``: recordings; ``replays``: how often one was replayed."""

    def __init__(self, keeps: bool) -> None:
        self.asked: list[Recording] = []
        self.replays = 0
        self._keeps = keeps

    def find(self, binding: Binding | None, recording: Recording) -> IssueParts | None:
        assert binding is None
        self.asked.append(recording)
        return self._replay if self._keeps else None

    def _replay(self, issue: Issue, timing: Timing) -> list[Ticket]:
        self.replays += 1
        for change in self.asked[-1].changes:
            change.directory.enter(change.after)
        return [completed()]


class Launches:
    """As much of a launcher as reads need."""

    def __init__(self, parts: Parts | None) -> None:
        self.parts = parts


@dataclass(slots=True)
class Case:
    """A buffer of which each of two members writes a half whenever it is asked to."""

    on: Rig
    parts: Parts | None
    buffer: VirtualBuffer
    reads: Reads

    def write(self, value: int) -> bytes:
        """What is there then."""
        halves = ByteRange(0, NBYTES // 2), ByteRange(NBYTES // 2, NBYTES)
        for member, half in enumerate(halves):
            self.on.wait(self.on.fill(member, self.buffer, half, bytes([value + member])))
        return bytes([value]) * (NBYTES // 2) + bytes([value + 1]) * (NBYTES // 2)

    def read(self, over: ByteRange | None = None) -> bytes:
        over = over or self.buffer.whole
        self.reads.fetch(self.buffer, over, FOR)
        self.on.wait(*self.buffer.dependencies[HOST].before_read(over))
        return bytes(self.on.memory.memories.host_view(self.buffer, over))


def case(rig: MakeRig, parts: Parts | None, nbytes: int = NBYTES) -> Case:
    on = rig(2)
    return Case(on, parts, on.buffer(bytes(nbytes)), Reads(on.memory, Launches(parts)))  # type: ignore[arg-type]


def test_the_second_read_from_the_same_state_is_asked_of_nodes(rig: MakeRig) -> None:
    parts = Parts(True)
    made = case(rig, parts)
    for turn in range(4):
        made.write(turn)
        made.read()
        assert made.buffer.directory.is_current(HOST, made.buffer.whole)
        assert parts.replays == turn
    assert len({id(each) for each in parts.asked}) == 1
    made.read()
    assert parts.replays == 3, "it was there"


@pytest.mark.parametrize("parts", [None, Parts(False)])
def test_what_nodes_do_not_keep_is_copied_again_by_the_same_plan(rig: MakeRig, parts: Parts | None) -> None:
    made = case(rig, parts)
    for turn in range(4):
        there = made.write(3 * turn)
        half = ByteRange(NBYTES // 4, NBYTES)
        assert made.read(half) == there[NBYTES // 4 :]
        assert made.read() == there


def test_nodes_are_not_asked_to_keep_a_read_of_places_that_just_moved(rig: MakeRig) -> None:
    parts = Parts(True)
    made = case(rig, parts)
    for turn in range(2):
        made.write(turn)
        made.read()
    assert parts.replays == 1
    made.write(7)
    made.on.memory.placed.generation += 1
    assert made.read()[0] == 7 and parts.replays == 1
    made.write(8)
    made.read()
    assert parts.replays == 2


def test_long_reads_and_those_of_one_member_are_planned_each_time(rig: MakeRig) -> None:
    parts = Parts(True)
    made = case(rig, parts, (256 << 10) + 1)
    for turn in range(3):
        made.write(turn)
        made.read()
        made.read(ByteRange(0, NBYTES // 2))
    assert not parts.asked


def test_what_is_known_of_a_buffer_goes_with_it_and_all_when_a_member_is_lost(rig: MakeRig) -> None:
    parts = Parts(True)
    made = case(rig, parts)
    for turn in range(3):
        made.write(turn)
        made.read()
    made.reads.forget()
    made.write(5)
    assert made.read()[0] == 5 and parts.replays == 2
    assert made.reads._known.values
    made.on.memory.release(made.buffer.id)
    assert not made.reads._known.values
