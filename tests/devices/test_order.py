"""Tickets order the work of several members: random programs against a sequential model."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.handles import BoundKernel, DeviceBuffer
from sdi.devices.host_copy import BESIDE_KERNELS_NBYTES
from sdi.devices.ticket import Ticket
from sdi.region import Region
from tests.devices.conftest import OpenMembers, finish

COUNT = 256
SOURCE = """
kernel void advance(global uint *a, global const uint *b, uint factor) {
  size_t i = get_global_id(0);
  a[i] = a[i] * factor + b[i] + i;
}
"""
FACTORS = (3, 5, 7)


@dataclass
class Place:
    """Bytes somewhere, what they should be, and the tickets that touch them."""

    model: np.ndarray
    writer: list[Ticket] = field(default_factory=list)
    readers: list[Ticket] = field(default_factory=list)


@dataclass
class Side:
    """One member with two buffers, the bytes of which are ``places``."""

    member: Device
    buffers: list[DeviceBuffer]
    places: list[Place]
    kernels: dict[tuple[int, int], BoundKernel]


def _place() -> Place:
    return Place(np.zeros(COUNT, np.uint32))


def _waits(reads: list[Place], writes: list[Place]) -> list[Ticket]:
    waits: dict[int, Ticket] = {}
    for place in (*reads, *writes):
        waits.update((id(ticket), ticket) for ticket in place.writer)
    for place in writes:
        waits.update((id(ticket), ticket) for ticket in place.readers)
    return list(waits.values())


def _touch(ticket: Ticket, reads: list[Place], writes: list[Place]) -> None:
    for place in reads:
        place.readers.append(ticket)
    for place in writes:
        place.writer, place.readers = [ticket], []


def _open(members: list[Device]) -> list[Side]:
    sides = []
    for member in members:
        program = member.build(SOURCE, [])
        buffers = [member.allocate(4 * COUNT) for _ in range(2)]
        kernels = {
            (target, factor): member.bind(
                program, "advance", [buffers[target], buffers[1 - target], factor.to_bytes(4, "little")]
            )
            for target in range(2)
            for factor in FACTORS
        }
        sides.append(Side(member, buffers, [_place(), _place()], kernels))
        for buffer, place in zip(buffers, sides[-1].places, strict=True):
            _touch(member.fill(buffer, 0, 4 * COUNT, bytes(4), []), [], [place])
    return sides


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_programs_on_three_members_give_what_the_model_gives(
    open_members: OpenMembers, seed: int
) -> None:
    numbers = random.Random(seed)
    sides = _open(open_members(3))
    staging = [(np.zeros(COUNT, np.uint32), _place()) for _ in range(3)]
    gates: list[Ticket] = []
    index = np.arange(COUNT, dtype=np.uint32)
    for _ in range(1000):
        side = numbers.choice(sides)
        target = numbers.randrange(2)
        here, there = side.places[target], side.places[1 - target]
        memory, area = numbers.choice(staging)
        what = numbers.choice(["upload", "download", "copy", "fill", "launch", "launch", "hop"])
        extra: list[Ticket] = []
        if numbers.random() < 0.05:
            gates.append(Ticket())
            extra = gates[-1:]
        if gates and numbers.random() < 0.1:
            gates.pop(numbers.randrange(len(gates))).complete()
        member, buffer, other = side.member, side.buffers[target], side.buffers[1 - target]
        host = memoryview(memory).cast("B")
        match what:
            case "upload":
                ticket = copying.upload(member, host, buffer, 0, [*_waits([area], [here]), *extra])
                here.model = area.model.copy()
                _touch(ticket, [area], [here])
            case "download":
                ticket = copying.download(member, buffer, 0, host, [*_waits([here], [area]), *extra])
                area.model = here.model.copy()
                _touch(ticket, [here], [area])
            case "copy":
                at, start = 4 * numbers.randrange(COUNT // 2), 4 * numbers.randrange(COUNT // 2)
                waits = [*_waits([there], [here]), *extra]
                ticket = copying.within(
                    member, other, Region(start, 2 * COUNT), buffer, Region(at, 2 * COUNT), waits
                )
                here.model = here.model.copy()
                here.model[at // 4 :][: COUNT // 2] = there.model[start // 4 :][: COUNT // 2]
                _touch(ticket, [there], [here])
            case "fill":
                value = numbers.randrange(1 << 32)
                pattern = value.to_bytes(4, "little")
                ticket = member.fill(buffer, 0, 2 * COUNT, pattern, [*_waits([], [here]), *extra])
                here.model = here.model.copy()
                here.model[: COUNT // 2] = value
                _touch(ticket, [], [here])
            case "launch":
                factor = numbers.choice(FACTORS)
                waits = [*_waits([there], [here]), *extra]
                ticket = member.launch(
                    side.kernels[target, factor], (COUNT // 16, 1, 1), (16, 1, 1), 1, waits
                )
                here.model = here.model * np.uint32(factor) + there.model + index
                _touch(ticket, [there], [here])
            case "hop":
                goal = numbers.choice(sides)
                ticket = copying.download(member, buffer, 0, host, [*_waits([here], [area]), *extra])
                area.model = here.model.copy()
                _touch(ticket, [here], [area])
                aim = goal.places[1]
                ticket = copying.upload(goal.member, host, goal.buffers[1], 0, _waits([area], [aim]))
                aim.model = area.model.copy()
                _touch(ticket, [area], [aim])
    for gate in gates:
        gate.complete()
    for side in sides:
        for buffer, place in zip(side.buffers, side.places, strict=True):
            found = np.zeros(COUNT, np.uint32)
            finish(copying.download(side.member, buffer, 0, memoryview(found).cast("B"), _waits([place], [])))
            assert (found == place.model).all()
    for memory, area in staging:
        for ticket in _waits([area], [area]):
            finish(ticket)
        assert (memory == area.model).all()


def test_a_chain_of_1000_launches_over_three_members_runs_in_order(open_members: OpenMembers) -> None:
    sides = _open(open_members(3))
    gate = Ticket()
    tickets = [gate]
    for number in range(1000):
        side = sides[number % 3]
        waits = [tickets[-1], *_waits([side.places[1]], [side.places[0]])]
        kernel = side.kernels[0, FACTORS[number % 3]]
        tickets.append(side.member.launch(kernel, (16, 1, 1), (16, 1, 1), 1, waits))
        _touch(tickets[-1], [side.places[1]], [side.places[0]])
    assert not any(ticket.done for ticket in tickets)
    gate.complete()
    finish(tickets[-1])
    for before, after in itertools.pairwise(tickets):
        assert before.end_ns <= after.start_ns, "one ends before the next starts"


def test_large_copies_keep_their_order_with_kernels_and_short_ones(open_members: OpenMembers) -> None:
    first, second = open_members(2)
    count = BESIDE_KERNELS_NBYTES // 2  # twice as many bytes as go beside kernels
    sent, found, short = np.arange(count, dtype=np.int32), np.zeros(count, np.int32), np.zeros(16, np.int32)
    source, target = first.allocate(4 * count), second.allocate(4 * count)
    text = "kernel void add(global int *a, int b) { a[get_global_id(0)] += b; }"
    kernels = [
        member.bind(member.build(text, []), "add", [buffer, (1).to_bytes(4, "little")])
        for member, buffer in ((first, source), (second, target))
    ]
    for number in range(3):
        sent += number
        uploaded = copying.upload(first, memoryview(sent.copy()).cast("B"), source, 0, [])
        added = first.launch(kernels[0], (count // 64, 1, 1), (64, 1, 1), 1, [uploaded])
        copied = copying.across(second, first, source, 0, target, 0, 4 * count, [added], [])[1]
        again = second.launch(kernels[1], (count // 64, 1, 1), (64, 1, 1), 1, [copied])
        whole = copying.download(second, target, 0, memoryview(found).cast("B"), [again])
        finish(copying.download(second, target, 64, memoryview(short).cast("B"), [again]))
        finish(whole)
        assert (found == sent + 2).all() and (short == sent[16:32] + 2).all()
