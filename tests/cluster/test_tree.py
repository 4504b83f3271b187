"""Replays go down a tree and answers up, in the order of issue among what each node is told directly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from sdi.cluster import tree
from sdi.cluster.gathered import runs_of
from sdi.cluster.records import NodeRecord, RecordKind, failure, failure_of, packed, records
from sdi.cluster.transport import Room, Traffic
from sdi.cluster.tree import ROOT, Branch, ReplayTree, Spread, children, parent
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed, DeviceLost

DIRECT = RecordKind.DROP


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9, 20, 300])
def test_each_rank_is_told_by_one_other(size: int) -> None:
    tellers = [rank for rank in range(size) for _ in children(rank, size)]
    told = [child for rank in range(size) for child in children(rank, size)]
    assert told == list(range(1, size))
    assert tellers == [parent(child) for child in told]


class Network:
    """Messages between ranks, which arrive in the order of ``send`` for each pair."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[int, int], deque[bytes]] = {}
        self.lost: set[int] = set()

    def deliver(self, number: int, receivers: dict[int, Callable[[int, bytes], None]]) -> bool:
        """One of those that are on their way; whether there was one."""
        pairs = [pair for pair, queue in self.waiting.items() if queue]
        if not pairs:
            return False
        source, to = pairs[number % len(pairs)]
        batch = self.waiting[source, to].popleft()
        if to not in self.lost:
            receivers[to](source, batch)
        return True


class End:
    """A rank's.  Implements ``Transport``."""

    is_spare = False

    def __init__(self, network: Network, rank: int, size: int) -> None:
        self.network, self.rank, self.size = network, rank, size
        self.deaf: dict[int, str] = {}
        self.traffic: dict[int, Traffic] = {}

    def start(self, receiver: object) -> None: ...

    def close(self) -> None: ...

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        if self.rank not in self.network.lost:
            self.network.waiting.setdefault((self.rank, to), deque()).append(batch)


class Told:
    """A node as rank 0 sees it.  Implements ``Spoken``."""

    def __init__(self, end: End, rank: int) -> None:
        self.end, self.rank, self.said, self.behind = end, rank, 0, 0
        self.failure: DeviceLost | None = None
        self.lost_members: set[int] = set()
        self.batch = b""

    def say(self, tree: ReplayTree, name: int) -> None:
        if self.behind != tree.count:
            self.behind = tree.count
            self.batch += packed(RecordKind.BEHIND, 0, tree.count)
        tree.changed.add(self.rank)
        self.said += 1
        self.batch += packed(DIRECT, 0, name)

    def flush(self) -> None:
        if self.batch and self.failure is None:
            self.end.send(self.rank, self.batch)
        self.batch = b""


class Job:
    """Rank 0, and others that write down what they do; each replay is done when ``finish`` says so."""

    def __init__(self, size: int) -> None:
        self.network = Network()
        root = End(self.network, ROOT, size)
        self.nodes = {rank: Told(root, rank) for rank in range(1, size)}
        self.tree = ReplayTree(root, self.nodes, failure_of)
        self.done: dict[int, list[int]] = {rank: [] for rank in self.nodes}
        self.under_way: dict[int, deque[Ticket]] = {rank: deque() for rank in self.nodes}
        self.forgotten: dict[int, list[int]] = {rank: [] for rank in self.nodes}
        self.branches = {rank: self._branch(End(self.network, rank, size)) for rank in self.nodes}
        self.receivers = {rank: self._receiver(rank) for rank in self.nodes} | {ROOT: self._heard}
        self.issued: dict[int, list[int]] = {rank: [] for rank in self.nodes}
        self.tickets: list[Ticket] = []
        self.gathered: list[list[bytes]] = []

    def _branch(self, end: End) -> Branch:
        rank = end.rank

        def replay(record: object) -> Spread:
            name = getattr(record, "ticket")  # noqa: B009
            self.done[rank].append(name)
            ticket = Ticket()
            self.under_way[rank].append(ticket)
            return ticket, [name], [(2 * rank, bytes([rank]))]

        def act(record: NodeRecord) -> None:
            self.done[rank].append(record.ticket)

        return Branch(end, act, replay, self.forgotten[rank].extend, lambda: [rank % 3])

    def _receiver(self, rank: int) -> Callable[[int, bytes], None]:
        branch = self.branches[rank]

        def received(source: int, batch: bytes) -> Room | None:
            for record in records(memoryview(batch)):
                if record.kind is RecordKind.SPREAD:
                    branch.spread(record)
                elif record.kind is RecordKind.SUMMED:
                    branch.answered(source, record)
                elif record.kind is RecordKind.GONE:
                    branch.lost()
                else:
                    branch.direct(record)
            return None

        return received

    def _heard(self, source: int, batch: bytes) -> None:
        for record in records(memoryview(batch)):
            self.tree.heard(source, record)

    def say(self, rank: int) -> None:
        """Tell one node something."""
        name = 1000 * rank + len(self.issued[rank])
        if self.nodes[rank].failure is None:
            self.issued[rank].append(name)
            self.nodes[rank].say(self.tree, name)

    def spread(self, needs: frozenset[int] = frozenset()) -> None:
        """Have all do a replay; each is told something directly where replays are not spread any more."""
        name = 1_000_000 + len(self.tickets)
        gathered: list[bytes] = []
        ticket = self.tree.spread(name, 7, 1, False, b"given", needs, gathered.append)
        if ticket is None:
            for rank in self.nodes:
                self.say(rank)
            return
        for issued in self.issued.values():
            issued.append(name)
        self.tickets.append(ticket)
        self.gathered.append(gathered)

    def lose(self, rank: int) -> None:
        """A node is lost, and those that are left are told."""
        self.network.lost.add(rank)
        why = self.nodes[rank].failure = DeviceLost(f"rank {rank}", "it is lost")
        for other, node in self.nodes.items():
            if node.failure is None:
                self.nodes[rank].end.send(other, packed(RecordKind.GONE, 0, 0, (rank,)))
        self.tree.lost(rank, why)

    def finish(self, rank: int, error: Exception | None = None) -> None:
        """The replay that a node did first is done."""
        if self.under_way[rank]:
            self.under_way[rank].popleft().complete(error, 5 + rank, 50 + rank)

    def end(self) -> None:
        """Everything arrives, and is done."""
        for node in self.nodes.values():
            node.flush()
        is_left = True
        while is_left:
            is_left = self.network.deliver(0, self.receivers)
            for rank, queue in self.under_way.items():
                is_left |= bool(queue)
                if rank in self.network.lost:
                    queue.clear()
                else:
                    self.finish(rank)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["say", "spread", "spread", "deliver", "deliver", "flush", "finish", "lose"]),
        st.integers(0, 500),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(size=st.integers(4, 13), actions=ACTIONS, losses=st.integers(0, 2))
