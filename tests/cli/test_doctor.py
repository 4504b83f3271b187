"""``sdi doctor`` and ``sdi devices`` on the installed package: ok, or what is broken and a fix."""

import json
import os
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdi.cli import application, doctor
from sdi.cli.counters import SessionCounts, merged
from sdi.cli.devices import shared_virtual_memory, spans
from sdi.cluster.start import RankPlace
from sdi.devices import discover
from sdi.devices.capabilities import CPU, GPU
from sdi.settings import FineGrain, Update
from tests.cli.test_counters import WRITTEN

SDI = [sys.executable, "-m", "sdi.cli"]


def sdi(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SDI, *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def no_drivers(tmp_path: Path) -> str:
    folder = tmp_path / "vendors"
    folder.mkdir()
    return str(folder)


def failures(shown: str) -> list[str]:
    """What is broken, by the second column; each has a fix on the next line."""
    lines = shown.splitlines()
    found = [at for at, line in enumerate(lines) if line.startswith("FAIL")]
    assert all(lines[at + 1].lstrip().startswith("fix: ") for at in found), shown
    return [lines[at].split()[1] for at in found]


def test_doctor_finds_nothing_to_fix_on_a_working_installation() -> None:
    done = sdi("doctor", "-n", "3")
    assert (done.returncode, failures(done.stdout)) == (0, []), done.stdout
    assert done.stdout.count("SDI (3 x ") == 2, "through the system's loader and pyopencl's"
    assert done.stdout.endswith("everything works\n")


def test_doctor_says_where_there_is_no_shared_virtual_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for svm in (0, 3):
        told = f'{{"device": "SDI", "svm": {svm}, "first_s": 0.1, "kernel_s": 0.1}}'
        ended = subprocess.CompletedProcess([], 0, told, "")
        monkeypatch.setattr(doctor, "_run", lambda *_, ended=ended, **__: ended)
        found = doctor._image("system's", "/lib/libOpenCL.so.1", {})
        assert found.state == "ok" and ("; no shared virtual memory: members" in found.text) == (not svm)


def test_doctor_works_where_the_image_is_chosen_already() -> None:
    vendors = sdi("env", "--vendors").stdout.strip()
    assert sdi("doctor", OCL_ICD_VENDORS=vendors).returncode == 0


def test_doctor_and_devices_know_the_image_whatever_its_platform_is_called() -> None:
    vendors = sdi("env", "--vendors").stdout.strip()
    environ = {"OCL_ICD_VENDORS": vendors, "SDI_PLATFORM_NAME": "members"}
    done = sdi("doctor", **environ)
    assert done.returncode == 0, done.stdout
    assert "SDI_PLATFORM_NAME" in done.stdout
    assert sdi("devices", **environ).stdout == sdi("devices").stdout


@pytest.mark.parametrize(
    ("environ", "broken", "words"),
    [
        ({"SDI_SPLIT": "maybe"}, "settings", "SDI_SPLIT='maybe': expected auto, always or never"),
        ({"SDI_PYTHON": "/no/such/python"}, "service", "/no/such/python"),
        ({"SDI_PYTHON": "/bin/false"}, "service", "/bin/false"),
        ({"SDI_DEVICES": "no such device"}, "members", "'no such device' matches none of 0 = "),
    ],
)
def test_doctor_says_what_is_broken(environ: dict[str, str], broken: str, words: str) -> None:
    done = sdi("doctor", **environ)
    assert done.returncode == 1
    assert broken in failures(done.stdout)
    assert words in done.stdout


def test_doctor_says_that_no_driver_is_there(no_drivers: str) -> None:
    done = sdi("doctor", SDI_MEMBER_VENDORS=no_drivers)
    assert (done.returncode, failures(done.stdout)) == (1, ["members"])
    assert "apt-get install pocl-opencl-icd" in done.stdout


@pytest.mark.parametrize(
    ("place", "state"), [(None, "note"), (RankPlace(0, 2), "FAIL")], ids=["alone", "in a job"]
)
def test_doctor_says_what_is_missing_for_mpi(
    place: RankPlace | None, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    (found,) = doctor._mpi({}, place)
    assert (found.state, found.fix) == (state, "pip install 'sdi[mpi]'") and "no mpi4py" in found.text
    monkeypatch.undo()
    if find_spec("mpi4py") is not None:
        (found,) = doctor._mpi({**os.environ, "MPI4PY_LIBMPI": "/no/such/libmpi.so"}, place)
        assert found.state == state and "mpi4py finds no MPI" in found.text


def test_doctor_notes_misspelled_settings() -> None:
    done = sdi("doctor", SDI_SPLITS="always")
    assert done.returncode == 0
    assert "note  settings  SDI_SPLITS has no effect: sdi has no such setting" in done.stdout


@pytest.mark.parametrize(
    ("folder", "limit", "state", "words"),
    [
        ("{}", ":1G", "ok", "up to 1.0 GiB"),
        ("{}", ":900T", "note", "less than the limit"),
        ("/dev/shm", ":1M", "note", "it is in memory itself"),
        ("{}/gone", "", "FAIL", "No such file or directory"),
    ],
)
def test_doctor_says_whether_files_can_be_where_they_are_to_be(
    tmp_path: Path, folder: str, limit: str, state: str, words: str
) -> None:
    (found,) = doctor._files({"SDI_SPILL": folder.format(tmp_path) + limit})
    assert (found.state, found.what) == (state, "files") and words in found.text
    assert list(doctor._files({})) == list(doctor._files({"SDI_SPILL": "/x:3Q"})) == []


def test_devices_lists_members_and_what_they_share() -> None:
    done = sdi("devices", "-n", "3", "--devices", "0", SDI_MEMBER_MEMORY="64M")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["member", "0", "1", "2"]
    assert all(line.endswith(" 64.0 MiB") for line in lines[1:4])
    assert lines[5] == "links: members 0-2 share one CPU and its memory"
    assert lines[6] == "shared virtual memory: coarse-grained, and fine-grained in place"
    assert lines[9].endswith(" 0-2")


COPIES = "coarse-grained, and fine-grained of which members have copies"
NONE = "none, members are neither all CPUs nor all CUDA GPUs that reach each other"


@pytest.mark.parametrize(
    ("platforms", "update", "reach", "said"),
    [
        ("PoCL PoCL", "lazy", "", f"{COPIES} (lazy update)"),
        ("CUDA", "shared", "", f"{COPIES} (eager update)"),
        ("CUDA CUDA", "batch", "NVLink", f"{COPIES} (batch update)"),
        ("CUDA CUDA", "shared", "", NONE),
        ("CUDA PoCL", "shared", "", NONE),
        ("NVIDIA", "shared", "", NONE),
    ],
)
def test_devices_say_what_shared_virtual_memory_they_have(
    monkeypatch: pytest.MonkeyPatch, platforms: str, update: Update, reach: str, said: str
) -> None:
    members = [
        SimpleNamespace(platform=name, kind=CPU if name == "PoCL" else GPU, unit=str(number))
        for number, name in enumerate(platforms.split())
    ]
    monkeypatch.setattr(discover, "connection", lambda _one, _other: reach)
    assert shared_virtual_memory(members, FineGrain(update)) == f"shared virtual memory: {said}"  # type: ignore[arg-type]


def test_devices_without_a_driver_fails_in_one_line(no_drivers: str) -> None:
    done = sdi("devices", SDI_MEMBER_VENDORS=no_drivers)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "sdi devices: no OpenCL driver offers a CPU or GPU device\n"


def test_numbers_are_shown_as_spans() -> None:
    assert [spans(n) for n in ([], [3], [0, 1, 2, 5], [0, 2, 4])] == ["", "3", "0-2, 5", "0, 2, 4"]


ADD = """
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, "__kernel void twice(__global int *p) { p[get_global_id(0)] *= 2; }").build()
numbers = np.arange(256, dtype=np.int32)
buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=numbers)
program.twice(queue, (256,), (16,), buffer)
result = np.empty_like(numbers)
cl.enqueue_copy(queue, result, buffer)
print(context.devices[0].name.split(" (")[0], (result == 2 * numbers).all())
"""


def test_stats_of_a_real_program_show_the_split() -> None:
    done = sdi("run", "-n", "4", "--split", "always", "--stats", "--", sys.executable, "-c", ADD)
    assert (done.returncode, done.stdout) == (0, "SDI True\n"), done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "sdi: 4 members"
    assert lines[2].split() == ["twice", "1", "0", "4", "4", "4", "4", "4"]
    assert lines[3].startswith("moved: ")


def test_stats_add_up_over_several_processes() -> None:
    twice = (
        f"import subprocess, sys; [subprocess.run([sys.executable, '-c', {ADD!r}], check=True) for _ in '12']"
    )
    done = sdi("run", "-n", "2", "--split", "always", "--stats", "--", sys.executable, "-c", twice)
    assert (done.returncode, done.stdout) == (0, "SDI True\nSDI True\n"), done.stderr
    assert done.stderr.splitlines()[2].split() == ["twice", "2", "0", "2", "16", "16"]


def test_a_service_that_is_not_there_is_an_error_that_names_it() -> None:
    done = sdi("run", "--", sys.executable, "-c", ADD, SDI_SERVICE="/nowhere/service")
    assert done.returncode != 0
    assert "no service at SDI_SERVICE='/nowhere/service': No such file or directory" in done.stderr


def test_a_malformed_setting_reaches_a_program_that_sdi_run_did_not_start() -> None:
    vendors = sdi("env", "--vendors").stdout.strip()
    done = subprocess.run(
        [sys.executable, "-c", ADD],
        env={**os.environ, "OCL_ICD_VENDORS": vendors, "SDI_SPLIT": "maybe"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "SDI_SPLIT='maybe': expected auto, always or never" in done.stderr


@pytest.mark.parametrize(
    ("status", "said", "state", "words"),
    [
        (0, "MPICH Version: 5.0\nMore", "ok", r"MPICH Version: 5\.0; jobs are started by .*mpiexec"),
        (1, "ImportError: no libmpi", "note", "mpi4py finds no MPI: ImportError: no libmpi"),
    ],
)
def test_doctor_says_whether_there_is_an_mpi(
    monkeypatch: pytest.MonkeyPatch, status: int, said: str, state: str, words: str
) -> None:
    pytest.importorskip("mpi4py")
    ended = subprocess.CompletedProcess([], status, said, said)
    monkeypatch.setattr(doctor, "_run", lambda *_, **__: ended)
    monkeypatch.setattr(doctor.os, "access", lambda *_: True)
    (found,) = doctor._mpi({})
    assert found.state == state and re.fullmatch(words, found.text), found
    assert (found.fix == "pip install 'sdi[mpi]'") == (state == "note")


def test_doctor_says_that_nothing_starts_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    monkeypatch.setattr(doctor, "_run", lambda *_, **__: subprocess.CompletedProcess([], 0, "Open MPI", ""))
    monkeypatch.setattr(doctor.sys, "executable", str(tmp_path / "python"))
    (found,) = doctor._mpi({"PATH": str(tmp_path)})
    assert (found.state, found.text) == ("note", "Open MPI, and no mpiexec that starts jobs")


USES = """
    import pyopencl as cl, sys, warnings
    warnings.simplefilter("ignore")
    context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(context)
    try:
        cl.Program(context, "__kernel void k(__global int *p) { p[0] = sub_group_of_mine(); }").build()
    except cl.RuntimeError:
        pass
    program = cl.Program(context, '''
        __kernel void count(__global int *n, __global int *found) { found[get_global_id(0)] = atomic_inc(n); }
    ''').build()
    n, found = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096) for _ in range(2))
    cl.enqueue_fill_buffer(queue, n, b"\\0" * 4, 0, 4096)
    program.count(queue, (64,), (8,), n, found)
    queue.finish()
    sys.exit(3)
"""


def test_doctor_says_what_an_application_used_lacked_and_how_it_ended() -> None:
    done = sdi("doctor", "-n", "2", "--app", "--", sys.executable, "-c", textwrap.dedent(USES))
    assert done.returncode == 1
    assert failures(done.stdout) == ["app", "lacked"]
    lines = {line[6:15].strip(): line[16:] for line in done.stdout.splitlines() if line[0] != " "}
    assert lines["app"].startswith("ended with status 3 after ")
    assert re.fullmatch(r"python\S* found the image by \S*/libOpenCL\S*", lines["loader"])
    assert re.fullmatch(r"build \d+ failed: .*sub_group_of_mine.*", lines["lacked"])
    assert lines["kernels"].startswith("count ran whole 1 times: line 2: updates global memory atomically")
    assert "fix: give each work-group a result of its own" in done.stdout
    assert lines["verdict"].startswith("ran on one device: ")


def test_doctor_says_that_a_service_did_not_finish() -> None:
    def found(*sessions: SessionCounts) -> list[tuple[str, str]]:
        return [(finding.state, finding.what) for finding in application._findings(merged(sessions))]

    whole = SessionCounts.from_json(json.dumps(WRITTEN))
    lost = SessionCounts.from_json(json.dumps(WRITTEN | {"finished": False, "kernels": {}}))
    assert found(lost) == [("FAIL", "service")]
    assert found(whole, lost) == [("FAIL", "service"), *found(whole)]


def test_doctor_says_why_an_application_did_not_use_the_image() -> None:
    done = sdi("doctor", "--app", "--", sys.executable, "-c", "pass")
    assert (done.returncode, failures(done.stdout)) == (1, ["loader"])
    assert "app       ended well after " in done.stdout
    done = sdi("doctor", "--app", "--", "/no/such/program")
    assert (done.returncode, failures(done.stdout)) == (1, ["app"])
    assert sdi("doctor", "--app").returncode == 2
