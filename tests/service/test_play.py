"""Turns with the player: what Python did is told before the player may rest."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from sdi.player import library as c
from sdi.service.play import Play


class Steps:
    """A player, a session and all else that a turn uses.

    ``given``: what the player returns, with whether more records follow.  ``done``: in which order.
    """

    def __init__(self, *given: tuple[int, bool]) -> None:
        self.given = list(given)
        self.done: list[str] = []
        self.heard: list[str] = []
        self.buffers = self
        self.is_open, self.is_behind, self.is_on, self.has_failed = True, False, True, False
        self.members: list[object] = []
        self.cells = SimpleNamespace(at=[0] * 64)
        self.core = SimpleNamespace(num_known=0, has_succeeded=lambda: True)
        self.host = SimpleNamespace(is_idle=lambda: True)
        self.polling = SimpleNamespace(poll=lambda: None)
        self.play = Play(*[cast(Any, self)] * 4)
        self.player = self.play.player

    def run(self, may_play: bool, plan: Callable[[], None]) -> int:
        self.done.append("plays")
        why = self.given[0][0]
        if why == c.UNKNOWN:
            plan()
        return why

    def record(self) -> tuple[bytes, bool]:
        return b"", self.given.pop(0)[1]

    def take(self, record: bytes, has_more: bool) -> None:
        self.done.append("acts")

    def plan(self, record: bytes) -> None:
        self.done.append(f"plans after {self.heard}")

    def sync(self) -> list[int]:
        self.heard.append("what was played")
        return []

    def recycled(self, takes_over: bool) -> list[object]:
        assert not takes_over, "what is in use yet is the player's"
        self.heard.append("what is free")
        return []

    def drain(self) -> None:
        self.done.append("tells")

    def is_settled(self) -> bool:
        return True

    def awaits_client(self) -> bool:
        return False

    def nodes(self) -> list[object]:
        return []


def test_what_a_record_changed_is_told_before_the_player_waits_for_the_next_one() -> None:
    steps = Steps((c.RECORD, True), (c.RECORD, False), (c.IDLE, False))
    steps.play._take_over = lambda: None  # type: ignore[method-assign]
    steps.play.turn()
    assert steps.done == ["plays", "acts", "plays", "acts", "tells", "plays"]


def test_a_record_is_planned_by_what_was_played_and_nothing_is_taken_over() -> None:
    steps = Steps((c.UNKNOWN, False))
    steps.play._run(True)
    assert steps.done == ["plays", "plans after ['what was played', 'what is free']"]
