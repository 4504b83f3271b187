"""The process that `sdi run` has ready is a service like one that the application starts."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sdi.cli import ready
from sdi.cli.ready import ReadyService
from tests.image_runs import ROOT, image_environ, run

LIMIT_S = 120.0
# Computes, and says what its service is.
PROGRAM = """
import json, os, resource, sys
import numpy as np, pyopencl as cl
{before}
(device,) = [d for p in cl.get_platforms() if "SDI" in p.name for d in p.get_devices()]
context = cl.Context([device])
queue, found = cl.CommandQueue(context), np.arange(64, dtype=np.int32)
buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR | cl.mem_flags.READ_WRITE, hostbuf=found)
program = cl.Program(context, "kernel void f(global int *a) {{ a[get_global_id(0)] *= 2; }}").build()
cl.Kernel(program, "f")(queue, (64,), (8,), buffer)
cl.enqueue_copy(queue, found, buffer)
assert found.tolist() == list(range(0, 128, 2))

def about(pid):
    with open(f"/proc/{{pid}}/status") as file:
        status = dict(line.rstrip("\\n").split(":\\t", 1) for line in file if ":\\t" in line)
    folder = f"/proc/{{pid}}/fd"
    links = {{n: os.readlink(f"{{folder}}/{{n}}") for n in range(5) if os.path.lexists(f"{{folder}}/{{n}}")}}
    return {{
        "directory": os.readlink(f"/proc/{{pid}}/cwd"),
        "umask": status["Umask"],
        "cores": sorted(os.sched_getaffinity(pid)),
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
        "files": resource.prlimit(pid, resource.RLIMIT_NOFILE)[1],
        "core": resource.prlimit(pid, resource.RLIMIT_CORE),
        "stderr": links.get(2),
        "session": os.getsid(pid) == pid,
        "blocked": status["SigBlk"],
        "descriptors": sorted(links),
        "arguments": open(f"/proc/{{pid}}/cmdline").read().split("\\0")[4:-1],
    }}

def services():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.environ["OCL_TEST_READY"] not in open(f"/proc/{{name}}/environ").read():
                continue
            words = open(f"/proc/{{name}}/cmdline").read().split("\\0")
            if "sdi.service.main" in words and os.getsid(int(name)) != int(os.environ.get("READY", 0)):
                yield int(name)
        except OSError:
            pass

(service,) = services()
print(json.dumps([about(os.getpid()), about(service)]))
"""


needs_one = pytest.mark.skipif(not ready.can_be_ready(), reason="needs two cores")


@pytest.fixture
def environ() -> dict[str, str]:
    """Of an image of two members."""
    given = {name: value for name, value in image_environ(2).items() if name != "SDI_PYTHON"}
    return given | {"OCL_TEST_READY": secrets.token_hex(8)}


@pytest.fixture
def process(environ: dict[str, str]) -> Iterator[ReadyService]:
    """That is ready, or will be."""
    if not ready.can_be_ready():
        pytest.skip("needs two cores")
    made = ReadyService(environ)
    yield made
    made.close()


def said(
    process: ReadyService, environ: dict[str, str], before: str = "", **more: str
) -> list[dict[str, object]]:
    """What such a program says of itself and of its service."""
    pid = process._process.pid if process._process is not None else 0
    script = PROGRAM.format(before=textwrap.dedent(before))
    given = {**environ, **process.environ(), "READY": str(pid), **more}
    ended = run([sys.executable, "-W", "ignore", "-c", script], given, LIMIT_S)
    assert ended.returncode == 0, ended.describe()
    found: list[dict[str, object]] = json.loads(ended.stdout.splitlines()[-1])
    return found


def in_session(leader: int) -> set[int]:
    """Processes of the session that ``leader`` began; not those that are ending."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(ProcessLookupError, FileNotFoundError, PermissionError):
            if os.getsid(int(name)) == leader and os.readlink(f"/proc/{name}/exe"):
                found.add(int(name))
    return found


