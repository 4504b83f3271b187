"""``sdi run``: an application on the image, and what its counters say."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from sdi import whole_file
from sdi.cli.counters import CountersError, SessionCounts, explanation, merged, report
from sdi.cli.loaders import LoaderWatch, drivers_named_in
from sdi.cli.ready import ReadyService, end_with_parent
from sdi.cli.signals import next_signal
from sdi.cluster import start
from sdi.locate import image_environ, library, member_vendors
from sdi.settings import Settings, SettingsError

Prepare = Callable[[], None]

SERVICE_PATIENCE_S = 20.0
"""How long services may take to write their counters once the application has ended."""

_FORWARDED = frozenset(
    {signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
)
_SI_KERNEL = 0x80
_LOOK_S = 1.0
"""How long the end of an application may stay unseen if another thread was given the signal."""
PR_SET_CHILD_SUBREAPER = 36


_IDLE = "sdi: the application asked for the image's device, and left before it was ready"


def _is_inheritable(number: int) -> bool:
    """Whether programs that are started get an open descriptor of that number."""
    with contextlib.suppress(OSError):  # it is not open
        return os.get_inheritable(number)
    return False


_GIVEN = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_inheritable(number)]
"""Descriptors that this process was started with.  What MPI opens later is no application's."""


def _handed_on() -> list[int]:
    """Those of them that the application gets: of a rank, its launcher's sockets are not among them."""
    is_rank = start.place(os.environ) is not None
    found = [number for number in _GIVEN if _is_inheritable(number)]
    return [n for n in found if not (is_rank and n > 2 and stat.S_ISSOCK(os.fstat(n).st_mode))]


def _nothing() -> None:
    """Prepares nothing."""


def run(application: list[str], changes: Mapping[str, str], stats: bool, explain: bool = False) -> int:
    """Run ``application``; its exit status."""
    if not application:
        print("sdi run: no application given; try: sdi run -n 4 -- ./application", file=sys.stderr)
        return 2
    environ = {**os.environ, **image_environ(os.environ), **changes}
    Settings.from_environ(environ)
    place = start.place(os.environ)
    try:
        if explain:
            environ["SDI_EXPLAIN"] = "1"
        runs = _run_with_stats if stats or explain else _run_and_leave
        if place is not None or environ.get("SDI_TEST_NODES"):
            from sdi import limits

            limits.without_threads_for_algebra()  # the application has its environment already
            from sdi.cli import job

            if place is not None and place.rank:
                return job.node(place)
            return leave_like(job.run_root(place, environ, partial(runs, application, stats, explain)))
        return leave_like(runs(application, stats, explain, environ))
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
    application: list[str], _stats: bool, _explain: bool, environ: dict[str, str], prepare: Prepare = _nothing
) -> int:
    """The application's wait status, after a word on stderr if it did not use the image."""
    status, watch = _run_watched(application, environ, prepare)
    if watch.verdict():
        print(watch.verdict(), file=sys.stderr)
    watch.close()
    return status


def _run_with_stats(
    application: list[str], stats: bool, explain: bool, environ: dict[str, str], prepare: Prepare = _nothing
) -> int:
    """The application's wait status, after its counters, or the same word, on stderr."""
    wanted = environ.get("SDI_STATS", "")
    with _statistics_folder(wanted) as folder:
        status, watch, late = run_counted(application, environ, Path(folder), prepare)
        sys.stdout.flush()
        _print_counters(Path(folder), late, wanted, stats, explain, watch.verdict())
        watch.close()
    return status


def run_counted(
    application: list[str], environ: Mapping[str, str], folder: Path, prepare: Prepare = _nothing
) -> tuple[int, LoaderWatch, int]:
    """Run with the counters of all services in files of ``folder``, see ``counters_in``.

    The application's wait status, what was seen of its loaders, and how many services had not ended in time.
    """
    # One file per service: the application may fork, or start others that use OpenCL.
    counted = {**environ, "SDI_STATS": str(folder / "%p.json")}
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    status, watch = _run_watched(application, counted, prepare)
    return status, watch, wait_for_services()


def counters_in(folder: Path) -> list[SessionCounts]:
    """What services wrote there, and what ended others; of what is damaged stderr tells."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            counters = SessionCounts.from_json(path.read_text())
            if counters.unfinished:
                counters = replace(counters, unfinished=(_signal_of(path.stem),))
            found.append(counters)
        except CountersError as error:
            print(f"sdi: {path.name}: {error}", file=sys.stderr)
    return found


def _signal_of(pid: str) -> str:
    """The signal that ended a service, as far as this process can know; "": none did."""
    with contextlib.suppress(ChildProcessError, ValueError):  # somebody else's; without a name
        ended = os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None and ended.si_code in {os.CLD_KILLED, os.CLD_DUMPED}:
            return signal.Signals(ended.si_status).name
    return ""


def _run_watched(
    application: list[str], environ: Mapping[str, str], prepare: Prepare
) -> tuple[int, LoaderWatch]:
    """The application's wait status, and what was seen of it, to be closed."""
    watch = LoaderWatch(library(), drivers_named_in(member_vendors(environ)))
    ready = ReadyService(environ)
    try:
        given = {**environ, **watch.environ(), **ready.environ()}
        return run_and_wait(application, given, prepare, watch.look), watch
    except BaseException:
        watch.close()
        raise
    finally:
        ready.close()


def run_and_wait(
    application: list[str],
    environ: Mapping[str, str],
    prepare: Prepare = _nothing,
    look: Callable[[int], float] | None = None,
) -> int:
    """Wait status of the application; signals sent to this process reach it, and it dies with this process.

    ``look``: called with the application's process id now and then; seconds until it wants to be again.

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
        child = _start(application, environ, before)
        while True:
            pause_s = _LOOK_S if look is None else min(look(child), _LOOK_S)
            got = next_signal(watched, pause_s)
            if got is None or got.number == signal.SIGCHLD:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid == child:
                    return status
            elif got.code != _SI_KERNEL:  # a terminal has sent it to the application already
                os.kill(child, got.number)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(application: list[str], environ: Mapping[str, str], mask: Set[int]) -> int:
    """The process id of the application, with the signals of ``mask`` blocked.  Raises OSError."""

    def ready() -> None:
        end_with_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    # Whoever ends this process with a signal that can't be handed on means the application.
    process = subprocess.Popen(application, env=environ, pass_fds=_handed_on(), preexec_fn=ready)  # noqa: PLW1509
    process.returncode = 0  # who called waits for it
    return process.pid


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


def _print_counters(folder: Path, late: int, keep: str, stats: bool, explain: bool, verdict: str) -> None:
    """Print what was asked for, or ``verdict``; store the services' files as ``keep`` too, unless empty."""
    found = counters_in(folder)
    if keep:
        for path in sorted(folder.glob("*.json")):
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
        print(verdict or _IDLE, file=sys.stderr)


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
