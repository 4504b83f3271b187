"""Rounds of a change to a buffer, a launch that reads it, and a small read: images beside the plain driver.

``python bench/changes.py [--members 1 2] [--rounds 300] [--repeat 5]`` compiles ``calls.c`` and runs its
``changes`` in turn on the plain driver and on images.  Microseconds per round, in the median of a run and of
all runs, and how many times the plain driver's time that is.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.overhead import compile_calls, image_column, plain_column, run  # noqa: E402


def main() -> None:
    """Print a line for each way to change a buffer."""
    parser = argparse.ArgumentParser(description="Rounds of a change, a launch and a small read.")
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sdi-bench-") as folder:
        for name, variable in (("pocl", "POCL_CACHE_DIR"), ("cache", "XDG_CACHE_HOME")):
            Path(folder, name).mkdir()
            os.environ[variable] = str(Path(folder, name))
        calls = compile_calls(Path(folder))
        columns = [plain_column(), *map(image_column, options.members)]
        found: dict[str, dict[str, list[float]]] = {}
        for _ in range(options.repeat):
            for column in columns:
                for way, seconds in run(
                    calls, column, "changes", column.platform, str(options.rounds)
                ).items():
                    found.setdefault(way, {}).setdefault(column.title, []).append(seconds * 1e6)
        for way, times in found.items():
            plain = statistics.median(times[columns[0].title])
            told = [f"{plain:.1f}"]
            for column in columns[1:]:
                each = statistics.median(times[column.title])
                told.append(f"{column.title} {each:.1f} ({each / plain:.2f})")
            print(f"{way:14} plain {', '.join(told)} us", flush=True)


if __name__ == "__main__":
    main()
