"""Counters are read, added up and shown."""

import json
from dataclasses import replace

import pytest

from sdi.cli.counters import (
    CountersError,
    KernelCounts,
    MovedCounts,
    Race,
    SessionCounts,
    explanation,
    merged,
    report,
    size,
    unfinished,
)

WRITTEN = {
    "members": 2,
    "kernels": {
        "step": {
            "launches_split": 10,
            "launches_whole": 0,
            "why_whole": "",
            "members_used": {"2": 10},
            "groups_per_member": [40, 40],
            "launch_groups": {"8": {"2": 10}},
        },
        "histogram": {
            "launches_split": 0,
            "launches_whole": 3,
            "why_whole": "line 4: atomic_inc on bins",
            "members_used": {"1": 3},
            "groups_per_member": [12, 0],
            "launch_groups": {"4": {"1": 3}},
        },
    },
    "bytes_moved": {"host_to_member": 4096, "member_to_host": 10, "member_to_member": 0, "application": 7},
    "races": [],
    "failures": [],
    "split": "always",
    "assignment_ns": 3e4,
    "elapsed_ns": 2e9,
    "between_members_ns": 0.0,
}
RACE = Race("step: p", ("line 4",))


def test_what_a_service_writes_is_read() -> None:
    counters = SessionCounts.from_json(json.dumps(WRITTEN))
    assert counters.members == 2
    assert counters.kernels["step"] == KernelCounts(10, 0, "", {2: 10}, (40, 40))
    assert counters.bytes_moved == MovedCounts(4096, 10, 0, 7)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"members": "x"}', '{"members": 1, "kernels": []}'])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(CountersError):
        SessionCounts.from_json(text)


def test_what_memory_of_the_application_costs_is_said() -> None:
    counters = SessionCounts.from_json(json.dumps(WRITTEN))
    assert "host pointers" not in report(counters)
    memory = {"host_compared_nbytes": 3 << 20, "host_copied_nbytes": 4096}
    some = SessionCounts.from_json(json.dumps(WRITTEN | {"memory": memory}))
    line = "host pointers: 6.0 MiB compared, 8.0 KiB copied, for buffers in memory of the application"
    assert line in report(merged([some, some, counters]))


def test_page_faults_of_the_application_are_counted_and_timed() -> None:
    counters = SessionCounts.from_json(json.dumps(WRITTEN))
    assert "page faults" not in report(counters)
    memory = {"host_faults": 30, "host_faults_ns": 2_000_000}
    some = SessionCounts.from_json(json.dumps(WRITTEN | {"memory": memory}))
    line = "page faults in fine-grained memory: 60, answered in 0.004 s"
    assert line in report(merged([some, some, counters])).splitlines()


def test_what_lies_in_nodes_own_memory_is_said_and_what_had_no_room_there() -> None:
    counters = SessionCounts.from_json(json.dumps(WRITTEN))
    assert "own memory" not in report(counters)
    memory = {"node_spilled_nbytes": 3 << 20, "node_filled_nbytes": 4096}
    some = SessionCounts.from_json(json.dumps(WRITTEN | {"memory": memory}))
    line = "nodes' own memory: 6.0 MiB came from members that lack room, 8.0 KiB went to members"
    assert line in report(merged([some, some, counters])).splitlines()
    full = SessionCounts.from_json(json.dumps(WRITTEN | {"memory": {"node_refused_nbytes": 1 << 20}}))
    assert f"{line}; 1.0 MiB had no room there" in report(merged([some, full, some])).splitlines()


def test_what_lies_in_files_is_said_and_where_it_takes_the_time() -> None:
    counters = SessionCounts.from_json(json.dumps(WRITTEN))
    assert "files" not in report(counters)
    memory = {"file_nbytes": 3 << 20, "file_read_nbytes": 4096, "file_written_nbytes": 5 << 20}
    memory |= {"file_read_ns": int(2e9), "file_written_ns": int(1e9)}
    some = SessionCounts.from_json(json.dumps(WRITTEN | {"memory": memory, "elapsed_ns": 4e9}))
    line = "files (SDI_SPILL): 3.0 MiB of buffers; 4.0 KiB read in 2.0 s, 5.0 MiB written in 1.0 s"
    assert line in report(some).splitlines()
    said = "; 3.0 s of 4.0 s went by with files (SDI_SPILL), which more memory would save"
    assert report(some).endswith(said)
    long = SessionCounts.from_json(json.dumps(WRITTEN | {"memory": memory, "elapsed_ns": 40e9}))
    assert "went by" not in report(long)


def test_sessions_add_up() -> None:
    one = SessionCounts.from_json(json.dumps(WRITTEN))
    other = SessionCounts(4, {"step": KernelCounts(1, 1, "too few groups", {1: 1, 3: 1}, (1, 1, 1, 0))},
                     MovedCounts(1, 1, 1, 1), races={RACE: 3})  # fmt: skip
    both = merged([one, other])
    assert both.members == 4
    assert both.kernels["step"] == KernelCounts(11, 1, "too few groups", {1: 1, 2: 10, 3: 1}, (41, 41, 1, 0))
    assert both.kernels["histogram"].groups_per_member == (12, 0, 0, 0)
    assert both.bytes_moved == MovedCounts(4097, 11, 1, 8)
    assert both.races == {RACE: 3}
    assert merged([other, both]).races == {RACE: 6}


