"""A virtual device over a rig's members, given commands one after the other without a session."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from sdi.commands import Command, Launch
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.launch.counters import Counters
from sdi.launch.kernel import Build
from sdi.launch.launcher import Launcher
from sdi.launch.plan import CutPlan
from sdi.launch.programs.builds import Target, build
from sdi.runtime.virtual_device import VirtualDevice
from tests.vmem.conftest import FOR, Rig


class Machine:
    """Commands are issued at once; who wants them done waits for their tickets.  ``build``: of ``source``."""

    def __init__(self, rig: Rig, source: str) -> None:
        self.rig = rig
        self.memory = rig.memory
        links = rig.memory.transfers.links
        counters = Counters(len(rig.devices), rig.memory.accounting, links, "always", 1e4)
        self.launcher = Launcher(rig.memory, "always", counters)
        self.device = VirtualDevice(rig.memory, self.launcher)
        self.build: Build = build(source, "", "", Target(rig.devices))
        self.launcher.add(1, self.build)
        self.pending: list[Ticket] = []
        self.repeated = 0

    def run(
        self, command: Command, then: Callable[[int], None] = lambda _packed_at: None
    ) -> Sequence[Ticket]:
        """Issue; its tickets.  ``then`` is the application's copy, see ``IssuedWork.packed_at``."""
        steps = self.device.issue(command, FOR)
        while True:
            try:
                waits = next(steps)
            except StopIteration as end:
                work = end.value
                break
            over = Ticket()
            join(waits, lambda _error, over=over: over.complete())  # type: ignore[misc]
            self.rig.wait(over)
        tickets = list(work.tickets)
        if work.transfer is not None:
            transfer = work.transfer
            tickets.append(transfer)

            def copy(error: BaseException | None) -> None:
                then(work.packed_at)
                transfer.complete(error)

            join(work.tickets, copy)
        self.pending += tickets
        return tickets

    def launch(self, launch: Launch) -> tuple[CutPlan, Sequence[Ticket]]:
        """Issue a launch, or the same one again, by its record; how it is cut."""
        tickets = self.device.repeat(launch, FOR)
        if tickets is None:
            tickets = list(self.run(launch))
        else:
            self.pending += tickets
            self.repeated += 1
        binding = self.launcher.known.find(launch.record)
        assert binding is not None
        return binding.launch_plan.plan, tickets

    def finish(self) -> None:
        """Wait for everything."""
        self.rig.wait(*self.pending)
        self.pending.clear()


def argument_entries(buffers: Sequence[tuple[int, int, int]], numbers: Sequence[int]) -> bytes:
    """As the wire has them: buffers with offsets and bytes (0: all), then ints."""
    pointers = b"".join(struct.pack("<IIQQQ", 1, 24, *buffer) for buffer in buffers)
    return pointers + b"".join(struct.pack("<IIi4x", 0, 4, number) for number in numbers)


__all__ = ["Machine", "argument_entries"]
