"""Copies between host and members, and between all members: checked and measured.

``python -m sdi.cli.copies`` prints them as JSON, for ``sdi doctor``: in a process of its own, where what a
driver does wrong stays.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from sdi.dataclass import asdict, dataclass
from sdi.devices.base import Device
from sdi.devices.copying import across, download, upload
from sdi.devices.handles import DeviceBuffer
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed
from sdi.locate import show_only_real_drivers
from sdi.settings import Settings
from sdi.vmem.arena import Arena

HOST = -1
CHECKED_NBYTES = 1 << 20
"""What a copy carries that is checked."""
_TIMES = 4
_PATIENCE_S = 60.0
_DAMAGED = "arrives damaged"


@dataclass(frozen=True, slots=True)
class Copied:
    """From ``source`` to ``target``, each a member or ``HOST``; ``gb_s``: 1e9 bytes in a second.

    ``failure``: what went wrong, empty if nothing did.
    """

    source: int
    target: int
    gb_s: float
    failure: str = ""


def try_copies(
    members: Sequence[Device], nbytes: int, progress: Callable[[int, int], object] = lambda done, all_: None
) -> list[Copied]:
    """A copy from the host to every member and back, and one from every member to every other.

    Random bytes, others for each member, are compared when they are on the host again; so a copy from a
    member to the host, which brings them, is judged with the one to it.  ``nbytes``: of a copy, less where
    members have less.  ``progress(done, all)`` is told what is done.  Blocks: less than a second for each.
    """
    nbytes = min([nbytes, *(member.capabilities.memory_nbytes // 4 // 4096 * 4096 for member in members)])
    arena = Arena(2 * nbytes + (1 << 20), 4096)
    trial = _Trial(members, nbytes, arena)
    pairs = [(HOST, to) for to in range(len(members))]
    pairs += [(from_, to) for from_ in range(len(members)) for to in range(len(members)) if from_ != to]
    results: list[Copied] = []
    try:
        for done, (source, target) in enumerate(pairs):
            progress(done, len(pairs))
            results += trial.host(target) if source == HOST else [trial.peers(source, target)]
    finally:
        trial.free()
        arena.close()
    return results


class _Trial:
    """``data[m]``: what member m's ``sources[m]`` holds once it is there."""

    def __init__(self, members: Sequence[Device], nbytes: int, arena: Arena) -> None:
        self._members = members
        self._nbytes = nbytes
        self._host = [arena.view(arena.allocate(nbytes), nbytes) for _ in range(2)]
        self._seed = int(np.random.default_rng().integers(1 << 32))
        self._buffers: list[tuple[Device, DeviceBuffer]] = []
        self._sources: dict[int, DeviceBuffer] = {}

    def free(self) -> None:
        """Give the members' memory back."""
        for member, buffer in self._buffers:
            member.free(buffer)

    def host(self, to: int) -> list[Copied]:
        """To a member and back."""
        member, sent = self._members[to], self._host[0]
        sent[:] = self._data(to)
        try:
            buffer = self._cleared(to)
            up = partial(upload, member, sent, buffer, 0)
            down = partial(download, member, buffer, 0, self._host[1])
            rates = self._rate(up), self._rate(down)
            failure = "" if self._is_found(to) else _DAMAGED
            self._sources[to] = buffer
        except (ClError, DeviceFailed) as error:
            rates, failure = (0.0, 0.0), str(error)
        return [Copied(HOST, to, rates[0], failure), Copied(to, HOST, rates[1], failure)]

    def peers(self, from_: int, to: int) -> Copied:
        """From one member to another."""
        source, target = self._members[from_], self._members[to]
        if from_ not in self._sources:
            return Copied(from_, to, 0.0, "nothing is there to be copied")
        try:
            buffer = self._cleared(to)
            try:
                rate = self._rate(partial(self._peer_copy, source, self._sources[from_], target, buffer))
                wait(download(target, buffer, 0, self._host[1], []))
            finally:
                self._buffers.pop()
                target.free(buffer)
        except (ClError, DeviceFailed) as error:
            return Copied(from_, to, 0.0, str(error))
        return Copied(from_, to, rate, "" if self._is_found(from_) else _DAMAGED)

    def _peer_copy(
        self,
        source: Device,
        from_: DeviceBuffer,
        target: Device,
        to: DeviceBuffer,
        wait: Sequence[Ticket],
    ) -> Ticket:
        return across(target, source, from_, 0, to, 0, self._nbytes, wait, wait)[1]

    def _cleared(self, number: int) -> DeviceBuffer:
        """A buffer of a member, and the host's bytes to which it is brought: all 0."""
        member = self._members[number]
        buffer = member.allocate(self._nbytes)
        self._buffers.append((member, buffer))
        wait(member.fill(buffer, 0, self._nbytes, b"\0", []))
        self._host[1][:] = bytes(self._nbytes)
        return buffer

    def _data(self, member: int) -> bytes:
        """Without a 0, which stands where nothing was copied to."""
        return np.random.default_rng((self._seed, member)).integers(1, 256, self._nbytes, np.uint8).tobytes()

    def _is_found(self, member: int) -> bool:
        return bytes(self._host[1]) == self._data(member)

    def _rate(self, copy: Callable[[Sequence[Ticket]], Ticket]) -> float:
        """The first copy, which may have to prepare something, does not count."""
        wait(copy([]))
        tickets: list[Ticket] = []
        for _ in range(_TIMES):
            tickets.append(copy(tickets[-1:]))
        for ticket in tickets:
            wait(ticket)
        return _TIMES * self._nbytes / max(1, tickets[-1].end_ns - tickets[0].start_ns)


def wait(ticket: Ticket) -> None:
    """Until ``ticket`` is done.  Raises its error, and DeviceFailed where it takes too long."""
    done = threading.Event()
    ticket.when_done(lambda _: done.set())
    if not done.wait(_PATIENCE_S):
        raise DeviceFailed("copy", f"not done within {_PATIENCE_S:.0f} s")
    if ticket.error is not None:
        raise ticket.error


@contextmanager
def opened(settings: Settings) -> Iterator[list[Device]]:
    """The members of the image that is set, closed in the end.  Raises ClError, DeviceFailed."""
    # Not at the top: the drivers behind it read the environment, which is to show only real ones by now.
    from sdi.devices.discover import MemberSettings, open_members

    members = open_members(MemberSettings(settings.num_gpus, settings.devices, settings.member_memory))
    try:
        yield members
    finally:
        for member in reversed(members):
            member.close()


def main() -> int:
    """Print the copies of the image that the environment describes, or what keeps it from being made."""
    settings = Settings.from_environ(os.environ)
    show_only_real_drivers()
    try:
        with opened(settings) as members:
            found = try_copies(members, CHECKED_NBYTES)
    except (ClError, DeviceFailed) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps({"copies": [asdict(copied) for copied in found]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
