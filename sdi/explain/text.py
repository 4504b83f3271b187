"""Notes on kernels and launches as lines for people."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sdi.explain.notes import AppendNote, ArgumentNote, BufferNote, KernelNote, LaunchNote, RangesNote
from sdi.ndrange import Int3
from sdi.sizes import size

_WRITES = {
    "exact": "known exactly",
    "cover": "in the ranges below, where data say so",
    "may": "somewhere in the ranges below",
    "whole": "perhaps anywhere in the buffer",
    "atomic": "atomic updates, on a copy of each member's own that is combined with the others",
}
_READS = {"ranges": "within the ranges below", "whole": "perhaps anywhere in the buffer"}


def kernel_lines(note: KernelNote, launch: LaunchNote | None) -> list[str]:
    """How the kernel runs, why, and what it does to each pointer argument."""
    lines = [f"kernel {note.name}, line {note.line}: {_how(note, launch)}"]
    if note.advice:
        lines.append(f"  to have it split: {note.advice}")
    if note.follows_pointers:
        lines.append(
            f"  follows pointers (line {note.follows_pointers}): members use shared virtual memory where the "
            "application has it"
        )
    lines += [_append_line(each) for each in note.appends]
    if note.watched:
        names = ", ".join(note.watched)
        lines.append(
            f"  uses results of atomic functions on {names}: counts as it is where at most one member has "
            "changed that; else members run one after the other"
        )
    if note.claimed:
        lines.append(
            f"  writes {', '.join(note.claimed)} only where it uses these results: what several members "
            "may write there counts with them, where it is little"
        )
    precisions = {p.name: p for p in launch.precision} if launch else {}
    for argument in note.arguments:
        lines += _argument_lines(argument)
        known = precisions.get(argument.name)
        if known is not None and known.writes:
            lines.append(f"    writes: {_WRITES[known.writes]}")
        if known is not None and known.reads == "whole":
            lines.append(f"    reads: {_READS[known.reads]}")
        lines += [f"    line {reason.line}: {reason.text}" for reason in argument.reasons]
    return lines + _legend(note)


def _append_line(note: AppendNote) -> str:
    """What an atomic addition whose result is used does."""
    line = f"  line {note.line}: {note.counter} hands out places"
    if note.stores:
        line += f" in {', '.join(note.stores)}: what members append there is put together, in any order"
    if note.limited:
        line += "; where a limit is reached members run one after the other"
    return line


def _legend(note: KernelNote) -> list[str]:
    """What the words mean that are not the author's."""
    text = " ".join(f"{a.form} {a.when}" for argument in note.arguments for a in argument.accesses)
    counters = sorted(set(re.findall(r"\bi[0-9]+\b", text)), key=lambda name: int(name[1:]))
    said = [f"{', '.join(counters)}: iterations of loops, from 0"] if counters else []
    if "..." in text:
        said.append("...: a value that is not followed, such as data")
    return [f"  ({'; '.join(said)})"] if said else []


def _how(note: KernelNote, launch: LaunchNote | None) -> str:
    if launch is None:
        return f"always whole on one member ({note.why_whole})" if note.why_whole else "may be split"
    groups = f"{by(launch.num_groups)} work-groups of {by(launch.local_size)}"
    if launch.why_whole:
        return f"whole on one member ({launch.why_whole}); {groups}"
    cut = f"cut {by(launch.cut)}" if all(launch.cut) else "cut unevenly"
    return f"split over {len(launch.members)} members, {cut} of {groups}{_shares(launch)}"


def _shares(launch: LaunchNote) -> str:
    """Unequal parts of the dimension that is cut, for people; empty where they are equal."""
    sliced = [dim for dim in range(3) if launch.cut[dim] > 1]
    if len(sliced) != 1:
        return ""
    sizes = [member.stop[sliced[0]] - member.start[sliced[0]] for member in launch.members]
    if max(sizes) - min(sizes) <= 1:
        return ""
    return f", in shares of {', '.join(f'{100 * one / sum(sizes):.0f} %' for one in sizes)} as measured"


def _argument_lines(argument: ArgumentNote) -> list[str]:
    lines = [f"  {argument.name} ({argument.type})"]
    guards = {access.when for access in argument.accesses}
    shared = len(guards) == 1 and len(argument.accesses) > 1
    for access in argument.accesses:
        at = ", ".join(str(line) for line in access.lines)
        when = f" when {access.when}" if access.when and not shared else ""
        word = "line" if len(access.lines) == 1 else "lines"
        lines.append(f"    {access.mode}s {access.form}{when}, {word} {at}")
    if shared and guards != {""}:
        lines.append(f"    all of these when {guards.pop()}")
    if not argument.accesses:
        lines.append("    not used" if not argument.reasons else "    not followed")
    return lines


def member_lines(launch: LaunchNote, nodes: Sequence[int] = ()) -> list[str]:
    """What each member runs, needs and writes.  ``nodes``: of all members, where there are several."""
    lines = []
    for member in launch.members:
        where = f" on node {nodes[member.member]}" if nodes else ""
        lines.append(f"  member {member.member}{where} runs groups {member.start} to {member.stop}")
        for buffer in member.buffers:
            lines += _buffer_lines(buffer)
    return lines


def _buffer_lines(buffer: BufferNote) -> list[str]:
    names = ", ".join(buffer.arguments)
    kinds = (("needs", buffer.needs), ("writes", buffer.writes), ("merges", buffer.merged))
    return [f"    {names}: {word} {ranges_text(found)}" for word, found in kinds if found.nbytes]


def ranges_text(found: RangesNote) -> str:
    """``64.0 KiB [0, 65536)``, ``16.0 KiB [0, 64) x 256 every 4096``, or with the first ones of many."""
    shown = " ".join(_region_text(*each) for each in found.ranges)
    more = found.pieces - len(found.ranges)
    return f"{size(found.nbytes)} {shown}" + (f" and {more} more" if more else "")


def _region_text(start: int, stop: int, *levels: int) -> str:
    rows = zip(levels[::2], levels[1::2], strict=True)
    return f"[{start}, {stop})" + "".join(f" x {count} every {stride}" for stride, count in rows)


def by(sizes: Sequence[int] | Int3) -> str:
    """``16 x 16`` for (16, 16, 1): trailing ones are left out."""
    kept = list(sizes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " x ".join(str(number) for number in kept)
