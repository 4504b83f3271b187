"""Which cut a launch gets, from where its data is and what its kernel was measured to take."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import count, product
from typing import cast

import pytest

from sdi.clc.compile import compile_source
from sdi.devices.capabilities import CPU, GPU, MemberKind
from sdi.intervals import ByteRange
from sdi.launch.arguments import BufferArgument
from sdi.launch.copy_costs import move_ns
from sdi.launch.cuts import moved_nbytes
from sdi.launch.cutting import Cutter, few_numbers
from sdi.launch.plan import CutPlan, MergedRange, make_plan
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.partition.balance import edges_of
from sdi.partition.budget import Budget
from sdi.partition.gain import Rates
from sdi.partition.history import LaunchHistory
from sdi.partition.learnt import Learnt
from sdi.sampling.model import WorkEstimate
from sdi.vmem.directory import Directory
from sdi.vmem.links import LATENCY_NS, Links
from sdi.vmem.memory import VirtualBuffer

SOURCE = """
__kernel void relax(__global const float *in, __global float *out, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1]
                                  + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}
"""
N = 512
NBYTES = 4 * N * N
GROUPS = (N // 16, N // 16, 1)


class Launches:
    """A stencil's launches on four members, whose data is on the host at first."""

    def __init__(self, split: str = "auto", kind: MemberKind = GPU) -> None:
        compiled = compile_source(SOURCE, "")
        self.model = compiled.kernels[0]
        self.values = (BufferArgument(1, 0), BufferArgument(2, 0), struct.pack("<i", N))
        self.buffers = {
            k: VirtualBuffer(k, NBYTES, 0, Directory(NBYTES, True), [], cast(list, [None] * 4))
            for k in (1, 2)
        }
        ndrange = NDRange(2, (0, 0, 0), (N, N, 1), (16, 16, 1))
        self.access = access_of(compiled, self.model).bind(
            ndrange, (None, None, self.values[2]), (NBYTES, NBYTES, None)
        )
        self.links = Links([kind] * 4)
        self.accesses: float | None = None
        self.now_ns = 0
        self.budget = Budget(lambda: self.now_ns)
        self.cutter = Cutter(cast("object", split), [kind] * 4, self.links, budget=self.budget)  # type: ignore[arg-type]
        self.history = self.cutter.history()

    def plan(self, boxes: tuple[GroupBox, ...], exact: bool = False) -> CutPlan:
        return make_plan(
            self.model, self.values, self.access.over if exact else self.access.bounds, boxes, self.buffers
        )

    def work(self, dim: int) -> WorkEstimate | None:
        return None

    def effort(self) -> float | None:
        return self.accesses

    def launch(self, group_ns: dict[int, float]) -> CutPlan:
        """Cut, move, run: what the launcher does, on directories only."""
        chosen, why = self.cutter.cut(self.history, GROUPS, self)
        assert bool(why) == (len(chosen.boxes) == 1)
        self.touch(chosen)
        assignments, groups = len(chosen.boxes), GROUPS[0] * GROUPS[1]
        self.history.rates.record(assignments, group_ns[assignments] * groups, groups)
        self.history.launches += 1
        return chosen

    def touch(self, chosen: CutPlan) -> None:
        """Say in the directories what a launch reads and writes."""
        for used in chosen.buffers:
            for k, assignment in enumerate(used.assignments):
                for part in assignment.needs.runs():
                    used.buffer.directory.read(k + 1, part)
            for k, assignment in enumerate(used.assignments):
                for part in assignment.owns.runs():
                    used.buffer.directory.wrote(k + 1, part)

    def assignments(self, group_ns: dict[int, float], count: int) -> list[int]:
        """In how many assignments each of some launches ran."""
        return [len(self.launch(group_ns).boxes) for _ in range(count)]


def test_long_kernels_stay_on_all_members() -> None:
    assert set(Launches().assignments(dict.fromkeys((1, 2, 3, 4), 20_000.0), 300)) == {4}


def test_short_kernels_end_on_one_member() -> None:
    found = Launches().assignments(dict.fromkeys((1, 2, 3, 4), 5.0), 300)
    assert found[0] == 4 and set(found[16:]) == {1}


