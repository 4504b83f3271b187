"""What is built on a thread of its own."""

from __future__ import annotations

import threading

import pytest

from sdi.devices.opencl.ahead import BuildsAhead
from sdi.errors import BuildError


def test_all_are_built_in_turn_and_the_thread_ends_when_there_are_none_left() -> None:
    ahead, threads, over = BuildsAhead(), [], threading.Event()
    for _ in range(2):
        over.clear()
        for _ in range(3):
            ahead.add(lambda: threads.append(threading.current_thread()))
        ahead.add(over.set)
        assert over.wait(60)
        ahead.close()
        assert not threads[-1].is_alive()
    assert len(threads) == 6 and {each.name for each in threads} == {"sdi-ahead"}


def test_what_does_not_build_is_left_to_who_needs_it() -> None:
    ahead, over = BuildsAhead(), threading.Event()

    def fail() -> None:
        raise BuildError("no space left")

    ahead.add(fail)
    ahead.add(over.set)
    assert over.wait(60)
    ahead.close()


@pytest.mark.logs("our bug")
def test_what_fails_otherwise_is_said_and_the_others_are_built() -> None:
    ahead, over = BuildsAhead(), threading.Event()

    def fail() -> None:
        raise RuntimeError("of this program")

    ahead.add(fail)
    ahead.add(over.set)
    assert over.wait(60)
    ahead.close()


def test_what_has_not_begun_is_given_up_at_the_end() -> None:
    ahead, begun, may_end, built = BuildsAhead(), threading.Event(), threading.Event(), []

    def build() -> None:
        begun.set()
        assert may_end.wait(60)
        built.append("first")

    ahead.add(build)
    assert begun.wait(60)
    ahead.add(lambda: built.append("second"))
    closing = threading.Thread(target=ahead.close)
    closing.start()
    while ahead._waiting:
        closing.join(0.001)
    may_end.set()
    closing.join(60)
    assert built == ["first"] and not closing.is_alive()


@pytest.mark.parametrize("times", [1, 3])
def test_to_close_what_builds_nothing_is_no_error(times: int) -> None:
    ahead = BuildsAhead()
    for _ in range(times):
        ahead.close()
    assert ahead._thread is None
