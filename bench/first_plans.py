"""What the first launches of a kernel cost rank 0 of a job, before anything is known of them.

``python -m bench.first_plans [--nodes 4,16,64] [--members 1,4,8] [--split always] [--runs 5]
[--profile CASE] [--out FILE]``

Members, nodes and rank 0 are those of ``bench.cluster_root``: they do nothing, and answer at once.  Each run
builds the program anew, of which everything is known on disk, and makes new buffers; what this process
remembers of plans is forgotten.  Milliseconds of processor time of the thread that issues, from a launch's
arrival until its plan is made, and until all of it is issued; the least of all runs.  The second launch has
the first one's buffers swapped, where the program would do that; the fifth and sixth have nodes keep their
parts.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.cluster_root import Rig, over_sockets  # noqa: E402
from bench.launches import arguments, i32  # noqa: E402
from sdi.commands import Launch  # noqa: E402
from sdi.launch import staleness  # noqa: E402
from sdi.launch.programs.builds import build  # noqa: E402
from sdi.ndrange import Int3  # noqa: E402
from sdi.partition import table  # noqa: E402

SOURCE = """
__kernel void line(__global const float *from, __global float *to, int n)
{
    int i = get_global_id(0);
    if (i > 0 && i < n - 1)
        to[i] = 0.25f * from[i - 1] + 0.5f * from[i] + 0.25f * from[i + 1];
}

__kernel void plane(__global const float *from, __global float *to, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        to[y * w + x] = 0.25f * (from[y * w + x - 1] + from[y * w + x + 1]
                                 + from[(y - 1) * w + x] + from[(y + 1) * w + x]);
}

