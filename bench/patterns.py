"""What programs do around short kernels, each in its own way: images beside the plain driver.

``python bench/patterns.py [--members 1 2] [--repeat 3] [--only NAME...]`` compiles ``patterns.c`` and runs it
in turn on the plain driver and on images with ``SDI_SPLIT=auto``.  Microseconds of a round, the least of all
repetitions of the mean of a run's second half, and how many times the plain driver's that is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.overhead import image_column, plain_column, run  # noqa: E402


def main() -> None:
    """Print a line for each pattern."""
    parser = argparse.ArgumentParser(description="Rounds of what programs do around short kernels.")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[])
    options = parser.parse_args()
    images = [image_column(count) for count in options.members]
    images = [replace(each, environ={**each.environ, "SDI_SPLIT": "auto"}) for each in images]
    columns = [plain_column(), *images]
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="sdi-bench-") as folder:
        program = Path(folder, "patterns")
        command = ["cc", "-O1", "-std=c11", "-D_GNU_SOURCE", "-Wall", str(ROOT / "bench/patterns.c")]
        subprocess.run([*command, "-o", str(program), "-lOpenCL"], check=True)
        for _ in range(options.repeat):
            for column in columns:
                for name, took in run(program, column, *options.only).items():
                    pattern, _, is_mean = name.partition(".")
                    if is_mean:
                        known = found.setdefault(pattern, {})
                        known[column.title] = min(took, known.get(column.title, took))
    for pattern, known in found.items():
        plain = known[columns[0].title]
        told = [f"{each.title} {known[each.title]:.0f} ({known[each.title] / plain:.2f})" for each in images]
        print(f"{pattern:17} plain {plain:.0f}, {', '.join(told)} us", flush=True)


if __name__ == "__main__":
    main()
