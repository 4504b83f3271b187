"""Compiles the C libraries: ``library.py TARGET`` puts the client there, the player beside it.

``--check`` only shows warnings as errors.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]


def install(target: Path) -> None:
    """Compile and replace ``target`` in one step: programs that use the old one keep it."""
    from sdi.player.library import compile_player
    from sdi.wire.generate import compile_client

    with TemporaryDirectory(prefix="sdi-build-") as scratch:
        for built in (compile_player(Path(scratch)), compile_client(Path(scratch))):
            place = target.with_name(built.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            beside = place.with_name(f".{place.name}.{os.getpid()}")
            shutil.copy(built, beside)
            beside.replace(place)


def check() -> int:
    """Compile the library and all C programs of tests, bench and demo with warnings as errors."""
    from sdi.locate import INCLUDE
    from sdi.player.library import SOURCES, compile_player
    from sdi.wire.generate import CLIENT, compile_client

    failed = 0
    with TemporaryDirectory(prefix="sdi-check-") as scratch:
        compile_client(Path(scratch))
        compile_player(Path(scratch))
        folders = [f"-I{CLIENT}", f"-I{SOURCES}", f"-I{INCLUDE}", f"-I{scratch}"]
        for folder in ("tests", "bench", "demo"):
            for source in sorted((ROOT / folder).rglob("*.c")):
                command = ["cc", *STRICT, *folders, "-fsyntax-only", str(source)]
                failed += subprocess.run(command, check=False).returncode != 0
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    """Do what the arguments say; the exit status."""
    sys.path.insert(0, str(ROOT))
    if arguments == ["--check"]:
        return check()
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    install(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
