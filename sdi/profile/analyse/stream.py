"""Reads back what services wrote (``recorder.py``), also when one was killed in the middle of a line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sdi.profile.analyse.calls import read_calls
from sdi.profile.analyse.model import (
    AskedCommand,
    AssignmentSpan,
    BuiltProgram,
    Command,
    CopySpan,
    CreatedBuffer,
    ExplainedKernel,
    LaunchShape,
    LaunchSpan,
    Member,
    PatternRow,
    Profile,
    Released,
    Resident,
    SessionProfile,
    Turn,
    WorkSpan,
)
from sdi.profile.analyse.replayed import expand
from sdi.profile.record.recorder import OLDER, VERSION

_T = TypeVar("_T")


class ProfileError(ValueError):
    """There is no profile, or a file is not of one; the text is one line."""


def read_profile(folder: Path) -> Profile:
    """The profile in ``folder``.  Raises ProfileError."""
    services = sorted(folder.glob("service-*.jsonl"))
    if not services:
        raise ProfileError(f"{folder}: no profile here (no service-*.jsonl)")
    found = [session for path in services if (session := read_session(path)) is not None]
    try:
        made = [read_calls(path) for path in sorted(folder.glob("calls-*.bin"))]
    except ValueError as error:
        raise ProfileError(str(error)) from error
    return Profile(
        tuple(sorted(found, key=lambda session: session.opened_ns)),
        tuple(application for application in made if application is not None),
    )


def read_session(path: Path) -> SessionProfile | None:
    """What one service wrote; None when it ended before its first line.  Raises ProfileError."""
    rows: dict[str, list[list[Any]]] = {}
    opening: dict[str, Any] | None = None
    closing: dict[str, Any] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                break  # the service was killed while it wrote
            try:
                kind, content = json.loads(line)
                if kind == "open":
                    opening = content
                elif kind == "close":
                    closing = content
                else:
                    rows.setdefault(kind, []).extend(content)
            except (ValueError, TypeError) as error:
                raise ProfileError(f"{path}, line {number}: {error}") from error
    if opening is None:
        return None
    if not isinstance(opening, dict) or opening.get("version") not in (*OLDER, VERSION):
        raise ProfileError(f"{path}: not a profile of version {VERSION}")

    try:
        known = _session(opening, closing, rows)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ProfileError(f"{path}: not what a service writes: {error!r}") from error
    return known if known.is_complete else _ended(known)


def _session(
    opening: dict[str, Any], closing: dict[str, Any], rows: dict[str, list[list[Any]]]
) -> SessionProfile:
    """The session of these lines.  Raises TypeError, ValueError, KeyError or AttributeError if malformed."""

    def of(kind: str, make: type[_T]) -> tuple[_T, ...]:
        return tuple([make(*row) for row in rows.get(kind, ())])

    expand(rows)
    shapes = tuple(
        [
            LaunchShape(i, k, tuple(g), tuple(s), m, tuple(c), *rest)
            for i, k, g, s, m, c, *rest in rows.get("shape", ())
        ]
    )
    return SessionProfile(
        pid=opening["pid"],
        application=opening["application"],
        members=tuple(Member(**member) for member in opening["members"]),
        opened_ns=opening["opened_ns"],
        closed_ns=closing.get("closed_ns", opening["opened_ns"]),
        is_complete=bool(closing),
        commands=of("command", Command),
        shapes=shapes,
        launches=of("launch", LaunchSpan),
        assignments=of("piece", AssignmentSpan),
        copies=of("copy", CopySpan),
        works=of("work", WorkSpan),
        turns=of("turn", Turn),
        builds=of("build", Turn),
        residents=of("resident", Resident),
        link_ns={(source, target): ns for source, target, ns in closing.get("link_ns", ())},
        events=closing.get("events", {}),
        asked=of("asked", AskedCommand),
        programs=of("program", BuiltProgram),
        buffers=of("buffer", CreatedBuffer),
        released=of("release", Released),
        explained={
            name: ExplainedKernel(
                tuple(map(tuple, one["arguments"])),
                one["why_whole"],
                one["advice"],
                tuple(one["lines"]),
                tuple([PatternRow(*row) for row in one.get("patterns", ())]),
            )
            for name, one in closing.get("explained", {}).items()
        },
    )


def _ended(session: SessionProfile) -> SessionProfile:
    """The session of a killed service: it ended with the last thing that is known of it."""
    ends = [turn.end_ns for turn in (*session.turns, *session.builds)]
    ends += [command.end_ns for command in session.commands]
    ends += [span.end_ns for span in session.assignments]
    ends += [copy.end_ns for copy in session.copies] + [work.end_ns for work in session.works]
    return replace(session, closed_ns=max([session.opened_ns, *ends]))
