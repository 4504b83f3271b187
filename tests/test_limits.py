"""Programs with few resources: where the plain driver runs, the image does, or says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sdi.limits import cores
from tests.image_runs import ROOT, Run, image_environ, plain_environ, run

LIMIT_S = 120.0
MIB = 1 << 20
NOT_FOUND = "clGetDeviceIDs(first_platform(), CL_DEVICE_TYPE_ALL, 1, &device, NULL) failed with -1"


def compiled(name: str, folder: Path) -> Path:
    """A program of ``tests/c``."""
    if shutil.which("gcc") is None or not Path("/usr/include/CL/cl.h").exists():
        pytest.skip("needs gcc and opencl-headers")
    source = str(ROOT / "tests" / "c" / f"{name}.c")
    done = subprocess.run(["gcc", "-std=gnu11", source, "-o", str(folder / name), "-lOpenCL"], check=False)
    if done.returncode:
        pytest.skip("needs ocl-icd-opencl-dev")
    return folder / name


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 2),
        ("0::/a/b\n", {"cpu.max": "50000 100000"}, 1),  # the names of a container are not seen in it
        ("3:cpu,cpuacct:/d\n0::/\n", {"cpu,cpuacct/d/cpu.cfs_quota_us": "300000"}, 3),
        ("3:cpu,cpuacct:/d\n", {"cpu,cpuacct/d/cpu.cfs_quota_us": "-1"}, None),
        ("3:memory:/d\n", {"memory/d/cpu.cfs_quota_us": "100000"}, None),
        ("0::/\n", {"cpu.max": "?"}, None),
        ("0::/a\n", {}, None),
        ("", {}, None),
    ],
)
def test_cores_are_those_of_its_groups_quotas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], expected: int | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7)))
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
        (file.parent / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "of").write_text(groups)
    assert cores(tmp_path / "of", tmp_path / "groups") == (7 if expected is None else expected)
    assert cores(tmp_path / "none", tmp_path / "groups") == 7


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program, whose kernel the drivers have in their caches: to link takes more than it."""
    made = compiled("limited", tmp_path_factory.mktemp("limited"))
    for environ in (plain_environ(), image_environ(2)):
        warm = run([made, "4096"], environ, LIMIT_S)
        assert warm.returncode == 0, warm.describe()
    return made


def limited(program: Path, limit: str, *arguments: str, image: bool, **settings: str) -> Run:
    """The program behind shell commands; ``limit``: what comes before it."""
    environ = image_environ(2, **settings) if image else plain_environ()
    return run(["bash", "-c", f'{limit}; exec "$@"', "bash", program, *arguments], environ, LIMIT_S)


def sizes(result: Run) -> tuple[int, int]:
    """What the device said of its memory, of a program that ran well."""
    lines = result.stdout.splitlines()
    assert result.returncode == 0 and lines[-1] == "right", result.describe()
    memory, largest = map(int, lines[0].split())
    return memory, largest


# -- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "nbytes", "least"),
    [
        ("ulimit -v 1000000", 0, 64 * MIB),
        ("ulimit -v 3000000", 512 * MIB, 800 * MIB),
        ("ulimit -f 2000000", 1024 * MIB, 1024 * MIB),
        ("ulimit -n 9", 4096, 1024 * MIB),
        ("ulimit -n 12", 4096, 1024 * MIB),
    ],
)
def test_where_the_plain_driver_runs_within_a_limit_so_does_the_image(
    program: Path, limit: str, nbytes: int, least: int
) -> None:
    sizes(limited(program, limit, str(nbytes or 64 * MIB), image=False))
    memory, largest = sizes(limited(program, limit, str(nbytes), image=True))
    assert least <= largest <= memory
    kind, value = limit.split()[1:]
    assert kind == "-n" or memory < int(value) * 1024, "no more is claimed than there can be"


