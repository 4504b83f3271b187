"""The service ends when its client has ended, whatever it is doing then, and writes what it has to write."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sdi.settings import NAMES
from sdi.wire.records import ARENA_NBYTES, Op, record_layout
from tests.image_runs import ROOT, image_environ, run

PATIENCE_S = 60

STUCK = {
    "in a walk over very many rows": "for _ in range(1 << 62): pass",
    "in a driver": "ctypes.CDLL(None).sleep(1000)",
    "in a driver that lets no Python run": "ctypes.PyDLL(None).sleep(1000)",
    "writing a reply that nobody reads": "self._outbox.reply(1, 0, 0, bytes(1 << 26))",
    "in a member's turn": """
        held = threading.Event()
        lock = self._post.__self__._turn
        def turn():
            with lock:
                held.set()
                threading.Event().wait()
        lock.release()
        threading.Thread(target=turn, daemon=True).start()
        held.wait()
        lock.acquire()
        """,
}
"""What the scheduler does when it gets the record: it never comes back by itself."""

SERVICE = """
import ctypes, os, sys, threading
from sdi.service import main as server
from sdi.service import dispatch

say = ctypes.PyDLL(None).write  # which lets nobody else run meanwhile

def stuck(self, number, record_id, record, has_more):
    say(2, b"stuck\\n", 6)
{body}

dispatch.Dispatcher.act = stuck
status = server.main(sys.argv[1:])
os._exit(status)
"""


def start(body: str, **settings: str) -> tuple[subprocess.Popen[bytes], list[socket.socket]]:
    """A service that is stuck at the first record, and its client's sockets; it has got that record."""
    pairs = [socket.socketpair() for _ in range(2)]
    code = SERVICE.format(body=textwrap.indent(textwrap.dedent(body).strip(), "    "))
    env = {name: value for name, value in os.environ.items() if name not in NAMES}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *(str(theirs.fileno()) for _, theirs in pairs), str(ARENA_NBYTES), ""],
        cwd=ROOT,
        env=env | {"SDI_NUM_GPUS": "2", "SDI_IN_SERVICE": "1"} | settings,
        pass_fds=[theirs.fileno() for _, theirs in pairs],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    for _, theirs in pairs:
        theirs.close()
    ours = [ours for ours, _ in pairs]
    ours[0].settimeout(PATIENCE_S)
    facts, descriptors, _, _ = socket.recv_fds(ours[0], 1, 1)
    assert len(facts) == 1 and len(descriptors) == 1
    os.close(descriptors[0])
    shape = record_layout(Op.WATCH)
    ours[0].sendall(shape.pack(shape.size, Op.WATCH, 1, 1, 0))  # that it runs: Python acts on it
    assert process.stderr is not None
    assert process.stderr.readline() == b"stuck\n"
    return process, ours


@pytest.mark.parametrize("what", STUCK)
def test_a_service_that_is_stuck_ends_with_its_client(what: str, tmp_path: Path) -> None:
    lets_python_run = "no Python" not in what
    stats, profile = tmp_path / "stats.json", tmp_path / "profile"
    settings = {"SDI_STATS": str(stats), "SDI_PROFILE": str(profile)} if lets_python_run else {}
    process, ends = start(STUCK[what], **settings)
    for end in ends:
        end.close()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1)
    assert said == b""
    if lets_python_run:
        assert json.loads(stats.read_text())["finished"]
        lines = [line for path in profile.iterdir() for line in path.read_text().splitlines()]
        assert any(json.loads(line)[0] == "close" for line in lines)


def test_what_came_before_the_end_of_the_client_counts(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    body = """
    import time
    time.sleep(0.01)
    os.write(2, b"next\\n")
    """
    process, ends = start(body, SDI_STATS=str(stats))
    shape = record_layout(Op.WATCH)
    ends[0].sendall(shape.pack(shape.size, Op.WATCH, 1, 1, 0) * 100)
    for end in ends:
        end.close()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert said.count(b"next") == 101
    assert json.loads(stats.read_text())["finished"]


@pytest.mark.parametrize(
    "source",
    [
        "kernel void k(global volatile int *a) { while (a[get_global_id(0)] == 0) ; }",
        "kernel void k(global int *a) {"
        + "a[get_global_id(0)] += a[get_global_id(0) + 1] * 3;\n" * 3000
        + "}",
    ],
    ids=["a kernel that never ends", "a kernel that is long to build and to analyse"],
)
def test_a_program_that_is_killed_takes_its_service_with_it(source: str, tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, threading, pyopencl as cl
            (device,) = cl.get_platforms()[0].get_devices()
            ctx = cl.Context([device])
            queue = cl.CommandQueue(ctx)
            buffer = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 1 << 16)
            cl.enqueue_fill_buffer(queue, buffer, b"\\0", 0, 1 << 16)
            source = {source!r}
            if len(source) < 1000:
                cl.Kernel(cl.Program(ctx, source).build(), "k")(queue, (64,), (8,), buffer)
                queue.flush()
            else:
                threading.Thread(target=cl.Program(ctx, source).build, daemon=True).start()
                queue.finish()
            os.kill(os.getpid(), 9)
            """
        )
    )
    stats = tmp_path / "stats.json"
    result = run([sys.executable, script], image_environ(2, SDI_STATS=str(stats)), PATIENCE_S)
    assert result.returncode == -9, result.describe()
    assert not result.remained, result.describe()
    assert json.loads(stats.read_text())["finished"]


def test_a_service_whose_client_ends_before_it_is_ready_ends(tmp_path: Path) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    code = """
    import ctypes, sys
    from sdi.service import main as server
    server.begin = lambda *_: print("starts", flush=True) or ctypes.PyDLL(None).sleep(1000)
    server.main(sys.argv[1:])
    """
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(code),
            *(str(theirs.fileno()) for _, theirs in pairs),
            str(ARENA_NBYTES),
            "",
        ],
        cwd=ROOT,
        pass_fds=[theirs.fileno() for _, theirs in pairs],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"starts\n"
    for end in (end for pair in pairs for end in pair):
        end.close()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
