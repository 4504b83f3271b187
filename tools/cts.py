"""Runs named subtests of the Khronos OpenCL-CTS on the plain driver and on images, and prints a table.

``python tools/cts.py CTS NAMES [--members 1,2,3] [--split always] [--only BINARY]... [--keep FILE]``

CTS: the folder with the suite's built programs (``.../events/test_events`` anywhere below it).  NAMES: a
folder with one ``<binary>.txt`` per program, a subtest's name per line; a line that begins with ``+`` is an
argument for the program itself (``+small_images``).  The suite is no part of sdi.
FILE keeps the results: what it has is not run again, so that long lists can be run in parts.
Ends with 1 when a subtest passes on the plain driver and not on an image, or is skipped on an image only;
names about partitioning devices are counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_RESULT = re.compile(r"\b(\w+) (passed|skipped|FAILED)\s*$", re.MULTILINE)
_NOT_SUPPORTED = re.compile(r"^(\w+) test not supported", re.MULTILINE)
_ALL_SKIPPED = "Test skipped while initialization"
_STARTED = re.compile(r"^(\w+)\.\.\.\s*$", re.MULTILINE)


@dataclass(slots=True)
class Results:
    """What one program said of its subtests: passed, skipped, failed or ended (hung, crashed)."""

    by_name: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    said: str = ""

    def add(self, later: Results) -> None:
        """These results and later ones."""
        self.by_name |= later.by_name
        self.seconds += later.seconds

    def counts(self, num_names: int) -> str:
        """As ``27``, ``25 + 2 skipped`` or ``24 + 1 failed``."""
        found = Counter(self.by_name.values())
        found["not run"] = num_names - len(self.by_name)
        rest = [f"{found[what]} {what}" for what in ("skipped", "failed", "ended", "not run") if found[what]]
        return " + ".join([str(found["passed"]), *rest])


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: without output, after which a program hangs; and for all its names."""

    silent_s: float
    altogether_s: float


