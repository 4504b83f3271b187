"""One sentence on whether a run gained by its members, from what was measured of its launches."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sdi.dataclass import dataclass

_EVEN = 1.05
"""Below this factor a run is about as fast."""
_MOST = 0.9
"""What is known of so many launches says something of all."""
_MUCH = 0.1
"""Such a part of the time is worth a word."""
_FILES = 0.25
"""Of a session's life, which also has building and what the application does."""


@dataclass(frozen=True, slots=True)
class TimedSize:
    """Launches of one kernel with about the same number of work-groups.

    ``may_split``: how many members ran them was chosen by these times.  ``group_ns``: by number of members,
    the time per work-group, added up over them.
    """

    may_split: bool
    group_ns: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Launches:
    """One kernel's launches in one session.

    ``counts``: how many had so many work-groups and ran on so many members.  ``timed``: by bits of the number
    of work-groups.
    """

    kernel: str
    why_whole: str
    counts: Mapping[tuple[int, int], int]
    timed: Mapping[int, TimedSize]


@dataclass(frozen=True, slots=True)
class Course:
    """One session.  ``split``: the setting, or "apart": each member is a device.

    ``assignment_ns``: what issuing for one more member costs.  ``elapsed_ns``: the session's life.
    ``between_members_ns``: of it, copies that one member does without.  ``files_ns``: for which files were
    read or written.
    """

    members: int
    split: str
    assignment_ns: float
    elapsed_ns: float
    between_members_ns: float
    launches: tuple[Launches, ...]
    files_ns: float = 0.0

    @staticmethod
    def from_json(text: str) -> Course:
        """From what a service writes.  Raises ValueError, KeyError, TypeError or AttributeError."""
        data = json.loads(text)
        launches = [
            Launches(
                str(name),
                str(entry["why_whole"]),
                {
                    (int(groups), int(members)): int(times)
                    for groups, by_members in entry["launch_groups"].items()
                    for members, times in by_members.items()
                },
                {
                    int(bits): TimedSize(
                        bool(timed["may_split"]), {int(k): float(ns) for k, ns in timed["group_ns"].items()}
                    )
                    for bits, timed in entry.get("timed", {}).items()
                },
            )
            for name, entry in data["kernels"].items()
        ]
        assignment_ns, elapsed_ns = float(data["assignment_ns"]), float(data["elapsed_ns"])
        between_ns, members = float(data["between_members_ns"]), int(data["members"])
        memory = data.get("memory", {})
        files_ns = float(memory.get("file_read_ns", 0)) + float(memory.get("file_written_ns", 0))
        split = str(data["split"])
        return Course(members, split, assignment_ns, elapsed_ns, between_ns, tuple(launches), files_ns)


@dataclass(slots=True)
class _Total:
    """Launches of one kernel, or of several.  ``known``: those whose times are.

    ``run_ns``: what they took; ``whole_ns``: of that, those that one member ran.  ``one_ns``: what they would
    all take on one.
    """

    launches: int = 0
    split: int = 0
    known: int = 0
    run_ns: float = 0.0
    whole_ns: float = 0.0
    one_ns: float = 0.0
    may_split: bool = False
    why_whole: str = ""

    def add(self, of: Launches) -> None:
        self.why_whole = self.why_whole or of.why_whole
        for (groups, members), times in of.counts.items():
            self.launches += times
            self.split += times * (members > 1)
            timed = of.timed.get(groups.bit_length())
            if timed is None:
                continue
            self.may_split |= timed.may_split
            one_ns, run_ns = timed.group_ns.get(1), timed.group_ns.get(members)
            if one_ns is None or run_ns is None:
                continue
            self.known += times
            self.run_ns += times * groups * run_ns / members
            self.one_ns += times * groups * one_ns
            self.whole_ns += times * groups * run_ns * (members == 1)


def verdict(courses: Sequence[Course]) -> str:
    """One sentence; "" where no kernel was launched."""
    said = _gained(courses)
    files_ns = sum(of.files_ns for of in courses)
    elapsed_ns = sum(of.elapsed_ns for of in courses)
    if said and files_ns > _FILES * elapsed_ns:
        busy = f"{_time(files_ns)} of {_time(elapsed_ns)} went by with files"
        said += f"; {busy} (SDI_SPILL), which more memory would save"
    return said


def _gained(courses: Sequence[Course]) -> str:
    total, kernels = _Total(), defaultdict[str, _Total](_Total)
    for launches in (each for of in courses for each in of.launches):
        total.add(launches)
        kernels[launches.kernel].add(launches)
    if not total.launches:
        return ""
    if any(of.split == "apart" for of in courses):
        return "each launch ran on the device of its queue, as SDI_IMAGE=off asks"
    if max(of.members for of in courses) == 1:
        return "ran on one device: the image has no other"
    if not total.split:
        return f"ran on one device: {_why_on_one(courses, total, kernels)}; nothing lost"
    if total.known < _MOST * total.launches:
        asked = " as SDI_SPLIT=always asks" if any(of.split == "always" for of in courses) else ""
        return (
            f"split {total.split} of {total.launches} launches{asked}; "
            "what these take on one device was not measured"
        )
    run_ns = total.run_ns + sum(of.between_members_ns for of in courses)
    elapsed_ns = max(sum(of.elapsed_ns for of in courses), run_ns)
    factor = (elapsed_ns - run_ns + total.one_ns) / elapsed_ns
    times = f"launches took about {_time(run_ns)}, {_time(total.one_ns)} on one"
    stuck_ns = sum(found.whole_ns for found in kernels.values() if not found.may_split)
    if stuck_ns > _MUCH * run_ns:
        times += f", {stuck_ns / run_ns:.0%} of it in kernels that can't be split"
    if factor >= _EVEN:
        return f"faster than one device would be by about {factor:.1f}x: {times}"
    if factor > 1 / _EVEN:
        return f"about as fast as one device would be: {times}"
    return f"slower than one device would be by about {1 / factor:.1f}x: {times}; try SDI_SPLIT=never"


def _why_on_one(courses: Sequence[Course], total: _Total, kernels: Mapping[str, _Total]) -> str:
    """Of launches that all ran on one member each."""
    if any(of.split == "never" for of in courses):
        return "SDI_SPLIT=never"
    is_timed = total.known >= _MOST * total.launches

    def weight(found: _Total) -> float:
        return found.run_ns if is_timed else found.launches

    kernel, most = max(kernels.items(), key=lambda item: weight(item[1]))
    chosen = [found for found in kernels.values() if found.may_split and found.known]
    each_ns = sum(found.run_ns for found in chosen) / (sum(found.known for found in chosen) or 1)
    if most in chosen and each_ns < max(of.members * of.assignment_ns for of in courses):
        return f"launches of {_time(each_ns)} are too short to share"
    part = weight(most) / (weight(total) or 1)
    what = "the launches' time" if is_timed else "the launches"
    return f"{kernel}, which is {part:.0%} of {what}, was kept whole ({most.why_whole})"


def _time(ns: float) -> str:
    for unit, name in ((1e9, "s"), (1e6, "ms")):
        if ns >= unit:
            return f"{ns / unit:.1f} {name}"
    return f"{ns / 1e3:.0f} µs"
