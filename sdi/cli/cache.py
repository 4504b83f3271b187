"""``sdi cache``: what runs have learnt, listed, removed, and moved to other machines as one file of JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from sdi import __version__, cache, whole_file
from sdi.cli.counters import table
from sdi.launch.learning import KIND, VERSION, keep
from sdi.partition.learnt import LearntProgram, MemberName, SizeKey, as_json, from_json, unpacked
from sdi.sizes import size as readable

_FORMAT = "sdi learnt"
_NBYTES_MAX = 64 << 20
_DATE = "%Y-%m-%d %H:%M"


class CacheError(ValueError):
    """What was asked for can't be done; the text is one line."""


def look_after(options: argparse.Namespace) -> int:
    """Do what the command line asks for, or list; the exit status."""
    try:
        for line in _done(options):
            print(line)
    except (CacheError, cache.NoCache) as error:
        print(f"sdi cache: {error}", file=sys.stderr)
        return 2
    return 0


def _done(options: argparse.Namespace) -> Iterator[str]:
    if options.clear:
        return _clear()
    if options.export_to:
        return _export(Path(options.export_to))
    if options.import_from:
        return _import(Path(options.import_from))
    return _list()


def _programs() -> list[LearntProgram]:
    """All that is kept of programs, the last used first."""
    if KIND not in cache.kinds():
        return []
    found = [unpacked(entry.content) for entry in cache.entries(KIND) if entry.content is not None]
    return [program for program in found if program is not None]


def _list() -> Iterator[str]:
    programs = _programs()
    rows: list[tuple[str, ...]] = [
        ("program", "kernel", "members", "work-groups", "runs on", "ns per group", "at a risk", "date")
    ]
    rows += [row for program in programs for row in _rows(program)]
    if len(rows) > 1:
        yield from table(rows, right={5})
    else:
        yield "nothing learnt yet: sdi keeps what launches taught when a program ran with several members"
    others = [(kind, cache.entries(kind)) for kind in cache.kinds() if kind != KIND]
    texts = [
        f"{kind} {len(found)} ({readable(sum(entry.nbytes for entry in found))})"
        for kind, found in others
        if found
    ]
    if texts:
        yield f"beside that, of this machine alone, made anew where it is missing: {', '.join(texts)}"
    yield f"in {cache.base()}"


def _rows(program: LearntProgram) -> Iterator[tuple[str, ...]]:
    """One of each kernel and size, and of each kernel of which only attempts are known."""
    date = time.strftime(_DATE, time.localtime(program.written_s))
    members = members_text(program.members)
    for kernel in sorted({*program.launches, *program.attempts}):
        tried = program.attempts.get(kernel)
        risk = "" if tried is None else f"{tried.undone} of {tried.stood + tried.undone} undone"
        sizes = program.launches.get(kernel, {})
        if not sizes:
            yield program.name[:8], kernel, members, "", "", "", risk, date
        for size, one in sorted(sizes.items()):
            runs_on = f"{one.assignments} of {len(program.members)}"
            took = ", ".join([f"{ns:.4g} on {count}" for count, ns in sorted(one.group_ns.items())])
            yield program.name[:8], kernel, members, size_text(size), runs_on, took, risk, date


def size_text(size: SizeKey) -> str:
    """Launches that count as of one size."""
    dims, bits = size
    return f"{dims}-D, {(1 << bits) >> 1} to {(1 << bits) - 1}" if bits > 1 else f"{dims}-D, 1"


def members_text(members: tuple[MemberName, ...]) -> str:
    """Equal ones as one: "4 x NVIDIA H200 (gpu, 580.159)"."""
    parts = []
    for (kind, name, driver, _), alike in groupby(members, key=lambda each: (*each[:3], 0)):
        parts.append(f"{len(list(alike))} x {name} ({', '.join(filter(None, (kind, driver)))})")
    nodes = len({node for *_, node in members})
    return " + ".join(parts) + (f" on {nodes} nodes" if nodes > 1 else "")


def _clear() -> Iterator[str]:
    removed: Counter[str] = Counter()
    nbytes = 0
    for kind in cache.kinds():
        removed[kind], freed = cache.clear(kind)
        nbytes += freed
    texts = [f"{kind} {count}" for kind, count in removed.items() if count]
    yield f"removed: {', '.join(texts)} ({readable(nbytes)})" if texts else "there was nothing to remove"
    yield "what runs now keeps what it learnt when it ends"


def _export(path: Path) -> Iterator[str]:
    programs = _programs()
    if not programs:
        raise CacheError("nothing learnt yet, so there is nothing to export")
    told = {
        "format": _FORMAT,
        "version": VERSION,
        "sdi": __version__,
        "programs": [as_json(program) for program in programs],
    }
    try:
        whole_file.replace(path, json.dumps(told, indent=1) + "\n")
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}") from error
    yield f"{path}: what was learnt of {len(programs)} programs; no code, no data of applications"


def _import(path: Path) -> Iterator[str]:
    programs = read_export(path)
    new = sum(keep(program, is_newer=False) for program in programs)
    yield f"{new} of {len(programs)} programs told something new; what this machine knew already stays"
    for text, count in Counter(members_text(program.members) for program in programs).items():
        yield f"  {count} with {text}"
    yield "each counts for images of just these members and drivers, see sdi devices"


def read_export(path: Path) -> list[LearntProgram]:
    """What a file has that ``--export`` wrote.  Raises CacheError for any other, whatever is in it."""
    try:
        with path.open("rb") as file:
            data = file.read(_NBYTES_MAX + 1)
    except OSError as error:
        raise CacheError(f"{path}: {error.strerror}") from error
    if len(data) > _NBYTES_MAX:
        raise CacheError(f"{path}: longer than {readable(_NBYTES_MAX)}, sdi writes no such file")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CacheError(f"{path}: not what sdi cache --export writes") from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise CacheError(f"{path}: not what sdi cache --export writes")
    if found.get("version") != VERSION:
        by = found.get("sdi")
        raise CacheError(
            f"{path}: version {found.get('version')!r} of what sdi keeps, written by sdi {by!r}; "
            f"this is sdi {__version__}, which reads version {VERSION}"
        )
    try:
        return [from_json(each) for each in found["programs"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CacheError(f"{path}: a program in it is damaged; nothing was imported") from error
