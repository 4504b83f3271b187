"""Files that save time and nothing else, in the user's cache folder: each one is right, or as good as absent.

Their content may be code (bytecode, pickles), so the folder must belong to this user, and nobody else may
write to it.  A file holds a digest of its content: one that is damaged counts as absent.  Files are replaced
whole, so processes that read and write at once see old ones or new ones.  Nothing here raises: without a
cache everything works, and takes its time.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat

_log = logging.getLogger("sdi.cache")

_DIGEST_NBYTES = 32
_NBYTES_MAX = 64 << 20


def folder(kind: str) -> str | None:
    """The folder for one kind of files, made if need be; None where there can't be a safe one.

    It is ``$XDG_CACHE_HOME/sdi/KIND``, or ``~/.cache/sdi/KIND``.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not home.startswith("/"):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    path = os.path.join(home, "sdi", kind)
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
        if not (stat.S_ISDIR(found.st_mode) and _is_ours(found)):
            _log.debug("no cache: others may write to %s", path)
            return None
    except OSError as cause:
        _log.debug("no cache: %s", cause)
        return None
    return path


def read(kind: str, name: str) -> bytes | None:
    """The content of a file; None when there is none, or none that is whole.

    Among files of a kind it is now the most recently used.
    """
    where = folder(kind)
    if where is None:
        return None
    try:
        with open(os.path.join(where, name), "rb", opener=_no_link) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _is_ours(found) or found.st_size > _NBYTES_MAX:
                return None
            data = file.read()
            os.utime(file.fileno())
    except OSError:
        return None
    digest, content = data[:_DIGEST_NBYTES], data[_DIGEST_NBYTES:]
    if hashlib.sha256(content).digest() != digest:
        _log.debug("%s/%s is damaged", where, name)
        return None
    return content


def write(kind: str, name: str, content: bytes, most: int = 256) -> None:
    """Keep ``content``; of more than ``most`` files of its kind those used longest ago are removed."""
    where = folder(kind)
    if where is None or len(content) + _DIGEST_NBYTES > _NBYTES_MAX:
        return
    scratch = os.path.join(where, f".{name}.{os.getpid()}")
    try:
        with open(scratch, "xb", opener=_private) as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(scratch, os.path.join(where, name))
        _remove_oldest(where, most)
    except OSError as cause:
        _log.debug("not kept: %s", cause)
        with contextlib.suppress(OSError):
            os.unlink(scratch)


def _remove_oldest(where: str, most: int) -> None:
    with os.scandir(where) as entries:
        found = list(entries)
    if len(found) <= most:
        return
    ages = []
    for entry in found:
        with contextlib.suppress(FileNotFoundError):  # another process has just removed it
            ages.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
    for _, path in sorted(ages)[: len(ages) - most]:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
