"""A process that has imported what services import, and whose children become one for each application.

``sdi run`` starts it beside the application (``cli/ready.py``): Python, numpy, pyopencl and sdi take a third
of a second, CUDA's driver a fifth, in which the application starts too.  One child waits at a time, as what
that driver has begun does not survive a fork.  The client starts a service itself where it is refused
(``client/link/service.c``): where one of its own would have other rights, namespaces, a control group or
variables that are read before there is a program.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import importlib
import logging
import os
import resource
import select
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sdi import limits
from sdi.dataclass import dataclass
from sdi.service.early import MODULES, begin_cuda
from sdi.service.handover import HandoverError, check_peer, peer_of
from sdi.wire.layout import layout
from sdi.wire.records import APPLICANT

_log = logging.getLogger(__name__)
_HEAD: Final = layout(APPLICANT)
_TEXT_MAX_NBYTES: Final = 16 << 20
_PATIENCE_S: Final = 10.0
_SAME_STATUS: Final = ("Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
_SAME_TEXTS: Final = ("cgroup", "attr/current")
_SAME_LINKS: Final = ("ns/mnt", "ns/user", "ns/pid", "ns/net", "ns/ipc", "root")
_READ_EARLY: Final = (
    "LD_",
    "MALLOC_",
    "GLIBC_",
    "LC_",
    "LANG",
    "OPENBLAS_",
    "OMP_",
    "NPY_",
    "CUDA_",
    "NVIDIA_",
)
_LIMITS: Final = tuple(number for name, number in vars(resource).items() if name.startswith("RLIMIT_"))
_UNLIMITED: Final = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
"""CUDA's driver takes far more addresses than there is memory, and can't do without."""
_ABOVE: Final = 16
"""Descriptors from here on are in nobody's way while the first five are arranged."""


@dataclass(frozen=True, slots=True)
class Applicant:
    """What an application sent.  ``descriptors``: by the number that its service has them as."""

    pid: int
    arguments: list[str]
    environ: Mapping[str, str]
    descriptors: Mapping[int, int]

    def close(self) -> None:
        """Its service is another process, or none of ours."""
        for descriptor in self.descriptors.values():
            os.close(descriptor)


def wait_for_applications(listener: socket.socket, alive: int) -> list[str]:
    """Returns in a new process for each application that asks at ``listener``, and there alone.

    The arguments that a service is started with; its descriptors and environment are as they would be.
    ``alive``: a descriptor that is closed when neither this process nor one that waits is there any more.
    Raises SystemExit where a process that waited has ended by itself, DeviceFailed in that one.
    """
    signal.signal(signal.SIGRTMIN, signal.SIG_IGN)  # as in ``main``
    faulthandler.register(signal.SIGRTMIN)
    early, before = _early(os.environ), dict(os.environ)
    limits.without_threads_for_algebra()
    for name in MODULES:
        importlib.import_module(name)
    set_by_imports = {name: value for name, value in os.environ.items() if before.get(name) != value}
    gc.collect()
    gc.freeze()
    while (filler := os.open(os.devnull, os.O_RDWR)) < 5:
        pass  # no driver gets a descriptor that a service has for something else
    os.close(filler)
    while True:
        # The one that waits ends with this one, and says when it has become a service.
        (ends, here), (said, says) = os.pipe(), os.pipe()
        if _is_new_process():
            os.close(here)
            os.close(said)
            asked, answer = _next_application(listener, ends, early, begin_cuda)
            listener.close()
            os.write(says, b"y")
            for end in (ends, says, alive):
                os.close(end)
            _take_over(asked, set_by_imports)
            if not _is_awaited(answer):
                os._exit(0)
            return ["3", "4", *asked.arguments]
        os.close(ends)
        os.close(says)
        if not os.read(said, 1):
            raise SystemExit(1)
        os.close(said)
        os.close(here)


def _is_readable(end: socket.socket) -> bool:
    return bool(select.select([end], [], [], 0)[0])


def _is_awaited(answer: int) -> bool:
    """Whether the application has waited so long, and says so when it is answered.  Closes ``answer``."""
    with socket.socket(fileno=answer) as end, suppress(OSError):
        end.settimeout(_PATIENCE_S)
        end.sendall(b"y")
        return end.recv(1) == b"y"
    return False


def _has_addresses(pid: int) -> bool:
    """Whether a process is there, and its addresses are not limited."""
    try:
        return resource.prlimit(pid, resource.RLIMIT_AS) == _UNLIMITED
    except OSError:
        return False


