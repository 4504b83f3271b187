"""The tables of a report in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.figures import summary
from bench.figures.setups import Setup

MIB = 1 << 20


def report(raw: Mapping[str, Any], size: str, pictures: Sequence[str]) -> str:
    """Everything that was measured at one size; ``pictures``: names of files beside it."""
    machine, applications = raw["machine"], raw["applications"]
    members = sorted({n for a in applications.values() for n in a["members"]})
    lines = [f"# The evaluation of papers/1, size `{size}`", ""]
    gpus = "; ".join(gpu for gpu in machine["gpus"] if gpu)
    devices = sorted({s["device"].strip() for s in _samples(applications) if "device" in s})
    lines.append(
        f"Commit {machine['commit']}, {machine['date']}, {machine['cpus']} CPUs, {gpus or 'no GPU'}."
    )
    lines += [f"Devices: {', '.join(devices)}. SDI_SPLIT={machine['split']}.", ""]
    if "budget" in raw:
        lines += [
            f"Within {raw['budget']:.0f} s: one process of each kind; those on different GPUs side by side.",
            "",
        ]
    if not gpus:
        lines += [
            "The members share one CPU: no speed-up is to be expected, and the ideal is not theirs.",
            "",
        ]
    lines.append(
        "Times are medians over runs of several processes, setups in turn; the first run of each process "
        "does not count. A run is from the first buffer to the last result on the host."
    )
    lines += ["", *_section("Table 2", _table2(applications, max(members, default=1)))]
    lines += _section("Run time, ms (spread)", _run_times(applications, members))
    lines += _section("Speed-up over one device (figure 11)", _speed_ups(applications, members))
    lines += _section("Kernel time per member (figure 12)", _kernel_times(applications, members))
    lines += _section("Transfer and consistency (figure 13)", _traffic(applications, members))
    lines += _section("Beyond one member's memory (figure 15)", _beyond(raw["beyond"], applications))
    lines += _section("Analysis", _analysis(applications, members))
    lines += _section("Transfer time, ms (figure 7)", _links(raw["links"]))
    lines += _section("Launches that ran whole, twins, errors", _remarks(applications, raw, members))
    lines += [f"![{name}]({name})" for name in pictures]
    return "\n".join(lines).rstrip() + "\n"


def _samples(applications: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (s for a in applications.values() for samples in a["setups"].values() for s in samples)


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if lines else []


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown; the first row is the head."""
    if len(rows) < 2:
        return []
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    text = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return text


def _number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def _cross(value: bool) -> str:
    return "X" if value else ""


def _table2(applications: Mapping[str, Any], members: int) -> list[str]:
    rows = [
        ["Application", "size", "A MiB", "B", "C", "D", "E", "F", "G", "H", "I", "less than exact for sdi"]
    ]
    for name, measured in applications.items():
        if "accesses" not in measured:
            continue
        accesses = measured["accesses"]
        grids = summary.grids(measured)
        fraction = summary.parallel_fraction(measured)
        non_affine = any(a["non_affine"] for a in accesses)
        conditional = any(a["conditional"] for a in accesses)
        rows.append(
            [
                measured.get("title", name),
                measured["size"],
                f"{sum(measured['buffers']) / MIB:.1f}",
                str(len(grids)),
                ", ".join(grid for _, grid, _ in grids),
                ", ".join(str(times) for _, _, times in grids),
                "-" if fraction is None else f"{fraction:.1%}",
                _cross(summary.communicates(measured, Setup(members))),
                _cross(non_affine or conditional),
                _cross(non_affine),
                _cross(conditional),
                "; ".join(f"{a['kernel']}: {', '.join(a['not_exact'])}" for a in accesses if a["not_exact"]),
            ]
        )
    notes = (
        "A: memory of all buffers, B: kernels, C: work-groups, D: launches, E: kernel time in the run time "
        "of the plain driver, F: members fetch from others what kernels wrote, G: H or I, H: accesses that "
        "are not affine, I: accesses in a condition (that of a rounded-up NDRange too)."
    )
    return [*_table(rows), "", notes]


def _run_times(applications: Mapping[str, Any], members: Sequence[int]) -> list[str]:
    setups = [Setup(0), *map(Setup, sorted({1, *members}))]
    setups += [Setup(n, "host") for n in members if n > 1]
    rows = [["Application", *(setup.label for setup in setups)]]
    for name, measured in applications.items():
        cells = []
        for setup in setups:
            found = summary.wall(measured, setup)
            cells.append("-" if found is None else f"{found.median / 1e6:.1f} ({found.spread:.0%})")
        rows.append([measured.get("title", name), *cells])
    return _table(rows)


