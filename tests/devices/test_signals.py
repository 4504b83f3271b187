"""Copies that are made again and again: their order, and rounds of members that wait on the host."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from sdi.cluster.shared import Pool
from sdi.devices.base import Device
from sdi.devices.copying import download
from sdi.devices.handles import DeviceBuffer
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.devices.signals import Mailbox, RepeatedCopy, sends_first
from sdi.devices.ticket import completed
from sdi.errors import DeviceFailed
from sdi.region import Region
from tests.devices.conftest import failure, finish
from tests.devices.testing.signalling import HostSignals

BOX = Mailbox((memoryview(b""), memoryview(b"")), memoryview(b""), memoryview(b""))
ONE, TWO = DeviceBuffer(object()), DeviceBuffer(object())


def copy(buffer: DeviceBuffer, start: int, is_sent: bool) -> RepeatedCopy:
    return RepeatedCopy(buffer, Region(start, 10), BOX, is_sent)


def test_sends_go_first_unless_they_pass_on_what_comes_before_them() -> None:
    comes, other = copy(ONE, 0, False), copy(ONE, 100, False)
    passes_on, unlike, behind = copy(ONE, 5, True), copy(TWO, 0, True), copy(ONE, 100, True)
    found = sends_first([behind, comes, passes_on, unlike, other])
    assert found == [behind, unlike, comes, passes_on, other]
    assert sends_first([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_in_that_order_the_oldest_copy_of_all_can_always_go_on(seed: int) -> None:
    """Random copies between processes, in one order for all, each process' own one after the other."""
    numbers, processes = random.Random(seed), range(4)
    buffers = [DeviceBuffer(object()) for _ in processes]
    parts: list[list[tuple[RepeatedCopy, int]]] = [[] for _ in processes]
    for number in range(12):
        from_, to = numbers.sample(processes, 2)
        for process, is_sent in ((from_, True), (to, False)):
            parts[process].append((copy(buffers[process], numbers.randrange(0, 40, 5), is_sent), number))
    lines = []
    for part in parts:
        ordered = sends_first([each for each, _ in part])
        of = {id(each): number for each, number in part}
        lines.append([(each.is_sent, of[id(each)]) for each in ordered])
    sent: set[int] = set()
    while any(lines):
        ready = [line for line in lines if line and (line[0][0] or line[0][1] in sent)]
        assert ready, "all wait for each other"
        for line in ready:
            is_sent, number = line.pop(0)
            if is_sent:
                sent.add(number)


@pytest.fixture
def members(driver: DriverDevice) -> Iterator[list[Device]]:
    made = [OpenCLDevice(driver, number, 1 << 24) for number in range(2)]
    yield [*made]
    for member in reversed(made):
        member.close()


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(1 << 22)
    yield made
    made.close()


def mailbox(pool: Pool, nbytes: int) -> Mailbox:
    halves = [pool.take(nbytes) for _ in range(2)]
    assert halves[0] is not None and halves[1] is not None
    words = [pool.word(pool.place(half)) for half in halves if half is not None]
    return Mailbox((halves[0], halves[1]), *words)


def test_rounds_of_two_members_pass_bytes_in_turn_whoever_is_asked_first(
    members: list[Device], pool: Pool
) -> None:
    """What one adds to comes back to it: each round needs the one before of the other member."""
    one, two = members
    signals = [HostSignals(member) for member in (one, two)]
    buffers = [member.allocate(400) for member in (one, two)]
    there, back = mailbox(pool, 40), mailbox(pool, 40)
    region = Region(40, 8, ((80, 5),))
    rounds = [
        signals[0].round_of(
            [RepeatedCopy(buffers[0], region, there, True), RepeatedCopy(buffers[0], region, back, False)]
        ),
        signals[1].round_of(
            [RepeatedCopy(buffers[1], region, there, False), RepeatedCopy(buffers[1], region, back, True)]
        ),
    ]
    last = [
        member.fill(buffer, 0, 400, bytes([k]), ())
        for k, (member, buffer) in enumerate(zip((one, two), buffers, strict=True))
    ]
    for member in (one, two):
        member.flush()
    for number in range(1, 8):
        order = (0, 1) if number % 2 else (1, 0)
        for k in order:
            last[k] = rounds[k].issue(number * 3, [last[k]], (), lambda: None)
        last[0] = one.fill(buffers[0], 40, 4, bytes([number]), [last[0]])
        one.flush()
    for ticket in last:
        finish(ticket)
    found = [memoryview(bytearray(400)) for _ in range(2)]
    for member, buffer, memory, ticket in zip((one, two), buffers, found, last, strict=True):
        finish(download(member, buffer, 0, memory, [ticket]))
    mine, other = (np.frombuffer(each, np.uint8) for each in found)
    assert mine[40:48].tolist() == [7] * 4 + [0] * 4
    assert other[40:48].tolist() == [6] * 4 + [0] * 4, "what was there before the last time"
    assert not other[120:128].any() and (other[128:200] == 1).all()
    for each in signals:
        each.close()


def test_a_round_behind_what_failed_gives_nothing(members: list[Device], pool: Pool) -> None:
    one, _ = members
    signals, box = HostSignals(one), mailbox(pool, 40)
    issue = signals.round_of([RepeatedCopy(one.allocate(400), Region(0, 40), box, True)])
    broken = DeviceFailed("a member", "it is broken")
    assert failure(issue.issue(1, [completed(broken)], (), lambda: None)) is broken
    assert failure(issue.issue(2, [], (), lambda: None)) is broken, "it is behind that"
    assert bytes(box.filled) == bytes(4)
    signals.close()


def test_the_verdict_counts_at_the_end(members: list[Device], pool: Pool) -> None:
    one, _ = members
    signals, box, why = HostSignals(one), mailbox(pool, 40), list[BaseException]()
    issue = signals.round_of([RepeatedCopy(one.allocate(400), Region(0, 40), box, False)])
    ticket = issue.issue(4, [], (), lambda: why[0] if why else None)
    assert not ticket.done
    why.append(DeviceFailed("a node", "it is lost"))
    box.filled[:] = (1 << 30).to_bytes(4, "little")
    assert failure(ticket) is why[0]
    signals.close()
