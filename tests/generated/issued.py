"""Generated programs on a virtual device alone: what they read, and that only stale bytes move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sdi import commands
from sdi.commands import Rectangle
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.launch.plan import CutPlan
from sdi.runtime.region_copies import parts_of
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from tests.generated.generate import (
    Copy,
    Create,
    Enqueue,
    Fill,
    Gate,
    Launch,
    Map,
    Marker,
    Open,
    Program,
    Read,
    Release,
    Step,
    Touch,
    Unmap,
    Wait,
    Work,
    Write,
    rows_of,
)
from tests.generated.kernels import KINDS, Array
from tests.runtime.machine import Machine, argument_entries

_INDEX = {name: number for number, name in enumerate(KINDS)}


class Dense:
    """One version number per byte and memory: what moving only stale bytes costs."""

    def __init__(self, members: int, nbytes: int) -> None:
        self.versions = np.full((members + 1, nbytes), -1)
        self.versions[HOST] = 0
        self.latest = np.zeros(nbytes, int)

    def read(self, memory: int, over: ByteRange) -> int:
        """How many bytes have to come there, which are there then."""
        part = slice(over.start, over.stop)
        stale = self.versions[memory, part] != self.latest[part]
        self.versions[memory, part] = self.latest[part]
        return int(np.count_nonzero(stale))

    def wrote(self, memory: int, over: ByteRange) -> None:
        """These bytes are there and nowhere else."""
        part = slice(over.start, over.stop)
        self.latest[part] += 1
        self.versions[memory, part] = self.latest[part]

    def follow(self, buffer: VirtualBuffer) -> None:
        """Have what ``buffer`` has, after a step whose way is not modelled."""
        for run, holders, _ in buffer.directory.runs(buffer.whole, buffer.nbytes) or ():
            part = slice(run.start, run.stop)
            self.latest[part] += 1
            for memory in range(len(self.versions)):
                if holders >> memory & 1:
                    self.versions[memory, part] = self.latest[part]


class Issued:
    """Issues the commands of programs in the order of enqueueing, which is one that their queues allow.

    ``is_counted``: where nothing but stale bytes has a reason to move, that is checked after each step.
    """

    def __init__(self, machine: Machine, is_counted: bool) -> None:
        self._machine = machine
        self._rig = machine.rig
        self._is_counted = is_counted
        self.counted = 0
        self._buffers: dict[int, VirtualBuffer] = {}
        self._dense: dict[int, Dense] = {}
        self._tickets: dict[int, Sequence[Ticket]] = {}
        self._reads: list[tuple[bytearray, bytes, str]] = []

    def run(self, program: Program) -> None:
        """Run it to its end.  Raises AssertionError where it reads wrong bytes, or moves what it need not."""
        self._buffers, self._dense, self._tickets = {}, {}, {}
        for number, step in enumerate(program.steps):
            before, what = self._rig.moved(), f"program {program.seed}, step {number}, {step!s:.200}"
            expected = self._step(step, what)
            if self._is_counted and expected is None:
                for buffer, dense in self._dense.items():
                    dense.follow(self._buffers[buffer])
            elif self._is_counted:
                assert self._rig.moved() - before == expected, what
                self.counted += 1
            for buffer in self._buffers.values():
                buffer.directory.check()
                _check_places(buffer)
        self._machine.finish()
        for found, wanted, what in self._reads:
            assert bytes(found) == wanted, what
        self._reads.clear()
        for buffer in self._buffers.values():
            self._machine.memory.release(buffer.id)
        self._rig.turn()

    def _step(self, step: Step, what: str) -> int | None:
        """Take it; the bytes that it has to move, None where that depends on more than is modelled."""
        match step:
            case Create(number, nbytes, data):
                made = self._buffers[number] = self._rig.buffer(nbytes if data is None else data)
                self._dense[number] = Dense(len(self._rig.devices), nbytes)
                assert made.nbytes == nbytes
            case Release(number):
                self._machine.memory.release(self._buffers.pop(number).id)
                del self._dense[number]
            case Enqueue(event, _, _, work):
                return self._issue(event, work, what)
            case Wait(event):
                self._rig.wait(*self._tickets.get(event, ()))
            case Touch(event, number, offset, expected, data):
                self._rig.wait(*self._tickets[event])
                size = len(expected if expected is not None else data or b"")
                mapped = self._bytes(number)[offset : offset + size]
                assert expected is None or mapped.tobytes() == expected, what
                if data is not None:
                    mapped[:] = np.frombuffer(data, np.uint8)
            case Gate() | Open():
                pass  # nothing is left to wait for: commands are issued in their order
        return 0

    def _issue(self, event: int, work: Work, what: str) -> int | None:
        machine = self._machine
        moved: int | None = 0
        tickets: Sequence[Ticket] = ()
        match work:
            case Read(number, rectangle, expected):
                found = bytearray(len(expected))
                self._reads.append((found, expected, what))

                def read(packed_at: int) -> None:
                    found[:] = self._rows(number, rectangle, packed_at).tobytes()

                tickets = machine.run(commands.Read(self._id(number), _whole(rectangle), False), read)
                moved = self._read(number, rectangle)
            case Write(number, rectangle, data):

                def write(packed_at: int) -> None:
                    rows = self._rows(number, rectangle, packed_at)
                    rows[:] = np.frombuffer(data, np.uint8).reshape(rows.shape)

                tickets = machine.run(commands.Write(self._id(number), _whole(rectangle), False), write)
                moved = self._wrote(number, rectangle)
            case Fill(number, rectangle, pattern):
                tickets = machine.run(commands.Fill(self._id(number), _whole(rectangle), pattern))
                moved = self._filled(number, rectangle)
            case Copy(source, target, from_, to):
                ends = self._id(source), self._id(target)
                homes = parts_of(self._buffers[source].directory, _whole(from_).bounds)
                tickets = machine.run(commands.CopyBuffer(*ends, _whole(from_), _whole(to)))
                moved = None
                if _whole(from_).contiguous and _whole(to).contiguous and homes is not None:
                    for part in homes:  # each where it is; neighbours that one memory has are one
                        home = (part.holders & -part.holders).bit_length() - 1
                        self._dense[target].wrote(home, part.over.moved(to.offset - from_.offset))
                    moved = 0
            case Map(number, rectangle, flags):
                asked = commands.Map(
                    self._id(number), _whole(rectangle), flags != 4, flags != 1, False, False
                )
                tickets = machine.run(asked)
                buffer = self._buffers[number]  # what lies beside is shown too
                moved = None if flags == 4 else self._dense[number].read(HOST, buffer.whole)
            case Unmap(number, rectangle, wrote):
                tickets = machine.run(commands.Unmap(self._id(number), _whole(rectangle), wrote, False))
                moved = self._wrote(number, rectangle) if wrote else 0
            case Launch():
                plan, tickets = machine.launch(self._launch(work))
                moved = self._launched(plan)
            case Marker():
                pass
        self._tickets[event] = tickets
        return moved

    def _launch(self, work: Launch) -> commands.Launch:
        entries = argument_entries(
            [(self._id(number), offset, nbytes) for number, offset, nbytes in work.buffers], [work.k, work.n]
        )
        rest = (1,) * (3 - len(work.global_size))
        x, y, z = (*work.global_size, *rest)
        own = None if work.local_size is None else (*work.local_size, *rest)
        local = None if own is None else (own[0], own[1], own[2])
        index, dims = _INDEX[work.kernel], len(work.global_size)
        record = repr((index, x, y, local)).encode() + entries
        count = len(work.buffers) + 2
        return commands.Launch(1, index, dims, (0, 0, 0), (x, y, z), local, entries, count, record=record)

    # -- what moves ------------------------------------------------------------------------------------

    def _read(self, number: int, rectangle: Rectangle) -> int | None:
        whole = _whole(rectangle)
        return self._dense[number].read(HOST, whole.bounds) if whole.contiguous else None

    def _wrote(self, number: int, rectangle: Rectangle) -> int | None:
        whole = _whole(rectangle)
        if not whole.contiguous:
            return None
        self._dense[number].wrote(HOST, whole.bounds)
        return 0

    def _filled(self, number: int, rectangle: Rectangle) -> int | None:
        whole, buffer = _whole(rectangle), self._buffers[number]
        if not whole.contiguous:
            return None
        for part, holders, _ in buffer.directory.runs(whole.bounds, buffer.nbytes) or ():
            assert holders.bit_count() == 1, "one memory has what was filled"
            self._dense[number].wrote(holders.bit_length() - 1, part)
        return 0

    def _launched(self, plan: CutPlan) -> int:
        """Bytes that running ``plan`` moves when only stale bytes move, and merged ones go home."""
        dense = {buffer.id: self._dense[number] for number, buffer in self._buffers.items()}
        moved = 0
        for used in plan.buffers:
            for merged in used.merged:
                moved += dense[used.buffer.id].read(HOST, merged.over)
        for used in plan.buffers:
            model = dense[used.buffer.id]
            for k, assignment in enumerate(used.assignments):
                for merged in used.merged:
                    if k in merged.assignments:
                        moved += model.read(member_memory(k), merged.over)
                for part in assignment.needs.runs():
                    moved += model.read(member_memory(k), part)
            for k, assignment in enumerate(used.assignments):
                for part in assignment.owns.runs():
                    model.wrote(member_memory(k), part)
            for merged in used.merged:
                moved += merged.over.nbytes * len(merged.assignments)
                model.wrote(HOST, merged.over)
        return moved

    # -- where bytes are -------------------------------------------------------------------------------

    def _id(self, number: int) -> int:
        return self._buffers[number].id

    def _bytes(self, number: int) -> Array:
        buffer = self._buffers[number]
        return np.frombuffer(self._machine.memory.memories.host_view(buffer, buffer.whole), np.uint8)

    def _rows(self, number: int, rectangle: Rectangle, packed_at: int) -> Array:
        """Where the application copies a transfer's rows."""
        if not packed_at:
            return rows_of(self._bytes(number), rectangle)
        packed = self._machine.memory.arena.view(packed_at, rectangle.nbytes)
        return np.frombuffer(packed, np.uint8).reshape(rectangle.region[::-1])


def _whole(rectangle: Rectangle) -> Rectangle:
    """With all pitches, as the door makes it."""
    row, rows, _ = rectangle.region
    pitch = rectangle.row_pitch or row
    return replace(rectangle, row_pitch=pitch, slice_pitch=rectangle.slice_pitch or pitch * rows)


def _check_places(buffer: VirtualBuffer) -> None:
    """Members hold only bytes that have a place there."""
    for part, holders, _ in buffer.directory.holders(buffer.whole):
        for member, extent in enumerate(buffer.allocations):
            if holders >> member_memory(member) & 1:
                assert extent is not None and extent.holds(part.bounds)


__all__ = ["Issued"]
