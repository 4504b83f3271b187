"""Compares what programs leave on members of several ranks with the plain driver's bytes, and kills ranks.

``python -m tests.cluster.soak [PART ...] [--transports loopback,mpi-far] [--shapes 1+2,3,5] [--first 0]
[--count 300] [--rounds 50] [--only NAME ...] [--set NAME=VALUE ...]``

Parts, all of them without any: ``programs`` (tests/programs), ``generated`` (tests/generated), ``sequences``
(tests/sequences), each on every shape and transport, and ``kills``: rounds in which a rank is killed while
launches are under way, ``stops``: it stops to run, ``wakes``: and runs on when rank 0 has refused it.
``--set``: settings of all images but those of generated programs, such as SDI_MEMBER_MEMORY=64K.
``--first``: the seed of the first one.  Transports: ``loopback``, and ``mpi``, the MPI beside this Python;
``ulfm`` is Open MPI that goes on when a rank dies.  ``mpi-far`` and so on: ranks share no memory, as on
different machines; ``stops`` there keep ``ulfm`` waiting.
Ends with 1 when anything differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.cluster.ways import AS_ROOT, SHAPES, Way, killed
from tests.image_runs import image_environ, plain_environ, run
from tests.sequences import compare as sequences
from tests.test_programs import PROGRAMS, Pass, first_difference, run_all

_GENERATED_LIMIT_S = 6000.0
_BLOWS = {"kills": "kill", "stops": "stop", "wakes": "wake"}


def compare_programs(way: Way, plain: Pass, folder: Path, settings: Mapping[str, str]) -> list[str]:
    """Arrays of the programs in ``plain`` that differ, and programs that failed."""
    environ = image_environ(way.shape.members, **way.settings(), **settings)
    found = run_all(folder, lambda stats: environ | {"SDI_STATS": str(stats)}, way.under(), [*plain.reports])
    differing = [f"{name}: {report['error']}" for name, report in found.reports.items() if report["error"]]
    for name, array in plain.arrays.items():
        if found.reports[name.partition("/")[0]]["lacks"]:
            continue  # members of other processes have no shared virtual memory
        if name not in found.arrays:
            differing.append(f"{name} is missing")
        elif difference := first_difference(found.arrays[name], array):
            differing.append(f"{name}: {difference}")
    differing += [f"{name} is not the plain driver's" for name in found.arrays.keys() - plain.arrays.keys()]
    for ended in found.runs:
        differing += [f"left behind: {process}" for process in ended.remained]
    return differing


def compare_generated(way: Way, first: int, count: int) -> list[str]:
    """Generated programs that differ from what one memory would hold."""
    shape = way.shape
    asked = [str(first), str(count), "--members", str(shape.members), "--ranks", str(shape.ranks), "--json"]
    more = ["--devices", shape.devices] if shape.devices is not None else []
    more += ["--far"] if way.is_far else []
    command = way.job([sys.executable, "-m", "tests.generated.compare", *asked, *more])
    ended = run(command, plain_environ() | AS_ROOT, _GENERATED_LIMIT_S)
    differing = [] if ended.returncode == 0 else [ended.describe()]
    return differing + [f"left behind: {process}" for process in ended.remained]


def compare_sequences(way: Way, first: int, count: int, settings: Mapping[str, str]) -> list[str]:
    """Random sequences that end otherwise than on the plain driver."""
    plain = sequences.ends(first, count, 0)
    image = sequences.ends(first, count, way.shape.members, {**way.settings(), **settings}, way.under())
    found = (sequences.difference(seed, plain[seed], image[seed]) for seed in range(first, first + count))
    return [text for text in found if text]


def ways(given: argparse.Namespace) -> Iterator[tuple[str, Way]]:
    """The jobs that were asked for, with their names."""
    for transport in given.transports.split(","):
        for shape in given.shapes.split(","):
            carrier, _, far = transport.partition("-")
            yield f"{transport} {shape}", Way(carrier, SHAPES[shape], bool(far))


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts = ("programs", "generated", "sequences", *_BLOWS)
    parser.add_argument("parts", nargs="*", metavar="PART", default=parts)
    parser.add_argument("--transports", default="loopback,loopback-far,mpi,mpi-far")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--only", nargs="+", default=PROGRAMS, metavar="NAME")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sdi-soak-") as folder:
        return 1 if _soak(given, Path(folder)) else 0


def _soak(given: argparse.Namespace, folder: Path) -> int:
    """How much differed."""
    plain: Pass | None = None
    total, settings = 0, dict(text.split("=", 1) for text in given.set)

    def said(what: str, count: int, differing: list[str]) -> None:
        nonlocal total
        total += len(differing)
        print("".join(f"{what}: {text}\n" for text in differing), end="")
        print(f"{what}: {count} compared, {len(differing)} differences", flush=True)

    for name, way in ways(given):
        if "programs" in given.parts:
            if plain is None:
                (folder / "plain").mkdir()
                plain = run_all(folder / "plain", lambda stats: plain_environ(), (), given.only)
            here = folder / name.replace(" ", "-")
            here.mkdir()
            said(f"programs, {name}", len(plain.arrays), compare_programs(way, plain, here, settings))
        if "generated" in given.parts:
            found = compare_generated(way, given.first, given.count)
            said(f"generated programs, {name}", 4 * given.count, found)
        if "sequences" in given.parts:
            found = compare_sequences(way, given.first, given.count, settings)
            said(f"sequences, {name}", given.count, found)
        for part, how in _BLOWS.items():
            if part in given.parts:
                seeds = range(given.first, given.first + given.rounds)
                told = {seed: killed(way, seed, how, "late", **settings) for seed in seeds}
                wrong = [f"seed {seed}: {text}" for seed, text in told.items() if text]
                said(f"{part}, {name}", given.rounds, wrong)
    return total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
