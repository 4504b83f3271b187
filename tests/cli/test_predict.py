"""``sdi predict`` of a run that was really recorded, and of folders that have none."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from sdi.cli.main import main
from tests.image_runs import image_environ, run

STEPS = 12
APPLICATION = f"""
import numpy as np, pyopencl as cl
(device,) = cl.get_platforms()[0].get_devices()
ctx = cl.Context([device])
queue = cl.CommandQueue(ctx)
program = cl.Program(ctx, '''
__kernel void relax(__global float *to, __global const float *from, int n, int step)
{{
    int i = get_global_id(0);
    to[i] = from[i] + (i > 0 ? from[i - 1] : 0.0f) + (i < n - 1 ? from[i + 1] : 0.0f) + step;
}}
__kernel void count(__global int *a) {{ if (get_global_id(0) == 0) a[1] = atomic_inc(a); }}
''').build()
relax, count = cl.Kernel(program, "relax"), cl.Kernel(program, "count")
data = np.arange(65536, dtype=np.float32)
one, other = (cl.Buffer(ctx, cl.mem_flags.READ_WRITE, data.nbytes) for _ in range(2))
cl.enqueue_copy(queue, one, data)
cl.enqueue_fill_buffer(queue, other, np.uint8(0), 0, data.nbytes)
for step in range({STEPS}):
    relax(queue, data.shape, (64,), other, one, np.int32(data.size), np.int32(step))
    one, other = other, one
count(queue, (64,), (8,), other)
cl.enqueue_copy(queue, data, one)
queue.finish()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile of the application on two members, split."""
    found = tmp_path_factory.mktemp("recorded") / "profile"
    environ = image_environ(2, SDI_SPLIT="always", SDI_PROFILE=str(found))
    done = run([sys.executable, "-c", APPLICATION], environ, 100)
    assert done.returncode == 0, done.describe()
    return found


def test_a_recorded_run_is_predicted_as_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--members", "1,2,4"]) == 0
    said = capsys.readouterr().out
    assert "recorded on 2 x " in said and f"{STEPS + 1} launches of 2 kernels" in said
    assert "the same on 2, predicted: " in said and "costs: " in said
    assert "CPU members of a machine share its cores and gain nothing by being more: 1 to a machine" in said
    rows = [line.split() for line in said.splitlines()]
    counts = [row[:2] for row in rows if row and row[0].isdecimal() and row[1].isdecimal()]
    assert counts == [["1", "1"], ["2", "1"], ["4", "2"]]
    assert ["relax", str(STEPS)] in [row[:2] for row in rows] and "what holds it on 4:" in said


def test_a_profile_that_was_cut_off_is_predicted_as_far_as_it_goes_and_that_is_said(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stream,) = folder.glob("service-*.jsonl")
    lines = [line for line in stream.read_text().splitlines(True) if not line.startswith('["close"')]
    (tmp_path / stream.name).write_text("".join(lines))
    for where, is_said in ((folder, False), (tmp_path, True)):
        assert main(["predict", str(where), "--members", "2"]) == 0
        assert ("the profile ends before its run did" in capsys.readouterr().out) == is_said


def test_as_json_with_rates_that_are_given(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["predict", str(folder), "--members", "1,8", "--rates", "h200", "--speed", "2", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["costs"]["base"], found["costs"]["measured"]) == ("h200", {})
    one, eight = found["on"]
    assert (one["members"], one["speed_up"], eight["members"]) == (1, 1.0, 8)
    assert sum(eight["by_cause_ns"].values()) == pytest.approx(eight["ns"])
    relax, count = eight["kernels"]
    assert (relax["kernel"], relax["launches"], sum(relax["assignments"].values())) == ("relax", STEPS, STEPS)
    assert count["assignments"] == {"1": 1} and "atomically" in count["why_fewer"]
    recorded = found["recorded"]
    assert recorded["launches"] == STEPS + 1 and recorded["measured_ns"] > 0 and recorded["predicted_ns"] > 0


def test_machines_have_as_many_members_as_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(folder), "--members", "8", "--per-machine", "4", "--json"]) == 0
    (eight,) = json.loads(capsys.readouterr().out)["on"]
    assert eight["machines"] == 2


def test_the_curve_is_drawn(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "curve.svg"
    # Matplotlib keeps its fonts open.
    command = [
        sys.executable,
        "-m",
        "sdi.cli",
        "predict",
        str(folder),
        "--members",
        "1,2",
        "--plot",
        str(file),
    ]
    done = run(command, dict(os.environ), 100)
    assert done.returncode == 0, done.describe()
    assert "<svg" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--members", "two"], "--members two: expected numbers"),
        (["--members", "0"], "expected 1 to 256"),
        (["--speed", "fast"], "--speed fast: expected a number"),
        (["--speed", "0"], "expected 0.001 to 1000"),
        (["--per-machine", "-1"], "--per-machine"),
        (["--rates", "/no/such/file"], "no such file"),
    ],
)
def test_wrong_options_are_one_line(
    folder: Path, options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(folder), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sdi predict: ") and why in said and said.count("\n") == 1


def test_a_folder_without_a_profile_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(tmp_path)]) == 2
    assert "no profile here" in capsys.readouterr().err
