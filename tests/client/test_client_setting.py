"""Where programs that test the C client run: a compiled client, a loader's vendor folder, a fake service."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sdi.wire.generate import compile_client

ROOT = Path(__file__).resolve().parents[2]
FAKE = "tests.client.test_client_service"
PATIENCE_S = 120


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Lives as long as this process."""
    return tempfile.TemporaryDirectory(prefix="sdi-client-")


@functools.cache
def library(sanitize: bool) -> Path:
    """The client, compiled once per run of tests."""
    if not shutil.which(os.environ.get("CC") or "cc"):
        pytest.skip("no C compiler")
    return compile_client(Path(_scratch().name) / ("sanitized" if sanitize else "plain"), sanitize)


@functools.cache
def sanitizer_runtimes() -> str:
    """What a program must preload to load the sanitized client; skips where the compiler has none."""
    library(True)
    found = []
    for name in ("libasan.so", "libubsan.so"):
        command = [os.environ.get("CC") or "cc", f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if "/" not in path:
            pytest.skip(f"the compiler has no {name}")
        found.append(path)
    return " ".join(found)


@functools.cache
def fake_python() -> Path:
    """Stands in for Python as the library starts it; the command line still says what it would be."""
    script = Path(_scratch().name) / "python3"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S -m {FAKE} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


@functools.cache
def vendors(sanitize: bool) -> Path:
    """A folder for OCL_ICD_VENDORS that names only the client."""
    folder = library(sanitize).parent / "vendors"
    folder.mkdir(exist_ok=True)
    (folder / "sdi.icd").write_text(f"{library(sanitize)}\n", encoding="utf-8")
    return folder


def environment(folder: Path, sanitize: bool = False) -> dict[str, str]:
    """For a program that shall see only the client and the fake service; ``folder`` gets the records."""
    (folder / "records").touch()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SDI_", "OCL_ICD_"))}
    env |= {
        "OCL_ICD_VENDORS": str(vendors(sanitize)),
        "SDI_PYTHON": str(fake_python()),
        "SDI_FAKE_LOG": str(folder / "records"),
        "PYTHONPATH": str(ROOT),
    }
    if sanitize:
        env |= {
            "LD_PRELOAD": sanitizer_runtimes(),
            # Python does not free everything at its end; address space for shadow memory is not limited
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:detect_stack_use_after_return=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
    return env


def run(
    command: list[str], env: dict[str, str], status: int = 0, errors: str | None = ""
) -> subprocess.CompletedProcess[str]:
    """Run to the end; the exit status and stderr (None: anything) must be as expected."""
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT
    )
    report = f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == status, report
    assert errors is None or done.stderr == errors, report
    return done


def run_program(module: str, name: str, env: dict[str, str], errors: str | None = "") -> None:
    """Run a program of ``tests.client.<module>`` in a process of its own."""
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.client.test_client_binding",
        f"tests.client.{module}",
        name,
    ]
    run(command, env, errors=errors)
