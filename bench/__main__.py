"""``python -m bench figures``: repeats papers/1 section 4; writes tables, pictures and raw numbers."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from bench.applications import NAMES
from bench.figures.budget import Budget, prepared
from bench.figures.measure import (
    BEYOND,
    Raw,
    machine,
    measure_application,
    measure_beyond,
    measure_links,
    progress,
)
from bench.figures.report import report
from bench.figures.setups import Host


def main() -> int:
    """Measure what is asked for, join it with earlier raw figures, write and print; 1: something failed."""
    begun = time.monotonic()
    options = _parser().parse_args()
    if options.redraw is not None:
        raw = json.loads(options.redraw.read_text())
        return _write(raw, options.out, raw.get("size") or options.redraw.stem.partition("-")[2])
    members = sorted({int(part) for part in options.members.split(",")})
    names = options.apps.split(",") if options.apps else list(NAMES)
    unknown = [name for name in names if name not in NAMES]
    if unknown or members[0] < 1:
        print(f"bench: unknown {', '.join(unknown) or 'number of members'}", file=sys.stderr)
        return 2
    host = Host(options.image or _image(), options.plain, options.split, options.limit, options.seconds)
    raw: Raw = {
        "machine": machine(host),
        "size": options.size,
        "applications": {},
        "beyond": {},
        "links": {},
        "skipped": [],
    }
    for path in options.join:
        earlier = json.loads(path.read_text())
        raw["links"] = earlier["links"] or raw["links"]
        for part in ("applications", "beyond"):
            raw[part] |= earlier[part]
    if options.budget:
        _within(options, replace(host, inputs=prepared()), members, names, raw, begun)
    elif not options.only_join:
        for name in names:
            found = measure_application(host, name, options.size, members, options.rounds, options.repeat)
            raw["applications"][name] = found
            if name in BEYOND and "buffers" in found and not options.no_beyond:
                needed = sum(found["buffers"])
                raw["beyond"][name] = measure_beyond(host, name, options.size, members, needed)
            _store(raw, options.out, options.size)
        if not options.no_links:
            raw["links"] = measure_links(host, max(members), options.most_mib << 20)
    raw["applications"] = {name: raw["applications"][name] for name in NAMES if name in raw["applications"]}
    progress("")
    return _write(raw, options.out, options.size)


def _within(
    options: argparse.Namespace, host: Host, members: list[int], names: list[str], raw: Raw, begun: float
) -> None:
    """Measure what the time allows."""
    gpus = sum(bool(gpu) for gpu in raw["machine"]["gpus"])
    raw["budget"] = options.budget
    try:
        Budget(
            host,
            options.size,
            members,
            options.repeat,
            gpus,
            begun + options.budget,
            raw,
            lambda raw: _store(raw, options.out, options.size),
        ).measure(names)
    finally:
        assert host.inputs is not None
        shutil.rmtree(host.inputs, ignore_errors=True)


def _store(raw: Raw, folder: Path, size: str) -> None:
    """The raw figures so far, for ``--join`` if this is stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(raw, separators=(",", ":"))
    (folder / f"figures-{size}.json").write_text(text + "\n")


def _write(raw: Raw, folder: Path, size: str) -> int:
    """All files, and the report on stdout."""
    stem = f"figures-{size}"
    _store(raw, folder, size)
    try:
        from bench.figures.plots import draw

        pictures = draw(raw, folder, stem)
    except ImportError as missing:
        print(f"bench: no pictures: {missing}", file=sys.stderr)
        pictures = []
    text = report(raw, size, pictures)
    (folder / f"{stem}.md").write_text(text)
    print(text)
    setups = (s for found in raw["applications"].values() for s in found["setups"].values())
    return int(any("error" in sample for samples in setups for sample in samples))


def _image() -> str:
    """Where the installed image is."""
    from sdi.locate import vendors

    return str(vendors())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    figures = commands.add_parser(
        "figures", help="table 2 and figures 7, 11, 12, 13 and 15", description=__doc__
    )
    figures.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="folder for figures-SIZE.md, .json and .png"
    )
    figures.add_argument(
        "--size",
        default="cpu",
        choices=["smoke", "cpu", "paper", "gpu"],
        help="of the problems: smoke (ms each), cpu (default), the paper's, or for today's GPUs",
    )
    figures.add_argument(
        "-n", dest="members", default="1,2,4", metavar="N,N", help="members (default: 1,2,4)"
    )
    figures.add_argument("--apps", metavar="NAME,NAME", help=f"of {', '.join(NAMES)} (default: all)")
    figures.add_argument("--rounds", type=int, default=3, help="processes of each kind, in turn (default: 3)")
    figures.add_argument("--repeat", type=int, default=3, help="runs that count in each (default: 3)")
    figures.add_argument(
        "--split", default="auto", choices=["auto", "always"], help="SDI_SPLIT of the images"
    )
    figures.add_argument(
        "--plain", default=os.environ.get("OCL_TEST_PLATFORM", ""), help="part of the plain platform's name"
    )
    figures.add_argument("--image", metavar="FOLDER", help="where sdi.icd is (default: as installed)")
    figures.add_argument(
        "--seconds", type=float, default=1e9, help="no further run of a process after so long"
    )
    figures.add_argument(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="be done by then: what matters most first, setups on different GPUs side by side, one round",
    )
    figures.add_argument(
        "--from",
        type=Path,
        dest="redraw",
        metavar="FILE",
        help="write raw figures' report and pictures again",
    )
    figures.add_argument("--limit", type=float, default=300.0, help="seconds for one process (default: 300)")
    figures.add_argument(
        "--most-mib", type=int, default=64, help="largest copy of figure 7 (default: 64 MiB)"
    )
    figures.add_argument("--no-links", action="store_true", help="leave out figure 7")
    figures.add_argument("--no-beyond", action="store_true", help="leave out figure 15")
    figures.add_argument(
        "--join", type=Path, nargs="+", default=[], metavar="FILE", help="earlier raw figures"
    )
    figures.add_argument("--only-join", action="store_true", help="measure nothing more")
    return parser


if __name__ == "__main__":
    sys.exit(main())
