"""What launches teach, kept on disk from run to run: by program, kinds of members and their number.

Each program has a file of ``sdi/cache.py``, which is read when one of its kernels is first launched.  What it
says is a first guess: results never depend on it, and what is measured counts more.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from sdi import cache
from sdi.devices.capabilities import Capabilities
from sdi.partition.history import LaunchHistory
from sdi.partition.learnt import (
    Attempts,
    Learnt,
    LearntProgram,
    MemberName,
    SizeKey,
    packed,
    unpacked,
)

KIND = "learnt"
VERSION = 2
"""Of what the numbers mean: another one where a time, a shape or a share means something else."""
_FILES_MAX, _NBYTES_MAX = 512, 16 << 20
"""Programs of which something is kept, and bytes in all; those used longest ago go first."""
_EVERY_NS = 1_000_000_000
"""What is new is written no more often than that before the session ends."""


class Page:
    """What is known of one kernel's launches.  Owned by: sdi-scheduler."""

    def __init__(self, pages: Pages, kernel: str) -> None:
        self._pages = pages
        self._kernel = kernel
        self._newest: dict[SizeKey, LaunchHistory] = {}
        self._learnt: dict[SizeKey, Learnt] = {}

    def begin(self, size: SizeKey, new: LaunchHistory) -> None:
        """Launches of that size begin on other buffers than the last ones, or of a program built anew.

        The first ones begin as those of an earlier run ended; others with the times that are known.
        """
        self._pages.learning.look()
        last = self._newest.get(size)
        if last is not None:
            if (known := last.learns()) is not None:
                self._learnt[size] = known
            new.follows(last)
        elif (kept := self._pages.find(self._kernel, size)) is not None:
            new.begin_with(kept)
        self._newest[size] = new

    def learnt(self) -> dict[SizeKey, Learnt]:
        """What this run has learnt, by size of launches."""
        for size, history in self._newest.items():
            known = history.learns()
            if known is not None:
                self._learnt[size] = known
        return self._learnt


class Pages:
    """What is known of the kernels of one program, from earlier runs and this one.

    Owned by: sdi-scheduler.
    """

    def __init__(self, name: str, learning: Learning, members: tuple[MemberName, ...]) -> None:
        self._name = name
        self._members = members
        self.learning = learning
        self._begun_with: LearntProgram | None = None
        self._pages: dict[str, Page] = {}
        self._attempts: dict[str, Attempts] = {}

    def page(self, kernel: str) -> Page:
        """Of one kernel; the same each time that its program is built."""
        return self._pages.setdefault(kernel, Page(self, kernel))

    def attempts(self, kernel: str) -> Attempts:
        """What became of launches of a kernel that were split at a risk; the same for each of its builds."""
        found = self._attempts.get(kernel)
        if found is None:
            found = self._kept().attempts.get(kernel, Attempts()).begun(len(self._members))
            self._attempts[kernel] = found
        return found

    def find(self, kernel: str, size: SizeKey) -> Learnt | None:
        """What earlier runs learnt of a kernel's launches of about that size."""
        found = self._kept().launches.get(kernel, {}).get(size)
        return found if found is not None and found.assignments <= len(self._members) else None

    def write(self) -> None:
        """Keep what is known now, beside what other processes have written meanwhile."""
        tried = {name: each for name, each in self._attempts.items() if each.stood + each.undone}
        new = {name: found for name, page in self._pages.items() if (found := page.learnt())}
        if tried or new:
            keep(LearntProgram(self._name, self._members, new, tried, int(time.time())))

    def _kept(self) -> LearntProgram:
        if self._begun_with is None:
            self._begun_with = read(self._name) or LearntProgram(self._name, self._members)
        return self._begun_with


def read(name: str) -> LearntProgram | None:
    """What is kept of a program; None where there is nothing."""
    content = cache.read(KIND, name)
    found = None if content is None else unpacked(content)
    return found if found is not None and found.name == name else None


def keep(new: LearntProgram, is_newer: bool = True) -> bool:
    """Keep this beside what is kept already, or behind that; whether anything of it was new.

    What of it is too much is cut off at the end.
    """
    with cache.turn("learning", new.name):
        before = read(new.name)
        found = new
        if before is not None:
            found = new.over(before) if is_newer else before.over(new)
        if found == before:
            return False
        cache.write(KIND, new.name, packed(found), _FILES_MAX, _NBYTES_MAX)
        return True


class Learning:
    """What a session learns while it has all of its members.  Owned by: sdi-scheduler."""

    def __init__(
        self, members: Sequence[Capabilities], now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._members = tuple([(each.kind.name, each.name, each.driver, each.node) for each in members])
        self._now_ns = now_ns
        self._written_ns = now_ns()
        self._pages: dict[str, Pages] = {}

    def pages(self, program: bytes, members: int) -> Pages | None:
        """What is known of a program; None where members were lost.  ``members``: that are left."""
        if members != len(self._members):
            return None
        name = hashlib.sha256(program + repr((VERSION, self._members)).encode()).hexdigest()
        return self._pages.setdefault(name, Pages(name, self, self._members))

    def look(self) -> None:
        """Keep what is known, if that was not done lately."""
        now_ns = self._now_ns()
        if now_ns - self._written_ns >= _EVERY_NS:
            self.write()
            self._written_ns = now_ns

    def write(self) -> None:
        """Keep what is known now."""
        for pages in self._pages.values():
            pages.write()
