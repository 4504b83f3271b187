"""Which driver devices become the members of the image, and how much memory each gets.

Runs in the service, after it has set OCL_ICD_VENDORS: the loader reads it once, at the first call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from sdi import limits
from sdi.dataclass import dataclass
from sdi.devices.base import Device
from sdi.devices.cuda.source import CudaSource
from sdi.devices.kinds import Found, MemberCandidate, MemberSource
from sdi.devices.opencl.source import OpenCLSource
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory
from sdi.devices.selecting import select
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.errors import Status, require

DEFAULT_CPU_MEMBERS = 2
MEMORY_NBYTES = 1 << 40
"""More than hosts have."""

C = TypeVar("C", bound=MemberCandidate)


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings that shape the image.

    ``count``: SDI_NUM_GPUS.  ``devices``: SDI_DEVICES, which of ``all_devices()``: see
    ``select``.  ``memory_nbytes``: SDI_MEMBER_MEMORY, a limit per member; ``node_memory_nbytes``:
    SDI_NODE_MEMORY, of each node of other machines.  ``testing``: SDI_TEST_MEMBERS, "FILE:WHAT": a file of
    Python whose ``wrap(member, number, what)`` says what stands for each member.
    """

    count: int | None = None
    devices: str | None = None
    memory_nbytes: int | None = None
    node_memory_nbytes: int | None = None
    testing: str | None = None


_SOURCES: list[MemberSource] = [
    CudaSource(),  # before the same GPUs of other drivers
    OpenCLSource(),
]


def register(source: MemberSource) -> None:
    """Members may be of this kind, too; its devices come last."""
    _SOURCES.append(source)


def unregister(source: MemberSource) -> None:
    """The contrary."""
    _SOURCES.remove(source)


def all_devices() -> list[Found]:
    """All that can become members."""
    return [found for source in _SOURCES for found in source.find()]


def open_member(
    found: Found, number: int, nbytes: int, beside: Sequence[Device], polling: Polling | None
) -> Device:
    """See ``MemberSource.open``."""
    made = (source.open(found, number, nbytes, beside, polling) for source in _SOURCES)
    member = next((each for each in made if each is not None), None)
    assert member is not None, f"nothing opens {found}"
    return member


def connection(one: Found, other: Found) -> str:
    """See ``MemberSource.connection``."""
    return next(filter(None, (source.connection(one, other) for source in _SOURCES)), "")


def pool_of(members: Sequence[Device]) -> PooledMemory | None:
    """The memory of all members together, where they can have that."""
    behind = [member.behind if isinstance(member, ForwardingDevice) else member for member in members]
    pools = (source.pool(behind) for source in _SOURCES)
    return next((pool for pool in pools if pool is not None), None)


def open_members(settings: MemberSettings, polling: Polling | None = None) -> list[Device]:
    """Open the members in order; ``polling``: of the session that polls them, if one does.

    Raises ClError when there is no device or not enough of them."""
    chosen = choose(all_devices(), settings.count, settings.devices)
    shares = memory_shares(chosen, settings.memory_nbytes, limits.room(MEMORY_NBYTES))
    return open_chosen(
        [(device, *each) for device, each in zip(chosen, enumerate(shares), strict=True)], settings, polling
    )


def open_chosen(
    chosen: Sequence[tuple[Found, int, int]], settings: MemberSettings, polling: Polling | None = None
) -> list[Device]:
    """Open members on devices, each with its number and the bytes of memory it gets.  Raises ClError.

    Of ``settings`` only ``testing`` matters.  ``polling``: of the session that polls them, if one does.
    """
    members: list[Device] = []
    plain: list[Device] = []
    try:
        for device, number, nbytes in chosen:
            member = open_member(device, number, nbytes, plain, polling)
            plain.append(member)
            if settings.testing is not None:
                from sdi.devices.testing import stand_in

                member = stand_in(settings.testing, member, number)
            members.append(member)
    except BaseException:
        for member in reversed(members):
            member.close()
        raise
    return members


def choose(
    devices: Sequence[C], count: int | None, selection: str | None, hosts: Mapping[int, str] | None = None
) -> list[C]:
    """The driver device of each member, in order.  ``hosts``: the machines of nodes; this one without.

    Without ``selection``: all GPUs (each once, whatever the number of drivers that show it); with none, the
    first CPU device of each node.  Without ``count``: all of these, but at least two members on a CPU.
    Members beyond the number of devices share the CPU devices in turn; a GPU is never shared.
    """
    require(count is None or count > 0, Status.INVALID_VALUE, f"SDI_NUM_GPUS={count}: at least 1 member")
    require(devices, Status.DEVICE_NOT_FOUND, "no OpenCL driver offers a CPU or GPU device")
    if selection is None:
        gpus: dict[str, C] = {}
        first: dict[int, C] = {}
        for device in devices:
            if device.kind.is_host_processor:
                first.setdefault(device.node, device)
            else:
                gpus.setdefault(device.unit, device)
        pool = list((gpus or first).values())
    else:
        pool = select(devices, selection, hosts)
    cpus = [device for device in pool if device.kind.is_host_processor]
    if count is None:
        count = max(len(pool), DEFAULT_CPU_MEMBERS) if len(cpus) == len(pool) else len(pool)
    most = len(pool)
    missing = count - most
    require(
        missing <= 0 or cpus,
        Status.DEVICE_NOT_FOUND,
        f"SDI_NUM_GPUS={count}: there are {most} GPUs, and a GPU is not shared; ask for at most {most}",
    )
    return pool[:count] + [cpus[i % len(cpus)] for i in range(missing)]


def memory_shares(
    chosen: Sequence[MemberCandidate], limit_nbytes: int | None = None, room_nbytes: int = MEMORY_NBYTES
) -> list[int]:
    """Bytes for each member.  A CPU's memory is the host's too: half of it, divided by the members on it.

    None gets more than ``limit_nbytes``.  ``room_nbytes``: what all members that compute on the host can have
    in this process' address space.
    Of a GPU the driver needs some itself, for contexts, code and what kernels spill: 1.6 %, at least 512 MiB.
    """
    sharers = Counter(device.unit for device in chosen)
    num_cpus = len({device.unit for device in chosen if device.kind.is_host_processor})
    shares = [
        min(device.memory_nbytes // 2, room_nbytes // num_cpus) // sharers[device.unit]
        if device.kind.is_host_processor
        else device.memory_nbytes - _driver_nbytes(device.memory_nbytes)
        for device in chosen
    ]
    return shares if limit_nbytes is None else [min(limit_nbytes, nbytes) for nbytes in shares]


def _driver_nbytes(memory_nbytes: int) -> int:
    return min(max(512 << 20, memory_nbytes // 64), memory_nbytes // 8)
