"""Profiles of programs that copy and launch known amounts, of programs that die, and of services that do."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from sdi.profile.losses import CLASSES
from sdi.profile.model import HOST, Session
from sdi.profile.stream import read_profile
from tests.image_runs import Run, image_environ, run

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


def session_in(folder: Path) -> Session:
    (session,) = read_profile(folder / "profile").sessions
    return session


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """The known program on three members."""
    folder = tmp_path_factory.mktemp("known")
    result = profiled(folder, KNOWN, 3, "--format", "table,csv,json")
    assert result.returncode == 0, result.describe()
    return folder, result


def tables(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "profile" / "profile.json").read_text())
    return found


def test_counts_and_bytes_of_a_known_program_are_exact(known: tuple[Path, Run]) -> None:
    found = tables(known[0])
    commands = {row["name"]: row for row in found["commands"]}
    calls = {name: (row["calls"], row["failed"]) for name, row in commands.items() if name != "(marker)"}
    assert calls == {"plus": (LAUNCHES, 0), "first": (1, 0), "(write)": (1, 0), "(read)": (1, 0)}
    plus, first = found["kernels"]
    assert (plus["launches"], plus["split"], plus["whole"], plus["cuts"]) == (LAUNCHES, LAUNCHES, 0, ["3"])
    assert sum(plus["member_groups"]) == LAUNCHES * ITEMS // GROUP and min(plus["member_groups"]) > 0
    assert plus["bindings"] + plus["plans"] + plus["new_plans"] == LAUNCHES and plus["new_plans"] == 1
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


def test_tables_sum_the_spans_and_the_losses_add_up_to_the_wall_time(known: tuple[Path, Run]) -> None:
    folder, _ = known
    found, session = tables(folder), session_in(folder)
    assert session.is_complete and found["wall_ns"] == session.closed_ns - session.opened_ns
    plus = next(row for row in found["kernels"] if row["name"] == "plus")
    mine = {launch.command for launch in session.launches if launch.kernel == "plus"}
    for member in range(3):
        spans = [p.end_ns - p.start_ns for p in session.pieces if p.command in mine and p.member == member]
        assert plus["member_ns"][member] == sum(spans) > 0
    spans = [c.end_ns - c.start_ns for c in session.commands if c.id in mine]
    row = next(row for row in found["commands"] if row["name"] == "plus")
    assert row["ns"] == plus["ns"] == sum(spans)
    assert (row["min_ns"], row["max_ns"]) == (min(spans), max(spans))
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
    for piece in session.pieces:
        assert launches[piece.command].begin_ns <= piece.start_ns <= piece.end_ns
        assert piece.end_ns <= commands[piece.command].end_ns
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


def test_what_was_recorded_can_be_reported_again(known: tuple[Path, Run]) -> None:
    folder, before = known
    command = [sys.executable, "-m", "sdi.cli", "profile", "-o", folder / "profile"]
    again = run(command, image_environ(3), 60)
    assert (again.returncode, again.stderr) == (0, before.stderr)


def test_an_application_that_is_killed_leaves_a_complete_profile(tmp_path: Path) -> None:
    text = KNOWN + "os.kill(os.getpid(), signal.SIGKILL)\n"
    result = profiled(tmp_path, text, 2, "--format", "json")
    assert result.returncode == -9, result.describe()
    session = session_in(tmp_path)
    assert session.is_complete and len(session.launches) == LAUNCHES + 1
    assert tables(tmp_path)["is_complete"]


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
    result = profiled(tmp_path, text, 2, "--format", "table,json")
    assert result.returncode is not None, result.describe()
    assert "the last moments are missing" in result.stderr
    session = session_in(tmp_path)
    assert not session.is_complete and [launch.kernel for launch in session.launches][:7] == ["plus"] * 7
    assert not tables(tmp_path)["is_complete"]


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
        (["-n", "many", "--", "true"], "sdi: SDI_NUM_GPUS='many': expected"),
    ],
)
def test_bad_usage_is_one_line(arguments: list[str], line: str) -> None:
    result = run([sys.executable, "-m", "sdi.cli", "profile", *arguments], image_environ(2), 60)
    assert result.returncode == 2
    assert result.stderr.startswith(line) and result.stderr.count("\n") == 1
