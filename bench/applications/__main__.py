"""``python -m bench.applications [NAME ...] --size smoke``: run applications on the first OpenCL device.

Each is built once, run ``--repeat`` times with the same inputs, and checked after the last run.
``OCL_TEST_PLATFORM`` chooses a platform by a part of its name.  ``--report FILE`` writes times and launches
as JSON, ``--out FILE`` what was computed, as arrays "application/array".  ``--inputs FOLDER`` keeps inputs
there for other runs, ``--prepare`` does nothing else; ``--results FOLDER`` keeps results, ``--check-results``
does nothing but check these.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from bench.applications import NAMES, kept
from bench.applications.program import Arrays, Session, Trace, load


def main() -> int:
    """Run what is asked for; 1 when an application fails or computes something wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.applications", description=(__doc__ or ""))
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--size", default="smoke", choices=["smoke", "cpu", "paper", "gpu"])
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; all are reported")
    parser.add_argument("--no-check", action="store_true", help="do not compare with the host's computation")
    parser.add_argument("--seconds", type=float, default=1e9, help="no further run after so long")
    parser.add_argument("--report", type=Path, metavar="FILE.json")
    parser.add_argument("--inputs", type=Path, metavar="FOLDER")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--results", type=Path, metavar="FOLDER")
    parser.add_argument("--check-results", action="store_true")
    parser.add_argument("--out", type=Path, metavar="FILE.npz")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")

    if options.prepare or options.check_results:
        for name in options.names:
            application = load(name)
            inputs = kept.inputs(application, name, options.size, options.inputs)
            if options.check_results:
                results = kept.read(options.results / f"{name}-{options.size}")
                application.check(application.SIZES[options.size], inputs, results)
        return 0

    device = choose_device()
    print(f"{device.name.strip()}, {device.platform.name.strip()}, size {options.size}", flush=True)
    reports: dict[str, object] = {}
    computed: Arrays = {}
    failed = []
    for name in options.names:
        try:
            report, outputs = run(device, name, options)
        except Exception as error:
            traceback.print_exc()
            report, outputs = {"error": f"{type(error).__name__}: {error}"}, {}
            failed.append(name)
        reports[name] = report
        computed |= {f"{name}/{array}": values for array, values in outputs.items()}
        if options.results and outputs:
            kept.store(outputs, options.results / f"{name}-{options.size}")
    if options.report:
        options.report.write_text(json.dumps({"device": device.name, "applications": reports}))
    if options.out:
        np.savez(options.out, **computed)
    if failed:
        print(f"failed: {' '.join(failed)}", flush=True)
    return 1 if failed else 0


def choose_device() -> cl.Device:
    """The first device of the platform that ``OCL_TEST_PLATFORM`` names, or of the first platform."""
    wanted = os.environ.get("OCL_TEST_PLATFORM", "")
    platforms = [platform for platform in cl.get_platforms() if wanted in platform.name]
    if not platforms:
        raise SystemExit(f"no platform is called {wanted!r}")
    return platforms[0].get_devices()[0]


def run(device: cl.Device, name: str, options: argparse.Namespace) -> tuple[dict[str, object], Arrays]:
    """Build and run one application, twice at least if ``repeat`` says more than once; what to report, and
    the last run's results.
    """
    application = load(name)
    size = application.SIZES[options.size]
    inputs = kept.inputs(application, name, options.size, options.inputs)
    session = Session(device, application.SOURCE)
    runs: list[dict[str, object]] = []
    begun = time.perf_counter()
    while len(runs) < options.repeat:
        outputs, trace = session.run(application, size, inputs)
        runs.append(describe(trace))
        if len(runs) > 1 and time.perf_counter() - begun > options.seconds:
            break
    check_s = time.perf_counter()
    check = not options.no_check
    if check:
        application.check(size, inputs, outputs)
    check_s = time.perf_counter() - check_s
    kernels_ms = sum(trace.kernel_ns().values()) / 1e6
    line = f"{name:<18} {(trace.stop_ns - trace.start_ns) / 1e6:10.2f} ms, kernels {kernels_ms:10.2f} ms"
    print(f"{line}, {len(trace.launches)} launches, {sum(trace.buffers) / 2**20:.1f} MiB", flush=True)
    launches: dict[tuple[Any, ...], int] = {}
    for launch, _ in trace.launches:
        key = (launch.kernel, launch.global_size, launch.local_size, launch.arguments)
        launches[key] = launches.get(key, 0) + 1
    digests = {array: kept.digest(values) for array, values in outputs.items()}
    report: dict[str, object] = {
        "title": application.TITLE,
        "size": repr(size),
        "build_s": session.build_s,
        "check_s": check_s if check else None,
        "runs": runs,
        "buffers": trace.buffers,
        "launches": [
            {
                "kernel": kernel,
                "global_size": global_size,
                "local_size": local_size,
                "arguments": [a.hex() if isinstance(a, bytes) else a for a in arguments],
                "times": times,
            }
            for (kernel, global_size, local_size, arguments), times in launches.items()
        ],
        "digests": digests,
    }
    return report, outputs


def describe(trace: Trace) -> dict[str, object]:
    """Times of one run in ns: from the first buffer to the last result, and by kernel."""
    return {
        "start_ns": trace.start_ns,
        "stop_ns": trace.stop_ns,
        "wall_ns": trace.stop_ns - trace.start_ns,
        "kernel_ns": trace.kernel_ns(),
    }


if __name__ == "__main__":
    sys.exit(main())
