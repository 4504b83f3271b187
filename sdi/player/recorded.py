"""What Python keeps of a recording."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.commands import Command
from sdi.dataclass import dataclass, field
from sdi.devices.native import NativeLaunch
from sdi.intervals import ByteRange
from sdi.launch.kernel import LaunchPlan
from sdi.launch.recording import Change, Recording
from sdi.launch.trials import Trial
from sdi.vmem.dependencies import Use
from sdi.vmem.transfers import Transfer


@dataclass(slots=True, eq=False)
class Recorded:
    """What Python keeps of a recording: to count its runs, and to take over what is in flight.

    ``trial``: what tells whether it counts; ``moves``: its operations that move what is appended, by number:
    from where, where to, and why.  ``within``: a read or write anywhere there; None: it is where ``command``
    says.
    """

    number: int
    key: tuple[object, ...]
    command: Command
    transfers: tuple[Transfer, ...]
    changes: Sequence[Change]
    uses: list[tuple[int, tuple[Use, ...]]]
    launch_plan: LaunchPlan | None
    recording: Recording | None
    keep: list[object]
    launches: list[tuple[int, NativeLaunch]] = field(default_factory=list)
    guards: list[tuple[int, int]] = field(default_factory=list)
    trial: Trial | None = None
    moves: Sequence[tuple[int, int, int, str]] = ()
    within: ByteRange | None = None
