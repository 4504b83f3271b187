"""A profile as one HTML file that needs nothing else: charts by plotly, light or dark as the system is.

The one home of plotly, which is optional: ``pip install 'sdi[report]'``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from plotly.offline import get_plotlyjs

from sdi.profile.analyse.classes import CLASSES, NO_KERNEL
from sdi.profile.analyse.model import AssignmentSpan, Profile, SessionProfile
from sdi.profile.analyse.tables import KernelRow, Tables
from sdi.profile.show.text import FUNCTION_COLUMNS, functions, table_text, title
from sdi.sizes import size

SPANS_MAX = 4000
"""Spans drawn per track of the timeline; of more, the longest."""
_KERNELS = ("#2e9e5b", "#e0a100", "#c94f7c", "#1aa6a6", "#d9793d", "#6f8f2f", "#b03a3a", "#7a6a58")
"""For few kernels; for more ``_kernel_colours`` makes them."""

_STYLE = """
:root { --paper: #ffffff; --ink: #1d2329; --rule: #d5dae0; --soft: #f4f6f8; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --ink: #e3e7eb; --rule: #39414a; --soft: #1d232a; }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 1100px; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
pre { background: var(--soft); padding: 1rem; overflow-x: auto; font-size: 13px; }
.chart { width: 100%; } .note { opacity: .75; }
"""
_SCRIPT = """
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function colours() {
  const ink = dark.matches ? "#e3e7eb" : "#1d2329", rule = dark.matches ? "#39414a" : "#d5dae0";
  const clear = "rgba(0,0,0,0)";
  return { paper_bgcolor: clear, plot_bgcolor: clear, "font.color": ink,
    "xaxis.gridcolor": rule, "yaxis.gridcolor": rule,
    "xaxis.zerolinecolor": rule, "yaxis.zerolinecolor": rule };
}
for (const [id, figure] of Object.entries(CHARTS))
  Plotly.newPlot(id, figure.data, figure.layout, { responsive: true, displayModeBar: false })
    .then(() => Plotly.relayout(id, colours()));
dark.addEventListener("change", () => Object.keys(CHARTS).forEach((id) => Plotly.relayout(id, colours())));
"""

Chart = dict[str, Any]
"""A figure as plotly.js takes it: ``data`` and ``layout``."""


def page(profile: Profile, tables: Tables) -> str:
    """The report."""
    charts: dict[str, tuple[str, str, Chart]] = {
        "losses": ("Where each kernel's time went", _LOSSES_NOTE, losses_chart(tables)),
        "idle": ("Where each member's time went", _IDLE_NOTE, idle_chart(tables)),
        "members": ("Kernels on each member", "Time in which a member computed.", members_chart(tables)),
        "timeline": ("Timeline", _timeline_note(profile), timeline_chart(profile)),
    }
    if tables.links:
        note = "Bytes between memories; the application's own reads and writes end in the host."
        charts["traffic"] = ("Traffic between memories", note, traffic_chart(tables))
    charts = {name: chart for name, chart in charts.items() if chart[2]["data"]}
    sections = [
        f'<h2>{html.escape(title)}</h2><p class="note">{html.escape(note)}</p>'
        f'<div class="chart" id="{name}"></div>'
        for name, (title, note, _) in charts.items()
    ]
    found = json.dumps({name: chart for name, (_, _, chart) in charts.items()}).replace("</", "<\\/")
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>sdi profile</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head><body>",
            f"<h1>{title(tables)}</h1>",
            "" if tables.is_complete else _INCOMPLETE,
            *sections,
            _classes(),
            _worst(profile, tables),
            _function_table("Host API calls", tables, "calls"),
            _function_table("Device commands", tables, "commands"),
            f"<h2>Everything else</h2><pre>{html.escape(table_text(tables))}</pre>",
            f"<script>const CHARTS = {found};{_SCRIPT}</script></body></html>",
        ]
    )


_INCOMPLETE = (
    "<p>The service was killed, or had no room to write everything: the last moments are missing.</p>"
)
_LOSSES_NOTE = "Wall time around a kernel by what the members did with it, in the mean over the members."
_IDLE_NOTE = "All of the wall time by what a member did with it, also what has to do with no kernel."


def losses_chart(tables: Tables) -> Chart:
    """A bar for each kernel, stacked by class of loss."""
    rows = [row for row in tables.losses if row.kernel != NO_KERNEL and any(row.ns.values())]
    return _classes_chart([row.kernel for row in rows], [row.ns for row in rows])


def idle_chart(tables: Tables) -> Chart:
    """A bar for each member, stacked by class of loss: each is as long as the wall time."""
    names = [f"member {k}" for k in range(len(tables.member_losses))]
    return _classes_chart(names, tables.member_losses)


def _classes_chart(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> Chart:
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [row[name] / 1e6 for row in rows],
            "marker": {"color": loss.colour},
            "hovertemplate": f"%{{y}}: {name} %{{x:.3f}} ms<extra></extra>",
        }
        for name, loss in CLASSES.items()
        if any(row[name] for row in rows)
    ]
    return {"data": data, "layout": _layout("ms", len(rows), barmode="stack")}


def _colour(name: str) -> str:
    loss = CLASSES.get(name)
    return "#888888" if loss is None else loss.colour


def _kernel_colours(names: Sequence[str]) -> dict[str, str]:
    """A colour of its own for each kernel, none of copies or merges: blue and violet are theirs."""
    if len(names) <= len(_KERNELS):
        return dict(zip(names, _KERNELS, strict=False))
    return {
        name: f"hsl({(290 + 240 * k // len(names)) % 360}, 60%, {(36, 52, 68)[k % 3]}%)"
        for k, name in enumerate(names)
    }


def members_chart(tables: Tables) -> Chart:
    """A bar for each member, stacked by kernel."""
    members = [f"member {k}" for k in range(len(tables.members))]
    colours = _kernel_colours([row.name for row in tables.kernels])
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": row.name,
            "y": members,
            "x": [ns / 1e6 for ns in row.member_ns],
            "marker": {"color": colours[row.name]},
            "hovertemplate": f"%{{y}}: {html.escape(row.name)} %{{x:.3f}} ms<extra></extra>",
        }
        for row in tables.kernels
    ]
    return {"data": data, "layout": _layout("ms", len(members), barmode="stack", series=len(data))}


def timeline_chart(profile: Profile) -> Chart:
    """When kernels and copies ran on each member, and the host merged."""
    origin_ns = min((session.opened_ns for session in profile.sessions), default=0)
    names = dict.fromkeys(name for session in profile.sessions for name in session.kernel_names())
    colours = _kernel_colours(list(names))
    bars: dict[str, dict[str, list[Any]]] = {}
    tracks: dict[str, None] = {}
    for session in profile.sessions:
        kernels = {launch.command: launch.kernel for launch in session.launches}
        for track, name, start_ns, end_ns in _longest(_timeline(session, kernels)):
            tracks[track] = None
            bar = bars.setdefault(name, {"y": [], "base": [], "x": []})
            bar["y"].append(track)
            bar["base"].append((start_ns - origin_ns) / 1e6)
            bar["x"].append((end_ns - start_ns) / 1e6)
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            **bar,
            "width": 0.8,
            "marker": {"color": colours.get(name) or _colour(name), "line": {"width": 0}},
            "hovertemplate": f"{html.escape(name)} from %{{base:.3f}} ms, %{{x:.3f}} ms<extra></extra>",
        }
        for name, bar in bars.items()
    ]
    layout = _layout("ms since the session began", len(tracks), barmode="overlay", series=len(data))
    layout["yaxis"] |= {"categoryorder": "array", "categoryarray": sorted(tracks, reverse=True)}
    return {"data": data, "layout": layout}


_Bar = tuple[str, str, int, int]
"""Track, name, start and end."""


def _timeline(session: SessionProfile, kernels: dict[int, str]) -> list[_Bar]:
    assignments: Sequence[AssignmentSpan] = session.assignments
    found = [
        (f"member {p.member} kernels", kernels.get(p.command, "?"), p.start_ns, p.end_ns)
        for p in assignments
        if p.end_ns > p.start_ns
    ]
    for copy in session.copies:
        if copy.end_ns > copy.start_ns:
            ends = session.member(copy.target), session.member(copy.source)
            member = next((end for end in ends if end is not None), None)
            where = f"member {member}" if member is not None else f"node {session.node(copy.source)}"
            found.append((f"{where} copies", "copies", copy.start_ns, copy.end_ns))
    for work in session.works:
        if work.end_ns > work.start_ns:
            track = "host" if work.member < 0 else f"member {work.member} copies"
            found.append(
                (track, "consistency" if work.what == "merge" else "copies", work.start_ns, work.end_ns)
            )
    return found


def _timeline_note(profile: Profile) -> str:
    drawn = left = 0
    for session in profile.sessions:
        bars = _timeline(session, {})
        drawn, left = drawn + len(bars), left + len(bars) - len(_longest(bars))
    note = "Drag to zoom, double-click to go back."
    return f"{note} {left} short ones of {drawn} bars are left out." if left else note


def _longest(bars: list[_Bar]) -> list[_Bar]:
    """At most ``SPANS_MAX`` of each track."""
    by_track: dict[str, list[_Bar]] = {}
    for bar in bars:
        by_track.setdefault(bar[0], []).append(bar)
    return [
        bar
        for found in by_track.values()
        for bar in sorted(found, key=lambda one: one[2] - one[3])[:SPANS_MAX]
    ]


def traffic_chart(tables: Tables) -> Chart:
    """Bytes between the host, the members and nodes' own memory, as flows from the left to the right."""
    nodes = ["host", *map(str, range(len(tables.members)))]
    own = dict.fromkeys(end for row in tables.links for end in (row.source, row.target) if end not in nodes)
    labels = ["host", *(f"member {m}" for m in range(len(tables.members))), *(f"{end}'s own" for end in own)]
    nodes += own
    count = len(nodes)
    link: dict[str, Any] = {
        "source": [nodes.index(row.source) for row in tables.links],
        "target": [count + nodes.index(row.target) for row in tables.links],
        "value": [row.nbytes for row in tables.links],
        "label": [f"{row.kind}: {size(row.nbytes)}, {row.gb_per_s:.2f} GB/s" for row in tables.links],
        "color": "rgba(128, 138, 150, 0.4)",
        "hovertemplate": "%{label}<extra></extra>",
    }
    used = {end for row in tables.links for end in (nodes.index(row.source), count + nodes.index(row.target))}
    node = {
        "label": [label if k in used else "" for k, label in enumerate(labels + labels)],
        "color": ["#3b7dd8", *["#2e9e5b"] * (count - 1)] * 2,
        "pad": 18,
    }
    layout = {"height": 140 + 40 * count, "margin": {"l": 10, "r": 10, "t": 10, "b": 10}}
    return {"data": [{"type": "sankey", "node": node, "link": link}], "layout": layout}


def _layout(unit: str, rows: int, barmode: str, series: int = 0) -> dict[str, Any]:
    """``series``: how many names the legend has, if there may be many."""
    return {
        "barmode": barmode,
        "height": 130 + 34 * max(2, rows) + 20 * (series // 8),
        "margin": {"l": 10, "r": 10, "t": 10, "b": 45},
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "yaxis": {"automargin": True, "autorange": "reversed"}
        if barmode == "stack"
        else {"automargin": True},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
    }


def worst_kernel(tables: Tables) -> KernelRow | None:
    """The kernel with the most wall time in which members did not compute."""
    lost = {row.kernel: sum(row.ns.values()) - row.ns["computing"] for row in tables.losses}
    return max(tables.kernels, key=lambda row: lost.get(row.name, 0.0), default=None)


def _worst(profile: Profile, tables: Tables) -> str:
    worst = worst_kernel(tables)
    if worst is None:
        return ""
    lines = next((s.explained[worst.name].lines for s in profile.sessions if worst.name in s.explained), ())
    lost = next(row.ns for row in tables.losses if row.kernel == worst.name)
    largest = max((name for name in CLASSES if name != "computing"), key=lambda name: lost[name])
    ran = f"{worst.split} of its {worst.launches} launches were split"
    advice = worst.advice or f"{ran}; most is lost to {largest}: {lost[largest] / 1e6:.3f} ms."
    text = html.escape("\n".join(lines)) or "the service ended before it could explain its launches"
    return (
        f"<h2>Most is lost around kernel {html.escape(worst.name)}</h2>"
        f'<p id="advice">{html.escape(advice)}</p><pre>{text}</pre>'
    )


def _classes() -> str:
    rows = "".join(f"<dt>{html.escape(c.name)}</dt><dd>{html.escape(c.says)}</dd>" for c in CLASSES.values())
    return f'<h2>What the time is called</h2><dl id="classes">{rows}</dl>'


def _function_table(title: str, tables: Tables, which: str) -> str:
    rows = functions(tables.calls if which == "calls" else tables.commands)
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in FUNCTION_COLUMNS)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<h2>{title}</h2><table id="{which}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
