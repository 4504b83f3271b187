"""Files that save time and nothing else, in the user's cache folder: each one is right, or as good as absent.

Their content may be code (bytecode, pickles, programs of GPUs), so nobody else may have written it.  The rule
is the same for all of them: the folders are this user's and open to nobody else, neither they nor the files
are links, a file is a regular one of this user's with one name.  A file holds a digest of its kind, its name
and its content: one that is damaged or moved counts as absent.  Files are replaced whole, so processes that
read and write at once see old ones or new ones.  What is removed are files that this module named.  Nothing
here raises: without a cache everything works, and takes its time; ``sdi doctor`` says that there is none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator

from sdi import limits
from sdi.dataclass import dataclass

_log = logging.getLogger("sdi.cache")

_DIGEST_NBYTES = 32
_NBYTES_MAX = 64 << 20
_ALL_NBYTES_MAX = 512 << 20
_LOOK_AFTER = 64
"""Other processes write, too: after so many files of this one a folder is looked at again."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TURNS = 256
"""So many locks are there for all names of a kind."""
_OWN_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16})?")
"""A file, or one that is still being written."""
_known: dict[tuple[int, int], tuple[int, int, int]] = {}
"""By folder (device, inode): files and bytes there, as far as is known, and files written since then."""


class NoCache(Exception):
    """There is no folder that only this user can write to; the text says why."""


def base() -> str:
    """The folder for all kinds: ``$XDG_CACHE_HOME/sdi``, or ``~/.cache/sdi``; not made here.

    Raises NoCache for a user without a home.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not home.startswith("/"):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    if not home.startswith("/"):
        raise NoCache("this user has no home folder, and XDG_CACHE_HOME is not set")
    return os.path.join(home, "sdi")


def folder(kind: str) -> str:
    """The folder for one kind of files, made if need be.  Raises NoCache."""
    with _opened(kind):
        return os.path.join(base(), kind)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that is kept.  ``content``: None where it is damaged, or none of ours.  ``used_s``: when it was
    last used, in seconds since 1970.
    """

    nbytes: int
    used_s: float
    content: bytes | None


def read(kind: str, name: str) -> bytes | None:
    """The content of a file; None when there is none, or none that is whole.

    Among files of a kind it is now the most recently used.
    """
    own = _own_name(kind, name)
    try:
        with _opened(kind) as where:
            return _read(where, own, kind, is_used=True)
    except (OSError, NoCache):
        return None


