"""Members whose operations go through streams: what keeps back what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from tests.devices.conftest import failure, finish
from tests.devices.testing.streamed import Streams

BROKEN = DeviceFailed("a member", "it is broken")


@pytest.fixture
def streams() -> Iterator[Streams]:
    made = Streams("member 0")
    yield made
    made.close()


@pytest.fixture
def ran() -> list[str]:
    return []


def noting(ran: list[str], name: str) -> Callable[[], Ticket]:
    def start() -> Ticket:
        ran.append(name)
        return completed()

    return start


def test_what_waits_in_a_stream_keeps_back_what_was_given_later(streams: Streams, ran: list[str]) -> None:
    gate, first = Ticket(), Ticket()
    copied = streams.issue("up", (), lambda: first)
    held = streams.issue("done", [gate], noting(ran, "held"))
    behind = streams.issue("done", [copied], noting(ran, "behind the copy"))
    other = streams.issue("down", (), noting(ran, "other"))
    finish(other)
    gate.complete()
    assert ran == ["other"] and not held.done
    first.complete()
    for ticket in (behind, held):
        finish(ticket)
    assert ran == ["other", "behind the copy", "held"]


def test_what_is_to_come_after_all_is_given_when_all_is_and_fails_with_none(
    streams: Streams, ran: list[str]
) -> None:
    gate, late = Ticket(), Ticket()
    said: list[str] = []
    held = streams.issue("done", [gate], noting(ran, "held"))
    last = streams.issue("round", (), noting(ran, "round"), lambda: said.append("given"), [late])
    late.complete(BROKEN)
    assert not said
    gate.complete(BROKEN)
    assert failure(held) is BROKEN and said == ["given"]
    finish(last)
    assert ran == ["round"]


def test_what_could_not_start_fails_when_the_member_is_closed(ran: list[str]) -> None:
    streams = Streams("member 0")
    held = streams.issue("done", [Ticket()], noting(ran, "held"))
    behind = streams.issue("up", [held], noting(ran, "behind"))
    streams.close()
    for ticket in (held, behind, streams.issue("up", (), noting(ran, "late"))):
        assert isinstance(failure(ticket), DeviceFailed)
    assert not ran
