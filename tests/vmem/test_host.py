"""The host as an executor."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sdi.devices.ticket import Ticket
from sdi.region import Region
from sdi.vmem.host import HostWorker
from tests.devices.conftest import finish


@pytest.fixture
def host() -> Iterator[HostWorker]:
    made = HostWorker(3)
    yield made
    made.close()


def test_a_task_runs_once_all_is_done_that_it_waits_for(host: HostWorker) -> None:
    gate, ran = Ticket(), threading.Event()
    ticket = host.submit(ran.set, [gate])
    assert not ticket.done and not host.is_idle()
    gate.complete()
    finish(ticket)
    assert ran.is_set() and host.is_idle() and 0 < ticket.start_ns <= ticket.end_ns


def test_what_waits_for_a_failure_does_not_run_and_fails_with_it(host: HostWorker) -> None:
    failure, ran, failed = ValueError("before"), threading.Event(), Ticket()
    ticket = host.submit_all([ran.set, ran.set], [failed])
    failed.complete(failure)
    assert ticket.error is failure and not ran.is_set()


@pytest.mark.logs("a host task failed")
def test_a_task_that_raises_fails_its_ticket_and_the_thread_goes_on(host: HostWorker) -> None:
    failure = ValueError("a bug")

    def fail() -> None:
        raise failure

    for _ in range(2 * host.threads):
        ticket = host.submit_all([fail, lambda: None], [])
        with pytest.raises(ValueError, match="a bug"):
            finish(ticket)
    finish(host.submit(lambda: None, []))


@pytest.mark.parametrize("rows", [1, 7, 3000])
def test_copies_of_any_size_leave_what_lies_between(host: HostWorker, rows: int) -> None:
    """The largest is divided among the threads."""
    random = np.random.default_rng(rows)
    source, target = (random.integers(0, 256, 3000 * 4096, np.uint8) for _ in range(2))
    expected = target.copy()
    levels = ((4096, rows),) if rows > 1 else ()
    from_, to = Region(5, 2000, levels), Region(1000, 2000, levels)
    for run, there in zip(from_.runs(), to.runs(), strict=True):
        expected[there.start : there.stop] = source[run.start : run.stop]
    finish(host.copy(memoryview(source), from_, memoryview(target), to, []))
    assert np.array_equal(target, expected)
