"""Runs all programs on a device of a platform and stores what they computed.

``python -m tests.programs.runner --out FILE.npz [--only NAME ...]`` writes the arrays, under
"program/array", and beside them ``FILE.json`` with each program's error, seconds and kernels.  Both are
complete after each program, so that one that ends the process or hangs spoils nothing but itself.
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
import zipfile
from pathlib import Path
from types import ModuleType
from typing import TypedDict

import numpy as np
import pyopencl as cl

from tests.image_runs import end_after
from tests.programs._kit import Outputs


class ProgramReport(TypedDict):
    """What happened to one program; ``error`` is "unfinished" while it runs.

    ``lacks``: the device has not what the program needs, so it was not run.
    """

    error: str | None
    lacks: bool
    seconds: float
    kernels: dict[str, str]


def program_names() -> list[str]:
    """All programs, sorted by name."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(m.name for m in found if not m.name.startswith("_") and m.name != "runner")


def choose_device() -> cl.Device:
    """The first device of the platform that ``OCL_TEST_PLATFORM`` names, or of the first platform.

    ``OCL_TEST_DEVICE``: the number of another one.
    """
    number = int(os.environ.get("OCL_TEST_DEVICE", "0"))
    wanted = os.environ.get("OCL_TEST_PLATFORM", "")
    platforms = cl.get_platforms()
    for platform in platforms:
        if wanted in platform.name:
            return platform.get_devices()[number]
    raise SystemExit(f"no platform is called {wanted!r}, only {[p.name for p in platforms]}")


def run_program(module: ModuleType, device: cl.Device) -> Outputs:
    """What one program computes in a context and queue of its own."""
    ctx = cl.Context([device])
    queue = cl.CommandQueue(ctx)
    outputs: Outputs = module.run(ctx, queue)
    queue.finish()
    return outputs


def append(path: Path, program: str, outputs: Outputs) -> None:
    """Add one program's arrays to an .npz file."""
    with zipfile.ZipFile(path, "a") as archive:
        for key, array in outputs.items():
            with archive.open(f"{program}/{key}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)


def main() -> int:
    """Run the programs; 0 when none failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=program_names(), metavar="NAME")
    parser.add_argument("--limit", type=float, default=100.0, help="seconds that one program may take")
    options = parser.parse_args()

    device = choose_device()
    reports: dict[str, ProgramReport] = {}
    options.out.unlink(missing_ok=True)
    append(options.out, "", {})
    for name in options.only:
        over = end_after(options.limit)
        reports[name] = ProgramReport(error="unfinished", lacks=False, seconds=0.0, kernels={})
        options.out.with_suffix(".json").write_text(json.dumps(reports, indent=1))
        start = time.perf_counter()
        error = None
        try:
            module = importlib.import_module(f"tests.programs.{name}")
            reports[name]["kernels"] = dict(module.KERNELS)
            reports[name]["lacks"] = lacks = not getattr(module, "NEEDS", bool)(device)
            if not lacks:
                append(options.out, name, run_program(module, device))
        except Exception:
            error = traceback.format_exc()
            print(error, file=sys.stderr, flush=True)
        over()
        reports[name]["error"] = error
        reports[name]["seconds"] = seconds = time.perf_counter() - start
        said = "FAILED" if error is not None else "not run" if reports[name]["lacks"] else "ok"
        print(f"{name:<28}{seconds:8.3f} s  {said}", flush=True)
    options.out.with_suffix(".json").write_text(json.dumps(reports, indent=1))

    failed = [name for name, report in reports.items() if report["error"] is not None]
    total = sum(report["seconds"] for report in reports.values())
    summary = f"{len(reports)} programs on {device.name}: {total:.1f} s"
    print(f"{summary}, failed: {' '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
