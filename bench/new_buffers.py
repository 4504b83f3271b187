"""Rounds with two new buffers each: one member beside the plain driver.

``python bench/new_buffers.py [--rounds 300] [--repeat 3] [--only TEXT]`` compiles ``new_buffers.c`` and runs
it in turn on the plain driver and on an image of one member.  Per variant: milliseconds of a round in the
median of a run, of these the least of the repetitions on each, and processor time of a round on the image, of
application and service together (of a long run less a short one, so without their starts), which other
programs on the machine disturb least.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.alternate import adopt_orphans  # noqa: E402
from bench.overhead import Column, image_column, plain_column  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
AIM_MS = 1.5
SHORT = 20


@dataclass(frozen=True, slots=True)
class Variant:
    """``words``: as new_buffers.c takes them."""

    nbytes: int
    words: tuple[str, ...]

    @property
    def title(self) -> str:
        """For the table."""
        size = f"{self.nbytes // KIB} KiB" if self.nbytes < MIB else f"{self.nbytes // MIB} MiB"
        named = {"copy": "COPY_HOST_PTR", "vary": "other sizes each round", "early": "released before finish"}
        return ", ".join([size, *(named[word] for word in self.words)])


WORDS = ((), ("copy",), ("early",), ("vary",), ("copy", "vary"), ("vary", "early"))
VARIANTS = [Variant(nbytes, words) for nbytes in (4 * KIB, 64 * KIB, MIB, 16 * MIB) for words in WORDS]


def run(program: Path, column: Column, variant: Variant, rounds: int) -> tuple[float, float]:
    """Seconds of a round in the median; processor seconds of the whole run, its service included."""
    command = [str(program), column.platform, str(rounds), str(variant.nbytes), *variant.words]
    before = used_s()
    done = subprocess.run(
        command, env={**os.environ, **column.environ}, capture_output=True, text=True, check=True
    )
    try:  # the service, which is this process' now
        while True:
            os.wait()
    except ChildProcessError:
        pass
    found = dict(line.split() for line in done.stdout.splitlines())
    return float(found["median"]), used_s() - before


def used_s() -> float:
    """Processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure and print; 1 where a variant misses the aim."""
    parser = argparse.ArgumentParser(
        description="New buffers each round, on one member and the plain driver."
    )
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the variant's title")
    options = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="sdi-bench-") as folder:
        program = Path(folder) / "new_buffers"
        source = ROOT / "bench" / "new_buffers.c"
        subprocess.run(
            ["cc", "-O2", "-std=c11", "-D_GNU_SOURCE", str(source), "-o", str(program), "-lOpenCL"],
            check=True,
        )
        for kind in ("POCL_CACHE_DIR", "XDG_CACHE_HOME"):
            os.environ[kind] = str(Path(folder) / kind)
            Path(os.environ[kind]).mkdir()
        plain, image = plain_column(), image_column(1)
        print(f"{platform.machine()}, {os.cpu_count()} cores; {plain.platform}; {options.rounds} rounds")
        print(f"{'ms of a round':48}{'plain':>8}{'image':>8}{'processor':>11}")
        misses = 0
        for column in (plain, image):  # compilers and caches
            run(program, column, VARIANTS[0], SHORT)
        for variant in VARIANTS:
            if options.only not in variant.title:
                continue
            plain_s, image_s, cpu_s = [], [], []
            for _ in range(options.repeat):
                plain_s.append(run(program, plain, variant, options.rounds)[0])
                _, short_s = run(program, image, variant, SHORT)
                median_s, long_s = run(program, image, variant, options.rounds)
                image_s.append(median_s)
                cpu_s.append((long_s - short_s) / (options.rounds - SHORT))
            took_ms, allowed_ms = 1e3 * min(image_s), AIM_MS + 1e3 * min(plain_s)
            misses += took_ms > allowed_ms
            mark = f"  more than {allowed_ms:.2f}" if took_ms > allowed_ms else ""
            print(
                f"{variant.title:48}{1e3 * min(plain_s):8.3f}{took_ms:8.3f}{1e3 * min(cpu_s):11.3f}{mark}",
                flush=True,
            )
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