def test_every_node_does_everything_once_in_the_order_of_issue_whoever_is_lost(
    size: int, actions: list[tuple[str, int]], losses: int
) -> None:
    job = Job(size)
    for action, number in actions:
        rank = 1 + number % (size - 1)
        match action:
            case "say":
                job.say(rank)
            case "spread":
                job.spread(frozenset({rank}))
            case "deliver":
                job.network.deliver(number, job.receivers)
            case "flush":
                job.nodes[rank].flush()
            case "finish":
                job.finish(rank)
            case "lose" if len(job.network.lost) < losses and job.nodes[rank].failure is None:
                job.lose(rank)
    job.end()
    for rank, node in job.nodes.items():
        if node.failure is None:
            assert job.done[rank] == job.issued[rank]
    assert all(ticket.done for ticket in job.tickets)
    assert not job.tree.is_busy
    if not job.network.lost:
        assert all(ticket.error is None for ticket in job.tickets)
    for ticket, tails in zip(job.tickets, job.gathered, strict=True):
        runs = {place: bytes(data) for tail in tails for place, data in runs_of(tail)}
        assert runs.items() <= {(2 * rank, bytes([rank])) for rank in job.nodes}
        assert ticket.error is not None or runs.keys() >= {
            2 * rank for rank in job.nodes.keys() - job.network.lost
        }


def test_times_are_the_first_and_the_last_and_a_failure_is_told() -> None:
    job = Job(8)
    job.spread()
    job.spread()
    while job.network.deliver(0, job.receivers):
        pass
    job.finish(5, DeviceFailed("gpu", "it failed"))
    job.end()
    first, second = job.tickets
    assert isinstance(first.error, DeviceFailed) and second.error is None
    lost = {rank: node.lost_members for rank, node in job.nodes.items() if node.lost_members}
    assert lost == {5: {2}}, "asked of who failed"
    assert (second.start_ns, second.end_ns) == (6, 57)


def test_a_replay_of_which_a_lost_node_had_a_part_fails_and_others_do_not() -> None:
    job = Job(9)
    job.spread(frozenset({3}))
    job.spread(frozenset({4, 5}))
    job.lose(3)
    job.end()
    assert [type(ticket.error) for ticket in job.tickets] == [DeviceLost, type(None)]
    assert not job.tree.is_on
    assert job.tree.spread(1, 7, 1, False, b"", {4}) is None, "each node is told directly"


def test_what_nobody_is_left_to_do_is_over() -> None:
    job = Job(4)
    job.spread(frozenset({2}))
    for rank in job.nodes:
        job.lose(rank)
    (ticket,) = job.tickets
    assert ticket.done and isinstance(ticket.error, DeviceLost)
    assert not job.tree.is_busy


def test_a_failure_is_told_where_another_node_is_lost_at_that_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(9)
    job.spread()
    while job.network.deliver(0, job.receivers):
        pass

    def packed_meanwhile(error: BaseException) -> bytes:
        job.branches[5].lost()
        return failure(error)

    monkeypatch.setattr(tree, "failure", packed_meanwhile)
    job.finish(5, DeviceFailed("gpu", "it failed"))
    job.lose(1)
    job.end()
    assert isinstance(job.tickets[0].error, DeviceFailed)


def test_names_are_forgotten_when_all_have_answered() -> None:
    job = Job(5)
    for _ in range(3):
        job.spread()
        job.end()
    assert job.forgotten == {rank: [1_000_000, 1_000_001] for rank in job.nodes}


def test_a_name_is_not_forgotten_while_its_ticket_may_be_asked_for() -> None:
    job = Job(5)
    job.spread()
    job.tickets[0].when_done(lambda _: job.spread())
    job.end()
    assert job.forgotten == {rank: [] for rank in job.nodes}
    job.spread()
    job.end()
    assert job.forgotten == {rank: [1_000_000, 1_000_001] for rank in job.nodes}


def test_rank_0_sends_a_replay_to_its_children_alone() -> None:
    job = Job(300)
    job.spread()
    assert [pair for pair, queue in job.network.waiting.items() if queue] == [(0, 1), (0, 2)]
    assert all(len(queue[0]) < 100 for queue in job.network.waiting.values())
