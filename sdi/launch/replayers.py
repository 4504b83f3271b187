"""Who else than Python here carries out recordings: the player, and nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sdi.devices.handles import BoundKernel
from sdi.devices.issue import Issue, Timing
from sdi.devices.ticket import Ticket
from sdi.launch.kernel import Binding
from sdi.launch.recording import Recording
from sdi.launch.trials import Trial


class Replayer(Protocol):
    """Who executes recordings without Python: ``sdi/player``."""

    @property
    def is_on(self) -> bool:
        """Whether it still does."""
        ...

    def keep_launch(
        self,
        binding: Binding,
        recording: Recording,
        kernels: Sequence[BoundKernel],
        trial: Trial | None = None,
    ) -> None:
        """A launch may be issued as ``recording``; ``trial``: whether it counts."""
        ...

    def has_room(self) -> bool:
        """Whether it keeps another one without forgetting any, for which nothing may be in flight."""
        ...

    def changed(self) -> None:
        """What many recordings rest on is no more as it was."""
        ...


IssueParts = Callable[[Issue, Timing], list[Ticket]]
"""Issues a recording once more, like ``Recording.replay``."""
IssueTimed = Callable[[Issue], list[Ticket]]
"""The same, measured: the tickets of its assignments, in their order."""


class PartsReplayer(Protocol):
    """Who has nodes keep their parts of recordings: ``cluster/head.py``."""

    def find(self, binding: Binding | None, recording: Recording) -> IssueParts | None:
        """What has nodes replay a recording; None where they don't keep it.  Raises ClError.

        ``binding``: of a launch; None of a recording that brings bytes of one buffer to the host.
        """
        ...

    def find_timed(self, binding: Binding, recording: Recording) -> IssueTimed | None:
        """The same for a launch that is measured; None also where it is not known when each member ran."""
        ...
