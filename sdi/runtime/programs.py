"""Programs built for every member, and the bindings of their kernels."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from sdi.clc import compile_source
from sdi.clc.model import ArgumentKind, KernelModel
from sdi.devices.base import BoundKernel, Device, DeviceProgram, KernelFacts
from sdi.errors import ClError, Status
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.runtime.commands import Launch

BINDINGS_MAX = 64
"""Bindings kept per kernel, least recently used first out."""

_ENTRY = struct.Struct("<II")
_POINTER = struct.Struct("<QQ")
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A buffer bound to an argument: root buffer (0: NULL) and the offset of the bound sub-buffer."""

    buffer: int
    offset: int


@dataclass(frozen=True, slots=True)
class LocalSize:
    """Bytes of a ``__local`` argument."""

    nbytes: int


ArgumentValue = bytes | Pointer | LocalSize


@dataclass(frozen=True, slots=True)
class BufferUse:
    """What one launch does to one root buffer, over all arguments that name it."""

    buffer: int
    reads: bool
    writes: bool
    unit_nbytes: int
    smallest_unit_nbytes: int


@dataclass(slots=True)
class Binding:
    """A launch whose cut, packed parameters and bound kernels are known.

    ``boxes[k]`` runs on member ``first + k``, where ``first`` is chosen at launch for one box, else 0.
    ``bound[m]``: the kernel bound on member m, once it was needed there.
    """

    ndrange: NDRange
    boxes: tuple[GroupBox, ...]
    groups: tuple[int, ...]
    values: tuple[ArgumentValue, ...]
    uses: tuple[BufferUse, ...]
    why_whole: str
    bound: dict[int, BoundKernel]


BindingKey = tuple[int, Int3, Int3, Int3 | None, bytes]


class Kernel:
    """One kernel of a build, with its bindings.  Owned by: sdi-scheduler."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self._bindings: OrderedDict[BindingKey, Binding] = OrderedDict()

    def find(self, key: BindingKey) -> Binding | None:
        """The binding for ``key``, now the most recently used."""
        found = self._bindings.get(key)
        if found is not None:
            self._bindings.move_to_end(key)
        return found

    def keep(self, key: BindingKey, binding: Binding) -> None:
        """Remember ``binding``."""
        self._bindings[key] = binding
        if len(self._bindings) > BINDINGS_MAX:
            self._bindings.popitem(last=False)

    def forget_buffer(self, buffer: int) -> None:
        """Drop the bindings that refer to ``buffer``."""
        gone = [k for k, b in self._bindings.items() if any(use.buffer == buffer for use in b.uses)]
        for key in gone:
            del self._bindings[key]

    def decode(self, launch: Launch) -> tuple[ArgumentValue, ...]:
        """The argument values of ``launch``.  Raises ClError(INVALID_KERNEL_ARGS) for a bad record."""
        expected = self.model.arguments
        data, at = launch.arguments, 0
        values: list[ArgumentValue] = []
        try:
            for argument in expected:
                kind, nbytes = _ENTRY.unpack_from(data, at)
                payload = data[at + 8 : at + 8 + nbytes]
                at += 8 + nbytes + -nbytes % 8
                if kind != argument.kind.value or len(payload) != nbytes:
                    raise ClError(
                        Status.INVALID_KERNEL_ARGS, f"{self.model.name}: {argument.name} has kind {kind}"
                    )
                values.append(_decode(argument.kind, argument.nbytes, payload))
        except struct.error as cause:
            raise ClError(
                Status.INVALID_KERNEL_ARGS, f"{self.model.name}: {len(data)} bytes of arguments"
            ) from cause
        if at != len(data) or launch.num_args != len(expected):
            raise ClError(
                Status.INVALID_KERNEL_ARGS,
                f"{self.model.name}: {launch.num_args} arguments for {len(expected)}",
            )
        return tuple(values)

    def uses(self, values: Sequence[ArgumentValue]) -> tuple[BufferUse, ...]:
        """What a launch with ``values`` does to each root buffer; a buffer bound twice is one use."""
        found: dict[int, BufferUse] = {}
        for argument, value in zip(self.model.arguments, values, strict=True):
            if not isinstance(value, Pointer) or value.buffer == 0:
                continue
            reads, writes = argument.reads or argument.atomic, argument.writes or argument.atomic
            unit = argument.unit_nbytes or 1 if writes else 0
            smallest = argument.smallest_unit_nbytes or 1 if writes else 0
            before = found.get(value.buffer)
            if before is not None:
                reads, writes = reads or before.reads, writes or before.writes
                unit = max(unit, before.unit_nbytes)
                smallest = min(filter(None, (smallest, before.smallest_unit_nbytes)), default=0)
            found[value.buffer] = BufferUse(value.buffer, reads, writes, unit, smallest)
        return tuple(found.values())


def _decode(kind: ArgumentKind, nbytes: int, payload: bytes) -> ArgumentValue:
    match kind:
        case ArgumentKind.GLOBAL | ArgumentKind.CONSTANT:
            return Pointer(*_POINTER.unpack(payload))
        case ArgumentKind.LOCAL:
            return LocalSize(*_SIZE.unpack(payload))
        case ArgumentKind.VALUE:
            if len(payload) != nbytes:
                raise ClError(Status.INVALID_ARG_SIZE, f"{len(payload)} bytes for a value of {nbytes}")
            return payload
        case ArgumentKind.IMAGE | ArgumentKind.SAMPLER:
            raise ClError(Status.INVALID_OPERATION, "images and samplers are not supported")


@dataclass(frozen=True, slots=True)
class Build:
    """A program built for all members: ``programs[m]`` is member m's, ``facts[k]`` kernel k's limits."""

    kernels: tuple[Kernel, ...]
    facts: tuple[KernelFacts, ...]
    programs: tuple[DeviceProgram, ...]
    log: str


def build(source: str, options: str, directory: str, devices: Sequence[Device]) -> Build:
    """Compile for every member.  Blocks; runs on a build thread.  Raises BuildError with the whole log."""
    compiled = compile_source(source, options, directory or None)
    programs = tuple(device.build(compiled.text, compiled.member_options) for device in devices)
    facts = tuple(
        _weakest([d.kernel_facts(p, model.name) for d, p in zip(devices, programs, strict=True)])
        for model in compiled.kernels
    )
    return Build(tuple(Kernel(model) for model in compiled.kernels), facts, programs, compiled.log)


def _weakest(facts: Sequence[KernelFacts]) -> KernelFacts:
    """Limits that hold on every member."""
    return KernelFacts(
        min(f.work_group_size for f in facts),
        max(f.preferred_multiple for f in facts),
        max(f.local_mem_nbytes for f in facts),
        max(f.private_mem_nbytes for f in facts),
    )
