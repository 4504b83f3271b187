"""Sources are chosen by when the bytes would arrive."""

from __future__ import annotations

import pytest

from sdi.devices.capabilities import CPU, GPU
from sdi.devices.ticket import Ticket
from sdi.vmem.directory import HOST
from sdi.vmem.links import LATENCY_NS, Links

MIB = 1 << 20


def frozen() -> int:
    return 0


def test_peers_of_gpus_are_preferred_to_the_host_and_cpus_ask_the_host() -> None:
    assert Links([GPU, GPU], frozen).choose(2, 0b011, MIB) == 1
    assert Links([CPU, CPU], frozen).choose(2, 0b011, MIB) == HOST


def test_a_source_that_is_busy_is_worth_less() -> None:
    links = Links([GPU] * 4, frozen)
    links.planned(1, 3, MIB)
    assert links.choose(4, 0b0110, MIB) == 2


def test_a_broadcast_takes_a_logarithmic_number_of_rounds() -> None:
    links = Links([GPU] * 16, frozen)
    holders, depth, served = 0b10, {1: 0}, dict.fromkeys(range(1, 17), 0)
    for target in range(2, 17):
        source = links.choose(target, holders, 100 * MIB)
        links.planned(source, target, 100 * MIB)
        holders |= 1 << target
        depth[target] = depth[source] + 1
        served[source] += 1
    assert max(depth.values()) <= 4 and max(served.values()) <= 4


def test_what_all_nodes_want_goes_along_a_chain() -> None:
    nodes = [0, 0, 0, 1, 2, 2, 3, 4]  # of the host's memory, and of members
    links = Links([CPU] * 7, frozen, nodes=nodes[1:])
    holders, sent = 1 << HOST, dict.fromkeys(nodes, 0)
    for target in range(1, len(nodes)):
        source = links.choose(target, holders, 100 * MIB)
        sent[nodes[source]] += links.crosses(source, target)
        links.planned(source, target, 100 * MIB)
        holders |= 1 << target
    assert sum(sent.values()) == 4, "one copy over the network for each node"
    assert max(sent.values()) == 1, "and one from each, whichever of its memories is asked"


@pytest.mark.parametrize("num_nodes", [2, 3, 5, 8, 64])
def test_what_all_nodes_want_of_each_other_leaves_each_of_them_about_once(num_nodes: int) -> None:
    links = Links([CPU] * num_nodes, frozen, nodes=range(num_nodes))
    members = range(1, num_nodes + 1)
    holders = {part: 1 << part for part in members}
    sent = dict.fromkeys(members, 0)
    with links.at_once():
        for target in members:
            for part in members:
                if not holders[part] >> target & 1:
                    sent[links.choose(target, holders[part], MIB)] += 1
                    holders[part] |= 1 << target
    assert sum(sent.values()) == num_nodes * (num_nodes - 1), "each part goes to each node once"
    assert max(sent.values()) <= num_nodes


def test_nothing_goes_through_rank_0_from_one_far_node_to_another() -> None:
    links = Links([GPU, GPU, GPU], frozen, nodes=[0, 1, 2])
    for _ in range(50):
        ticket = Ticket()
        links.issued(2, 3, MIB, ticket)
        ticket.complete(None, 1, 1 + 100 * MIB)  # a link of 10 MB/s
    assert not links.through_host(2, 3, MIB)


def test_what_a_node_has_is_asked_of_none_across_the_network_however_busy_it_is_and_slow() -> None:
    links = Links([GPU, GPU, GPU, CPU, CPU], frozen, nodes=[1, 1, 2, 1, 2], own=[4, 5])
    assert [links.home(links.place(memory)) for memory in range(6)] == [1, *(1 << m for m in (4, 4, 5, 4, 5))]
    for source in (4, 1):
        for _ in range(50):
            ticket = Ticket()
            links.issued(source, 2, MIB, ticket)
            ticket.complete(None, 1, 1 + 100 * MIB)  # 10 MB/s
    for _ in range(20):
        links.planned(4, 2, 100 * MIB)
    everybody = (1 << 6) - 1
    assert links.choose(2, everybody & ~0b110, MIB) == 4, "its node's own memory"
    assert links.choose(1, everybody & ~0b010010, MIB) == 2, "another member of the node"
    assert not links.through_host(1, 2, MIB) and not links.through_host(4, 2, MIB)


