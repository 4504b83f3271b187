"""What finding out how launches run best may cost a session."""

from __future__ import annotations

import pytest

from sdi.partition.budget import LEAST_NS, PART, THINK_NS, Budget


def test_it_grows_with_the_session_and_is_never_less_than_a_time() -> None:
    now = [0]
    budget = Budget(lambda: now[0])
    assert budget.left_ns() == LEAST_NS
    now[0] = int(10 * LEAST_NS / PART)
    assert budget.left_ns() == 10 * LEAST_NS


def test_one_question_takes_half_of_what_is_left_and_what_was_not_lost_is_left_again() -> None:
    budget = Budget(lambda: 0)
    assert budget.affords(LEAST_NS / 2) and not budget.affords(LEAST_NS * 0.6)
    budget.spend(LEAST_NS / 2)
    assert not budget.affords(LEAST_NS / 2)
    budget.spend(-LEAST_NS / 2)
    assert budget.affords(LEAST_NS / 2)
    budget.spend(-LEAST_NS)
    assert budget.left_ns() == LEAST_NS, "nothing is gained by what was not lost"


def test_what_launches_lost_is_no_more_there_to_spend_and_what_they_save_is_again() -> None:
    budget = Budget(lambda: 0)
    budget.lose(0.6 * LEAST_NS)
    assert budget.left_ns() == pytest.approx(0.4 * LEAST_NS) and budget.overdrawn_ns() == 0
    budget.lose(LEAST_NS)
    assert budget.overdrawn_ns() == pytest.approx(0.6 * LEAST_NS)
    budget.lose(-5 * LEAST_NS)
    assert budget.left_ns() == LEAST_NS, "what is saved beyond that is not for losing"


def test_what_it_takes_to_choose_is_expected_of_the_next_kernel_and_a_part_of_it_of_the_same() -> None:
    budget = Budget(lambda: 0)
    assert budget.think_ns == THINK_NS
    assert budget.thought(3 * THINK_NS, 0.0) == pytest.approx(0.75 * THINK_NS)
    assert budget.think_ns == 2 * THINK_NS and budget.left_ns() == LEAST_NS - 3 * THINK_NS
    assert budget.thought(THINK_NS / 10, 0.75 * THINK_NS) < 0.1 * THINK_NS
    assert budget.think_ns == 2 * THINK_NS, "that was no new kernel"
    assert budget.thought(1000 * THINK_NS, 0.0) == THINK_NS and budget.think_ns == 5 * THINK_NS


def test_what_it_takes_to_begin_a_way_is_spent_and_expected_of_the_next_one() -> None:
    budget = Budget(lambda: 0)
    budget.began(0.5 * LEAST_NS)
    assert budget.left_ns() == 0.5 * LEAST_NS and budget.begin_ns == 0.25 * LEAST_NS
    budget.began(1000 * LEAST_NS)
    assert budget.begin_ns == 5 * THINK_NS
