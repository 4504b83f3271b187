"""``sdi run`` and ``sdi node`` as processes of a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from sdi.cli.attributes import DevicesAsked, listed, selected
from sdi.cli.counters import table
from sdi.cluster.job import Job, JobError
from sdi.cluster.local import start_nodes
from sdi.cluster.remote_node import ROOT
from sdi.cluster.start import RankPlace, leave, run_node, survives_losses, without_mpi
from sdi.cluster.transport import Transport
from sdi.errors import ClError
from sdi.locate import show_only_real_drivers
from sdi.settings import Settings
from sdi.sizes import size

if TYPE_CHECKING:
    from sdi.cluster.mpi import MpiTransport

LOCAL_NODES = "SDI_TEST_NODES"
"""For tests: so many ranks, those above 0 as processes of this machine."""
_FAR = ("SDI_TEST_FAR", "SDI_TEST_TRANSPORT")
"""For tests: nothing is shared with processes of this machine either."""
_PATIENCE_S = 20.0
_FAILED = 1 << 8
"""The wait status of a process that exits with 1."""


def near_host(environ: Mapping[str, str]) -> str | None:
    """The machine whose nodes share memory with rank 0, if they do."""
    from sdi.cluster.members import host_id

    return None if any(environ.get(name) for name in _FAR) else host_id()


def node(place: RankPlace | None) -> int:
    """What ``sdi node`` does, and ``sdi run`` on ranks above 0."""
    from sdi.cluster.mpi import MpiTransport, MpiUnavailable

    show_only_real_drivers()
    try:
        transport = MpiTransport(place.size if place is not None else None)
    except MpiUnavailable as error:
        print(f"sdi: rank {place.rank if place else 0}: {error}", file=sys.stderr)
        return 1
    if transport.rank == 0:
        return _serve(transport)
    if not run_node(transport) and not survives_losses(os.environ):
        signal.pause()  # a rank that ends would end the job: rank 0 does that when the application has ended
    leave(0)
    return 0


def _serve(transport: MpiTransport) -> int:
    """Rank 0 of a job without an application of its own: others name its socket in SDI_SERVICE."""
    from sdi.cluster.hub import Hub

    wanted = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    hub = Hub()
    try:
        job = Job(transport, Settings.from_environ().node_timeout_s)
        job.meet(near_host(os.environ))
    except JobError as error:
        print(f"sdi: {error}", file=sys.stderr)
        hub.close(_PATIENCE_S)
        return 1
    hub.begin(job)
    print(f"SDI_SERVICE={hub.path}", flush=True)
    signal.sigwait(wanted)
    hub.close(_PATIENCE_S)
    job.close()
    _end(transport, job, 0)
    return 0


def _end(transport: MpiTransport, job: Job, status: int) -> None:
    """End the job, where processes may still be there that rank 0 went on without; ``status``: its own."""
    left = ", ".join(job.left_behind())
    if not left:
        return
    if survives_losses(os.environ):  # its MPI_Abort leaves other processes, and may not return
        print(f"sdi: {left} did not answer: if it has not ended, mpiexec waits for it", file=sys.stderr)
    else:
        transport.abort(status)


def show_devices(place: RankPlace, settings: Settings, asked: DevicesAsked) -> int:
    """What ``sdi devices`` prints on rank 0: the nodes, the members, and all devices, or what is asked."""
    from sdi.cluster.mpi import MpiTransport, MpiUnavailable

    show_only_real_drivers()
    try:
        job = Job(MpiTransport(place.size))
    except MpiUnavailable as error:
        print(f"sdi: rank 0: {error}", file=sys.stderr)
        return 1
    try:
        job.meet(near_host(os.environ))
        wants_image = asked.where is None and not asked.attributes
        print("\n".join(_described(job, settings) if wants_image else _queried(job, asked)))
    except (JobError, ClError) as error:
        print(f"sdi devices: {error}", file=sys.stderr)
        return 1
    finally:
        job.close()
    return 0


def _described(job: Job, settings: Settings) -> list[str]:
    """The nodes, the members and all devices of a job, for people.  Raises ClError."""
    from sdi.cluster.members import choose_members, facts_of, job_devices, own_memory
    from sdi.devices.discover import all_devices, memory_shares

    here = facts_of(all_devices())
    devices = job_devices(job, here)
    members = choose_members(job, here, settings.num_gpus, settings.devices)
    shares = memory_shares(members, settings.member_memory)
    taken = [(member.node, member.kind, nbytes) for member, nbytes in zip(members, shares, strict=True)]
    own = own_memory(job, taken, settings.node_memory)
    nodes = [("node", "machine", "process", "sdi", "members", "own memory", "bytes go")]
    for rank, each in sorted({ROOT: here, **job.facts}.items()):
        there = sum(member.node == rank for member in members)
        is_near = rank == ROOT or job.nodes[rank].is_near
        way = "in shared memory" if is_near else "as messages"
        room = "" if is_near or rank not in own else size(own[rank])
        nodes.append((str(rank), each.hostname, str(each.pid), each.version, str(there), room, way))
    rows = [("member", "node", "kind", "device", "memory")]
    for number, (member, nbytes) in enumerate(zip(members, shares, strict=True)):
        rows.append((str(number), str(member.node), member.kind.name.upper(), member.name, size(nbytes)))
    known = [("SDI_DEVICES", "node", "kind", "platform", "device")]
    for index, device in enumerate(devices):
        known.append((str(index), str(device.node), device.kind.name.upper(), device.platform, device.name))
    found = [*table(rows, right={4}), *settings.said_of_devices]
    return [*table(nodes, right={2, 4, 5}), *job.idle_notes(), "", *found, "", *table(known)]


def _queried(job: Job, asked: DevicesAsked) -> list[str]:
    """What a query selects among the devices of all nodes, or what it can ask.  Raises ClError."""
    from sdi.cluster.members import facts_of, hosts, job_devices
    from sdi.devices.discover import all_devices

    here = facts_of(all_devices())
    devices, known = job_devices(job, here), hosts(job, here)
    return selected(devices, asked.where, known) if asked.where is not None else listed(devices, known)


class Root:
    """Rank 0 of a job: starts its nodes before the application, and ends them after it."""

    def __init__(self, place: RankPlace | None, environ: Mapping[str, str]) -> None:
        from sdi.cluster.hub import Hub

        self._place: Final = place
        self._environ: Final = environ
        self._hub: Final = Hub()
        self._job: Job | None = None
        self._mpi: MpiTransport | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def application_environ(self) -> dict[str, str]:
        """What the application gets."""
        return {**without_mpi(self._environ), "SDI_SERVICE": self._hub.path}

    def begin(self) -> None:
        """Meet the nodes; the threads that this starts have the signal mask of now.  Raises JobError."""
        show_only_real_drivers()
        transport: Transport
        if self._place is None:
            transport, self._processes = start_nodes(int(self._environ[LOCAL_NODES]), self._environ)
        else:
            from sdi.cluster.mpi import MpiTransport, MpiUnavailable

            try:
                transport = self._mpi = MpiTransport(self._place.size)
            except MpiUnavailable as error:
                raise JobError(str(error)) from error
        self._job = Job(transport, Settings.from_environ(self._environ).node_timeout_s)
        self._job.meet(near_host(self._environ))
        self._hub.begin(self._job)

    def end(self) -> None:
        """After the application has ended."""
        self._hub.close(_PATIENCE_S)
        if self._job is not None:
            self._job.close()
        for rank, process in enumerate(self._processes, 1):
            if self._job is not None and rank in self._job.refused:
                process.kill()
            process.wait(_PATIENCE_S)

    def leave(self, status: int) -> None:
        """After ``end``; ``status``: of the application, as ``wait`` gives it."""
        if self._mpi is not None and self._job is not None:
            _end(self._mpi, self._job, os.waitstatus_to_exitcode(status) & 0xFF)


Run = Callable[[Mapping[str, str], Callable[[], None]], int]
"""Runs an application in an environment, after a call; its wait status."""


def run_root(place: RankPlace | None, environ: Mapping[str, str], run: Run) -> int:
    """Run an application beside rank 0."""
    root, status = Root(place, environ), _FAILED
    try:
        status = run(root.application_environ(), root.begin)
    except JobError as error:
        print(f"sdi run: {error}", file=sys.stderr)
    finally:
        root.end()
    root.leave(status)
    return status
