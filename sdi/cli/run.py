"""``sdi run``: an application on the image, and what its counters say."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from sdi import whole_file
from sdi.cli.counters import CountersError, SessionCounts, explanation, merged, report
from sdi.cluster import start
from sdi.locate import image_environ
from sdi.settings import Settings, SettingsError

Prepare = Callable[[], None]

SERVICE_PATIENCE_S = 20.0
"""How long services may take to write their counters once the application has ended."""

_FORWARDED = frozenset(
    {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
)
_IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_SI_KERNEL = 0x80
_LOOK_S = 1.0
"""How long the end of an application may stay unseen if another thread was given the signal."""
PR_SET_CHILD_SUBREAPER = 36


def _nothing() -> None:
    """Prepares nothing."""


def run(application: list[str], changes: Mapping[str, str], stats: bool, explain: bool = False) -> int:
    """Run ``application``; its exit status.  Without ``stats`` or ``explain`` it replaces this process."""
    if not application:
        print("sdi run: no application given; try: sdi run -n 4 -- ./application", file=sys.stderr)
        return 2
    environ = {**os.environ, **image_environ(os.environ), **changes}
    Settings.from_environ(environ)
    place = start.place(os.environ)
    try:
        if explain:
            environ["SDI_EXPLAIN"] = "1"
        if place is not None or environ.get("SDI_TEST_NODES"):
            from sdi.cli import job

            if place is not None and place.rank:
                return job.node(place)
            runs = _run_with_stats if stats or explain else _run_and_leave
            return leave_like(job.run_root(place, environ, partial(runs, application, stats, explain)))
        if stats or explain:
            return leave_like(_run_with_stats(application, stats, explain, environ))
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(application[0], application, environ)
    except FileNotFoundError:
        print(f"sdi run: {application[0]}: no such program", file=sys.stderr)
        return 127
    except OSError as error:
        print(f"sdi run: {application[0]}: {error.strerror}", file=sys.stderr)
        return 126


def _statistics_folder(wanted: str) -> tempfile.TemporaryDirectory[str]:
    """For the services' counters, which are copied to ``wanted`` in the end.  Raises SettingsError."""
    try:
        if wanted:
            whole_file.check(Path(wanted))
        return tempfile.TemporaryDirectory(prefix="sdi-stats-")
    except OSError as error:
        name = f"SDI_STATS={wanted!r}: " if error.filename else ""
        raise SettingsError(f"{name}{error.strerror}") from error


def _run_and_leave(
    application: list[str], _stats: bool, _explain: bool, environ: dict[str, str], prepare: Prepare
) -> int:
    return run_and_wait(application, environ, prepare)


def _run_with_stats(
    application: list[str], stats: bool, explain: bool, environ: dict[str, str], prepare: Prepare = _nothing
) -> int:
    """The application's wait status."""
    wanted = environ.get("SDI_STATS", "")
    with _statistics_folder(wanted) as folder:
        # One file per service: the application may fork, or start others that use OpenCL.
        environ["SDI_STATS"] = str(Path(folder, "%p.json"))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        status = run_and_wait(application, environ, prepare)
        late = wait_for_services()
        sys.stdout.flush()
        _print_counters(Path(folder), late, wanted, stats, explain)
    return status


def run_and_wait(application: list[str], environ: dict[str, str], prepare: Prepare = _nothing) -> int:
    """Wait status of the application; signals sent to this process reach it.

    ``prepare`` may start threads: it is called when they would get none of these signals.  Nothing else of
    ours starts a thread before: that one would be given SIGCHLD, which it drops (the end of an
    application that ends at once was waited for forever), or SIGTERM, which ends it.  Other packages of this
    Python may have started one at its start, so the application is looked at now and then too.
    """
    watched = {*_FORWARDED, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or the kernel would drop the status
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        prepare()
        child = os.posix_spawnp(
            application[0], application, environ, setsigmask=before, setsigdef=_IGNORED_BY_PYTHON
        )
        while True:
            got = signal.sigtimedwait(watched, _LOOK_S)
            if got is None or got.si_signo == signal.SIGCHLD:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid == child:
                    return status
            elif got.si_code != _SI_KERNEL:  # a terminal has sent it to the application already
                os.kill(child, got.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wait_for_services() -> int:
    """Wait until the services that the application left behind have ended; how many had not in time.

    They are children of this process now: it is their subreaper.
    """
    deadline = time.monotonic() + SERVICE_PATIENCE_S
    late = 0
    for pid in _children():
        if not _is_service(pid):
            continue
        descriptor = os.pidfd_open(pid)
        try:
            ended, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        finally:
            os.close(descriptor)
        late += not ended
    return late


def _children() -> list[int]:
    return [int(pid) for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split()]


def _is_service(pid: int) -> bool:
    try:
        return b"sdi.service.main" in Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _print_counters(folder: Path, late: int, keep: str, stats: bool, explain: bool) -> None:
    """Print what was asked for; store the services' files as ``keep`` too, unless it is empty."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(SessionCounts.from_json(path.read_text()))
        except CountersError as error:
            print(f"sdi: {path.name}: {error}", file=sys.stderr)
        if keep:
            try:
                whole_file.replace(Path(keep.replace("%p", path.stem)), path.read_text())
            except OSError as error:
                print(f"sdi: SDI_STATS={keep!r}: {error.strerror}", file=sys.stderr)
    if late:
        print(f"sdi: {late} service(s) still busy after {SERVICE_PATIENCE_S:.0f} s", file=sys.stderr)
    if found:
        counters = merged(found)
        if explain:
            print(explanation(counters), file=sys.stderr)
        if stats:
            print(report(counters), file=sys.stderr)
    elif not late:
        print("sdi: the application did not use the image", file=sys.stderr)


def leave_like(status: int) -> int:
    """The application's exit status; when a signal ended it, the same signal ends this process."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
