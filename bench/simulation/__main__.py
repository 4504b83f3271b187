"""Predicts what programs take on many nodes, and compares predictions with runs of a few real ranks.

``python -m bench.simulation papers [--nodes 1,2,4,8,16,32,64]``: the programs of papers.toml.
``python -m bench.simulation check [--ranks 2,3,5] [--mpi] [--rounds 3] [--only TEXT] [--links N]``:
prediction beside measurement, on links of a known rate and members of known speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from bench.simulation.measured import Measured, Setup, as_rank, measure
from bench.simulation.model import Costs, Link, predict
from bench.simulation.programs import CHECKED, papers, published
from bench.simulation.trace import timed_as, trace
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
    print("| program | devices | s | efficiency | the paper's | rank 0's link, s | what the time went to |")
    print("|---|---|---|---|---|---|---|")
    for each in published():
        if only not in each.program.name:
            continue
        kind = GPU if each.members_per_node > 1 else CPU
        for count in counts:
            nodes = [number // each.members_per_node for number in range(count)]
            planned = trace(each.program, nodes, kind)
            found = predict(planned, costs, link)
            took_ns, link_ns, one_ns = found.end_ns, found.root_link_ns, each.program.kernels_ns()
            if each.shorter is not None:
                shorter = predict(timed_as(trace(each.shorter, nodes, kind), planned), costs, link)
                took_ns = each.whole(took_ns, shorter.end_ns)
                link_ns = each.whole(link_ns, shorter.root_link_ns)
                one_ns = each.whole(one_ns, each.shorter.kernels_ns())
            paper, at = "", count.bit_length() - 1
            if count & (count - 1) == 0 and at < len(each.published_s):
                published_s = each.published_s[at]
                paper = f"{100 * each.published_s[0] / count / published_s:.0f} % ({published_s} s)"
            print(
                f"| {each.program.name if count == counts[0] else ''} | {count} | {took_ns / 1e9:.3f} |"
                f" {100 * one_ns / count / took_ns:.1f} % | {paper} | {link_ns / 1e9:.3f} |"
                f" {_path(found.path)} |",
                flush=True,
            )


def check(ranks: Sequence[int], over_mpi: bool, rounds: int, only: str, links: int) -> None:
    """Each program on so many ranks, and as the simulation has it."""
    print(
        "| program | link | ranks | measured s | predicted s | off by | bytes | timers late, us | went to |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, program in CHECKED.items():
        for bytes_per_s, latency_ns in LINKS[:links] if only in name else ():
            setup = Setup(name, bytes_per_s, latency_ns, COPY_BYTES_PER_S)
            for count in ranks:
                plan = trace(program, range(count), CPU)
                runs = sorted([measure(setup, count, over_mpi) for _ in range(rounds)], key=_seconds)
                run, costs = runs[rounds // 2], Costs(copy_bytes_per_s=COPY_BYTES_PER_S)
                found = predict(plan, replace(costs, timer=run.late_ns), setup.link)
                took, said = run.seconds, found.end_ns / 1e9
                is_same = all(each.nbytes == plan.nbytes_by_nodes() for each in runs)
                print(
                    f"| {name} | {bytes_per_s / 1e6:.0f} MB/s, {latency_ns / 1e6:g} ms | {count} | {took:.3f}"
                    f" ({runs[0].seconds:.3f}-{runs[-1].seconds:.3f}) | {said:.3f} |"
                    f" {100 * (said / took - 1):+.0f} % | {'as planned' if is_same else 'others'} |"
                    f" {run.late_ns / 1e3:.0f} | {_path(found.path)} |",
                    flush=True,
                )


def _seconds(run: Measured) -> float:
    return run.seconds


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
    parser.add_argument("--links", type=int, default=len(LINKS), help="so many of them")
    options = parser.parse_args()
    if options.what == "papers":
        show_papers([int(each) for each in options.nodes.split(",")], options.only)
    else:
        ranks = [int(each) for each in options.ranks.split(",")]
        check(ranks, options.mpi, options.rounds, options.only, options.links)
    return 0


if __name__ == "__main__":
    sys.exit(main())
