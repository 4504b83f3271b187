"""Plans that are used again for other buffers are those that would be made for them."""

from __future__ import annotations

import random

import pytest

from sdi.clc.model import Argument, ArgumentKind, KernelModel
from sdi.intervals import ByteRange
from sdi.launch import plan_memory
from sdi.launch.arguments import ArgumentValue, BufferArgument, LocalSize
from sdi.launch.plan import CutPlan, make_plan
from sdi.launch.plan_memory import PlanKey, PlanMemory, numbered
from sdi.ndrange import GroupBox
from sdi.regions import RegionSet
from sdi.sampling.model import AccessRange, Precision
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import Directory

NBYTES = 4096
BOXES = (GroupBox((0, 0, 0), (1, 1, 1)), GroupBox((1, 0, 0), (2, 1, 1)))


def argument(index: int) -> Argument:
    return Argument(f"a{index}", "uchar*", ArgumentKind.GLOBAL, 8, 0x119B, 0x11A3, 0, True, True, False, 1, 1)


MODEL = KernelModel("k", tuple(argument(index) for index in range(3)), None, "", "", 1)


class Maps:
    """Ranges drawn once; box k starts at group k."""

    def __init__(self, choose: random.Random) -> None:
        def ranges() -> RegionSet:
            starts = [choose.randrange(NBYTES // 2 - 64) for _ in range(choose.randrange(4))]
            return RegionSet.of(ByteRange(start, start + choose.randrange(1, 64)) for start in starts)

        self._assignments = [
            tuple(AccessRange(k, ranges(), ranges(), choose.choice(list(Precision))) for k in range(3))
            for _ in BOXES
        ]

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        return self._assignments[box.start[0]]


def buffers_of(*ids: int) -> dict[int, VirtualBuffer]:
    return {number: VirtualBuffer(number, NBYTES, 0, Directory(NBYTES), [], [None] * 2) for number in ids}


def key_of(values: tuple[ArgumentValue, ...], buffers: dict[int, VirtualBuffer]) -> PlanKey:
    inner = numbered(values)
    assert inner is not None
    return (1, (0, 0, 0), (2, 1, 1), (1, 1, 1), inner, tuple(b.nbytes for b in buffers.values()), False)


@pytest.mark.parametrize("bound", [(0, 1, 2), (0, 0, 1), (0, 1, 0)])
@pytest.mark.parametrize("seed", range(20))
def test_a_remembered_plan_is_the_one_that_would_be_made(bound: tuple[int, ...], seed: int) -> None:
    maps, memory = Maps(random.Random(seed)), PlanMemory()
    offsets = [0, 64, NBYTES // 2]

    def launch(first_id: int) -> tuple[tuple[ArgumentValue, ...], dict[int, VirtualBuffer]]:
        values = tuple(BufferArgument(first_id + 7 * b, at) for b, at in zip(bound, offsets, strict=True))
        return values, buffers_of(*dict.fromkeys(value.buffer for value in values))

    values, buffers = launch(5)
    made = make_plan(MODEL, values, maps.over, BOXES, buffers)
    memory.keep(key_of(values, buffers), True, made)

    values, buffers = launch(100)
    found = memory.find(key_of(values, buffers), BOXES, True, list(buffers.values()))
    assert found == make_plan(MODEL, values, maps.over, BOXES, buffers)
    assert memory.find(key_of(values, buffers), BOXES, False, list(buffers.values())) is None
    assert memory.find(key_of(values, buffers), BOXES[:1], True, list(buffers.values())) is None


def test_other_sizes_offsets_and_ways_to_share_a_buffer_are_other_launches() -> None:
    def key(*values: ArgumentValue, nbytes: tuple[int, ...] = (NBYTES, NBYTES)) -> PlanKey:
        inner = numbered(values)
        assert inner is not None
        return (1, (0, 0, 0), (2, 1, 1), None, inner, nbytes, False)

    usual = key(BufferArgument(1, 0), BufferArgument(2, 0))
    assert usual == key(BufferArgument(9, 0), BufferArgument(4, 0))
    different = [
        key(BufferArgument(1, 0), BufferArgument(1, 0)),
        key(BufferArgument(1, 8), BufferArgument(2, 0)),
        key(BufferArgument(1, 0, 64), BufferArgument(2, 0)),
        key(BufferArgument(1, 0), BufferArgument(0, 0)),
        key(BufferArgument(1, 0), LocalSize(8)),
        key(BufferArgument(1, 0), b"1234"),
        key(BufferArgument(1, 0), None),  # type: ignore[arg-type]
        key(BufferArgument(1, 0), BufferArgument(2, 0), nbytes=(NBYTES, 64)),
    ]
    assert len({usual, *different}) == 1 + len(different)


def test_what_was_used_last_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_memory, "LAUNCHES_MAX", 3)
    memory, buffers = PlanMemory(), buffers_of(1)
    plan = CutPlan(
        BOXES,
        make_plan(MODEL, (BufferArgument(1, 0),) * 3, Maps(random.Random(1)).over, BOXES, buffers).buffers,
    )
    keys = [key_of((BufferArgument(1, at),), buffers) for at in range(5)]
    for key in keys[:3]:
        memory.keep(key, False, plan)
    assert memory.find(keys[0], BOXES, False, list(buffers.values()))
    memory.keep(keys[3], False, plan)
    kept = [memory.find(key, BOXES, False, list(buffers.values())) is not None for key in keys]
    assert kept == [True, False, True, True, False]
    monkeypatch.setattr(plan_memory, "REGIONS_MAX", 0)
    memory.keep(keys[4], False, plan)
    assert not any(memory.find(key, BOXES, False, list(buffers.values())) for key in keys)
