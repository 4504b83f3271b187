"""What this process may have: limits, cores, and how large the memory shared with the application can be."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sdi.sizes import size

_RAISED = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
_NAMES = {
    resource.RLIMIT_AS: "address space (ulimit -v)",
    resource.RLIMIT_DATA: "data (ulimit -d)",
    resource.RLIMIT_FSIZE: "size of files (ulimit -f)",
    resource.RLIMIT_NOFILE: "open files (ulimit -n)",
}
_PAGE_NBYTES = 4096
_STEP_NBYTES = 1 << 20
MAP_NORESERVE = 0x4000
"""Of Linux; mmap lacks it."""
_M_ARENA_MAX = -8
_RESERVE_NBYTES = 320 << 20
"""Address space for what is loaded and compiled after the drivers: parser, analysis, programs, threads; and
for the part of the memory shared with the application that isn't buffers."""
_FILES_FEW = 64
_OF_TIME = "cpu"
"""The controller of cgroups that sets quotas."""


def prepare() -> None:
    """Raise this process's limits as far as it may; before threads are started.

    Where address space is limited all the same, the C library must not reserve 64 MiB of it for each thread.
    """
    for which in _RAISED:
        _, hard = resource.getrlimit(which)
        with suppress(OSError, ValueError):
            resource.setrlimit(which, (hard, hard))
    if has_limited_room():
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def has_limited_room() -> bool:
    """Whether address space is limited, so that threads, each with a stack, take of what buffers can have."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def without_threads_for_algebra() -> None:
    """Have numpy start none; before it is imported.

    By itself it starts one per core, which wait in loops; the small systems here only lose by that.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def cores(of: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """How many this process may keep busy: those it may run on, or fewer where it has a quota of time.

    ``of``: the groups that it is in, below ``groups``: containers set quotas (cgroups, both versions).
    """
    least = float(len(os.sched_getaffinity(0)))
    with suppress(OSError, ValueError):
        for line in of.read_text().splitlines():
            _, controllers, inner = line.split(":", 2)
            if not controllers or _OF_TIME in controllers.split(","):
                least = min([least, *_quotas(groups / controllers, Path(inner.lstrip("/")))])
    return max(1, math.ceil(least))


def _quotas(root: Path, inner: Path) -> Iterator[float]:
    """In cores, of a group and those around it; which of them can be seen from here differs."""
    for group in (inner, *inner.parents):
        with suppress(OSError, ValueError):
            quota, period = (root / group / "cpu.max").read_text().split()
            yield math.inf if quota == "max" else int(quota) / int(period)
        with suppress(OSError, ValueError):
            given = int((root / group / "cpu.cfs_quota_us").read_text())
            yield math.inf if given < 0 else given / int((root / group / "cpu.cfs_period_us").read_text())


def room(most: int) -> int:
    """Half of the address space that is left when all is loaded, at most ``most``.

    So much can buffers have in the memory that is shared with the application, and so much can members that
    compute on the host have of their own.
    """
    fits, step = 0, most
    while fits < most and step >= _STEP_NBYTES:
        with suppress(OSError, OverflowError):
            mmap.mmap(-1, fits + step, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, 0).close()
            fits += step
        step //= 2
    return most if fits >= most else max(0, fits - _RESERVE_NBYTES) // 2 // _PAGE_NBYTES * _PAGE_NBYTES


def largest_file(most: int) -> int:
    """Bytes that a file may have, at most ``most``."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return most if limit == resource.RLIM_INFINITY else min(most, limit // _PAGE_NBYTES * _PAGE_NBYTES)


def memory_file(name: str, flags: int = 0) -> int:
    """The descriptor of a new file in memory.  Raises OSError, which says what there is none of."""
    try:
        return os.memfd_create(name, os.MFD_CLOEXEC | flags)
    except OSError as cause:
        what = f"no file in memory (memfd_create): {cause.strerror}"
        raise OSError(cause.errno, what) from cause


def has_few_files() -> bool:
    """Whether descriptors have to be spared: a driver may need those that are left."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and limit < _FILES_FEW


def described() -> str:
    """The limits that are tight, for a message: "; limits: open files (ulimit -n) 9", or nothing."""
    found = []
    for which, name in _NAMES.items():
        limit, _ = resource.getrlimit(which)
        if limit == resource.RLIM_INFINITY:
            continue
        if which != resource.RLIMIT_NOFILE:
            found.append(f"{name} {size(limit)}")
        elif limit < _FILES_FEW:
            found.append(f"{name} {limit}")
    return f"; limits: {', '.join(found)}" if found else ""
