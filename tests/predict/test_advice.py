"""What holds a program: a sentence for each cause that takes its time, with the figures that it rests on."""

from __future__ import annotations

import pytest

from sdi.predict import simulate
from sdi.predict.advice import losses, sentence
from sdi.predict.prediction import KernelOn, Moved, OnMembers, RunPrediction
from sdi.predict.program import RecordedProgram
from sdi.predict.rates import given
from sdi.predict.simulate import TimePart
from sdi.profile.analyse.model import ExplainedKernel, Member, SessionProfile

EXPLAINED = {"k": ExplainedKernel((("out", "", "may"),), "it is atomic", "use a reduction", ())}
SESSION = SessionProfile(1, 2, (Member("a", "gpu"),), 0, 0, True, explained=EXPLAINED)
PROGRAM = RecordedProgram(SESSION, (), 1e6, 0.0)


def kernel(assignments: int, why: str = "", **by_cause: float) -> KernelOn:
    causes = {name.replace("_", " "): ns for name, ns in by_cause.items()}
    return KernelOn("k", 10, {assignments: 10}, why, 256, 64, sum(causes.values()), causes)


def held(
    parts: list[TimePart],
    here: KernelOn,
    moved: dict[str, Moved] | None = None,
    once: dict[str, Moved] | None = None,
) -> list[str]:
    """The sentences on four members, of a kernel that takes 400 on one."""
    one = OnMembers(1, 1, 1000.0, (), (kernel(1, kernels=400.0),), once or {})
    four = OnMembers(4, 1, sum(part.ns for part in parts), tuple(parts), (here,), moved or {})
    found = RunPrediction(PROGRAM, given()["h200"], one, one, (four,))
    return [sentence(each, four) for each in losses(found, four)]


def test_what_is_shared_out_evenly_is_no_loss_and_little_ones_are_not_named() -> None:
    parts = [TimePart(simulate.KERNELS, "k", "", 100.0), TimePart(simulate.ISSUING, "k", "", 2.0)]
    assert held(parts, kernel(4, kernels=100.0)) == []


def test_the_most_comes_first() -> None:
    parts = [TimePart(simulate.APPLICATION, "", "", 30.0), TimePart(simulate.OWN_COPIES, "", "", 70.0)]
    own, other = held(parts, kernel(4))
    assert own.startswith("70 % application's copies: ") and other.startswith("30 % the application itself: ")


@pytest.mark.parametrize(
    ("cause", "here", "says"),
    [
        (simulate.KERNELS, kernel(4), "256 work-groups of 64 work-items don't fill 4 members evenly"),
        (simulate.KERNELS, kernel(2, "predicted 5 ms"), "it runs in 2 parts on 4 members: predicted 5 ms"),
        (
            simulate.WHOLE,
            kernel(1, "it is atomic"),
            "10 of its 10 launches run whole on one of 4 members: it is atomic; use a reduction",
        ),
        (simulate.WHOLE, kernel(1, "it is small"), "on one of 4 members: it is small"),
        (simulate.ISSUING, kernel(4, issuing=2e5), "0 us on one member, and 20 us until the next"),
        (simulate.PLANNING, kernel(4), "are planned once"),
        (simulate.STARTING, kernel(4), "drivers load code"),
    ],
)
def test_each_cause_has_its_sentence(cause: str, here: KernelOn, says: str) -> None:
    (found,) = held([TimePart(cause, "k", "", 1000.0)], here)
    assert says in found and "all of it kernel k: " in found


def test_merges_say_how_well_writes_are_known() -> None:
    (found,) = held([TimePart(simulate.MERGES, "k", "k: out", 100.0)], kernel(4))
    assert "the same bytes of out, so they are compared (writes are known as: may)" in found


@pytest.mark.parametrize(
    ("cause", "moved", "once", "says"),
    [
        (
            simulate.UPLOADS,
            Moved(4, 4 << 20),
            Moved(1, 1 << 20),
            "4 copies of 1.0 MiB for 'k: in', 4.0 MiB in all, 1.0 MiB on one: several members need the same",
        ),
        (simulate.UPLOADS, Moved(4, 4 << 20), Moved(1, 4 << 20), "4.0 MiB in all, as on one"),
        (
            simulate.BETWEEN,
            Moved(100, 6400),
            Moved(0, 0),
            "100 copies of 64 B for 'k: in', 6.2 KiB in all: short ones, which take their latency",
        ),
        (simulate.NETWORK, Moved(2, 2 << 30), Moved(0, 0), "what one member wrote others read"),
    ],
)
def test_copies_say_how_many_and_what_is_short_or_wanted_by_all(
    cause: str, moved: Moved, once: Moved, says: str
) -> None:
    (found,) = held([TimePart(cause, "k", "k: in", 100.0)], kernel(4), {"k: in": moved}, {"k: in": once})
    assert says in found


def test_of_several_kernels_the_one_with_most_is_named() -> None:
    parts = [TimePart(simulate.PLANNING, "k", "", 75.0), TimePart(simulate.PLANNING, "other", "", 25.0)]
    (found,) = held(parts, kernel(4))
    assert found.startswith("100 % planning and first issue, 75 % of it kernel k: ")
