"""Calls that are made at a time."""

from __future__ import annotations

import threading
import time

from tests.devices.testing.due import DueCalls


def test_calls_come_when_they_are_due_and_equal_ones_in_order() -> None:
    due, found, done = DueCalls("sdi-test-due"), [], threading.Event()
    now_ns = time.monotonic_ns()
    due.at(now_ns + 40_000_000, lambda: (found.append("late"), done.set()))  # type: ignore[func-returns-value]
    for number in range(3):
        due.at(now_ns + 10_000_000, lambda number=number: found.append(number))  # type: ignore[misc]
    assert done.wait(60) and time.monotonic_ns() >= now_ns + 40_000_000
    due.close()
    assert found == [0, 1, 2, "late"]


def test_closing_makes_what_is_left_at_once() -> None:
    due, found = DueCalls("sdi-test-due"), []
    due.at(time.monotonic_ns() + int(3600e9), lambda: found.append("in an hour"))
    due.close()
    assert found == ["in an hour"]
