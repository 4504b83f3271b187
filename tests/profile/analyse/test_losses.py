"""Every instant of every member is in one class, also when everything overlaps."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.profile.analyse.classes import CLASSES, LossClass, register
from sdi.profile.analyse.figures import figures
from sdi.profile.analyse.losses import Losses, losses
from sdi.profile.analyse.model import (
    AssignmentSpan,
    Call,
    Command,
    CopySpan,
    LaunchShape,
    LaunchSpan,
    Member,
    Profile,
    SessionProfile,
    Turn,
    WorkSpan,
)
from sdi.profile.analyse.tables import make_tables
from sdi.profile.show.text import table_text, tables_csv

MEMBERS = (Member("a", "cpu"), Member("b", "cpu"))
EMPTY = SessionProfile(1, 1, MEMBERS, 1000, 2000, True)


def launched(
    session: SessionProfile, command: int, assignments: dict[int, tuple[int, int]], shape: int = 1
) -> SessionProfile:
    """``session`` with one more launch of kernel "k": its assignments by member."""
    start = min(start for start, _ in assignments.values())
    end = max(end for _, end in assignments.values())
    return replace(
        session,
        commands=(*session.commands, Command(command, 1, "launch", 0, start - 5, start - 5, start, end, 0)),
        shapes=(
            LaunchShape(
                shape, "k", (8, 1, 1), (1, 1, 1), len(assignments), (len(assignments), 1, 1), "", 1, 0
            ),
        ),
        launches=(
            *session.launches,
            LaunchSpan(command, "k", shape, "binding", start - 5, start - 5, start - 5, 0),
        ),
        assignments=(
            *session.assignments,
            *(AssignmentSpan(command, 0, member, 4, *span, 0) for member, span in assignments.items()),
        ),
    )


def of(session: SessionProfile, calls: tuple[Call, ...] = ()) -> dict[str, int]:
    """Class -> ns over both members, without zeros."""
    found = losses(session, calls)
    totals = of_classes(found)
    return {name: round(totals[name]) for name in CLASSES if totals[name]}


def of_classes(found: Losses) -> Counter[str]:
    """Class -> ns, added up over the members."""
    totals = Counter[str]()
    for (_, name), ns in found.member_ns.items():
        totals[name] += ns
    return totals


def test_an_idle_session_is_the_applications_time() -> None:
    assert of(EMPTY) == {"application": 2000}


def test_what_ends_early_by_chance_is_tail_and_what_always_does_is_imbalance() -> None:
    session = launched(EMPTY, 1, {0: (1100, 1200), 1: (1100, 1160)})
    assert of(session) == {"computing": 160, "imbalance": 40, "driver": 10, "application": 1790}
    both = launched(session, 2, {0: (1300, 1360), 1: (1300, 1400)})
    assert of(both) == {"computing": 320, "tail": 80, "driver": 20, "application": 1580}


def test_a_member_that_a_launch_leaves_out_waits_for_whole() -> None:
    assert of(launched(EMPTY, 1, {1: (1100, 1200)})) == {
        "computing": 100, "whole": 100, "driver": 10, "application": 1790,
    }  # fmt: skip


def test_a_member_waits_for_the_launch_that_others_compute_or_that_it_has_a_part_of() -> None:
    slow = {0: (1100, 1110), 1: (1100, 1190)}
    session = launched(EMPTY, 1, {0: (1080, 1090), 1: (1190, 1200)})
    session = launched(session, 2, slow)
    session = replace(session, launches=(session.launches[0], replace(session.launches[1], kernel="slow")))
    found = Counter(losses(session).member_ns)
    # Member 0 was through with "k" early: but for 10 ns after "slow" it waits for that.
    assert found["slow", "tail"] + found["slow", "imbalance"] == 80
    assert found["k", "tail"] + found["k", "imbalance"] == 10
    late = launched(
        launched(EMPTY, 1, {0: (1100, 1110), 1: (1100, 1200)}), 2, {0: (1150, 1160), 1: (1100, 1100)}
    )
    late = replace(late, launches=(late.launches[0], replace(late.launches[1], kernel="late")))
    assert losses(late).member_ns["late", "driver"] >= 40


def test_who_is_through_while_nobody_computes_waits_for_what_holds_up_the_others() -> None:
    """A driver that compiles for one member only is no tail of the others."""
    session = launched(EMPTY, 1, {0: (1100, 1110), 1: (1190, 1200)})
    copied = replace(session, copies=(CopySpan(1, 0, 2, 64, "k: x", False, 1150, 1180, 0),))
    assert of(session) == {"computing": 20, "driver": 10 + 80 * 2 + 10, "tail": 10, "application": 1790}
    assert of(copied)["copies"] == 60


def test_an_assignment_that_starts_late_waits_for_its_copy_or_its_driver_or_the_service() -> None:
    session = launched(EMPTY, 1, {0: (1100, 1200), 1: (1150, 1200)})
    copied = replace(session, copies=(CopySpan(1, 0, 2, 64, "k: x", False, 1110, 1140, 0),))
    busy = replace(session, turns=(Turn(1095, 1120, 5),))
    assert of(session) == {"computing": 150, "driver": 60, "application": 1790}
    assert of(copied) == {"computing": 150, "copies": 30, "driver": 30, "application": 1790}
    assert of(busy) == {"computing": 150, "scheduling": 30, "driver": 30, "application": 1790}


def test_bytes_that_go_over_a_network_are_a_class_of_their_own() -> None:
    far = replace(EMPTY, members=(MEMBERS[0], Member("b on node 1", "cpu", 1, False)))
    near = replace(EMPTY, members=(MEMBERS[0], Member("b on node 1", "cpu", 1, True)))
    for session, name in ((far, "network"), (near, "copies")):
        launched_late = launched(session, 1, {0: (1100, 1200), 1: (1150, 1200)})
        copied = replace(launched_late, copies=(CopySpan(1, 1, 2, 64, "k: x", False, 1110, 1140, 0),))
        assert of(copied) == {"computing": 150, name: 30, "driver": 30, "application": 1790}
        alone = replace(session, copies=(CopySpan(1, 0, 2, 64, "k: x", False, 1110, 1140, 0),))
        assert of(alone) == {name: 60, "application": 1940}, "the other member waits for it too"


def test_merges_builds_turns_and_transfers_have_their_classes() -> None:
    session = launched(EMPTY, 1, {0: (1100, 1200), 1: (1100, 1200)})
    session = replace(
        session,
        works=(WorkSpan(1, "merge", -1, 64, "k: x", 1200, 1220, 0),),
        builds=(Turn(1010, 1030, 5),),
        turns=(Turn(1040, 1050, 5), Turn(1405, 1410, 5)),
        commands=(*session.commands, Command(2, 1, "read", 64, 1400, 1400, 1430, 1450, 0)),
    )
    assert of(session) == {
        "computing": 200, "consistency": 40, "analysis": 40, "copies": 40, "scheduling": 10, "driver": 60,
        "application": 1610,
    }  # fmt: skip


def test_a_command_for_which_nothing_happens_is_unexplained() -> None:
    stuck = Command(1, 1, "fill", 64, 1100, 1100, 1110, 1200, 0)
    assert of(replace(EMPTY, commands=(stuck,))) == {
        "driver": 20, "unexplained": 180, "application": 1800,
    }  # fmt: skip


def test_time_in_calls_with_nothing_to_do_is_scheduling() -> None:
    assert of(EMPTY, (Call("clFinish", 1, 1500, 1600),)) == {"scheduling": 200, "application": 1800}


spans = st.tuples(st.integers(900, 2100), st.integers(0, 400)).map(lambda one: (one[0], one[0] + one[1]))


def drawn(
    launches: list[dict[int, tuple[int, int]]],
    copies: list[tuple[int, int]],
    turns: list[tuple[int, int]],
    waits: list[tuple[int, int]],
) -> SessionProfile:
    """A session in which anything may overlap.  ``waits``: commands queued and submitted."""
    session = EMPTY
    for command, assignments in enumerate(launches, 1):
        session = launched(session, command, assignments)
    late = [Command(100 + n, 1, "fill", 8, *span, span[1], span[1], 0) for n, span in enumerate(waits)]
    return replace(
        session,
        copies=tuple(CopySpan(1, 0, 1, 8, "k: x", False, *span, 0) for span in copies),
        turns=tuple(Turn(*span, 0) for span in turns),
        commands=(*session.commands, *late),
    )


sessions = st.builds(
    drawn,
    st.lists(st.dictionaries(st.integers(0, 1), spans, min_size=1), max_size=6),
    st.lists(spans, max_size=5),
    st.lists(spans, max_size=5),
    st.lists(spans, max_size=3),
)


@settings(max_examples=200, deadline=None)
@given(sessions, st.lists(spans, max_size=5))
def test_the_classes_add_up_whatever_overlaps(session: SessionProfile, calls: list[tuple[int, int]]) -> None:
    add_up(session, calls)


@settings(max_examples=100, deadline=None)
@given(sessions, st.lists(spans, max_size=5), st.sampled_from([*CLASSES, ""]))
def test_the_classes_add_up_with_one_from_outside_wherever_it_is_tried(
    session: SessionProfile, calls: list[tuple[int, int]], before: str
) -> None:
    with registered(WAITING, before):
        add_up(session, calls)


def add_up(session: SessionProfile, calls: list[tuple[int, int]]) -> None:
    found = losses(session, [Call("clFinish", 1, *span) for span in calls])
    found.check()
    assert of_classes(found).total() / found.members == pytest.approx(1000)


WAITING = LossClass(
    "waiting",
    "commands wait for each other, or for events of the application",
    "#5a7d2a",
    lambda instant: next(iter(instant.now.waiting.values()), None) if not instant.now.outstanding else None,
)


@contextmanager
def registered(loss: LossClass, before: str = "") -> Iterator[None]:
    """A class that the package does not have."""
    register(loss, before)
    yield
    del CLASSES[loss.name]


def test_a_class_from_outside_is_in_tables_files_figures_and_charts() -> None:
    """It takes its time from those behind it, and one call makes it known to all that shows losses."""
    held = Command(1, 1, "fill", 64, 1100, 1300, 1300, 1400, 0)
    session = replace(EMPTY, commands=(held,))
    assert of(session) == {"unexplained": 200, "application": 1800}
    with registered(WAITING, before="application"):
        assert of(session) == {"waiting": 400, "unexplained": 200, "application": 1400}
        tables = make_tables(Profile((session,)))
        assert figures(tables)["waiting_percent"] == pytest.approx(20)
        assert " waiting " in table_text(tables) and "waiting_ns" in tables_csv(tables)["losses.csv"]
        page = pytest.importorskip("sdi.profile.show.page", reason="plotly is not installed")
        bars = {bar["name"]: bar for bar in page.idle_chart(tables)["data"]}
        assert bars["waiting"]["marker"]["color"] == WAITING.colour and WAITING.says in page.page(
            Profile((session,)), tables
        )
    assert "waiting" not in CLASSES and of(session) == {"unexplained": 200, "application": 1800}


def test_two_classes_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="'tail' is there already"):
        register(replace(WAITING, name="tail"))
