"""What the service tells the client first: of the devices that the application sees, or why there is none.

Apart from the session, so that the application goes on while the service still gets ready for its commands.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from sdi import limits
from sdi.devices.base import Device
from sdi.devices.capabilities import Capabilities
from sdi.devices.pooled import PooledMemory
from sdi.errors import ClError, Status, require
from sdi.service.image_info import image_info, member_info
from sdi.service.room import ANY_ROOM, ArenaRoom
from sdi.service.status_page import StatusPage
from sdi.service.vendors import Vendors, vendors_of
from sdi.settings import IN_PLACE, FineGrain
from sdi.sizes import size
from sdi.vmem.arena import PAGE_NBYTES, Arena
from sdi.vmem.spill.budget import Spill
from sdi.vmem.spill.file import SpillFile
from sdi.wire.layout import layout, padded
from sdi.wire.opencl import DeviceInfo as Info
from sdi.wire.opencl import SvmCapabilities, u64
from sdi.wire.records import (
    ARENA_NBYTES,
    FACT_FINE_IN_PLACE,
    FACT_FINE_UPDATE,
    FACT_NEXT_DEVICE,
    HEAP_OFFSET,
    INFO_ENTRY,
    PROTOCOL_VERSION,
    STAGING_OFFSET,
    FineUpdate,
    Op,
    record_layout,
)

_FACTS = record_layout(Op.FACTS)
_INFO = layout(INFO_ENTRY)
ToldVendors = Callable[[Sequence[Capabilities]], Vendors]
_UPDATES = {"batch": FineUpdate.BATCH, "lazy": FineUpdate.LAZY, "rolling": FineUpdate.ROLLING}
_HEAP_LEAST_NBYTES = 16 << 20
"""Less is of no use to anybody."""


def facts_record(
    devices: Sequence[Device],
    arena_nbytes: int,
    vendors: ToldVendors = vendors_of,
    is_image: bool = True,
    arena_address: int = 0,
    fine_grain: FineGrain = IN_PLACE,
    file: tuple[int, int] = (0, 0),
) -> bytes:
    """The FACTS record of an image made of ``devices``, or of all of these.

    ``arena_address``: where members find the arena's bytes as the application does; 0: nowhere.
    ``fine_grain``: how fine-grained regions are kept coherent.
    ``file``: where in the arena what lies in a file begins, and how large that may get.
    """
    file_offset, file_nbytes = file
    heap_nbytes = arena_nbytes - HEAP_OFFSET
    if is_image:
        told = vendors([device.capabilities for device in devices])
        entries = list(image_info(devices, heap_nbytes, told, file_nbytes=file_nbytes).items())
    else:
        all_of_them = [member_info(device, devices, heap_nbytes, vendors).items() for device in devices]
        entries = [entry for each in all_of_them for entry in ((FACT_NEXT_DEVICE, b""), *each)][1:]
    if arena_address:
        told_svm = u64(SvmCapabilities.COARSE_GRAIN_BUFFER | SvmCapabilities.FINE_GRAIN_BUFFER)
        entries = [(param, told_svm if param == Info.SVM_CAPABILITIES else value) for param, value in entries]
        if fine_grain.update == "shared" and have_host_addresses(devices):
            entries.insert(0, (FACT_FINE_IN_PLACE, b""))
        elif (update := _UPDATES.get(fine_grain.update)) is not None:
            numbers = (update, fine_grain.block_nbytes, fine_grain.most_blocks)
            entries.insert(0, (FACT_FINE_UPDATE, b"".join(map(u64, numbers))))
    body = b"".join(_INFO.pack(param, len(value)) + padded(value) for param, value in entries)
    head = (Op.FACTS, 0, PROTOCOL_VERSION, 0, arena_nbytes, arena_address, file_offset, len(entries), 0)
    return _FACTS.pack(_FACTS.size + len(body), *head) + body


def failure_record(status: int, message: str) -> bytes:
    """The FACTS record of a service that cannot serve."""
    text = message.encode()
    body = padded(text)
    head = (Op.FACTS, 0, PROTOCOL_VERSION, status, 0, 0, 0, 0, len(text))
    return _FACTS.pack(_FACTS.size + len(body), *head) + body


def announce(
    commands: socket.socket,
    devices: Sequence[Device],
    room: ArenaRoom = ANY_ROOM,
    vendors: ToldVendors = vendors_of,
    share: Callable[[Arena], None] | None = None,
    is_image: bool = True,
    pooled: PooledMemory | None = None,
    fine_grain: FineGrain = IN_PLACE,
    spill: Spill | None = None,
) -> tuple[Arena, StatusPage]:
    """Tell the client of an image made of ``devices``, or of all of these, and give it the arena.

    Both are the caller's.  ``room``: where the client can map the arena.  ``vendors``: what devices made of
    members say of themselves.  ``share``: gives the arena to others, while it has a descriptor.  ``pooled``:
    the memory of all members together, which is at the application's addresses then, if it can.
    ``fine_grain``: see ``facts_record``.  ``spill``: where what host memory has no room for lies.  Raises
    ClError where there is too little room for an arena.
    """
    arena = _arena(room.nbytes, spill)
    if share is not None:
        share(arena)
    page = StatusPage(arena)
    address = _shared_address(arena, room.addresses, devices, pooled)
    file = (0, 0) if arena.file is None else (arena.file_offset, arena.file.limit_nbytes)
    record = facts_record(devices, arena.nbytes, vendors, is_image, address, fine_grain, file)
    socket.send_fds(commands, [record[:1]], [arena.fd] if arena.file is None else [arena.fd, arena.file.fd])
    arena.close_descriptor()
    commands.sendall(record[1:])
    return arena, page


def have_host_addresses(devices: Sequence[Device]) -> bool:
    """Whether kernels on all of them can use bytes of this process at their addresses here."""
    facts = [device.capabilities for device in devices]
    return all(each.node == 0 and each.is_host_memory and each.maps_host for each in facts)


def _shared_address(
    arena: Arena, addresses: Sequence[int], devices: Sequence[Device], pooled: PooledMemory | None
) -> int:
    """At which of these kernels on all members can have the arena's bytes, as the application does.

    0: at none.
    """
    if pooled is None:
        return arena.map_window(addresses) if have_host_addresses(devices) else 0
    found = (address for address in addresses if pooled.reserve(arena.nbytes, address))
    if address := next(found, 0):
        return address
    pooled.reserve(arena.nbytes, 0)
    return 0


def _arena(room_nbytes: int, spill: Spill | None) -> Arena:
    """As large as client, service and limits allow; what ``spill`` does not leave to memory is in a file."""
    rooms = {
        "the application has address space for": min(ARENA_NBYTES, room_nbytes) // PAGE_NBYTES * PAGE_NBYTES,
        "the service has address space for": HEAP_OFFSET + limits.room(ARENA_NBYTES - HEAP_OFFSET),
        "a file may have": limits.largest_file(ARENA_NBYTES),
    }
    tightest = min(rooms, key=lambda what: rooms[what])
    nbytes = rooms[tightest]
    least = HEAP_OFFSET + _HEAP_LEAST_NBYTES
    require(
        nbytes >= least,
        Status.OUT_OF_RESOURCES,
        f"the memory shared with the application needs {size(least)}, {tightest} {size(nbytes)}"
        + limits.described(),
    )
    if spill is not None and HEAP_OFFSET + spill.memory_nbytes + PAGE_NBYTES <= nbytes:
        return _with_file(nbytes, spill)
    try:
        return Arena(nbytes, HEAP_OFFSET, copied_offset=STAGING_OFFSET)
    except OSError as cause:
        what = f"no memory to share with the application: {cause.strerror}{limits.described()}"
        raise ClError(Status.OUT_OF_RESOURCES, what) from cause


def _with_file(nbytes: int, spill: Spill) -> Arena:
    try:
        file = SpillFile(spill.folder, spill.limit_nbytes)
        try:
            at = HEAP_OFFSET + spill.memory_nbytes
            return Arena(nbytes, HEAP_OFFSET, file=file, file_offset=at, copied_offset=STAGING_OFFSET)
        except OSError:
            file.close()
            raise
    except OSError as cause:
        what = f"SDI_SPILL={str(spill.folder)!r}: {cause.strerror or cause}{limits.described()}"
        raise ClError(Status.OUT_OF_RESOURCES, what) from cause
