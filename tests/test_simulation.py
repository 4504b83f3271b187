"""The simulation of jobs of many nodes: cases that are small enough to be done by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.simulation.model import Costs, Link, predict
from bench.simulation.programs import matrix, published, stencil
from bench.simulation.trace import Operation, Trace, Traced, trace
from sdi.cluster.arriving import CHUNK_NBYTES
from sdi.devices.capabilities import CPU

FREE = Costs(
    plan=1.0,
    operation=0.0,
    replay=0.0,
    replay_anew=0.0,
    keep=0.0,
    send=0.0,
    hear=0.0,
    act=0.0,
    part=0.0,
    launch=0.0,
    wake=0.0,
    copy_bytes_per_s=1e9,
)
"""Nothing but what a case gives takes any time; copies take a ns a byte."""
LINK = Link(0.5e9, 100.0)
"""2 ns a byte."""


def launched(nodes: tuple[int, ...], operations: list[Operation], **given: object) -> Trace:
    """One launch of these operations, of which a group takes 10 ns."""
    command = Traced(0, False, 0.0, 0, len(operations), **given)  # type: ignore[arg-type]
    return Trace(nodes, (10.0,), operations, [command])


def test_bytes_from_rank_0s_host_are_sent_and_then_copied_in_before_the_kernel_begins() -> None:
    operations = [
        Operation(0, 2, 1000, 0, (), (), issue_ns=7),
        Operation(2, 2, 0, 30, (), (0,), issue_ns=3),
    ]
    found = predict(launched((0, 1), operations), FREE, LINK)
    # 7: planned; 2000 sent, 100 on the way, 1000 copied; the node was told at 110.
    assert found.end_ns == 7 + 2000 + 100 + 1000 + 300
    assert found.path == {"rank 0": 7.0, "link": 2000.0, "latency": 100.0, "copies": 1000.0, "kernels": 300.0,
                          "messages": 0.0, "launches": 0.0, "arriving": 0.0}  # fmt: skip
    assert (found.root_ns, found.kernels_ns) == (10.0, {1: 300.0})


def test_members_of_a_node_work_at_the_same_time_and_a_member_one_launch_after_the_other() -> None:
    operations = [
        Operation(1, 1, 0, 5, (), ()),
        Operation(2, 2, 0, 8, (), ()),
        Operation(2, 2, 0, 2, (), ()),
    ]
    assert predict(launched((0, 0), operations), FREE, LINK).end_ns == 100.0


def test_a_copy_within_a_member_waits_for_both_of_its_ends() -> None:
    operations = [
        Operation(1, 1, 0, 5, (), ()),
        Operation(1, 1, 30, 0, (0,), ()),
        Operation(1, 1, 0, 1, (), (1,)),
    ]
    assert predict(launched((0,), operations), FREE, LINK).end_ns == 50 + 30 + 10


def test_a_link_sends_to_one_node_after_the_other_and_receives_meanwhile() -> None:
    operations = [
        Operation(2, 3, 100, 0, (), ()),
        Operation(2, 4, 100, 0, (), ()),
        Operation(3, 2, 150, 0, (), ()),
    ]
    found = predict(launched((0, 1, 2, 3), operations), FREE, LINK)
    # Told at 100; member 1's two reads are over at 200 and 300, member 2's at 250.
    assert found.end_ns == max(300 + 200 + 200 + 100 + 100 - 100, 250 + 300 + 100 + 150)


def test_two_that_send_to_one_node_share_its_end_of_the_link() -> None:
    operations = [Operation(2, 4, 100, 0, (), ()), Operation(3, 4, 100, 0, (), ())]
    read = launched((0, 1, 2, 3), operations)
    assert predict(read, FREE, LINK).end_ns == 100 + 100 + 2 * 200 + 100 + 100
    assert predict(read, FREE, Link(0.5e9, 100.0, limits_arrival=False)).end_ns == 100 + 100 + 200 + 100 + 200


def test_who_waits_for_one_node_s_end_of_the_link_keeps_nobody_else_waiting() -> None:
    operations = [
        Operation(2, 4, 100, 0, (), ()),
        Operation(3, 4, 100, 0, (), ()),
        Operation(3, 2, 100, 0, (), ()),
    ]
    # Told at 100; the last is read at 300 and sent from 400 to 600, while 4 is sent to until 600.
    assert predict(launched((0, 1, 2, 3), operations), FREE, LINK).end_ns == 600 + 100 + 100


def test_what_nodes_answer_a_kept_read_with_goes_up_the_tree() -> None:
    operations = [Operation(member, 0, 100, 0, (), ()) for member in (2, 3, 4, 5)]
    read = launched((0, 1, 2, 3, 4), operations, is_replayed=True, is_gathered=True, is_known=True)
    # Rank 0 tells 1 and 2 at 100, and 1 tells 3 and 4 at 200; these have read at 300 and sent at 500; that is
    # there at 600 and 800, as they share the end of one link.  Then 300 bytes go on.
    assert predict(read, replace(FREE, read=0.0), LINK).end_ns == 800 + 600 + 100


def test_a_node_passes_each_chunk_on_when_it_has_come() -> None:
    c = CHUNK_NBYTES
    operations = [Operation(0, 2, 2 * c, 0, (), (), base=64), Operation(2, 3, 2 * c, 0, (0,), (), base=64)]
    # Both have come at 4 c + 100; the first is in its place at 3 c + 100, and sent from 4 c + 100 on.
    assert predict(launched((0, 1, 2), operations), FREE, LINK).end_ns == 8 * c + 100 + 100 + c
    apart = [operations[0], Operation(2, 3, 2 * c, 0, (0,), (), base=3 * c)]
    assert predict(launched((0, 1, 2), apart), FREE, LINK).end_ns == 10 * c + 100 + 100 + c


def test_what_another_node_did_is_known_through_rank_0() -> None:
    operations = [Operation(2, 2, 0, 5, (), ()), Operation(3, 3, 0, 1, (), (0,))]
    # Told at 100, done at 150; rank 0 knows at 250, the other node at 350.
    assert predict(launched((0, 1, 2), operations), FREE, LINK).end_ns == 360.0


def test_replays_go_down_the_tree_and_cost_rank_0_the_same_on_any_number_of_nodes() -> None:
    costs = Costs(**{name: getattr(FREE, name) for name in FREE.__slots__} | {"replay": 40.0, "send": 1.0})
    ends = []
    for nodes in (3, 11, 43):
        operations = [Operation(n + 1, n + 1, 0, 1, (), ()) for n in range(nodes)]
        replayed = launched(tuple(range(nodes)), operations, is_replayed=True, is_known=True)
        found = predict(replayed, costs, LINK)
        assert found.root_ns == 40.0
        ends.append(found.end_ns)
    # Rank 0 tells two directly; of 11 each of these tells four more, of 43 these tell others.
    assert ends == [40 + 100 + 10, 40 + 100 + 4 + 100 + 10, 40 + 2 * (100 + 4) + 100 + 10]


def test_an_application_that_waits_goes_on_when_its_bytes_have_come() -> None:
    costs = Costs(**{name: getattr(FREE, name) for name in FREE.__slots__} | {"wake": 11.0})
    operations = [Operation(2, 0, 50, 0, (), ()), Operation(2, 2, 0, 1, (), ())]
    read, launch = Traced(-1, True, 7.0, 0, 1), Traced(0, False, 0.0, 1, 2)
    found = predict(Trace((0, 1), (10.0,), operations, [read, launch]), costs, LINK)
    # Told at 100, read at 150, sent at 250, there at 350; the application goes on at 368.
    assert found.end_ns == 368 + 100 + 10


def test_a_trace_has_what_sdi_copies_for_a_product_of_matrices() -> None:
    side, members = 256, 4
    nbytes = 4 * side * side
    found = trace(matrix("product", side), range(members), CPU)
    pairs = found.nbytes_by_pair()
    assert sum(n for (source, _), n in pairs.items() if source == 0) <= 3 * nbytes
    assert sum(n for (_, target), n in pairs.items() if target == 0) == nbytes, "the result"
    for member in range(1, members + 1):
        assert sum(n for (_, target), n in pairs.items() if target == member) >= nbytes * 5 // 4
    launches = [each for each in found.operations if not each.nbytes]
    assert sum(each.groups for each in launches) == (side // 16) ** 2 and len(launches) == members
    assert all(
        number < at for at, each in enumerate(found.operations) for number in (*each.leave, *each.arrive)
    )


def test_a_trace_knows_which_launches_nodes_replay() -> None:
    found = trace(stencil("steps", 256, 8), range(3), CPU)
    launches = [each for each in found.commands if each.kernel == 0]
    assert [each.is_replayed for each in launches] == [False] * 4 + [True] * 4
    assert [each.keeps for each in launches] == [False] * 4 + [True] * 2 + [False] * 2
    assert not any(each.is_replayed for each in trace(stencil("steps", 256, 8), (0, 0, 0), CPU).commands)


@pytest.mark.parametrize("position", range(len(published())))
def test_programs_of_the_papers_take_on_one_device_what_the_paper_says(position: int) -> None:
    program = published()[position]
    assert program.program.kernels_ns() > 0.1e9
    if program.published_s:
        assert program.published_s[0] == pytest.approx(program.program.kernels_ns() / 1e9)
