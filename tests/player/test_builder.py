"""Which copies before a launch need not follow each other, and which one kernel brings."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sdi.devices.capabilities import CPU, GPU
from sdi.devices.cuda import fetch as fetch_module
from sdi.devices.native import FETCHED_MAX, NativeLaunch, NativePart, NativePlace
from sdi.intervals import ByteRange
from sdi.player.builder import Builder, _are_beside, _by_ends, address
from sdi.player.library import (
    OP_COPY,
    OP_COPY_NOW,
    OP_DOWNLOAD,
    OP_FETCH,
    OP_LAUNCH,
    OP_UPLOAD,
    OPS_MAX,
    PlayerOp,
)
from sdi.region import Region
from sdi.vmem.directory import HOST, Copy
from sdi.vmem.links import Links
from sdi.vmem.transfers import Transfer

A, B = object(), object()
ONE, TWO, THREE = 1, 2, 3


def transfer(buffer: object, source: int, target: int, start: int, stop: int) -> Transfer:
    """A copy of bytes [start, stop) between two memories."""
    copy = Copy(source, target, ByteRange(start, stop))
    return cast(Transfer, SimpleNamespace(buffer=buffer, copy=copy, cause="halo", is_staged=False))


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        # Halos: each memory is read at one end and written at the other.
        ([(A, ONE, TWO, 0, 8), (A, TWO, ONE, 8, 16)], True),
        ([(A, ONE, TWO, 0, 8), (A, THREE, TWO, 8, 16), (A, TWO, ONE, 16, 24)], True),
        ([(A, HOST, ONE, 0, 8), (A, HOST, TWO, 0, 8)], True),
        # The second one brings on what the first one brought.
        ([(A, HOST, ONE, 0, 8), (A, ONE, TWO, 4, 12)], False),
        ([(A, ONE, TWO, 4, 12), (A, HOST, ONE, 0, 8)], False),
        ([(A, HOST, ONE, 0, 8), (B, ONE, TWO, 4, 12)], True),
        # The same bytes are written twice.
        ([(A, TWO, ONE, 0, 8), (A, THREE, ONE, 7, 12)], False),
        # Each member brings its own to the host: on two lanes.
        ([(A, ONE, HOST, 0, 8), (A, TWO, HOST, 8, 16)], False),
        ([(A, ONE, HOST, 0, 8), (A, ONE, HOST, 8, 16)], True),
        ([(A, ONE, HOST, 0, 8), (B, TWO, HOST, 8, 16)], True),
    ],
)
def test_copies_are_beside_each_other_unless_one_writes_what_another_uses(
    copies: list[tuple[object, int, int, int, int]], expected: bool
) -> None:
    assert _are_beside([transfer(*each) for each in copies]) is expected


def test_one_kernel_brings_what_a_member_gets_of_another_one_as_far_as_it_can() -> None:
    planes = [
        (k % 2, transfer(A, ONE + k % 2, TWO - k % 2, 8 * k, 8 * k + 8)) for k in range(2 * FETCHED_MAX + 2)
    ]
    other = transfer(B, THREE, ONE, 0, 8)
    there, back = ([each for way, each in planes if way == k] for k in (0, 1))
    found = _by_ends([each for _, each in planes] + [other])
    assert found == [there[:-1], there[-1:], back[:-1], back[-1:], [other]]


ROWS, RUN = Region(0, 4096, ((1 << 16, 256),)), Region(0, 6 << 20)
RUN_OF_64 = Region(0, 64)
_HOST = bytearray(64)
ARENA = address(memoryview(_HOST))


def builder_for(members: list[SimpleNamespace], links: Links, has_events: Sequence[bool]) -> Builder:
    """For so many members, whose buffers are large; segments: ten times the buffer's, and the memory's."""
    memories = SimpleNamespace(pooled=None, pooled_memory=-1, host_view=lambda *_: memoryview(_HOST))
    lanes = [SimpleNamespace(has_events=each, context=1) for each in has_events]
    table: Any = SimpleNamespace(
        memory=SimpleNamespace(memories=memories, transfers=SimpleNamespace(links=links)),
        members=members,
        lanes=lanes,
        segment=lambda buffer, end: 10 * buffer.id + end,
    )
    return Builder(table, [], [])


def made(number: int, source: int, target: int, region: Region) -> Transfer:
    """A copy of buffer ``number``."""
    allocation = SimpleNamespace(device_buffer=1, over=ByteRange(0, 1 << 34), holds=lambda _: True)
    found: Any = SimpleNamespace(
        buffer=SimpleNamespace(allocations=[allocation] * 2, id=number),
        copy=Copy(source, target, region), nbytes=region.total_nbytes, region=region,
        leave=0, arrive=0, cause="halo", is_staged=False,
    )  # fmt: skip
    return cast(Transfer, found)


@pytest.mark.parametrize(
    ("regions", "bytes_per_ns", "kinds"),
    [
        ([ROWS, Region(0, 64)], 400, [OP_FETCH]),
        ([ROWS] * (FETCHED_MAX + 1), 400, [OP_FETCH] * 2),
        ([ROWS] * FETCHED_MAX, 50, [OP_FETCH] * FETCHED_MAX),  # too long together to be before a launch
        ([ROWS, RUN], 400, [OP_FETCH, OP_COPY]),  # one is a copy engine's
        ([RUN], 400, [OP_COPY]),
        ([RUN], 10, None),
        ([Region(0, 1, ((8, 2), (32, 2), (128, 2), (512, 2)))], 400, None),
    ],
)
def test_what_one_kernel_can_not_bring_together_is_brought_alone(
    regions: list[Region], bytes_per_ns: int, kinds: list[int] | None
) -> None:
    links = Links([GPU, GPU], lambda: 0)
    links._rates[ONE][TWO] = 1 / bytes_per_ns

    def fetch(_: object, parts: Sequence[NativePart]) -> NativeLaunch | None:
        is_fetched = fetch_module.is_fetched([part.runs for part in parts])
        return NativeLaunch(1, (1, 1, 1), (256, 1, 1), 1, block=bytes(8)) if is_fetched else None

    member = SimpleNamespace(peer=lambda _: True, place=lambda *_: NativePlace(0, 4096), fetch=fetch)
    builder = builder_for([member] * 2, links, [True, True])
    transfers = [made(number, ONE, TWO, region) for number, region in enumerate(regions)]
    assert builder.transfers(transfers) == (kinds is not None)
    if kinds is not None:
        assert [op.kind for op in builder.ops] == kinds
        assert sum(op.nbytes for op in builder.ops) == sum(region.total_nbytes for region in regions)
        ends = {(10 * number + end, end - 1) for number in range(len(regions)) for end in (ONE, TWO)}
        assert set(builder.accesses) == ends, "each source is read, and each target written"
        assert builder.num_beside == (len(kinds) if len(kinds) > 1 else 0)


def in_this_process(near: Sequence[int]) -> list[SimpleNamespace]:
    """Members of OpenCL drivers; ``near``: where the buffers of each are, 0: elsewhere."""
    return [
        SimpleNamespace(
            peer=lambda _: False, host=lambda *_: True, place=lambda _, at, to=to: NativePlace(7, at, to)
        )
        for to in near
    ]


@pytest.mark.parametrize(
    ("copies", "near", "kinds"),
    [
        # Halos: a memory is read at one end and written at the other, and nobody waits for anybody.
        ([(ONE, TWO, RUN_OF_64), (TWO, ONE, RUN_OF_64)], (4096, 8192), [OP_COPY_NOW] * 2),
        ([(ONE, TWO, ROWS)], (4096, 8192), [OP_COPY_NOW]),
        ([(ONE, TWO, Region(0, 64, ((128, 3000),)))], (4096, 8192), [OP_COPY_NOW]),
        ([(ONE, TWO, RUN)], (4096, 8192), None),  # so long the player would do nothing else
        ([(ONE, TWO, ROWS)] * 3, (4096, 8192), None),
        ([(ONE, TWO, Region(0, 1, ((8, 2), (32, 2))))], (4096, 8192), None),
        ([(ONE, TWO, RUN_OF_64)], (0, 8192), None),
        ([(ONE, TWO, RUN_OF_64)], (4096, 0), None),
        # One brings on what another one has brought: none may be the driver's, which has not done it yet.
        ([(HOST, ONE, RUN_OF_64), (ONE, TWO, RUN_OF_64)], (4096, 8192), [OP_COPY_NOW] * 2),
        ([(ONE, HOST, RUN_OF_64), (HOST, TWO, RUN_OF_64)], (4096, 8192), [OP_COPY_NOW] * 2),
        ([(ONE, HOST, RUN_OF_64), (HOST, TWO, RUN_OF_64)], (0, 8192), None),
        ([(ONE, HOST, RUN_OF_64), (HOST, ONE, RUN_OF_64)], (0, 8192), [OP_DOWNLOAD, OP_UPLOAD]),
        ([(HOST, ONE, RUN_OF_64), (HOST, TWO, RUN_OF_64)], (4096, 8192), [OP_UPLOAD] * 2),
        ([(HOST, TWO, RUN_OF_64), (ONE, TWO, RUN_OF_64)], (4096, 8192), None),
    ],
)
def test_the_player_copies_between_members_in_memory_of_this_process(
    copies: list[tuple[int, int, Region]], near: Sequence[int], kinds: list[int] | None
) -> None:
    builder = builder_for(in_this_process(near), Links([CPU, CPU], lambda: 0), [False, False])
    assert builder.transfers([made(1, *each) for each in copies]) == (kinds is not None)
    if kinds is None:
        return
    assert [op.kind for op in builder.ops] == kinds
    for op, (source, target, region) in zip(builder.ops, copies, strict=True):
        if op.kind == OP_COPY_NOW:
            assert source == HOST or op.near_other + op.from_ == near[source - 1]
            assert target == HOST or op.near + op.to == near[target - 1]
            assert op.nbytes == region.total_nbytes
            rows = (region.num_runs, *[region.levels[0][0]] * 2) if region.levels else (0, 0, 0)
            assert (op.num_runs, op.from_pitch, op.to_pitch) == rows
        assert target != HOST or op.near + op.to == ARENA or (op.kind == OP_DOWNLOAD and op.to == ARENA)
        assert source != HOST or op.near_other + op.from_ == ARENA
    launch = PlayerOp(kind=OP_LAUNCH, lane=0)
    assert builder._op(launch, [(10 + ONE, 1), (20 + TWO, 0)], ()), "it comes after all of them"


def test_what_has_more_operations_than_lanes_have_marks_is_not_recorded() -> None:
    builder = builder_for(in_this_process((4096, 8192)), Links([CPU, CPU], lambda: 0), [False, False])
    assert not builder.transfers([made(1, ONE, TWO, RUN_OF_64)] * (OPS_MAX + 1))