CHANGES = """
os.chdir("/usr")
os.umask(0o37)
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
os.nice(2)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""


@pytest.mark.parametrize("before", ["", CHANGES], ids=["as it was", "changed"])
def test_it_is_as_one_that_the_application_starts(
    process: ReadyService, environ: dict[str, str], before: str
) -> None:
    for more, word in (({}, "ready"), ({"_SDI_READY": ""}, "3")):
        own, service = said(process, environ, before, **more)
        assert service.pop("arguments")[0] == word  # type: ignore[index]
        assert service.pop("descriptors") == [0, 1, 2, 3, 4]
        assert service.pop("session") is True
        assert service == {name: own[name] for name in service}


def test_it_becomes_the_service_of_each_application(process: ReadyService, environ: dict[str, str]) -> None:
    words = [said(process, environ)[1]["arguments"] for _ in range(2)]
    assert words[0] == words[1] and words[0][0] == "ready"  # type: ignore[index]


@pytest.mark.parametrize(
    ("before", "more"),
    [
        ("", {"LC_ALL": "C"}),
        ("", {"MALLOC_ARENA_MAX": "1"}),
        ("import ctypes; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)", {}),
    ],
    ids=["locale", "allocator", "rights"],
)
def test_an_application_that_it_is_not_like_starts_its_own(
    process: ReadyService, environ: dict[str, str], before: str, more: dict[str, str]
) -> None:
    assert said(process, environ, before, **more)[1]["arguments"][0] == "3"  # type: ignore[index]


def test_one_that_has_ended_is_not_missed(process: ReadyService, environ: dict[str, str]) -> None:
    assert process._process is not None
    process._process.kill()
    process._process.wait()
    assert said(process, environ)[1]["arguments"][0] == "3"  # type: ignore[index]


@pytest.mark.parametrize("named", ["SDI_PYTHON", "SDI_SERVICE"])
def test_there_is_none_where_another_is_named(environ: dict[str, str], named: str) -> None:
    made = ReadyService(environ | {named: "/somewhere"})
    assert made.environ() == {} and made._process is None
    made.close()


def test_who_does_not_wait_any_more_gets_no_service(process: ReadyService, environ: dict[str, str]) -> None:
    """It would be one beside that which the application has started meanwhile."""
    own, given = socket.socketpair()
    text = b"\0".join([b"4096", b"200000000000", *(f"{n}={v}".encode() for n, v in environ.items()), b""])
    with own, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.connect("\0" + process.environ()["_SDI_READY"])
        socket.send_fds(asking, [struct.pack("<QII", len(text), 0, 0)], [given.fileno()] * 2)
        asking.sendall(text)
        given.close()
        asking.close()
        own.settimeout(LIMIT_S)
        assert own.recv(1) == b""  # nobody has it
    assert said(process, environ)[1]["arguments"][0] == "ready"  # type: ignore[index]


def test_none_is_left_that_waits(environ: dict[str, str]) -> None:
    made = ReadyService(environ)
    if made._process is None:
        pytest.skip("needs two cores")
    own = made._process.pid
    try:
        said(made, environ)
    finally:
        made.close()
    assert in_session(own) == set()


def test_who_waits_ends_with_the_process_that_made_it(process: ReadyService, environ: dict[str, str]) -> None:
    """Also where that could not say so."""
    said(process, environ)  # there is one that waits, or comes
    assert process._process is not None
    process._process.kill()
    process._process.wait()
    assert select.select([process._alive], [], [], LIMIT_S)[0]
    assert in_session(process._process.pid) == set()


def test_there_is_none_on_one_core(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready.os, "sched_getaffinity", lambda _pid: {3})
    assert ReadyService(environ).environ() == {}


@needs_one
@pytest.mark.parametrize("stats", [[], ["--stats"]])
def test_sdi_run_has_one_and_leaves_none(environ: dict[str, str], stats: list[str], tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    script.write_text(
        PROGRAM.format(before="").replace("(service,) = services()", "service = max(services())")
    )
    command = [sys.executable, "-m", "sdi.cli", "run", *stats, "-n", "2", "--", sys.executable, str(script)]
    ended = run(command, environ | {"SDI_LOG": "debug"}, LIMIT_S)
    assert ended.returncode == 0, ended.describe()
    assert not ended.remained, ended.describe()
    assert "the process that sdi run had ready is the service" in ended.stderr, ended.describe()
    assert ("2 members" in ended.stderr) is bool(stats), ended.describe()


def test_output_that_the_application_has_closed_is_not_the_services(
    process: ReadyService, environ: dict[str, str]
) -> None:
    before = """
    sys.stderr.close()
    os.close(2)
    """
    own, service = said(process, environ, before)
    assert own["stderr"] != service["stderr"] == "/dev/null"


def test_a_program_that_ends_at_once_leaves_nothing(environ: dict[str, str]) -> None:
    command = [sys.executable, "-m", "sdi.cli", "run", "--", "true"]
    ended = run(command, environ, LIMIT_S)
    assert (ended.returncode, ended.remained) == (0, ()), ended.describe()


@needs_one
def test_it_ends_with_who_started_it(environ: dict[str, str]) -> None:
    code = """
    import os, sys
    from sdi.cli.ready import ReadyService
    made = ReadyService(dict(os.environ))
    print(made._process.pid, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environ, cwd=ROOT, **ends) as process:  # type: ignore[call-overload]
        assert process.stdout is not None and process.stdin is not None
        descriptor = os.pidfd_open(int(process.stdout.readline()))
        process.stdin.close()
        process.wait()
    assert select.select([descriptor], [], [], LIMIT_S)[0]
    os.close(descriptor)


OTHER_UID = 4321
LISTENS = """
import os, socket, sys
end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
end.bind("\\0" + sys.argv[1])
end.listen()
print("listens", flush=True)
while True:
    connection, _ = end.accept()
    print(len(connection.recv(1 << 16)), flush=True)
    connection.sendall(b"y")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to become another user")
def test_another_users_process_is_nobodys_service(environ: dict[str, str]) -> None:
    name = f"sdi-test-{secrets.token_hex(8)}"
    command = ["/usr/bin/env", "python3", "-c", LISTENS, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, user=OTHER_UID, cwd="/", text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "listens\n"
        nobody = ReadyService(environ | {"SDI_PYTHON": "/somewhere"})
        assert said(nobody, environ, "", _SDI_READY=name)[1]["arguments"][0] == "3"  # type: ignore[index]
        other.kill()
        assert other.stdout.read() in ("", "0\n"), "it was told nothing"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to become another user")
def test_it_is_nobody_elses_service(process: ReadyService, environ: dict[str, str]) -> None:
    code = """
    import socket, struct, sys
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.connect("\\0" + sys.argv[1])
    pair = socket.socketpair()
    text = b"1099511627776\\0\\0A=1\\0"
    socket.send_fds(end, [struct.pack("<QII", len(text), 0, 0)], [each.fileno() for each in pair])
    try:
        end.sendall(text)
        answer = end.recv(1)
    except ConnectionError:
        answer = b""
    print(answer)
    """
    command = ["/usr/bin/env", "python3", "-c", textwrap.dedent(code), process.environ()["_SDI_READY"]]
    asked = subprocess.run(command, user=OTHER_UID, cwd="/", capture_output=True, text=True, check=True)
    assert asked.stdout == "b''\n"
    assert said(process, environ)[1]["arguments"][0] == "ready", "it goes on"  # type: ignore[index]
