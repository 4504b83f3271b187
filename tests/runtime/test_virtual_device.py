"""Random commands on real members, issued without waiting, against bytes computed one after the other.

Access ranges are written by hand here, so that these tests are about what is done with them.
"""

from __future__ import annotations

import numpy as np
import pytest

from sdi import appends
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceLost
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import member_memory
from tests.devices.short import refuse_host_memory
from tests.generated.generate import generate
from tests.generated.issued import Issued
from tests.generated.kernels import SOURCE
from tests.runtime.machine import Machine
from tests.runtime.mover import GROUP, NBYTES, STEP, MakeMover, move
from tests.seeds import num_seeds
from tests.vmem.conftest import MakeRig, noise

AMPLE = 1 << 30
PROGRAMS, COMMANDS = num_seeds(10, 20), 12


def test_a_launch_larger_than_its_members_runs_in_chunks_that_fit(mover: MakeMover) -> None:
    machine = mover(2, 2 * 8192)
    made = machine.rig
    to, from_ = machine.buffers(1, 2)
    for _ in range(3):
        machine.move(to.id, from_.id, 700, 0, 0)
    assert made.read(to) == move(*_arrays(1, 2), 700, 0, 0).tobytes()
    machine.finish()
    events = made.memory.accounting.events
    assert events.chunks >= 3 and events.spills > 0 and events.mapped == 0
    assert max(made.memory.accounting.peak_nbytes) <= 2 * 8192


def test_kernels_of_a_program_with_variables_in_global_memory_all_run_on_one_member(mover: MakeMover) -> None:
    machine = mover(3)
    made = machine.rig
    machine.build.kernels[0].has_variables = True
    to, from_ = machine.buffers(1, 2)
    for member in (1, 2):  # where fewer bytes are missing
        made.fill(member, to, to.whole, b"\1")
        made.fill(member, from_, from_.whole, b"\2")
        assert len(machine.move(to.id, from_.id, 1, 0, 0).boxes) == 1
        assert {holders for _, holders, _ in to.directory.holders(to.whole)} == {1 << member_memory(0)}
        machine.finish()


def test_what_all_work_groups_want_whole_is_used_in_the_arena_when_it_is_too_large(mover: MakeMover) -> None:
    machine = mover(3, 8192, late=[2])
    made = machine.rig
    to, from_ = machine.buffers(1, 2)
    machine.move(to.id, from_.id, 1, 5, 1)  # each assignment may write every byte of ``to``
    machine.move(from_.id, to.id, 0, 0, 0)
    expected = move(*_arrays(1, 2), 1, 5, 1)
    assert made.read(to) == expected.tobytes()
    assert made.read(from_) == move(expected, expected, 0, 0, 0).tobytes()
    machine.finish()
    assert made.memory.accounting.events.mapped == 3
    assert not made.memory.accounting.races


def test_what_no_memory_can_hold_fails_and_says_how_much_is_missing(mover: MakeMover) -> None:
    machine = mover(1, 8192)
    made = machine.rig
    refuse_host_memory(made.devices[0])
    to, from_ = machine.buffers(1, 2)
    with pytest.raises(ClError, match=f"{NBYTES} bytes of host memory are refused"):
        machine.move(to.id, from_.id, 1, 5, 1)
    assert made.read(to) == noise(NBYTES, 1)