def _speed_ups(applications: Mapping[str, Any], members: Sequence[int]) -> list[str]:
    head = ["Application", "parallel", "1 member"]
    for n in [n for n in members if n > 1]:
        head += [f"{n}", "ideal", "of ideal", "kernels", "through host", "same bytes"]
    rows = [head]
    for name, measured in applications.items():
        plain = summary.wall(measured, Setup(0))
        fraction = summary.parallel_fraction(measured)
        row = [measured.get("title", name), _number(fraction, ".1%")]
        row.append(_number(summary.ratio(plain, summary.wall(measured, Setup(1)))))
        for n in [n for n in members if n > 1]:
            reached = summary.ratio(plain, summary.wall(measured, Setup(n)))
            wanted = None if fraction is None else summary.ideal(fraction, n)
            share = reached / wanted if reached and wanted else None
            only = summary.ratio(summary.kernels(measured, Setup(0)), summary.kernels(measured, Setup(n)))
            host = summary.ratio(plain, summary.wall(measured, Setup(n, "host")))
            same = summary.same_bytes(measured, Setup(1), Setup(n))
            row += [_number(reached), _number(wanted), _number(share, ".0%"), _number(only), _number(host)]
            row.append("-" if same is None else "yes" if same else "NO")
        rows.append(row)
    notes = (
        "Over the plain driver on one device. Ideal: Amdahl's law with the parallel fraction (papers/1, "
        "4.2). Kernels: the same for the kernels alone. Through host: SDI_COHERENCE=host. Same bytes: as one "
        "member."
    )
    return [*_table(rows), "", notes]


def _kernel_times(applications: Mapping[str, Any], members: Sequence[int]) -> list[str]:
    several = [n for n in members if n > 1]
    head = ["Application", "one member, ms"]
    for n in several:
        head += [f"{n}: mean", "imbalance", "first start to last end"]
    rows = [head]
    for name, measured in applications.items():
        one, alone = summary.kernels(measured, Setup(1)), summary.spans(measured, Setup(1))
        cells = []
        for n in several:
            spans = summary.spans(measured, Setup(n))
            both = spans is not None and alone is not None and alone.mean_kernel_ns > 0
            faster = summary.ratio(one, summary.kernels(measured, Setup(n)))
            cells += [
                _number(spans.mean_kernel_ns / alone.mean_kernel_ns if spans and alone and both else None),
                _number(spans.imbalance if spans else None, ".0%"),
                _number(None if faster is None else 1 / faster),
            ]
        rows.append(
            [
                measured.get("title", name),
                _number(alone.mean_kernel_ns / 1e6 if alone else None),
                *cells,
            ]
        )
    notes = (
        "From the spans of the members' own work: how long kernels ran on a member in one run, in the mean "
        "over the members, where one member takes 1. Imbalance: how much less the mean member computes than "
        "the busiest. First start to last end: of each launch, as its event says, merges included."
    )
    return [*_table(rows), "", notes]


def _traffic(applications: Mapping[str, Any], members: Sequence[int]) -> list[str]:
    rows = [
        [
            "Application",
            "setup",
            "host to members, MiB",
            "members to host",
            "between",
            "merged",
            "copies, ms",
            "application's, ms",
            "merging, ms",
            "of the run",
        ]
    ]
    for name, measured in applications.items():
        for setup in [Setup(1), *(Setup(n, c) for n in members if n > 1 for c in ("lazy", "host"))]:
            moved = summary.traffic(measured, setup)
            if moved is None:
                continue
            wall, spans = summary.wall(measured, setup), summary.spans(measured, setup)
            parts = (moved.host_to_member, moved.member_to_host, moved.member_to_member, moved.merged)
            cells = [f"{part / MIB:.2f}" for part in parts]
            if spans is None:
                cells += ["-"] * 4
            else:
                share = (spans.copy_ns + spans.merge_ns) / wall.median if wall else None
                times = (spans.copy_ns, spans.application_ns, spans.merge_ns)
                cells += [*(f"{ns / 1e6:.2f}" for ns in times), _number(share, ".1%")]
            rows.append([measured.get("title", name), setup.label, *cells])
    notes = (
        "Merged: bytes compared with their twins. Times: in which at least one copy between memories, one "
        "read or write of the application, one twin, comparison or merge went on. Of the run: copies and "
        "merging, also where kernels run beside them."
    )
    return [*_table(rows), "", notes]