def test_report_says_how_many_launches_were_by_address() -> None:
    kernels = {name: entry | {"launches_by_address": 3} for name, entry in WRITTEN["kernels"].items()}
    one = SessionCounts.from_json(json.dumps(WRITTEN | {"kernels": kernels}))
    step, histogram = report(merged([one, one])).splitlines()[2:4]
    assert step.startswith("step ") and step.endswith("  by address: 6")
    assert histogram.endswith("  by address: 6; whole: line 4: atomic_inc on bins")


def test_report_shows_each_kernel_and_why_it_ran_whole() -> None:
    assert report(SessionCounts.from_json(json.dumps(WRITTEN))).splitlines() == [
        "sdi: 2 members",
        "kernel     split  whole  members  groups on each member",
        "step          10      0  2        40 40",
        "histogram      0      3  1        12 0                   whole: line 4: atomic_inc on bins",
        "moved: 4.0 KiB host to members, 10 B members to host, 0 B between members, 7 B for the application",
        "verdict: split 10 of 13 launches as SDI_SPLIT=always asks; what these take on one device was not "
        "measured",
    ]


def test_report_names_races() -> None:
    races = [
        {"cause": "step: p, q", "lines": ["line 4", "line 7 of a.h"], "times": 12},
        {"cause": "histogram: bins", "lines": [], "times": 1},
    ]
    racing = SessionCounts.from_json(json.dumps(WRITTEN | {"races": races}))
    assert report(racing).splitlines()[-3:-1] == [
        "races: 12 times two members stored to the same place in one launch of step, through p, q, "
        "line 4 and line 7 of a.h; the later value was kept",
        "races: 1 times two members stored to the same place in one launch of histogram, through bins; "
        "the later value was kept",
    ]


def test_the_last_explanation_of_each_kernel_is_shown() -> None:
    kernels = {"step": WRITTEN["kernels"]["step"] | {"explain": {"text": ["kernel step", "  cut 2"]}}}  # type: ignore[index]
    first = SessionCounts.from_json(json.dumps(WRITTEN | {"kernels": kernels}))
    assert (
        explanation(merged([first, SessionCounts.from_json(json.dumps(WRITTEN))])) == "kernel step\n  cut 2"
    )
    assert explanation(SessionCounts.from_json(json.dumps(WRITTEN))) == "sdi: no kernel was launched"


def test_what_did_not_finish_is_lost_and_not_nothing() -> None:
    whole = SessionCounts.from_json(json.dumps(WRITTEN | {"finished": True}))
    lost = SessionCounts.from_json(json.dumps(WRITTEN | {"finished": False, "kernels": {}}))
    lost = replace(lost, bytes_moved=MovedCounts(0, 0, 0, 0))
    assert report(whole) == report(SessionCounts.from_json(json.dumps(WRITTEN)))
    assert report(lost) == "sdi: 2 members\nthe service did not finish: its counters are lost"
    assert explanation(lost) == "sdi: the service did not finish: its counters are lost"
    killed = replace(lost, unfinished=("SIGKILL",))
    assert report(killed).splitlines()[1] == "the service did not finish (SIGKILL): its counters are lost"
    lines = report(merged([whole, killed, lost])).splitlines()
    assert lines[1] == "2 of 3 services did not finish (SIGKILL): what these counted is lost"
    assert lines[2:-1] == report(whole).splitlines()[1:-1]
    assert lines[-1].startswith("verdict: of the others: split 10 of 13 launches ")
    idle = SessionCounts.from_json(json.dumps(WRITTEN | {"kernels": {}}))
    assert "no kernel was launched by the others" in report(merged([idle, lost])).splitlines()
    assert unfinished(idle) == ""


def test_sizes_are_for_people() -> None:
    assert [size(n) for n in (0, 1023, 1536, 1 << 30, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "1.0 GiB",
        "5.0 TiB",
    ]


def test_what_was_replayed_is_said_with_the_most_frequent_of_the_rest() -> None:
    counters = SessionCounts.from_json(json.dumps(WRITTEN))
    assert "replayed" not in report(counters)
    records = {"NDRANGE": {"played": 90, "unknown": 4, "busy": 5}, "WRITE": {"kind": 1}, "BUILD": {"kind": 7}}
    some = SessionCounts.from_json(json.dumps(WRITTEN | {"records": records}))
    assert (
        "replayed: 90 of 100 commands; the others: launches busy 5, launches unknown 4, writes kind 1"
        in report(some)
    )
    assert merged([some, some]).records["NDRANGE"] == {"played": 180, "unknown": 8, "busy": 10}
