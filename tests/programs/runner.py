"""Runs all programs on the first device of a platform and stores what they computed.

``python -m tests.programs.runner --out FILE.npz [--only NAME ...]`` writes the arrays, under
"program/array", and beside them ``FILE.json`` with each program's error, seconds and kernels.
``OCL_TEST_PLATFORM`` names the platform.
"""

import argparse
import importlib
import json
import os
import pkgutil
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import TypedDict

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs


class ProgramReport(TypedDict):
    """What happened to one program."""

    error: str | None
    seconds: float
    kernels: dict[str, str]


def program_names() -> list[str]:
    """All programs, sorted by name."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(m.name for m in found if not m.name.startswith("_") and m.name != "runner")


def choose_device() -> cl.Device:
    """The first device of the platform that ``OCL_TEST_PLATFORM`` names, or of the first platform."""
    wanted = os.environ.get("OCL_TEST_PLATFORM", "")
    platforms = cl.get_platforms()
    for platform in platforms:
        if wanted in platform.name:
            return platform.get_devices()[0]
    raise SystemExit(f"no platform is called {wanted!r}, only {[p.name for p in platforms]}")


def run_program(module: ModuleType, device: cl.Device) -> Outputs:
    """What one program computes in a context and queue of its own."""
    ctx = cl.Context([device])
    queue = cl.CommandQueue(ctx)
    outputs: Outputs = module.run(ctx, queue)
    queue.finish()
    return outputs


def main() -> int:
    """Run the programs; 0 when none failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=program_names(), metavar="NAME")
    options = parser.parse_args()

    device = choose_device()
    arrays: Outputs = {}
    reports: dict[str, ProgramReport] = {}
    for name in options.only:
        start = time.perf_counter()
        error = None
        declared: dict[str, str] = {}
        try:
            module = importlib.import_module(f"tests.programs.{name}")
            declared = dict(module.KERNELS)
            for key, array in run_program(module, device).items():
                arrays[f"{name}/{key}"] = np.ascontiguousarray(array)
        except Exception:
            error = traceback.format_exc()
        seconds = time.perf_counter() - start
        reports[name] = ProgramReport(error=error, seconds=seconds, kernels=declared)
        print(f"{name:<28}{seconds:8.3f} s  {'ok' if error is None else 'FAILED'}", flush=True)
        if error is not None:
            print(error, file=sys.stderr, flush=True)

    np.savez(options.out, **arrays)
    options.out.with_suffix(".json").write_text(json.dumps(reports, indent=1))
    failed = [name for name, report in reports.items() if report["error"] is not None]
    total = sum(report["seconds"] for report in reports.values())
    print(
        f"{len(reports)} programs on {device.name}: {total:.1f} s, {len(failed)} failed: {' '.join(failed) or '-'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
