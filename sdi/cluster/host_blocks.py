"""A node's own memory: bytes of buffers that have no room on its members, or that they may want again.

Rank 0 says what is there (``vmem/node_memory.py``).  Members copy to and from it within this process; what
other nodes need is sent from where it lies.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Final, cast

from sdi import limits
from sdi.cluster.exchange import Exchange, region_of
from sdi.cluster.records import DamagedBatch, NodeRecord, RecordKind
from sdi.devices.base import Device
from sdi.devices.copying import download, upload
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, Status


class HostBlock:
    """``nbytes`` of this process' memory.  Pages are there only where bytes were written.  Raises OSError."""

    def __init__(self, nbytes: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | limits.MAP_NORESERVE
        made = mmap.mmap(-1, nbytes, flags=flags)
        made.madvise(mmap.MADV_DONTDUMP)
        self.bytes: HostBytes = memoryview(made)
        self.address: Final = ctypes.addressof(ctypes.c_char.from_buffer(made))
        PAGE_LOCKS.offer(self.address, nbytes)

    def close(self) -> None:
        """No copy of its bytes is pending."""
        PAGE_LOCKS.withdraw(self.address)
        self.bytes = memoryview(b"")


class HostBlocks:
    """What records of the member ``NODE_MEMORY`` ask for.  Owned by: sdi-net.

    ``named``: what was made under a name; raises why it was not.
    """

    def __init__(self, exchange: Exchange, named: Callable[[int], object]) -> None:
        self._exchange: Final = exchange
        self._named: Final = named
        self._blocks: Final[set[HostBlock]] = set()

    def allocate(self, nbytes: int) -> HostBlock:
        """A new block, its content undefined.  Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE)."""
        try:
            made = HostBlock(nbytes)
        except (OSError, OverflowError, ValueError) as cause:
            what = f"{nbytes} bytes of a node's own memory: {cause}"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what) from cause
        self._blocks.add(made)
        return made

    def free(self, block: HostBlock) -> None:
        """Every operation that uses it is done."""
        self._blocks.remove(block)
        block.close()

    def close(self) -> None:
        """No operation is pending."""
        for block in self._blocks:
            block.close()
        self._blocks.clear()

    def issue(self, devices: Sequence[Device], record: NodeRecord, wait: list[Ticket], replay: int) -> Ticket:
        """Send bytes to another process, or take some of a member's in.  ``replay``: its name, or 0."""
        match record.kind:
            case RecordKind.SEND:
                name, *strided, to, _ = record.fields
                region, key = region_of(*strided), replay + record.ticket
                return self._exchange.send_host(self._bytes(name), region, wait, to, key)
            case RecordKind.PEER_COPY:
                member, source, start, name, *strided = record.fields
                region, buffer = region_of(*strided), cast(DeviceBuffer, self._named(source))
                host = self._part(name, region.base, region.span_nbytes)
                ticket = download(devices[member], buffer, start, host, wait, region.at(0))
                devices[member].flush()
                return ticket
            case _:
                raise DamagedBatch(f"a node's memory is not asked for {record.kind.name}")

    def give(self, device: Device, record: NodeRecord, wait: list[Ticket]) -> Ticket:
        """A PEER_COPY to ``device`` from here."""
        _, name, start, target, *strided = record.fields
        region, buffer = region_of(*strided), cast(DeviceBuffer, self._named(target))
        host = self._part(name, start, region.span_nbytes)
        return upload(device, host, buffer, region.base, wait, region.at(0))

    def _bytes(self, name: int) -> HostBytes:
        return cast(HostBlock, self._named(name)).bytes

    def _part(self, name: int, start: int, nbytes: int) -> HostBytes:
        return self._bytes(name)[start : start + nbytes]
