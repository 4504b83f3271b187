"""Applications whose service fails, is killed, or serves another Python than the one that runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sdi.cli.counters import SessionCounts, report
from tests.devices.testing.hooks import hooks
from tests.image_runs import Run, image_environ, run, tells_what_is_written

KERNELS = """
__kernel void twice(__global int *a) { a[get_global_id(0)] *= 2; }
__kernel void broken(__global int *a) { a[get_global_id(0)] += 1; }
"""

START = f"""
import os, signal, numpy as np, pyopencl as cl
(device,) = cl.get_platforms()[0].get_devices()
ctx = cl.Context([device])
queue = cl.CommandQueue(ctx)
program = cl.Program(ctx, '''{KERNELS}''').build()
twice, broken = cl.Kernel(program, "twice"), cl.Kernel(program, "broken")
data = np.arange(64, dtype=np.int32)
buffer = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=data)
"""


def application(tmp_path: Path, text: str, members: int, **settings: str) -> Run:
    script = tmp_path / "application.py"
    script.write_text(START + textwrap.dedent(text))
    return run([sys.executable, script], image_environ(members, SDI_SPLIT="always", **settings), 60)


def test_a_kernel_that_fails_on_a_member_fails_its_event_and_nothing_else(tmp_path: Path) -> None:
    result = application(
        tmp_path,
        """
        other = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=data)
        event = broken(queue, (64,), (8,), buffer)
        try:
            event.wait()
        except cl.Error as error:
            print("failed with", event.command_execution_status)
        out = np.empty_like(data)
        twice(queue, (64,), (8,), other)
        cl.enqueue_copy(queue, out, other)
        assert (out == data * 2).all()
        cl.enqueue_copy(queue, buffer, data)
        twice(queue, (64,), (8,), buffer)
        cl.enqueue_copy(queue, out, buffer)
        assert (out == data * 2).all()
        print("went on")
        """,
        3,
        SDI_TEST_MEMBERS=hooks(faulty=(1, "broken")),
        SDI_LOG="error",
    )
    assert result.returncode == 0, result.describe()
    assert "failed with -5" in result.stdout, result.describe()
    assert "went on" in result.stdout, result.describe()


def test_an_application_goes_on_without_a_member_that_is_lost(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    result = application(
        tmp_path,
        """
        out, failed = np.empty_like(data), 0
        for step in range(40):
            try:
                cl.enqueue_copy(queue, buffer, data)
                twice(queue, (64,), (8,), buffer).wait()
                cl.enqueue_copy(queue, out, buffer)
            except cl.Error as error:
                assert error.code in (-5, -14), error
                failed += 1
            else:
                assert (out == data * 2).all()
        print("failed", failed)
        """,
        3,
        SDI_TEST_MEMBERS=hooks(lost=(1, 25)),
        SDI_LOG="error",
        SDI_STATS=str(stats),
    )
    assert result.returncode == 0, result.describe()
    assert result.stdout == "failed 1\n", result.describe()
    assert result.stderr.count("lost: member 1 ") == 1 and "the image goes on with 0, 2" in result.stderr
    found = json.loads(stats.read_text())
    assert found["memory"]["members_lost"] == 1
    used = found["kernels"]["twice"]["members_used"]
    assert used["2"] > 10 and used["3"] > 5
    said = report(SessionCounts.from_json(stats.read_text())).splitlines()
    assert any(line.startswith("lost: 1 member was lost") for line in said)
    assert any(line.startswith("launch ") and "failed: member 1" in line for line in said)


@pytest.mark.parametrize("lasts", [0, 3, 8])  # of nine: one member alone copies nothing
def test_a_program_that_loses_its_only_member_ends_and_says_so(tmp_path: Path, lasts: int) -> None:
    result = application(
        tmp_path,
        """
        out = np.empty_like(data)
        for step in range(9):
            twice(queue, (64,), (8,), buffer)
        cl.enqueue_copy(queue, out, buffer)
        """,
        1,
        SDI_TEST_MEMBERS=hooks(lost=(0, lasts)),
        SDI_LOG="error",
    )
    assert result.returncode == 1 and not result.remained, result.describe()
    assert "no member is left" in result.stderr and "Error" in result.stderr, result.describe()


@pytest.mark.parametrize("members", [1, 3])
def test_an_application_outlives_its_service(tmp_path: Path, members: int) -> None:
    result = application(
        tmp_path,
        """
        mark = os.environ["OCL_TEST_RUN"]
        def service():
            for name in filter(str.isdigit, os.listdir("/proc")):
                try:
                    environ = open(f"/proc/{name}/environ").read()
                    command = open(f"/proc/{name}/cmdline").read()
                except OSError:
                    continue
                if mark in environ and "sdi.service.main" in command:
                    return int(name)
        gate = cl.UserEvent(ctx)
        event = cl.enqueue_marker(queue, wait_for=[gate])
        os.kill(service(), signal.SIGKILL)
        try:
            event.wait()
        except cl.Error as error:
            print("waiter woke")
        for call in (queue.finish, lambda: cl.Buffer(ctx, 0, 64), lambda: twice(queue, (64,), (8,), buffer),
                     lambda: cl.enqueue_copy(queue, data, buffer)):
            try:
                call()
            except cl.Error as error:
                print(error.code)
        print("lives")
        """,
        members,
    )
    assert result.returncode == 0, result.describe()
    lines = result.stdout.split("\n")
    assert lines[0] == "waiter woke", result.describe()
    assert lines[1:5] == ["-5"] * 4, result.describe()
    assert "lives" in result.stdout
    said = [line for line in result.stderr.splitlines() if line.startswith("sdi: ")]
    assert len(said) == 1 and said[0].startswith(
        "sdi: the service has ended and did not say why: it was killed"
    )


def other_python() -> str | None:
    """A Python of another version than this one."""
    own = ".".join(map(str, sys.version_info[:3]))
    for name in ("python3.13", "python3.12", "python3.10", "python3.9", "/usr/bin/python3"):
        path = shutil.which(name)
        if path is None:
            continue
        asked = subprocess.run(
            [path, "-c", "import ctypes, platform; print(platform.python_version())"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0 and asked.stdout.strip() not in ("", own):
            return path
    return None


def test_an_application_in_another_python_gets_the_service_of_the_installed_one(tmp_path: Path) -> None:
    python = other_python()
    if python is None:
        pytest.skip("no other Python version on this machine")
    script = tmp_path / "application.py"
    script.write_text(
        textwrap.dedent(
            """
            import ctypes, os
            cl = ctypes.CDLL("libOpenCL.so.1")
            platform, device, status = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
            assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
            pointer, number, flags = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
            get = cl.clGetDeviceIDs
            get.argtypes = [pointer, flags, number, pointer, pointer]
            assert get(platform, 0xFFFFFFFF, 1, ctypes.byref(device), None) == 0
            info = cl.clGetDeviceInfo
            info.argtypes = [pointer, number, ctypes.c_size_t, pointer, pointer]
            name = ctypes.create_string_buffer(300)
            assert info(device, 0x102B, 300, name, None) == 0
            print(name.value.decode())
            """
        )
    )
    (tmp_path / "numpy.py").write_text("raise ImportError('the service must not look here')\n")
    result = run([python, script], image_environ(2, PYTHONPATH=str(tmp_path)), 60)
    assert result.returncode == 0, result.describe()
    assert result.stdout.startswith("SDI (2 x "), result.describe()


def test_nobody_else_reaches_the_sockets_and_the_arena(tmp_path: Path) -> None:
    """No socket has a name, in the file system or abstract; the arena is its user's alone, and sealed."""
    result = application(
        tmp_path,
        """
        import fcntl, glob, stat
        own = {}
        for number in os.listdir("/proc/self/fd"):
            try:
                own[number] = os.readlink(f"/proc/self/fd/{number}")
            except FileNotFoundError:
                pass
        inodes = {text[8:-1] for text in own.values() if text.startswith("socket:[")}
        with open("/proc/self/net/unix") as table:
            lines = [line.split() for line in table][1:]
        found = [line for line in lines if line[6] in inodes]
        assert len(found) >= 2, found
        assert all(len(line) == 7 for line in found), "a socket has a name"
        with open("/proc/self/maps") as table:
            mapped = [line for line in table if "sdi-arena" in line]
        inode = mapped[0].split()[4]
        descriptor = None
        for path in glob.glob("/proc/[0-9]*/fd/*"):  # the service's: the application has closed its own
            try:
                if "sdi-arena" in os.readlink(path) and str(os.stat(path).st_ino) == inode:
                    descriptor = path
            except OSError:
                pass
        assert stat.S_IMODE(os.stat(descriptor).st_mode) == 0o600
        opened = os.open(descriptor, os.O_RDWR)
        assert fcntl.fcntl(opened, 1034) & 0x3 == 0x3, "shrinking and further seals are forbidden"
        try:
            os.ftruncate(opened, 4096)
        except PermissionError:
            print("sealed")
        """,
        2,
    )
    assert result.stdout.splitlines() == ["sealed"], result.describe()


@pytest.mark.parametrize("watch", ["on", "off"])
def test_memory_of_the_application_is_watched_where_it_may_be(tmp_path: Path, watch: str) -> None:
    stats = tmp_path / "stats.json"
    result = application(
        tmp_path,
        """
        memory = np.zeros(1 << 20, np.uint8)
        used = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=memory)
        out = np.empty_like(memory)
        for number in range(8):
            memory[5000] = number
            for _ in range(3):
                cl.enqueue_copy(queue, out, used)
                assert out[5000] == number
        """,
        1,
        SDI_HOST_WATCH=watch,
        SDI_STATS=str(stats),
    )
    assert result.returncode == 0, result.describe()
    compared = json.loads(stats.read_text())["memory"]["host_compared_nbytes"] >> 20
    if watch == "on" and tells_what_is_written():
        assert 3 <= compared < 8, "all until it is watched, then a few pages at a time"
    else:
        assert compared == 3 * 8
