"""A member on another node."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

from sdi.clc.preprocess.compiler import Ask
from sdi.clc.preprocess.probe import Answers
from sdi.cluster.arguments import UPDATES, bound
from sdi.cluster.exchange import fields_of
from sdi.cluster.records import RecordKind, packed, regions, strings
from sdi.cluster.remote_node import ROOT, RemoteNode, RemoteTicket, ids
from sdi.devices.base import BoundArgument, Comparison, Device, KernelFacts, MergeStep, Place, SubGroupQuery
from sdi.devices.capabilities import Capabilities
from sdi.devices.copying import by, in_parts, is_rows
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import united
from sdi.devices.memory_share import MemoryShare
from sdi.devices.native import NativeMember
from sdi.devices.signals import Signals
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, DeviceFailed, DeviceLost, Status, require
from sdi.ndrange import Int3
from sdi.region import Region
from sdi.wire.opencl import DeviceInfo


class _Made:
    """Something on a member of a node.  ``nbytes``: what it takes of the member's memory."""

    __slots__ = ("__weakref__", "device", "is_image", "name", "nbytes")

    def __init__(self, device: RemoteDevice, name: int, nbytes: int = 0) -> None:
        self.is_image = False
        self.device = device
        self.name = name
        self.nbytes = nbytes


class _MadeProgram(_Made, DeviceProgram):
    __slots__ = ()

    def keep(self) -> None:
        self.device.node.say(packed(RecordKind.KEEP_BUILD, self.device.number, self.name))


def made_name(made: object) -> int:
    """What the node calls something that was made there."""
    return cast(_Made, made).name


def remote(device: Device | None) -> RemoteDevice | None:
    """``device`` where it is on another node."""
    return device if isinstance(device, RemoteDevice) else None


class CopyEnds(Protocol):
    """This process' ends of copies: ``Exchange``, or what writes down what is to be done each time."""

    def signals(self, device: Device) -> bool:
        """See ``Exchange.signals``."""

    def send(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        to: int,
        key: int,
        is_signalled: bool = False,
    ) -> Ticket:
        """See ``Exchange.send``."""

    def send_host(self, host: HostBytes, region: Region, wait: Sequence[Ticket], to: int, key: int) -> Ticket:
        """See ``Exchange.send_host``."""

    def receive(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        source: int,
        key: int,
        is_signalled: bool = False,
    ) -> Ticket:
        """See ``Exchange.receive``."""

    def receive_host(self, host: HostBytes, region: Region, source: int, key: int) -> Ticket:
        """See ``Exchange.receive_host``."""


class Operations(Protocol):
    """Where operations of a node's members go: to the node, or into what it keeps (``parts``)."""

    @property
    def rank(self) -> int:
        """The node's."""

    @property
    def exchange(self) -> CopyEnds:
        """See ``CopyEnds``."""

    def place(self, host: HostBytes) -> int | None:
        """See ``RemoteNode.place``."""

    def copies_host(self, nbytes: int) -> None:
        """See ``RemoteNode.copies_host``."""

    def issue(
        self,
        kind: RecordKind,
        member: int,
        fields: Sequence[int],
        wait: Sequence[Ticket],
        tail: bytes = b"",
        name: int = 0,
        lands: Ticket | None = None,
        on_host: bool = False,
    ) -> Ticket:
        """See ``RemoteNode.issue``."""


