"""What launches use by addresses: what was told of, in the one memory that all members use."""

from __future__ import annotations

import pytest

from sdi.commands import Launch
from sdi.devices.ticket import Ticket
from sdi.errors import ClError
from sdi.intervals import ByteRange
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.reaches import NOTHING
from tests.vmem.conftest import MakeRig, Rig, noise


def launch(regions: tuple[int, ...] = (), reach: int = 0) -> Launch:
    return Launch(1, 1, 0, 1, (0, 0, 0), (1, 1, 1), None, 0, b"", regions=regions, reach=reach)


def ids(made: Rig, *of: Launch) -> list[list[int]]:
    return [[buffer.id for buffer in made.memory.reached(each).buffers] for each in of]


def test_a_launch_reaches_its_arguments_and_what_was_told_until_that_goes(rig: MakeRig) -> None:
    made = rig(1)
    a, b, c = (made.buffer(noise(64)) for _ in range(3))
    reaches, changed = made.memory.reaches, list[int]()
    assert made.memory.reached(launch()) is NOTHING
    assert not reaches.tell(900, [b, c])
    assert not reaches.tell(901, [c])
    for each in (900, 901):
        found = reaches.find(each)
        assert found is not None
        found.on_change.add(changed.append)
    both = launch((c.id, a.id), 900)
    assert ids(made, both, launch((), 901), launch((b.id,))) == [[c.id, a.id, b.id], [c.id], [b.id]]
    assert made.memory.reached(both) is made.memory.reached(both)
    made.memory.release(b.id)
    assert changed == [900] and ids(made, both, launch((), 901)) == [[c.id, a.id], [c.id]]
    with pytest.raises(ClError, match=f"buffer {b.id} is not known"):
        made.memory.reached(launch((b.id,)))
    made.memory.recycle(c.id, lambda _: None)
    assert sorted(changed) == [900, 900, 901] and ids(made, both, launch((), 901)) == [[c.id, a.id], []]
    reaches.untell(900)
    assert reaches.find(900) is None and ids(made, both) == [[c.id, a.id]]
    reaches.untell(900)


def test_of_very_many_regions_all_are_ordered_as_one(rig: MakeRig) -> None:
    made = rig(1)
    buffers = [made.buffer(noise(8)) for _ in range(300)]
    assert not made.memory.reaches.tell(900, buffers[:10])
    assert not any(buffer.is_one_of_many for buffer in buffers)
    assert not made.memory.reaches.tell(901, buffers), "no recording knows of them"
    assert all(buffer.is_one_of_many for buffer in buffers)


def test_what_members_have_comes_home_and_is_ordered_by_one_access(rig: MakeRig) -> None:
    made = rig(2)
    data = noise(4096)
    buffer, other = made.buffer(data), made.buffer(noise(16))
    memory = made.memory
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    made.wait(made.fill(1, buffer, ByteRange(1024, 2048), b"\7"))
    memory.reaches.tell(900, [buffer])
    reached = memory.reached(launch((other.id,), 900))
    transfers = reached.plan(memory.memories, memory.transfers, "k: pointers")
    assert [(each.copy.source, each.copy.target, each.nbytes) for each in transfers] == [(2, HOST, 1024)]
    reached.wrote(memory.memories)
    assert all(each.directory.is_only_on(HOST) for each in (buffer, other))
    assert not reached.plan(memory.memories, memory.transfers, "k: pointers")
    uses, ticket = reached.uses(memory.memories), Ticket()
    assert uses is reached.uses(memory.memories) and not reached.allocations(None)
    for use in uses:
        use.by(ticket)
    assert buffer.dependencies[HOST].before_read(buffer.whole) == [ticket]
    assert not buffer.dependencies[member_memory(0)].before_write(buffer.whole)
    ticket.complete()
