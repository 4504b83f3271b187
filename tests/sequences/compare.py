"""Compares how sequences end on the plain driver and on images.

``python -m tests.sequences.compare FIRST COUNT [--members 1,2,3] [--chunk 100] [--set NAME=VALUE]
[--under COMMAND]`` runs the sequences from FIRST on and ends with 1 when one of them ends differently.
``COMMAND``: what starts the program on the image, such as ``mpiexec -n 3 sdi run --``.

What the specification leaves open is not compared, or not generated (``design/conformance.md`` has the list).
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tests.image_runs import image_environ, plain_environ, run
from tests.sequences.generate import generate

LIMIT_S = 900.0


def ends(
    first: int,
    count: int,
    members: int,
    settings: Mapping[str, str] = MappingProxyType({}),
    under: Sequence[str] = (),
) -> dict[int, list[Any]]:
    """By sequence: how each step ended.  ``members``: 0 is the plain driver.  A crash is an end as well.

    ``under``: the command that starts the program.
    """
    environ = image_environ(members, **{"SDI_SPLIT": "always", **settings}) if members else plain_environ()
    found: dict[int, list[Any]] = {}
    at = first
    while at < first + count:
        command = [
            *under,
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.sequences.runner",
            str(at),
            str(first + count),
        ]
        ran = run(command, environ, LIMIT_S)
        print(ran.stderr, end="", file=sys.stderr)  # what the service has to say, which is nothing as a rule
        lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"seed"')]
        found |= {line["seed"]: line["ended"] for line in lines}
        at = max((line["seed"] + 1 for line in lines), default=at)
        if at < first + count:
            found[at] = [f"the process ended: {ran.describe()}"]
            at += 1
    return found


def difference(seed: int, plain: list[Any], image: list[Any]) -> str:
    """The first step that ended differently, or nothing."""
    if plain == image:
        return ""
    steps = generate(seed)
    for number, (one, other) in enumerate(zip(plain, image, strict=False)):
        if one != other:
            step = steps[number] if len(plain) > 1 and len(image) > 1 else "process"
            return f"sequence {seed}, step {number}, {step}:\n  plain {one}\n  image {other}"
    return f"sequence {seed}: {len(plain)} and {len(image)} steps"


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--members", default="1,2,3")
    parser.add_argument("--chunk", type=int, default=100)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--under", default="", metavar="COMMAND")
    given = parser.parse_args(arguments)
    settings = dict(item.split("=", 1) for item in given.set)
    differing = done = 0
    for first in range(given.first, given.first + given.count, given.chunk):
        count = min(given.chunk, given.first + given.count - first)
        plain = ends(first, count, 0)
        for members in map(int, given.members.split(",")):
            image = ends(first, count, members, settings, shlex.split(given.under))
            for seed in range(first, first + count):
                if found := difference(seed, plain[seed], image[seed]):
                    differing += 1
                    print(f"{members} members, {found}", flush=True)
        done += count
        print(f"{done} sequences, {differing} differences", flush=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
