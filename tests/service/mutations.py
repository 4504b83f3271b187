"""Damaged records: what goes wrong with the bytes of one, and what may never be let in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from sdi.commands import CopyBuffer, Fill, Launch, Map, Read, Rectangle, Unmap, Write
from sdi.errors import BadRecord
from sdi.launch.arguments import BufferArgument, ImageArgument, LocalSize, decode_arguments
from sdi.service.door import RecordEntry
from sdi.wire.layout import layout
from sdi.wire.records import HEADER, Op
from tests.service.recorded import KINDS, LIMITS, Replay, Stream

_HEADER = layout(HEADER)
_EDGES = (
    0,
    1,
    2,
    3,
    7,
    8,
    1 << 20,
    1 << 28,
    1 << 31,
    (1 << 31) - 1,
    1 << 32,
    (1 << 32) - 1,
    1 << 40,
    1 << 62,
)
_EDGES = (*_EDGES, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, (1 << 64) - 4096)


def damaged(choose: random.Random, record: bytes, others: Sequence[bytes], ids: Sequence[int]) -> bytes:
    """``record`` with one to three things wrong; mostly its header says how long it is."""
    data = bytearray(record)
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        _damage(choose, data, others, ids)
    if len(data) >= 16 and choose.random() < 0.9:
        del data[len(data) - len(data) % 8 :]
        data[:4] = len(data).to_bytes(4, "little")
    return bytes(data)


def _damage(choose: random.Random, data: bytearray, others: Sequence[bytes], ids: Sequence[int]) -> None:
    at = choose.randrange(len(data)) if data else 0
    match choose.randrange(10):
        case 0 if data:
            data[at] ^= 1 << choose.randrange(8)
        case 1 | 2 | 3:
            _put(choose, data, choose.choice(_EDGES))
        case 4:
            _put(choose, data, choose.choice(ids) if ids else 1)
        case 5:
            at -= at % 8
            old = int.from_bytes(data[at : at + 8], "little")
            near = old + choose.choice((-8, -1, 1, 8, 4096, old))
            data[at : at + 8] = (near % (1 << 64)).to_bytes(8, "little")
        case 6:
            del data[choose.randrange(16, len(data) + 1) // 8 * 8 :]
        case 7:
            data += choose.randbytes(8 * choose.randrange(1, 5))
        case 8:
            data[4:8] = choose.choice([*(op.value for op in KINDS), choose.randrange(50)]).to_bytes(
                4, "little"
            )
        case _:
            other = choose.choice(others)
            data[at:] = other[at:]


def _put(choose: random.Random, data: bytearray, value: int) -> None:
    """A number in one of the fields."""
    size = choose.choice((4, 8))
    at = choose.randrange(8, max(9, len(data))) // size * size
    data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


def assert_harmless(entry: RecordEntry, replay: Replay) -> None:
    """What was let in stays in its bounds: found out in another way than the door does."""
    buffers = replay.door.buffers
    match entry.command:
        case Write() if entry.command.data and len(entry.command.data) != entry.command.rectangle.nbytes:
            raise AssertionError(entry.command)
        case Read() | Write() | Fill() | Map() | Unmap():
            _assert_inside(entry.command.rectangle, buffers.get(entry.command.buffer))
        case CopyBuffer():
            _assert_inside(entry.command.source_rectangle, buffers.get(entry.command.source))
            _assert_inside(entry.command.target_rectangle, buffers.get(entry.command.target))
        case Launch():
            _assert_bound(entry.command, replay)


def _assert_inside(rectangle: Rectangle, total: int | None) -> None:
    row, rows, slices = rectangle.region
    assert row and rows and slices
    if total is None:
        return
    last = rectangle.offset + (slices - 1) * rectangle.slice_pitch + (rows - 1) * rectangle.row_pitch + row
    assert last <= total, rectangle
    assert rows * slices <= total, f"more rows than bytes: {rectangle}"


def _assert_bound(launch: Launch, replay: Replay) -> None:
    kernels, buffers = replay.kernels.get(launch.build), replay.door.buffers
    assert all(isinstance(region, int) for region in launch.regions)
    assert not set(launch.regions) & (replay.kernels.keys() - buffers.keys()), "a build as a region"
    if kernels is None:
        return
    for value in decode_arguments(kernels[launch.kernel_index], launch):
        if isinstance(value, BufferArgument) and value.buffer in buffers:
            total = buffers[value.buffer]
            assert value.offset + 1 <= value.offset + value.reach(total) <= total
        elif isinstance(value, ImageArgument) and value.buffer in buffers:
            assert value.view.over.stop <= buffers[value.buffer]
        elif isinstance(value, LocalSize):
            assert value.nbytes <= LIMITS.local_mem_nbytes


def damage_all(stream: Stream, seed: int, count: int) -> Counter[str]:
    """Hold ``count`` damaged records before the door, each where its original came; how they fared.

    By kind of the original and field, or "let in".  Raises what the door must not.
    """
    choose, found = random.Random(seed), Counter[str]()
    originals = [item for item in stream if isinstance(item, bytes)]
    while found.total() < count:
        replay = Replay(stream)
        for record in replay.records():
            ids, kind = replay.ids(), Op(_HEADER.unpack_from(record)[1]).name
            for _ in range(choose.choice((0, 1, 2, 3)) if count < 10_000 else 8):
                data = damaged(choose, record, originals, ids)
                try:
                    assert_harmless(replay.door.check(data), replay)
                except BadRecord as error:
                    found[f"{kind}: {str(error).partition(':')[0].partition(' ')[0]}"] += 1
                else:
                    found[f"{kind}: let in"] += 1
    return found
