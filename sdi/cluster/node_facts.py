"""What a node tells of itself, and what it is asked to open."""

from __future__ import annotations

from collections.abc import Mapping

from sdi.dataclass import dataclass, field
from sdi.devices.capabilities import MemberKind
from sdi.devices.discover import MemberSettings


@dataclass(frozen=True, slots=True)
class JobDevice:
    """A device of a process of the job.  Implements ``MemberCandidate``.

    ``position``: among that one's; ``node``: the process' rank, which it does not know itself.
    """

    platform: str
    name: str
    kind: MemberKind
    unit: str
    memory_nbytes: int
    info: Mapping[int, bytes] = field(repr=False)
    position: int
    node: int = 0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node says of itself once.

    ``host``: its machine's boot id, the same for nodes of one machine; ``hostname``: its name.
    ``pid``: the process.  ``devices``: that can become members.  ``free_nbytes``: of the machine's memory.
    """

    version: str
    host: str
    hostname: str
    pid: int
    devices: tuple[JobDevice, ...]
    free_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The members that a node is to open.

    ``members``: of each its position among the node's devices, its number, and the bytes of memory it gets.
    """

    members: tuple[tuple[int, int, int], ...]
    settings: MemberSettings = field(default_factory=MemberSettings)
