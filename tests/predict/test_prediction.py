"""What recorded programs take on other numbers of members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sdi.commands import Fill
from sdi.predict.advice import losses, sentence
from sdi.predict.prediction import RunPrediction, group_times, predict
from sdi.predict.program import Enqueued
from sdi.predict.rates import given
from sdi.predict.simulate import Speed
from tests.predict.recorded import H200, ITEMS, LOCAL, N, built, launch, program, read, whole, write


@pytest.fixture(scope="module")
def packed() -> bytes:
    return built()


def test_what_can_not_be_split_says_why(packed: bytes) -> None:
    found = predict(program(packed, write(1), launch("first", 1, ns=1e7), read(1, 2)), H200, (2,))
    kernel = found.on[0].kernel("first")
    assert kernel is not None and dict(kernel.assignments) == {1: 1}
    assert "updates global memory atomically" in kernel.why_fewer
    (held,) = [each for each in losses(found, found.on[0]) if each.cause == "whole kernels"]
    assert "1 of its 1 launches run whole on one of 2 members: " in sentence(held, found.on[0])
    assert held.ns == pytest.approx(5e6)


def speed_ups(found: RunPrediction) -> list[float]:
    return [found.speed_up(on) for on in found.on]


def test_more_members_are_faster_where_kernels_are_long(packed: bytes) -> None:
    steps = [launch("step", 2 - k % 2, 1 + k % 2, N, ns=1e9) for k in range(4)]
    found = predict(program(packed, write(1), *steps, read(1, 5)), H200, (1, 2, 4, 64))
    one, two, four, most = speed_ups(found)
    assert one == 1.0 and 1.95 < two <= 2 and 3.9 < four <= 4
    assert most <= 64 * 1.01 and found.on[-1].machines == 8
    assert sum(found.on[1].by_cause().values()) == pytest.approx(found.on[1].end_ns)


def test_kernels_may_be_faster_than_recorded(packed: bytes) -> None:
    made = program(packed, launch("step", 2, 1, N, ns=1e9))
    slow, fast = predict(made, H200, (1,)), predict(made, H200, (1,), 2.0)
    assert fast.one.by_cause()["kernels"] == slow.one.by_cause()["kernels"] / 2
    assert fast.own.by_cause()["kernels"] == slow.one.by_cause()["kernels"], (
        "what was measured is of the slow ones"
    )


def test_cpu_members_of_one_machine_are_no_faster(packed: bytes) -> None:
    costs = replace(given()["cpu"], members_per_node=2)
    steps = [launch("step", 2 - k % 2, 1 + k % 2, N, ns=1e9) for k in range(4)]
    found = predict(program(packed, write(1), *steps, read(1, 5), kind="cpu"), costs, (2, 4))
    assert [on.machines for on in found.on] == [1, 2]
    two, four = speed_ups(found)
    assert two == pytest.approx(1.0, rel=0.01) and 1.8 < four <= 2


def test_fills_and_copies_take_what_they_took(packed: bytes) -> None:
    fill = Enqueued(Fill(1, whole(), b"\0"), 1, "", 0, 0.0, 0.0, 0, 4000.0, 0.0)
    found = predict(program(packed, fill, launch("step", 2, 1, N, after=1)), H200, (1,))
    assert any(part.cause == "kernels" and part.ns == 4000.0 and not part.kernel for part in found.one.parts)


def test_times_that_sdi_would_have_learnt(packed: bytes) -> None:
    times = group_times(program(packed, launch("step", 2, 1, N)), H200, Speed(1.0, 4, is_shared=False))
    size = (1, (ITEMS // LOCAL).bit_length())
    assert times("step", size, 1) == times("step", size, 4) == 1e6 / (ITEMS // LOCAL)
    assert times("step", (2, 3), 1) is None and times("other", size, 1) is None
    few = group_times(program(packed, launch("step", 2, 1, N)), H200, Speed(1.0, 1024, is_shared=False))
    one, two = few("step", size, 1), few("step", size, 2)
    assert one is not None and two == 2 * one, "half of the groups take as long"
