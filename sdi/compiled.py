"""The launch path as machine code: what ``sdi compile`` makes and the service prefers, where it is there.

The modules that a repeated launch runs through are ordinary Python; mypyc compiles them as they are.  The
result lies beside the C library, for one version of Python and one state of these sources: after a change of
either the service runs the sources again, until they are compiled again.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MODULES = (
    "sdi.devices.join",
    "sdi.runtime.arguments",
    "sdi.runtime.commands",
    "sdi.runtime.counters",
    "sdi.runtime.engine",
    "sdi.runtime.issue",
    "sdi.runtime.launcher",
    "sdi.runtime.plan",
    "sdi.runtime.programs",
    "sdi.runtime.scheduler",
    "sdi.runtime.virtual_device",
    "sdi.runtime.waves",
    "sdi.vmem.accounting",
    "sdi.vmem.buffer",
    "sdi.vmem.directory",
    "sdi.vmem.hazards",
    "sdi.vmem.heap",
    "sdi.vmem.links",
    "sdi.vmem.memory",
    "sdi.vmem.placement",
)
"""Not ``sdi.intervals`` and ``sdi.ndrange``: the analysis computes with numbers of its own in them."""

_DIGEST = "sources.sha256"
_ROOT = Path(__file__).resolve().parent.parent


class NotCompiled(Exception):
    """Compiling failed; the text says why and what to do."""


def folder() -> Path:
    """Where the compiled modules of this Python are."""
    tag = sys.implementation.cache_tag or "python"
    return Path(sys.prefix, "lib", "sdi", "compiled", tag)


def is_current(where: Path | None = None) -> bool:
    """Whether there are compiled modules, made from the sources as they are now."""
    try:
        return ((where or folder()) / _DIGEST).read_text() == _digest()
    except OSError:
        return False


def prefer(where: Path | None = None) -> bool:
    """Have this process import compiled modules where they are current; whether they are.

    Call it before any of them is imported.
    """
    where = where or folder()
    if not is_current(where):
        return False
    sys.path.insert(0, str(where))
    for package in sorted({module.rpartition(".")[0] for module in MODULES}):
        importlib.import_module(package).__path__.insert(0, str(where.joinpath(*package.split("."))))
    return True


def build(where: Path | None = None, optimise: bool = True) -> None:
    """Compile.  Blocks (a minute or two).  Raises NotCompiled.  A service sees the old modules or the new."""
    where = where or folder()
    if importlib.util.find_spec("mypyc") is None:
        raise NotCompiled("mypy is not installed: pip install mypy setuptools")
    if shutil.which(os.environ.get("CC", "cc")) is None:
        raise NotCompiled("there is no C compiler: install gcc")
    where.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="sdi-compile-", dir=where.parent) as scratch:
        sources, made = Path(scratch, "sources"), Path(scratch, "made")
        shutil.copytree(_ROOT / "sdi", sources / "sdi", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        files = [str(_source(module, Path("."))) for module in MODULES]
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
        (made / _DIGEST).write_text(_digest())
        remove(where)
        made.rename(where)


def remove(where: Path | None = None) -> bool:
    """Go back to the sources; whether there was anything to remove.  Running services keep what they have."""
    where = where or folder()
    if not where.exists():
        return False
    with TemporaryDirectory(prefix="sdi-compile-", dir=where.parent) as scratch:
        where.rename(Path(scratch, "old"))
    return True


def _source(module: str, root: Path) -> Path:
    return root.joinpath(*module.split(".")).with_suffix(".py")


def _digest() -> str:
    found = hashlib.sha256(sys.version.encode())
    for module in MODULES:
        found.update(_source(module, _ROOT).read_bytes())
    return found.hexdigest()
