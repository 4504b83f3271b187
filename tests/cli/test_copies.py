"""Copies between members that ``sdi devices --measure`` and ``sdi doctor`` try."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from sdi.cli.copies import HOST, _Trial, try_copies
from sdi.cli.devices import _measure, rates
from sdi.devices import discover
from sdi.devices.base import Device, Place
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status
from sdi.region import Region
from sdi.settings import MAX_MEMBERS, Settings
from sdi.vmem.arena import Arena
from tests.devices.testing.faulty import LosingDevice

NBYTES = 1 << 16


class Damaging(ForwardingDevice):
    """A member to which other members' copies arrive with one byte too few."""

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        is_peer = None not in (source.device, target.device)
        less = Region(region.base, region.nbytes - 1, region.levels) if is_peer else region
        return super().copy(source, target, less, source_waits, target_waits, timing)


class Forgetful(ForwardingDevice):
    """A member whose uploads end early."""

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        less = Region(region.base, region.nbytes - 1) if source.device is None else region
        return super().copy(source, target, less, source_waits, target_waits, timing)


@pytest.fixture
def members() -> Iterator[list[Device]]:
    made = open_members(MemberSettings(count=3))
    yield made
    for member in reversed(made):
        member.close()


def test_every_pair_is_tried_and_measured(members: list[Device]) -> None:
    told: list[tuple[int, int]] = []
    copies = try_copies(members, NBYTES, lambda done, total: told.append((done, total)))
    ends = {(copied.source, copied.target) for copied in copies}
    assert ends == {(a, b) for a in range(HOST, 3) for b in range(HOST, 3) if a != b}
    assert all(copied.gb_s > 0 and not copied.failure for copied in copies)
    assert told == [(k, 9) for k in range(9)]
    assert all(member.memory.in_use == 0 for member in members)


def test_a_copy_that_arrives_damaged_is_found(members: list[Device]) -> None:
    members[1] = Damaging(members[1])
    copies = try_copies(members, NBYTES)
    assert {(c.source, c.target) for c in copies if c.failure} == {(0, 1), (2, 1)}
    table = rates(copies, 3)
    assert table[2].split()[3] == "FAIL" and table[-1] == "from 2 to 1: arrives damaged"


def test_a_copy_to_or_from_the_host_that_is_damaged_is_found(members: list[Device]) -> None:
    members[2] = Forgetful(members[2])
    failed = {(c.source, c.target) for c in try_copies(members, NBYTES) if c.failure}
    assert {(HOST, 2), (2, HOST)} <= failed <= {(HOST, 2), (2, HOST), (2, 0), (2, 1)}


def test_a_member_that_fails_does_not_keep_the_others_from_being_tried(members: list[Device]) -> None:
    members[0] = LosingDevice(members[0], 0)
    failed = {(c.source, c.target) for c in try_copies(members, NBYTES) if c.failure}
    assert failed == {(a, b) for a in range(HOST, 3) for b in range(HOST, 3) if a != b and 0 in (a, b)}


def test_devices_measure_prints_a_table_and_nothing_else_into_a_pipe() -> None:
    command = [sys.executable, "-m", "sdi.cli", "devices", "-n", "2", "--measure"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-4].split() == ["GB/s", "from", "to", "host", "to", "0", "to", "1"]
    assert [line.split()[0] for line in lines[-3:]] == ["host", "0", "1"]
    assert all(sum(cell == "-" for cell in line.split()) == 1 for line in lines[-3:])


@pytest.mark.parametrize(
    "error", [DeviceFailed("a GPU", "is gone"), ClError(Status.DEVICE_NOT_FOUND, "none")]
)
def test_members_that_can_not_be_opened_are_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: MemberSettings) -> list[Device]:
        raise error

    monkeypatch.setattr(discover, "open_members", refuse)
    assert _measure(Settings.from_environ({})) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"sdi devices: copies can't be measured: {error}\n")


def test_as_many_members_as_there_may_be_are_sent_different_bytes() -> None:
    arena = Arena(1 << 20, 4096)
    trial = _Trial([], 4096, arena)
    assert len({trial._data(member) for member in range(MAX_MEMBERS)}) == MAX_MEMBERS
    del trial
    arena.close()
