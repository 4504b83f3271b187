"""What members that share a driver device have in common: a context, and the programs built in it.

Drivers keep compiled programs, but looking one up takes pocl a fifth of building it anew, and each member
would ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pyopencl as cl
from pyopencl import _cl

from sdi.devices.opencl.compare import Comparer
from sdi.devices.opencl.images import image_formats

ProgramKey = tuple[str, str]
"""Text and options: a driver builds the same from the same."""


@dataclass(slots=True, eq=False)
class _Build:
    """``thread``: that built it; ``members``: that have it, by number."""

    key: ProgramKey
    thread: int
    handle: _cl._Program
    members: set[int] = field(default_factory=set)


class DriverContext:
    """A context on one driver device.  Any thread.  Raises ``cl.Error``.

    ``formats``: of images, empty where ``has_images`` is False; see ``Capabilities``.
    """

    def __init__(self, device: cl.Device, has_images: bool) -> None:
        self.device: Final = device
        self.handle: Final = cl.Context([device])
        self.formats: Final = image_formats(self.handle) if has_images else {}
        self.comparer: Final = Comparer(self.handle)
        self._lock = threading.Lock()
        self._latest: _Build | None = None

    def program(self, member: int, key: ProgramKey, build: Callable[[], _cl._Program]) -> _cl._Program:
        """The latest program, if it has this key and the member has not got it; else what ``build`` makes.

        So members get one program between them as long as each asks once per program, one after the other
        on one thread; two programs of the same text, which may have variables of their own, never become one.
        """
        thread = threading.get_ident()
        with self._lock:
            latest = self._latest
            if (
                latest is not None
                and (latest.key, latest.thread) == (key, thread)
                and member not in latest.members
            ):
                latest.members.add(member)
                return latest.handle
        made = _Build(key, thread, build(), {member})
        with self._lock:
            self._latest = made
        return made.handle
