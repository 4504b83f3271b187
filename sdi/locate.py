"""Where the installed parts are, and the environment in which a loader finds only them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import sysconfig
from collections.abc import Mapping, Set
from pathlib import Path
from tempfile import NamedTemporaryFile

from sdi import cache

LIBRARY = Path("lib", "sdi", "libsdi_icd.so")
INCLUDE = Path(__file__).resolve().parent / "include"
"""Where a C compiler finds ``CL/cl_sdi.h``."""


class NotInstalled(Exception):
    """A part of sdi is missing; the text says which and what to do."""


def prefix() -> Path:
    """The folder that holds ``bin/`` and ``lib/sdi/``: the virtual environment's root."""
    return Path(sysconfig.get_path("data"))


def library() -> Path:
    """Absolute path of the C library, with symbolic links left in it.  Raises NotInstalled."""
    path = prefix() / LIBRARY
    if not path.is_file():
        raise NotInstalled(f"{path} is missing: install sdi again")
    return path


def service_python(environ: Mapping[str, str]) -> Path | None:
    """The Python that the library will start: SDI_PYTHON, else the nearest ``bin/python3`` above it.

    Only one that root, this user or the library's owner put there.
    """
    if environ.get("SDI_PYTHON"):
        return Path(environ["SDI_PYTHON"])
    target = prefix() / LIBRARY
    owners = {0, os.geteuid()} | ({target.stat().st_uid} if target.exists() else set())
    for folder in target.parents:
        python = folder / "bin" / "python3"
        if os.access(python, os.X_OK) and _only_by(owners, python.parent) and _only_by(owners, python):
            return python
    return None


def _only_by(owners: Set[int], path: Path) -> bool:
    found = path.stat()
    return found.st_uid in owners and not found.st_mode & stat.S_IWOTH


def vendors() -> Path:
    """The directory for OCL_ICD_VENDORS, with ``sdi.icd`` in it; made when it is not there.

    Beside the library, or in the user's cache where that folder is read-only.
    """
    target = library()
    errors = []
    for kind in (None, f"vendors-{_digest(target)}"):
        try:
            folder = Path(cache.folder(kind)) if kind is not None else target.parent / "vendors"
            _write(folder / "sdi.icd", f"{target}\n")
        except (OSError, cache.NoCache) as error:
            errors.append(str(error))
        else:
            return folder
    raise NotInstalled(f"no place to write sdi.icd: {'; '.join(errors)}")


def image_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables to set so that an OpenCL loader finds the image and sdi finds the real drivers."""
    # Some loaders know one of the two, CUDA's the files alone; what both name they show once.
    found = {"OCL_ICD_VENDORS": str(vendors()), "OCL_ICD_FILENAMES": str(library())}
    real = _real_vendors(environ)
    if real and not environ.get("SDI_MEMBER_VENDORS"):
        found["SDI_MEMBER_VENDORS"] = real
    python = service_python(environ)
    if not environ.get("SDI_PYTHON") and (python is None or python.parent != Path(sys.executable).parent):
        found["SDI_PYTHON"] = sys.executable  # the library would start a Python that may not have sdi
    return found


def show_only_real_drivers() -> None:
    """Let this process's loader find what the service would find; call it before pyopencl is imported."""
    real = os.environ.get("SDI_MEMBER_VENDORS") or _real_vendors(os.environ)
    for name in ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"):
        os.environ.pop(name, None)
    if real:
        os.environ["OCL_ICD_VENDORS"] = real
    os.environ["SDI_IN_SERVICE"] = "1"


def member_vendors(environ: Mapping[str, str]) -> Path:
    """The folder whose .icd files name the real drivers."""
    return Path(environ.get("SDI_MEMBER_VENDORS") or _real_vendors(environ) or "/etc/OpenCL/vendors")


def _real_vendors(environ: Mapping[str, str]) -> str:
    """The user's own OCL_ICD_VENDORS: where drivers are, unless it is the image's."""
    given = environ.get("OCL_ICD_VENDORS", "")
    return "" if not given or (Path(given) / "sdi.icd").exists() else given


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


def _write(path: Path, text: str) -> None:
    """Make ``path`` hold ``text``; a reader sees the old text or the new one."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.read_text() == text:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=".sdi-", delete=False) as scratch:
        scratch.write(text)
    os.chmod(scratch.name, 0o644)
    os.replace(scratch.name, path)
