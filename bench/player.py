"""What a replayed launch costs the service from the socket to the event status page, without a GPU.

``python bench/player.py [--members 1 2 4] [--rounds 5]``: microseconds in the player per launch, in rounds by
turns with the same scalars and a new one: in a row (200 in the socket) and alone, the least and the median
of all rounds.  The driver's entry points return at once; see ``player.c``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sdi.icd.generate import wire_header  # noqa: E402
from sdi.player.library import SOURCES  # noqa: E402


def build(outdir: Path) -> Path:
    """Compile the benchmark with the player's sources; the program."""
    (outdir / "sdi_wire.h").write_text(wire_header(), encoding="utf-8")
    program, sources = outdir / "player", [*sorted(SOURCES.glob("*.c")), ROOT / "bench" / "player.c"]
    flags = ["-O2", "-std=c11", "-D_GNU_SOURCE", f"-I{SOURCES}", f"-I{outdir}"]
    subprocess.run(["cc", *flags, *map(str, sources), "-o", str(program)], check=True)
    return program


def measure(program: Path, members: int, is_new: bool) -> dict[str, tuple[float, float]]:
    """By way: the least time and the median, in microseconds."""
    command = [str(program), str(members), *(["new"] if is_new else [])]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    found = (line.split() for line in lines if line)
    return {way: (float(least), float(middle)) for way, least, middle in found}


def main() -> None:
    """Print a line for each number of members and kind of launch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="sdi-player-") as scratch:
        program = build(Path(scratch))
        for members in options.members:
            rounds = [
                [measure(program, members, is_new) for is_new in (False, True)] for _ in range(options.rounds)
            ]
            for is_new in (False, True):
                told = []
                for way in ("in_a_row", "alone"):
                    least = min(found[is_new][way][0] for found in rounds)
                    middle = statistics.median(found[is_new][way][1] for found in rounds)
                    told.append(f"{way.replace('_', ' ')} {least:.2f} (median {middle:.2f})")
                scalar = "a new scalar" if is_new else "the same"
                print(f"{members} members, {scalar}: {', '.join(told)} us", flush=True)


if __name__ == "__main__":
    main()
