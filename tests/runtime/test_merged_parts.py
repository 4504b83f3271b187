"""What several nodes write to the same bytes comes together in parts, one on each of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sdi.devices.capabilities import CPU
from sdi.vmem.directory import member_memory
from sdi.vmem.links import Links
from sdi.vmem.merging import members as member_merges
from tests.runtime.mover import NBYTES, Mover, move
from tests.vmem.conftest import MakeRig, noise


@pytest.mark.parametrize("nodes", [(0, 1), (0, 1, 2), (0, 1, 1, 2, 2)])
def test_scattered_bytes_are_merged_in_parts_and_are_those_of_one_memory(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch, nodes: tuple[int, ...]
) -> None:
    monkeypatch.setattr(member_merges, "_PART_NS", 1.0)
    made = rig(len(nodes), compares=True)
    links = Links([CPU] * len(nodes), nodes=nodes)
    made.memory.transfers.links = made.memory.merges._links = links
    machine, chance = Mover(made), random.Random(len(nodes))
    buffers = machine.buffers(1, 2)
    models = [np.frombuffer(noise(NBYTES, seed), np.uint8) for seed in (1, 2)]
    for _ in range(12):
        n, distance, seed = chance.randrange(2), chance.choice((0, 3, -700)), chance.choice((0, 5))
        machine.move(buffers[n].id, buffers[1 - n].id, distance, seed, 1)
        held = {mask for _, mask, _ in buffers[n].directory.holders(buffers[n].whole)}
        keepers = [member_memory(nodes.index(node)) for node in sorted(set(nodes))]
        assert held == {1 << memory for memory in keepers}, "each node keeps a part"
        machine.finish()
        models[n] = move(models[n], models[1 - n], distance, seed, 1)
    for buffer, model in zip(buffers, models, strict=True):
        assert made.read(buffer) == model.tobytes()
    made.turn()
    assert not made.memory.accounting.races