def kinds() -> list[str]:
    """The kinds of which there is a folder; nothing is made.  Raises NoCache."""
    try:
        with os.scandir(base()) as found:
            return sorted(each.name for each in found if each.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as cause:
        raise NoCache(str(cause)) from cause


def entries(kind: str) -> list[KeptFile]:
    """All files of a kind, the last used first; they count as used no later for that.  Raises NoCache."""
    found = []
    with _opened(kind) as where:
        for used_ns, nbytes, own in sorted(_own_files(where), reverse=True):
            with contextlib.suppress(OSError):  # another process has just removed it
                content = _read(where, own, kind, is_used=False)
                found.append(KeptFile(nbytes, used_ns / 1e9, content))
    return found


def clear(kind: str) -> tuple[int, int]:
    """Remove all files of a kind that this module named; how many, and their bytes.  Raises NoCache."""
    removed = nbytes_removed = 0
    with _opened(kind) as where:
        for _, nbytes, own in _own_files(where):
            with contextlib.suppress(OSError):
                os.unlink(own, dir_fd=where)
                removed, nbytes_removed = removed + 1, nbytes_removed + nbytes
    return removed, nbytes_removed


def _read(where: int, own: str, kind: str, is_used: bool) -> bytes | None:
    """The content of a file in the folder ``where``, None where it is not whole.  Raises OSError."""
    with open(own, "rb", opener=_in(where, _READ)) as file:
        found = os.fstat(file.fileno())
        # Without a name when it has just been replaced.
        is_one = stat.S_ISREG(found.st_mode) and found.st_nlink <= 1
        if not is_one or not _is_ours(found) or found.st_size > _NBYTES_MAX:
            _log.debug("%s of kind %s: not a file of ours", own, kind)
            return None
        data = file.read(found.st_size)
        if is_used:
            os.utime(file.fileno())
    digest, content = data[:_DIGEST_NBYTES], data[_DIGEST_NBYTES:]
    if _digest(own, content) != digest:
        _log.debug("%s of kind %s is damaged", own, kind)
        return None
    return content


def write(kind: str, name: str, content: bytes, most: int = 256, most_nbytes: int = _ALL_NBYTES_MAX) -> None:
    """Keep ``content``.

    Of more than ``most`` files of its kind, or more bytes than that in all, those used longest ago go.
    """
    if len(content) + _DIGEST_NBYTES > _NBYTES_MAX:
        return
    own = _own_name(kind, name)
    scratch = f"{own}.{os.urandom(8).hex()}"
    try:
        with _opened(kind) as where:
            try:
                with open(scratch, "xb", opener=_in(where, _WRITE)) as file:
                    file.write(_digest(own, content) + content)
                os.replace(scratch, own, src_dir_fd=where, dst_dir_fd=where)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(scratch, dir_fd=where)
                raise
            _make_room(where, most, most_nbytes, len(content))
    except (OSError, NoCache) as cause:
        _log.debug("not kept: %s", cause)


@contextlib.contextmanager
def turn(kind: str, name: str) -> Iterator[None]:
    """What processes that share the folder, and their threads, do here with one name they do in turns.

    Other names of the kind are seldom kept waiting.  Blocks.  Without a cache there are no turns, nor where
    a descriptor may be missed.
    """
    if limits.has_few_files():
        yield
        return
    try:
        with _opened(kind) as where:
            number = int(_own_name(kind, name), 16) % _TURNS
            lock = os.open(f"{number:02x}", _LOCK, 0o600, dir_fd=where)
    except (OSError, NoCache) as cause:
        _log.debug("no turns: %s", cause)
        yield
        return
    try:
        _lock(lock, f"{kind} in {base()}")
        yield
    finally:
        os.close(lock)


def _lock(lock: int, what: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.info("waiting for a process that has its turn: %s", what)
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as cause:  # a file system without locks
        _log.debug("no turns: %s: %s", what, cause)


@contextlib.contextmanager
def _opened(kind: str) -> Iterator[int]:
    """The descriptor of the folder for one kind of files, made if need be.  Raises NoCache.

    What leads to the base is the user's choice, and may go through links and folders of others: they can't
    put a folder there that is this user's and has files of this user's in it.
    """
    path = base()
    home = os.path.dirname(path)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        at = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as cause:
        raise NoCache(str(cause)) from cause
    try:
        for part in ("sdi", kind):
            below = _own_folder(at, part, path)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _own_folder(at: int, name: str, path: str) -> int:
    """The descriptor of a folder in the folder ``at``, made if need be, of this user and for nobody else."""
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=at)
        opened = os.open(name, _FOLDER, dir_fd=at)
    except OSError as cause:
        raise NoCache(f"{name} for {path}: {cause.strerror}") from cause
    try:
        found = os.fstat(opened)
        if not _is_ours(found):
            raise NoCache(f"others may write to {name} in or above {path}")
        if found.st_mode & 0o077:
            os.fchmod(opened, 0o700)
    except OSError as cause:
        os.close(opened)
        raise NoCache(f"{name} for {path}: {cause.strerror}") from cause
    except NoCache:
        os.close(opened)
        raise
    return opened


def _make_room(where: int, most: int, most_nbytes: int, nbytes: int) -> None:
    """A file of so many bytes was written to the folder ``where``: see ``write``.

    The folder is looked at only if there may be too much of it, by what this process knows, or so often.
    """
    folder = os.fstat(where)
    key = folder.st_dev, folder.st_ino
    files, total_nbytes, writes = _known.get(key, (most, 0, 0))
    files, total_nbytes, writes = files + 1, total_nbytes + nbytes, writes + 1
    if files > most or total_nbytes > most_nbytes or writes >= _LOOK_AFTER:
        files, total_nbytes = _remove_oldest(where, most, most_nbytes)
        writes = 0
    _known[key] = files, total_nbytes, writes


def _remove_oldest(where: int, most: int, most_nbytes: int) -> tuple[int, int]:
    """Remove files of ours from the folder ``where`` until there are no more, or more bytes, than that; how
    many are left, and their bytes.
    """
    found = _own_files(where)
    left, left_nbytes = len(found), sum(nbytes for _, nbytes, _ in found)
    for _, nbytes, name in sorted(found):
        if left <= most and left_nbytes <= most_nbytes:
            break
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=where)
        left, left_nbytes = left - 1, left_nbytes - nbytes
    return left, left_nbytes


def _own_files(where: int) -> list[tuple[int, int, str]]:
    """When each file of ours in the folder ``where`` was last used, in ns, its size and its name."""
    found = []
    with os.scandir(where) as there:
        for entry in there:
            if _OWN_NAME.fullmatch(entry.name):
                with contextlib.suppress(OSError):  # another process has just removed it
                    status = os.stat(entry.name, dir_fd=where, follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        found.append((status.st_mtime_ns, status.st_size, entry.name))
    return found


def _in(where: int, flags: int) -> Callable[[str, int], int]:
    """An opener of files in the folder ``where``."""
    return lambda name, _flags: os.open(name, flags, 0o600, dir_fd=where)


def _own_name(kind: str, name: str) -> str:
    return hashlib.sha256(f"{kind}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()


def _digest(own_name: str, content: bytes) -> bytes:
    return hashlib.sha256(own_name.encode() + content).digest()


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
