"""A node's part of a recording: what is issued again, in which order, and with which arguments."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from sdi.cluster.arguments import bound
from sdi.cluster.mailboxes import Mailboxes, RepeatedRound
from sdi.cluster.part import KeptOperation, KeptPart, KeptRecord, KeptUse, Part, replay_name
from sdi.cluster.records import NodeRecord, RecordKind
from sdi.cluster.transport import Traffic, Transport
from sdi.devices.issue import SEEN
from sdi.devices.signals import Mailbox, RepeatedCopy
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.dependencies import Dependencies, Use

PROGRAM, BUFFER = 5, 6
WHOLE = ByteRange(0, 64)


def use(memory: int, reads: bool) -> KeptUse:
    return KeptUse(9, memory, 64, (WHOLE,) if reads else (), () if reads else (WHOLE,))


def operation(kind: RecordKind, ticket: int, fields: tuple[int, ...], reads: bool) -> KeptOperation:
    return KeptOperation((KeptRecord(kind, 0, ticket, fields, b""),), (use(1, reads),))


def launch(name: str = "grow") -> KeptOperation:
    tail = bound(name, [BUFFER, b"\1\0\0\0"], lambda made: int(str(made)))
    kept = KeptRecord(RecordKind.LAUNCH, 0, 0, (PROGRAM, 4, 1, 1, 16, 1, 1, 1), tail)
    return KeptOperation((kept,), (use(1, False),))


class Node:
    """What a part is issued on: ``issued`` gets records with what they wait for."""

    def __init__(self) -> None:
        self.device = NullDevice(0, keeps=True)
        self.dependencies = Dependencies(64)
        self.buffer: object = 640
        self.issued: list[tuple[NodeRecord, list[Ticket], Ticket]] = []
        self.names: list[int] = []

    def part(
        self,
        *operations: KeptOperation,
        holes: tuple[int, ...] = (),
        places: dict[int, int] | None = None,
        mailboxes: object = None,
    ) -> Part:
        def used(kept: KeptUse) -> Use:
            assert (kept.buffer, kept.nbytes) == (9, 64)
            return self.dependencies.use(kept.reads, kept.writes)

        objects = {PROGRAM: "program", BUFFER: self.buffer}
        kept = pickle.dumps(KeptPart(operations, holes, places or {}))
        return Part(kept, [self.device], objects, used, cast(Mailboxes, mailboxes))

    def issue(self, record: NodeRecord, wait: list[Ticket], name: int) -> Ticket:
        ticket = Ticket()
        self.issued.append((record, wait, ticket))
        self.names.append(name)
        return ticket


def test_copies_have_other_keys_in_each_replay() -> None:
    node = Node()
    part = node.part(
        operation(RecordKind.SEND, 3, (1, 0, 1, 64, 64, 2, 0), True),
        operation(RecordKind.RECEIVE, 0, (1, 0, 1, 64, 64, 0, 2, 4), False),
    )
    for number in (1, 2):
        part.replay(replay_name(number), b"", SEEN, False, {}, node.issue)
    assert [(record.ticket, record.fields[-1]) for record, _, _ in node.issued] == 2 * [(3, 0), (0, 4)]
    assert node.names == [replay_name(number) for number in (1, 1, 2, 2)]


def test_operations_wait_for_those_of_this_replay_and_of_others_that_conflict() -> None:
    node = Node()
    reads, writes = (operation(RecordKind.COPY, 0, (1, 2), is_read) for is_read in (True, False))
    node.part(reads, writes).replay(replay_name(1), b"", SEEN, False, {}, node.issue)
    node.part(reads).replay(replay_name(2), b"", SEEN, False, {}, node.issue)
    (_, none, read), (_, before, wrote), (_, behind, _) = node.issued
    assert (none, before, behind) == ([], [read], [wrote])


def test_what_else_an_operation_waits_for_comes_first() -> None:
    node, other = Node(), Ticket()
    part = node.part(operation(RecordKind.COPY, 0, (1, 2), True), operation(RecordKind.COPY, 0, (1, 2), True))
    part.replay(replay_name(1), b"", SEEN, False, {1: [other]}, node.issue)
    assert [wait for _, wait, _ in node.issued] == [[], [other]]


def test_arguments_that_change_are_set_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    launched: list[object] = []
    monkeypatch.setattr(
        node.device, "launch", lambda handle, *_: launched.append(handle) or Ticket(node.device)
    )
    part = node.part(launch(), holes=(1,))
    for value in (7, 8, 7):
        given = bound("", [value.to_bytes(4, "little")], lambda made: 0)
        tickets, launches = part.replay(replay_name(value), given, SEEN, False, {}, node.issue)
        assert tickets == launches and len(launches) == 1
    assert launched == [(640, b"\7\0\0\0"), (640, b"\10\0\0\0"), (640, b"\7\0\0\0")]


def test_a_launch_that_can_t_be_bound_fails_its_ticket_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()

    def refuse(*_: object) -> None:
        raise RuntimeError("no kernel of that name")

    monkeypatch.setattr(node.device, "bind", refuse)
    copy = operation(RecordKind.COPY, 0, (1, 2), True)
    (first, second), _ = node.part(launch(), copy).replay(replay_name(1), b"", SEEN, False, {}, node.issue)
    assert isinstance(first.error, RuntimeError) and not second.done
    assert node.issued[0][1] == [first], "who reads what it should have written fails too"


def test_copies_go_out_where_a_launch_has_a_buffer_that_was_not_made() -> None:
    """Another node waits for them, or sends to this one."""
    node = Node()
    node.buffer = DeviceFailed("gpu", "no memory")
    copy = operation(RecordKind.SEND, 3, (1, 0, 1, 64, 64, 2, 0), True)
    (first, second), _ = node.part(launch(), copy).replay(replay_name(1), b"", SEEN, False, {}, node.issue)
    assert first.error is node.buffer and not second.done
    assert [(record.kind, wait) for record, wait, _ in node.issued] == [(RecordKind.SEND, [first])]


def test_a_copy_in_parts_is_done_when_all_are_and_fails_with_any() -> None:
    node = Node()
    parts = tuple(KeptRecord(RecordKind.RECEIVE, 0, 0, (1, 0, 1, 32, 32, 0, 2, key), b"") for key in (4, 5))
    part = node.part(KeptOperation(parts, (use(1, False),)), operation(RecordKind.COPY, 0, (1, 2), True))
    (received, read), _ = part.replay(replay_name(1), b"", SEEN, False, {}, node.issue)
    assert [wait for _, wait, _ in node.issued] == [[], [], [received]], "one does not wait for the other"
    node.issued[0][2].complete(DeviceFailed("gpu", "lost"))
    assert not received.done
    node.issued[1][2].complete()
    assert isinstance(received.error, DeviceFailed) and not read.done
    node.part(operation(RecordKind.COPY, 0, (1, 2), True)).replay(
        replay_name(2), b"", SEEN, False, {}, node.issue
    )
    assert node.issued[-1][1] == [received], "what it left is poisoned"


class Rounds:
    """Mailboxes of which it is remembered what is asked of them."""

    def __init__(self) -> None:
        self.used: list[tuple[int, int]] = []
        self.copies: Sequence[RepeatedCopy] = ()
        self.sent: dict[int, int] = {}
        self.issued: list[tuple[int, list[Ticket], Ticket]] = []
        self.given_up = 0

    def use(self, place: int, nbytes: int) -> Mailbox:
        self.used.append((place, nbytes))
        blank = memoryview(b"")
        return Mailbox((blank, blank), blank, blank)

    def give_up(self) -> None:
        self.given_up += 1

    def round_of(
        self, _: object, copies: Sequence[RepeatedCopy], sent: dict[int, int], uses: Sequence[Use]
    ) -> RepeatedRound:
        self.copies, self.sent = copies, sent
        transport = SimpleNamespace(traffic={rank: Traffic() for rank in sent})
        return RepeatedRound(cast(Mailboxes, self), self, cast(Transport, transport), sent, uses)

    def began(self, number: int) -> None: ...

    def ended(self, ticket: Ticket) -> None: ...

    @property
    def late(self) -> list[Ticket]:
        return []

    def verdict(self) -> BaseException | None:
        return None

    def issue(
        self,
        number: int,
        wait: Sequence[Ticket],
        after: Sequence[Ticket],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        self.issued.append((number, list(wait), Ticket()))
        return self.issued[-1][-1]


HALOS = (
    operation(RecordKind.SEND, 3, (BUFFER, 0, 2, 8, 32, 2, 1), True),
    operation(RecordKind.RECEIVE, 0, (BUFFER, 16, 1, 8, 8, 1, 2, 4), False),
    launch(),
)
PLACES = {3: 1 << 20, 4: 2 << 20}


def test_copies_of_a_firm_replay_are_one_round_before_its_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    node, rounds, waited = Node(), Rounds(), list[Sequence[Ticket]]()
    monkeypatch.setattr(node.device, "launch", lambda *how: waited.append(how[4]) or Ticket(node.device))
    part = node.part(*HALOS, places=PLACES, mailboxes=rounds)
    assert rounds.used == [(1 << 20, 16), (2 << 20, 8)] and rounds.sent == {2: 16}
    assert [(each.region, each.is_sent) for each in rounds.copies] == [
        (Region(0, 8, ((32, 2),)), True),
        (Region(16, 8), False),
    ]
    other, launched = Ticket(), list[list[Ticket]]()
    for number in (1, 2):
        before = {1: [other], 2: [other]} if number == 1 else {}
        tickets, launches = part.replay(replay_name(number), b"", SEEN, True, before, node.issue)
        copied = rounds.issued[-1][-1]
        assert tickets == [copied, copied, *launches] and len(launches) == 1
        assert waited[-1] == ([other, copied] if number == 1 else [copied])
        launched.append(launches)
    (_, first, _), (_, second, _) = rounds.issued
    assert [number for number, *_ in rounds.issued] == [1, 2] and first == [other]
    assert second == launched[0] and not node.issued, "nothing is said to anybody"


def test_the_same_part_goes_record_by_record_where_a_replay_is_not_firm() -> None:
    node, rounds = Node(), Rounds()
    part = node.part(*HALOS, places=PLACES, mailboxes=rounds)
    part.replay(replay_name(1), b"", SEEN, False, {}, node.issue)
    assert [record.kind for record, _, _ in node.issued] == [RecordKind.SEND, RecordKind.RECEIVE]
    assert not rounds.issued


def test_a_buffer_that_was_not_made_fails_a_firm_replay_and_ends_all_waits() -> None:
    node, rounds = Node(), Rounds()
    node.buffer = DeviceFailed("gpu", "no memory")
    part = node.part(*HALOS, places=PLACES, mailboxes=rounds)
    assert len(rounds.used) == 2, "those that wait there can be told"
    (sent, received, _), _ = part.replay(replay_name(1), b"", SEEN, True, {}, node.issue)
    assert sent.error is received.error is node.buffer and rounds.given_up == 1
