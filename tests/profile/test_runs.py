"""Profiles of programs that copy and launch known amounts, of programs that die, and of services that do."""

from __future__ import annotations

import json
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sdi.profile.analyse.classes import CLASSES
from sdi.profile.analyse.model import HOST, SessionProfile
from sdi.profile.analyse.stream import read_profile
from sdi.profile.analyse.tables import make_tables
from tests.image_runs import Run, image_environ, run, vendors

ITEMS = 1 << 16
GROUP = 64
LAUNCHES = 7

START = f"""
import os, signal, sys, time, numpy as np, pyopencl as cl
(device,) = cl.get_platforms()[0].get_devices()
ctx = cl.Context([device])
queue = cl.CommandQueue(ctx)
program = cl.Program(ctx, '''
__kernel void plus(__global int *to, __global const int *from, int by) {{
  size_t i = get_global_id(0);
  to[i] = from[i] + by;
}}
__kernel void first(__global int *a) {{ if (get_global_id(0) == 0) a[1] = atomic_inc(a); }}
''').build()
plus, first = cl.Kernel(program, "plus"), cl.Kernel(program, "first")
data = np.arange({ITEMS}, dtype=np.int32)
to, source = (cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 4 * {ITEMS}) for _ in range(2))
cl.enqueue_copy(queue, source, data)
try:
    plus.set_arg(9, np.int32(0))
except cl.Error:
    pass
else:
    raise AssertionError
"""
KNOWN = f"""
for by in range({LAUNCHES}):
    plus(queue, ({ITEMS},), ({GROUP},), to, source, np.int32(by))
first(queue, (64,), (8,), source)
out = np.empty_like(data)
cl.enqueue_copy(queue, out, to)
assert (out == data + {LAUNCHES - 1}).all()
"""


def profiled(folder: Path, text: str, members: int, *options: str, **settings: str) -> Run:
    """Run START and ``text`` under ``sdi profile``; reports go to ``folder / "profile"``."""
    script = folder / "application.py"
    script.write_text(START + textwrap.dedent(text))
    command = [sys.executable, "-m", "sdi.cli", "profile", "-o", folder / "profile", *options, "--"]
    environ = image_environ(members, SDI_SPLIT="always", **settings)
    return run([*command, sys.executable, script], environ, 100)


def session_in(folder: Path) -> SessionProfile:
    (session,) = read_profile(folder / "profile").sessions
    return session


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """The known program on three members."""
    folder = tmp_path_factory.mktemp("known")
    result = profiled(folder, KNOWN, 3, "--format", "table,csv,json,chrome")
    assert result.returncode == 0, result.describe()
    return folder, result


def tables(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "profile" / "profile.json").read_text())
    return found


def trace(folder: Path) -> list[dict[str, Any]]:
    found = json.loads((folder / "profile" / "trace.json").read_text())
    events: list[dict[str, Any]] = found["traceEvents"]
    return events


def spans_of(folder: Path, category: str) -> list[dict[str, Any]]:
    return [event for event in trace(folder) if event["ph"] == "X" and event["cat"] == category]


def test_counts_and_bytes_of_a_known_program_are_exact(known: tuple[Path, Run]) -> None:
    found = tables(known[0])
    commands = {row["name"]: row for row in found["commands"]}
    calls = {name: (row["calls"], row["failed"]) for name, row in commands.items() if name != "(marker)"}
    assert calls == {"plus": (LAUNCHES, 0), "first": (1, 0), "(write)": (1, 0), "(read)": (1, 0)}
    plus, first = found["kernels"]
    assert (plus["launches"], plus["split"], plus["whole"], plus["cuts"]) == (LAUNCHES, LAUNCHES, 0, ["3"])
    assert sum(plus["member_groups"]) == LAUNCHES * ITEMS // GROUP and min(plus["member_groups"]) > 0
    known = plus["replays"] + plus["bindings"] + plus["plans"]
    assert known + plus["new_plans"] == LAUNCHES and plus["new_plans"] == 1
    assert [(row["argument"], row["nbytes"]) for row in plus["arguments"]] == [("from", 4 * ITEMS)]
    assert plus["classes"] == [["to", "", "exact"], ["from", "ranges", ""]]
    assert (first["whole"], first["member_groups"].count(0)) == (1, 2)
    assert "updates global memory atomically" in first["why_whole"][0] and first["advice"]
    moved = dict.fromkeys(("host to device", "device to host"), 0)
    for link in found["links"]:
        moved[link["kind"]] = moved.get(link["kind"], 0) + link["nbytes"]
    assert moved["device to host"] == 4 * ITEMS
    assert moved["host to device"] + moved.get("peer", 0) == 4 * ITEMS + sum(
        row["nbytes"] for row in first["arguments"]
    )


