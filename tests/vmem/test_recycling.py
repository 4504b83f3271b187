"""Released buffers that are used again: what they keep, what they lose, and when they go."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.vmem.buffer import VirtualBuffer
from sdi.wire.records import Op
from tests.launch.test_recording import COUNT, NBYTES, Application, serve

HELD = 2


@pytest.fixture(params=[1, 3], ids=["one-member", "three-members"])
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    with serve(MemberSettings(count=request.param), monkeypatch) as made:
        yield made


def virtual(app: Application, buffer: int) -> VirtualBuffer:
    return app.client.session._memory.buffer(buffer)


def recycle(app: Application, *buffers: int) -> list[Callable[[], int]]:
    statuses = [app.client.recycle(buffer) for buffer in buffers]
    for buffer in buffers:
        del app.truth[buffer]
    while any(status() > 0 for status in statuses):
        app.client.finish()
    return statuses


def reused(app: Application, buffer: int, seed: int) -> int:
    app.truth[buffer] = np.random.default_rng(seed).integers(0, 1 << 20, COUNT, np.int32)
    app.client.reuse(buffer, app.truth[buffer].tobytes())
    return buffer


def in_use(app: Application) -> list[int]:
    return [member.memory.in_use for member in app.client.session._devices]


def test_the_same_problem_on_new_buffers_is_issued_as_before(app: Application) -> None:
    a, b = app.buffer(), app.buffer()
    ordinary, places = [], []
    for run in range(8):
        for _ in range(3):
            app.blur(a, b)
            app.blur(b, a)
            app.grow(a)
        app.check()
        ordinary.append(app.ordinary())
        places.append(in_use(app))
        assert [status() for status in recycle(app, a, b)] == [0, 0]
        reused(app, a, run)
        app.client.reuse(b)  # its bytes are the old ones in the arena, and nobody may see those on members
        app.truth[b] = np.zeros(COUNT, np.int32)
    assert ordinary[-1] == ordinary[-2] == 0 < ordinary[0]
    assert places[0] == places[-1]


def test_no_old_bytes_are_seen_in_a_buffer_that_is_used_again(app: Application) -> None:
    a, b = app.buffer(), app.buffer()
    app.blur(a, b)  # the members hold both
    recycle(app, a, b)
    reused(app, a, 1)
    reused(app, b, 2)
    app.grow(a)
    app.grow(b)
    app.check()
    recycle(app, a)
    app.truth[a] = np.full(COUNT, 5, np.int32)
    app.client.reuse(a)
    offset = app.client.offsets[a]
    app.client.arena[offset : offset + NBYTES] = app.truth[a].tobytes()
    command = app.client.command(Op.WRITE, buffer=a, region=[NBYTES, 1, 1], written_ns=1)
    assert app.client.wait(command) == 0
    app.grow(a)
    app.check()


def test_a_buffer_is_in_use_until_what_was_issued_on_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(MemberSettings(count=2), monkeypatch) as app:
        a, gate = app.buffer(), Ticket()
        app.grow(a)
        app.client.finish()
        app.client.session._devices[1].gates.append(gate)
        app.grow(a)
        status = app.client.recycle(a)
        other = app.client.new_id()
        app.client.send(Op.CREATE_QUEUE, other, properties=0)
        assert app.client.wait(app.client.command(Op.MARKER, queue=other)) == 0
        assert status() == HELD
        gate.complete()
        while status() == HELD:
            app.client.finish()
        assert status() == 0


def test_a_buffer_waits_for_commands_that_name_it_and_are_not_issued_yet(app: Application) -> None:
    client, a = app.client, app.buffer()
    gate = client.new_id()
    client.send(Op.CREATE_USER_EVENT, gate, slot=900_000)
    held = client.command(Op.FILL, b"\1\0\0\0", [gate], buffer=a, region=[NBYTES, 1, 1], pattern_nbytes=4)
    status = client.recycle(a)
    other = client.new_id()
    client.send(Op.CREATE_QUEUE, other, properties=0)
    assert client.wait(client.command(Op.MARKER, queue=other)) == 0
    assert status() == HELD
    client.send(Op.SET_USER_EVENT, gate, status=0)
    assert client.wait(held) == 0
    while status() == HELD:
        client.finish()
    assert status() == 0


def test_a_buffer_that_something_failed_to_write_is_not_used_again(app: Application) -> None:
    a = app.buffer()
    app.grow(a)
    app.client.finish()
    memory = app.client.session._memory
    memory.recovery.poison(virtual(app, a), ByteRange(0, 64), DeviceFailed("a test", "was there"))
    assert recycle(app, a)[0]() < 0
    assert not any(virtual(app, a).allocations), "nobody will want its places"
    app.client.reuse(a)  # no client does
    app.client.send(Op.RELEASE_BUFFER, a)
    app.client.finish()
    assert not memory._buffers


def test_a_recycled_buffer_can_be_released(app: Application) -> None:
    a = app.buffer()
    app.grow(a)
    app.client.finish()
    recycle(app, a)
    app.client.send(Op.RELEASE_BUFFER, a)
    app.client.finish()
    kept = app.client.session._memory.placement.heaps
    for heap in kept:
        heap.free_pool()
    assert sum(in_use(app)) == 0


def test_members_that_are_short_of_memory_take_it_from_recycled_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve(MemberSettings(count=2, memory_nbytes=3 * NBYTES), monkeypatch) as app:
        a, b = app.buffer(), app.buffer()
        app.blur(a, b)
        app.client.finish()
        recycle(app, a, b)
        others = [app.buffer() for _ in range(2)]
        app.blur(*others)
        app.client.finish()
        events = app.client.session._memory.accounting.events
        assert events.drops > 0 and events.spills == 0, "there is nothing to save"
        app.check()
        reused(app, a, 1)
        reused(app, b, 2)
        app.blur(b, a)
        app.check()