def test_shared_virtual_memory_is_there_where_address_space_is_limited(tmp_path: Path) -> None:
    """3: coarse- and fine-grained buffers; all of it is mapped at one more address."""
    program = compiled("svm", tmp_path)
    for limit in ("true", "ulimit -v 1000000", "ulimit -v 4000000"):  # the first links kernels
        result = limited(program, limit, image=True, SDI_DEVICES="cpu")
        assert (result.returncode, result.stdout) == (0, "3\nright\n"), result.describe()


CALLBACKS = """
import os, resource, pyopencl as cl
context = cl.Context([p for p in cl.get_platforms() if os.environ.get("OCL_TEST_PLATFORM", "") in p.name]
                     [0].get_devices()[:1])
queue, gate = cl.CommandQueue(context), cl.UserEvent(context)
for _ in range(50):
    marker = cl.enqueue_marker(queue, wait_for=[gate])
    marker.set_callback(cl.command_execution_status.COMPLETE, lambda _: None)
print("right", flush=True)
gate.set_status(0)
queue.finish()
os._exit(0)
"""


@pytest.mark.parametrize("image", [False, True])
def test_most_of_a_limited_address_space_stays_the_applications(image: bool) -> None:
    """pyopencl starts a thread for each callback."""
    environ = image_environ(2) if image else plain_environ()
    command = ["bash", "-c", 'ulimit -v 1000000; exec "$@"', "bash", sys.executable, "-c", CALLBACKS]
    result = run(command, environ, LIMIT_S)
    assert result.stdout == "right\n", result.describe()


def test_limits_that_the_user_may_raise_do_not_hold_the_service_back(program: Path) -> None:
    free = sizes(limited(program, "true", "4096", image=True))
    assert sizes(limited(program, "ulimit -S -f 1000; ulimit -S -n 9", "4096", image=True)) == free


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("ulimit -f 1000", ("a file may have 1000.0 KiB", "size of files (ulimit -f) 1000.0 KiB")),
        ("ulimit -v 700000", ("the service has address space for", "address space (ulimit -v) 683.6 MiB")),
        ("ulimit -n 6", ("Too many open files",)),
    ],
)
def test_what_is_too_little_is_named(program: Path, limit: str, words: tuple[str, ...]) -> None:
    result = limited(program, limit, "4096", image=True)
    assert result.returncode == 1 and NOT_FOUND in result.stderr, result.describe()
    assert all(each in result.stderr for each in words), result.describe()
    assert "Traceback" not in result.stderr and "internal error" not in result.stderr


REFUSE_MEMFD = """
import ctypes, os, struct, sys
code = struct.pack("<HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 0, 1, 319, 6, 0, 0, 0x50026, 6, 0, 0, 0x7FFF0000)
text = ctypes.create_string_buffer(code)
filter = struct.pack("@HxxxxxxP", 4, ctypes.addressof(text))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_kernel_without_memory_files_is_named(program: Path) -> None:
    result = run([sys.executable, "-c", REFUSE_MEMFD, program, "4096"], image_environ(2), LIMIT_S)
    assert result.returncode == 1 and NOT_FOUND in result.stderr, result.describe()
    assert "no file in memory (memfd_create): Function not implemented" in result.stderr, result.describe()


# -- where it runs ----------------------------------------------------------------------------------------


def test_programs_build_and_run_in_a_folder_that_was_removed(program: Path, tmp_path: Path) -> None:
    removed = f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone"
    sizes(limited(program, removed, "4096", "-I. -DNAME=1", image=True))
    result = limited(program, removed, "4096", "-I. -DWITH=<here.h>", image=True, SDI_VERIFY="1")
    assert "build failed with -11" in result.stdout and "internal error" not in result.stdout
    assert "here.h" in result.stdout and "Traceback" not in result.stderr, result.describe()
    (tmp_path / "x.h").write_text("")
    sizes(limited(program, removed, "4096", f"-I{tmp_path} -DWITH=<x.h>", image=True))
    result = limited(program, removed, "4096", image=True, SDI_STATS="stats.json")
    assert "sdi: no image: SDI_STATS='stats.json': No such file or directory\n" in result.stderr


def test_input_output_and_errors_may_be_closed(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = limited(program, "exec <&- >&- 2>&-", "4096", "", str(out), image=True)
    assert result.returncode == 0 and out.read_text().endswith("right\n"), result.describe()
    result = limited(program, "exec <&- >&- 2>&-", "4096", "", str(out), image=True, SDI_SPLIT="maybe")
    assert result.returncode == 1, "and what cannot be said is not sent to the service"


def test_a_user_without_home_and_temporary_folder_runs_programs(program: Path, tmp_path: Path) -> None:
    unset = f"unset HOME XDG_CACHE_HOME; export TMPDIR={tmp_path}/nowhere"
    sizes(limited(program, unset, "4096", image=True))


def mounted(what: str) -> str:
    """Shell commands that mount file systems which only the program and what it starts see."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("only root can mount file systems, where that is allowed at all")
    return f'exec unshare -m sh -c \'{what}; exec "$@"\' sh "$@"'


