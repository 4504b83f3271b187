"""What is remembered of launches that are alike."""

from __future__ import annotations

from sdi.cells import Cells
from sdi.partition.gain import RECONSIDER, Rates
from sdi.partition.history import _LOSS_NS, TRIAL, LaunchHistory

SLABS, COLUMNS = (1, 4, 1), (4, 1, 1)


def test_a_new_cut_is_a_new_version_and_the_same_one_is_not() -> None:
    history = LaunchHistory(Rates(False))
    history.decide(SLABS, 4, "")
    first = history.version
    history.decide(SLABS, 4, "for another reason")
    assert history.version == first and history.why_fewer == "for another reason"
    history.ran(4, 3)
    history.decide(COLUMNS, 4, "")
    assert history.version == first + 1 and history.begun_at == 3 == history.decided_at


def test_a_cut_that_was_never_measured_is_looked_at_soon_and_then_later_and_later() -> None:
    history, waited = LaunchHistory(Rates(False)), []
    for _ in range(3):
        history.decide(SLABS, 4, "")
        begun = history.launches
        while not history.is_due() or history.launches in RECONSIDER:
            history.ran(4)
        waited.append(history.launches - begun)
    assert waited == [TRIAL, 2 * TRIAL, 4 * TRIAL]


def test_a_long_launch_has_its_way_looked_at_as_soon_as_it_is_measured() -> None:
    history = LaunchHistory(Rates(False))
    history.decide(SLABS, 4, "")
    history.ran(4, 6)
    history.follow(Cells())
    history.decide(SLABS, 4, "")
    history.ran(4)
    history.refill(None)
    assert history.cells is not None and history.cells.at[history.cell] > 0 and not history.is_due()
    history.rates.record(4, 1e9, 1)
    history.is_news = True
    history.refill(None)
    assert history.is_due() and history.cells.at[history.cell] == 0, "the player asks before the next one"
    history.is_news = False
    history.decide(SLABS, 4, "")
    assert not history.untried
    history.ran(4)
    assert not history.is_due()


def test_what_is_fixed_or_final_is_not_chosen_again() -> None:
    for fixed, final in ((True, False), (False, True)):
        history = LaunchHistory(Rates(False), is_fixed=fixed, is_final=final)
        history.decide(SLABS, 4, "")
        for _ in range(max(TRIAL, *(due for due in RECONSIDER if due < 1000))):
            history.ran(4)
            assert not history.is_due()


def test_copies_that_cost_more_than_a_cut_saves_have_it_looked_at_and_then_less_soon() -> None:
    history = LaunchHistory(Rates(False))
    history.decide(SLABS, 4, "")
    history.ran(4, 1000)
    found = []
    for number in range(7):
        history.copied(2 * _LOSS_NS, 1.1 * _LOSS_NS)
        if history.recheck_at == history.launches:
            found.append(number)
            history.lost_ns, history.recheck_at = 0.0, -1
        history.ran(4)
    assert found == [1, 4], "after 1.8 times that time, then after 2.7 times"
    history.copied(0.0, 10 * _LOSS_NS)
    assert history.lost_ns == 0.0


def test_what_others_copy_because_of_a_cut_counts_against_it() -> None:
    history = LaunchHistory(Rates(False))
    history.decide((1, 1, 1), 1, "")
    history.owes(5.0)
    assert history.owed_ns == 0.0, "one member leaves nothing in parts"
    history.decide(SLABS, 4, "")
    history.ran(4, 10)
    history.owes(2 * _LOSS_NS)
    assert history.recheck_at == history.launches and history.worth_ns == -2 * _LOSS_NS
    assert history.owing(4) == 2 * _LOSS_NS / 10
    assert history.budget.lost_ns == 0.0, "they have said so themselves"
    cells = Cells()
    history.follow(cells)
    history.recheck_at = -1
    history.refill(None)
    assert cells.at[history.cell] > 0
    history.owes(4 * _LOSS_NS)
    assert cells.at[history.cell] == 0, "the next one is no replay"
    history.ran(4)  # but this one was
    assert history.is_due() and history.num_decided() == 0
    history.decide((1, 1, 1), 1, "")
    assert not history.is_due()


def test_what_others_copy_is_shared_by_all_launches_of_a_cut_whether_they_were_measured_or_not() -> None:
    history = LaunchHistory(Rates(False))
    history.ran(1, 5)
    history.decide(SLABS, 4, "")
    for _ in range(60):
        history.ran(4)
        history.owes(1e5)
        history.missed(None)
    assert history.begun_at > 60 and history.owing(4) == 1e5


