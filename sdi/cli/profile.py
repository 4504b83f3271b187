"""``sdi profile``: runs an application with SDI_PROFILE and reports what was recorded."""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from sdi import whole_file
from sdi.cli.progress import doing
from sdi.cli.run import (
    PR_SET_CHILD_SUBREAPER,
    SERVICE_PATIENCE_S,
    leave_like,
    run_and_wait,
    wait_for_services,
)
from sdi.condition import Condition, ConditionError, parse_condition
from sdi.locate import image_environ
from sdi.profile.analyse.figures import compared, comparison_text, figures, fulfilled
from sdi.profile.analyse.model import Profile
from sdi.profile.analyse.stream import ProfileError, read_profile
from sdi.profile.analyse.tables import Tables, make_tables
from sdi.profile.show.chrome import chrome_trace
from sdi.profile.show.text import table_text, tables_csv, tables_json
from sdi.settings import Settings

Writer = Callable[[Profile, Tables, Path], None]
"""Writes one format into a folder."""


def _write_csv(_profile: Profile, tables: Tables, folder: Path) -> None:
    for name, text in tables_csv(tables).items():
        whole_file.replace(folder / name, text)


def _write_json(_profile: Profile, tables: Tables, folder: Path) -> None:
    whole_file.replace(folder / "profile.json", tables_json(tables))


def _write_chrome(profile: Profile, _tables: Tables, folder: Path) -> None:
    whole_file.replace(folder / "trace.json", chrome_trace(profile))


def _write_html(profile: Profile, tables: Tables, folder: Path) -> None:
    from sdi.profile.show.page import page

    whole_file.replace(folder / "report.html", page(profile, tables))


WRITERS: dict[str, Writer] = {
    "csv": _write_csv,
    "json": _write_json,
    "chrome": _write_chrome,
    "html": _write_html,
}
"""Formats that are files."""


FAILED = 3
"""Exit status when the condition of --fail-if is true."""


class BadUsage(Exception):
    """The options do not go together; the text is one line."""


def profile(options: argparse.Namespace, application: list[str], changes: Mapping[str, str]) -> int:
    """Run and report, or only report; the application's exit status, or 2 with one line on stderr."""
    try:
        formats = _formats(options.format)
        condition = parse_condition(options.fail_if) if options.fail_if else None
        if options.compare:
            if application or options.folder:
                raise BadUsage("--compare A B takes no application and no -o")
            if formats != ["table"]:
                raise BadUsage("--compare A B prints a table, nothing else")
            first, second = map(Path, options.compare)
            return _compare(first, second, condition)
        folder = Path(options.folder).absolute() if options.folder else None
        if folder is None and not application:
            raise BadUsage("no application given; try: sdi profile -n 4 -- ./application")
        if folder is None and set(formats) & set(WRITERS):
            raise BadUsage(f"-o DIR says where {', '.join(f for f in formats if f in WRITERS)} goes")
        if not application:
            assert folder is not None
            return _fails(condition, figures(_report(folder, formats)))
        return _run(application, changes, folder, formats, condition)
    except (BadUsage, ProfileError, ConditionError) as error:
        print(f"sdi profile: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"sdi profile: {error}", file=sys.stderr)
        return 2


def _formats(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",")]
    for name in found:
        if name != "table" and name not in WRITERS:
            raise BadUsage(f"--format {name}: expected some of table, {', '.join(WRITERS)}")
    if "html" in found and find_spec("plotly") is None:
        raise BadUsage("--format html needs plotly: pip install 'sdi[report]'")
    return found


def _fails(condition: Condition | None, found: Mapping[str, float]) -> int:
    """The exit status that ``condition`` asks for, after a line that says why."""
    true = fulfilled(condition, found) if condition is not None else ()
    for one in true:
        print(f"sdi profile: --fail-if: {one} ({one.left} is {found[one.left.text]:g})", file=sys.stderr)
    return FAILED if true else 0


def _compare(first: Path, second: Path, condition: Condition | None) -> int:
    with doing("sdi profile: reading"):
        a, b = (figures(make_tables(read_profile(folder))) for folder in (first, second))
    print(comparison_text(a, b))
    return _fails(condition, compared(a, b))


def _run(
    application: list[str],
    changes: Mapping[str, str],
    folder: Path | None,
    formats: list[str],
    condition: Condition | None,
) -> int:
    with tempfile.TemporaryDirectory(prefix="sdi-profile-") as scratch:
        where = folder or Path(scratch)
        try:
            where.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadUsage(f"-o {where}: {error.strerror}") from error
        if any(where.glob("service-*.jsonl")):
            raise BadUsage(f"{where} has a profile already: choose another folder, or remove it")
        environ = {**os.environ, **image_environ(os.environ), **changes, "SDI_PROFILE": str(where)}
        Settings.from_environ(environ)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            status = run_and_wait(application, environ)
        except FileNotFoundError:
            print(f"sdi profile: {application[0]}: no such program", file=sys.stderr)
            return 127
        except OSError as error:
            print(f"sdi profile: {application[0]}: {error.strerror}", file=sys.stderr)
            return 126
        with doing("sdi profile: waiting for what the service has still to write"):
            late = wait_for_services()
        if late:
            print(f"sdi: {late} service(s) still busy after {SERVICE_PATIENCE_S:.0f} s", file=sys.stderr)
        sys.stdout.flush()
        if any(where.glob("service-*.jsonl")):
            failed = _reported(where, formats, condition)
        else:
            print("sdi: the application did not use the image", file=sys.stderr)
            failed = 0 if condition is None else _cannot_tell("there are no figures")
    return failed if failed and status == 0 else leave_like(status)


def _reported(where: Path, formats: list[str], condition: Condition | None) -> int:
    """The exit status that the condition, or a report that can't be made, asks for."""
    try:
        return _fails(condition, figures(_report(where, formats)))
    except (ProfileError, ConditionError, OSError) as error:
        print(f"sdi profile: {error}", file=sys.stderr)
        return 2


def _cannot_tell(why: str) -> int:
    print(f"sdi profile: --fail-if: {why}", file=sys.stderr)
    return 2


def _report(folder: Path, formats: list[str]) -> Tables:
    gc.disable()  # it would look again and again through millions of rows that all stay: half of the time
    with doing("sdi profile: reading"):
        found = read_profile(folder)
        tables = make_tables(found)
    for name in formats:
        if name == "table":
            print(table_text(tables), file=sys.stderr)
        else:
            with doing(f"sdi profile: writing {name}"):
                WRITERS[name](found, tables, folder)
    return tables
