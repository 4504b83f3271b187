"""What recordings are guarded by, each fact changed alone; what wait lists name, new builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from sdi.commands import CopyBuffer, Fill, Launch, Map, Read, Unmap, Write
from sdi.errors import Status
from sdi.wire.records import NoticeKind, Op
from tests.player.test_player import ITEMS, SOURCE, STEP, Loop, evict, posted
from tests.service.conftest import Serve

Turn = Iterator[None]
"""What a step of a loop does: before the command in question, that command, and what is left to do."""
HALF_NBYTES = 2 * ITEMS
WRITES = 2


class Steps(Loop):
    """Each kind of command that is recorded, behind a launch that leaves its bytes on the members."""

    def launch(self, number: int) -> Turn:
        self.mix()
        yield
        self.step(number)
        yield

    def read(self, number: int) -> Turn:
        self.step(number)
        yield
        assert self.client.read(self.a, 8, offset=40) == self.truth[0][10:12].tobytes()
        yield

    def show(self, number: int) -> Turn:
        """A read into a mapping of the second buffer."""
        client, over = self.client, {"region": [HALF_NBYTES, 1, 1]}
        self.step(number)
        self.mix()
        assert client.wait(client.command(Op.MAP, buffer=self.b, flags=WRITES, **over)) == 0
        yield
        assert client.wait(client.command(Op.READ, buffer=self.a, into=client.offsets[self.b], **over)) == 0
        yield
        self.truth[1] = np.concatenate([self.truth[0][: ITEMS // 2], self.truth[1][ITEMS // 2 :]])
        client.command(Op.UNMAP, buffer=self.b, wrote=1, **over)

    def write(self, number: int) -> Turn:
        self.step(number)
        yield
        self.put(np.arange(number, number + 3, dtype=np.int32))
        yield

    def write_early(self, number: int) -> Turn:
        self.step(number)
        yield
        self.land(np.arange(number, number + ITEMS, dtype=np.int32))
        yield

    def fills(self, number: int) -> Turn:
        self.step(number)
        yield
        self.fill(number)
        yield

    def map(self, number: int) -> Turn:
        self.step(number)
        over = {"region": [4 * ITEMS, 1, 1]}
        yield
        assert self.client.wait(self.client.command(Op.MAP, buffer=self.a, flags=1, **over)) == 0
        at = self.client.offsets[self.a]
        assert self.client.arena[at : at + 4 * ITEMS] == self.truth[0].tobytes()
        yield
        self.client.command(Op.UNMAP, buffer=self.a, **over)

    def unmap(self, number: int, wrote: bool = True) -> Turn:
        self.step(number)
        client, at, over = self.client, self.client.offsets[self.a], {"region": [4 * ITEMS, 1, 1]}
        assert client.wait(client.command(Op.MAP, buffer=self.a, flags=WRITES, **over)) == 0
        if wrote:
            self.truth[0] = self.truth[0] + np.int32(number)
            client.arena[at : at + 4 * ITEMS] = self.truth[0].tobytes()
        yield
        client.command(Op.UNMAP, buffer=self.a, wrote=int(wrote), **over)
        yield

    def unmap_unchanged(self, number: int) -> Turn:
        yield from self.unmap(number, wrote=False)

    def copy(self, number: int) -> Turn:
        self.step(number)
        self.mix()
        yield
        self.client.command(Op.COPY, source=self.a, target=self.b, region=[4 * ITEMS, 1, 1])
        self.truth[1] = self.truth[0]
        yield


def _members(steps: Steps) -> None:
    """As when one is lost, but recordings stay where they are."""
    steps.player.cells.changed(steps.player._epoch)
    steps.player.on_drop()


def _placed(steps: Steps, buffer_id: int) -> None:
    memory = steps.client.session._memory
    buffer = memory.buffer(buffer_id)
    allocation = buffer.allocations[0]
    assert allocation is not None
    memory.placed.put(buffer, 0, allocation)


def _place_of_a(steps: Steps) -> None:
    _placed(steps, steps.a)


def _place_of_b(steps: Steps) -> None:
    _placed(steps, steps.b)


@dataclass(frozen=True)
class Kind:
    """``turn`` has ``num_commands``, of which a ``command`` is the one in question.

    It is guarded by ``facts``, and of each buffer that it reads or changes by where bytes are current; a
    launch by its kernel and its shares, too.  ``num_guards``: all of these.
    """

    turn: Callable[[Steps, int], Turn]
    num_commands: int
    command: type[object]
    num_guards: int
    facts: tuple[Callable[[Steps], None], ...]

    def once(self, steps: Steps, number: int) -> None:
        """All of one turn."""
        for _ in self.turn(steps, number):
            pass


KINDS = [
    Kind(Steps.launch, 2, Launch, 5, (_members, _place_of_a)),
    Kind(Steps.read, 2, Read, 3, (_members, _place_of_a)),
    Kind(Steps.show, 5, Read, 4, (_members, _place_of_a, _place_of_b)),
    Kind(Steps.write, 2, Write, 3, (_members, _place_of_a)),
    Kind(Steps.write_early, 2, Write, 3, (_members, _place_of_a)),
    Kind(Steps.fills, 2, Fill, 3, (_members, _place_of_a)),
    Kind(Steps.map, 3, Map, 3, (_members, _place_of_a)),
    Kind(Steps.unmap, 3, Unmap, 3, (_members, _place_of_a)),
    Kind(Steps.unmap_unchanged, 3, Unmap, 1, (_members,)),
    Kind(Steps.copy, 3, CopyBuffer, 5, (_members, _place_of_a, _place_of_b)),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.turn.__name__)
def test_no_guard_of_a_command_may_be_left_out(serve: Serve, kind: Kind) -> None:
    steps = Steps(serve(2, plays=True))
    steps.until_replayed(lambda number: kind.once(steps, number), kind.num_commands)
    turn = kind.turn(steps, 1000)
    next(turn)
    alone: list[list[tuple[bool, bool]]] = []

    def look() -> None:
        at, matches = steps.player.cells.at, steps.player.matches
        for recorded in steps.player.recorded():
            command = recorded.command
            is_other = isinstance(command, Launch) and command.kernel_index != STEP
            if not isinstance(command, kind.command) or is_other or not matches(recorded):
                continue
            alone.append([])
            for cell, value in recorded.guards:
                at[cell] = value + 1
                others = matches(recorded)
                at[cell] = value
                alone[-1].append((others, matches(recorded)))

    posted(steps, look)
    assert alone and all(guards == [(False, True)] * kind.num_guards for guards in alone), alone
    assert list(turn) == [None]
    steps.check()


@pytest.mark.parametrize(
    ("kind", "fact"),
    [
        pytest.param(kind, fact, id=f"{kind.turn.__name__}-{fact.__name__.strip('_')}")
        for kind in KINDS
        for fact in kind.facts
    ],
)
def test_a_command_is_not_replayed_once_one_fact_has_changed(
    serve: Serve, kind: Kind, fact: Callable[[Steps], None]
) -> None:
    steps = Steps(serve(2, plays=True))

    def once(number: int) -> None:
        kind.once(steps, number)

    def replayed(change: Callable[[Steps], None]) -> int:
        turn = kind.turn(steps, 1000)
        next(turn)
        posted(steps, lambda: change(steps))
        count = steps.repeated(lambda: next(turn))
        assert not list(turn)
        steps.client.finish()
        return count

    steps.until_replayed(once, kind.num_commands)
    assert (replayed(lambda _: None), replayed(fact)) == (1, 0)
    steps.check()
    steps.until_replayed(once, kind.num_commands)
    steps.check()


def test_a_read_is_not_replayed_where_its_buffer_has_other_places_in_the_same_state(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))
    steps.until_replayed(lambda number: [None for _ in steps.read(number)], 2)
    kept = [_allocations(steps), steps.client.session._memory.buffer(steps.a).directory.state()]
    evict(steps)
    turn = steps.read(1000)
    next(turn)  # each member gets its part again
    steps.client.finish()
    assert not {*map(id, kept[0])} & {*map(id, _allocations(steps))}
    assert steps.replayed(lambda: next(turn)) == 0
    steps.check()


def _allocations(steps: Steps) -> list[object]:
    return [each for each in steps.client.session._memory.buffer(steps.a).allocations if each is not None]


def test_a_read_into_a_buffer_is_not_replayed_where_another_one_lies_there_now(serve: Serve) -> None:
    steps = Steps(serve(1, plays=True))
    client = steps.client

    def shown(target: int) -> None:
        over = {"region": [4 * ITEMS, 1, 1], "into": client.offsets[target]}
        assert client.wait(client.command(Op.READ, buffer=steps.a, **over)) == 0
        at = client.offsets[target]
        assert client.arena[at : at + 4 * ITEMS] == steps.truth[0].tobytes()

    first = client.buffer(bytes(4 * ITEMS))
    steps.until_replayed(lambda number: (steps.step(number), shown(first)), 2)
    client.send(Op.RELEASE_BUFFER, first)
    second = client.buffer(bytes(4 * ITEMS))
    assert client.offsets[second] == client.offsets[first]
    steps.step(1000)
    client.finish()
    assert steps.replayed(lambda: shown(second)) == 0
    steps.until_replayed(lambda number: (steps.step(number), shown(second)), 2)
    steps.check()


def test_a_read_into_bytes_that_the_client_has_yet_to_copy_waits_for_that(serve: Serve) -> None:
    steps = Steps(serve(1, plays=True))
    client, other = steps.client, steps.client.new_queue()
    target, over = client.buffer(bytes(4 * ITEMS)), {"region": [4 * ITEMS, 1, 1]}
    at = client.offsets[target]

    def show(number: int) -> None:
        steps.step(number)
        assert client.wait(client.command(Op.READ, buffer=steps.a, into=at, queue=other, **over)) == 0

    def once(number: int) -> None:
        show(number)
        assert client.read(target, 4 * ITEMS) == steps.truth[0].tobytes()
        client.finish()

    steps.until_replayed(once, 3)
    show(7)
    expected = steps.truth[0].tobytes()
    client.finish()
    before = steps.player.records()["READ"]["played"]
    steps.step(8)
    read = client.command(Op.READ, buffer=target, **over)
    assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, read)
    assert steps.player.records()["READ"]["played"] == before + 1
    shown = client.command(Op.READ, buffer=steps.a, into=at, queue=other, **over)
    for _ in range(20):  # it had time
        assert client.wait(client.command(Op.MARKER, queue=client.new_queue())) == 0
    assert client.arena[at : at + 4 * ITEMS] == expected and client.slot(shown)[0] > 0
    client.send(Op.TRANSFER_DONE, read)
    assert client.wait(shown) == 0
    assert client.arena[at : at + 4 * ITEMS] == steps.truth[0].tobytes()
    steps.check()


# -- wait lists ---------------------------------------------------------------------------------------------


def _event(steps: Steps, status: int | None) -> int:
    """A user event, with this status if it is set."""
    event = steps.client.new_id()
    steps.client.send(Op.CREATE_USER_EVENT, event)
    if status is not None:
        steps.client.send(Op.SET_USER_EVENT, event, status=status)
    return event


def test_what_waits_for_a_user_event_that_is_over_is_replayed(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    event = _event(steps, 0)
    assert steps.replayed(lambda: steps.step(7, waits=[event])) == 1
    steps.mix()
    steps.check()


@pytest.mark.parametrize("status", [-1, -5])
def test_what_waits_for_a_user_event_that_failed_is_not_replayed_but_fails(serve: Serve, status: int) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    truth, event = [*steps.truth], _event(steps, status)
    before = steps.player.replayed()
    assert steps.client.wait(steps.step(7, waits=[event])) == Status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    assert steps.player.replayed() == before
    steps.truth = truth
    steps.client.send(Op.RELEASE_EVENT, event)
    steps.check()


def test_what_waits_for_a_user_event_that_is_not_set_is_not_replayed_before_that(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    before, event = steps.player.replayed(), _event(steps, None)
    step = steps.step(7, waits=[event])
    assert steps.client.wait(steps.client.command(Op.MARKER, queue=steps.client.new_queue())) == 0
    assert steps.client.slot(step)[0] > 0
    steps.client.send(Op.SET_USER_EVENT, event, status=0)
    assert steps.client.wait(step) == 0 and steps.player.replayed() == before
    steps.check()


# -- programs -----------------------------------------------------------------------------------------------


def test_kernels_of_a_new_build_are_not_taken_for_those_of_the_old_one(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    old, (steps.build, status, _) = steps.build, steps.client.build(SOURCE.replace("* 3", "* 5"))
    assert status == 0
    before = steps.truth[0]
    assert steps.replayed(lambda: steps.step(4, 0.0)) == 0
    steps.truth[0] = before * np.int32(5) + np.int32(4)
    steps.check()
    steps.build = old
    steps.settle()
    steps.check()
