"""What members that share a driver device have in common: a context, and the programs built in it.

Drivers keep compiled programs, but looking one up takes pocl a fifth of building it anew, and each member
would ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import pyopencl as cl

from sdi.dataclass import dataclass, field
from sdi.devices.opencl.ahead import BuildsAhead
from sdi.devices.opencl.compare import Comparer
from sdi.devices.opencl.driver_program import DriverProgram, ProgramKey
from sdi.devices.opencl.images import are_views, image_formats
from sdi.devices.opencl.memory import is_in_place
from sdi.limits import has_limited_room


@dataclass(slots=True, eq=False)
class _Build:
    """``thread``: that built it; ``members``: that have it, by number."""

    program: DriverProgram
    thread: int
    members: set[int] = field(default_factory=set)


class DriverContext:
    """A context on one driver device.  Any thread.  Raises ``cl.Error``.

    ``formats``: of images, empty where ``has_images`` is False; see ``Capabilities``.  ``is_in_place``,
    ``are_views``: buffers, and images, of host memory are that memory itself.
    """

    def __init__(self, device: cl.Device, has_images: bool) -> None:
        self.device: Final = device
        self.handle: Final = cl.Context([device])
        self.formats: Final = image_formats(self.handle) if has_images else {}
        is_cpu = device.type & cl.device_type.CPU != 0
        self.is_in_place: Final = is_cpu and is_in_place(self.handle, device)
        self.are_views: Final = self.is_in_place and has_images and are_views(self.handle, device)
        self.comparer: Final = Comparer(self.handle)
        self.ahead: Final = BuildsAhead()
        self._lock = threading.Lock()
        self._latest: _Build | None = None

    def program(self, member: int, key: ProgramKey, new: Callable[[], DriverProgram]) -> DriverProgram:
        """The latest program, if it has this key and the member has not got it; else a new one.

        So members get one program between them as long as each asks once per program, one after the other
        on one thread; two programs of the same text, which may have variables of their own, never become one.
        """
        thread = threading.get_ident()
        with self._lock:
            latest = self._latest
            if (
                latest is not None
                and (latest.program.key, latest.thread) == (key, thread)
                and member not in latest.members
            ):
                latest.members.add(member)
                return latest.program
        made = _Build(new(), thread, {member})
        if made.program.is_wanted and not has_limited_room():
            self.ahead.add(lambda: made.program.handle)
        with self._lock:
            self._latest = made
        return made.program
