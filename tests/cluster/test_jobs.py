"""Unmodified programs on the members of several processes, connected by sockets."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.cluster.ways import SHAPES, Way, killed
from tests.devices.testing.hooks import hooks
from tests.image_runs import image_environ, plain_environ, run

PROGRAMS = (
    "atomic_results",
    "conditional_writes",
    "event_callbacks",
    "fill_and_copy",
    "global_atomics",
    "host_pointers",
    "image_chains",
    "image_maps",
    "jacobi",
    "map_unmap",
    "ping_pong",
    "printing",
    "scatter",
    "strided_writes",
    "transpose",
    "two_queues",
    "user_events",
    "whole_and_split",
)
"""Of those in tests/programs: what differs between members of this process and of others."""
TIMEOUT_S = 110.0


def job_environ(ranks: int, members: int | None = None, **settings: str) -> dict[str, str]:
    """An environment in which ``sdi run`` is rank 0 of a job on this machine."""
    wanted = {"SDI_TEST_NODES": str(ranks), "SDI_SPLIT": "always"} | settings
    return image_environ(members or ranks, **wanted)


def arrays(path: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path):
        loaded = np.load(path)
        return {name: loaded[name] for name in loaded.files}


def run_programs(folder: Path, environ: dict[str, str], names: tuple[str, ...], *before: str) -> Path:
    """What programs leave, run by ``before`` the runner's command."""
    path = folder / "out.npz"
    runner = [sys.executable, "-m", "tests.programs.runner", "--out", str(path), "--only", *names]
    done = run([*before, *runner], environ, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """What the plain driver gives."""
    return arrays(run_programs(tmp_path_factory.mktemp("plain"), plain_environ(), PROGRAMS))


SDI_RUN = (sys.executable, "-m", "sdi.cli", "run", "--")


@pytest.mark.parametrize("ranks", [2, 3])
def test_programs_leave_the_plain_drivers_bytes_on_members_of_several_nodes(
    ranks: int, plain: dict[str, np.ndarray], tmp_path: Path
) -> None:
    half = PROGRAMS[ranks % 2 :: 2]
    # As if on another machine; the rest share memory.
    settings = {"SDI_TEST_FAR": "1"} if ranks == 2 else {"SDI_TEST_MEMBERS": hooks(signals=True)}
    found = arrays(run_programs(tmp_path, job_environ(ranks, **settings), half, *SDI_RUN))
    wanted = {name: array for name, array in plain.items() if name.partition("/")[0] in half}
    assert found.keys() == wanted.keys() and len(wanted) > 20
    different = [name for name, array in wanted.items() if array.tobytes() != found[name].tobytes()]
    assert not different


LOOPS = 12
"""Of ``repeated_program``."""


@pytest.fixture(scope="module")
def loops() -> str:
    """What the plain driver gives."""
    return _loops([], plain_environ())[0]


def _loops(before: list[str], environ: dict[str, str]) -> tuple[str, str]:
    program = [sys.executable, "-W", "ignore", "-m", "tests.cluster.repeated_program", "0", str(LOOPS)]
    done = run([*before, *program], environ, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("ranks", "members", "way"),
    [(r, m, way) for r, m in ((2, 4), (3, 3), (8, 8)) for way in ("", "far")] + [(3, 3, "signals")],
)
def test_repeated_commands_leave_the_plain_drivers_bytes_and_most_launches_are_replayed_by_nodes(
    ranks: int, members: int, way: str, loops: str
) -> None:
    settings = {"far": {"SDI_TEST_FAR": "1"}, "signals": {"SDI_TEST_MEMBERS": hooks(signals=True)}}
    environ = job_environ(ranks, members, **settings.get(way, {}))
    found, told = _loops([*SDI_RUN[:-1], "--stats", "--"], environ)
    assert found == loops and len(loops.splitlines()) == LOOPS
    counts = re.search(r"replayed by nodes: (\d+) of (\d+) launches", told)
    assert counts is not None, told
    assert int(counts[1]) > 0.4 * int(counts[2]), told
    firm = re.search(r"(\d+) with mailboxes for copies", told)
    assert (firm is not None and int(firm[1]) > 0) == (way == "signals"), told


def test_several_members_on_each_node_and_verification_give_the_same(
    plain: dict[str, np.ndarray], tmp_path: Path
) -> None:
    names = ("jacobi", "scatter", "global_atomics", "image_chains")
    environ = job_environ(3, members=5, SDI_VERIFY="1")
    found = arrays(run_programs(tmp_path, environ, names, *SDI_RUN))
    assert found and all(found[name].tobytes() == plain[name].tobytes() for name in found)


@pytest.mark.parametrize("devices", ["node == 2", "node != 0", "node != 1"])
def test_ranks_without_members_take_part(devices: str, plain: dict[str, np.ndarray], tmp_path: Path) -> None:
    names = ("jacobi", "scatter", "image_chains", "global_atomics")
    environ = job_environ(3, members=1 if devices == "node == 2" else 2, SDI_DEVICES=devices)
    found = arrays(run_programs(tmp_path, environ, names, *SDI_RUN))
    assert {name.partition("/")[0] for name in found} == {*names}
    assert all(found[name].tobytes() == plain[name].tobytes() for name in found)


@pytest.mark.parametrize(("seed", "signals"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_a_node_that_is_killed_costs_its_commands_and_nothing_else(seed: int, signals: bool) -> None:
    wrong = killed(Way("loopback", SHAPES["3"]), seed, SDI_TEST_MEMBERS=hooks(signals=signals))
    assert not wrong, wrong


@pytest.mark.parametrize(("how", "is_far"), [("stop", False), ("wake", True)])
def test_a_node_that_stops_to_run_is_refused_and_costs_its_commands_and_nothing_else(
    how: str, is_far: bool
) -> None:
    wrong = killed(Way("loopback", SHAPES["3"], is_far), 5, how)
    assert not wrong, wrong


def test_the_applications_status_and_a_second_process_at_a_time(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\n"
        "import pyopencl as cl\n"
        "device = cl.get_platforms()[0].get_devices()[0]\n"
        "cl.Context([device])\n"
        "if len(sys.argv) < 2:\n"
        "    again = subprocess.run([sys.executable, *sys.argv, 'second'], capture_output=True, text=True)\n"
        "    print('second', again.returncode, 'one process at a time' in again.stderr)\n"
        "    sys.exit(7)\n"
    )
    done = run([*SDI_RUN, sys.executable, program], job_environ(2), TIMEOUT_S)
    assert done.returncode == 7 and not done.remained, f"{done.remained} {done.describe()}"
    assert "second 1 True" in done.stdout, done.describe()


def test_what_the_application_prints_comes_out_when_it_prints_it() -> None:
    program = (
        "import pyopencl as cl, os; print('first', flush=True)\n"
        "cl.Context([cl.get_platforms()[0].get_devices()[0]])\n"
        "os.write(1, b'second\\n'); os.write(2, b'then\\n')\n"
    )
    command = f'{sys.executable} -c "$0" 2>&1; echo last'
    done = run([*SDI_RUN, "sh", "-c", command, program], job_environ(2), TIMEOUT_S)
    assert done.stdout.split() == ["first", "second", "then", "last"], done.describe()


def test_processes_one_after_the_other_each_get_the_image() -> None:
    program = "import pyopencl as cl; print(cl.get_platforms()[0].get_devices()[0].name)"
    command = f"for i in 1 2 3; do {sys.executable} -c '{program}'; done"
    done = run([*SDI_RUN, "sh", "-c", command], job_environ(2), TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    assert done.stdout.count("SDI (2 x") == 3, done.describe()
