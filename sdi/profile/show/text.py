"""Tables as text for a terminal, and as CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict

from sdi.profile.analyse.classes import CLASSES
from sdi.profile.analyse.tables import FunctionRow, KernelRow, Tables
from sdi.sizes import size

FUNCTION_COLUMNS = (
    "Function Name", "Calls", "Time (ns)", "Time (%)", "Average (ns)", "Min (ns)", "Max (ns)", "Failed",
)  # fmt: skip
"""The names that programs which read the tables of Intel's cliloader know, and one more."""


WHYS_MAX = 3
"""Reasons why a kernel ran whole that the text spells out; predicted times differ from launch to launch."""


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f}"


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Lines with columns: the first ``left`` to the left, numbers to the right."""
    if not rows:
        return []
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]


def functions(rows: Sequence[FunctionRow]) -> list[list[str]]:
    """Cells for ``FUNCTION_COLUMNS``."""
    return [
        [
            row.name,
            str(row.calls),
            str(row.ns),
            f"{row.percent:.2f}",
            str(row.average_ns),
            str(row.min_ns),
            str(row.max_ns),
            str(row.failed),
        ]
        for row in rows
    ]


def title(tables: Tables) -> str:
    """What was profiled, in a line."""
    together = f" (of {tables.services} services together)" if tables.services > 1 else ""
    return f"sdi profile: {len(tables.members)} members, {_ms(tables.wall_ns)} ms{together}"


def table_text(tables: Tables) -> str:
    """Everything, for people."""
    lines = [title(tables)]
    if not tables.is_complete:
        lines.append(
            "the service was killed, or had no room to write everything: the last moments are missing"
        )
    if tables.calls:
        lines += ["", "Host API calls:", *_aligned(FUNCTION_COLUMNS, functions(tables.calls))]
        if tables.dropped_calls:
            lines.append(f"({tables.dropped_calls} calls are counted here, but not in the trace)")
    if tables.commands:
        lines += ["", "Device commands:", *_aligned(FUNCTION_COLUMNS, functions(tables.commands))]
    if tables.unfinished_commands:
        lines.append(f"({tables.unfinished_commands} commands had not ended and are not counted)")
    lines += ["", *_losses(tables)]
    for kernel in tables.kernels:
        lines += ["", *_kernel(kernel)]
    lines += ["", *_links(tables)]
    if tables.nodes:
        lines += ["", *_nodes(tables)]
    service = [[row.what, str(row.count), _ms(row.ns), _ms(row.cpu_ns)] for row in tables.service]
    lines += ["", *_aligned(("service", "times", "ms", "processor ms"), service)]
    if any(tables.peak_nbytes):
        lines.append(
            "most allocated on each member: " + ", ".join(size(nbytes) for nbytes in tables.peak_nbytes)
        )
    noted = ", ".join(f"{name} {number}" for name, number in tables.events.items() if number)
    if noted:
        lines.append(f"memory: {noted}")
    return "\n".join(lines)


def _losses(tables: Tables) -> list[str]:
    head = ("where the time went (ms)", *CLASSES, "all")
    rows = [
        [row.kernel or "(no kernel)", *(_ms(row.ns[name]) for name in CLASSES), _ms(sum(row.ns.values()))]
        for row in tables.losses
        if any(row.ns.values())
    ]
    totals = [tables.lost_ns(name) for name in CLASSES]
    rows.append(["all", *map(_ms, totals), _ms(sum(totals))])
    wall = max(1, tables.wall_ns)
    rows.append(["%", *(f"{100 * ns / wall:.1f}" for ns in totals), f"{100 * sum(totals) / wall:.1f}"])
    for number, classes in enumerate(tables.member_losses):
        rows.append([f"member {number}", *map(_ms, classes.values()), _ms(sum(classes.values()))])
    return _aligned(head, rows)


def _kernel(row: KernelRow) -> list[str]:
    ran = [f"{row.split} split" + (f" ({', '.join(row.cuts)})" if row.cuts else "")] if row.split else []
    ran += [f"{row.whole} whole"] if row.whole else []
    lines = [f"kernel {row.name}: {row.launches} launches, {', '.join(ran)}, {_ms(row.ns)} ms"]
    lines += [f"  whole: {why}" for why in row.why_whole[:WHYS_MAX]]
    if len(row.why_whole) > WHYS_MAX:
        lines.append(f"  whole: for {len(row.why_whole) - WHYS_MAX} more reasons")
    if row.failed:
        lines.append(f"  failed: {row.failed}")
    if row.by_address:
        reached = f"{row.regions} region{'s' if row.regions > 1 else ''} of {size(row.reached_nbytes)}"
        lines.append(f"  by address: {row.by_address} launches, which may reach {reached}")
    members = " ".join(_ms(ns) for ns in row.member_ns)
    groups = " ".join(map(str, row.member_groups))
    lines.append(f"  ms on each member: {members}; groups: {groups}; imbalance {row.imbalance_percent:.1f} %")
    lines.append(
        f"  replayed {row.replays}, bindings used again {row.bindings}, plans used again {row.plans}, "
        f"new plans {row.new_plans}; "
        f"planning {_ms(row.bind_ns)} ms, issuing {_ms(row.issue_ns)} ms"
        + (f", waiting for memory {_ms(row.held_ns)} ms" if row.held_ns else "")
        + (f"; {row.chunks} more chunks" if row.chunks else "")
    )
    for argument in row.arguments:
        lines.append(
            f"  moved for {argument.argument}: {size(argument.nbytes)} in {argument.copies} copies, "
            f"{_ms(argument.ns)} ms"
        )
    for one in row.patterns:
        most = f", at most {size(one.most_nbytes)} from one place in one" if one.most_nbytes else ""
        passed = f", {size(one.passed_nbytes)} of it passed on" if one.passed_nbytes else ""
        rounds = f", in {one.rounds} rounds" if one.rounds else ""
        lines.append(
            f"  {one.pattern} for {one.argument}: {size(one.nbytes)} in {one.launches} launches"
            f"{rounds}{most}{passed}"
        )
    if row.merges:
        lines.append(f"  merged {size(row.merged_nbytes)} in {row.merges} merges, {_ms(row.merge_ns)} ms")
    if row.classes:
        known = [f"{name} ({_accesses(reads, writes)})" for name, reads, writes in row.classes]
        lines.append(f"  arguments: {', '.join(known)}")
    if row.speed_up is not None and row.whole_ns and row.split_ns:
        lines.append(
            f"  on one member {_ms(row.whole_ns)} ms a launch, split {_ms(row.split_ns)} ms: "
            f"speed-up {row.speed_up:.2f}"
        )
    if row.advice:
        lines.append(f"  advice: {row.advice}")
    return lines


def _accesses(reads: str, writes: str) -> str:
    found = [f"reads {reads}"] if reads else []
    found += [f"writes {writes}"] if writes else []
    return ", ".join(found) or "not used"


def _links(tables: Tables) -> list[str]:
    rows = [
        [
            link.kind,
            f"{link.source} > {link.target}",
            str(link.copies),
            size(link.nbytes),
            _ms(link.ns),
            f"{link.gb_per_s:.2f}",
            "-" if link.percent is None else f"{link.percent:.0f}",
        ]
        for link in tables.links
    ]
    head = ("link", "from > to", "copies", "bytes", "ms", "GB/s", "% of the link")
    return _aligned(head, rows, left=2) or ["nothing was copied between memories"]


def _nodes(tables: Tables) -> list[str]:
    rows = [
        [
            f"{row.source} > {row.target}",
            row.way,
            str(row.copies),
            size(row.nbytes),
            _ms(row.ns),
            f"{row.gb_per_s:.2f}",
        ]
        for row in tables.nodes
    ]
    return _aligned(("from node > to node", "through", "copies", "bytes", "ms", "GB/s"), rows, left=2)


def tables_json(tables: Tables) -> str:
    """Everything, for programs; ``design/0007-profile.md`` has the fields."""
    found = asdict(tables)
    for row, function in zip(
        found["calls"] + found["commands"], (*tables.calls, *tables.commands), strict=True
    ):
        row["average_ns"] = function.average_ns
    for row, kernel in zip(found["kernels"], tables.kernels, strict=True):
        row["speed_up"], row["moved_nbytes"] = kernel.speed_up, kernel.moved_nbytes
    for row, link in zip(found["links"], tables.links, strict=True):
        row["gb_per_s"], row["percent"] = link.gb_per_s, link.percent
    for row, between in zip(found["nodes"], tables.nodes, strict=True):
        row["gb_per_s"] = between.gb_per_s
    return json.dumps(found, indent=1)


def tables_csv(tables: Tables) -> dict[str, str]:
    """File name to text: calls, commands, kernels, arguments (what moved for them), losses (by kernel),
    members (losses by member), links, nodes (what went between them).
    """
    kernels = [
        [
            row.name, row.launches, row.split, row.whole, "; ".join(row.why_whole), "; ".join(row.cuts),
            row.failed, row.ns, *row.member_ns, f"{row.imbalance_percent:.3f}", row.replays,
            row.bindings, row.plans, row.new_plans, row.bind_ns, row.issue_ns, row.moved_nbytes,
            row.merged_nbytes, row.merge_ns, row.by_address, row.regions, row.reached_nbytes,
            "" if row.speed_up is None else f"{row.speed_up:.4f}",
        ]
        for row in tables.kernels
    ]  # fmt: skip
    kernel_head = [
        "kernel", "launches", "split", "whole", "why_whole", "cuts", "failed", "ns",
        *(f"member_{k}_ns" for k in range(len(tables.members))), "imbalance_percent", "replays",
        "bindings", "plans", "new_plans", "bind_ns", "issue_ns", "moved_nbytes", "merged_nbytes", "merge_ns",
        "by_address", "regions", "reached_nbytes", "speed_up",
    ]  # fmt: skip
    arguments = [
        [row.name, one.argument, one.copies, one.nbytes, one.ns]
        for row in tables.kernels
        for one in row.arguments
    ]
    links = [
        [
            x.kind,
            x.source,
            x.target,
            x.copies,
            x.nbytes,
            x.ns,
            x.gb_per_s,
            "" if x.percent is None else x.percent,
        ]
        for x in tables.links
    ]
    losses = [[row.kernel, *(round(row.ns[name]) for name in CLASSES)] for row in tables.losses]
    members = [[number, *classes.values()] for number, classes in enumerate(tables.member_losses)]
    link_head = ["kind", "source", "target", "copies", "nbytes", "ns", "gb_per_s", "percent_of_link"]
    return {
        "calls.csv": _csv(FUNCTION_COLUMNS, functions(tables.calls)),
        "commands.csv": _csv(FUNCTION_COLUMNS, functions(tables.commands)),
        "kernels.csv": _csv(kernel_head, kernels),
        "arguments.csv": _csv(["kernel", "argument", "copies", "nbytes", "ns"], arguments),
        "losses.csv": _csv(["kernel", *(f"{name}_ns" for name in CLASSES)], losses),
        "members.csv": _csv(["member", *(f"{name}_ns" for name in CLASSES)], members),
        "links.csv": _csv(link_head, links),
        "nodes.csv": _csv(
            ["source", "target", "way", "copies", "nbytes", "ns", "gb_per_s"],
            [[x.source, x.target, x.way, x.copies, x.nbytes, x.ns, x.gb_per_s] for x in tables.nodes],
        ),
    }


def _csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()
