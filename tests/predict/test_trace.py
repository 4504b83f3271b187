"""Recorded programs, planned by sdi's own runtime for other numbers of members."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sdi.predict.prediction import group_times
from sdi.predict.program import NotPredictable, RecordedProgram
from sdi.predict.simulate import Speed
from sdi.predict.trace import COPY, KERNEL, MERGE, MemberTrace, trace
from tests.predict.recorded import H200, ITEMS, LOCAL, NBYTES, N, built, halos, launch, program, read, write


@pytest.fixture(scope="module")
def packed() -> bytes:
    return built()


def traced(found: RecordedProgram, members: int) -> MemberTrace:
    return trace(found, members, H200, group_times(found, H200, Speed(1.0, 4, is_shared=False)))


def copies(found: MemberTrace) -> list[Sequence[tuple[int, int, int]]]:
    """Of each command: source, target and bytes."""
    return [
        [(o.source, o.target, o.nbytes) for o in found.operations[c.first : c.stop] if o.what == COPY]
        for c in found.commands
    ]


def test_one_member_gets_what_it_needs_and_gives_it_back(packed: bytes) -> None:
    found = traced(halos(packed), 1)
    assert copies(found) == [[], [(0, 1, NBYTES)], [], [], [], [(1, 0, NBYTES)]]
    assert [c.assignments for c in found.commands[1:-1]] == [1] * 4


def test_two_members_swap_halos_as_sdi_does(packed: bytes) -> None:
    found = traced(halos(packed), 2)
    _, first, *later, last = copies(found)
    assert sorted(first) == [(0, 1, NBYTES // 2 + 4), (0, 2, NBYTES // 2 + 4)]
    assert all(sorted(each) == [(1, 2, 4), (2, 1, 4)] for each in later)
    assert sorted(last) == [(1, 0, NBYTES // 2), (2, 0, NBYTES // 2)]
    assert [c.assignments for c in found.commands[1:-1]] == [2] * 4
    groups = [o.groups for o in found.operations if o.what == KERNEL]
    assert groups == [ITEMS // LOCAL // 2] * 8
    assert {o.cause for o in found.operations if o.what == COPY} == {"step: from", "read"}


def test_launches_that_are_known_are_not_planned_again(packed: bytes) -> None:
    found = traced(halos(packed, 12), 2)
    assert [c.is_known for c in found.commands[1:-1]][-4:] == [True] * 4
    assert not found.commands[1].is_known and found.commands[1].plan_ns > 0


def test_a_launch_too_short_to_split_runs_whole(packed: bytes) -> None:
    short = program(packed, write(1), launch("step", 2, 1, N, ns=2000.0), read(2, 2))
    assert traced(short, 4).commands[1].assignments == 1


def test_members_that_may_write_the_same_are_compared(packed: bytes) -> None:
    scatters = program(packed, write(1), write(2), launch("scatter", 2, 1, ns=1e8), read(2, 3))
    found = traced(scatters, 2)
    assert found.commands[2].assignments == 2
    merged = [o for o in found.operations[found.commands[2].first :] if o.what == MERGE]
    assert sum(o.nbytes for o in merged) >= NBYTES and all(o.cause.startswith("scatter: to") for o in merged)


def test_what_is_merged_where_members_copies_are_looked_at_is_planned_twice(packed: bytes) -> None:
    launches = [launch("scatter", 2, 1, ns=1e8)] * 4
    found = traced(program(packed, write(1), write(2), *launches, read(2, 6)), 2)
    known = [each.is_known for each in found.commands if each.assignments == 2]
    assert known == [False, False, True, True]


def test_a_program_that_does_not_build_is_refused() -> None:
    with pytest.raises(NotPredictable, match="program 9 of the profile can't be built again"):
        traced(program(b"no object", launch("step", 2, 1, N)), 1)


def test_a_command_that_the_runtime_refuses_is_named(packed: bytes) -> None:
    with pytest.raises(NotPredictable, match="refused command 1 of the profile"):
        traced(program(packed, launch("step", 77, 1, N)), 1)
