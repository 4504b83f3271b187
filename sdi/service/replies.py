"""What the service tells the client of a build: the kernel tables, and what is asked of kernels later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sdi.devices.base import KernelFacts
from sdi.launch.kernel import Build, Kernel
from sdi.launch.programs.builds import Compiled
from sdi.wire.layout import layout, padded
from sdi.wire.opencl import u64
from sdi.wire.records import ARGUMENT_ENTRY, BUILD_REPLY, KERNEL_ENTRY, WORK_GROUP_ENTRY

_BUILD_REPLY = layout(BUILD_REPLY)
_KERNEL = layout(KERNEL_ENTRY)
_WORK_GROUP = layout(WORK_GROUP_ENTRY)
_ARGUMENT = layout(ARGUMENT_ENTRY)


def build_payload(made: Build | Compiled) -> bytes:
    """Payload of the reply to BUILD, COMPILE and LINK: the log, the kernel tables, the object."""
    text = made.log.encode("utf-8", "surrogateescape")
    kernels = list(zip(made.kernels, made.facts, strict=True)) if isinstance(made, Build) else []
    num_devices = len(made.facts[0]) if kernels and isinstance(made, Build) else 0
    return b"".join(
        [
            _BUILD_REPLY.pack(len(text), len(kernels), len(made.object), num_devices, 0),
            padded(text),
            *(_kernel(k, facts) for k, facts in kernels),
            made.object,
        ]
    )


def numbers_payload(numbers: Sequence[int]) -> bytes:
    """Payload of the reply to SUB_GROUPS: 8 bytes each."""
    return b"".join(map(u64, numbers))


def _limits(facts: KernelFacts) -> tuple[int, ...]:
    return (
        facts.work_group_size,
        facts.preferred_multiple,
        facts.local_mem_nbytes,
        facts.private_mem_nbytes,
    )


def _kernel(kernel: Kernel, facts: Sequence[KernelFacts]) -> bytes:
    model = kernel.model
    name, attributes = model.name.encode(), model.attributes.encode()
    entry = _KERNEL.pack(
        len(name),
        len(attributes),
        len(model.arguments),
        int(model.prints),
        *(model.required_work_group_size or (0, 0, 0)),
        int(model.follows_pointers > 0),
        0,
    )
    limits = [_WORK_GROUP.pack(*_limits(each)) for each in facts]
    return b"".join([entry, *limits, padded(name), padded(attributes), *_arguments(kernel)])


def _arguments(kernel: Kernel) -> Iterable[bytes]:
    for argument in kernel.model.arguments:
        name, type_name = argument.name.encode(), argument.type_name.encode()
        yield _ARGUMENT.pack(
            argument.kind.value,
            argument.nbytes,
            argument.address_qualifier,
            argument.access_qualifier,
            argument.type_qualifier,
            len(name),
            len(type_name),
            int(argument.holds_pointers),
            int(argument.writes or argument.atomic),
        )
        yield padded(name)
        yield padded(type_name)
