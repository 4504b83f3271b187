"""The classes of losses: what a member's time may be, with the rules that tell them apart.

``CLASSES`` has them in the order in which they are tried: at each instant the first whose rule fits has a
member's time, and the last one's always does.  A new one needs an entry, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from sdi.dataclass import dataclass, field

NO_KERNEL = ""


@dataclass(slots=True)
class RunningLaunch:
    """A launch of which some assignments run, or have run and others will: when each member is through.

    ``computing``: how many of its assignments run now; the sweep changes it.
    """

    kernel: str
    shape: int
    start_ns: int
    end_ns: int
    last_ns: dict[int, int]
    computing: int = 0


@dataclass(slots=True)
class Situation:
    """What goes on at an instant, each with the kernel that it is for; the sweep changes it.

    ``copying``, ``moving``: copies, of each member and all; ``sending``, ``crossing``: over a network.
    """

    computing: list[dict[int, str]]
    copying: list[dict[int, str]]
    sending: list[dict[int, str]]
    running: dict[int, RunningLaunch] = field(default_factory=dict)
    merging: dict[int, str] = field(default_factory=dict)
    moving: dict[int, str] = field(default_factory=dict)
    crossing: dict[int, str] = field(default_factory=dict)
    preparing: dict[int, str] = field(default_factory=dict)
    starting: dict[int, str] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    outstanding: dict[int, str] = field(default_factory=dict)
    turns: dict[int, str] = field(default_factory=dict)
    calls: dict[int, str] = field(default_factory=dict)


class Instant:
    """A member's time between two changes.

    ``ns``: what of it no class has yet.  ``launch``: the launch that it waits for, if it neither computes nor
    copies and nothing is merged; ``is_through``: it has done its part of that.  ``spare_ns``: for how long
    that is so because parts are too small.
    """

    __slots__ = ("_command", "_spare_ns", "is_through", "launch", "member", "now", "ns", "start_ns")

    def __init__(
        self, now: Situation, member: int, start_ns: int, end_ns: int, spare_ns: dict[tuple[int, int], int]
    ) -> None:
        self.now = now
        self.member = member
        self.start_ns = start_ns
        self.ns = end_ns - start_ns
        self.launch: RunningLaunch | None = None
        self.is_through = False
        self._spare_ns = spare_ns
        if now.running and not (
            now.computing[member] or now.copying[member] or now.sending[member] or now.merging
        ):
            self._command, self.launch = _waited_for(now.running, member, start_ns)
            self.is_through = self.launch.last_ns.get(member, end_ns) <= start_ns

    def take_spare(self) -> int:
        """So much of the time is due to too small a part of the launch."""
        key = (self._command, self.member)
        part = min(self.ns, self._spare_ns.get(key, 0))
        self._spare_ns[key] = self._spare_ns.get(key, 0) - part
        return part


@dataclass(frozen=True, slots=True)
class LossClass:
    """One class.  ``says``: what a member, or the image, does; ``colour``: in charts.

    ``rule``: the kernel that the time belongs to (or NO_KERNEL), None where the class doesn't fit.
    ``share``: how much of the time it has then, if not all.
    """

    name: str
    says: str
    colour: str
    rule: Callable[[Instant], str | None]
    share: Callable[[Instant], int] | None = None


CLASSES: dict[str, LossClass] = {}
"""By name.  Filled by ``register``, before profiles are read."""


def register(loss: LossClass, before: str = "") -> None:
    """Tell ``loss`` apart, before that other class is tried, or else last."""
    assert loss.name not in CLASSES, f"{loss.name!r} is there already"
    names = list(CLASSES)
    at = names.index(before) if before else len(names)
    later = {name: CLASSES.pop(name) for name in names[at:]}
    CLASSES[loss.name] = loss
    CLASSES.update(later)


def classify(instant: Instant) -> list[tuple[str, str, int]]:
    """Kernel, class and time, of all of the time."""
    found: list[tuple[str, str, int]] = []
    for loss in CLASSES.values():
        kernel = loss.rule(instant)
        if kernel is not None:
            part = instant.ns if loss.share is None else loss.share(instant)
            found.append((kernel, loss.name, part))
            instant.ns -= part
            if not instant.ns:
                break
    return found


def _waited_for(running: dict[int, RunningLaunch], member: int, now_ns: int) -> tuple[int, RunningLaunch]:
    """Of the launches under way the one that an idle member waits for: the first that it has a part of left
    to do, else the first that others compute now.  (Launches that need nothing of each other overlap.)
    """
    if len(running) > 1:
        for found in running.items():
            if found[1].last_ns.get(member, 0) > now_ns:
                return found
        for found in running.items():
            if found[1].computing:
                return found
    return next(iter(running.items()))


def _first(of: dict[int, str]) -> str | None:
    for kernel in of.values():
        return kernel
    return None


def _copies(instant: Instant) -> str | None:
    return _moving(instant, instant.now.copying, instant.now.moving)


def _network(instant: Instant) -> str | None:
    return _moving(instant, instant.now.sending, instant.now.crossing)


def _moving(instant: Instant, of_members: list[dict[int, str]], of_all: dict[int, str]) -> str | None:
    """What holds up the others holds up a member that is through, too."""
    now, launch = instant.now, instant.launch
    own = _first(of_members[instant.member])
    if own is not None or now.merging or not of_all:
        return own
    if launch is None:
        return _first(of_all)
    return launch.kernel if instant.is_through and not launch.computing else None


def _outlasted(instant: Instant) -> str | None:
    """Others still compute the launch."""
    launch = instant.launch
    return launch.kernel if launch is not None and launch.computing and instant.is_through else None


def _left_out(instant: Instant) -> str | None:
    launch = instant.launch
    return launch.kernel if launch is not None and instant.member not in launch.last_ns else None


def _scheduling(instant: Instant) -> str | None:
    now = instant.now
    started = _started(instant)
    if now.turns and (started is not None or now.waiting or now.calls):
        return started if started is not None else next(iter(now.outstanding.values()), NO_KERNEL)
    return NO_KERNEL if now.calls and started is None and not now.outstanding else None


def _started(instant: Instant) -> str | None:
    """A driver has something, or is to have."""
    return instant.launch.kernel if instant.launch is not None else _first(instant.now.starting)


for _each in (
    LossClass(
        "computing",
        "an assignment of a kernel runs on the member",
        "#2e9e5b",
        lambda i: _first(i.now.computing[i.member]),
    ),
    LossClass(
        "network",
        "bytes go over a network to or from the member; or nothing computes and bytes go over one anywhere",
        "#1f9ea8",
        _network,
    ),
    LossClass(
        "copies",
        "bytes go to or from the member; or nothing computes and bytes move anywhere (also the application's "
        "own reads and writes)",
        "#3b7dd8",
        _copies,
    ),
    LossClass(
        "consistency",
        "what several members wrote is being merged",
        "#8a5cd0",
        lambda i: _first(i.now.merging),
    ),
    LossClass(
        "imbalance",
        "the member has ended its part of a launch that others still compute, as far as it ends earlier in "
        "every launch of this shape: its part is too small",
        "#e0a100",
        _outlasted,
        Instant.take_spare,
    ),
    LossClass("tail", "likewise by chance, or for the last work-groups", "#e7c65b", _outlasted),
    LossClass(
        "whole", "another member computes a launch that was not given to this one", "#d9793d", _left_out
    ),
    LossClass(
        "analysis",
        "nothing runs; a program is built or a launch is planned",
        "#c94f7c",
        lambda i: _first(i.now.preparing) if i.launch is None else None,
    ),
    LossClass(
        "scheduling",
        "nothing runs; the service decides or issues, or the application is in a call of OpenCL though "
        "nothing is asked of the image",
        "#b03a3a",
        _scheduling,
    ),
    LossClass(
        "driver",
        "nothing runs; the service is idle, and a driver has not started yet what it was given: here, or on "
        "the members that this one waits for",
        "#d98c8c",
        _started,
    ),
    LossClass(
        "application",
        "nothing is asked of the image",
        "#9aa0a6",
        lambda i: None if i.now.outstanding else NO_KERNEL,
    ),
    LossClass(
        "unexplained",
        "a command is unfinished and nothing of the above goes on",
        "#444b54",
        lambda i: next(iter(i.now.outstanding.values()), NO_KERNEL),
    ),
):
    register(_each)
