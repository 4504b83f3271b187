"""``sdi compile``: the launch path as machine code."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sdi import compiled


class NotCompiled(Exception):
    """Compiling failed; the text says why and what to do."""


def compile_launch_path(remove: bool) -> int:
    """Compile, or go back to the sources; the exit status."""
    if remove:
        print("removed" if remove_compiled() else "there is nothing to remove")
        return 0
    if sys.stderr.isatty():
        print(f"compiling {len(compiled.MODULES)} modules: a minute or two ...", file=sys.stderr)
    try:
        build()
    except (NotCompiled, OSError) as error:
        print(f"sdi: {error}", file=sys.stderr)
        return 1
    print(f"services that start from now on use {compiled.folder()}")
    return 0


def build(where: Path | None = None, optimise: bool = True) -> None:
    """Compile.  Blocks (a minute or two).  Raises NotCompiled.  A service sees the old modules or the new."""
    where = where or compiled.folder()
    if importlib.util.find_spec("mypyc") is None:
        raise NotCompiled("mypy is not installed: pip install mypy setuptools")
    if shutil.which(os.environ.get("CC", "cc")) is None:
        raise NotCompiled("there is no C compiler: install gcc")
    where.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="sdi-compile-", dir=where.parent) as scratch:
        sources, made = Path(scratch, "sources"), Path(scratch, "made")
        shutil.copytree(
            compiled.ROOT / "sdi", sources / "sdi", ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
        files = [str(compiled.source(module, Path("."))) for module in compiled.MODULES]
        done = subprocess.run(
            [sys.executable, "-m", "mypyc", *files],
            cwd=sources,
            env={**os.environ, "MYPYC_OPT_LEVEL": "3" if optimise else "0", "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "error:" in line]
            raise NotCompiled("\n".join(["mypyc failed:", *(lines or done.stderr.splitlines())[-8:]]))
        for library in sources.rglob("*.so"):
            if "build" not in library.relative_to(sources).parts:
                target = made / library.relative_to(sources)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)
        # Of what was compiled: those that it was copied from may have been changed meanwhile.
        (made / compiled.DIGEST).write_text(compiled.digest(sources))
        remove_compiled(where)
        made.rename(where)


def remove_compiled(where: Path | None = None) -> bool:
    """Go back to the sources; whether there was anything to remove.  Running services keep what they have."""
    where = where or compiled.folder()
    if not where.exists():
        return False
    with TemporaryDirectory(prefix="sdi-compile-", dir=where.parent) as scratch:
        where.rename(Path(scratch, "old"))
    return True
