"""Writes of any length to what one member has, which has memory of its own: it gets them at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdi.intervals import ByteRange
from sdi.profile.analyse.model import HOST as PROFILED_HOST
from sdi.runtime.small import run_to_bring
from sdi.vmem.directory import HOST, member_memory
from sdi.wire.records import CARRIED_MAX_NBYTES, STAGED_MAX_NBYTES
from tests.player.test_player import ITEMS, MIX, Loop, posted
from tests.player.test_profiled import ended
from tests.service.conftest import Serve

COUNT = 1 << 18
"""Of a buffer that is staged in parts."""
SPIN = """
kernel void spin(global int *a)
{
    for (int i = 0; i < 4000000; i++)
        a[i & 7] ^= i;
}
"""


class Long(Loop):
    """Its first buffer is long, and a launch has brought all of it to the member that reads its beginning."""

    def __init__(self, serve: Serve, members: int = 1, profile: Path | None = None) -> None:
        super().__init__(serve(members, plays=True, apart=True, profile=profile))
        self.stages = True
        self.truth[0] = np.arange(COUNT, dtype=np.int32)
        self.a = self.client.buffer(self.truth[0].tobytes())
        self.random = np.random.default_rng(3)
        self.fill(5, 0, COUNT)
        self.use()

    def use(self) -> None:
        """A launch that reads the beginning."""
        self.truth[1] = self.truth[1] ^ self.truth[0][:ITEMS]
        arguments = [(self.b, 0), (self.a, 0)]
        self.client.launch(self.build, arguments, [ITEMS], [16], kernel_index=MIX)

    def some(self, number: int, least: int = CARRIED_MAX_NBYTES // 4 + 1, most: int = COUNT // 2) -> int:
        """A write of some length, somewhere, and a launch; how many bytes."""
        count = int(2 ** self.random.uniform(np.log2(least), np.log2(most)))
        first = int(self.random.integers(0, 2)) * int(self.random.integers(0, COUNT - count))
        self.put(np.full(count, number, np.int32), first)
        self.use()
        return 4 * count

    def check(self) -> None:
        """The bytes are what they must be."""
        for buffer, truth in zip((self.a, self.b), self.truth, strict=True):
            assert self.client.read(buffer, truth.nbytes) == truth.tobytes()

    def state(self) -> object:
        """Of the first buffer."""
        return self.client.session._memory.buffer(self.a).directory.state()


@pytest.mark.parametrize("stages", [True, False], ids=["staged", "carried"])
def test_writes_of_all_lengths_leave_one_state_and_are_few_recordings(serve: Serve, stages: bool) -> None:
    loop = Long(serve)
    loop.stages = stages
    sizes = {} if stages else {"least": 1, "most": CARRIED_MAX_NBYTES // 4}
    for number in range(6):
        loop.some(number, **sizes)
        loop.client.finish()
    before = loop.state()
    recordings = len(loop.player.recorded())
    taken, sent = loop.client.taken_nbytes, 0

    def go_on() -> None:
        nonlocal sent
        for number in range(100):
            sent += loop.some(number, **sizes)
            loop.client.finish()

    assert loop.replayed(go_on) >= 196
    assert loop.state() is before and len(loop.player.recorded()) <= recordings + 4
    if stages:
        assert loop.client.taken_nbytes - taken == sent
    loop.check()


def test_what_is_staged_does_not_come_to_the_arena(serve: Serve) -> None:
    loop = Long(serve)
    loop.until_replayed(loop.some, 2)
    at = loop.client.offsets[loop.a]
    before = bytes(loop.client.arena[at : at + 4 * COUNT])
    moved = loop.client.session._memory.moved
    there = moved.host_to_member
    sent = 0

    def go_on() -> None:
        nonlocal sent
        sent = sum(loop.some(number) for number in range(20))

    assert loop.replayed(go_on) == 40
    posted(loop, lambda: None)
    assert bytes(loop.client.arena[at : at + 4 * COUNT]) == before
    assert moved.host_to_member - there == sent
    loop.check()


def test_what_the_host_reads_between_does_not_end_it(serve: Serve) -> None:
    """It has all of it then, and no more once a part is written."""
    loop = Long(serve)

    def once(number: int) -> None:
        loop.put(np.full(5000 + number, number, np.int32), 0)
        loop.use()
        loop.check()

    for number in range(8):
        once(number)
    assert loop.replayed(lambda: [once(number) for number in range(40)]) >= 4 * 38
    memory = loop.client.session._memory
    held = list(memory.buffer(loop.a).directory.holders(ByteRange(0, 4 * COUNT)))
    assert all(mask >> HOST & 1 for _, mask, _ in held), "it was read"


@pytest.mark.parametrize("stages", [True, False], ids=["staged", "carried"])
def test_what_is_under_way_when_python_takes_over_is_taken_in_the_end(serve: Serve, stages: bool) -> None:
    """What is staged stays where it is until then."""
    loop = Long(serve)
    loop.stages = stages
    spin, status, _ = loop.client.build(SPIN)
    assert status == 0
    count = 5000 if stages else 500
    kept: list[int] = []
    outbox = loop.client.session._outbox
    keeps = outbox.keeps_staged

    def keeps_staged(command: int, nbytes: int, is_in_place: bool = False) -> None:
        kept.extend([nbytes] * is_in_place)
        keeps(command, nbytes, is_in_place)

    outbox.keeps_staged = keeps_staged  # type: ignore[method-assign]
    for number in range(12):
        loop.client.launch(spin, [(loop.b, 0)], [1], [1])
        loop.put(np.full(count + number, number, np.int32), 0)
        loop.fill(number, 100, 20)  # another length each time, which nobody knows
        loop.client.finish()
        for i in range(8):
            loop.truth[1][i] ^= np.bitwise_xor.reduce(np.arange(i, 4_000_000, 8, dtype=np.int32))
    assert bool(kept) == stages
    if stages:
        assert loop.client.taken_nbytes == sum(4 * (count + number) for number in range(12))
    loop.check()


def test_only_what_one_member_has_is_brought_to_it(serve: Serve) -> None:
    """Not what two have, or has parts; nor where the host's memory is the members', or it is too long."""
    loop = Loop(serve(2, plays=True, apart=True))
    loop.settle()
    memory = loop.client.session._memory
    buffer, half = memory.buffer(loop.a), ByteRange(0, 2 * ITEMS)
    found = run_to_bring(memory, buffer, ByteRange(4, 20))
    assert found is not None and (found.over, found.holder) == (half, member_memory(0))
    assert found.before is found.state
    assert run_to_bring(memory, buffer, ByteRange(2 * ITEMS - 4, 2 * ITEMS + 4)) is None
    buffer.directory.copied(HOST, ByteRange(0, 64))
    found = run_to_bring(memory, buffer, ByteRange(4, 20))
    assert found is not None and found.before is not found.state
    assert not any(mask >> HOST & 1 for _, mask, _ in buffer.directory.holders(found.over))
    buffer.directory.copied(member_memory(1), ByteRange(0, 64))
    assert run_to_bring(memory, buffer, ByteRange(4, 20)) is None
    whole = memory.buffer(loop.client.buffer(bytes(STAGED_MAX_NBYTES + 4)))
    whole.directory.wrote(member_memory(0), whole.whole)
    assert run_to_bring(memory, whole, whole.whole) is None
    near = Loop(serve(1, plays=True))
    near.settle()
    memory = near.client.session._memory
    assert run_to_bring(memory, memory.buffer(near.a), ByteRange(4, 20)) is None


def test_nothing_beside_is_taken_from_the_host_where_the_application_may_be_storing(serve: Serve) -> None:
    """It has mapped that."""
    loop = Loop(serve(1, plays=True, apart=True))
    loop.settle()
    memory = loop.client.session._memory
    buffer = memory.buffer(loop.a)
    assert run_to_bring(memory, buffer, ByteRange(4, 20), may_take=False) is not None
    buffer.directory.copied(HOST, ByteRange(0, 64))
    state = buffer.directory.state()
    assert run_to_bring(memory, buffer, ByteRange(4, 20), may_take=False) is None
    assert buffer.directory.state() is state


def test_what_was_recorded_before_a_buffer_was_mapped_is_not_replayed_afterwards(serve: Serve) -> None:
    """It would take from the host what lies beside the write."""
    loop = Long(serve)
    memory = loop.client.session._memory
    beside = ByteRange(20_000, 20_064)

    def is_taken(number: int, is_mapped: int) -> bool:
        loop.check()  # the host has all of it
        values = np.full(5000, number, np.int32)
        loop.truth[0][:5000] = values
        loop.client.stage(loop.a, values.tobytes(), is_mapped=is_mapped)
        loop.client.finish()
        held = list(memory.buffer(loop.a).directory.holders(beside))
        return not any(mask >> HOST & 1 for _, mask, _ in held)

    assert all(is_taken(number, 0) for number in range(1, 8))
    played = loop.player.records()["WRITE"]["played"]
    assert is_taken(8, 0)
    assert loop.player.records()["WRITE"]["played"] == played + 1
    assert not any(is_taken(number, 1) for number in range(9, 15))
    loop.check()


@pytest.mark.logs("front can't be page-locked")
def test_where_staged_bytes_can_not_be_reached_they_go_by_the_arena(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Long(serve)
    (native,) = loop.player.members
    monkeypatch.setattr(type(native), "host", lambda *_: False)
    for number in range(5):
        loop.some(number)
    loop.put(np.full(5000, 9, np.int32), 0)
    loop.client.finish()
    at = loop.client.offsets[loop.a]
    assert bytes(loop.client.arena[at : at + 4]) == loop.truth[0][:1].tobytes()
    loop.check()
    assert caplog.text.count("can't be page-locked") == 1


def test_the_profile_says_how_much_came_with_each(serve: Serve, tmp_path: Path) -> None:
    loop = Long(serve, profile=tmp_path)
    sent = sum(loop.some(number) for number in range(40))
    loop.client.finish()
    session = ended(loop.client, tmp_path)
    writes = {command.id: command.nbytes for command in session.commands if command.kind == "write"}
    assert sum(writes.values()) >= sent
    copies = [copy for copy in session.copies if copy.command in writes and copy.source == PROFILED_HOST]
    assert len(copies) >= 38
    assert all(copy.nbytes == writes[copy.command] for copy in copies)