__kernel void product(__global const float *a, __global const float *b, __global float *c, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

__kernel void bodies(__global const float4 *from, __global float4 *to, __global float4 *speed, int n)
{
    int i = get_global_id(0);
    float4 p = from[i], f = (float4)(0.0f);
    for (int j = 0; j < n; j++) {
        float4 d = from[j] - p;
        f += d * rsqrt(dot(d, d) + 0.01f);
    }
    speed[i] += f;
    to[i] = p + speed[i];
}
"""
LAUNCHES = 8


@dataclass(frozen=True, slots=True)
class Case:
    """``swapped``: the numbers of two buffers that change their places with each launch, if any do."""

    title: str
    kernel: int
    size: Int3
    local: Int3
    buffers: tuple[int, ...]
    scalars: tuple[int, ...]
    swapped: tuple[int, int] | None


LINE, SIDE, WIDE, BODIES = 1 << 25, 8192, 4096, 1 << 18
CASES = (
    Case("stencil, 1-d", 0, (LINE, 1, 1), (256, 1, 1), (4 * LINE,) * 2, (LINE,), (0, 1)),
    Case("stencil, 2-d", 1, (SIDE, SIDE, 1), (16, 16, 1), (4 * SIDE * SIDE,) * 2, (SIDE, SIDE), (0, 1)),
    Case("matrix product", 2, (WIDE, WIDE, 1), (16, 16, 1), (4 * WIDE * WIDE,) * 3, (WIDE,), None),
    Case("n-body", 3, (BODIES, 1, 1), (256, 1, 1), (16 * BODIES,) * 3, (BODIES,), (0, 1)),
)


def launch(case: Case, made: int, buffers: Sequence[int], step: int) -> Launch:
    """Launch number ``step`` of the build ``made``."""
    order = list(buffers)
    if case.swapped is not None and step % 2:
        one, other = case.swapped
        order[one], order[other] = order[other], order[one]
    given = arguments(*order, *map(i32, case.scalars))
    count = len(order) + len(case.scalars)
    dim = 2 if case.size[1] > 1 else 1
    record = made.to_bytes(4, "little") + bytes([case.kernel]) + given
    return Launch(made, case.kernel, dim, (0, 0, 0), case.size, case.local, given, count, record=record)


def forget() -> None:
    """What this process remembers beside the kernels."""
    staleness._kept.clear()
    table.cuts.cache_clear()
    table.shapes.cache_clear()


def run(
    rig: Rig, case: Case, number: int, profile: cProfile.Profile | None, profiled: int
) -> dict[str, list[float]]:
    """ms of plans, and of whole launches, of the first ``LAUNCHES``; launch ``profiled`` is, if any."""
    made = 1 + number
    rig.launcher.add(made, build(SOURCE, "", "", rig.target))
    kernel = rig.launcher.build(made)
    assert kernel is not None
    name = kernel.kernels[case.kernel].model.name
    buffers = [10 * made + k for k in range(len(case.buffers))]
    for each, nbytes in zip(buffers, case.buffers, strict=True):
        rig.memory.create(each, nbytes, True)
    rig.settle(0)
    forget()
    gc.collect()
    plans, issued = [], []
    clock, time.perf_counter_ns = time.perf_counter_ns, time.thread_time_ns
    try:
        for step in range(LAUNCHES):
            command = launch(case, made, buffers, step)
            before = rig.counters.kernel(name).plan_ns if rig.counters._kernels.get(name) else 0
            if profile is not None and step == profiled:
                profile.enable()
            rig.job.polling.is_busy = True  # as a session has it while it acts on records
            start = time.thread_time_ns()
            rig.enqueue(command)
            for node in rig.job.nodes.values():
                node.flush()
            issued.append((time.thread_time_ns() - start) / 1e6)
            if profile is not None:
                profile.disable()
            rig.job.polling.idle()
            plans.append((rig.counters.kernel(name).plan_ns - before) / 1e6)
            rig.settle(0)
    finally:
        time.perf_counter_ns = clock
    assert not rig.failed, f"{case.title}: {rig.failed} launches failed"
    for each in buffers:
        rig.memory.release(each)
    rig.launcher.remove(made)
    rig.settle(0)
    return {"plan_ms": plans, "issued_ms": issued}


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--nodes", default="4,16,64")
    parser.add_argument("--members", default="1,4,8")
    parser.add_argument("--split", default="always", choices=("always", "auto"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--case", default="")
    parser.add_argument("--profile", metavar="CASE")
    parser.add_argument("--launch", type=int, default=0, help="the one that is profiled")
    parser.add_argument("--sort", default="tottime", help="a key of pstats")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.setswitchinterval(1e-5)
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    wanted = options.profile or options.case
    rows = []
    shape = f"{'':34}{'plan':>16}{'all issued':>18}"
    print(f"{shape}\n{'nodes x members':34}" + f"{'first':>8}{'second':>8}" * 2 + "   ... eighth, ms")
    for nodes in map(int, options.nodes.split(",")):
        for members in map(int, options.members.split(",")):
            transport, process = over_sockets(nodes, wanted)
            rig = Rig(transport, members, split=options.split)
            try:
                for number, case in enumerate(CASES):
                    if wanted not in case.title:
                        continue
                    profile = cProfile.Profile() if options.profile else None
                    found = [
                        run(rig, case, 1 + 100 * number + k, profile, options.launch)
                        for k in range(options.runs)
                    ]
                    least = {
                        key: [min(each[key][step] for each in found) for step in range(LAUNCHES)]
                        for key in ("plan_ms", "issued_ms")
                    }
                    rows.append({"nodes": nodes, "members": members, "case": case.title, **least})
                    plan, issued = least["plan_ms"], least["issued_ms"]
                    print(
                        f"{nodes:4} x {members}  {case.title:24}{plan[0]:8.1f}{plan[1]:8.1f}"
                        + "".join(f"{each:8.1f}" for each in issued),
                        flush=True,
                    )
                    if profile is not None:
                        pstats.Stats(profile).sort_stats(options.sort).print_stats(60)
            finally:
                rig.close()
                process.wait(60)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