def test_copies_go_from_where_bytes_are_to_where_they_are_wanted(known: tuple[Path, Run]) -> None:
    copies = session_in(known[0]).copies
    assert all(copy.target == HOST != copy.source for copy in copies if copy.cause == "read")
    wanted = [copy for copy in copies if copy.cause == "plus: from"]
    assert wanted and all(copy.source == HOST != copy.target for copy in wanted)


def test_the_service_s_work_is_timed(known: tuple[Path, Run]) -> None:
    turns, builds = tables(known[0])["service"]
    # Commands may share a turn, but those before a blocking one do not wait for those behind it.
    assert turns["count"] >= 2 and builds["count"] == 1
    for row in (turns, builds):
        assert 0 < row["cpu_ns"] <= 1.05 * row["ns"] + 1e6
    assert builds["ns"] < found_ns(known[0], "clBuildProgram")


def found_ns(folder: Path, call: str) -> int:
    """Time in one function of the API."""
    (row,) = (row for row in tables(folder)["calls"] if row["name"] == call)
    taken: int = row["ns"]
    return taken


def test_commands_that_fail_are_counted_as_failed(tmp_path: Path) -> None:
    text = """
    held = cl.UserEvent(ctx)
    first_event = plus(queue, (64,), (64,), to, source, np.int32(1), wait_for=[held])
    second_event = plus(queue, (64,), (64,), to, source, np.int32(1), wait_for=[first_event])
    held.set_status(-5)
    try:
        second_event.wait()
    except cl.Error:
        pass
    else:
        raise AssertionError
    """
    result = profiled(tmp_path, text, 2, "--format", "json", "--fail-if", "failed_commands == 2")
    assert result.returncode == 3, result.describe()
    commands = {row["name"]: (row["calls"], row["failed"]) for row in tables(tmp_path)["commands"]}
    assert commands["(launch)"] == (2, 2) and commands["(write)"] == (1, 0)


def test_tables_sum_the_spans_and_the_losses_add_up_to_the_wall_time(known: tuple[Path, Run]) -> None:
    folder, _ = known
    found, session = tables(folder), session_in(folder)
    assert session.is_complete and found["wall_ns"] == session.closed_ns - session.opened_ns
    plus = next(row for row in found["kernels"] if row["name"] == "plus")
    mine = {launch.command for launch in session.launches if launch.kernel == "plus"}
    for member in range(3):
        spans = [
            p.end_ns - p.start_ns for p in session.assignments if p.command in mine and p.member == member
        ]
        assert plus["member_ns"][member] == sum(spans) > 0
    spans = [c.end_ns - c.start_ns for c in session.commands if c.id in mine]
    row = next(row for row in found["commands"] if row["name"] == "plus")
    assert row["ns"] == plus["ns"] == sum(spans)
    assert (row["min_ns"], row["max_ns"]) == (min(spans), max(spans))
    assert [sum(classes.values()) for classes in found["member_losses"]] == 3 * [found["wall_ns"]]
    for name in CLASSES:
        mean_ns = sum(classes[name] for classes in found["member_losses"]) / 3
        assert sum(row["ns"][name] for row in found["losses"]) == pytest.approx(mean_ns)
    by_member = (folder / "profile" / "members.csv").read_text().splitlines()
    assert len(by_member) == 1 + 3 and sum(map(int, by_member[1].split(",")[1:])) == found["wall_ns"]
    total = sum(ns for row in found["losses"] for ns in row["ns"].values())
    assert total == pytest.approx(found["wall_ns"])


