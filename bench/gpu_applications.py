"""Times applications of the gallery on the vendor's OpenCL and on images of GPUs, in turn.

``gpu_applications.py OUT.json [--members 1 2 4] [--rounds 3] [--only LightGBM ...]``

On a GPU host without network (``gpu_applications.sh``): packages are there already.  Sizes are those that
keep a GPU busy (``bench/gallery/kit.py``).  A line per application and timed work: the median of the vendor's
seconds, of each image's, the ratio of medians, and whether results are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from bench.gallery.list import APPLICATIONS, Application
from sdi.cli.counters import CountersError, SessionCounts

DEFAULT = ["LightGBM", "OpenMM", "CLBlast", "reikna", "pyvkfft", "hashcat"]
HERE = Path(__file__).resolve().parent
LIMIT_S = 150.0


def run(of: Application, members: int, folder: Path) -> tuple[dict[str, str], dict[str, float], str]:
    """Results and seconds by name, and what else there is to say; ``members``: 0 for the vendor's OpenCL."""
    environ = {**os.environ, "GALLERY_KIND": "gpu", "PYOPENCL_CTX": "0", "PYOPENCL_NO_CACHE": "1"}
    environ["OCL_ICD_VENDORS"] = os.environ["IMAGE" if members else "VENDORS"]
    counters = folder / "counters.json"
    counters.unlink(missing_ok=True)
    if members:
        environ |= {"SDI_NUM_GPUS": str(members), "SDI_STATS": str(counters)}
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / "gallery" / of.program)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {}, {}, f"not done after {LIMIT_S:.0f} s"
    results, seconds = {}, {"all of it": time.perf_counter() - begin}
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["result"]:
            results[" ".join(words[1:-1])] = words[-1]
        elif words[:1] == ["seconds"]:
            seconds[" ".join(words[2:]) or "work"] = float(words[1])
    said = ""
    if done.returncode:
        said = f"status {done.returncode}: {done.stderr.strip()[-300:]}"
    elif members:
        try:
            counts = SessionCounts.from_json(counters.read_text())
        except (OSError, CountersError) as error:
            said = f"no counters: {error}"
        else:
            kernels = counts.kernels.values()
            split, whole = (sum(getattr(k, f"launches_{way}") for k in kernels) for way in ("split", "whole"))
            said = f"{split} launches split, {whole} whole"
    return results, seconds, said


def main() -> int:
    """Run them; 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--members", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=DEFAULT)
    options = parser.parse_args()
    found: dict[str, object] = {}
    failed = False
    for of in (a for a in APPLICATIONS if a.title in options.only):
        times: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        results: dict[int, dict[str, str]] = {}
        notes: dict[int, str] = {}
        for _ in range(options.rounds):
            for members in (0, *options.members):
                results[members], seconds, notes[members] = run(of, members, options.out.parent)
                for name, value in seconds.items():
                    times[members][name].append(value)
                if not seconds:
                    break
        failed = failed or not all(results.values())
        for name in times[0]:
            plain = statistics.median(times[0][name])
            texts = [f"vendor {plain:.4g} s"]
            for members in options.members:
                if times[members][name]:
                    taken = statistics.median(times[members][name])
                    texts.append(f"image of {members} {taken:.4g} s ({plain / taken:.2f})")
            print(f"{of.title}, {name}: {', '.join(texts)}", flush=True)
        for members in options.members:
            differ = [name for name, value in results[0].items() if results[members].get(name) != value]
            print(
                f"  image of {members}: differ {differ or 'none'} of {len(results[0])}; {notes[members]}",
                flush=True,
            )
        if notes[0]:
            print(f"  vendor: {notes[0]}", flush=True)
        found[of.title] = {"times": times, "results": results, "notes": notes}
        options.out.write_text(json.dumps(found, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
