"""Launches on one member that has all of their buffers, or gets them: they need no access ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sdi.clc.model import ArgumentKind, KernelModel
from sdi.launch.arguments import ArgumentValue, BufferArgument
from sdi.partition.history import LaunchHistory
from sdi.regions import RegionSet
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, member_memory

_GATHER_AFTER = 8
"""Launches of a device of several after which it may get all of buffers that no other one ever needed."""

_VAIN_NBYTES = 64 << 10
"""To copy so much takes longer than to find out that nobody reads it."""


def needs_no_ranges(
    history: LaunchHistory, buffers: Iterable[VirtualBuffer], members: Sequence[int], asked: int = 0
) -> bool:
    """Whether the next launch gets all of its buffers, needed or not, on the member that runs it.

    ``asked``: the number of the member that it is for, from 1 on; 0: any of ``members``.
    """
    if asked:
        return history.launches >= _GATHER_AFTER and are_gathered(buffers, members, asked)
    if history.assignments != 1 or history.is_due():
        return False
    return are_gathered(buffers, members) or history.gather()


def are_gathered(buffers: Iterable[VirtualBuffer], members: Sequence[int], asked: int = 0) -> bool:
    """Whether one member, or the one asked for, and the host have all that is current of some buffers.

    A launch there needs no ranges: what it lacks is what the application wrote, which moves but once.
    """
    found = list(buffers)
    if asked:
        return all(each.is_only_on(asked - 1) for each in found)
    return any(
        all(
            holders >> HOST & 1
            for each in found
            for _, holders in each.directory.stale(member_memory(member), RegionSet((each.whole,)))
        )
        for member in members
    )


def are_on_one(buffers: Iterable[VirtualBuffer], members: Sequence[int]) -> bool:
    """Whether a member has all that is current of some buffers: to run there moves nothing."""
    found = sum([1 << member_memory(member) for member in members])
    for each in buffers:
        found = found and each.directory.complete(found)
    return bool(found)


def overwrites(
    model: KernelModel,
    values: Sequence[ArgumentValue],
    buffers: Mapping[int, VirtualBuffer],
    members: Sequence[int],
) -> bool:
    """Whether no member has some buffer that the kernel writes and never reads.

    Its ranges say what of that has to be fetched: whole, all of it would be, in vain as a rule.
    """
    for argument, value in zip(model.arguments, values, strict=True):
        if argument.kind is not ArgumentKind.GLOBAL or not isinstance(value, BufferArgument):
            continue
        if argument.writes and not (argument.reads or argument.atomic) and value.buffer:
            found = buffers[value.buffer]
            over = RegionSet((found.whole,))
            if all(found.directory.stale_nbytes(member_memory(m), over) > _VAIN_NBYTES for m in members):
                return True
    return False
