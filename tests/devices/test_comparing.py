"""``diff`` and ``apply`` on members leave what the host's merge leaves."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.atomics import Operation, Update
from sdi.devices import copying
from sdi.devices.base import Comparison, Device, MergeStep
from sdi.devices.comparing import HEADER_NBYTES, RECORD_NBYTES, changes_nbytes, num_runs, values_offset
from sdi.devices.handles import DeviceBuffer
from sdi.vmem.merging.host import Bytes, merge_diffs, merge_updates
from tests.devices.conftest import OpenMembers, finish


def put(member: Device, data: Bytes) -> DeviceBuffer:
    buffer = member.allocate(data.nbytes)
    finish(copying.upload(member, memoryview(data), buffer, 0, []))
    return buffer


def get(member: Device, buffer: DeviceBuffer, nbytes: int) -> Bytes:
    found = np.zeros(nbytes, np.uint8)
    finish(copying.download(member, buffer, 0, memoryview(found), []))
    return found


def merge_on(
    members: list[Device],
    twin: Bytes,
    copies: list[Bytes],
    units: tuple[int, int],
    update: Update | None,
    offset: int = 0,
) -> tuple[Bytes, int, int]:
    """The bytes on the first member in the end, units that the others changed, and conflicts."""
    nbytes = twin.nbytes - offset
    target = Comparison(
        put(members[0], copies[0]), offset, put(members[0], twin), offset, nbytes, *units, update=update
    )
    changed = conflicts = 0
    for member, copy in zip(members[1:], copies[1:], strict=True):
        own = Comparison(put(member, copy), offset, put(member, twin), offset, nbytes, *units, update=update)
        changes = member.allocate(changes_nbytes(own.nbytes, units[0]))
        ticket = member.merge(MergeStep.DIFF, own, changes, [])
        finish(ticket)
        there = members[0].allocate(changes_nbytes(own.nbytes, units[0]))
        records, values, *_ = get(member, changes, HEADER_NBYTES).view(np.uint32).tolist()
        assert records <= num_runs(own.nbytes, units[0])
        parts = [
            (0, HEADER_NBYTES + records * RECORD_NBYTES),
            (values_offset(own.nbytes, units[0]), values * units[0]),
        ]
        copied = [
            copying.across(members[0], member, changes, at, there, at, size, [ticket], [])[1]
            for at, size in parts
            if size
        ]
        finish(members[0].merge(MergeStep.APPLY, target, there, copied))
        changed += values
        conflicts += int(get(members[0], there, HEADER_NBYTES).view(np.uint32)[2])
    return get(members[0], target.buffer, twin.nbytes), changed, conflicts


@pytest.mark.parametrize(("unit", "small"), [(1, 1), (2, 1), (4, 4), (4, 1), (8, 8), (8, 2)])
@pytest.mark.parametrize("nbytes", [8, 264, 100_000])
def test_changes_of_several_members_come_together(
    open_members: OpenMembers, nbytes: int, unit: int, small: int
) -> None:
    members = open_members(3)
    rng = np.random.default_rng(nbytes + unit)
    twin = rng.integers(0, 4, nbytes, np.uint8)
    copies = [twin.copy() for _ in members]
    for number, copy in enumerate(copies):
        # Members change scalars of the smallest size in places of their own, and the first few all of them.
        parts = copy.reshape(-1, small)
        mine = np.arange(len(parts)) % (5 * len(members)) == number
        parts[mine] ^= 0x55
    found, changed, conflicts = merge_on(members, twin, copies, (unit, small), None)
    expected = twin.copy()
    result = merge_diffs(expected, copies, unit, small)
    assert (found == expected).all()
    assert conflicts == result.conflicts == 0
    assert changed == sum(np.count_nonzero((c != twin).reshape(-1, unit).any(1)) for c in copies[1:])


def test_units_that_several_changed_are_conflicts_and_the_last_member_wins(open_members: OpenMembers) -> None:
    members = open_members(3)
    twin = np.zeros(4096, np.uint8)
    copies = [np.full(4096, 0, np.uint8) for _ in members]
    for number, copy in enumerate(copies):
        copy[8 * number : 64] = number + 1
    found, _, conflicts = merge_on(members, twin, copies, (8, 8), None)
    expected = twin.copy()
    assert merge_diffs(expected, copies, 8).conflicts == conflicts == 7 + 6
    assert (found == expected).all()


@pytest.mark.parametrize(("unit", "small"), [(1, 1), (2, 1), (4, 1), (4, 4), (8, 2), (8, 4)])
def test_members_and_host_resolve_and_count_conflicts_alike(
    open_members: OpenMembers, unit: int, small: int
) -> None:
    members = open_members(4)
    rng = np.random.default_rng(unit * 10 + small)
    twin = rng.integers(0, 3, 8000, np.uint8)
    # Each scalar is changed by none, one or several of them, here and there back to what it was.
    copies = [
        np.where(np.repeat(rng.random(8000 // small) < 0.3, small), rng.integers(0, 3, 8000, np.uint8), twin)
        for _ in members
    ]
    found, _, conflicts = merge_on(members, twin, copies, (unit, small), None)
    expected = twin.copy()
    result = merge_diffs(expected, copies, unit, small)
    assert (found == expected).all()
    assert conflicts == result.conflicts > 0


@pytest.mark.parametrize("nbytes", [4, 8])
@pytest.mark.parametrize("operation", ["add", "xor", "and", "or", "min", "max", "smin", "smax"])
def test_atomic_updates_on_copies_come_together(
    open_members: OpenMembers, operation: str, nbytes: int
) -> None:
    members = open_members(3)
    name: Operation = operation.removeprefix("s")  # type: ignore[assignment]
    update = Update(name, nbytes, operation.startswith("s"))
    kind = np.dtype(f"{'i' if update.signed else 'u'}{nbytes}")
    ufunc = {
        "add": np.add, "xor": np.bitwise_xor, "and": np.bitwise_and,
        "or": np.bitwise_or, "min": np.minimum, "max": np.maximum,
    }[name]  # fmt: skip
    rng = np.random.default_rng(7)
    twin = rng.integers(0, 256, 8 * 500, np.uint8)
    copies = []
    for _ in members:
        values = twin.copy().view(kind)
        at = rng.integers(16 // nbytes, len(values), 200)
        ufunc.at(values, at, rng.integers(0, 256, 200 * nbytes, np.uint8).view(kind))
        copies.append(values.view(np.uint8))
    found, _, conflicts = merge_on(members, twin, copies, (nbytes, nbytes), update, offset=16)
    expected = twin.copy()
    merge_updates(expected, copies, update)
    assert (found == expected).all() and conflicts == 0


def test_what_did_not_change_leaves_no_changes(open_members: OpenMembers) -> None:
    members = open_members(2)
    twin = np.random.default_rng(1).integers(0, 256, 1 << 16, np.uint8)
    found, changed, conflicts = merge_on(members, twin, [twin, twin], (4, 4), None)
    assert (found == twin).all() and (changed, conflicts) == (0, 0)
