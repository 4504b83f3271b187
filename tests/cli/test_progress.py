"""What takes longer than a second says so on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.image_runs import ROOT, plain_environ

CLEAR = "\r\033[K"


def on_a_terminal(command: list[str], **settings: str) -> tuple[str, str]:
    """What a command writes: to its stdout, a pipe, and to its stderr, a terminal."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=plain_environ() | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # a terminal that nobody has open any more
                break
            if not part:
                break
            shown += part
        assert process.stdout is not None
        written = process.stdout.read()
        process.stdout.close()
        assert process.wait(60) == 0, shown
    finally:
        os.close(ours)
    return written.decode(), shown.decode()


def test_doctor_shows_what_it_does_and_leaves_no_trace_of_it() -> None:
    written, shown = on_a_terminal(["-m", "sdi.cli", "doctor"])
    assert "everything works" in written and "\033" not in written
    assert "sdi doctor: looking ..." in shown and shown.endswith(CLEAR)
    assert shown.replace("sdi doctor: looking ...", "").replace(CLEAR, "") == ""


BUILD = """
import pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices())
cl.Program(context, "__kernel void twice(__global float *a) { a[get_global_id(0)] *= 2; }").build()
print("built")
"""
AT_ONCE = """#!/bin/sh
shift 3
exec {python} -I -c 'import sys
from sdi.service import main, progress
progress.PATIENCE_S = 0.0
sys.exit(main.main(sys.argv[1:]))' "$@"
"""


def test_a_build_under_sdi_run_shows_that_it_takes_long(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    at_once = tmp_path / "python"
    at_once.write_text(AT_ONCE.format(python=sys.executable))
    at_once.chmod(0o700)
    command = ["-m", "sdi.cli", "run", "-n", "2", "--", sys.executable, "-c", BUILD]
    written, shown = on_a_terminal(command, SDI_PYTHON=str(at_once), XDG_CACHE_HOME=str(tmp_path))
    assert written == "built\n"
    assert f"{CLEAR}sdi: building a program for 2 members: 0 s ...{CLEAR}" in shown and shown.endswith(CLEAR)


def test_figures_show_which_run_it_is(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    command = ["-m", "bench", "figures", "--size", "smoke", "-n", "1", "--apps", "nbody", "--rounds", "1"]
    written, shown = on_a_terminal([*command, "--repeat", "1", "--no-links", "--out", str(tmp_path)])
    assert "nbody: round 1 of 1, plain" in shown and "nbody: access analysis" in shown
    assert "\033" not in written and "# The evaluation" in written


def test_piped_output_is_clean() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sdi.cli", "doctor"],
        cwd=ROOT,
        env=plain_environ(),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stderr == "" and "\033" not in done.stdout
