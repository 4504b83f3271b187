"""The player over generated streams of records, under sanitizers.

``python -m tests.player.soak [FIRST [STREAMS [THREADS]]]``

From seed FIRST (1): STREAMS (1,000,000) in one thread, which a seed repeats exactly, under the address and
undefined-behaviour sanitizers; then THREADS (10,000) with the driver and the application in threads of their
own, under the thread sanitizer; and as many for the threads that issue, under both.  Stops at the first one
that is wrong, with its seed and what is wrong on stderr.  See ``harness/harness.h``, ``issuers/issuers.c``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sdi.player.library import SOURCES, generate
from sdi.wire.generate import SANITIZE_FLAGS

HARNESS = Path(__file__).resolve().parent / "harness"
ISSUERS = HARNESS.parent / "issuers"
TRIALS = HARNESS.parent / "trials"
# Some distributions check calls by other names (``__ppoll_chk``), which are not wrapped.
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-U_FORTIFY_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread")
_WRAPPED = "-Wl," + ",".join(
    f"--wrap={name}"
    for name in ("recv", "ppoll", "sched_yield", "clock_gettime", "copy_keep", "copy_make", "copy_now")
)
_THREAD_FLAGS = ("-fsanitize=thread", "-g")


def build(outdir: Path, threads: bool, harness: Path = HARNESS) -> Path:
    """Compile a harness with the player's sources; the program.

    Raises subprocess.CalledProcessError (the compiler has written why to stderr), or FileNotFoundError.
    """
    generate(outdir)
    program = outdir / (f"{harness.name}_threads" if threads else harness.name)
    sources = [str(path) for folder in (SOURCES, harness) for path in sorted(folder.glob("*.c"))]
    wrapped = [_WRAPPED] if harness == HARNESS else []
    flags = [*_FLAGS, *(_THREAD_FLAGS if threads else SANITIZE_FLAGS), f"-I{SOURCES}", f"-I{outdir}"]
    subprocess.run(["cc", *flags, *sources, *wrapped, "-o", str(program)], check=True)
    return program


def run(program: Path, first: int, streams: int) -> dict[str, int]:
    """What was counted in ``streams`` from seed ``first``.  Raises CalledProcessError, with stderr."""
    command = [str(program), "--first", str(first), "--streams", str(streams)]
    command += ["--threads"] if program.name == "harness_threads" else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def main(arguments: list[str]) -> int:
    """Run the streams that the arguments say; the exit status."""
    first, streams, threads = [*map(int, arguments), *(1, 1_000_000, 10_000)[len(arguments) :]]
    with TemporaryDirectory(prefix="sdi-player-") as scratch:
        for in_threads, count, at_once, harness in (
            (False, streams, 10_000, HARNESS),
            (True, threads, 100, HARNESS),
            (False, threads, 1000, ISSUERS),
            (True, threads, 100, ISSUERS),
        ):
            program = build(Path(scratch), in_threads, harness)
            for seed in range(first, first + count, at_once):
                try:
                    found = run(program, seed, min(at_once, first + count - seed))
                except subprocess.CalledProcessError as failure:
                    print(failure.stderr, file=sys.stderr)
                    return 1
                print(f"{program.name} from {seed}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