def test_a_cut_whose_copies_cost_more_than_it_saves_is_given_up_soon() -> None:
    launches = Launches()
    dear = CPU.peer_copy_ns, CPU.peer_row_ns
    launches.links.more_ns = (  # type: ignore[method-assign]
        lambda source, target, copies, rows: copies * dear[0] + rows * dear[1]
    )
    group_ns, groups = dict.fromkeys((1, 2, 3, 4), 400.0), GROUPS[0] * GROUPS[1]
    assert set(launches.assignments(group_ns, 70)[20:]) == {4}
    history, row, found = launches.history, 4 * N, list[int]()
    chosen = launches.launch(group_ns)
    for _ in range(60):
        for at, member in product(range(0, NBYTES, row), range(4)):  # another kernel writes columns
            column = ByteRange(at + member * row // 4, at + (member + 1) * row // 4)
            for buffer in launches.buffers.values():
                buffer.directory.wrote(member + 1, column)
        if history.is_due():
            chosen, _ = launches.cutter.cut(history, GROUPS, launches)
        history.ran(len(chosen.boxes))
        if len(chosen.boxes) > 1:
            copies_ns = move_ns(chosen, launches.links)
            saved_ns = group_ns[1] * (groups - max(box.total_groups for box in chosen.boxes))
            assert copies_ns > 1.2 * saved_ns
            history.copied(copies_ns, saved_ns)
        launches.touch(chosen)
        found.append(len(chosen.boxes))
    assert history.launches < 256, "it was looked at for no other reason"
    assert found[0] == 4 and set(found[30:]) == {1}, found


def test_members_that_slow_each_other_down_are_used_as_far_as_they_help() -> None:
    found = Launches(kind=CPU).assignments({1: 1000.0, 2: 1000.0, 3: 2000.0, 4: 3000.0}, 400)
    assert set(found[300:]) == {2}


def test_cpu_members_that_share_cores_end_on_one() -> None:
    found = Launches(kind=CPU).assignments({k: 1000.0 * k for k in (1, 2, 3, 4)}, 300)
    assert set(found[80:]) == {1}


def test_always_uses_all_members_and_never_looks_again() -> None:
    launches = Launches("always")
    assert set(launches.assignments(dict.fromkeys((1, 2, 3, 4), 5.0), 300)) == {4}
    assert launches.history.version == 1


def test_the_cut_stays_with_the_data() -> None:
    launches = Launches("always")
    first = launches.launch(dict.fromkeys((1, 2, 3, 4), 5.0))
    assert len({box.start[1] for box in first.boxes}) == 4, "rows: contiguous"
    columns = tuple(GroupBox((8 * k, 0, 0), (8 * k + 8, 32, 1)) for k in range(4))
    assert launches.cutter.order(first) < launches.cutter.order(launches.plan(columns))
    # Where the data lies in columns, bringing rows together costs more ranges than it saves: all is near.
    row = 4 * N
    for buffer in launches.buffers.values():
        for y in range(N):
            for k in range(4):
                start = y * row + k * row // 4
                buffer.directory.wrote(k + 1, ByteRange(start, start + row // 4))
    exact_columns = launches.plan(columns, True)
    assert moved_nbytes(exact_columns) < moved_nbytes(launches.plan(first.boxes, True)) // 10
    assert move_ns(exact_columns, launches.links) > 0


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_copies_from_one_memory_follow_each_other_and_those_from_several_do_not(kind: MemberKind) -> None:
    launches = Launches(kind=kind)
    links = launches.links
    rows = launches.cutter.best(
        [tuple(GroupBox((0, 8 * k, 0), (32, 8 * k + 8, 1)) for k in range(4))], launches
    )
    from_host = move_ns(rows, links)
    needed = [sum(used.assignments[k].needs.nbytes for used in rows.buffers) for k in range(4)]
    each = [links.cost_ns(0, k + 1, n) for k, n in enumerate(needed)]
    assert from_host >= (sum(each) if kind is CPU else max(each)) - 1
    assert kind is CPU or from_host < 0.5 * sum(each)
    halves = launches.buffers[1].directory
    halves.wrote(1, ByteRange(0, NBYTES // 2))
    halves.wrote(3, ByteRange(NBYTES // 2, NBYTES))
    launches.buffers[2].directory.wrote(1, ByteRange(0, NBYTES))
    whole = launches.plan((GroupBox((0, 0, 0), GROUPS),))
    assert move_ns(whole, links, (0,)) >= LATENCY_NS
    assert move_ns(whole, links, (0,)) < move_ns(whole, links, (1,))


def test_histories_are_alike_only_by_their_version() -> None:
    history = LaunchHistory(Launches().history.rates)
    history.decide((1, 4, 1), 4, "")
    version = history.version
    history.decide((1, 4, 1), 4, "")
    assert history.version == version


def test_narrow_gaps_between_rows_are_owned_and_needed() -> None:
    launches = Launches()
    rows = launches.plan(tuple(GroupBox((0, 8 * k, 0), (32, 8 * k + 8, 1)) for k in range(4)), True)
    out = next(used for used in rows.buffers if used.buffer.id == 2)
    row = 4 * N
    for k, assignment in enumerate(out.assignments):
        first, last = max(128 * k, 1), min(128 * k + 128, N - 1)
        assert assignment.owns.runs() == [ByteRange(first * row + 4, last * row - 4)]
        gaps = [ByteRange(y * row - 4, y * row + 4) for y in range(first + 1, last)]
        assert assignment.needs.runs() == gaps
    # Columns of one group each: what is between their rows belongs to others.
    columns = launches.plan(tuple(GroupBox((8 * k, 0, 0), (8 * k + 8, 32, 1)) for k in range(4)), True)
    out = next(used for used in columns.buffers if used.buffer.id == 2)
    assert [len(assignment.owns.runs()) for assignment in out.assignments] == [N - 2] * 4
    assert not any(assignment.needs for assignment in out.assignments) and not out.merged


def test_fewer_members_run_what_more_may_not() -> None:
    launches = Launches("always")

    def plan(boxes: tuple[GroupBox, ...], exact: bool) -> CutPlan:
        made = Launches.plan(launches, boxes, exact)
        mixed = len(boxes) > limit
        return replace(made, buffers=tuple(replace(used, mixed=mixed) for used in made.buffers))

    limit = 2
    launches.plan = plan  # type: ignore[method-assign]
    for _ in range(3):
        found, why = launches.cutter.cut(launches.history, GROUPS, launches)
        assert len(found.boxes) == 2 and not why
    launches, limit = Launches("always"), 1
    launches.plan = plan  # type: ignore[method-assign]
    found, why = launches.cutter.cut(launches.history, GROUPS, launches)
    assert len(found.boxes) == 1 and why


def balanced() -> Launches:
    """Like ``Launches``, with shares that follow what assignments take."""
    launches = Launches("always")
    launches.cutter = Cutter("always", [GPU] * 4, launches.links, "auto")
    return launches


def measured(launches: Launches, costs: list[float]) -> CutPlan:
    """One launch whose assignments take ``costs`` per row of work-groups, in ns."""
    chosen = launches.launch(dict.fromkeys((1, 2, 3, 4), 5.0))
    epoch = launches.cutter.epoch(launches.history, chosen)
    assert epoch is not None
    times = [sum(costs[box.start[1] : box.stop[1]]) for box in chosen.boxes]
    if epoch.count(launches.history.launches):
        epoch.balance.record(epoch, edges_of(chosen.boxes, GROUPS, 1), times)
    return chosen


def test_shares_follow_costs_where_that_earns_what_it_moves() -> None:
    launches = balanced()
    costs = [1e6 * (row + 1) for row in range(GROUPS[1])]
    found = [measured(launches, costs) for _ in range(40)]
    assert len({plan.boxes for plan in found[10:]}) == 1, "it stays"
    times = [sum(costs[box.start[1] : box.stop[1]]) for box in found[4].boxes]
    assert 1 - sum(times) / 4 / max(times) <= 0.10
    assert [box.extent[1] for box in found[0].boxes] == [8] * 4


def test_shares_stay_where_moving_the_data_costs_more_than_it_gains() -> None:
    launches = balanced()
    # A link so slow that what moves takes longer than all these launches.
    launches.links.cost_ns = lambda source, target, nbytes: 1e12 * nbytes  # type: ignore[method-assign]
    found = [measured(launches, [1e6 * (row + 1) for row in range(GROUPS[1])]) for _ in range(40)]
    assert {plan.boxes for plan in found} == {found[0].boxes}


@pytest.mark.parametrize("merges", [False, True])
def test_merges_that_other_shares_need_are_charged_to_each_launch(merges: bool) -> None:
    launches = balanced()
    launches.links.cost_ns = lambda source, target, nbytes: 100.0 * nbytes  # type: ignore[method-assign]
    launches.links.merge_ns = lambda members, nbytes: None  # type: ignore[method-assign]  # the host does
    even = [8] * 4
    make = launches.plan

    def plan(boxes: tuple[GroupBox, ...], exact: bool = False) -> CutPlan:
        made = make(boxes, exact)
        if not merges or [box.extent[1] for box in boxes] == even:
            return made
        merged = MergedRange(ByteRange(0, NBYTES), (0, 1, 2, 3))
        return replace(made, buffers=tuple(replace(used, merged=(merged,)) for used in made.buffers))

    launches.plan = plan  # type: ignore[method-assign]
    found = [measured(launches, [1e6 * (row + 1) for row in range(GROUPS[1])]) for _ in range(40)]
    stayed = all([box.extent[1] for box in chosen.boxes] == even for chosen in found)
    assert stayed == merges


def test_launches_on_other_buffers_take_the_same_shares() -> None:
    launches = balanced()
    costs = [1e6 * (row + 1) for row in range(GROUPS[1])]
    for _ in range(6):
        measured(launches, costs)
    other = launches.cutter.history()
    other.balances = launches.history.balances
    here, _ = launches.cutter.cut(launches.history, GROUPS, launches)
    there, _ = launches.cutter.cut(other, GROUPS, launches)
    assert here.boxes == there.boxes != tuple(GroupBox((0, 8 * k, 0), (32, 8 * k + 8, 1)) for k in range(4))


def test_balance_off_keeps_equal_shares() -> None:
    launches = Launches("always")
    chosen = launches.launch(dict.fromkeys((1, 2, 3, 4), 5.0))
    assert launches.cutter.epoch(launches.history, chosen) is None
    assert not launches.cutter.freeze_equal(launches.history, chosen)


def test_shares_can_be_given_up() -> None:
    launches = balanced()
    costs = [1e6 * (row + 1) for row in range(GROUPS[1])]
    for _ in range(6):
        chosen = measured(launches, costs)
    assert launches.cutter.freeze_equal(launches.history, chosen)
    found = [measured(launches, costs) for _ in range(20)]
    assert all([box.extent[1] for box in plan.boxes] == [8] * 4 for plan in found)


def test_first_launches_are_cut_by_what_loops_foretell_where_that_pays() -> None:
    for accesses, is_used in ((1e12, True), (1e3, False)):
        launches = Launches("always")
        cutter = Cutter("always", [GPU] * 4, launches.links, "auto")
        history = cutter.history()
        asked: list[int] = []

        def estimate(dim: int, accesses: float = accesses, asked: list[int] = asked) -> WorkEstimate:
            asked.append(dim)
            return WorkEstimate((1.0, 2.0, 3.0, 4.0), accesses)

        # Data is on the members in equal rows: another cut costs copies.
        for buffer in launches.buffers.values():
            for k in range(4):
                buffer.directory.wrote(k + 1, ByteRange(k * NBYTES // 4, (k + 1) * NBYTES // 4))
        launches.work = estimate  # type: ignore[method-assign]
        first, _ = cutter.cut(history, GROUPS, launches)
        rows = [box.stop[1] - box.start[1] for box in first.boxes]
        assert sum(rows) == GROUPS[1] and asked == [1]
        assert (rows[0] > rows[3] + 4) == is_used, rows
        history.launches += 1
        again, _ = cutter.cut(history, GROUPS, launches)
        assert asked == [1] and [box.stop[1] - box.start[1] for box in again.boxes] == rows


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([0] * 5, (1, 2, 3, 4, 5)),
        ([0] * 20, (1, 2, 4, 8, 16, 20)),
        ([0, 0, 1, 1, 2, 2], (1, 2, 4, 6)),
        ([0, 1, 1, 1, 2], (1, 4, 5)),
        ([number // 4 for number in range(64)], (1, 4, 8, 16, 32, 64)),
        ([0, 0, 0, 0, 1, 1, 2, 3, 3, 3], (1, 4, 6, 10)),
    ],
)
def test_few_numbers_of_members_are_tried_one_those_of_a_node_and_whole_nodes(
    nodes: list[int], wanted: tuple[int, ...]
) -> None:
    assert few_numbers(nodes) == wanted


class Asked:
    """A stencil's plans; notes of how many boxes those were that cover all work-groups."""

    def __init__(self, launches: Launches) -> None:
        self.launches = launches
        self.numbers: set[int] = set()

    def plan(self, boxes: tuple[GroupBox, ...], exact: bool) -> CutPlan:
        if sum(box.total_groups for box in boxes) == GROUPS[0] * GROUPS[1]:
            self.numbers.add(len(boxes))
        return self.launches.plan(boxes, exact)

    def work(self, dim: int) -> WorkEstimate | None:
        return None

    def effort(self) -> float | None:
        return None


@pytest.mark.parametrize(("nodes", "each"), [(4, 4), (8, 2), (6, 1), (5, 3)])
def test_auto_considers_one_member_those_of_a_node_and_whole_nodes_only(nodes: int, each: int) -> None:
    launches, members = Launches(), nodes * each
    for buffer in launches.buffers.values():
        buffer.allocations = [None] * members
    where = [1 + k // each for k in range(members)]
    links = Links([GPU] * members, nodes=where)
    cutter = Cutter("auto", [GPU] * members, links, nodes=where, budget=launches.budget)
    history, asked = cutter.history(), Asked(launches)
    history.rates.record(members, 20_000.0 * GROUPS[0] * GROUPS[1], GROUPS[0] * GROUPS[1])
    chosen, _ = cutter.cut(history, GROUPS, asked)
    assert len(chosen.boxes) > each
    powers = {1 << power for power in range(nodes.bit_length()) if 1 << power <= nodes} | {nodes}
    assert asked.numbers >= {1, members}
    assert asked.numbers <= {1, *powers, *[each * power for power in powers]}, "boxes of nodes or members"


class Life:
    """Several kernels' launches one after the other, and what they take on four members and on one.

    Kernels take ``group_ns[assignments]`` per work-group, copies what is predicted, and planning no time.
    """

    def __init__(self, kind: MemberKind) -> None:
        self.launches = Launches(kind=kind)
        self.one_ns = self.several_ns = 0.0

    def launch(
        self,
        history: LaunchHistory,
        group_ns: dict[int, float],
        effort: float | None,
        is_measured: bool = True,
    ) -> int:
        """In how many assignments."""
        launches, groups = self.launches, GROUPS[0] * GROUPS[1]
        cutter, assignment_ns = launches.cutter, (CPU if launches.cutter.is_shared else GPU).assignment_ns
        launches.accesses = effort
        chosen, _ = cutter.cut(history, GROUPS, launches)
        assignments = len(chosen.boxes)
        took = move_ns(chosen, launches.links) + assignments * assignment_ns
        took += group_ns[assignments] * max(box.total_groups for box in chosen.boxes)
        launches.touch(chosen)
        self.several_ns += took
        self.one_ns += assignment_ns + group_ns[1] * groups
        launches.now_ns += int(took)
        if is_measured:
            history.rates.record(assignments, group_ns[assignments] * groups, groups)
        history.ran(assignments)
        return assignments

    @property
    def is_within_budget(self) -> bool:
        return self.several_ns - self.one_ns <= max(20e6, 0.02 * self.one_ns)


@pytest.mark.parametrize(("kernels", "count"), [(20, 1), (10, 20), (2, 100)])
@pytest.mark.parametrize("group_ns", [1.0, 1000.0, 1e5])
def test_finding_out_that_members_share_their_cores_stays_within_the_budget(
    kernels: int, count: int, group_ns: float
) -> None:
    life = Life(CPU)
    costs = {k: group_ns * k for k in (1, 2, 3, 4)}  # all assignments together take what one takes
    for _ in range(kernels):
        history = life.launches.cutter.history()
        for _ in range(count):
            life.launch(history, costs, None)
        # The data is home again, as after a read.
        for buffer in life.launches.buffers.values():
            buffer.directory.wrote(1, ByteRange(0, NBYTES))
    assert life.is_within_budget, (life.several_ns / 1e6, life.one_ns / 1e6)


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_launches_that_are_far_ahead_of_what_is_measured_stay_within_the_budget(kind: MemberKind) -> None:
    life = Life(kind)
    history = life.launches.cutter.history()
    costs = dict.fromkeys((1, 2, 3, 4), 5.0)
    found = [life.launch(history, costs, None, is_measured=False) for _ in range(1000)]
    assert life.is_within_budget and set(found[500:]) == {1}
    assert kind is GPU or set(found) == {1}


def test_a_long_first_launch_is_split_and_takes_nothing_from_the_budget() -> None:
    life = Life(GPU)
    assert life.launch(life.launches.cutter.history(), dict.fromkeys((1, 2, 3, 4), 1e6), 1e10) == 4
    assert life.launches.budget.spent_ns == 0


def test_a_first_launch_that_has_little_to_do_is_not_split() -> None:
    life = Life(GPU)
    history = life.launches.cutter.history()
    for buffer in life.launches.buffers.values():
        buffer.directory.wrote(1, ByteRange(0, NBYTES))
    assert life.launch(history, dict.fromkeys((1, 2, 3, 4), 5.0), 1e6) == 1
    assert history.why_fewer == "one member runs it, it takes no more than about 0.01 ms"
    assert [life.launch(history, dict.fromkeys((1, 2, 3, 4), 5.0), 1e6) for _ in range(50)] == [1] * 50


@pytest.mark.parametrize(("effort", "assignments"), [(1e7, 1), (1e10, 4), (None, 4)])
def test_a_first_launch_is_split_only_where_its_merges_cost_less_than_its_work(
    effort: float | None, assignments: int
) -> None:
    life = Life(GPU)
    make = life.launches.plan

    def plan(boxes: tuple[GroupBox, ...], exact: bool = False) -> CutPlan:
        made = make(boxes, exact)
        merged = (MergedRange(ByteRange(0, NBYTES), tuple(range(len(boxes)))),) if len(boxes) > 1 else ()
        return replace(made, buffers=tuple(replace(used, merged=merged) for used in made.buffers))

    life.launches.plan = plan  # type: ignore[method-assign]
    history = life.launches.cutter.history()
    assert life.launch(history, dict.fromkeys((1, 2, 3, 4), 5.0), effort) == assignments
    # What may be lost is taken from the budget until it is known.
    assert (life.launches.budget.spent_ns > 1e6) == (effort is None)
    found = [life.launch(life.launches.cutter.history(), {1: 5.0, 4: 5.0}, None) for _ in range(9)]
    assert found[-1] == 1 and life.launches.budget.spent_ns <= 20e6


def test_what_was_at_stake_comes_back_when_it_has_paid() -> None:
    life = Life(GPU)
    history = life.launches.cutter.history()
    assert life.launch(history, dict.fromkeys((1, 2, 3, 4), 20_000.0), None) == 4
    assert life.launches.budget.spent_ns > 0
    for _ in range(10):
        assert life.launch(history, dict.fromkeys((1, 2, 3, 4), 20_000.0), None) == 4
    assert life.launches.budget.spent_ns == 0 and history.at_stake_ns == 0


def test_the_time_to_choose_a_cut_comes_back_when_it_has_paid() -> None:
    life = Life(GPU)
    budget, reads = life.launches.budget, count()
    budget.now_ns = lambda: (
        life.launches.now_ns + 1_000_000 * next(reads)
    )  # each look at the clock takes 1 ms
    history = life.launches.cutter.history()
    assert life.launch(history, dict.fromkeys((1, 2, 3, 4), 20_000.0), 1e10) == 4
    assert budget.spent_ns >= 1e6 and history.planned_ns == budget.spent_ns
    for _ in range(10):
        assert life.launch(history, dict.fromkeys((1, 2, 3, 4), 20_000.0), 1e10) == 4
    assert budget.spent_ns == 0 and history.planned_ns == 0
    short = life.launches.cutter.history()
    for _ in range(10):
        life.launch(short, dict.fromkeys((1, 2, 3, 4), 5.0), None)
    assert short.assignments == 1 and budget.spent_ns > 0, "nothing was won by that"


def test_members_that_are_one_device_are_not_tried_side_by_side() -> None:
    launches = Launches(kind=CPU)
    nodes, units = [0] * 4, ["the processor"] * 4
    for others, found in ((units, {1}), ([*units[:3], "another one"], {1, 4})):
        cutter = Cutter("auto", [CPU] * 4, launches.links, nodes=nodes, units=others, budget=launches.budget)
        launches.cutter, launches.history = cutter, cutter.history()
        assert set(launches.assignments(dict.fromkeys((1, 2, 3, 4), 20_000.0), 30)) == found
        # From then on it is replayed, and measured now and then.
        assert launches.history.is_routine() or found != {1}
        assert (launches.history.num_decided() > 400) == (found == {1})
    nodes = [0, 0, 1, 1]
    launches.cutter = Cutter(
        "auto", [CPU] * 4, launches.links, nodes=nodes, units=units, budget=launches.budget
    )
    launches.history = launches.cutter.history()
    assert 4 in launches.assignments(dict.fromkeys((1, 2, 3, 4), 20_000.0), 30), "units of two machines"


def test_first_times_of_short_kernels_that_are_far_too_long_split_nothing() -> None:
    # The host's time to launch them is in it: [M] 0.2 ms of kernels that take 15 us on an H200.
    life = Life(GPU)
    history = life.launches.cutter.history()
    whole = dict.fromkeys((1, 2, 3, 4), 10.0)
    for launch in range(64):
        slow = dict.fromkeys((1, 2, 3, 4), 300.0) if launch < 2 else whole
        assert life.launch(history, slow, 0.0) == 1, history


def test_short_kernels_whose_bytes_lie_apart_bring_them_together() -> None:
    # Each of many in a row would stay apart for the others' sake.
    life = Life(GPU)
    history = life.launches.cutter.history()
    slabs = [
        GroupBox((0, k, 0), (GROUPS[0], k + GROUPS[1] // 4, 1)) for k in range(0, GROUPS[1], GROUPS[1] // 4)
    ]
    apart = life.launches.plan(tuple(slabs), True)
    costs = dict.fromkeys((1, 2, 3, 4), 10.0)
    assignments = []
    for _ in range(20):
        life.launches.touch(apart)
        assignments.append(life.launch(history, costs, 0.0))
    assert set(assignments[5:]) == {1}, assignments


def test_the_first_plans_of_a_way_do_not_keep_launches_from_it() -> None:
    history = LaunchHistory(Rates(False, {1: 10.0, 2: 20.0}))
    history.decide((1, 1, 1), 1, "")
    history.planned(1, 5e6)
    history.ran(1)
    assert history.plan_ns(1) == 0


def test_one_assignment_is_taken_to_have_no_more_to_do_than_several_have() -> None:
    assert Rates(False, {1: 200.0, 2: 30.0}).group_ns(1) == 30.0
    assert Rates(True, {1: 200.0, 2: 30.0}).group_ns(1) == 200.0


@pytest.mark.parametrize("is_right", [True, False])
def test_a_short_kernel_that_an_earlier_run_split_stays_so_unless_measuring_contradicts(
    is_right: bool,
) -> None:
    life = Life(GPU)
    history = life.launches.cutter.history()
    guess = dict.fromkeys((1, 2, 3, 4), 600.0)
    history.begin_with(Learnt(guess, (1, 4, 1), 4, {}))
    costs = guess if is_right else dict.fromkeys((1, 2, 3, 4), 5.0)
    assignments = [life.launch(history, costs, None) for _ in range(100)]
    assert assignments[0] == 4 and set(assignments[20:]) == ({4} if is_right else {1}), assignments


def test_what_was_measured_is_looked_at_once_also_where_launches_may_not_be_split() -> None:
    launches = Launches()
    make, history = launches.plan, launches.history

    def plan(boxes: tuple[GroupBox, ...], exact: bool = False) -> CutPlan:
        made = make(boxes, exact)
        return replace(made, buffers=tuple(replace(used, mixed=len(boxes) > 1) for used in made.buffers))

    launches.plan = plan  # type: ignore[method-assign]
    launches.cutter.cut(history, GROUPS, launches)
    history.ran(1)
    history.rates.record(1, 1e9, GROUPS[0] * GROUPS[1])
    history.is_news = True
    assert history.is_due()
    launches.cutter.cut(history, GROUPS, launches)
    history.ran(1, 2)
    assert not history.is_due()


def test_what_can_save_no_more_than_choosing_takes_is_not_chosen_anew() -> None:
    """Thinking takes 20 ms here: what could save 0.15 ms a launch runs whole until 500 launches could."""
    launches, asked = Launches(), list[int]()
    plan = launches.plan

    def slowly(boxes: tuple[GroupBox, ...], exact: bool = False) -> CutPlan:
        if len(boxes) == 4:
            launches.now_ns += 10_000_000
            asked.append(launches.history.launches)
        return plan(boxes, exact)

    launches.plan = slowly  # type: ignore[method-assign]
    launches.accesses = 1e6
    for buffer in launches.buffers.values():
        buffer.directory.wrote(1, ByteRange(0, NBYTES))
    found = launches.assignments(dict.fromkeys((1, 2, 3, 4), 300.0), 1500)
    assert asked and min(asked) > 100 and set(found[: min(asked)]) == {1}
    assert launches.budget.spent_ns <= 0.5 * 0.15e6 * min(asked) + 60e6, "what it could have saved by then"


def test_what_loses_more_than_may_be_lost_runs_whole_and_what_earns_it_stays() -> None:
    launches = Launches()
    loser, winner = launches.history, launches.cutter.history()
    costs, groups = dict.fromkeys((1, 2, 3, 4), 20_000.0), GROUPS[0] * GROUPS[1]
    for history in (loser, winner):
        launches.history = history
        assert set(launches.assignments(costs, 10)) == {4}
    saved_ns = costs[1] * groups * 0.75
    winner.copied(0.0, saved_ns, 10)
    while not loser.is_losing():
        loser.copied(1.2 * saved_ns, saved_ns)
        winner.copied(0.0, 0.0)
    assert loser.recheck_at == loser.launches and not winner.is_losing()
    assert launches.budget.overdrawn_ns() > 0 and loser.worth_ns < 0
    launches.history = loser
    assert launches.assignments(costs, 1) == [1]
    assert loser.why_fewer == "one member runs it, several have lost more than they saved"
    assert launches.assignments(costs, 50) == [1] * 50
    launches.now_ns = 10**12  # 2 % of the session's life has made good for it
    launches.history.recheck_at = launches.history.launches
    assert launches.assignments(costs, 1) == [4]


@pytest.mark.parametrize(("before", "assignments"), [(1, 1), (30, 4)])
def test_bytes_move_for_as_many_launches_as_there_were_on_other_buffers(
    before: int, assignments: int
) -> None:
    launches = Launches()
    launches.links.cost_ns = lambda source, target, nbytes: nbytes * 20.0  # type: ignore[method-assign]
    launches.touch(launches.plan((GroupBox((0, 0, 0), GROUPS),)))  # all of it is on one member
    group_ns = dict.fromkeys((1, 4), 2000.0)
    last = launches.cutter.history()
    last.rates.measured.update(group_ns)
    last.launches = before
    launches.history.follows(last)
    assert len(launches.launch(group_ns).boxes) == assignments
