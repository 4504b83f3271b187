"""A build that takes long says so, where somebody waits for it, and one that does not says nothing."""

from __future__ import annotations

import threading

import pytest

from sdi.service import progress


def test_a_build_that_takes_long_tells_how_long_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(progress, "_EVERY_S", 1e-3)
    said: list[str] = []
    twice = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            twice.set()

    def work(given: str) -> str:
        assert twice.wait(60)
        return f"{given} is built"

    assert progress.told(work, 2, tell)("it") == "it is built"
    assert said[0] == "sdi: building a program for 2 members: 0 s ..."
    assert said[-1] == "" and said.count("") == 1, "the line goes away once, before the application goes on"


def test_a_build_that_is_over_in_time_says_nothing_even_if_it_fails() -> None:
    said: list[str] = []

    def work() -> None:
        raise ValueError("no such function")

    with pytest.raises(ValueError, match="no such function"):
        progress.told(work, 1, said.append)()
    assert said == []


def test_only_who_waits_at_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert progress.is_watched({progress.UNDER_RUN: "/proc/1/fd/3"})
    assert not progress.is_watched({}), "not started by sdi run"
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert not progress.is_watched({progress.UNDER_RUN: "/proc/1/fd/3"})
