"""Compares what generated programs come to on the plain driver, on an image, and with clang alone.

``python -m tests.macros.compare FIRST COUNT [--members 2] [--batch 250]`` builds the programs many to a text.
What the image refuses the driver has to refuse too.  Prints those that differ, and ends with 1 if any do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sdi.clc.preprocess.dialect import Definitions
from sdi.clc.preprocess.macros import MacroError
from sdi.clc.preprocess.options import parse_options
from sdi.clc.preprocess.preprocess import preprocess
from sdi.devices.discover import MemberSettings, open_members
from sdi.launch.programs.builds import Target
from tests.image_runs import image_environ, plain_environ, run
from tests.macros.generate import PRELUDE, program, together

TELL = Path(__file__).with_name("tell.py")
Told = tuple[str, int]
REFUSED = 8
"""Of the programs in a text that are not valid: how many are given to both."""


def told(where: str, texts: Sequence[tuple[str, str]], members: int = 2) -> list[Told]:
    """What each text, with its options, comes to on the plain driver or the image, or its error code."""
    environ: Mapping[str, str] = plain_environ() if where == "plain" else image_environ(members)
    done = run([sys.executable, "-W", "ignore", TELL, where], environ, 900, json.dumps(texts))
    assert done.returncode == 0, done.describe()
    return [(text, code) for text, code in json.loads(done.stdout)]


def valid(programs: Mapping[int, str]) -> list[int]:
    """Those that the preprocessor takes, with a driver's macros."""
    found = []
    (member,) = open_members(MemberSettings(count=1))
    try:
        language = Target([member]).language
        for seed, text in programs.items():
            with contextlib.suppress(MacroError):
                preprocess(PRELUDE + text, "<kernel>", (), Definitions(language, parse_options("", None)))
                found.append(seed)
    finally:
        member.close()
    return found


def differing(seeds: Sequence[int], members: int) -> list[str]:
    """What is wrong with these programs; those that are valid are built as one text."""
    programs = {seed: program(seed) for seed in seeds}
    good = valid(programs)
    bad = [seed for seed in seeds if seed not in good][:REFUSED]
    texts = [(together([programs[seed] for seed in good]), "-w")]
    texts += [(together([programs[seed]]), "-w") for seed in bad]
    (plain, plain_code), *plain_refusals = told("plain", texts, members)
    (image, image_code), *image_refusals = told("image", texts, members)
    found = _wrong(bad, plain_refusals, image_refusals)
    if plain_code or image_code:
        return found + _apart({seed: programs[seed] for seed in good}, members)
    # Not by counting answers: a program may swallow what is behind it, in both alike.
    return found if plain == image else found + _apart({seed: programs[seed] for seed in good}, members)


def _wrong(seeds: Sequence[int], plain: Sequence[object], image: Sequence[object]) -> list[str]:
    return [f"{s}: plain {a!r}, image {b!r}" for s, a, b in zip(seeds, plain, image, strict=False) if a != b]


def _apart(programs: Mapping[int, str], members: int) -> list[str]:
    """A text with a program that a driver refuses says nothing of the others: its halves do."""
    texts = [(together(list(programs.values())), "-w")]
    ((plain, plain_code),), ((image, image_code),) = (told(w, texts, members) for w in ("plain", "image"))
    if not plain_code and not image_code:
        if plain == image or len(programs) == 1:
            return _wrong([*programs], [plain], [image])
    elif len(programs) == 1:
        return _wrong([*programs], [plain_code], [image_code])
    items = list(programs.items())
    half = len(items) // 2
    return _apart(dict(items[:half]), members) + _apart(dict(items[half:]), members)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--batch", type=int, default=250)
    options = parser.parse_args()
    wrong = 0
    for first in range(options.first, options.first + options.count, options.batch):
        seeds = range(first, min(first + options.batch, options.first + options.count))
        found = differing(seeds, options.members)
        wrong += len(found)
        print(*found, sep="\n", end="\n" if found else "")
        print(f"{first} to {seeds[-1]}: {len(found)} differ", flush=True)
    print(f"{options.count} programs from {options.first} on: {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
