"""Tools on the API of OpenCL see the image as any device: layers of a loader, and times of events."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.image_runs import ROOT, image_environ, run

LIMIT_S = 120.0


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer that counts."""
    if shutil.which("gcc") is None or not Path("/usr/include/CL/cl_layer.h").exists():
        pytest.skip("no C compiler, or no headers for layers (opencl-headers)")
    made = tmp_path_factory.mktemp("layer") / "liblayer.so"
    source = ROOT / "tests" / "c" / "counting_layer.c"
    options = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-DCL_TARGET_OPENCL_VERSION=300"]
    subprocess.run(["gcc", *options, source, "-o", made], check=True)
    return made


def counted(path: Path) -> tuple[int, int]:
    """Launches, and questions about devices."""
    launches, questions = path.read_text().split()
    return int(launches), int(questions)


def test_a_layer_of_the_loader_sees_all_calls_of_a_program(layer: Path, tmp_path: Path) -> None:
    environ = image_environ(3, SDI_SPLIT="always", SDI_STATS=str(tmp_path / "stats.json"))
    environ |= {"OPENCL_LAYERS": str(layer), "COUNTED": str(tmp_path / "counted")}
    out = tmp_path / "out.npy"
    ended = run([sys.executable, "-W", "ignore", "tests/uneven_program.py", "3", out], environ, LIMIT_S)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    launches, questions = counted(tmp_path / "counted")
    assert launches == 3 and questions > 0
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert stats["kernels"]["work"]["launches_split"] == 3


def test_a_layer_sees_what_clinfo_asks_through_the_system_s_loader(layer: Path, tmp_path: Path) -> None:
    if shutil.which("clinfo") is None:
        pytest.skip("no clinfo")
    environ = image_environ(2) | {"OPENCL_LAYERS": str(layer), "COUNTED": str(tmp_path / "counted")}
    ended = run(["clinfo"], environ, LIMIT_S)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    assert "Number of devices                                 1" in ended.stdout
    assert counted(tmp_path / "counted")[1] > 50


TIMES = """
import sys
import numpy as np
import pyopencl as cl
sys.argv[1:] = ["1", "unused"]
from tests.uneven_program import GROUPS, LOCAL, SOURCE
device = next(p for p in cl.get_platforms() if p.name == "SDI").get_devices()[0]
context = cl.Context([device])
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
kernel = cl.Program(context, SOURCE).build().work
values = np.arange(GROUPS * LOCAL, dtype=np.uint32)
given, found = (cl.Buffer(context, cl.mem_flags.READ_WRITE, values.nbytes) for _ in range(2))
writes = [cl.enqueue_copy(queue, given, values)]
launches = [kernel(queue, (values.size,), (LOCAL,), given, found, np.uint32(1)) for _ in range(8)]
queue.finish()
for event in launches:
    p = event.profile
    assert p.queued <= p.submit <= p.start <= p.end
print(sum(event.profile.end - event.profile.start for event in launches))
"""


def test_times_of_pyopencl_s_events_are_those_of_the_profile(tmp_path: Path) -> None:
    environ = image_environ(2, SDI_SPLIT="always", SDI_PROFILE=str(tmp_path / "profile"))
    ended = run([sys.executable, "-W", "ignore", "-c", TIMES], environ, LIMIT_S)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    told = int(ended.stdout.split()[-1])
    command = [sys.executable, "-m", "sdi.cli", "profile", "-o", tmp_path / "profile", "--format", "json"]
    shown = run(command, environ, LIMIT_S)
    assert shown.returncode == 0, shown.describe()
    from sdi.profile.analyse.stream import read_profile
    from sdi.profile.analyse.tables import make_tables

    (row,) = [row for row in make_tables(read_profile(tmp_path / "profile")).kernels if row.name == "work"]
    assert row.launches == row.split == 8
    assert row.ns == pytest.approx(told, rel=0.05)
    # The members' own spans lie within these, and fill them but for what is lost between assignments.
    assert all(ns <= 1.05 * told for ns in row.member_ns) and max(row.member_ns) >= 0.3 * told
