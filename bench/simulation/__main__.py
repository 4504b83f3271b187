"""Predicts what programs take on many nodes, and compares predictions with runs of a few real ranks.

``python -m bench.simulation papers [--nodes 1,2,4,8,16,32,64]``: the programs of papers.toml.
``python -m bench.simulation check [--ranks 2,3,5] [--mpi] [--rounds 3] [--only TEXT]``: prediction beside
measurement, on links of a known rate and members of known speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.simulation.measured import Setup, as_rank, measure
from bench.simulation.model import Costs, Link, predict
from bench.simulation.programs import CHECKED, papers, published
from bench.simulation.trace import trace
from sdi.devices.capabilities import CPU, GPU

LINKS = ((100e6, 0.5e6), (500e6, 0.0), (100e6, 5e6))
"""Bytes per s and latency in ns of the links of ``check``."""
COPY_BYTES_PER_S = 2e9
"""Of its members."""


def _path(path: dict[str, float]) -> str:
    """What the time went to, the longest first."""
    total = sum(path.values())
    parts = sorted(path.items(), key=lambda each: -each[1])
    return ", ".join(f"{label} {100 * ns / total:.0f} %" for label, ns in parts if ns > 0.005 * total)


def show_papers(counts: Sequence[int], only: str) -> None:
    """Efficiency on so many devices, and the papers' own."""
    given = papers()
    link = Link(given["link"]["qdr"]["bytes_per_s"], 1e3 * given["link"]["qdr"]["latency_us"])
    costs = Costs(copy_bytes_per_s=given["host"]["copy_bytes_per_s"])
    print("| program | devices | s | efficiency | the paper's | what the time went to |")
    print("|---|---|---|---|---|---|")
    for each in published():
        if only not in each.program.name:
            continue
        one_s = each.program.kernels_ns() / 1e9
        for position, count in enumerate(counts):
            nodes = [number // each.members_per_node for number in range(count)]
            found = predict(
                trace(each.program, nodes, GPU if each.members_per_node > 1 else CPU), costs, link
            )
            seconds, paper = found.end_ns / 1e9, ""
            if count & (count - 1) == 0 and (at := count.bit_length() - 1) < len(each.published_s):
                paper = f"{100 * each.published_s[0] / count / each.published_s[at]:.0f} % ({each.published_s[at]} s)"
            ours = f"{100 * one_s / count / seconds:.1f} %"
            name = each.program.name if not position else ""
            print(
                f"| {name} | {count} | {seconds:.3f} | {ours} | {paper} | {_path(found.path)} |", flush=True
            )


def check(ranks: Sequence[int], over_mpi: bool, rounds: int, only: str) -> None:
    """Each program on so many ranks, and as the simulation has it."""
    print(
        "| program | link | ranks | measured s | predicted s | off by | timers late, us | what the time went to |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, program in CHECKED.items():
        if only not in name:
            continue
        for bytes_per_s, latency_ns in LINKS:
            setup = Setup(name, bytes_per_s, latency_ns, COPY_BYTES_PER_S)
            for count in ranks:
                plan = trace(program, range(count), CPU)
                runs = [measure(setup, count, over_mpi) for _ in range(rounds)]
                run = sorted(runs, key=lambda each: each.seconds)[len(runs) // 2]
                found = predict(plan, Costs(copy_bytes_per_s=COPY_BYTES_PER_S, timer=run.late_ns), setup.link)
                took, said = run.seconds, found.end_ns / 1e9
                least, most = (f([each.seconds for each in runs]) for f in (min, max))
                print(
                    f"| {name} | {bytes_per_s / 1e6:.0f} MB/s, {latency_ns / 1e6:g} ms | {count} | {took:.3f}"
                    f" ({least:.3f}-{most:.3f}) | {said:.3f} | {100 * (said / took - 1):+.0f} % |"
                    f" {run.late_ns / 1e3:.0f} | {_path(found.path)} |",
                    flush=True,
                )


def main() -> int:
    if sys.argv[1:2] == ["--rank"]:
        as_rank(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["papers", "check"])
    parser.add_argument("--nodes", default="1,2,4,8,16,32,64")
    parser.add_argument("--ranks", default="2,3,5")
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.what == "papers":
        show_papers([int(each) for each in options.nodes.split(",")], options.only)
    else:
        check([int(each) for each in options.ranks.split(",")], options.mpi, options.rounds, options.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
