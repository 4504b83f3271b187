"""Files that others read while they are written: they see the old one or the whole new one.

Their folder may be one where others can write too (``/tmp``): nothing is written through a link that waits
there, and nothing is opened that somebody else made.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def check(path: Path) -> None:
    """Raise OSError if ``replace`` would, as things are now."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(0, "it is there and is no regular file", str(path))
    os.unlink(_written(path, ""))


def replace(path: Path, text: str) -> None:
    """Make ``path`` hold ``text``.  Raises OSError."""
    scratch = _written(path, text)
    try:
        os.replace(scratch, path)
    except OSError:
        os.unlink(scratch)
        raise


def open_new(path: Path) -> int:
    """A descriptor to write a file that takes the place of what had its name.  Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def _written(path: Path, text: str) -> Path:
    """A new file beside ``path`` that nobody can have expected."""
    scratch = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = open_new(scratch)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        os.unlink(scratch)
        raise
    return scratch
