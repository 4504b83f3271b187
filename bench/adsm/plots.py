"""The figures as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.adsm.measure import UPDATES, Measured
from bench.adsm.programs import load
from bench.adsm.report import Figures, by_program, share
from bench.figures.plots import COLOURS


def draw(figures: Figures, folder: Path, stem: str) -> list[str]:
    """Draw what there are figures for; the names of the files.  Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = []
    for name, found in figures.items():
        kind, members = name.split(", ")
        if not found:
            continue
        shapes = {"programs": _programs, "stencil": _stencil, "blocks": _blocks, "rolling": _rolling}
        figure = shapes[kind](plt, found)
        names.append(f"{stem}-{kind}-{members}.png")
        figure.savefig(folder / names[-1], dpi=90, bbox_inches="tight")
        plt.close(figure)
    return names


def _style(axes: Any, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _bars(axes: Any, series: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        at = [k - 0.4 + width * (number + 0.5) for k in range(len(names))]
        axes.bar(at, values, width * 0.92, label=label, color=COLOURS[number])
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.legend(frameon=False)


def _programs(plt: Any, found: Sequence[Measured]) -> Any:
    rows = by_program(found)
    titles = [load(name).TITLE for name in rows]
    figure, (times, moved) = plt.subplots(1, 2, figsize=(13, 4))
    slower = {
        u: [row[u].parts["all"] / row["buffers"].parts["all"] for row in rows.values()] for u in UPDATES
    }
    _bars(times, slower, titles)
    _style(times, "Figure 7: times as long as on buffers", "buffers = 1")
    shares = {u: [sum(share(row[u], row["batch"])) for row in rows.values()] for u in UPDATES[1:]}
    _bars(moved, shares, titles)
    _style(moved, "Figure 8: bytes moved", "batch = 1")
    return figure


def _stencil(plt: Any, found: Sequence[Measured]) -> Any:
    rows = by_program(found)
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    for number, update in enumerate(next(iter(rows.values()))):
        dashed = "--" if number >= len(COLOURS) else "-"
        values = [row[update].parts["all"] if update in row else float("nan") for row in rows.values()]
        axes.plot([*rows], values, dashed, marker="o", label=update, color=COLOURS[number % len(COLOURS)])
    axes.set_yscale("log")
    axes.set_xlabel("side of the volume")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    _style(axes, "Figure 9: stencil", "s")
    return figure


def _blocks(plt: Any, found: Sequence[Measured]) -> Any:
    rolling = [each for each in found if each.update.startswith("rolling")]
    names = [each.update.removeprefix("rolling:") for each in rolling]
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    for number, part in enumerate(("fill", "launch", "read", "all")):
        axes.plot(
            names, [each.parts[part] for each in rolling], marker="o", label=part, color=COLOURS[number]
        )
    for number, each in enumerate(each for each in found if each not in rolling):
        axes.axhline(each.parts["all"], linestyle=":", color=COLOURS[-1 - number])
        axes.text(len(names) - 0.9, each.parts["all"], f"{each.update}, all", va="center")
    axes.set_xlabel("block")
    axes.legend(frameon=False)
    _style(axes, "Figure 11: two vectors are filled, added, and the sum is read", "s")
    return figure


def _rolling(plt: Any, found: Sequence[Measured]) -> Any:
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    for number, most in enumerate(("1", "2", "4")):
        row = [
            each for each in found if each.update.startswith("rolling") and each.update.endswith(f":{most}")
        ]
        names = [each.update.split(":")[1] for each in row]
        times = [each.parts["fill"] for each in row]
        axes.plot(names, times, marker="o", label=f"at most {most}", color=COLOURS[number])
    axes.set_yscale("log")
    axes.set_xlabel("block")
    axes.legend(frameon=False)
    _style(axes, "Figure 12: TPACF, points made in three passes", "s")
    return figure
