"""What a replayed launch costs the service from the socket to the event status page, without a GPU.

``python bench/player.py [--members 1 2 4] [--rounds 5]``: microseconds in the player per launch, in rounds by
turns with the same scalars, with a new one, and while a profile is recorded: in a row (200 in the socket) and
alone, the least and the median of all rounds.  Likewise with a second queue that has streams of its own:
nothing in it, launches in both by turns, and those when each waits for the one before.  The driver's entry
points return at once; see ``player.c``.
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

from sdi.player.library import SOURCES, generate  # noqa: E402

KINDS = {
    "same": "the same",
    "new": "a new scalar",
    "profiled": "while a profile is recorded",
    "idle": "an idle queue beside",
    "beside": "two queues by turns",
    "ordered": "two queues, each launch behind the other's",
}


def build(outdir: Path) -> Path:
    """Compile the benchmark with the player's sources; the program."""
    generate(outdir)
    program, sources = outdir / "player", [*sorted(SOURCES.glob("*.c")), ROOT / "bench" / "player.c"]
    flags = ["-O2", "-std=c11", "-D_GNU_SOURCE", f"-I{SOURCES}", f"-I{outdir}"]
    subprocess.run(["cc", *flags, *map(str, sources), "-o", str(program)], check=True)
    return program


def measure(program: Path, members: int, kind: str) -> dict[str, tuple[float, float]]:
    """By way: the least time and the median, in microseconds."""
    command = [str(program), str(members), kind]
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
                {kind: measure(program, members, kind) for kind in KINDS} for _ in range(options.rounds)
            ]
            for kind, described in KINDS.items():
                told = []
                for way in ("in_a_row", "alone"):
                    least = min(found[kind][way][0] for found in rounds)
                    middle = statistics.median(found[kind][way][1] for found in rounds)
                    told.append(f"{way.replace('_', ' ')} {least:.3f} (median {middle:.3f})")
                print(f"{members} members, {described}: {', '.join(told)} us", flush=True)


if __name__ == "__main__":
    main()