@pytest.mark.parametrize("method", ["bind", "allocate"])
def test_a_launch_that_fails_before_its_merges_gives_their_memory_back(
    mover: MakeMover, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(appends, "MERGED_MAX_NBYTES", 0)
    machine = mover(3, compares=True)
    made = machine.rig
    to, from_ = machine.buffers(1, 2)
    made.reserve(*((buffer, member, buffer.whole) for buffer in (to, from_) for member in range(3)))

    def refuse(*_: object) -> None:
        raise DeviceLost("member 2", "was lost")

    monkeypatch.setattr(made.devices[2], method, refuse)
    with pytest.raises(DeviceLost):
        machine.move(to.id, from_.id, 1, 5, 1)
    made.settle()
    assert made.memory.accounting.events.twins == 0
    for k, heap in enumerate(made.memory.placement.heaps[:2]):
        places = sum(made.memory.memories.allocation(buffer, k).nbytes for buffer in (to, from_))
        assert heap.capacity - heap.available == places


def test_a_second_launch_with_the_same_inputs_moves_nothing(mover: MakeMover) -> None:
    machine = mover(3)
    made = machine.rig
    to, from_ = machine.buffers(1, 2)
    machine.move(to.id, from_.id, 700, 0, 0)
    once = made.moved()
    assert once == NBYTES - 700  # all that is read, each byte by one member
    machine.move(to.id, from_.id, 700, 0, 0)
    assert made.moved() == once
    machine.finish()


def test_a_kernel_that_reads_what_its_member_alone_wrote_moves_nothing(mover: MakeMover) -> None:
    machine = mover(4)
    made = machine.rig
    a, b, c = machine.buffers(0, 1, 2)
    machine.move(b.id, a.id, 0, 0, 0)
    once = made.moved()
    machine.move(c.id, b.id, 0, 0, 0)
    machine.move(a.id, c.id, 0, 0, 0)
    assert made.moved() == once == NBYTES
    machine.finish()
    expected = _arrays(0)[0] + np.uint8(3)
    assert made.read(a) == expected.tobytes()


def test_members_exchange_halos_without_the_host(mover: MakeMover) -> None:
    machine = mover(4)
    made = machine.rig
    a, b = machine.buffers(1, 2)
    machine.move(b.id, a.id, 100, 0, 0)
    machine.move(a.id, b.id, 100, 0, 0)
    uploaded = made.memory.moved.host_to_member
    before = made.memory.moved.member_to_member
    for _ in range(5):
        machine.move(b.id, a.id, 100, 0, 0)
        machine.move(a.id, b.id, 100, 0, 0)
    machine.finish()
    moved = made.memory.moved
    assert (moved.host_to_member, moved.member_to_host) == (uploaded, 0)
    assert moved.member_to_member - before == 10 * 3 * 100


def test_of_bytes_that_several_may_write_only_the_changed_ones_cross_a_link(
    mover: MakeMover, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appends, "MERGED_MAX_NBYTES", 0)
    machine = mover(3, compares=True)
    made = machine.rig
    to, from_ = machine.buffers(1, 2)
    machine.move(to.id, from_.id, 0, 0, 0)
    before = made.moved()
    machine.move(to.id, from_.id, 0, 5, 1)  # all may write anywhere
    machine.finish()
    once = move(*_arrays(1, 2), 0, 0, 0)
    expected = move(once, _arrays(2)[0], 0, 5, 1)
    boxes = np.arange(NBYTES) * STEP % NBYTES  # where work-item i writes
    first = NBYTES // GROUP // 3 + (NBYTES // GROUP % 3 > 0)  # work-groups of the first member
    others = boxes[first * GROUP :]
    changed = np.count_nonzero(expected[others] != once[others])
    events, moved = made.memory.accounting.events, made.memory.moved
    assert 0 < events.diff_nbytes <= changed + GROUP
    assert moved.member_to_host == 0 and not made.memory.accounting.races
    lists = 2 * 16 + 16 * -(-NBYTES // 32) * 2  # headers and records at most
    assert made.moved() - before <= 2 * NBYTES + events.diff_nbytes + lists  # all had to become current
    assert made.read(to) == expected.tobytes()


def test_members_hold_only_what_they_use(mover: MakeMover) -> None:
    machine = mover(4)
    made = machine.rig
    to, from_ = machine.buffers(1, 2)
    assert made.memory.accounting.peak_nbytes == [0] * 4
    machine.move(to.id, from_.id, 0, 0, 0)
    machine.finish()
    assert max(made.memory.accounting.peak_nbytes) <= 2 * (NBYTES // 4 + 2 * 4096)


def test_reads_of_one_buffer_do_not_wait_for_kernels_on_others(mover: MakeMover) -> None:
    machine = mover(2)
    made = machine.rig
    a, b, c = machine.buffers(0, 1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    made.wait(*machine.pending)
    gate = Ticket()
    for dependencies in c.dependencies:  # as if an operation that takes long used all of it
        dependencies.written_by(c.whole, gate)
    machine.move(c.id, b.id, 0, 0, 0)
    blocked = [ticket for ticket in machine.pending if not ticket.done]
    assert made.read(a) == move(*_arrays(0, 1), 0, 0, 0).tobytes()
    assert made.read(b) == noise(NBYTES, 1)
    assert blocked and not any(ticket.done for ticket in blocked)
    gate.complete()
    machine.finish()


def test_memory_in_use_is_flat_over_many_buffers(mover: MakeMover, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as the most buffers at a time need: every other hundred is held until all of it is issued."""
    machine = mover(2)
    made = machine.rig
    from_ = made.buffer(noise(NBYTES, 2))
    freed: list[int] = []
    free = made.memory._free

    def note(buffer: VirtualBuffer) -> None:
        free(buffer)
        freed.append(buffer.id)

    monkeypatch.setattr(made.memory, "_free", note)
    in_use = []
    for number in range(10):
        gate = Ticket()
        for dependencies in from_.dependencies:  # as if an operation that takes long wrote all of it
            dependencies.written_by(from_.whole, gate)
        if number % 2:
            gate.complete()
        for _ in range(100):
            to = made.buffer(NBYTES)
            machine.move(to.id, from_.id, 0, 0, 0)
            made.memory.release(to.id)
        if not number % 2:
            assert len(freed) == 100 * number
            gate.complete()
        machine.finish()
        made.until(lambda freed=freed, count=100 * (number + 1): len(freed) == count)  # type: ignore[misc]
        in_use.append([device.memory.in_use for device in made.devices])
    assert in_use == [in_use[0]] * 10 and min(in_use[0]) > 0


def _arrays(*seeds: int) -> list[np.ndarray]:
    return [np.frombuffer(noise(NBYTES, seed), np.uint8) for seed in seeds]


KINDS: dict[str, tuple[int, int, list[int], dict[str, object]]] = {
    "one": (1, AMPLE, [], {}),
    "two": (2, AMPLE, [], {}),
    "three": (3, AMPLE, [], {}),
    "five": (5, AMPLE, [], {}),
    "late-0": (3, AMPLE, [0], {}),
    "late-1-2": (3, AMPLE, [1, 2], {}),
    "full": (3, 96 << 10, [], {}),  # room for some buffers
    "full-late": (3, 96 << 10, [0, 2], {}),
    "tiny": (3, 24 << 10, [], {}),  # for less than one
    "tiny-late": (3, 24 << 10, [1], {}),
    "host": (3, AMPLE, [1], {"coherence": "host"}),
    "compares": (3, AMPLE, [], {"compares": True}),
    "compares-late": (3, AMPLE, [0, 2], {"compares": True}),
    "compares-full": (3, 96 << 10, [1], {"compares": True}),
    "apart": (3, AMPLE, [1], {"apart": True}),
    "apart-full": (3, 96 << 10, [0], {"apart": True}),
    "apart-tiny": (2, 24 << 10, [], {"apart": True}),
    "nodes-full": (3, 96 << 10, [], {"nodes": (0, 1, 2)}),
    "nodes-full-late": (3, 96 << 10, [0, 2], {"nodes": (0, 1, 1), "node_nbytes": 8 << 10}),
    "nodes-tiny": (3, 24 << 10, [1], {"nodes": (0, 1, 2), "node_nbytes": 48 << 10}),
    "nodes-apart-compare": (3, 96 << 10, [], {"nodes": (0, 1, 2), "apart": True, "compares": True}),
}
"""Members, how much memory each has, which are late, and more that a rig is told."""


@pytest.mark.parametrize("kind", KINDS)
def test_random_commands_leave_what_one_device_would_and_move_only_what_is_stale(
    kind: str, rig: MakeRig
) -> None:
    members, memory_nbytes, late, more = KINDS[kind]
    made = rig(members, memory_nbytes, late, **more)
    machine = Machine(made, SOURCE)
    is_ample, is_lazy = memory_nbytes == AMPLE, "coherence" not in more
    # What merges on members move depends on the data.
    is_counted = is_ample and is_lazy and "compares" not in more
    issued = Issued(machine, is_counted)
    for seed in range(PROGRAMS):
        issued.run(generate(seed, COMMANDS, more=True))
        assert max(made.memory.accounting.peak_nbytes) <= memory_nbytes
    events = made.memory.accounting.events
    assert machine.repeated > PROGRAMS or not is_lazy
    assert (issued.counted > PROGRAMS * COMMANDS) == is_counted
    assert (events.node_spills > 0) == ("nodes" in more)
    assert (events.node_refused_nbytes > 0) == ("node_nbytes" in more)
    assert (events.spills > 0) == (not is_ample) and (events.chunks > 0) == ("tiny" in kind)
    machine.__dict__.clear()  # pytest keeps what a fixture made for a while