def test_times_follow_each_other_on_one_clock(known: tuple[Path, Run]) -> None:
    session = session_in(known[0])
    commands = {command.id: command for command in session.commands}
    for command in session.commands:
        times = (command.queued_ns, command.submitted_ns, command.start_ns, command.end_ns)
        assert session.opened_ns <= times[0] and list(times) == sorted(times)
        assert times[3] <= session.closed_ns
    launches = {launch.command: launch for launch in session.launches}
    for assignment in session.assignments:
        assert launches[assignment.command].begin_ns <= assignment.start_ns <= assignment.end_ns
        assert assignment.end_ns <= commands[assignment.command].end_ns
    for copy in session.copies:
        assert 0 < copy.start_ns <= copy.end_ns and HOST in (copy.source, copy.target)


def test_the_table_has_the_columns_that_people_parse(known: tuple[Path, Run]) -> None:
    _, result = known
    lines = result.stderr.splitlines()
    head = lines[lines.index("Device commands:") + 1]
    columns = (
        "Function Name",
        "Calls",
        "Time (ns)",
        "Time (%)",
        "Average (ns)",
        "Min (ns)",
        "Max (ns)",
        "Failed",
    )
    positions = [head.index(column) for column in columns]
    assert positions == sorted(positions)
    assert all(name in result.stderr for name in CLASSES)
    text = (known[0] / "profile" / "commands.csv").read_text().splitlines()
    assert text[0].split(",") == list(columns)
    assert result.stdout == ""


def test_calls_are_counted_with_their_failures(known: tuple[Path, Run]) -> None:
    calls = {row["name"]: row for row in tables(known[0])["calls"]}
    expected = {
        "clEnqueueNDRangeKernel": LAUNCHES + 1, "clEnqueueReadBuffer": 1, "clEnqueueWriteBuffer": 1,
        "clBuildProgram": 1, "clCreateCommandQueueWithProperties": 1,
    }  # fmt: skip
    assert {name: calls[name]["calls"] for name in expected} == expected
    assert all(calls[name]["failed"] == 0 for name in expected)
    assert calls["clSetKernelArg"]["failed"] == 1
    for row in calls.values():
        assert 0 <= row["min_ns"] <= row["average_ns"] <= row["max_ns"] <= row["ns"]
    (application,) = read_profile(known[0] / "profile").applications
    for totals in application.totals:
        mine = [call.end_ns - call.start_ns for call in application.calls if call.name == totals.name]
        assert (len(mine), sum(mine), min(mine), max(mine)) == (
            totals.calls, totals.ns, totals.min_ns, totals.max_ns,
        )  # fmt: skip


def test_the_trace_shows_the_spans_that_the_tables_sum(known: tuple[Path, Run]) -> None:
    folder, _ = known
    found = tables(folder)

    def sum_ns(spans: list[dict[str, Any]]) -> int:
        return sum(round(1000 * span["dur"]) for span in spans)

    for row in found["kernels"]:
        mine = [span for span in spans_of(folder, "kernel") if span["name"] == row["name"]]
        assert sum_ns(mine) == sum(row["member_ns"])
        assert sum(span["args"]["groups"] for span in mine) == sum(row["member_groups"])
    for row in found["commands"]:
        mine = [s for s in spans_of(folder, "command") if s["name"] == row["name"].strip("()")]
        assert sum_ns(mine) == row["ns"]
    for row in found["calls"]:
        assert sum_ns([s for s in spans_of(folder, "call") if s["name"] == row["name"]]) == row["ns"]
    copied = sum(span["args"]["nbytes"] for span in spans_of(folder, "copy"))
    assert copied == sum(link["nbytes"] for link in found["links"])


