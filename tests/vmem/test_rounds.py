"""What all want of each other goes in rounds: each byte once to each node, in few copies."""

from __future__ import annotations

import random
from collections import Counter
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.devices import copying
from sdi.devices.capabilities import CPU
from sdi.intervals import ByteRange
from sdi.regions import RegionSet
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import member_memory
from sdi.vmem.links import Links
from sdi.vmem.rounds import in_rounds, rounds
from sdi.vmem.transfers import Transfer
from tests.vmem.conftest import FOR, MakeRig, Rig, noise

SLOW_NS = 10**9
"""Of messages: the fewer, the better."""


@given(st.integers(1, 300))
def test_all_have_what_all_had_after_as_few_rounds_as_can_be(count: int) -> None:
    has = [{number} for number in range(count)]
    found = rounds(count)
    assert len(found) == ceil(log2(count))
    for asked in found:
        assert sorted(asked) == list(range(count)), "each is asked once"
        has = [mine | has[other] for mine, other in zip(has, asked, strict=True)]
    assert all(len(each) == count for each in has)


def far(made: Rig, nodes: range | list[int], hop_ns: int = SLOW_NS) -> Links:
    """Have messages between the members' nodes take so long."""
    found = Links([CPU] * len(nodes), nodes=list(nodes), hops_ns=[hop_ns])
    made.memory.transfers.links = found
    return found


def gathered(made: Rig, buffer: VirtualBuffer, over: RegionSet, members: range | list[int]) -> list[Transfer]:
    """Plan what members are to get, and do it."""
    for member in members:
        bounds = over.bounds
        assert bounds is not None
        made.reserve((buffer, member, bounds))
    wants = [(member_memory(member), over) for member in members]
    with made.memory.transfers.links.at_once():
        found = in_rounds(made.memory.transfers, buffer, wants, FOR.cause)
        for memory, each in wants:
            found += made.memory.transfers.plan(buffer, memory, each.regions, False, FOR.cause)
    for transfer in found:
        made.memory.transfers.perform(transfer, FOR)
    return found


def content(made: Rig, buffer: VirtualBuffer, member: int) -> bytes:
    """What a member has of all of a buffer."""
    there = bytearray(buffer.nbytes)
    place = made.memory.memories.allocation(buffer, member)
    waits = buffer.dependencies[member_memory(member)].before_read(buffer.whole)
    made.wait(copying.download(made.devices[member], place.device_buffer, 0, memoryview(there), waits))
    return bytes(there)


@pytest.mark.parametrize("count", [4, 5, 7, 8])
def test_parts_that_all_want_come_in_as_few_copies_as_rounds(rig: MakeRig, count: int) -> None:
    made = rig(count, nodes=range(count))
    far(made, range(count))
    part = 1000
    buffer = made.buffer(count * part)
    for member in range(count):
        over = ByteRange(member * part, (member + 1) * part)
        made.wait(made.fill(member, buffer, over, bytes([member + 1])))
    found = gathered(made, buffer, RegionSet((buffer.whole,)), range(count))
    expected = b"".join(bytes([member + 1]) * part for member in range(count))
    assert all(content(made, buffer, member) == expected for member in range(count))
    assert max(each.round for each in found) == ceil(log2(count))
    gets = Counter((each.round, each.copy.target) for each in found)
    assert max(gets.values()) <= (1 if count in (4, 8) else 2)  # else bytes of the last and of the first
    assert sum(each.nbytes for each in found) == count * (count - 1) * part, "each byte once"


@pytest.mark.parametrize("nodes", [[0, 1, 2, 3], [0, 1, 1, 2, 2, 3, 4], [1, 2, 3, 4, 5], [0, 0, 1, 2, 3, 3]])
def test_any_bytes_of_any_members_are_those_of_one_memory(rig: MakeRig, nodes: list[int]) -> None:
    made, chance, nbytes = rig(len(nodes), nodes=nodes), random.Random(len(nodes)), 4096
    far(made, nodes)
    model = np.frombuffer(noise(nbytes), np.uint8).copy()
    buffer = made.buffer(model.tobytes())
    for _ in range(25):
        for _ in range(chance.randrange(8)):
            member, start = chance.randrange(len(nodes)), chance.randrange(nbytes)
            over = ByteRange(start, min(nbytes, start + chance.choice((8, 300, 2000))))
            value = chance.randrange(256)
            made.wait(made.fill(member, buffer, over, bytes([value])))
            model[over.start : over.stop] = value
        first = chance.randrange(nbytes // 2)
        over = chance.choice((buffer.whole, ByteRange(first, first + nbytes // 3)))
        those = sorted(chance.sample(range(len(nodes)), chance.randrange(3, len(nodes) + 1)))
        lacked: dict[int, set[int]] = {}
        for member in those:
            lacked.setdefault(nodes[member], set(range(over.start, over.stop)))
        for member in range(len(nodes)):
            if nodes[member] in lacked:
                here = 1 << member_memory(member) | (nodes[member] == 0)
                missing = buffer.directory.missing(here, RegionSet((over,)))
                known = {
                    at
                    for part, _ in missing
                    for run in RegionSet((part,)).runs()
                    for at in range(run.start, run.stop)
                }
                lacked[nodes[member]] &= known
        found = gathered(made, buffer, RegionSet((over,)), those)
        place = made.memory.transfers.links.place
        crossed = sum(each.nbytes for each in found if place(each.copy.source) != place(each.copy.target))
        assert crossed == sum(map(len, lacked.values())), "no byte comes to a node twice"
        for member in those:
            there = content(made, buffer, member)[over.start : over.stop]
            assert there == model[over.start : over.stop].tobytes()
    assert made.read(buffer) == model.tobytes()


def test_much_that_one_has_goes_along_a_chain_and_little_in_rounds(rig: MakeRig) -> None:
    for nbytes, is_much in ((4096, False), (8 << 20, True)):
        made = rig(8, nodes=range(8))
        far(made, range(8), hop_ns=100_000)
        buffer = made.buffer(nbytes)
        made.wait(made.fill(1, buffer, buffer.whole, b"\1"))
        found = gathered(made, buffer, RegionSet((buffer.whole,)), range(8))
        left = Counter[int]()
        for each in found:
            left[each.copy.source] += each.nbytes
        assert max(left.values()) == (nbytes if is_much else 3 * nbytes)
        assert max(each.round for each in found) == (0 if is_much else 3)


def test_members_that_want_other_bytes_or_share_memory_get_them_as_ever(rig: MakeRig) -> None:
    made = rig(4, nodes=range(4))
    far(made, range(4))
    buffer = made.buffer(noise(4096))
    wants = [(member_memory(m), RegionSet((ByteRange(0, 1000 + m),))) for m in range(4)]
    assert not in_rounds(made.memory.transfers, buffer, wants, FOR.cause)
    far(made, [0] * 4)
    assert not in_rounds(made.memory.transfers, buffer, [(m, wants[0][1]) for m, _ in wants], FOR.cause)