def test_members_of_near_nodes_get_bytes_from_the_host_at_the_same_time() -> None:
    links = Links([GPU] * 4, frozen, nodes=[0, 1, 2, 3], near=[True] * 4)
    holders = 1 << HOST
    for target in range(1, 5):
        assert links.choose(target, holders, 100 * MIB) == HOST and not links.crosses(HOST, target)
        assert links.occupies(HOST, target) < 0.5
        links.planned(HOST, target, 100 * MIB)
        holders |= 1 << target
    assert links.choose(3, 0b10, 100 * MIB) == 1 and not links.crosses(1, 3)
    assert not links.through_host(1, 3, 100 * MIB), "that is what the two processes do, without rank 0"


def test_measured_times_change_the_choice() -> None:
    links = Links([GPU, GPU], frozen)
    for _ in range(50):
        ticket = Ticket()
        links.issued(1, 2, MIB, ticket)
        ticket.complete(None, 1, 1 + 100 * MIB)  # a peer link of 10 MB/s
    assert links.through_host(1, 2, MIB)


def test_the_best_of_the_last_copies_tells_what_a_link_between_members_can() -> None:
    links = Links([GPU, GPU], frozen)
    nbytes, quick, slow = 16 * MIB, 5 * LATENCY_NS, 500 * LATENCY_NS
    for count in range(40):
        ticket = Ticket()
        links.issued(1, 2, nbytes, ticket)
        ticket.complete(None, 1, 1 + int(slow if count % 8 else quick))
    assert links.cost_ns(1, 2, nbytes) == pytest.approx(LATENCY_NS + quick)
    assert not links.through_host(1, 2, nbytes)


def test_copies_that_may_be_nothing_but_latency_tell_nothing_of_a_link() -> None:
    links = Links([GPU, GPU], frozen)
    before = links.cost_ns(1, 2, MIB)
    for _ in range(40):  # [M] of 512 KiB, by Python one after the other
        ticket = Ticket()
        links.issued(1, 2, MIB // 2, ticket)
        ticket.complete(None, 1, 1 + int(3 * LATENCY_NS))
    assert links.cost_ns(1, 2, MIB) == before and links.rates() == []
    for _ in range(10):
        ticket = Ticket()
        links.issued(1, 2, MIB // 2, ticket)
        ticket.complete(None, 1, 1 + int(11 * LATENCY_NS))
    assert links.cost_ns(1, 2, MIB // 2) == pytest.approx(12 * LATENCY_NS)
    assert [ends for *ends, _ in links.rates()] == [[1, 2]]


def test_no_clock_makes_a_link_much_faster_than_its_kind() -> None:
    links = Links([GPU, GPU], frozen)
    for _ in range(20):
        ticket = Ticket()
        links.issued(1, 2, 256 * MIB, ticket)
        ticket.complete(None, 1, 2)
    assert links.cost_ns(1, 2, 256 * MIB) == pytest.approx(LATENCY_NS + 256 * MIB * GPU.peer_ns_per_byte / 4)


def test_one_copy_that_had_to_wait_does_not_make_a_link_slow() -> None:
    links = Links([GPU, GPU], frozen)
    before = links.cost_ns(HOST, 1, MIB) - LATENCY_NS
    ticket = Ticket()
    links.issued(HOST, 1, MIB, ticket)
    ticket.complete(None, 1, 1 + 1000 * int(before))
    assert before < links.cost_ns(HOST, 1, MIB) - LATENCY_NS < 2 * before


def test_copies_that_the_next_will_be_faster_than_change_nothing() -> None:
    links = Links([GPU, GPU], frozen)
    before = links.cost_ns(HOST, 1, MIB)
    for is_typical in (False, True):
        ticket = Ticket()
        ticket.is_typical = is_typical
        links.issued(HOST, 1, MIB, ticket)
        ticket.complete(None, 1, 1 + 10 * MIB)
        assert (links.cost_ns(HOST, 1, MIB) > before) == is_typical


def test_the_host_serves_gpus_side_by_side_and_cpus_in_turn() -> None:
    assert 0.25 <= Links([GPU] * 4).occupies(HOST, 3) < 0.5
    assert Links([GPU] * 4).occupies(3, HOST) == Links([GPU] * 4).occupies(1, 2) == 1
    assert Links([CPU, GPU]).occupies(HOST, 1) == 1
