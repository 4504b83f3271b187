"""Plans carried out on a dense model: whatever the access ranges, the host reads what one device would."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.appends import COPIES_MAX_NBYTES, MERGED_COPIES_MAX, MERGED_MAX_NBYTES
from sdi.atomics import Update
from sdi.clc.model import Argument, ArgumentKind, KernelModel
from sdi.intervals import ByteRange
from sdi.launch.arguments import BufferArgument
from sdi.launch.plan import CutPlan, MergedRange, make_plan
from sdi.ndrange import GroupBox
from sdi.regions import RegionSet
from sdi.sampling.model import AccessRange, Precision
from sdi.vmem.directory import HOST, Directory, member_memory
from sdi.vmem.memory import VirtualBuffer
from sdi.vmem.merging.host import merge_diffs

NBYTES = 64
EMPTY = RegionSet()


def argument(index: int) -> Argument:
    return Argument(f"a{index}", "uchar*", ArgumentKind.GLOBAL, 8, 0x119B, 0x11A3, 0, True, True, False, 1, 1)


@dataclass(frozen=True)
class Maps:
    """``assignments[k][argument]``; box k starts at group k."""

    assignments: tuple[tuple[AccessRange, ...], ...]

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        return self.assignments[box.start[0]]


RANGE = st.tuples(st.integers(0, NBYTES - 1), st.integers(1, 12)).map(
    lambda p: ByteRange(p[0], min(p[0] + p[1], NBYTES))
)
SETS = st.lists(RANGE, max_size=3).map(RegionSet.of)
ACCESS = st.tuples(SETS, SETS, st.sampled_from([Precision.EXACT, Precision.MAY, Precision.WHOLE]))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.lists(ACCESS, min_size=2, max_size=2), min_size=2, max_size=4),
    st.sampled_from([(1, 1), (1, 2)]),
    st.integers(0, 10_000),
    st.booleans(),
)
def test_a_split_launch_leaves_what_one_device_would(
    drawn: list[list[tuple[RegionSet, RegionSet, Precision]]],
    bound: tuple[int, int],
    seed: int,
    defined: bool,
) -> None:
    choose = random.Random(seed)
    whole = RegionSet((ByteRange(0, NBYTES),))
    assignments = tuple(
        tuple(
            AccessRange(index, reads, whole if precision is Precision.WHOLE else writes, precision)
            for index, (reads, writes, precision) in enumerate(arguments)
        )
        for arguments in drawn
    )
    members = len(assignments)
    model = KernelModel("k", (argument(0), argument(1)), None, "", "", 1)
    values = tuple(BufferArgument(buffer, 0) for buffer in bound)
    buffers = {b: _buffer(b, members, defined) for b in sorted(set(bound))}
    boxes = tuple(GroupBox((k, 0, 0), (k + 1, 1, 1)) for k in range(members))
    plan = make_plan(model, values, Maps(assignments).over, boxes, buffers)
    noise = np.random.default_rng(seed)
    for used in plan.buffers:
        directory = used.buffer.directory
        memories = noise.integers(0, 256, (members + 1, NBYTES), np.uint8)
        truth = memories[HOST].copy()
        if not defined:
            directory.wrote(HOST, ByteRange(0, NBYTES))
        _scatter(directory, memories, choose)

        def fetch(
            memory: int, over: ByteRange, same: bool, directory: Directory = directory, memories=memories
        ) -> None:  # type: ignore[no-untyped-def]
            for copy in directory.read(memory, over, same):
                part = slice(copy.over.start, copy.over.stop)
                memories[memory][part] = memories[copy.source][part]

        for merged in used.merged:
            _fetch(directory, memories, HOST, merged.over)
        for k, assignment in enumerate(used.assignments):
            for merged in used.merged:
                if k in merged.assignments:
                    _fetch(directory, memories, member_memory(k), merged.over, same_undefined=True)
            for part in assignment.needs.runs():
                _fetch(directory, memories, member_memory(k), part)
        # What each assignment writes: all of an exact range, some of the others; no byte by two assignments.
        written: set[int] = set()
        for k in range(members):
            for access, pointer in zip(assignments[k], values, strict=True):
                if pointer.buffer != used.buffer.id:
                    continue
                for read in access.reads.runs():
                    seen = memories[member_memory(k)][read.start : read.stop]
                    untouched = [at not in written for at in range(read.start, read.stop)]
                    assert (seen == truth[read.start : read.stop])[untouched].all()
                for part in access.writes.runs():
                    for at in range(part.start, part.stop):
                        exact = access.precision is Precision.EXACT
                        if at in written or not (exact or choose.random() < 0.5):
                            continue
                        written.add(at)
                        value = choose.randrange(256)
                        memories[member_memory(k)][at] = truth[at] = value
        # An exact range that another one wrote too is a race of the drawn program: leave those bytes out.
        racing = _racing(assignments, values, used.buffer.id)
        for k, assignment in enumerate(used.assignments):
            for part in assignment.owns.runs():
                directory.wrote(member_memory(k), part)
        for merged in used.merged:
            part = slice(merged.over.start, merged.over.stop)
            merge_diffs(
                memories[HOST][part], [memories[member_memory(k)][part].copy() for k in merged.assignments], 1
            )
            directory.wrote(HOST, merged.over)
        directory.check()
        _fetch(directory, memories, HOST, ByteRange(0, NBYTES))
        kept = np.array([at not in racing for at in range(NBYTES)])
        assert (memories[HOST] == truth)[kept].all()


def _buffer(number: int, members: int, defined: bool, nbytes: int = NBYTES) -> VirtualBuffer:
    return VirtualBuffer(number, nbytes, 0, Directory(nbytes, defined), [], cast(list, [None] * members))


def _fetch(
    directory: Directory, memories: np.ndarray, memory: int, over: ByteRange, same_undefined: bool = False
) -> None:
    for copy in directory.read(memory, over, same_undefined):
        for run in copy.over.runs():
            memories[memory][run.start : run.stop] = memories[copy.source][run.start : run.stop]


def _scatter(directory: Directory, memories: np.ndarray, choose: random.Random) -> None:
    """Leave the data where earlier launches might have: assignments on members only, copies elsewhere."""
    for _ in range(4):
        memory, start = choose.randrange(len(memories)), choose.randrange(NBYTES)
        over = ByteRange(start, min(start + choose.randrange(1, 24), NBYTES))
        _fetch(directory, memories, memory, over)
        if choose.random() < 0.5:
            directory.wrote(memory, over)


def _racing(
    assignments: tuple[tuple[AccessRange, ...], ...], values: tuple[BufferArgument, ...], buffer: int
) -> set[int]:
    """Bytes that two assignments claim to write exactly."""
    counts: dict[int, set[int]] = {}
    for k, arguments in enumerate(assignments):
        for access, pointer in zip(arguments, values, strict=True):
            if pointer.buffer == buffer and access.precision is Precision.EXACT:
                for part in access.writes.runs():
                    for at in range(part.start, part.stop):
                        counts.setdefault(at, set()).add(k)
    return {at for at, members in counts.items() if len(members) > 1}


def test_disjoint_exact_writes_fetch_nothing_and_merge_nothing() -> None:
    model = KernelModel("k", (argument(0),), None, "", "", 1)
    halves = [RegionSet((ByteRange(0, 32),)), RegionSet((ByteRange(32, 64),))]
    maps = Maps(tuple((AccessRange(0, EMPTY, half, Precision.EXACT),) for half in halves))
    boxes = (GroupBox((0, 0, 0), (1, 1, 1)), GroupBox((1, 0, 0), (2, 1, 1)))
    (used,) = make_plan(model, (BufferArgument(1, 0),), maps.over, boxes, {1: _buffer(1, 2, True)}).buffers
    assert used.merged == ()
    assert [assignment.needs for assignment in used.assignments] == [EMPTY, EMPTY]
    assert [assignment.owns for assignment in used.assignments] == halves


def test_only_the_overlap_of_uncertain_writes_is_merged() -> None:
    model = KernelModel("k", (argument(0),), None, "", "", 1)
    writes = [RegionSet((ByteRange(0, 40),)), RegionSet((ByteRange(32, 64),))]
    maps = Maps(tuple((AccessRange(0, EMPTY, part, Precision.MAY),) for part in writes))
    boxes = (GroupBox((0, 0, 0), (1, 1, 1)), GroupBox((1, 0, 0), (2, 1, 1)))
    (used,) = make_plan(model, (BufferArgument(1, 0),), maps.over, boxes, {1: _buffer(1, 2, True)}).buffers
    assert [(m.over, m.assignments) for m in used.merged] == [(ByteRange(32, 40), (0, 1))]
    assert [assignment.owns.nbytes for assignment in used.assignments] == [32, 24]


def test_ranges_of_a_sub_buffer_count_from_its_root() -> None:
    model = KernelModel("k", (argument(0),), None, "", "", 1)
    maps = Maps(((AccessRange(0, RegionSet((ByteRange(0, 8),)), EMPTY, Precision.EXACT),),))
    boxes = (GroupBox((0, 0, 0), (1, 1, 1)),)
    (used,) = make_plan(model, (BufferArgument(1, 16),), maps.over, boxes, {1: _buffer(1, 1, True)}).buffers
    assert used.assignments[0].needs == RegionSet((ByteRange(16, 24),))


ADD, OR = Update("add", 4), Update("or", 4)


def updating(*updates: tuple[Update, RegionSet], reads: RegionSet = EMPTY) -> AccessRange:
    return AccessRange(0, reads, EMPTY, Precision.EXACT, updates=updates)


def updates_plan(*assignments: AccessRange) -> CutPlan:
    model = KernelModel("k", (argument(0),), None, "", "", 1)
    boxes = tuple(GroupBox((k, 0, 0), (k + 1, 1, 1)) for k in range(len(assignments)))
    maps = Maps(tuple((assignment,) for assignment in assignments))
    return make_plan(
        model, (BufferArgument(1, 0),), maps.over, boxes, {1: _buffer(1, len(assignments), True)}
    )


def test_bytes_that_several_assignments_update_are_combined_and_the_others_owned() -> None:
    parts = [RegionSet((ByteRange(0, 40),)), RegionSet((ByteRange(32, 64),))]
    plan = updates_plan(*(updating((ADD, part)) for part in parts))
    (used,) = plan.buffers
    assert used.merged == (MergedRange(ByteRange(32, 40), (0, 1), ADD),)
    assert [assignment.owns.nbytes for assignment in used.assignments] == [32, 24]
    assert [assignment.needs for assignment in used.assignments] == parts  # updates start from what was there
    assert not plan.why_whole and plan.combines_in([1]) and not plan.combines_in([2])


def test_updates_of_different_kinds_are_combined_where_they_are_disjoint() -> None:
    low, high = RegionSet((ByteRange(0, 32),)), RegionSet((ByteRange(32, 64),))
    both = updating((ADD, low), (OR, high))
    (used,) = updates_plan(both, both).buffers
    assert [(merged.over, merged.update) for merged in used.merged] == [
        (ByteRange(0, 32), ADD),
        (ByteRange(32, 64), OR),
    ]
    assert "a0" in updates_plan(both, updating((ADD, high))).why_whole


def test_bytes_that_are_updated_and_read_forbid_to_split() -> None:
    low, high = RegionSet((ByteRange(0, 32),)), RegionSet((ByteRange(32, 64),))
    assert "a0" in updates_plan(updating((ADD, low)), updating(reads=low)).why_whole
    assert not updates_plan(updating((ADD, low), reads=low)).why_whole  # one assignment may do as it likes
    assert not updates_plan(updating((ADD, low)), updating((ADD, low), reads=high)).why_whole


def test_what_is_not_known_of_an_argument_that_is_only_updated_may_be_any_of_its_updates() -> None:
    whole = RegionSet((ByteRange(0, NBYTES),))
    unknown = AccessRange(0, whole, whole, Precision.WHOLE)
    for updates, only, is_split in (((ADD,), True, True), ((ADD, OR), True, False), ((ADD,), False, False)):
        known = replace(argument(0), atomic=True, updates=updates, only_updates=only)
        model = KernelModel("k", (known,), None, "", "", 1)
        boxes = (GroupBox((0, 0, 0), (1, 1, 1)), GroupBox((1, 0, 0), (2, 1, 1)))
        maps = Maps(((unknown,), (unknown,)))
        plan = make_plan(model, (BufferArgument(1, 0),), maps.over, boxes, {1: _buffer(1, 2, True)})
        assert bool(plan.why_whole) != is_split
        if is_split:
            assert plan.buffers[0].merged == (MergedRange(ByteRange(0, NBYTES), (0, 1), ADD),)


def test_a_pointer_reaches_to_the_end_of_its_sub_buffer_and_no_further() -> None:
    assert BufferArgument(1, 8, 16).reach(100) == 16
    assert BufferArgument(1, 8).reach(100) == 92


def test_where_pointers_reach_each_assignment_may_do_anything_and_nothing_is_merged() -> None:
    model = KernelModel("k", (argument(0),), None, "", "", 1)
    maps = Maps((((AccessRange(0, EMPTY, EMPTY, Precision.EXACT)),),) * 2)
    buffers = {1: _buffer(1, 2, True), 2: _buffer(2, 2, True)}
    boxes = (GroupBox((0, 0, 0), (1, 1, 1)), GroupBox((1, 0, 0), (2, 1, 1)))
    plan = make_plan(model, (BufferArgument(1, 16),), maps.over, boxes, buffers, None, (2, 1))
    whole = RegionSet((ByteRange(0, NBYTES),))
    for used in plan.buffers:
        assert [(each.needs, each.owns) for each in used.assignments] == [(whole, whole)] * 2
        assert not used.merged


def test_the_player_merges_so_much_and_so_many_of_all_members() -> None:
    def is_played(members: int, *ranges: tuple[int, int]) -> bool:
        """Whether it merges what all members may write there."""
        over = RegionSet.of([ByteRange(*each) for each in ranges])
        model = KernelModel("k", (argument(0),), None, "", "", 1)
        maps = Maps(((AccessRange(0, EMPTY, over, Precision.MAY),),) * members)
        boxes = tuple(GroupBox((k, 0, 0), (k + 1, 1, 1)) for k in range(members))
        buffer = {1: _buffer(1, members, True, 4 << 20)}
        plan = make_plan(model, (BufferArgument(1, 0),), maps.over, boxes, buffer)
        assert len(plan.buffers[0].merged) == len(ranges) and not plan.why_whole
        return plan.is_trial

    assert is_played(2, (0, MERGED_MAX_NBYTES // 2)) and is_played(4, (0, MERGED_MAX_NBYTES // 4))
    assert not is_played(2, (0, MERGED_MAX_NBYTES // 2 + 1)) and not is_played(4, (0, MERGED_MAX_NBYTES // 2))
    far = [(4096 * n, 4096 * n + 8) for n in range(MERGED_COPIES_MAX // 2 + 1)]
    assert is_played(2, *far[1:]) and not is_played(2, *far) and not is_played(4, *far[1:])


def claimed_plan(
    hits: Sequence[AccessRange],
    *others: Sequence[AccessRange],
    bound: Sequence[int] = (),
    nbytes: int = NBYTES,
    claimed: tuple[int, ...] = (1,),
) -> CutPlan:
    """Of a kernel that watches its first argument, and writes its second only where that is claimed.

    ``hits``, ``others``: what each assignment does through further arguments, on the buffers ``bound``.
    """
    every = (hits, *others)
    model = KernelModel(
        "k", tuple(argument(n) for n in range(len(every) + 1)), None, "", "", 1, watched=(0,), claimed=claimed
    )
    flag = AccessRange(0, RegionSet.of([ByteRange(0, 4)]), RegionSet.of([ByteRange(0, 4)]), Precision.MAY)
    assignments = tuple(
        (flag, *[replace(each[k], argument=n) for n, each in enumerate(every, 1)]) for k in range(len(hits))
    )
    ids = [2, *(bound or range(3, 3 + len(every)))]
    buffers = {
        each: _buffer(each, len(hits), True, NBYTES if each == 2 else nbytes) for each in sorted(set(ids))
    }
    values = tuple(BufferArgument(each, 0) for each in ids)
    boxes = tuple(GroupBox((k, 0, 0), (k + 1, 1, 1)) for k in range(len(hits)))
    return make_plan(model, values, Maps(assignments).over, boxes, buffers)


def may(writes: tuple[int, int], reads: tuple[int, int] | None = None) -> AccessRange:
    """What an assignment may write, and reads."""
    read = EMPTY if reads is None else RegionSet.of([ByteRange(*reads)])
    return AccessRange(1, read, RegionSet.of([ByteRange(*writes)]), Precision.MAY)


def watched(plan: CutPlan) -> dict[int, list[ByteRange]]:
    """By buffer."""
    return {used.buffer.id: used.watched for used in plan.buffers if used.is_watched}


FLAG = {2: [ByteRange(0, NBYTES)]}


def test_what_several_claimers_may_write_is_watched_too_by_all() -> None:
    plan = claimed_plan([may((4, 9)), may((20, 22), reads=(0, 40)), may((8, 9))])
    assert (plan.why_whole, plan.is_trial) == ("", True)
    assert watched(plan) == FLAG | {3: [ByteRange(4, 22)]}
    used = plan.buffers[1]
    assert used.merged == (MergedRange(ByteRange(4, 22), (0, 1, 2)),)
    assert [a.needs.runs() for a in used.assignments] == [[], [ByteRange(0, 4), ByteRange(22, 40)], []]
    assert not any(a.owns for a in used.assignments)


def test_what_claimers_write_apart_stays_with_them() -> None:
    plan = claimed_plan([may((0, 8)), may((8, 16))])
    assert (plan.why_whole, watched(plan), plan.is_trial) == ("", FLAG, True)
    assert [a.owns.runs() for a in plan.buffers[1].assignments] == [[ByteRange(0, 8)], [ByteRange(8, 16)]]


def test_what_claimers_read_of_each_other_is_watched() -> None:
    plan = claimed_plan([may((0, 8), reads=(0, 16)), may((8, 16))])
    assert (plan.why_whole, watched(plan)) == ("", FLAG | {3: [ByteRange(0, 16)]})
    plan = claimed_plan([may((0, 8), reads=(0, 16)), may((8, 16))], claimed=())
    assert "may read what others write: a1" in plan.why_whole


def test_what_claimers_update_is_watched_where_it_could_not_be_combined() -> None:
    update, over = Update("add", 4), RegionSet.of([ByteRange(0, 4)])
    one = AccessRange(1, over, EMPTY, Precision.MAY, updates=((update, over),))
    plan = claimed_plan([one, one])
    assert (plan.why_whole, watched(plan)) == ("", FLAG | {3: [ByteRange(0, 4)]})
    assert all(merged.update is None for used in plan.buffers for merged in used.merged)
    much = RegionSet.of([ByteRange(0, 2 * COPIES_MAX_NBYTES)])
    one = AccessRange(1, EMPTY, EMPTY, Precision.MAY, updates=((ADD, much), (OR, much)))
    plan = claimed_plan([one, one], nbytes=much.nbytes)
    assert (plan.why_whole, watched(plan)) == ("", FLAG | {3: [much.bounds]})


def test_a_buffer_that_others_write_too_is_merged() -> None:
    hits, beside = [may((0, 4)), may((0, 4))], [may((4, 8)), may((8, 12))]
    assert watched(claimed_plan(hits, beside)) == FLAG | {3: [ByteRange(0, 4)]}
    plan = claimed_plan(hits, beside, bound=(3, 3))
    assert (plan.why_whole, watched(plan), plan.is_trial) == ("", FLAG, False)
    plan = claimed_plan(hits, beside, bound=(3, 3), claimed=(1, 2))
    assert watched(plan) == FLAG | {3: [ByteRange(0, 12)]}


def test_what_lies_in_the_buffer_that_is_watched_anyhow_is_watched_once() -> None:
    plan = claimed_plan([may((8, 12)), may((8, 12))], bound=(2,))
    assert watched(plan) == FLAG and len(plan.buffers) == 1


def test_of_much_all_that_claimers_write_is_merged() -> None:
    nbytes = 2 << 20
    for read, most in ((None, COPIES_MAX_NBYTES), ((0, nbytes), 1 << 20)):
        rest = most - NBYTES
        plan = claimed_plan([may((0, rest), read)] * 2, nbytes=nbytes)
        assert watched(plan) == FLAG | {3: [ByteRange(0, rest)]}
        plan = claimed_plan([may((0, rest + 1), read)] * 2, nbytes=nbytes)
        assert (bool(plan.why_whole), watched(plan), plan.is_trial) == (read is not None, FLAG, False)
        two = [may((0, 8))] * 2, [may((0, rest), read)] * 2
        assert watched(claimed_plan(*two, nbytes=nbytes, claimed=(1, 2))) == FLAG
        two = [may((0, 8))] * 2, [may((0, rest - 8), read)] * 2
        assert len(watched(claimed_plan(*two, nbytes=nbytes, claimed=(1, 2)))) == 3
