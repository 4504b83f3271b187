"""How much of this machine's memory nobody uses."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
_OWN_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_STRICT = "2"


def free_nbytes() -> int:
    """Bytes that this process could take without anybody having to give some up; 0 where that is not known.

    Also 0 where large mappings may be refused that are hardly used: where address space is limited
    (``ulimit -v``), and on machines that promise no more memory than they have.
    """
    is_limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if is_limited or _text(_OVERCOMMIT) == _STRICT:
        return 0
    fields = dict(line.partition(":")[::2] for line in _text(_MEMINFO).splitlines())
    free = fields.get("MemAvailable", "0 kB").split()
    return max(0, min([int(free[0]) << 10, *_left_in_groups()]))


def _left_in_groups() -> Iterator[int]:
    """What each control group (version 2) that this process is in leaves it."""
    own = next((line[3:] for line in _text(_OWN_GROUP).splitlines() if line.startswith("0::")), "")
    group = _GROUPS / own.lstrip("/")
    for folder in (group, *group.parents):
        most, used = _text(folder / "memory.max"), _text(folder / "memory.current")
        if most.isdecimal() and used.isdecimal():
            yield int(most) - int(used)
        if folder == _GROUPS:
            break


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text().strip()
    return ""