def _next_application(
    listener: socket.socket, ends: int, early: Mapping[str, str], begin: Callable[[], bool]
) -> tuple[Applicant, int]:
    """The next one that this process may serve, and where to answer; ends with who holds ``ends`` open.

    ``begin``: see ``begin_cuda``; called while nobody asks.
    """
    has_cuda = False
    while True:
        if not has_cuda and not _is_readable(listener):
            has_cuda = begin()
        ready, _, _ = select.select([listener.fileno(), ends], [], [])
        if ends in ready:
            os._exit(0)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(_PATIENCE_S)
            try:
                asked = receive(connection)
            except (OSError, HandoverError) as error:
                _log.info("no service for an application: %s", error)
                continue
            has_gone = _is_readable(connection)
            is_able = not has_gone and (not has_cuda or _has_addresses(asked.pid))
            if is_able and _early(asked.environ) == early and is_like(asked.pid):
                return asked, fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, _ABOVE)
            asked.close()


def receive(connection: socket.socket) -> Applicant:
    """What the client sends.  Raises HandoverError, OSError."""
    check_peer(connection)
    head, found, _, _ = socket.recv_fds(connection, _HEAD.size, 4)
    try:
        return _applicant(connection, head, found)
    except (HandoverError, OSError):
        for descriptor in found:
            os.close(descriptor)
        raise


def _applicant(connection: socket.socket, head: bytes, found: Sequence[int]) -> Applicant:
    if len(head) != _HEAD.size:
        raise HandoverError(f"{len(head)} bytes instead of a head")
    nbytes, outputs, _ = _HEAD.unpack(head)
    numbers = [3, 4, *(number for number in (1, 2) if outputs >> number & 1)]
    if len(numbers) != len(found) or nbytes > _TEXT_MAX_NBYTES:
        raise HandoverError(f"{len(found)} descriptors, {nbytes} bytes of text")
    text = bytearray()
    while len(text) < nbytes and (part := connection.recv(nbytes - len(text))):
        text += part
    room, *items = os.fsdecode(bytes(text)).split("\0")
    if len(text) != nbytes or len(items) < 2 or items.pop():
        raise HandoverError(f"{len(text)} of {nbytes} bytes of text, {len(items)} items")
    pairs = [item.partition("=") for item in items[1:]]
    environ = {name: value for name, is_set, value in pairs if name and is_set}
    pid, descriptors = peer_of(connection)[0], dict(zip(numbers, found, strict=True))
    return Applicant(pid, [room, items[0]], environ, descriptors)


def is_like(pid: int) -> bool:
    """Whether what a process starts has the rights of what this one starts, and sees the same."""
    here, there = Path("/proc/self"), Path("/proc", str(pid))
    try:
        if _status(here, _SAME_STATUS) != _status(there, _SAME_STATUS):
            return False
        if any(_text(here / name) != _text(there / name) for name in _SAME_TEXTS):
            return False
        return all(os.path.samestat(os.stat(here / name), os.stat(there / name)) for name in _SAME_LINKS)
    except OSError:
        return False


def _early(environ: Mapping[str, str]) -> dict[str, str]:
    """What libraries, and Python, have read when a program begins, or read when numpy is loaded."""
    found = {name: value for name, value in environ.items() if name.startswith(_READ_EARLY)}
    found.setdefault("OPENBLAS_NUM_THREADS", "1")
    return found


def _status(process: Path, names: tuple[str, ...]) -> list[str]:
    lines = (process / "status").read_text(errors="replace").splitlines()
    return [line for line in lines if line.partition(":")[0] in names]


def _text(path: Path) -> bytes:
    """Empty where the kernel has none."""
    with suppress(OSError):
        return path.read_bytes()
    return b""


def _is_new_process() -> bool:
    """Whether this is another process from here on, which is nobody's child."""
    if (between := os.fork()) != 0:
        os.waitpid(between, 0)
        return False
    if os.fork() != 0:
        os._exit(0)
    return True


def _take_over(asked: Applicant, set_by_imports: Mapping[str, str]) -> None:
    """Have what a service of the application's would have.  Raises OSError, ValueError.

    ``set_by_imports``: variables that are there by what was imported: pyopencl's loader needs one.
    """
    os.setsid()
    for limit in _LIMITS:
        resource.setrlimit(limit, resource.prlimit(asked.pid, limit))
    cores, nice = os.sched_getaffinity(asked.pid), os.getpriority(os.PRIO_PROCESS, asked.pid)
    for thread in map(int, os.listdir("/proc/self/task")):  # CUDA's driver has some
        os.sched_setaffinity(thread, cores)
        if nice != os.getpriority(os.PRIO_PROCESS, thread):
            os.setpriority(os.PRIO_PROCESS, thread, nice)
    (line,) = _status(Path("/proc", str(asked.pid)), ("Umask",))
    os.umask(int(line.partition(":")[2], 8))
    try:
        os.chdir(f"/proc/{asked.pid}/cwd")
    except OSError:  # removed
        os.chdir("/")
    os.environ.clear()
    os.environ.update({**asked.environ, **set_by_imports})
    nothing = os.open(os.devnull, os.O_RDWR)
    given = [asked.descriptors.get(number, nothing) for number in range(5)]
    above = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for descriptor in given]
    for descriptor in {nothing, *given}:
        os.close(descriptor)
    for number, descriptor in enumerate(above):
        os.dup2(descriptor, number)
        os.close(descriptor)
