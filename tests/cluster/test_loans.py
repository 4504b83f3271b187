"""Memory that is lent to other processes: when it is taken again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sdi.cluster.loans import Loan, Loans
from sdi.cluster.records import RecordKind, records
from sdi.cluster.shared import Pool
from sdi.cluster.staging import Staging
from sdi.cluster.transport import Traffic
from sdi.devices.ticket import Ticket

TO, KEY = 2, 7


class _Told:
    """A transport that keeps what it is given.  Implements ``Transport`` as far as loans need it."""

    def __init__(self) -> None:
        self.traffic = {TO: Traffic()}
        self.batches: list[list[tuple[RecordKind, tuple[int, ...]]]] = []

    def send(self, to: int, batch: bytes) -> None:
        assert to == TO
        self.batches.append([(record.kind, record.fields) for record in records(memoryview(batch))])


@pytest.fixture
def told() -> _Told:
    return _Told()


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(1 << 20)
    yield made
    made.close()


@pytest.fixture
def loans(told: _Told, pool: Pool) -> Loans:
    staging = Staging()
    staging.pool = pool
    return Loans(told, staging)  # type: ignore[arg-type]


def lent(loans: Loans, pool: Pool, read: Ticket | None = None) -> tuple[Loan, int]:
    """Something that is lent, and where it lies."""
    memory = pool.take(100)
    assert memory is not None
    loan = Loan(TO, memory[:100], memory, pool.place(memory), True, Ticket(), read)
    loans.lend(loan, KEY, 0, 3)
    return loan, pool.place(loan.memory)


def is_taken_again(pool: Pool, place: int) -> bool:
    memory = pool.take(100)
    assert memory is not None
    found = pool.place(memory)
    if found != place:
        pool.give(memory)
    return found == place


def test_it_is_taken_again_when_it_was_returned(loans: Loans, pool: Pool, told: _Told) -> None:
    loan, place = lent(loans, pool)
    assert told.batches == [[(RecordKind.DATA, (0, 100, place, 3))]] and loan.is_said
    assert not is_taken_again(pool, place)
    loans.returned(place)
    assert loan.returned.done and is_taken_again(pool, place)


def test_what_is_returned_while_a_device_may_write_there_is_taken_again_after_that(
    loans: Loans, pool: Pool
) -> None:
    read = Ticket()
    loan, place = lent(loans, pool, read)
    loans.returned(place)
    assert not loan.returned.done and not is_taken_again(pool, place)
    read.complete()
    assert loan.returned.done and is_taken_again(pool, place)


def test_nobody_returns_what_was_lent_to_who_is_lost(loans: Loans, pool: Pool, told: _Told) -> None:
    first, place = lent(loans, pool)
    loans.lost(TO)
    assert first.returned.done and is_taken_again(pool, place)
    second, _ = lent(loans, pool)
    assert second.returned.done and len(told.batches) == 1


def test_what_nobody_waits_for_is_said_with_the_next_thing(loans: Loans, pool: Pool, told: _Told) -> None:
    loans.give_back(TO, 64, is_awaited=False)
    loans.give_back(TO, 128, is_awaited=False)
    assert not told.batches
    _, place = lent(loans, pool)
    data = (RecordKind.DATA, (0, 100, place, 3))
    assert told.batches == [[(RecordKind.RETURN, (64,)), (RecordKind.RETURN, (128,)), data]]
    loans.give_back(TO, 192)
    assert told.batches[1:] == [[(RecordKind.RETURN, (192,))]]


def test_it_is_said_by_itself_when_it_is_much(loans: Loans, told: _Told) -> None:
    for place in range(100):
        loans.give_back(TO, place, is_awaited=False)
    said = [fields[0] for batch in told.batches for _, fields in batch]
    assert said == list(range(len(said))) and len(said) > 60 and len(told.batches) < 5
