"""Tables of what was measured, with what papers/5 says beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.adsm.measure import UPDATES, Measured
from bench.adsm.programs import load

MIB = 1 << 20
Figures = Mapping[str, Sequence[Measured]]
PAPER = {
    7: "batch up to 65.18 (pns) and 18.61 (rpes) times as long as CUDA by hand, others less; lazy and rolling"
    " as long as CUDA, some a little shorter",
    8: "lazy and rolling move less than half of what batch moves, in each program; rolling less than lazy in"
    " mri-q",
    9: "rolling shorter than lazy at all sizes, more so the larger; blocks of 32 MB longer than 256 KB and"
    " 1 MB, least so at 384 x 384 x 384",
    10: "signals that tell of accesses take less than 2 % of each program's time",
    11: "two vectors of 8 M: time falls steeply from 4 to 16 KB, since faults cost more than copies there;"
    " bandwidth grows up to 32 MB; 64 KB is better than the next, since blocks that go early overlap",
    12: "at most 1 or 2 blocks: time grows with the block, data go again and again, until a block holds what"
    " a pass needs (4 and 2 MB); at most 4: the same for all blocks",
}


def line(each: Measured) -> str:
    """For who waits."""
    what = " ".join(map(str, (each.run, *each.arguments)))
    bytes_moved = f"{each.to_members / MIB:.1f} MiB to members, {each.to_host / MIB:.1f} home"
    faults = f"{each.faults} faults in {each.faults_s:.3f} s"
    return (
        f"{what}, {each.members} members, {each.update}: {each.parts['all']:.3f} s, {bytes_moved}, {faults}"
    )


def report(figures: Figures, about: Mapping[str, object], pictures: Sequence[str]) -> str:
    """All of it in Markdown."""
    lines = [
        "# Updates of fine-grained memory: papers/5, section 5",
        "",
        f"`python -m bench.adsm --size {about['size']} --rounds {about['rounds']}` at {about['commit']}, "
        f"{about['where']}: medians; each run is a process",
        "of its own, in turn, and its second run counts. Members have copies of their own (`SDI_FINE_GRAIN`, "
        "`SDI_SPLIT=always`). buffers: the same program on buffers,",
        "copied where it knows that it must. What the paper found is of a GPU of 2008 behind PCIe.",
        "",
    ]
    for name, found in figures.items():
        figure, members = name.split(", ")
        lines += {
            "programs": _programs,
            "stencil": _stencil,
            "blocks": _blocks,
            "rolling": _rolling,
        }[figure](found, members)
    return "\n".join([*lines, *(f"![{picture}]({picture})" for picture in pictures)]).rstrip() + "\n"


def _head(number: int, title: str, members: str) -> list[str]:
    plural = "s" * (members != "1")
    return [f"## Figure {number}: {title}, {members} member{plural}", "", f"The paper: {PAPER[number]}.", ""]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first row is the head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:], ""]


def by_program(found: Sequence[Measured]) -> dict[str, dict[str, Measured]]:
    """By the program's first argument and update."""
    rows: dict[str, dict[str, Measured]] = {}
    for each in found:
        rows.setdefault(str(each.arguments[0]), {})[each.update] = each
    return rows


def share(each: Measured, batch: Measured) -> tuple[float, float]:
    """Bytes to members and home, of all that batch moves."""
    total = max(batch.to_members + batch.to_host, 1)
    return each.to_members / total, each.to_host / total


def _programs(found: Sequence[Measured], members: str) -> list[str]:
    rows = by_program(found)
    times, moved, faults = (
        [["", "buffers, s", *UPDATES]],
        [["", "batch, MiB", *UPDATES[1:]]],
        [["", "lazy", "rolling"]],
    )
    for name, row in rows.items():
        title, one = load(name).TITLE, row["buffers"].parts["all"]
        times.append([title, f"{one:.3f}", *(f"{row[u].parts['all'] / one:.2f}" for u in UPDATES)])
        batch = row["batch"]
        both = f"{batch.to_members / MIB:.1f} + {batch.to_host / MIB:.1f}"
        moved.append(
            [title, both, *(" + ".join(f"{s:.2f}" for s in share(row[u], batch)) for u in UPDATES[1:])]
        )
        faults.append(
            [title]
            + [
                f"{row[u].faults}, {100 * row[u].faults_s / row[u].parts['all']:.1f} %"
                for u in ("lazy", "rolling")
            ]
        )
    return [
        *_head(7, "times as long as the program on buffers", members),
        *table(times),
        *_head(8, "bytes, to members + home, as a share of what batch moves", members),
        *table(moved),
        *_head(10, "faults, and time until they were answered, bytes included", members),
        *table(faults),
    ]


def _stencil(found: Sequence[Measured], members: str) -> list[str]:
    rows = by_program(found)
    updates = [*next(iter(rows.values()))]
    lines = [["side", *updates]]
    for side, row in rows.items():
        cells = [
            f"{row[u].parts['all']:.3f} ({row[u].to_members / MIB:.0f} + {row[u].to_host / MIB:.0f})"
            if u in row
            else ""
            for u in updates
        ]
        lines.append([side, *cells])
    return [*_head(9, "stencil, s (MiB to members + home)", members), *table(lines)]


def _blocks(found: Sequence[Measured], members: str) -> list[str]:
    lines = [["", "fill, s", "launch", "read", "all", "faults", "MiB to members + home"]]
    for each in found:
        parts = [f"{each.parts[part]:.3f}" for part in ("fill", "launch", "read", "all")]
        lines.append(
            [each.update, *parts, str(each.faults), f"{each.to_members / MIB:.0f} + {each.to_host / MIB:.0f}"]
        )
    return [*_head(11, "two vectors are filled, added, and the sum is read", members), *table(lines)]


def _rolling(found: Sequence[Measured], members: str) -> list[str]:
    rows: dict[str, dict[str, Measured]] = {}
    for each in found:
        word, *numbers = each.update.split(":")
        rows.setdefault(numbers[0] if numbers else word, {})[numbers[1] if numbers else "4"] = each
    lines = [["block", "at most 1: fill, s (faults)", "at most 2", "at most 4, or any"]]
    for block, row in rows.items():
        cells = [row.get(most) for most in ("1", "2", "4")]
        lines.append([block, *(f"{c.parts['fill']:.3f} ({c.faults})" if c else "" for c in cells)])
    return [*_head(12, "TPACF, points made in three passes", members), *table(lines)]
