"""What a session's profile is told of commands that the player executes: ``profile.replayed`` reads it."""

from __future__ import annotations

import ctypes

from sdi.commands import Command, Write, described
from sdi.launch.kernel import LaunchPlan
from sdi.launch.profiling import shape_number
from sdi.player import library as c
from sdi.player.builder import Builder
from sdi.profile.record.recorder import Recorder
from sdi.wire.layout import layout
from sdi.wire.profile import LOGGED

_LOGGED_NBYTES = layout(LOGGED).size
_ON_HOST = (c.CLIENT_WRITES, c.CLIENT_FILLS)


class Profiled:
    """Owned by: whoever has the turn."""

    def __init__(self, quick: ctypes.PyDLL, handle: int, recorder: Recorder) -> None:
        """Raises MemoryError."""
        self._quick, self._handle, self._recorder = quick, handle, recorder
        self._lines = ctypes.c_void_p()
        if quick.sdi_player_profiled(handle, c.LOGGED_SOON):
            raise MemoryError

    def recorded(
        self, builder: Builder, command: Command, launch_plan: LaunchPlan | None, kernel: str
    ) -> None:
        """A recording is made: say what it is, once."""
        kind, nbytes = described(command)
        shape = 0 if launch_plan is None else shape_number(self._recorder, kernel, launch_plan)
        is_on_host = builder.client[0] in _ON_HOST
        # The bytes of the next write are others; the player says how many.
        is_other = isinstance(command, Write) and builder.client[0] != c.CLIENT_WRITTEN
        counted = 0 if is_other else nbytes
        builder.profiled = self._recorder.recording(
            kind, counted, kernel, shape, is_on_host, builder.told, self._recorder.asked(command)
        )

    def adopted(self, told: c.Told, command: Command) -> None:
        """Python finishes a command that is in flight."""
        kind, nbytes = described(command)
        # Of a write that was recorded the first one's are known: what came with this one counts.
        asked = self._recorder.asked(command)
        self._recorder.arrived(told.id, told.queue, kind, told.nbytes or nbytes, told.submitted_ns, asked)

    def write(self) -> None:
        """Have the recorder write down what the player has done since the last time."""
        if count := self._quick.sdi_player_logged(self._handle, self._lines):
            self._recorder.replayed(ctypes.string_at(self._lines.value or 0, count * _LOGGED_NBYTES))
