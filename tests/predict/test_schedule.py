"""Tasks on resources, in cases that are small enough to be done by hand."""

from __future__ import annotations

from sdi.predict.schedule import Schedule


def test_who_is_ready_first_gets_a_resource_first() -> None:
    schedule = Schedule()
    early = schedule.add("a", 30.0, (1,))
    late = schedule.add("b", 10.0, (2,), [early])
    soon = schedule.add("c", 20.0, (2,), [schedule.add("d", 25.0)])
    assert schedule.run() == 55.0
    assert [schedule.ends[task] for task in (early, late, soon)] == [30.0, 55.0, 45.0]


def test_a_task_begins_when_all_that_it_waits_for_is_over_and_all_its_resources_are_free() -> None:
    schedule = Schedule()
    one, other = schedule.add("a", 40.0, (1,)), schedule.add("b", 15.0, (2,))
    both = schedule.add("c", 5.0, (1, 2), [other])
    behind = schedule.add("d", 1.0, (), [one, both])
    assert schedule.run() == 46.0
    assert (schedule.ends[both], schedule.ends[behind]) == (45.0, 46.0)


def test_the_path_says_what_the_last_task_waited_for() -> None:
    schedule = Schedule()
    short, long = schedule.add("short", 5.0, (1,)), schedule.add("long", 40.0, (2,))
    schedule.add("both", 2.0, (), [short, long])
    schedule.add("late", 3.0, (2,), [short])
    assert schedule.run() == 43.0
    assert schedule.path() == {"late": 3.0, "long": 40.0}
    assert (schedule.busy(1), schedule.busy(2)) == (5.0, 43.0)


def test_a_task_with_a_lead_begins_with_the_one_before_and_ends_no_sooner_than_its_own_time_takes() -> None:
    schedule = Schedule()
    out = schedule.add("out", 40.0, (1,), [schedule.add("first", 10.0, (1,))])
    into = schedule.add("into", 40.0, (2,), [out], lead_ns=40.0)
    other = schedule.add("into", 30.0, (2,), [schedule.add("other", 12.0)])
    assert schedule.run() == 80.0
    assert (schedule.ends[into], schedule.ends[other]) == (50.0, 80.0), "who is ready first gets it first"
    assert schedule.path() == {"first": 10.0, "out": 40.0, "into": 30.0}
