"""What recording a profile costs: loops of short launches with and without SDI_PROFILE, by turns.

``python bench/profiled.py [--members 1,2] [--rounds 7] [--launches 2000]``: for each loop of ``calls.c`` the
medians over rounds in fresh processes, in microseconds, and their ratio, which is to be at most 1.2; then how
many of the profiled launches were replayed, and how much of the last profile's time is unexplained.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.overhead import compile_calls, image_column, run  # noqa: E402
from sdi.profile.analyse.figures import figures  # noqa: E402
from sdi.profile.analyse.stream import read_profile  # noqa: E402
from sdi.profile.analyse.tables import make_tables  # noqa: E402


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--launches", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sdi-bench-") as scratch:
        os.environ["SDI_LEARNT"] = "off"
        calls = compile_calls(Path(scratch))
        for members in map(int, options.members.split(",")):
            without = image_column(members)
            found: dict[str, tuple[list[float], list[float]]] = {}
            for number in range(options.rounds):
                folder = Path(scratch, f"{members}-{number}")
                recording = replace(without, environ={**without.environ, "SDI_PROFILE": str(folder)})
                for at, column in enumerate((without, recording)):
                    for loop, took_s in run(calls, column, "loops", "SDI", str(options.launches)).items():
                        found.setdefault(loop, ([], []))[at].append(1e6 * took_s)
            for loop, both in found.items():
                off, on = map(statistics.median, both)
                print(f"{members} members, {loop}: {off:.2f} and {on:.2f} us, {on / off:.2f}", flush=True)
            told = figures(make_tables(read_profile(folder)))
            print(
                f"{members} members: {told['replays']:.0f} of {told['launches']:.0f} launches replayed, "
                f"{told['unexplained_percent']:.2f} % of the time unexplained"
            )


if __name__ == "__main__":
    main()
