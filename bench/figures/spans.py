"""What members did in each run of an application, from the spans of its profile: figures 12 and 13."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sdi.profile.analyse.losses import APPLICATION_COPIES, CONSISTENCY
from sdi.profile.analyse.model import SessionProfile
from sdi.profile.analyse.stream import ProfileError, read_profile
from sdi.profile.analyse.tables import covered_ns


def of_runs(folder: Path, runs: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
    """For each of ``runs`` (``start_ns``, ``stop_ns`` on the host's clock), in ns:

    ``kernel_ns``: per member, when a kernel ran on it.  ``copy_ns``: when bytes went between memories;
    ``application_ns``: when the application's own reads and writes went on; ``merge_ns``: when what several
    members wrote was compared or brought together; ``plan_ns``: when launches were planned; ``plan_idle_ns``:
    when that went on while no kernel ran and nothing was copied.  Empty when there is no profile of one
    session.
    """
    try:
        sessions = read_profile(folder).sessions
    except ProfileError:
        return []
    if len(sessions) != 1:
        return []
    return [_within(sessions[0], run["start_ns"], run["stop_ns"]) for run in runs]


def _within(session: SessionProfile, start_ns: int, stop_ns: int) -> dict[str, Any]:
    def covered(spans: Iterable[tuple[int, int]]) -> int:
        return covered_ns((max(a, start_ns), min(b, stop_ns)) for a, b in spans if a and b > start_ns)

    plans = [(each.begin_ns, each.bound_ns) for each in session.launches]
    work = [(each.start_ns, each.end_ns) for each in session.assignments]
    work += [(each.start_ns, each.end_ns) for each in session.copies]
    return {
        "plan_ns": covered(plans),
        "plan_idle_ns": covered([*plans, *work]) - covered(work),
        "kernel_ns": [
            covered((p.start_ns, p.end_ns) for p in session.assignments if p.member == member)
            for member in range(len(session.members))
        ],
        "copy_ns": covered((c.start_ns, c.end_ns) for c in session.copies),
        "application_ns": covered(
            (c.start_ns, c.end_ns) for c in session.commands if c.kind in APPLICATION_COPIES
        ),
        "merge_ns": covered((w.start_ns, w.end_ns) for w in session.works if w.what in CONSISTENCY),
    }
