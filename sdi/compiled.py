"""The launch path as machine code: what ``sdi compile`` makes and the service prefers, where it is there.

The modules that a repeated launch runs through are ordinary Python; mypyc compiles them as they are.  The
result lies beside the C library, for one version of Python and one state of these sources: after a change of
either the service runs the sources again, until they are compiled again.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

MODULES = (
    "sdi.devices.cuda_channel",
    "sdi.devices.cuda_lane",
    "sdi.devices.join",
    "sdi.devices.lane",
    "sdi.devices.pace",
    "sdi.devices.ticket",
    "sdi.icd.decode",
    "sdi.icd.session",
    "sdi.icd.status_page",
    "sdi.partition.usage",
    "sdi.runtime.arguments",
    "sdi.runtime.commands",
    "sdi.runtime.counters",
    "sdi.runtime.engine",
    "sdi.runtime.issue",
    "sdi.runtime.launcher",
    "sdi.runtime.plan",
    "sdi.runtime.programs",
    "sdi.runtime.repeat",
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

DIGEST = "sources.sha256"
"""The file beside the compiled modules that says what they were made from."""
ROOT = Path(__file__).resolve().parent.parent


def folder() -> Path:
    """Where the compiled modules of this Python are."""
    tag = sys.implementation.cache_tag or "python"
    return Path(sys.prefix, "lib", "sdi", "compiled", tag)


def is_current(where: Path | None = None) -> bool:
    """Whether there are compiled modules, made from the sources as they are now."""
    try:
        made_from = ((where or folder()) / DIGEST).read_text()
    except OSError:
        return False
    return made_from == digest()


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


def source(module: str, root: Path) -> Path:
    """The file of a module."""
    return root.joinpath(*module.split(".")).with_suffix(".py")


def digest(root: Path = ROOT) -> str:
    """What compiled modules are made from: this Python and the sources under ``root`` as they are now."""
    import hashlib  # here: a service without compiled modules starts without it

    found = hashlib.sha256(sys.version.encode())
    for module in MODULES:
        found.update(source(module, root).read_bytes())
    return found.hexdigest()