class RemoteDevice:
    """Member ``number`` of ``node``.  Implements ``Device``.

    Memory is accounted for here; what the node's driver refuses all the same fails with what uses it.
    """

    native: NativeMember | None = None
    signals: Signals | None = None

    def __init__(self, node: RemoteNode, number: int, facts: Capabilities) -> None:
        self.capabilities: Capabilities = facts
        self.node: Final = node
        self.number: Final = number
        self._operations: Operations = node
        self.memory: MemoryShare = MemoryShare(facts.name, facts.memory_nbytes)
        self.ask: Ask = self._ask

    def _made(self, kind: RecordKind, fields: Sequence[int], nbytes: int = 0, tail: bytes = b"") -> _Made:
        if self.is_lost():
            raise self._loss()
        made = _Made(self, next(ids), nbytes)
        self.node.say(packed(kind, self.number, made.name, fields, tail=tail))
        self.memory.in_use += nbytes
        return made

    def _loss(self) -> DeviceLost:
        return self.node.failure or DeviceLost(self.capabilities.name, "it is lost")

    def _issue(
        self, kind: RecordKind, fields: Sequence[int], wait: Sequence[Ticket], tail: bytes = b""
    ) -> Ticket:
        return self._operations.issue(kind, self.number, fields, wait, tail)

    def into(self, operations: Operations) -> RemoteDevice:
        """The same member, whose copies go there."""
        other = copy.copy(self)
        other._operations = operations
        return other

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        if isinstance(wanted, memoryview):
            return self._map_host(wanted)
        if isinstance(wanted, int) and on_host:
            return DeviceBuffer(self._made(RecordKind.ALLOCATE, (wanted, 1)))
        nbytes = wanted if isinstance(wanted, int) else wanted.nbytes
        asked = self.memory.asked(nbytes)
        if not isinstance(wanted, int):
            fields = (
                *(wanted.type, wanted.order, wanted.data_type, wanted.width, wanted.rows, wanted.planes),
                *(wanted.row_pitch, wanted.plane_pitch),
            )
            image = self._made(RecordKind.CREATE_IMAGE, fields, nbytes)
            image.is_image = True
            return DeviceBuffer(image)
        most = int.from_bytes(self.capabilities.info[DeviceInfo.MAX_MEM_ALLOC_SIZE], "little")
        too_large = f"{asked}; its driver gives {most} at a time"
        require(nbytes <= most, Status.MEM_OBJECT_ALLOCATION_FAILURE, too_large)
        return DeviceBuffer(self._made(RecordKind.ALLOCATE, (nbytes, 0), nbytes))

    def _map_host(self, host: HostBytes) -> DeviceBuffer:
        place = self.node.place(host)
        if place is not None:
            return DeviceBuffer(self._made(RecordKind.ADOPT, (place, host.nbytes)))
        raise ClError(
            Status.MEM_OBJECT_ALLOCATION_FAILURE,
            f"{self.capabilities.name}: {host.nbytes} bytes are in host memory that it does not reach",
        )

    def free(self, buffer: DeviceBuffer) -> None:
        own = cast(_Made, buffer)
        self.memory.give(own.nbytes)
        self.node.say(packed(RecordKind.FREE, self.number, own.name))

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return None

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        wait = united(source_waits, target_waits)
        if source.device is target.device:
            ticket = self._copy_within(source, target, region, wait)
            return ticket, ticket
        if not is_rows(source, target, region):
            return in_parts(by(self, source_waits, target_waits, timing), source, target, region)
        if source.device is not None and target.device is not None:
            return self._copy_peer(source, target, region, source_waits, target_waits)
        outside, inside = (source, target) if source.device is None else (target, source)
        host = outside.host(region.span_nbytes, outside.offset + region.base)
        work = self._upload if source.device is None else self._download
        ticket = work(host, cast(DeviceBuffer, inside.memory), inside.here(region), wait)
        return ticket, ticket

    def _copy_within(self, source: Place, target: Place, region: Region, wait: Sequence[Ticket]) -> Ticket:
        there, here = cast(_Made, source.memory), cast(_Made, target.memory)
        names = there.name, here.name
        if here.is_image or there.is_image:
            offsets = source.offset, target.offset
            return self._issue(RecordKind.COPY_PIXELS, (*names, *offsets), wait, regions(region, region))
        places = regions(source.here(region), target.here(region))
        return self._issue(RecordKind.COPY, names, wait, places)

    def _upload(
        self, host: HostBytes, buffer: DeviceBuffer, region: Region, wait: Sequence[Ticket]
    ) -> Ticket:
        place = self._operations.place(host)
        if place is not None:
            self._operations.copies_host(region.total_nbytes)
            return self._copy_host(RecordKind.UPLOAD, buffer, region, place, wait)
        key = next(ids)
        ticket = self._receive(buffer, region, wait, ROOT, key)
        # What writes ``host`` is done here, or lands here: the node's other tickets are of its own memory.
        node = self._operations
        before = [
            t for t in wait if not (isinstance(t, RemoteTicket) and t.owner is self.node and t.left is None)
        ]
        node.exchange.send_host(host, region.at(0), before, node.rank, key)
        return ticket

    def _download(
        self, host: HostBytes, buffer: DeviceBuffer, region: Region, wait: Sequence[Ticket]
    ) -> Ticket:
        if host.readonly:
            refused = DeviceFailed(self.capabilities.name, "host memory that can't be written")
            refused.__cause__ = BufferError("read-only")
            return completed(refused)
        place = self._operations.place(host)
        if place is not None:
            return self._copy_host(RecordKind.DOWNLOAD, buffer, region, place, wait)
        node, key = self._operations, next(ids)
        landed = node.exchange.receive_host(host, region.at(0), node.rank, key)
        fields = (cast(_Made, buffer).name, *fields_of(region), ROOT, 0)
        return node.issue(RecordKind.SEND, self.number, fields, wait, name=key, lands=landed, on_host=True)

    def _copy_host(
        self,
        kind: RecordKind,
        buffer: DeviceBuffer,
        region: Region,
        place: int,
        wait: Sequence[Ticket],
    ) -> Ticket:
        """Copy between ``buffer`` and the arena, which the node has too."""
        fields = (cast(_Made, buffer).name, *fields_of(region), place)
        return self._operations.issue(kind, self.number, fields, wait, on_host=True)

    def _receive(
        self,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        source: int,
        key: int,
        is_signalled: bool = False,
    ) -> Ticket:
        fields = (cast(_Made, buffer).name, *fields_of(region), int(is_signalled), source, key)
        return self._issue(RecordKind.RECEIVE, fields, wait)

    def _copy_peer(
        self,
        source: Place,
        target: Place,
        region: Region,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
    ) -> tuple[Ticket, Ticket]:
        node, key = self._operations, next(ids)
        there, here = source.here(region), target.here(region)
        from_, to = cast(DeviceBuffer, source.memory), cast(DeviceBuffer, target.memory)
        device = source.device
        assert device is not None
        if not isinstance(device, RemoteDevice):
            signals = self.capabilities.signals and node.exchange.signals(device)
            left = node.exchange.send(device, from_, there, leave, node.rank, key, signals)
            return left, self._receive(to, here, arrive, ROOT, key, signals)
        other, name = device._operations, cast(_Made, from_).name
        if other is node:
            both = (device.number, name, there.base, cast(_Made, to).name, *fields_of(here))
            ticket = self._issue(RecordKind.PEER_COPY, both, united(leave, arrive))
            return ticket, ticket
        signals = self.capabilities.signals and device.capabilities.signals
        fields = (name, *fields_of(there), node.rank, int(signals))
        left = other.issue(RecordKind.SEND, device.number, fields, leave, name=key)
        return left, self._receive(to, here, arrive, other.rank, key, signals)

    def send_to(
        self,
        source: Place,
        target: Place,
        region: Region,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
    ) -> tuple[Ticket, Ticket]:
        """Copy to a member of this process."""
        if not is_rows(source, target, region):

            def copy(there: Place, here: Place, part: Region) -> tuple[Ticket, Ticket]:
                return self.send_to(there, here, part, leave, arrive)

            return in_parts(copy, source, target, region)
        node, key, here = self._operations, next(ids), target.here(region)
        to = cast(DeviceBuffer, target.memory)
        assert target.device is not None
        signals = self.capabilities.signals and node.exchange.signals(target.device)
        fields = (cast(_Made, source.memory).name, *fields_of(source.here(region)), ROOT, int(signals))
        left = node.issue(RecordKind.SEND, self.number, fields, leave, name=key)
        return left, node.exchange.receive(target.device, to, here, arrive, node.rank, key, signals)

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._issue(RecordKind.FILL, (cast(_Made, buffer).name, offset, nbytes), wait, pattern)

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        update = comparison.update
        fields = (
            cast(_Made, comparison.buffer).name,
            comparison.offset,
            cast(_Made, comparison.twin).name,
            comparison.twin_offset,
            comparison.nbytes,
            comparison.unit_nbytes,
            comparison.smallest_nbytes,
            cast(_Made, changes).name,
            0 if update is None else UPDATES.index(update.operation),
            0 if update is None else update.nbytes,
            0 if update is None else int(update.signed),
        )
        kind = RecordKind.DIFF if step is MergeStep.DIFF else RecordKind.APPLY
        return self._issue(kind, fields, wait)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        if self.is_lost():
            raise self._loss()
        program = _MadeProgram(self, next(ids))
        self._kept(program)
        self.node.question(RecordKind.BUILD, self.number, tail=strings((text, *options)), name=program.name)()
        return program

    def _kept(self, made: _Made) -> _Made:
        """``made``, which the node forgets when nobody has it here any more."""
        drop = packed(RecordKind.DROP, self.number, made.name)
        weakref.finalize(made, self.node.unused.append, drop).atexit = False
        return made

    def _ask(self, questions: Sequence[str], options: Sequence[str]) -> Answers:
        asked = pickle.dumps((list(questions), list(options)))
        found: Answers = pickle.loads(self.node.question(RecordKind.ASK_COMPILER, self.number, tail=asked)())
        return found

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        name, tail = cast(_Made, program).name, pickle.dumps((kernel, asked))
        found = pickle.loads(self.node.question(RecordKind.FACTS, self.number, (name,), tail)())
        assert isinstance(found, KernelFacts)
        return found

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        tail = bound(kernel, arguments, made_name)
        return BoundKernel(self._kept(self._made(RecordKind.BIND, (cast(_Made, program).name,), tail=tail)))

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        fields = (cast(_Made, bound).name, *groups, *local_size, work_dim)
        return self._issue(RecordKind.LAUNCH, fields, wait)

    def flush(self) -> None:
        self.node.flush()
        if self.node.polling.is_busy:
            self.node.hear()

    def is_lost(self) -> bool:
        return self.node.failure is not None or self.number in self.node.lost_members

    def close(self) -> None:
        with suppress(DeviceFailed):  # its node is lost: the member is gone with it
            self.node.question(RecordKind.CLOSE, self.number)()
