"""What a profile knows, as frozen values: read from the files of SDI_PROFILE, the source of every output.

Times are ns of the host's monotonic clock, 0 where something never came so far.  Memories are numbered as in
``sdi.vmem.directory``: 0 is the host, m + 1 is member m; behind them are nodes' own.
"""

from __future__ import annotations

from typing import Any

from sdi.dataclass import dataclass, field

HOST = 0


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the application.  ``kind``: "launch", "read", "write", "copy", "fill", "map" ...
    ``asked``: the number of what it asks for, 0 where that was not recorded.
    """

    id: int
    queue: int
    kind: str
    nbytes: int
    queued_ns: int
    submitted_ns: int
    start_ns: int
    end_ns: int
    status: int
    asked: int = 0


@dataclass(frozen=True, slots=True)
class AskedCommand:
    """What commands of this number ask for: ``row`` as ``profile/record/asked.py`` has it."""

    id: int
    row: list[Any]


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """``object``: what it can be made from again, packed, in base64."""

    id: int
    at_ns: int
    object: str


@dataclass(frozen=True, slots=True)
class CreatedBuffer:
    """``is_defined``: the application has filled it."""

    id: int
    at_ns: int
    nbytes: int
    is_defined: bool


@dataclass(frozen=True, slots=True)
class Released:
    """A buffer or program of which the application has no use any more."""

    id: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """How launches are cut: ``members`` assignments at a time in ``chunks``; ``cut``: parts per dimension.

    ``regions``: of shared virtual memory that they may reach by addresses, ``reached_nbytes`` in all.
    """

    id: int
    kernel: str
    num_groups: tuple[int, ...]
    local_size: tuple[int, ...]
    members: int
    cut: tuple[int, ...]
    why_whole: str
    chunks: int
    merged_nbytes: int
    regions: int = 0
    reached_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class LaunchSpan:
    """What the service did to issue one launch: ``begin_ns``, plan there at ``bound_ns``, all issued at
    ``issued_ns``; ``held_ns`` of it waiting for memory.  ``known``: "replay" (by the player), "binding",
    "plan", or empty: a new plan.
    """

    command: int
    kernel: str
    shape: int
    known: str
    begin_ns: int
    bound_ns: int
    issued_ns: int
    held_ns: int

    @property
    def is_planned(self) -> bool:
        """Whether the service looked for its plan."""
        return self.known not in ("replay", "binding")


@dataclass(frozen=True, slots=True)
class AssignmentSpan:
    """Work-groups of a launch on one member."""

    command: int
    chunk: int
    member: int
    groups: int
    start_ns: int
    end_ns: int
    status: int


@dataclass(frozen=True, slots=True)
class CopySpan:
    """A copy between two memories.  ``cause``: "kernel: argument", or what kind of command wanted it.

    ``is_staged``: one of two that bring bytes from a member to another through the host.
    """

    command: int
    source: int
    target: int
    nbytes: int
    cause: str
    is_staged: bool
    start_ns: int
    end_ns: int
    status: int


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """Something else on a member, or on the host (``member`` -1).

    ``what``: "copy" or "fill" as a command asked for, "twin", "diff" or "merge" of what several wrote,
    "move" of a buffer to another place on its member, "task" of the host.
    """

    command: int
    what: str
    member: int
    nbytes: int
    cause: str
    start_ns: int
    end_ns: int
    status: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A time in which the service decided and issued, or built a program; ``cpu_ns``: of its thread."""

    start_ns: int
    end_ns: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class Resident:
    """So many bytes were allocated on a member from then on."""

    member: int
    at_ns: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the image; ``kind``: "cpu" or "gpu".  ``node``: the rank of its process in a job;
    ``is_near``: that shares memory with rank 0.  ``memory_nbytes``: its share of its device's; ``info``: its
    ``clGetDeviceInfo`` by parameter number, in base64; ``formats``: of images, as ``Capabilities`` has them;
    of equal members the first one's.
    """

    name: str
    kind: str
    node: int = 0
    is_near: bool = True
    memory_nbytes: int = 0
    info: dict[str, str] = field(default_factory=dict)
    formats: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PatternRow:
    """Copies before launches of a kernel for one argument that make one pattern, or reductions after them.

    ``nbytes``: that arrived, in all ``launches``; ``most_nbytes``: that left one place in one launch;
    ``passed_nbytes``: sent by who had got them in the same launch.  ``rounds``: see ``CopyPattern``.
    """

    argument: str
    pattern: str
    launches: int
    nbytes: int
    most_nbytes: int
    passed_nbytes: int
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class ExplainedKernel:
    """Of a kernel's last launch, by argument: how well reads and writes are known; ``lines``: for people.

    ``patterns``: of all launches that Python issued.
    """

    arguments: tuple[tuple[str, str, str], ...]
    why_whole: str
    advice: str
    lines: tuple[str, ...]
    patterns: tuple[PatternRow, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionProfile:
    """One service.  ``is_complete``: it wrote its last line.  ``link_ns``: measured ns per byte of a link."""

    pid: int
    application: int
    members: tuple[Member, ...]
    opened_ns: int
    closed_ns: int
    is_complete: bool
    commands: tuple[Command, ...] = ()
    shapes: tuple[LaunchShape, ...] = ()
    launches: tuple[LaunchSpan, ...] = ()
    assignments: tuple[AssignmentSpan, ...] = ()
    copies: tuple[CopySpan, ...] = ()
    works: tuple[WorkSpan, ...] = ()
    turns: tuple[Turn, ...] = ()
    builds: tuple[Turn, ...] = ()
    residents: tuple[Resident, ...] = ()
    link_ns: dict[tuple[int, int], float] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    explained: dict[str, ExplainedKernel] = field(default_factory=dict)
    asked: tuple[AskedCommand, ...] = ()
    programs: tuple[BuiltProgram, ...] = ()
    buffers: tuple[CreatedBuffer, ...] = ()
    released: tuple[Released, ...] = ()

    def node(self, memory: int) -> int:
        """The node that a memory belongs to; the host's is 0."""
        member = self.member(memory)
        if member is not None:
            return self.members[member].node
        nodes = sorted({each.node for each in self.members} - {0})
        return 0 if memory == HOST else nodes[memory - len(self.members) - 1]

    def member(self, memory: int) -> int | None:
        """The member whose a memory is; None of those of the host and of nodes."""
        return memory - 1 if 0 < memory <= len(self.members) else None

    def crosses(self, copy: CopySpan) -> bool:
        """Whether a copy goes over a network."""
        near = {0, *(member.node for member in self.members if member.is_near)}
        places = {self.node(memory) for memory in (copy.source, copy.target)}
        return len({0 if node in near else node for node in places}) > 1

    def memory_name(self, memory: int) -> str:
        """ "host", the member's number, or "node 2"."""
        member = self.member(memory)
        if member is not None:
            return str(member)
        return "host" if memory == HOST else f"node {self.node(memory)}"

    def kernel_names(self) -> list[str]:
        """In the order of their first launch."""
        return list(dict.fromkeys(launch.kernel for launch in self.launches))


@dataclass(frozen=True, slots=True)
class CallTotals:
    """All calls of one function of the API; ``failed``: how many answered an error."""

    name: str
    calls: int
    ns: int
    min_ns: int
    max_ns: int
    failed: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call; ``end_ns`` is 0 if it never returned."""

    name: str
    thread: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Application:
    """The calls of one process.  ``dropped``: calls that are in ``totals`` but had no room in ``calls``."""

    pid: int
    started_ns: int
    totals: tuple[CallTotals, ...]
    calls: tuple[Call, ...]
    dropped: int


@dataclass(frozen=True, slots=True)
class Profile:
    """All services and processes of a run."""

    sessions: tuple[SessionProfile, ...]
    applications: tuple[Application, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """Of the session with most."""
        return max((session.members for session in self.sessions), key=len, default=())
