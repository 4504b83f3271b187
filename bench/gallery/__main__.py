"""Runs applications on the plain driver and on images, compares their results, and writes a page of it.

``python -m bench.gallery [--ways 1:auto,2:auto,4:auto,3:always] [--only NAME]... [--out FILE]``

Applications come from their packages: Python's into an environment of their own (``--venv``), Debian's with
apt-get where this may install.  Each program prints results and a time, of work after its first calls
(``kit.py``).  Its runs are in turn; each way is a number of members and ``SDI_SPLIT``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.gallery.list import APPLICATIONS, NOT_RUN, Application
from sdi.cli.counters import CountersError, SessionCounts

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT_S = 600.0
ABOUT = """\
Made by `make applications` (`bench/gallery`): applications from their packages, unmodified, on the plain
driver and on images of its devices. *Right*: the same bytes as the plain driver, or the same digest of the
application's own output. *Split*: the share of launches that ran on several members where all may that can.
The columns with members and `SDI_SPLIT`: the plain driver's time over the image's, of work after the first
calls, from one run each; above 1 the image is faster. CPU members share the cores that the plain driver has:
with them nothing can become faster by more members."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: results by name, the seconds that it says, what went wrong, and its counters."""

    results: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    failure: str = ""
    counts: SessionCounts | None = None

    @property
    def share_split(self) -> str:
        """How many of its launches were split."""
        if self.counts is None:
            return "-"
        kernels = self.counts.kernels.values()
        split = sum(each.launches_split for each in kernels)
        total = split + sum(each.launches_whole for each in kernels)
        return f"{split / total:.0%}" if total else "-"


def install(applications: list[Application], venv: Path) -> None:
    """Bring what is missing; what can't be installed shows when it is run."""
    if not (venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    environ = {**os.environ, "VKFFT_BACKEND": "opencl"}
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "numpy", "pyopencl", "wheel", "setuptools<80", "cython"], check=True)
    for each in applications:
        if each.python:
            own = ["--no-build-isolation"] * each.builds
            subprocess.run([*pip, *own, *each.python], check=False, env=environ)
        if each.debian and os.getuid() == 0:
            command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *each.debian]
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def version(of: Application, venv: Path) -> str:
    """The version that is installed; "" where none is."""
    if of.debian:
        said = _said(["dpkg-query", "-W", "-f", "${Version}", of.debian[0]])
        return said.partition("-")[0].rpartition(":")[2]
    code = f"from importlib.metadata import version; print(version({of.python[-1].partition('<')[0]!r}))"
    return _said([str(venv / "bin/python"), "-c", code])


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def run(of: Application, venv: Path, way: str) -> Ran:
    """Run an application; ``way``: "plain", or members and SDI_SPLIT."""
    program = [str(venv / "bin/python"), str(HERE / of.program)]
    environ = {**os.environ, "PYOPENCL_CTX": "0", "PYOPENCL_NO_CACHE": "1", "SDI_DEVICE_NAME": "members"}
    environ["GALLERY_DEVICE"] = _device()
    with tempfile.TemporaryDirectory() as folder:
        counters = Path(folder, "counters.json")
        if way == "plain":
            for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"):
                environ.pop(name, None)
        else:
            members, split = way.split(":")
            environ["SDI_STATS"] = str(counters)
            image = [sys.executable, "-m", "sdi.cli", "run", "-n", members, "--split", split, "--stats", "--"]
            program = [*image, *program]
        try:
            done = subprocess.run(
                program, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT
            )
        except subprocess.TimeoutExpired:
            return Ran(failure=f"not done after {LIMIT_S:.0f} s")
        counts = None
        with contextlib.suppress(OSError, CountersError):
            counts = SessionCounts.from_json(counters.read_text())
    lines = [line.split() for line in done.stdout.splitlines()]
    results = {" ".join(words[1:-1]): words[-1] for words in lines if words[:1] == ["result"]}
    seconds = next((float(words[1]) for words in lines if words[:1] == ["seconds"]), None)
    failure = ""
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("sdi")]
        failure = f"status {done.returncode}: {said[-1].strip()[:120] if said else ''}"
    return Ran(results, seconds, failure, counts)


def _device() -> str:
    code = "import pyopencl as cl; print(next(d.name for p in cl.get_platforms() for d in p.get_devices()))"
    return _said([sys.executable, "-c", code])


def row(of: Application, installed: str, ran: dict[str, Ran]) -> str:
    """One line of the page's table."""
    plain, ways = ran["plain"], [way for way in ran if way != "plain"]
    expected = plain.results or ran[ways[0]].results
    wrong = []
    for way in ways:
        if ran[way].failure:
            wrong.append(f"{way}: {ran[way].failure}")
        elif expected:
            differ = [name for name, found in expected.items() if ran[way].results.get(name) != found]
            wrong += [f"{way}: {', '.join(differ)} differ"] if differ else []
    right = "; ".join(wrong) or (f"yes, {len(plain.results)} results" if plain.results else "runs")
    if plain.failure:
        right = f"plain driver: {plain.failure}" + (
            "" if wrong else "; image: runs, the same with all members"
        )
    times = []
    for way in ways:
        taken = ran[way].seconds
        times.append(f"{plain.seconds / taken:.2f}" if plain.seconds and taken else "-")
    always = [way for way in ways if way.endswith("always")]
    split = ran[always[-1]].share_split if always else "-"
    cells = [f"{of.title} {installed}", of.what, right, split, *times, of.note]
    return "| " + " | ".join(cells) + " |"


def page(rows: list[str], ways: list[str], missing: list[str]) -> str:
    """All of it, in Markdown."""
    cores = len(os.sched_getaffinity(0))
    commit = _said(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    titles = ["application", "what is run", "right", "split under always", *ways, "what to know"]
    lines = [
        "# Applications",
        "",
        *ABOUT.splitlines(),
        "",
        f"Members: {_device()}, {cores} cores, {platform.system()}; commit {commit}.",
        "",
        "| " + " | ".join(titles) + " |",
        "|" + "---|" * len(titles),
        *rows,
        "",
    ]
    return "\n".join([*lines, *missing, ""])


def main() -> int:
    """Run all that is asked for; 1 where results differ from the plain driver's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ways", default="1:auto,2:auto,4:auto,3:always")
    parser.add_argument("--only", action="append", default=[], help="applications whose title has this text")
    parser.add_argument("--venv", type=Path, default=ROOT / "build/gallery/venv")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/applications.md")
    parser.add_argument("--installed", action="store_true", help="install nothing")
    options = parser.parse_args()
    chosen = [a for a in APPLICATIONS if not options.only or any(o in a.title for o in options.only)]
    if not options.installed:
        install(chosen, options.venv)
    ways = options.ways.split(",")
    rows, missing = [], [f"* {title}: {why}" for title, why in NOT_RUN.items()]
    for each in chosen:
        installed = version(each, options.venv)
        if not installed:
            missing.append(f"* {each.title}: its package can't be installed here.")
            continue
        ran = {way: run(each, options.venv, way) for way in ("plain", *ways)}
        rows.append(row(each, installed, ran))
        print(rows[-1], flush=True)
        seconds = {way: one.seconds for way, one in ran.items()}
        print(json.dumps(seconds), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(rows, ways, missing))
    return int(any("differ" in each for each in rows))


if __name__ == "__main__":
    sys.exit(main())
