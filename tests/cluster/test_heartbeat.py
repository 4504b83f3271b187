"""Who is silent for too long, counted in ticks, and what ticks."""

from __future__ import annotations

import threading

import pytest

from sdi.cluster import heartbeat
from sdi.cluster.heartbeat import BEAT_S, Silence, Ticking
from sdi.cluster.records import RecordKind, packed
from sdi.devices.opencl.member import DriverDevice
from sdi.devices.ticket import Ticket
from tests.cluster import jobs

PATIENCE_S = 60.0


def test_who_owes_something_and_says_nothing_for_the_whole_time_is_silent_for_too_long() -> None:
    silence = Silence(3 * BEAT_S)
    assert [silence.tick([1, 2], [2]) for _ in range(5)] == [[], [], [], [1], [1]]


def test_a_word_within_that_time_is_enough() -> None:
    silence = Silence(3 * BEAT_S)
    for _ in range(4):
        assert [silence.tick([1], []) for _ in range(3)] == [[], [], []]
        assert silence.tick([1], [1]) == []


def test_who_owes_nothing_may_be_silent_and_begins_anew() -> None:
    silence = Silence(2 * BEAT_S)
    assert [silence.tick([1], []), silence.tick([1], []), silence.tick([], [])] == [[], [], []]
    assert [silence.tick([1], []) for _ in range(3)] == [[], [], [1]]


def test_a_node_says_that_it_is_there_while_it_has_something_to_do_and_says_nothing_else(
    driver: DriverDevice,
) -> None:
    with jobs.threads(1) as made:
        (node,), (transport,) = made.nodes, made.others
        (member,) = jobs.open_on_nodes(made.job, driver, 1)
        beat = packed(RecordKind.BEAT, 0, 0)

        def beats() -> list[bool]:
            before = len(transport.sent)
            for _ in range(3):
                node.beat()
            return [batch == beat for _, batch in transport.sent[before:]]

        assert beats() == [], "nothing is to do"
        other, done = Ticket(), threading.Event()
        ticket = member.fill(member.allocate(64), 0, 64, bytes(4), [other])
        ticket.when_done(lambda _: done.set())
        member.flush()
        made.job.nodes[1].question(RecordKind.CLOCK)()  # it has received what came before
        node.beat()  # it has just answered
        assert beats() == [True] * 3
        other.complete()
        assert done.wait(PATIENCE_S)
        node.beat()
        assert beats() == []
        assert not made.job.refused and made.job._transport.heard() == {1}


@pytest.mark.logs("heartbeat")
def test_ticks_go_on_after_one_that_failed_and_end_with_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.0)
    done, ticks = threading.Event(), [0]

    def tick() -> None:
        ticks[0] += 1
        if ticks[0] == 1:
            raise ValueError("once")
        done.set()

    ticking = Ticking("sdi-ticks", tick)
    assert done.wait(PATIENCE_S)
    ticking.close()
    count = ticks[0]
    assert count >= 2 and "sdi-ticks" not in {thread.name for thread in threading.enumerate()}
