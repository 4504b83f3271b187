"""What is counted of copies: by kind of link, by link and by cause; nodes' own memory is no member's."""

from __future__ import annotations

from sdi.devices.ticket import completed
from sdi.vmem.accounting import Accounting, BytesMoved
from sdi.vmem.directory import HOST


def counted(nodes: tuple[int, ...] = ()) -> Accounting:
    """Of two members, memories 1 and 2; that of nodes begins behind these."""
    return Accounting(BytesMoved(), [0, 0], nodes=nodes)


def test_copies_are_counted_by_link_and_by_cause() -> None:
    accounting = counted()
    accounting.copied(HOST, 1, 100, completed(), "k: a", 1)
    accounting.copied(1, 2, 30, completed(), "k: a", 1)
    accounting.repeated(1, 2, 120, "k: b", 4)
    accounting.copied(2, HOST, 7, completed(), "read", 2)
    moved = accounting.moved
    assert (moved.host_to_member, moved.member_to_member, moved.member_to_host) == (100, 150, 7)
    found = accounting.report()
    assert found["links"] == {
        "host>0": {"copies": 1, "nbytes": 100},
        "0>1": {"copies": 5, "nbytes": 150},
        "1>host": {"copies": 1, "nbytes": 7},
    }
    assert found["causes"] == {
        "k: a": {"host>0": 100, "0>1": 30},
        "k: b": {"0>1": 120},
        "read": {"1>host": 7},
    }


def test_a_nodes_own_memory_counts_apart() -> None:
    accounting = counted(nodes=(3,))
    accounting.copied(1, 3, 50, completed(), "room", 0)
    accounting.copied(3, 2, 20, completed(), "room", 0)
    assert accounting.moved == BytesMoved()
    assert accounting.events.node_filled_nbytes == 20
    assert list(accounting.report()["links"]) == ["0>node 3", "node 3>1"]  # type: ignore[call-overload]


def test_copies_between_members_cost_as_long_as_the_one_that_receives_most() -> None:
    accounting = counted(nodes=(1,))
    accounting.repeated(1, 2, 30, "k", 3)
    accounting.repeated(2, 1, 100, "k", 1)
    accounting.repeated(HOST, 1, 90_000, "k", 9)
    accounting.repeated(3, 1, 90_000, "k", 9)
    assert accounting.between_members_ns(lambda source, target, nbytes: 5.0 + nbytes) == 105.0
    assert counted().between_members_ns(lambda *_: 1.0) == 0.0


def test_the_most_that_was_allocated_is_kept_and_races_add_up() -> None:
    accounting = counted()
    for nbytes in (10, 30, 20):
        accounting.resident(1, nbytes)
    accounting.raced("k: a", 0)
    accounting.raced("k: a", 2)
    accounting.raced("k: a", 3)
    assert accounting.report()["peak_nbytes"] == [0, 30] and accounting.races == {"k: a": 5}


def test_what_is_counted_late_is_counted_before_anything_is_read() -> None:
    accounting = counted()
    accounting.on_report.append(lambda: accounting.repeated(1, 2, 8, "k", 1))
    assert accounting.moved.member_to_member == 0
    accounting.settle()
    assert accounting.moved.member_to_member == 8
