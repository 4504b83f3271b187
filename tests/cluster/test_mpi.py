"""Jobs over MPI, with the MPI that is installed beside this Python."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from sdi import __version__
from tests.cluster.test_jobs import arrays, run_programs
from tests.cluster.ways import AS_ROOT, MPIEXEC, SDI, SHAPES, Way, is_open_mpi, killed, mpiexec
from tests.image_runs import image_environ, plain_environ, run

NAMES = ("image_chains", "jacobi", "printing", "scatter")
TIMEOUT_S = 110.0
NO_SOCKET = "it gets no socket: [Errno 24] Too many open files"

pytestmark = pytest.mark.skipif(
    find_spec("mpi4py") is None or not MPIEXEC.exists(), reason="no MPI: pip install '.[mpi]'"
)


def environ(members: int, **settings: str) -> dict[str, str]:
    return image_environ(members, **(AS_ROOT | {"SDI_SPLIT": "always"} | settings))


def test_programs_leave_the_plain_drivers_bytes_on_members_of_three_ranks(tmp_path: Path) -> None:
    for folder in ("plain", "job"):
        (tmp_path / folder).mkdir()
    wanted = arrays(run_programs(tmp_path / "plain", plain_environ(), NAMES))
    command = [*mpiexec(3), *SDI, "run", "--"]
    far, near = tmp_path / "job", tmp_path / "near"
    near.mkdir()
    found = arrays(run_programs(far, environ(3, SDI_TEST_FAR="1"), NAMES[:2], *command))
    found |= arrays(run_programs(near, environ(3), NAMES[2:], *command))
    assert found.keys() == wanted.keys() and len(wanted) > 5
    assert not [name for name, array in wanted.items() if array.tobytes() != found[name].tobytes()]


@pytest.mark.parametrize("way", [{}, {"SDI_TEST_FAR": "1"}], ids=["near", "far"])
def test_each_member_of_a_job_may_be_a_device_of_its_own(way: dict[str, str], tmp_path: Path) -> None:
    names = ("n_body", "pipeline", "stencil")
    runner = [sys.executable, "-m", "tests.several.runner", "--out"]
    plain, job = tmp_path / "plain.npz", tmp_path / "job.npz"
    assert run([*runner, plain, *names], plain_environ(), TIMEOUT_S).returncode == 0
    apart = environ(3, SDI_IMAGE="off", SDI_SPLIT="", **way)
    command = [*mpiexec(3), *SDI, "run", "--", *runner, job, *names, "all_collectives"]
    done = run(command, apart, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    wanted, found = arrays(plain), arrays(job)
    assert [name for name, array in wanted.items() if array.tobytes() != found[name].tobytes()] == []
    assert len(found) - len(wanted) == 10


def test_devices_lists_nodes_and_takes_members_from_all_of_them() -> None:
    done = run([*mpiexec(3), *SDI, "devices"], environ(5), TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    members = re.findall(r"^\d+ +(\d) +CPU .*GiB|^\d+ +(\d) +CPU .*MiB", done.stdout, re.MULTILINE)
    assert sorted(a or b for a, b in members) == ["0", "0", "1", "1", "2"], done.describe()
    where = ["--where", "cpu and node != 1 order by node desc"]
    done = run([*mpiexec(3), *SDI, "devices", *where], environ(5), TIMEOUT_S)
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["2", "0"], done.describe()


def test_a_rank_whose_mpi_is_not_the_launchers_says_so() -> None:
    wrong = {"PMI_RANK": "0", "PMI_SIZE": "2"} if is_open_mpi() else {"OMPI_COMM_WORLD_RANK": "0"}
    if "OMPI_COMM_WORLD_RANK" in wrong:
        wrong["OMPI_COMM_WORLD_SIZE"] = "2"
    done = run([*SDI, "run", "--", "true"], environ(2) | wrong, TIMEOUT_S)
    assert done.returncode == 1 and not done.remained, f"{done.remained} {done.describe()}"
    assert "one of 2 processes of its job, but MPI sees a world of 1" in done.stderr
    doctor = run([*SDI, "doctor"], environ(2) | wrong, TIMEOUT_S)
    assert doctor.returncode == 1 and "FAIL  mpi       this is one of 2 processes" in doctor.stdout


def test_doctor_on_all_ranks_says_whether_they_see_each_other() -> None:
    done = run([*mpiexec(2), *SDI, "doctor"], environ(2), TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    assert done.stdout.count("ok    mpi       2 ranks see each other") == 1, done.describe()
    assert done.stdout.count("everything works") == 1


def test_ranks_of_another_version_are_refused_by_all_with_both_versions() -> None:
    older = "import sdi; sdi.__version__ = '0.0.1'; from sdi.cli import main; exit(main.main(['node']))"
    command = [*mpiexec(1), *SDI, "run", "--", "echo", "started", ":", "-n", "1", sys.executable, "-c", older]
    done = run(command, environ(2), TIMEOUT_S)
    assert done.returncode and not done.remained, f"{done.remained} {done.describe()}"
    pairs = re.findall(r"rank (\d) has sdi (\S+) \(.*?\), rank (\d) has sdi (\S+) \(", done.stderr)
    assert ("0", __version__, "1", "0.0.1") in pairs, done.describe()
    assert "started" not in done.stdout


def test_nodes_without_an_application_serve_one_after_the_other() -> None:
    command = [*mpiexec(2), *SDI, "node"]
    program = "import pyopencl as cl; print(cl.get_platforms()[0].get_devices()[0].name)"
    with subprocess.Popen(command, env=environ(2), stdout=subprocess.PIPE, text=True) as nodes:
        try:
            assert nodes.stdout is not None
            name, _, path = nodes.stdout.readline().strip().partition("=")
            assert name == "SDI_SERVICE" and Path(path).is_socket()
            for _ in range(2):
                done = run(
                    [*SDI, "run", "--", sys.executable, "-c", program], environ(2, SDI_SERVICE=path), 60
                )
                assert done.returncode == 0 and "SDI (2 x" in done.stdout, done.describe()
        finally:
            nodes.terminate()
        nodes.communicate(timeout=60)
    assert not Path(path).parent.exists()


def test_a_profile_in_a_job_starts_no_application() -> None:
    command = [*mpiexec(2), *SDI, "profile", "--", sys.executable, "-c", "print('started')"]
    done = run(command, environ(2), TIMEOUT_S)
    assert done.returncode and not done.remained, f"{done.remained} {done.describe()}"
    assert "started" not in done.stdout and "SDI_PROFILE=DIR" in done.stderr


def test_a_rank_that_stops_to_run_and_wakes_again_is_refused() -> None:
    wrong = killed(Way("mpi", SHAPES["3"], is_far=True), 1, "wake")
    assert not wrong, wrong


def test_run_starts_the_job_on_the_machines_that_are_named_itself() -> None:
    program = "import pyopencl as cl; print(cl.get_platforms()[0].get_devices()[0].name); raise SystemExit(7)"
    command = [*SDI, "run", "-n", "3", "--hosts", f"{socket.gethostname()}:2", "--stats"]
    done = run([*command, "--", sys.executable, "-c", program], environ(3), TIMEOUT_S)
    assert done.returncode == 7 and not done.remained, f"{done.remained} {done.describe()}"
    assert done.stdout.startswith("SDI (3 x ") and "node 1 to 0" in done.stderr, done.describe()


def test_an_application_gets_nothing_of_mpi() -> None:
    program = """import os, stat
