"""Every figure of the tables, of a session small enough to do the sums by hand."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from sdi.profile.analyse.figures import figures
from sdi.profile.analyse.model import (
    AssignmentSpan,
    Command,
    CopySpan,
    LaunchShape,
    LaunchSpan,
    Member,
    Profile,
    Resident,
    SessionProfile,
    Turn,
    WorkSpan,
)
from sdi.profile.analyse.tables import Tables, covered_ns, make_tables
from sdi.profile.show.text import table_text, tables_csv, tables_json

GROUPS, LOCAL = (8, 1, 1), (4, 1, 1)


def command(number: int, kind: str, start_ns: int, end_ns: int, status: int = 0) -> Command:
    return Command(number, 1, kind, 64, start_ns - 20, start_ns - 10, start_ns, end_ns, status)


SESSION = SessionProfile(
    pid=7,
    application=6,
    members=(Member("a", "gpu"), Member("b", "gpu")),
    opened_ns=1_000,
    closed_ns=9_000,
    is_complete=True,
    commands=(
        command(1, "write", 1_100, 1_200),
        command(2, "launch", 2_000, 2_100),
        command(3, "launch", 3_000, 3_180),
        command(4, "launch", 4_000, 4_080, -5),
        command(5, "read", 5_000, 5_300),
        Command(6, 1, "launch", 0, 5_400, 0, 0, 0, 0),
    ),
    shapes=(
        LaunchShape(1, "k", GROUPS, LOCAL, 2, (2, 1, 1), "", 1, 32),
        LaunchShape(2, "k", GROUPS, LOCAL, 1, (1, 1, 1), "a reason", 1, 0),
        LaunchShape(3, "other", GROUPS, LOCAL, 2, (1, 2, 1), "", 3, 0),
    ),
    launches=(
        LaunchSpan(2, "k", 1, "", 1_950, 1_970, 1_995, 5),
        LaunchSpan(3, "k", 2, "plan", 2_950, 2_960, 2_990, 0),
        LaunchSpan(4, "other", 3, "binding", 3_950, 3_955, 3_980, 0),
    ),
    assignments=(
        AssignmentSpan(2, 0, 0, 5, 2_000, 2_100, 0),
        AssignmentSpan(2, 0, 1, 3, 2_000, 2_060, 0),
        AssignmentSpan(3, 0, 1, 8, 3_000, 3_180, 0),
        AssignmentSpan(4, 0, 0, 4, 4_000, 4_080, 0),
        AssignmentSpan(4, 0, 1, 4, 4_000, 4_040, -1),
    ),
    copies=(
        CopySpan(2, 0, 1, 300, "k: x", False, 1_900, 1_940, 0),
        CopySpan(2, 0, 1, 100, "k: y", False, 1_920, 1_960, 0),
        CopySpan(3, 1, 0, 64, "k: x", True, 2_800, 2_820, 0),
        CopySpan(3, 0, 2, 64, "k: x", True, 2_820, 2_860, 0),
        CopySpan(4, 2, 1, 1_000, "other: z", False, 3_900, 3_910, 0),
        CopySpan(5, 2, 0, 500, "read", False, 5_000, 5_250, 0),
    ),
    works=(
        WorkSpan(2, "twin", 0, 32, "k: x", 1_960, 1_970, 0),
        WorkSpan(2, "diff", 0, 32, "k: x", 2_100, 2_115, 0),
        WorkSpan(2, "merge", -1, 32, "k: x", 2_115, 2_140, 0),
        WorkSpan(3, "move", 1, 77, "k: x", 2_900, 2_940, 0),
    ),
    turns=(Turn(1_950, 1_995, 30), Turn(2_950, 2_990, 35)),
    builds=(Turn(1_010, 1_080, 60),),
    residents=(Resident(0, 1_900, 400), Resident(0, 3_000, 100), Resident(1, 2_800, 64)),
    link_ns={(0, 1): 0.125},
)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return make_tables(Profile((SESSION,)))


def test_commands_are_counted_with_times_and_failures(tables: Tables) -> None:
    rows = {row.name: row for row in tables.commands}
    assert [row.name for row in tables.commands] == ["(read)", "k", "(write)", "other"]
    k = rows["k"]
    assert (k.calls, k.ns, k.average_ns, k.min_ns, k.max_ns, k.failed) == (2, 280, 140, 100, 180, 0)
    assert k.percent == pytest.approx(100 * 280 / 760)
    assert (rows["other"].calls, rows["other"].failed) == (1, 1)
    assert tables.unfinished_commands == 1


def test_nodes_own_memories_come_behind_the_members() -> None:
    members = (Member("a", "gpu"), Member("b", "gpu", 2, False), Member("c", "gpu", 5, False))
    session = replace(SESSION, members=members)
    assert [session.memory_name(memory) for memory in range(6)] == ["host", "0", "1", "2", "node 2", "node 5"]
    assert [session.node(memory) for memory in range(6)] == [0, 0, 2, 5, 2, 5]
    assert [session.member(memory) for memory in (0, 3, 4)] == [None, 2, None]
    copy = session.copies[0]
    crossing = {
        ends: session.crosses(replace(copy, source=ends[0], target=ends[1]))
        for ends in ((2, 4), (4, 2), (4, 3), (4, 0), (5, 1), (4, 5))
    }
    assert [ends for ends, crosses in crossing.items() if not crosses] == [(2, 4), (4, 2)]


def test_a_kernel_s_row_has_all_its_sums(tables: Tables) -> None:
    k, other = tables.kernels
    assert (k.launches, k.split, k.whole, k.why_whole, k.cuts) == (2, 1, 1, ("a reason",), ("2",))
    assert (k.ns, k.member_ns, k.member_groups) == (280, (100, 240), (5, 11))
    assert k.imbalance_percent == pytest.approx(20)
    assert (k.bindings, k.plans, k.new_plans, k.bind_ns, k.issue_ns, k.held_ns) == (0, 1, 1, 30, 50, 5)
    assert [(a.argument, a.copies, a.nbytes, a.ns) for a in k.arguments] == [
        ("x", 3, 428, 100),
        ("y", 1, 100, 40),
    ]
    assert (k.merges, k.merge_ns, k.merged_nbytes, k.moved_nbytes) == (1, 50, 32, 528)
    assert (k.whole_ns, k.split_ns, k.speed_up) == (180, 100, pytest.approx(1.8))
    assert (other.cuts, other.chunks, other.failed, other.bindings) == (("2",), 2, 1, 1)
    assert other.speed_up is None and other.imbalance_percent == pytest.approx(25)


def test_links_have_bytes_rates_and_their_part_of_what_was_measured(tables: Tables) -> None:
    found = {(row.kind, row.source, row.target): row for row in tables.links}
    assert {link: (row.copies, row.nbytes, row.ns) for link, row in found.items()} == {
        ("host to device", "host", "0"): (2, 400, 60),  # copies that overlap count once
        ("host-staged", "0", "host"): (1, 64, 20),
        ("host-staged", "host", "1"): (1, 64, 40),
        ("peer", "1", "0"): (1, 1_000, 10),
        ("device to host", "1", "host"): (1, 500, 250),
    }
    down = found["host to device", "host", "0"]
    assert down.gb_per_s == pytest.approx(400 / 60) and down.percent == pytest.approx(100 * 400 / 60 / 8)
    assert found["peer", "1", "0"].percent is None


def test_several_services_are_summed_and_that_is_said() -> None:
    both = make_tables(Profile((SESSION, SESSION)))
    assert table_text(both).startswith("sdi profile: 2 members, 0.016 ms (of 2 services together)\n")
    assert (both.kernels[0].launches, both.links[0].nbytes) == (4, 1_000)
    assert sum(both.member_losses[0].values()) == both.wall_ns == 16_000


def test_time_that_spans_share_counts_once() -> None:
    assert covered_ns([(8, 15), (0, 10), (2, 4), (20, 21), (20, 20)]) == 16


def test_the_service_s_own_work_and_memory_are_shown(tables: Tables) -> None:
    turns, builds = tables.service
    assert (turns.count, turns.ns, turns.cpu_ns) == (2, 85, 65)
    assert (builds.count, builds.ns, builds.cpu_ns) == (1, 70, 60)
    assert tables.peak_nbytes == (400, 64) and tables.wall_ns == 8_000


def test_figures_are_the_tables(tables: Tables) -> None:
    found = figures(tables)
    assert (found["launches"], found["split"], found["whole"], found["failed_commands"]) == (3, 2, 1, 1)
    assert (found["moved_bytes"], found["copies"]) == (2_028, 6)
    assert (found["host_staged_bytes"], found["peer_bytes"]) == (128, 1_000)
    assert found["kernel.k.speed_up"] == pytest.approx(1.8) and "kernel.other.speed_up" not in found
    assert sum(value for name, value in found.items() if name.endswith("_percent") and "." not in name) == (
        pytest.approx(100)
    )


def test_text_csv_and_json_say_the_same(tables: Tables) -> None:
    text = table_text(tables)
    for part in (
        "sdi profile: 2 members, 0.008 ms\n",
        "kernel k: 2 launches, 1 split (2), 1 whole",
        "whole: a reason",
        "imbalance 20.0 %",
        "speed-up 1.80",
        "merged 32 B in 1 merges",
        "(1 commands had not ended and are not counted)",
    ):
        assert part in text
    known = json.loads(tables_json(tables))
    assert known["kernels"][0]["speed_up"] == pytest.approx(1.8)
    files = {name: list(csv.DictReader(io.StringIO(content))) for name, content in tables_csv(tables).items()}
    assert [row["nbytes"] for row in files["links.csv"]] == [str(row["nbytes"]) for row in known["links"]]
    assert (
        files["kernels.csv"][0]["member_1_ns"] == "240" and files["kernels.csv"][0]["merged_nbytes"] == "32"
    )
    assert [list(row.values()) for row in files["arguments.csv"]] == [
        ["k", "x", "3", "428", "100"],
        ["k", "y", "1", "100", "40"],
        ["other", "z", "1", "1000", "10"],
    ]
    assert sum(int(value) for row in files["members.csv"] for value in list(row.values())[1:]) == 16_000
