"""How many members a launch is worth, from times that were measured or are to be tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.cells import ROW, Cells
from sdi.devices.ticket import Ticket
from sdi.partition.balance import Balance, Speeds
from sdi.partition.gain import RECONSIDER, Candidate, Rates, choose, described
from sdi.partition.history import LaunchHistory

MS = 1e6


def done(start_ns: int, end_ns: int) -> Ticket:
    ticket = Ticket()
    ticket.complete(None, start_ns, end_ns)
    return ticket


def test_assignments_that_were_not_measured_are_taken_not_to_disturb_each_other() -> None:
    rates = Rates(is_shared=False)
    assert rates.group_ns(4) is None
    rates.record(2, 1000.0, 10)
    assert rates.group_ns(2) == rates.group_ns(4) == rates.group_ns(1) == 100.0


def test_one_assignment_of_those_that_share_a_machine_may_have_it_for_itself() -> None:
    rates = Rates(is_shared=True)
    rates.record(4, 4000.0, 10)
    assert rates.group_ns(1) == 100.0 and rates.group_ns(2) == 200.0
    rates.record(1, 3000.0, 10)
    assert rates.group_ns(1) == 100.0 * 3 and rates.group_ns(4) == 400.0
    assert rates.group_ns(2) == pytest.approx(1000.0 / 3)


def test_assignments_that_share_cores_took_what_passed_from_the_first_start_to_the_last_end() -> None:
    # Two assignments one after the other, each with all cores: no faster than one.
    spans = [done(100, 600), done(600, 1100)]
    assert Rates(is_shared=True).total_ns(spans) == 2 * 1000
    assert Rates(is_shared=False).total_ns(spans) == 1000


def test_a_shorter_time_is_believed_at_once_and_a_longer_one_by_and_by() -> None:
    rates = Rates(is_shared=False)
    for total in (8000.0, 1000.0, 2000.0):
        rates.record(1, total, 10)
    assert rates.group_ns(1) == 125.0


def way(assignments: int, run: float, move: float = 0.0, steady: float = 0.0) -> Candidate:
    return Candidate(assignments, run, assignments * 60_000.0, move, steady)


def test_small_launches_run_whole_and_long_ones_on_all_members() -> None:
    assert choose([way(k, 20_000.0 / k) for k in (1, 2, 3, 4)], 4, 5).assignments == 1
    assert choose([way(k, 20 * MS / k) for k in (1, 2, 3, 4)], 1, 5).assignments == 4


def test_two_of_four_members_win_where_more_do_not_run_faster() -> None:
    runs = {1: 1 * MS, 2: 0.5 * MS, 3: 0.5 * MS, 4: 0.5 * MS}
    assert choose([way(k, run) for k, run in runs.items()], 4, 16).assignments == 2


def test_what_moves_once_is_shared_by_the_launches_to_come() -> None:
    ways = [way(1, 4 * MS), way(4, 1 * MS, move=20 * MS, steady=0.1 * MS)]
    assert choose(ways, 1, 2).assignments == 1
    assert choose(ways, 1, 64).assignments == 4
    # What moves each time is not.
    assert choose([way(1, 4 * MS), way(4, 1 * MS, 20 * MS, 20 * MS)], 1, 64).assignments == 1


def test_a_way_stays_unless_another_one_is_clearly_better() -> None:
    ways = [way(1, 1.0 * MS), way(2, 0.85 * MS)]
    assert choose(ways, 1, 16).assignments == 1 and choose(ways, 2, 16).assignments == 2
    assert choose([way(1, 1.0 * MS), way(2, 0.98 * MS)], 2, 16).assignments == 1
    assert choose([way(1, 1.0 * MS), way(2, 0.5 * MS)], 1, 16).assignments == 2


@given(
    st.lists(st.tuples(st.floats(1, 1e9), st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=8),
    st.integers(0, 8),
    st.integers(1, 4096),
)
def test_the_choice_is_within_a_tenth_of_the_best(
    times: list[tuple[float, float, float]], current: int, ahead: int
) -> None:
    ways = [way(k + 1, *time) for k, time in enumerate(times)]
    best = min(each.total_ns(ahead) for each in ways)
    chosen = choose(ways, current, ahead)
    assert chosen.total_ns(ahead) <= best / 0.9 * (1 + 1e-9)
    if chosen.assignments != current:  # more members have to promise more
        fewer = [each for each in ways if each.assignments <= chosen.assignments]
        assert chosen.total_ns(ahead) == min(each.total_ns(ahead) for each in fewer)


def test_the_reason_names_both_times() -> None:
    text = described(way(1, 1 * MS), way(3, 2 * MS, 5 * MS, 5 * MS), 8)
    assert text == "predicted 7.18 ms in 3 assignments (5.00 ms of it for copies), 1.06 ms whole"


@pytest.mark.parametrize("is_fixed", [False, True])
def test_a_cut_is_chosen_anew_ever_more_seldom(is_fixed: bool) -> None:
    history, asked = LaunchHistory(Rates(False, {4: 1.0}), is_fixed), []
    history.decide((4, 1, 1), 4, "")
    for _ in range(2000):
        history.launches += 1
        if history.is_due():
            asked.append(history.launches)
            history.decide((4, 1, 1), 4, "")
            assert not history.is_due()
    assert asked == ([] if is_fixed else [k for k in sorted(RECONSIDER) if k <= 2000])
    assert history.version == 1
    history.decide((1, 1, 1), 1, "too small")
    assert history.version == 2


def test_an_untried_way_is_looked_at_again_soon() -> None:
    history = LaunchHistory(Rates(False, {4: 1.0}), launches=64)
    history.decide((2, 1, 1), 2, "")
    for _ in range(4):
        assert not history.is_due()
        history.launches += 1
    assert history.is_due()
    history.rates.record(2, 10.0, 10)
    history.decide((2, 1, 1), 2, "")
    assert not history.is_due()


def test_planning_is_charged_to_the_way_that_needs_it() -> None:
    history = LaunchHistory(Rates(True))
    assert history.plan_ns(2) == 0
    for _ in range(2):  # the first ones say nothing
        history.planned(2, 1e9)
        history.planned(1, 1e9)
    for _ in range(10):  # a new scalar each time, and ranges that depend on it
        history.planned(2, 40e6)
        history.ran(2)
    for _ in range(4):
        history.ran(1)
    assert history.launches == 14
    assert history.plan_ns(2) == 40e6 and history.plan_ns(1) == 0


def test_launches_that_get_smaller_begin_where_larger_ones_ended() -> None:
    large = LaunchHistory(Rates(True, {1: 10.0, 3: 30.0}), launches=40)
    for _ in range(3):
        large.planned(3, 1e6)
    large.decide((1, 1, 1), 1, "too little for three")
    smaller, larger = LaunchHistory(Rates(True)), LaunchHistory(Rates(True))
    smaller.begin_like(large, is_smaller=True)
    assert (smaller.assignments, smaller.why_fewer) == (1, "too little for three") and not smaller.is_due()
    larger.begin_like(large, is_smaller=False)
    assert (
        larger.assignments == 0 and larger.rates.measured == {1: 10.0, 3: 30.0} and larger.plan_ns(3) == 1e6
    )
    fixed = LaunchHistory(Rates(True), is_fixed=True)
    fixed.begin_like(large, is_smaller=True)
    assert fixed.assignments == 0 and not fixed.rates.measured


@pytest.mark.parametrize(
    ("is_shared", "expected"), [(True, [2, 5, 8, 9, 8, 9, 8]), (False, [0, 2, 2, 5, 8, 9, 8])]
)
def test_launches_that_run_whole_are_looked_at_more_seldom_the_more_there_were(
    is_shared: bool, expected: list[int]
) -> None:
    history, looks = LaunchHistory(Rates(is_shared, {1: 1.0})), []
    history.decide((1, 1, 1), 1, "")
    for launch in range(1, 1 << 14):
        decided = history.num_decided()
        assert (decided == 0) == history.is_due()
        if not history.is_routine():
            looks.append(launch)
        history.ran(1)
        if decided > 1:
            assert history.num_decided() == decided - 1
    # One more where the way is chosen anew.
    assert [sum(1 << k <= look < 2 << k for look in looks) for k in range(7, 14)] == expected


def watched(cells: Cells, first: int) -> bool:
    """Whether a launch that is replayed is measured: what the player does with these cells."""
    found = cells.at[first] > 0
    cells.at[first] -= found
    if cells.at[first + 1]:
        cells.at[first + 1] -= 1
        if cells.at[first + 1] == 0:
            found, cells.at[first + 1] = True, cells.at[first + 2]
    return found


@pytest.mark.parametrize("with_shares", [False, True])
@pytest.mark.parametrize("refill_every", [1, 7, 100])
def test_replayed_launches_are_measured_when_others_would_be(refill_every: int, with_shares: bool) -> None:
    history, cells = LaunchHistory(Rates(False, {2: 1.0})), Cells()
    history.follow(cells)
    history.decide((2, 1, 1), 2, "")
    epoch = Balance(0, 2, Speeds()).current if with_shares else None
    for launch in range(1000):
        if launch % refill_every == 0:
            history.refill(epoch)
        is_measured = watched(cells, history.watch)
        history.ran(2)
        counted = epoch is not None and epoch.count(history.launches)
        assert is_measured == (history.is_sampled() or counted), launch
    assert 5 < cells.at[history.watch + 1] <= cells.at[history.watch + 2] == (16 if with_shares else 256)


def test_of_the_first_launches_another_one_is_measured_for_each_that_was_missed() -> None:
    history, cells = LaunchHistory(Rates(False, {2: 1.0})), Cells()
    epoch = Balance(0, 2, Speeds()).current
    history.follow(cells)
    history.decide((2, 1, 1), 2, "")
    history.refill(epoch)
    assert [watched(cells, history.watch) for _ in range(10)] == [True] * 8 + [False] * 2
    history.ran(2, 5)
    epoch.issued += 5
    history.missed(epoch)
    assert [watched(cells, history.watch) for _ in range(6)] == [True] * 4 + [False] * 2
    history.ran(2, 12)
    epoch.issued += 12
    history.missed(epoch)
    assert not watched(cells, history.watch)


def test_a_way_of_which_nothing_was_measured_is_measured_with_the_next_replay() -> None:
    history, cells = LaunchHistory(Rates(False)), Cells()
    history.follow(cells)
    history.decide((1, 1, 1), 1, "")
    history.ran(1, 9)  # by Python, which was a part of what they took
    for _ in range(3):
        history.refill(None)
        assert [watched(cells, history.watch) for _ in range(3)] == [True, False, False]
    history.rates.record(1, 100, 10)
    history.refill(None)
    assert not watched(cells, history.watch)
    history.decide((2, 1, 1), 2, "")
    history.ran(2, 9)
    for _ in range(200):
        history.refill(None)  # Python launches them all
    tried = sum(history.refill(None) or watched(cells, history.watch) for _ in range(200))
    assert 50 < tried < 70, "where others always run beside it nobody ever knows"


def test_what_is_never_chosen_anew_is_not_measured() -> None:
    history, cells = LaunchHistory(Rates(False), is_fixed=True), Cells()
    history.follow(cells)
    history.refill(None)
    assert not any(watched(cells, history.watch) for _ in range(1000))


def test_cells_side_by_side_are_given_back_together() -> None:
    cells = Cells()
    histories = [LaunchHistory(Rates(False)) for _ in range(3)]
    for history in histories:
        history.follow(cells)
    firsts = {history.watch for history in histories}
    assert len(firsts) == 3 and 0 not in firsts
    for history in histories:
        history.unfollow()
        assert history.watch == 0
    left = cells.num_left
    for history in histories:
        history.follow(cells)
    assert {history.watch for history in histories} == firsts and cells.num_left == left - 3 * (2 + ROW)


@pytest.mark.parametrize("is_fixed", [False, True])
def test_a_launch_that_is_to_come_to_the_first_member_is_no_routine(is_fixed: bool) -> None:
    history = LaunchHistory(Rates(False, {1: 1.0, 2: 1.0}), is_fixed, launches=100)
    history.decide((1, 1, 1), 1, "")
    history.ran(1, 4)
    history.home_at = 1 << 40
    assert 0 < history.num_decided() < 1 << 32
    history.home_at = 120
    assert history.num_decided() == 15 and history.is_routine()
    history.ran(1, 15)
    assert history.num_decided() == 0 and not history.is_routine()
    history.decide((2, 1, 1), 2, "")  # then there is no one member any more
    history.ran(2, 5)
    assert history.is_routine()


def test_launches_too_small_for_any_other_way_are_hardly_ever_looked_at() -> None:
    history, looks = LaunchHistory(Rates(False, {1: 1.0}), is_small=True), 0
    history.decide((1, 1, 1), 1, "too small")
    for _ in range(2048):
        looks += not history.is_routine()
        if history.is_due():
            history.decide((1, 1, 1), 1, "too small")
        history.ran(1)
    # The first ones, when the way is chosen anew, and one in 512.
    assert looks <= 3 + len(RECONSIDER) + 4


def test_cells_that_others_had_say_nothing_of_them() -> None:
    cells, history = Cells(), LaunchHistory(Rates(False))
    history.follow(cells)
    history.decide((2, 1, 1), 2, "")
    history.refill(Balance(0, 2, Speeds()).current)
    assert cells.at[history.cell] and cells.at[history.watch + 2]
    given = {history.cell, history.version_cell, history.watch}
    history.unfollow()
    found = {cells.new(), cells.new(), row := cells.new_row()}
    assert found == given
    assert not any(cells.at[cell] for cell in (*found, row + 1, row + 2))


def test_a_program_whose_launches_are_never_seen_to_end_is_not_timed_for_ever() -> None:
    history, cells = LaunchHistory(Rates(False)), Cells()
    history.follow(cells)
    history.decide((2, 1, 1), 2, "")
    for _ in range(1000):
        history.ran(2)
        history.missed(None)
    assert not watched(cells, history.watch)
