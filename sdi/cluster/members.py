"""Which devices of a job become members, and opening them."""

from __future__ import annotations

import os
import pickle
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sdi import __version__
from sdi.cluster.job import Job
from sdi.cluster.node import OpenMembers
from sdi.cluster.node_facts import Asked, JobDevice, NodeFacts
from sdi.cluster.remote_node import ROOT
from sdi.devices.base import Device
from sdi.devices.capabilities import MemberKind
from sdi.devices.discover import MemberSettings, choose, memory_shares, open_chosen
from sdi.devices.kinds import Found
from sdi.devices.polling import Polling
from sdi.free_memory import free_nbytes
from sdi.wire.opencl import DeviceInfo

_ASKED_FOR = (
    DeviceInfo.VENDOR,
    DeviceInfo.DRIVER_VERSION,
    DeviceInfo.MAX_COMPUTE_UNITS,
    DeviceInfo.MAX_CLOCK_FREQUENCY,
)
"""What queries ask of devices beside what all candidates have."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_id() -> str:
    """The same for all processes of one running machine, and for no others."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return socket.gethostname()


def facts_of(devices: Sequence[Found]) -> NodeFacts:
    """What this process says of itself."""
    known = [
        JobDevice(d.platform, d.name, d.kind, d.unit, d.memory_nbytes, _asked_for(d.info), position)
        for position, d in enumerate(devices)
    ]
    return NodeFacts(__version__, host_id(), socket.gethostname(), os.getpid(), tuple(known), free_nbytes())


def _asked_for(info: Mapping[int, bytes]) -> dict[int, bytes]:
    return {int(parameter): info[parameter] for parameter in _ASKED_FOR if parameter in info}


def opens(devices: Sequence[Found], rank: int) -> OpenMembers:
    """How a node opens what rank 0 asks for."""

    def open_asked(tail: bytes, polling: Polling) -> Sequence[Device]:
        asked = pickle.loads(tail)
        assert isinstance(asked, Asked)
        chosen = [(devices[position], number, nbytes) for position, number, nbytes in asked.members]
        members = open_chosen(chosen, asked.settings, polling)
        for member in members:
            name = f"{member.capabilities.name} on node {rank}"
            member.capabilities = replace(member.capabilities, name=name, node=rank, is_host_memory=False)
        return members

    return open_asked


def job_devices(job: Job, here: NodeFacts) -> list[JobDevice]:
    """The devices of all processes, in the order of ranks.

    A GPU that several processes of a machine see belongs to one of them: they get their machine's in turn.
    """
    facts = {ROOT: here, **job.facts}
    ranks_of: dict[str, list[int]] = {}
    gpus_of: dict[str, list[str]] = {}
    for rank, each in sorted(facts.items()):
        ranks_of.setdefault(each.host, []).append(rank)
        known = gpus_of.setdefault(each.host, [])
        units = [device.unit for device in each.devices if not device.kind.is_host_processor]
        known += [unit for unit in units if unit not in known]
    found = []
    for rank, each in sorted(facts.items()):
        ranks, gpus = ranks_of[each.host], gpus_of[each.host]
        for device in each.devices:
            unit, is_gpu = device.unit, not device.kind.is_host_processor
            if is_gpu and _owner(gpus.index(unit), unit, ranks, facts) != rank:
                continue
            named = unit if each.host == here.host else f"{each.host} {unit}"
            found.append(replace(device, unit=named, node=rank))
    return found


def _owner(index: int, unit: str, ranks: Sequence[int], facts: dict[int, NodeFacts]) -> int:
    """The process of a machine to which its GPU number ``index`` belongs: one of those that see it."""
    seeing = [rank for rank in ranks if any(unit == device.unit for device in facts[rank].devices)]
    wanted = ranks[index % len(ranks)]
    return wanted if wanted in seeing else seeing[index % len(seeing)]


def open_job_members(
    settings: MemberSettings, job: Job, devices: Sequence[Found], here: NodeFacts
) -> list[Device]:
    """Open the members on all nodes, those of a node one after the other.

    Raises ClError when there is no device or not enough of them, and JobError.
    """
    chosen = choose_members(job, here, settings.count, settings.devices)
    shares = memory_shares(chosen, settings.memory_nbytes)
    asked: dict[int, list[tuple[int, int, int]]] = {}
    for number, (device, nbytes) in enumerate(zip(chosen, shares, strict=True)):
        asked.setdefault(device.node, []).append((device.position, number, nbytes))
    own = asked.pop(ROOT, [])
    here_too = [(devices[position], number, nbytes) for position, number, nbytes in own]
    members = open_chosen(here_too, settings, job.polling)
    try:
        return [*members, *job.open({rank: Asked(tuple(each), settings) for rank, each in asked.items()})]
    except BaseException:
        for member in reversed(members):
            member.close()
        raise


def node_memories(settings: MemberSettings, job: Job, members: Sequence[Device]) -> list[Device]:
    """What copies to and from the own memory of each node above 0 that has some of ``members``.

    See ``own_memory``.
    """
    known = [member.capabilities for member in members]
    taken = [(each.node, each.kind, each.memory_nbytes) for each in known]
    found = own_memory(job, taken, settings.node_memory_nbytes)
    return [job.memory_of(node, nbytes) for node, nbytes in found.items()]


def own_memory(
    job: Job, members: Iterable[tuple[int, MemberKind, int]], limit_nbytes: int | None
) -> dict[int, int]:
    """Bytes of its own memory that each node above 0 has for ``members``: of each its node, kind and memory.

    ``limit_nbytes``, where that is given; else half of what is free on the machine, and not promised to
    members that compute there, shared among the machine's processes.
    """
    ranks = Counter(facts.host for facts in job.facts.values())
    promised: Counter[str] = Counter()
    nodes = set()
    for node, kind, nbytes in members:
        if node != ROOT:
            nodes.add(node)
            promised[job.facts[node].host] += nbytes if kind.is_host_processor else 0
    found = {}
    for node in sorted(nodes):
        facts = job.facts[node]
        free_nbytes = max(0, facts.free_nbytes - promised[facts.host]) // 2 // ranks[facts.host]
        found[node] = free_nbytes if limit_nbytes is None else limit_nbytes
    return found


def choose_members(job: Job, here: NodeFacts, count: int | None, selection: str | None) -> list[JobDevice]:
    """The device of each member, those of a node one after the other.  Raises ClError; see ``choose``."""
    chosen = choose(job_devices(job, here), count, selection, hosts(job, here))
    return sorted(chosen, key=lambda device: device.node)


def hosts(job: Job, here: NodeFacts) -> dict[int, str]:
    """The names of the nodes' machines."""
    return {rank: facts.hostname for rank, facts in {ROOT: here, **job.facts}.items()}