print([name for name in os.environ if name.startswith(("PMI", "OMPI_C", "PRTE", "HYD"))])
opened = [int(number) for number in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")]
print([number for number in opened if stat.S_ISSOCK(os.fstat(number).st_mode)])"""
    done = run([*mpiexec(2), *SDI, "run", "--", sys.executable, "-c", program], environ(2), TIMEOUT_S)
    assert done.returncode == 0 and done.stdout == "[]\n[]\n", done.describe()
    assert "SDI_SERVICE" not in os.environ


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ("rings", {"deaf": {}, "rang before": 0, "rang": True, "rang while busy": 0}),
        ("unreachable", {"deaf": {"1": "datagrams of rank 0, 1 do not arrive there"}, "was rung": True}),
        ("socketless", {"deaf": dict.fromkeys("01", f"rank 1 can't ring: {NO_SOCKET}"), "was rung": False}),
    ],
)
def test_messages_come_to_idle_ranks_by_rings_or_without_and_no_socket_is_left(
    tmp_path: Path, case: str, wanted: dict[str, object]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = [sys.executable, "-m", "tests.cluster.ringing_program", case, str(fifo)]
    done = run([*mpiexec(2), *program], plain_environ() | AS_ROOT, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    assert json.loads(done.stdout) == wanted | {"left": []}, done.describe()
