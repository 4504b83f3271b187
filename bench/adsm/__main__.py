"""``python -m bench.adsm [--size cpu] [--members 1 2] [--rounds 3] [--only FIGURE ...] [--out FOLDER]
[--sides 256 384] [--without rolling:4K]``.

Measures on members that keep copies of fine-grained memory: CPUs, which are made to, and GPUs.  What was
measured before and is not asked for again stays in the report: FOLDER/NAME.json, .md and .png; ``--only``
without a figure just writes it.  Ends with 1 where a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from bench.adsm import plots, report
from bench.adsm.measure import ROOT, UPDATES, Bench, Measured, from_json, to_json
from bench.adsm.programs import PARBOIL, RUNS

FIGURES = ("programs", "stencil", "blocks", "rolling")
SIDES = {"smoke": (16,), "cpu": (64, 128, 192), "gpu": (64, 128, 192, 256, 384)}
COUNTS = {"smoke": 1 << 16, "cpu": 8 << 20, "gpu": 8 << 20}
SETS = {"smoke": 16, "cpu": 1023, "gpu": 1023}
BLOCKS = {
    "smoke": ("4K", "64K"),
    "cpu": ("4K", "16K", "64K", "256K", "1M", "4M", "32M"),
    "gpu": ("4K", "16K", "64K", "256K", "1M", "4M", "32M"),
}


def measured(figure: str, size: str, bench: Bench, sides: Sequence[int]) -> Iterator[Measured]:
    """What a figure shows."""
    blocks = BLOCKS[size]
    if figure == "programs":
        for name in PARBOIL:
            yield from bench.measure("whole", [name, size], ["buffers", *UPDATES])
    elif figure == "stencil":
        few = ["rolling:4K", "rolling:256K", "rolling:1M", "rolling:32M"]
        for side in sides:
            yield from bench.measure("volume", [side], ["buffers", "batch", "eager", "lazy", *few])
    elif figure == "blocks":
        rolling = [f"rolling:{block}" for block in blocks]
        yield from bench.measure("vectors", [COUNTS[size]], ["buffers", *UPDATES[:3], *rolling])
    else:
        rolling = [f"rolling:{block}:{most}" for block in blocks for most in (1, 2, 4)]
        yield from bench.measure("passes", [SETS[size]], [*UPDATES[:3], *rolling])


def main() -> int:
    """Measure what is asked for and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="cpu", choices=[*SIDES])
    parser.add_argument("--members", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=FIGURES, metavar="FIGURE", help=f"of {FIGURES}")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "adsm")
    parser.add_argument("--stem", default="adsm")
    parser.add_argument(
        "--where", default=f"{len(os.sched_getaffinity(0))} CPUs", help="what the report says"
    )
    parser.add_argument("--sides", type=int, nargs="+", help="of the stencil's volume")
    parser.add_argument("--without", nargs="+", default=[], metavar="UPDATE", help="leave these out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run, way, *arguments = json.loads(options.one)
        print(json.dumps(RUNS[run](way, *arguments)))
        return 0
    if unknown := [figure for figure in options.only if figure not in FIGURES]:
        parser.error(f"unknown: {', '.join(unknown)}")
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / f"{options.stem}.json"
    raw = json.loads(kept.read_text()) if kept.exists() else {}
    about = {"size": options.size, "rounds": options.rounds, "commit": _commit(), "where": options.where}
    with tempfile.TemporaryDirectory() as inputs:
        for members, figure in product(options.members, options.only):
            found = []
            bench = Bench(options.rounds, members, Path(inputs), frozenset(options.without))
            try:
                for each in measured(figure, options.size, bench, options.sides or SIDES[options.size]):
                    print(report.line(each), flush=True)
                    found.append(each)
                    raw[f"{figure}, {members}"] = to_json(found)
                    raw["about"] = about
                    kept.write_text(json.dumps(raw, indent=0))
            except RuntimeError as error:
                print(error, file=sys.stderr)
                return 1
    figures = {name: from_json(rows) for name, rows in raw.items() if name != "about"}
    try:
        pictures = plots.draw(figures, options.out, options.stem)
    except ImportError as error:
        print(f"no pictures: {error}", file=sys.stderr)
        pictures = []
    (options.out / f"{options.stem}.md").write_text(report.report(figures, raw["about"], pictures))
    return 0


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
