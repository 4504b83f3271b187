"""The figures as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import summary
from bench.figures.setups import Setup

COLOURS = ("#3b6fb6", "#e08e2b", "#4a9d5f", "#b5484b", "#8064a2", "#6c6c6c")


def draw(raw: Mapping[str, Any], folder: Path, stem: str) -> list[str]:
    """Draw what there are figures for; the names of the files.  Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    applications = raw["applications"]
    several = sorted({n for a in applications.values() for n in a["members"] if n > 1})
    drawn = [
        _links(raw["links"], folder, f"{stem}-fig07-links.png"),
        _speed_ups(applications, several, folder, f"{stem}-fig11-speed-up.png"),
        _kernel_times(applications, several, folder, f"{stem}-fig12-kernels.png"),
        _times(applications, several, folder, f"{stem}-fig13-times.png"),
        _traffic(applications, several, folder, f"{stem}-fig13-traffic.png"),
        _beyond(raw["beyond"], applications, folder, f"{stem}-fig15-beyond.png"),
    ]
    return [name for name in drawn if name]


def _save(figure: Any, folder: Path, name: str) -> str:
    import matplotlib.pyplot as plt

    figure.savefig(folder / name, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return name


def _bars(
    title: str, unit: str, names: Sequence[str], series: Mapping[str, Sequence[float | None]]
) -> tuple[Any, Any]:
    """Groups of bars, one group for each name; missing values leave a gap."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(max(6.0, 0.95 * len(names) + 2), 4.2))
    width = 0.8 / max(len(series), 1)
    for number, (label, values) in enumerate(series.items()):
        at = [k - 0.4 + width * (number + 0.5) for k in range(len(names))]
        heights = [0.0 if value is None else value for value in values]
        axes.bar(at, heights, width * 0.92, label=label, color=COLOURS[number % len(COLOURS)])
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return figure, axes


def _titles(applications: Mapping[str, Any]) -> list[str]:
    return [measured.get("title", name) for name, measured in applications.items()]


def _speed_ups(applications: Mapping[str, Any], several: Sequence[int], folder: Path, name: str) -> str:
    if not applications:
        return ""
    found = list(applications.values())
    plain = [summary.wall(measured, Setup(0)) for measured in found]
    series: dict[str, list[float | None]] = {}
    for n in [1, *several]:
        series[Setup(n).label] = [
            summary.ratio(one, summary.wall(measured, Setup(n)))
            for one, measured in zip(plain, found, strict=True)
        ]
    figure, axes = _bars(
        "Speed-up over one device on the plain driver (line: Amdahl's ideal)",
        "times as fast",
        _titles(applications),
        series,
    )
    width = 0.8 / len(series)
    for number, n in enumerate([1, *several]):
        for k, measured in enumerate(found):
            fraction = summary.parallel_fraction(measured)
            if fraction is not None:
                left = k - 0.4 + width * number
                axes.hlines(summary.ideal(fraction, n), left, left + width, colors="black", linewidth=1.4)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return _save(figure, folder, name)


def _kernel_times(applications: Mapping[str, Any], several: Sequence[int], folder: Path, name: str) -> str:
    if not applications or not several:
        return ""
    series: dict[str, list[float | None]] = {}
    for n in several:
        found = series[Setup(n).label] = []
        for measured in applications.values():
            spans, one = summary.spans(measured, Setup(n)), summary.spans(measured, Setup(1))
            found.append(spans.mean_kernel_ns / one.mean_kernel_ns if spans and one else None)
    figure, axes = _bars(
        "Kernel time per member (line: the busiest)", "one member = 1", _titles(applications), series
    )
    width = 0.8 / len(series)
    for number, n in enumerate(several):
        for k, measured in enumerate(applications.values()):
            spans, one = summary.spans(measured, Setup(n)), summary.spans(measured, Setup(1))
            if spans and one:
                left, most = k - 0.4 + width * number, max(spans.kernel_ns) / one.mean_kernel_ns
                axes.hlines(most, left, left + width, colors="black", linewidth=1.2)
    for n in several:
        axes.axhline(1 / n, color="black", linewidth=0.8, linestyle=":")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return _save(figure, folder, name)


def _times(applications: Mapping[str, Any], several: Sequence[int], folder: Path, name: str) -> str:
    """Stacked bars: time in which copies and merges went on, as parts of one member's run."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    setups = [Setup(1), *(Setup(n, c) for n in several for c in ("lazy", "host"))]
    names = _titles(applications)
    if not applications:
        return ""
    figure, axes = plt.subplots(figsize=(max(6.0, 1.25 * len(names) + 2), 4.2))
    width = 0.84 / len(setups)
    parts = ("copy_ns", "merge_ns", "application_ns")
    for k, measured in enumerate(applications.values()):
        one = summary.wall(measured, Setup(1))
        for number, setup in enumerate(setups):
            found = summary.spans(measured, setup)
            if found is None or one is None:
                continue
            bottom = 0.0
            for colour, part in zip(COLOURS, parts, strict=False):
                height = 100 * getattr(found, part) / one.median
                hatch = "////" if setup.coherence == "host" else None
                at = k - 0.42 + width * (number + 0.5)
                axes.bar(at, height, width * 0.9, bottom=bottom, color=colour, hatch=hatch)
                bottom += height
    labels = ["copies between memories", "consistency", "the application's reads and writes"]
    handles = [Patch(color=c) for c in COLOURS[: len(parts)]]
    axes.legend(handles, labels, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
    order = ", ".join(str(n) for n in [1, *several])
    axes.set_title(f"Transfer and consistency time in a run, {order} members\n(hatched: through the host)")
    axes.set_ylabel("% of one member's run")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return _save(figure, folder, name)


def _traffic(applications: Mapping[str, Any], several: Sequence[int], folder: Path, name: str) -> str:
    """Stacked bars by link, relative to what one member copies."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    setups = [Setup(1), *(Setup(n, c) for n in several for c in ("lazy", "host"))]
    names = _titles(applications)
    if not applications:
        return ""
    figure, axes = plt.subplots(figsize=(max(6.0, 1.25 * len(names) + 2), 4.2))
    width = 0.84 / len(setups)
    parts = ("host_to_member", "member_to_host", "member_to_member", "merged")
    for k, measured in enumerate(applications.values()):
        one = summary.traffic(measured, Setup(1))
        for number, setup in enumerate(setups):
            moved = summary.traffic(measured, setup)
            if moved is None or one is None or not one.total:
                continue
            bottom = 0.0
            for colour, part in zip(COLOURS, parts, strict=False):
                height = getattr(moved, part) / one.total
                hatch = "////" if setup.coherence == "host" else None
                at = k - 0.42 + width * (number + 0.5)
                axes.bar(at, height, width * 0.9, bottom=bottom, color=colour, hatch=hatch)
                bottom += height
    labels = [part.replace("_", " ") for part in parts]
    handles = [Patch(color=c) for c in COLOURS[: len(parts)]]
    axes.legend(handles, labels, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
    order = ", ".join(str(n) for n in [1, *several])
    axes.set_title(f"Bytes copied and merged in a run, {order} members\n(hatched: through the host)")
    axes.set_ylabel("copies of one member = 1")
    axes.set_yscale("symlog", linthresh=1)
    axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, folder, name)


def _links(links: Mapping[str, Any], folder: Path, name: str) -> str:
    import matplotlib.pyplot as plt

    if "seconds" not in links:
        return ""
    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for colour, (link, times) in zip(COLOURS, links["seconds"].items(), strict=False):
        sizes = sorted(map(int, times))
        axes.plot(
            [n / 2**20 for n in sizes], [times[str(n)] * 1e3 for n in sizes], "o-", color=colour, label=link
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("MiB")
    axes.set_ylabel("ms")
    axes.set_title("Transfer time")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return _save(figure, folder, name)


def _beyond(beyond: Mapping[str, Any], applications: Mapping[str, Any], folder: Path, name: str) -> str:
    labels = list(dict.fromkeys(label for found in beyond.values() for label in found["setups"]))
    series: dict[str, list[float | None]] = {}
    for label in labels:
        series[label] = []
        for found in beyond.values():
            best = {
                each: min(run["wall_ns"] for run in samples[0]["runs"][1:])
                for each, samples in found["setups"].items()
                if samples and "error" not in samples[0]
            }
            one = best.get(Setup(1).label)
            series[label].append(one / best[label] if one and label in best else None)
    if not any(value for values in series.values() for value in values):
        return ""
    titles = [applications.get(name, {}).get("title", name) for name in beyond]
    figure, axes = _bars(
        "Problems larger than one member's memory", "times as fast as one member", titles, series
    )
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return _save(figure, folder, name)