class Kept:
    """Results of earlier runs, a line of JSON for each; nothing is kept without a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
        self._lines = [json.loads(line) for line in lines]

    def results(self, binary: str, members: int, split: str, names: list[str]) -> Results:
        """What is known of these names, the latest last."""
        found = Results()
        for line in self._lines:
            if line["run"] == [binary, members, split if members else ""]:
                by_name = {name: how for name, how in line["by_name"].items() if name in names}
                found.add(Results(by_name, line["seconds"] * len(by_name) / len(line["by_name"])))
        return found

    def add(self, binary: str, members: int, split: str, results: Results) -> None:
        """Keep what was run now."""
        if self._path:
            line = {"run": [binary, members, split if members else ""], "seconds": results.seconds}
            with self._path.open("a", encoding="utf-8") as file:
                print(json.dumps(line | {"by_name": results.by_name}), file=file)


def environ(members: int, split: str) -> dict[str, str]:
    """For the plain driver (0 members), or an image."""
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("SDI_", "OCL_ICD_"))}
    environ |= {"CL_PLATFORM_INDEX": "0", "CL_DEVICE_INDEX": "0", "CL_DEVICE_TYPE": "CL_DEVICE_TYPE_CPU"}
    if members:
        command = [sys.executable, "-m", "sdi.cli", "env", "--vendors"]
        vendors = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        environ |= {"OCL_ICD_VENDORS": vendors.strip(), "SDI_NUM_GPUS": str(members), "SDI_SPLIT": split}
    return environ


def run(
    command: list[str], folder: Path, names: list[str], settings: dict[str, str], limits: Limits
) -> Results:
    """Run subtests; after one that hangs or ends the program, the rest in a new process.

    ``command``: without the names.  Those for which no time is left have no result.
    """
    results, left, began = Results(), list(names), time.monotonic()
    while left and time.monotonic() < began + limits.altogether_s:
        output = _output([*command, *left], folder, settings, limits, began + limits.altogether_s)
        text = output.decode("utf-8", "replace")
        found = {name: what.lower() for name, what in _RESULT.findall(text)}
        found |= dict.fromkeys(_NOT_SUPPORTED.findall(text), "skipped")
        if _ALL_SKIPPED in text:
            found = dict.fromkeys(left, "skipped") | found
        results.said += text
        results.by_name |= {name: found[name] for name in left if name in found}
        left = [name for name in left if name not in found]
        if left and time.monotonic() < began + limits.altogether_s:
            culprit = next((name for name in reversed(_STARTED.findall(text)) if name in left), left[0])
            results.by_name[culprit] = "ended"
            left.remove(culprit)
    results.seconds = time.monotonic() - began
    return results


def _output(
    command: list[str], folder: Path, settings: dict[str, str], limits: Limits, deadline: float
) -> bytes:
    """What the command says before it ends, or is killed because it says nothing any more or time is up."""
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        said, since = 0, time.monotonic()
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            nbytes, now = os.fstat(file.fileno()).st_size, time.monotonic()
            if nbytes != said:
                said, since = nbytes, now
            elif now - since > limits.silent_s:
                process.kill()
            if now > deadline:
                process.kill()
        file.seek(0)
        return file.read()


def main(arguments: list[str]) -> int:
    """Run everything; print the table and every difference from the plain driver."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cts", type=Path)
    parser.add_argument("names", type=Path)
    parser.add_argument("--members", default="1,2,3")
    parser.add_argument("--split", choices=("always", "auto", "never"), default="always")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--silent", type=float, default=300.0, help="seconds without output: it hangs")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for a program's names")
    parser.add_argument("--said", type=Path, help="a folder for what the programs say")
    given = parser.parse_args(arguments)
    kept, limits = Kept(given.keep), Limits(given.silent, given.limit)
    images = [int(number) for number in given.members.split(",") if number]
    worse: list[str] = []
    print(f"| binary | plain | {' | '.join(f'N={n}' for n in images)} | seconds |")
    print("|---|---|" + "---|" * len(images) + "---|")
    for listed in sorted(given.names.glob("*.txt")):
        if given.only and listed.stem not in given.only:
            continue
        program = next((p for p in given.cts.rglob(f"test_{listed.stem}") if p.is_file()), None)
        if program is None:
            print(f"| {listed.stem} | not built |", flush=True)
            continue
        words = listed.read_text(encoding="utf-8").split()
        names = [word for word in words if not word.startswith("+")]
        extra = [word[1:] for word in words if word.startswith("+")]
        everywhere = []
        for n in (0, *images):
            results = kept.results(listed.stem, n, given.split, names)
            missing = [name for name in names if name not in results.by_name]
            if missing:
                command = ["stdbuf", "-oL", str(program.resolve()), *extra]
                ran = run(command, program.resolve().parent, missing, environ(n, given.split), limits)
                results.add(ran)
                kept.add(listed.stem, n, given.split, ran)
                if given.said:
                    given.said.mkdir(parents=True, exist_ok=True)
                    log = f"{listed.stem}-{n}{f'-{given.split}' if n else ''}.txt"
                    (given.said / log).write_text(ran.said, encoding="utf-8")
            everywhere.append(results)
        plain, *found = everywhere
        cells = [each.counts(len(names)) for each in everywhere]
        seconds = " ".join(f"{each.seconds:.0f}" for each in (plain, *found))
        print(f"| {listed.stem} | {' | '.join(cells)} | {seconds} |", flush=True)
        for n, each in zip(images, found, strict=True):
            worse += [
                f"{listed.stem} {name}, N={n}: {what}, plain: {plain.by_name.get(name, 'not run')}"
                for name, what in sorted(each.by_name.items())
                if what != "passed" and what != plain.by_name.get(name, "not run")
            ]
    print("\n".join(worse) or "every name ends as on the plain driver")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