def test_everything_in_the_trace_is_on_the_track_of_who_did_it(known: tuple[Path, Run]) -> None:
    events = [event for event in trace(known[0]) if event["ph"] == "M"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}

    def place(span: dict[str, Any]) -> tuple[str, str]:
        """Whose process, and which track, without the number of its lane."""
        track = threads[span["pid"], span["tid"]].partition(" (")[0]
        return processes[span["pid"]].partition(":")[0], track

    for span in spans_of(known[0], "copy"):
        source, target = span["args"]["from"], span["args"]["to"]
        if target == "host":
            assert place(span) == (f"member {source}", "copies out")
        else:
            track = "copies in" if source == "host" else "copies from members"
            assert place(span) == (f"member {target}", track)
    kernels = [place(span) for span in spans_of(known[0], "kernel")]
    session = session_in(known[0])
    for member in range(3):
        assignments = sum(assignment.member == member for assignment in session.assignments)
        assert kernels.count((f"member {member}", "kernels")) == assignments
    assert len(kernels) == len(session.assignments)
    calls = {place(span)[0] for span in spans_of(known[0], "call")}
    assert calls == {f"application {session.application}"}


def test_arrows_of_the_trace_go_forward_from_a_command_to_all_its_assignments_and_copies(
    known: tuple[Path, Run],
) -> None:
    events = trace(known[0])
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begins.keys() == ends.keys() and len(begins) == sum(event["ph"] == "s" for event in events)
    assert all(begins[key]["ts"] <= ends[key]["ts"] for key in begins)
    where = {(event["pid"], event["tid"], event["ts"]) for event in ends.values()}
    drawn = [*spans_of(known[0], "kernel"), *spans_of(known[0], "copy")]
    assert all((span["pid"], span["tid"], span["ts"]) in where for span in drawn)
    commands = {
        (event["pid"], event["tid"], event["ts"]): (event["cat"] == "issue", event["args"]["command"])
        for event in events
        if event["ph"] == "X" and "command" in event.get("args", {})
    }
    for key, begin in begins.items():
        is_issue, command = commands[begin["pid"], begin["tid"], begin["ts"]]
        end = ends[key]
        assert is_issue and commands[end["pid"], end["tid"], end["ts"]] == (False, command)
    depths = [e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "queue depth"]
    session = session_in(known[0])
    there = [
        sum(other.queued_ns <= each.queued_ns < other.end_ns for other in session.commands)
        for each in session.commands
    ]
    assert depths[-1] == 0 and min(depths) >= 0 and max(depths) == max(there) >= 1
    resident = [e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "resident bytes"]
    assert max(resident) == max(tables(known[0])["peak_nbytes"]) > 0


def test_spans_of_one_track_never_overlap_unless_one_holds_the_other(known: tuple[Path, Run]) -> None:
    by_track: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in trace(known[0]):
        if event["ph"] == "X":
            start = round(1000 * event["ts"])
            span = (start, start + round(1000 * event["dur"]))
            by_track.setdefault((event["pid"], event["tid"]), []).append(span)
    for spans in by_track.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))


def test_a_call_in_which_the_application_is_killed_is_in_the_trace(tmp_path: Path) -> None:
    text = """
    event = cl.UserEvent(ctx)
    import subprocess
    subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -KILL {os.getpid()}"])
    event.wait()
    """
    result = profiled(tmp_path, text, 2, "--format", "json,chrome")
    assert result.returncode == -9, result.describe()
    unfinished = [span for span in spans_of(tmp_path, "call") if span["args"].get("never returned")]
    assert [span["name"] for span in unfinished] == ["clWaitForEvents"]
    assert unfinished[0]["dur"] > 0


def test_a_child_of_a_fork_has_calls_of_its_own(tmp_path: Path) -> None:
    text = """
    platform = device.platform
    pid = os.fork()
    if pid == 0:
        for _ in range(3):
            platform.get_info(cl.platform_info.NAME)
        os._exit(0)
    os.waitpid(pid, 0)
    queue.finish()
    """
    result = profiled(tmp_path, text, 2, "--format", "json")
    assert result.returncode == 0, result.describe()
    parent, child = sorted(read_profile(tmp_path / "profile").applications, key=lambda one: -len(one.calls))
    (totals,) = child.totals
    assert totals.name == "clGetPlatformInfo" and totals.calls % 3 == 0 and totals.failed == 0
    assert "clFinish" in {totals.name for totals in parent.totals}