def _beyond(beyond: Mapping[str, Any], applications: Mapping[str, Any]) -> list[str]:
    labels = list(dict.fromkeys(label for found in beyond.values() for label in found["setups"]))
    head = ["Application", "needs MiB", "member has MiB"]
    rows = [[*head, *(f"{label}, ms (spilled MiB, chunks)" for label in labels)]]
    for name, found in beyond.items():
        cells = []
        for label in labels:
            sample: Mapping[str, Any] = next(iter(found["setups"].get(label, [])), {"error": "not run"})
            if "error" in sample:
                cells.append(sample["error"][:60].replace("\n", " "))
                continue
            best = min(run["wall_ns"] for run in sample["runs"][1:]) / 1e6
            memory = sample.get("counters", {}).get("memory", {})
            runs = len(sample["runs"])
            spilled = memory.get("spilled_nbytes", 0) / runs / MIB
            chunks = memory.get("chunks", memory.get("waves", 0)) / runs  # older results say "waves"
            cells.append(f"{best:.1f} ({spilled:.1f}, {chunks:.0f})")
        sizes = [f"{found['needed_nbytes'] / MIB:.0f}", f"{found['limit_nbytes'] / MIB:.0f}"]
        rows.append([applications.get(name, {}).get("title", name), *sizes, *cells])
    return _table(rows)


def _analysis(applications: Mapping[str, Any], members: Sequence[int]) -> list[str]:
    what = ("first run", "later runs", "members idle")
    several = [n for n in members if n > 1]
    rows = [["Application", "at build, ms", *(f"{n} members: {each}" for n in several for each in what)]]
    for name, measured in applications.items():
        if "accesses" not in measured:
            continue
        build = sum(access["analysis_ns"] for access in measured["accesses"]) / 1e6
        shares: list[str] = []
        for n in several:
            parts = summary.planning_spans(measured, Setup(n))
            if parts is None:  # measured before profiles told: the mean of all runs
                parts = (None, summary.planning_share(measured, Setup(n)), None)
            shares += [_number(part, ".2%") for part in parts]
        rows.append([measured.get("title", name), f"{build:.1f}", *shares])
    notes = (
        "At launch: access ranges and choice of the cut, a part of the run time (papers/1: at most 0.48 %), "
        "in the first run of a process, in the others, and as far as no kernel ran and nothing was copied."
    )
    return [*_table(rows), "", notes]


def _links(links: Mapping[str, Any]) -> list[str]:
    seconds = links.get("seconds", {})
    sizes = sorted({int(nbytes) for times in seconds.values() for nbytes in times})
    rows = [["link", *(_size(nbytes) for nbytes in sizes), "GB/s at most"]]
    for link, times in seconds.items():
        best = max(int(nbytes) / time / 1e9 for nbytes, time in times.items())
        rows.append([link, *(f"{times[str(n)] * 1e3:.3f}" for n in sizes), f"{best:.1f}"])
    return _table(rows)


def _size(nbytes: int) -> str:
    return f"{nbytes >> 10} KiB" if nbytes < MIB else f"{nbytes >> 20} MiB"


def _remarks(applications: Mapping[str, Any], raw: Mapping[str, Any], members: Sequence[int]) -> list[str]:
    lines = []
    for name, measured in applications.items():
        for n in [n for n in members if n > 1]:
            whole = summary.ran_whole(measured, Setup(n))
            merging = summary.merging(measured, Setup(n))
            if merging:
                lines.append(f"* {measured.get('title', name)}, {n} members: twins for {', '.join(merging)}")
            lines += [f"* {measured.get('title', name)}, {n} members: {each}" for each in whole]
        lines += [f"* {name}, {' '.join(text.split())[:300]}" for text in summary.errors(measured)]
        checked = measured.get("checked", "right")
        if checked != "right":
            lines.append(f"* {measured.get('title', name)}, checked on the host: {checked}")
    lines += [f"* left out: {each}" for each in raw.get("skipped", [])]
    if "error" in raw["links"]:
        lines.append(f"* links: {raw['links']['error']}")
    return lines
