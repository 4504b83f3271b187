"""``sdi doctor --app``: what an application used of the image, what it lacked, and what to set."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from sdi.cli.counters import SessionCounts, merged, races, replayed, unfinished
from sdi.cli.doctor import Finding
from sdi.cli.loaders import LoaderWatch
from sdi.cli.run import SERVICE_PATIENCE_S, counters_in, run_counted
from sdi.cli.verdict import verdict
from sdi.explain.advice import advice_for
from sdi.locate import image_environ
from sdi.settings import Settings
from sdi.sizes import size

_HOST_POINTERS_NBYTES = 256 << 20
_KERNELS_SHOWN = 8


def examine_application(application: list[str], changes: Mapping[str, str]) -> int:
    """Run it once, as ``sdi run`` does, and print findings; 1 where something failed.

    Raises SettingsError, NotInstalled.
    """
    if not application:
        print("sdi doctor: no application given; try: sdi doctor --app -- ./application", file=sys.stderr)
        return 2
    environ = {**os.environ, **image_environ(os.environ), **changes}
    Settings.from_environ(environ)
    with tempfile.TemporaryDirectory(prefix="sdi-stats-") as folder:
        start = time.monotonic()
        try:
            status, watch, late = run_counted(application, environ, Path(folder))
        except OSError as error:
            print(Finding("FAIL", "app", f"{application[0]}: {error.strerror}", "give the path of a program"))
            return 1
        took_s = time.monotonic() - start
        found = counters_in(Path(folder))
        sys.stdout.flush()
        findings = [_ended(status, took_s), *_loaders(watch)]
        watch.close()
        if late:
            text = f"{late} still busy {SERVICE_PATIENCE_S:.0f} s after the application's end"
            findings.append(Finding("FAIL", "service", text, "try SDI_LOG=debug"))
        if found:
            findings += _findings(merged(found))
    for finding in findings:
        print(finding)
    return 1 if any(finding.state == "FAIL" for finding in findings) else 0


def _ended(status: int, took_s: float) -> Finding:
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return Finding("ok", "app", f"ended well after {took_s:.1f} s")
    how = f"by signal {-code}" if code < 0 else f"with status {code}"
    return Finding("FAIL", "app", f"ended {how} after {took_s:.1f} s", "does it end well without sdi?")


def _loaders(watch: LoaderWatch) -> Iterator[Finding]:
    """How it came to the image, or why it did not."""
    if said := watch.verdict():
        for line in said.splitlines():
            text, _, fix = line.removeprefix("sdi: ").rpartition("; ")
            yield Finding("FAIL", "loader", text or fix, fix if text else "start it with an OpenCL loader")
        return
    for text in watch.used() or ["the application found the image"]:
        yield Finding("ok", "loader", text)


def _findings(counters: SessionCounts) -> Iterator[Finding]:
    """What its sessions counted."""
    for failure in counters.failures:
        yield Finding("FAIL", "lacked", failure, "does it succeed without sdi?  Else try SDI_LOG=info")
    if counters.members_lost:
        text = f"{counters.members_lost} lost, with {size(counters.lost_nbytes)} that were nowhere else"
        yield Finding("FAIL", "members", text, "leave it out with SDI_DEVICES; see sdi doctor")
    if said := unfinished(counters):
        fix = "does it succeed without sdi?  If not, a kernel may store outside of its buffers"
        yield Finding("FAIL", "service", said, fix)
        if not counters.courses:
            return
    kernels = counters.kernels
    split = sum(kernel.launches_split for kernel in kernels.values())
    total = split + sum(kernel.launches_whole for kernel in kernels.values())
    text = f"{len(kernels)} launched {total} times, {split} of these split over {counters.members} members"
    yield Finding("ok" if kernels else "note", "kernels", text if kernels else "none was launched")
    stuck = {
        name: kernel
        for name, kernel in kernels.items()
        if kernel.launches_whole and advice_for(kernel.why_whole)
    }
    most = sorted(stuck, key=lambda name: -stuck[name].launches_whole)
    for name in most[:_KERNELS_SHOWN]:
        why = stuck[name].why_whole
        text = f"{name} ran whole {stuck[name].launches_whole} times: {why}"
        yield Finding("note", "kernels", text, advice_for(why))
    if len(most) > _KERNELS_SHOWN:
        yield Finding("note", "kernels", f"and {len(most) - _KERNELS_SHOWN} more like these")
    for text in races(counters):
        yield Finding("note", "races", text, "have each place written by one work-group, or SDI_SPLIT=never")
    if counters.host_compared_nbytes > _HOST_POINTERS_NBYTES:
        text = f"{size(counters.host_compared_nbytes)} of memory behind host pointers were compared"
        fix = "have it copy its data (CL_MEM_COPY_HOST_PTR) or map buffers, if it has an option for that"
        yield Finding("note", "memory", text, fix)
    if counters.records:
        text = f"replayed {replayed(counters.records)}"
        yield Finding("ok", "commands", text)
    if said := verdict(counters.courses):
        is_slower = said.startswith("slower")
        yield Finding("note" if is_slower else "ok", "verdict", said, "sdi run --split never" * is_slower)