def test_what_is_owed_at_once_after_a_choice_is_looked_at_with_the_next_launch_but_one() -> None:
    history = LaunchHistory(Rates(False))
    history.ran(1, 7)
    history.decide(SLABS, 4, "")
    history.owes(3 * _LOSS_NS)
    assert not history.is_due() and history.num_decided() == 1
    history.ran(4)
    assert history.is_due() and history.num_decided() == 0


def test_the_first_launch_of_a_way_is_what_it_takes_to_begin_it() -> None:
    history = LaunchHistory(Rates(False))
    history.decide((1, 1, 1), 1, "")
    history.ran(1)
    history.began(5.0)
    assert history.planned_ns == 0.0, "one member begins nothing"
    history.decide(SLABS, 4, "")
    for took_ns in (3e6, 7e6):
        history.ran(4)
        history.began(took_ns)
    assert history.planned_ns == history.budget.spent_ns == 3e6


def test_what_runs_well_rests_until_as_much_is_at_stake_as_it_takes_to_choose() -> None:
    history = LaunchHistory(Rates(False))
    history.decide((1, 1, 1), 1, "")
    history.rates.record(1, 20_000.0, 10)
    history.ran(1, 16)
    assert history.is_due() and history.num_decided() == 0
    history.rest(20_000.0, 0.0)  # 2500 of these take as long as 50 times what it takes to choose
    history.decide((1, 1, 1), 1, "")
    history.ran(1, 48)
    assert not history.is_due() and history.num_decided() == 4096 - 64
    history.is_news = True
    assert history.is_due(), "they take longer now"
    history.is_news = False
    history.ran(1, 192)
    assert not history.is_due()
    history.rest(20_000.0, 1.0)
    assert history.is_due(), "what others did has to be brought together"
    history.rest(20_000.0, 0.0)
    history.ran(1, 4096 - 256)
    assert history.is_due()


def test_while_nothing_is_known_there_is_nothing_to_choose() -> None:
    history = LaunchHistory(Rates(False))
    history.decide((1, 1, 1), 1, "")
    history.ran(1, 16)
    history.decide((1, 1, 1), 1, "")
    history.ran(1)
    assert history.num_decided() > 1 << 20
    history.ran(1, 64 - 17)
    assert not history.is_due()
    history.rates.record(1, 5e4, 10)
    assert history.is_due()
    history.decide((1, 1, 1), 1, "")
    history.ran(1)
    assert history.num_decided() == 256 - 65


def test_planning_counts_from_the_third_plan_of_a_way_on() -> None:
    history = LaunchHistory(Rates(False))
    for _ in range(4):
        history.planned(4, 1000.0)
    history.ran(4, 10)
    assert history.plan_ns(4) == 200.0 and history.plan_ns(1) == 0.0


def test_cells_say_how_many_launches_may_be_replayed() -> None:
    history, cells = LaunchHistory(Rates(False)), Cells()
    left = cells.num_left
    history.follow(cells)
    history.decide(SLABS, 4, "")
    history.refill(None)
    assert cells.at[history.version_cell] == history.version
    assert cells.at[history.cell] == history.num_decided() == min(due for due in (*RECONSIDER, TRIAL) if due)
    history.home_at = history.launches + 2
    assert history.num_decided() == 1
    history.unfollow()
    history.refill(None)
    assert cells.num_left == left and history.cell == 0


def test_launches_that_nothing_could_make_faster_are_hardly_measured() -> None:
    found = []
    for is_small in (False, True):
        history = LaunchHistory(Rates(False, {1: 1.0}), is_small=is_small)
        history.decide((1, 1, 1), 1, "")
        measured = 0
        for _ in range(100_000):
            history.ran(1)
            measured += history.is_sampled()
        found.append(measured)
    assert 40 <= found[0] <= 100 and found[1] <= 24, found


def test_as_many_launches_are_expected_as_there_were_on_other_buffers_and_fewer_each_time_that_is_wrong() -> (
    None
):
    first, short, other = (LaunchHistory(Rates(False)) for _ in range(3))
    assert first.ahead == 1
    first.launches = 100
    short.follows(first)
    assert short.ahead == 100
    short.launches = 30
    assert short.ahead == 70
    other.follows(short)
    assert other.ahead == 50
    other.launches = 300
    assert other.ahead == 300