def test_programs_run_where_proc_dev_and_shm_are_empty(program: Path) -> None:
    empty = "mount -t tmpfs none /dev; mount -t tmpfs none /proc"
    sizes(limited(program, mounted(empty), "4096", image=True))


def test_programs_run_where_nothing_can_be_kept(program: Path, tmp_path: Path) -> None:
    for folder in ("read-only", "full"):
        (tmp_path / folder).mkdir()
    mounts = f"mount -t tmpfs -o ro none {tmp_path}/read-only; "
    mounts += f"mount -t tmpfs -o size=8k none {tmp_path}/full; head -c 9999 /dev/zero > {tmp_path}/full/all"
    mounts += " 2>/dev/null"
    for folder in ("read-only", "full"):
        result = limited(program, mounted(mounts), "4096", image=True, XDG_CACHE_HOME=f"{tmp_path}/{folder}")
        sizes(result)
        assert not result.stderr, result.describe()


# -- what is written at the end -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path", "why"),
    [
        ("SDI_STATS", "/proc/nowhere/stats.json", "No such file or directory"),
        ("SDI_STATS", "/dev/null", "it is there and is no regular file"),
        ("SDI_PROFILE", "/proc/nowhere", "No such file or directory"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_an_error_at_the_start(
    program: Path, name: str, path: str, why: str
) -> None:
    result = limited(program, "true", "4096", image=True, **{name: path})
    assert result.returncode == 1 and NOT_FOUND in result.stderr, result.describe()
    assert f"sdi: no image: {name}={path!r}: {why}\n" in result.stderr, result.describe()
    assert Path("/dev/null").is_char_device()


def test_counters_that_cannot_be_written_at_the_end_are_missed_and_nothing_else(
    program: Path, tmp_path: Path
) -> None:
    (tmp_path / "away").mkdir()
    stats = tmp_path / "stats"
    stats.mkdir()
    taken = f"{stats}/stats.json"
    mounts = f"mount -t tmpfs -o size=4k none {stats}; (echo > {stats}/all)"
    result = limited(program, mounted(mounts), "4096", image=True, SDI_STATS=taken)
    sizes(result)
    assert f"SDI_STATS={taken!r}: No space left on device: the counters are lost" in result.stderr


def test_what_is_recorded_of_calls_is_not_written_through_a_link(program: Path, tmp_path: Path) -> None:
    victim, profile = tmp_path / "victim", tmp_path / "profile"
    victim.write_text("precious")
    profile.mkdir()
    planted = f"ln -s {victim} {profile}/calls-$$.bin"
    sizes(limited(program, planted, "4096", image=True, SDI_PROFILE=str(profile)))
    assert victim.read_text() == "precious"
    (calls,) = profile.glob("calls-*.bin")
    assert not calls.is_symlink() and calls.stat().st_size > MIB