def test_calls_that_cannot_be_recorded_are_a_line_and_the_program_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    first_call = """
import resource, pyopencl as cl
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
assert cl.get_platforms()[0].name == "SDI"
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
"""
    script.write_text(first_call + START + KNOWN)
    environ = image_environ(2, SDI_SPLIT="always", SDI_PROFILE=str(tmp_path / "profile"))
    result = run([sys.executable, script], environ, 100)
    assert result.returncode == 0, result.describe()
    assert "File too large: calls are not recorded" in result.stderr
    assert read_profile(tmp_path / "profile").applications == ()


def test_a_folder_that_cannot_be_made_is_named_and_there_is_no_image(tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    script.write_text(START)
    result = run([sys.executable, script], image_environ(2, SDI_PROFILE="/dev/null/profile"), 60)
    assert result.returncode == 1
    assert "sdi: no image: SDI_PROFILE='/dev/null/profile': Not a directory\n" in result.stderr


def test_what_was_recorded_can_be_reported_again(known: tuple[Path, Run]) -> None:
    folder, before = known
    result = again("-o", folder / "profile")
    assert (result.returncode, result.stderr) == (0, before.stderr)


def again(*options: str | Path) -> Run:
    """``sdi profile`` with these options and without an application."""
    return run([sys.executable, "-m", "sdi.cli", "profile", *options], image_environ(3), 60)


def test_a_condition_over_the_figures_decides_the_exit_status(known: tuple[Path, Run]) -> None:
    folder = known[0] / "profile"
    true = again("-o", folder, "--fail-if", f"kernel.plus.launches == {LAUNCHES} and failed_calls > 0")
    assert true.returncode == 3, true.describe()
    assert (
        f"--fail-if: kernel.plus.launches == {LAUNCHES} (kernel.plus.launches is {LAUNCHES})" in true.stderr
    )
    assert again("-o", folder, "--fail-if", "kernel.plus.whole > 0").returncode == 0
    wrong = again("-o", folder, "--fail-if", "kernel.plus.speed > 0")
    assert wrong.returncode == 2 and "there is no figure 'kernel.plus.speed'" in wrong.stderr


def test_a_condition_that_cannot_be_looked_at_is_not_passed() -> None:
    unused = again("--fail-if", "unexplained_percent > 5", "--", "true")
    assert unused.returncode == 2
    assert unused.stderr.splitlines()[-1] == "sdi profile: --fail-if: there are no figures"
    assert again("--fail-if", "unexplained_percent > 5", "--", "false").returncode == 1


def test_two_profiles_are_printed_side_by_side(known: tuple[Path, Run]) -> None:
    folder = known[0] / "profile"
    result = again("--compare", folder, folder, "--fail-if", "ratio.moved_bytes != 1")
    assert result.returncode == 0, result.describe()
    line = next(line for line in result.stdout.splitlines() if line.startswith("kernel.plus.launches"))
    assert line.split() == ["kernel.plus.launches", str(LAUNCHES), str(LAUNCHES), "1.000"]
    assert again("--compare", folder, "/nowhere").returncode == 2


def test_an_application_that_is_killed_leaves_a_complete_profile(tmp_path: Path) -> None:
    text = (
        KNOWN
        + """
held = cl.UserEvent(ctx)
never = [plus(queue, (64,), (64,), to, source, np.int32(1), wait_for=[held]) for _ in range(3)]
queue.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    result = profiled(tmp_path, text, 2, "--format", "table,json,chrome")
    assert result.returncode == -9, result.describe()
    session = session_in(tmp_path)
    assert session.is_complete and len(session.launches) == LAUNCHES + 1
    found = tables(tmp_path)
    assert found["is_complete"] and found["unfinished_commands"] == 3
    assert "(3 commands had not ended and are not counted)" in result.stderr
    (plus,) = (row for row in found["commands"] if row["name"] == "plus")
    assert plus["calls"] == LAUNCHES and "(launch)" not in [row["name"] for row in found["commands"]]
    assert len(spans_of(tmp_path, "command")) == sum(row["calls"] for row in found["commands"])
    assert spans_of(tmp_path, "kernel")


def test_a_service_that_is_killed_leaves_what_it_had_written(tmp_path: Path) -> None:
    text = (
        KNOWN
        + """
    import glob
    (stream,) = glob.glob(os.environ["SDI_PROFILE"] + "/service-*.jsonl")
    while '"first"' not in open(stream).read():
        time.sleep(0.01)
    os.kill(int(stream.rpartition("-")[2].partition(".")[0]), signal.SIGKILL)
    """.replace("\n    ", "\n")
    )
    result = profiled(tmp_path, text, 2, "--format", "table,json,chrome")
    assert result.returncode is not None, result.describe()
    assert "the last moments are missing" in result.stderr
    session = session_in(tmp_path)
    assert not session.is_complete and [launch.kernel for launch in session.launches][:7] == ["plus"] * 7
    assert not tables(tmp_path)["is_complete"]
    assert spans_of(tmp_path, "kernel") and spans_of(tmp_path, "call")


def test_a_service_that_is_killed_leaves_what_it_had_written_of_replays(tmp_path: Path) -> None:
    text = f"""
    import glob
    (stream,) = glob.glob(os.environ["SDI_PROFILE"] + "/service-*.jsonl")
    def lines():
        with open(stream) as file:
            _, is_recorded, behind = file.read().rpartition('["recording"')
        return behind.count('["replayed"') if is_recorded else 0
    while lines() < 4:  # some may be from before the first launch
        for by in range(10):
            plus(queue, ({ITEMS},), ({GROUP},), to, source, np.int32(by))
        queue.finish()
    os.kill(int(stream.rpartition("-")[2].partition(".")[0]), signal.SIGKILL)
    """
    result = profiled(tmp_path, textwrap.dedent(text), 2, "--format", "table,json,chrome")
    assert result.returncode is not None, result.describe()
    assert "the last moments are missing" in result.stderr
    session = session_in(tmp_path)
    assert not session.is_complete
    assert {"replay"} < {launch.known for launch in session.launches}
    replayed = {launch.command for launch in session.launches if launch.known == "replay"}
    assert replayed <= {command.id for command in session.commands}
    assert replayed <= {assignment.command for assignment in session.assignments}
    assert tables(tmp_path)["kernels"][0]["replays"] == len(replayed)


TABLE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
platform, count = ctypes.c_void_p(), ctypes.c_uint()
assert library.clIcdGetPlatformIDsKHR(1, ctypes.byref(platform), ctypes.byref(count)) == 0
table = ctypes.cast(platform, ctypes.POINTER(ctypes.c_void_p))[0]
with open("/proc/self/maps") as maps:
    base = min(int(line.split("-")[0], 16) for line in maps if "libsdi_icd" in line)
print(table - base)
"""


def test_without_the_setting_no_call_is_looked_at(tmp_path: Path) -> None:
    """Off is free: calls go through the ordinary table, as before there was a profile."""
    library = Path(vendors()).parent / "libsdi_icd.so"
    command = [sys.executable, "-c", TABLE, library]
    tables = [
        run(command, image_environ(1) | more, 30)
        for more in ({}, {"SDI_PROFILE": ""}, {"SDI_PROFILE": str(tmp_path)})
    ]
    assert [table.returncode for table in tables] == [0, 0, 0], tables[0].describe()
    off, empty, on = (int(table.stdout) for table in tables)
    assert off == empty != on


def test_without_the_setting_nothing_is_written(tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    script.write_text(START + textwrap.dedent(KNOWN))
    result = run([sys.executable, script], image_environ(2), 100)
    assert result.returncode == 0, result.describe()
    assert list(tmp_path.iterdir()) == [script]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "sdi profile: no application given; try: sdi profile -n 4 -- ./application"),
        (["--format", "xml", "--", "true"], "sdi profile: --format xml: expected some of table, "),
        (["--format", "json", "--", "true"], "sdi profile: -o DIR says where json goes"),
        (["-o", "/nowhere/at/all"], "sdi profile: /nowhere/at/all: no profile here"),
        (["--compare", "a", "b", "--format", "json"], "sdi profile: --compare A B prints a table, nothing"),
        (["-n", "many", "--", "true"], "sdi: SDI_NUM_GPUS='many': expected"),
        (["-o", "/dev/null", "--", "true"], "sdi profile: -o /dev/null: File exists"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], line: str) -> None:
    result = run([sys.executable, "-m", "sdi.cli", "profile", *arguments], image_environ(2), 60)
    assert result.returncode == 2
    assert result.stderr.startswith(line) and result.stderr.count("\n") == 1


KNOWN_TIMES = """
program = cl.Program(ctx, '''
__kernel void spin(__global uint *out, uint rounds) {
  uint x = get_global_id(0);
  for (uint k = 0; k < rounds; k++)
    x = x * 1664525u + 1013904223u;
  out[get_global_id(0)] = x;
}
''').build()
spin = cl.Kernel(program, "spin")
ITEMS, ROUNDS = 1 << 12, 1 << 10
out = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 4 * ITEMS)

def took(rounds):
    start = time.monotonic_ns()
    spin(queue, (ITEMS,), (64,), out, np.uint32(rounds))
    queue.finish()
    return time.monotonic_ns() - start

took(1)  # drivers compile now
while took(ROUNDS) < 500e6:
    ROUNDS *= 2
asleep = time.monotonic_ns()
time.sleep(0.5)
asleep = time.monotonic_ns() - asleep
print(asleep, *[took(ROUNDS) for _ in range(6)])
"""


@pytest.mark.parametrize("members", [1, 2])
def test_times_of_known_work_are_right_within_five_percent(tmp_path: Path, members: int) -> None:
    result = profiled(tmp_path, KNOWN_TIMES, members, "--format", "json")
    assert result.returncode == 0, result.describe()
    asleep_ns, *taken_ns = map(int, result.stdout.split())
    session = session_in(tmp_path)
    spins = [c for c in session.commands if c.id in {launch.command for launch in session.launches}]
    shown_ns = [command.end_ns - command.start_ns for command in spins[-len(taken_ns) :]]
    # The application's own clock goes around issuing and waiting too, which a busy machine may hold up.
    parts = [shown / taken for shown, taken in zip(shown_ns, taken_ns, strict=True)]
    assert max(parts) >= 0.95 and all(part <= 1 for part in parts), parts
    found = tables(tmp_path)
    (row,) = found["kernels"]
    assert row["ns"] == sum(command.end_ns - command.start_ns for command in spins)
    assert row["replays"] > 0
    computed_ns = sum(classes["computing"] for classes in found["member_losses"])
    assert computed_ns == pytest.approx(sum(row["member_ns"]), rel=0.01)
    idle_ns = sum(loss["ns"]["application"] for loss in found["losses"])
    assert asleep_ns * 0.95 <= idle_ns


LOOPED = """
ROUNDS = 300
for by in range(ROUNDS):
    plus(queue, ({ITEMS},), ({GROUP},), to, source, np.int32(by))
    if by % 3 == 0:
        queue.finish()
    if by % 50 == 49:  # never seen before, so what is in flight changes hands
        cl.enqueue_copy(queue, to, data[: by + 1])
out = np.empty_like(data)
cl.enqueue_copy(queue, out, to)
assert (out[ROUNDS:] == data[ROUNDS:] + ROUNDS - 1).all() and (out[:ROUNDS] == data[:ROUNDS]).all()
"""
LOOPED = LOOPED.replace("{ITEMS}", str(ITEMS)).replace("{GROUP}", str(GROUP))
LOOPS = 300


@pytest.mark.parametrize("members", [1, 2])
def test_replays_are_in_the_profile_like_other_launches_and_explain_the_time(
    tmp_path: Path, members: int
) -> None:
    options = ("--format", "json,chrome", "--fail-if", f"replays < {LOOPS // 2}")
    result = profiled(tmp_path, LOOPED, members, *options)
    assert result.returncode == 0, result.describe()
    found, session = tables(tmp_path), session_in(tmp_path)
    (plus,) = found["kernels"]
    calls = {row["name"]: row["calls"] for row in found["commands"]}
    assert calls["plus"] == plus["launches"] == LOOPS and found["unfinished_commands"] == 0
    assert (calls["(write)"], calls["(read)"]) == (1 + LOOPS // 50, 1)
    assert len({command.id for command in session.commands}) == len(session.commands)
    assert sum(plus["member_groups"]) == LOOPS * ITEMS // GROUP and min(plus["member_ns"]) > 0
    for member in range(members):
        spans = [
            assignment.end_ns - assignment.start_ns
            for assignment in session.assignments
            if assignment.member == member
        ]
        assert len(spans) == LOOPS and sum(spans) == plus["member_ns"][member]
    lost = {name: sum(row["ns"][name] for row in found["losses"]) for name in CLASSES}
    assert sum(lost.values()) == pytest.approx(found["wall_ns"])
    assert lost["unexplained"] <= 0.05 * (found["wall_ns"] - lost["application"])
    assert len(spans_of(tmp_path, "kernel")) == members * LOOPS


VARIED = (
    *("black_scholes", "game_of_life", "bitonic_sort", "histogram", "matmul", "several_kernels"),
    "conjugate_gradient",
)
"""The last one launches again and again what the player replays."""


def test_hardly_any_time_of_varied_programs_is_unexplained(tmp_path: Path) -> None:
    environ = image_environ(3, SDI_SPLIT="always", SDI_PROFILE=str(tmp_path / "profile"))
    command = [sys.executable, "-W", "ignore", "-m", "tests.programs.runner", "--out", tmp_path / "out.npz"]
    ended = run([*command, "--only", *VARIED], environ, 110)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    found = make_tables(read_profile(tmp_path / "profile"))
    assert len(found.kernels) >= len(VARIED) and sum(row.replays for row in found.kernels) > 0
    asked_ns = found.wall_ns - found.lost_ns("application")
    assert asked_ns > 0 and found.lost_ns("unexplained") <= 0.05 * asked_ns
    for row in found.losses:
        spent_ns = sum(row.ns.values())
        assert row.ns["unexplained"] <= 0.05 * max(spent_ns, 1e6), row.kernel


REACHING = """
walk = cl.Program(ctx, '''
__kernel void walk(__global ulong *node, __global int *sums, int steps) {
  __global ulong *at = node + 2 * get_global_id(0);
  int sum = 0;
  for (int k = 0; k < steps; k++) {
    sum += (int)at[1];
    at = (__global ulong *)at[0];
  }
  sums[get_global_id(0)] = sum;
}
''').build().walk
n = 512
nodes = cl.SVM(cl.csvm_empty(ctx, (n, 2), np.uint64))
with nodes.map_rw(queue) as mapped:
    mapped[:, 0] = nodes.mem.ctypes.data + 16 * ((np.arange(n) + 1) % n)
    mapped[:, 1] = np.arange(n)
sums = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 4 * n)
for _ in range(3):
    walk(queue, (n,), (64,), nodes, sums, np.int32(2))
out = np.empty(n, np.int32)
cl.enqueue_copy(queue, out, sums)
assert (out == np.arange(n) + (np.arange(n) + 1) % n).all()
"""


def test_what_launches_reach_by_addresses_is_told(tmp_path: Path) -> None:
    result = profiled(tmp_path, REACHING, 2, "--format", "table,csv,json")
    assert result.returncode == 0, result.describe()
    (row,) = [each for each in tables(tmp_path)["kernels"] if each["name"] == "walk"]
    assert (row["launches"], row["by_address"], row["regions"]) == (3, 3, 1)
    assert row["reached_nbytes"] >= 16 * 512
    assert "  by address: 3 launches, which may reach 1 region of 8.0 KiB" in result.stderr, result.stderr
    head, *rows = (tmp_path / "profile" / "kernels.csv").read_text().splitlines()
    assert "by_address,regions,reached_nbytes" in head
    assert any(",3,1," in each for each in rows if each.startswith("walk"))
