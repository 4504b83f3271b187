"""What a launch may write that could not be issued."""

from __future__ import annotations

from contextlib import suppress

from sdi.clc.model import KernelModel
from sdi.commands import Launch
from sdi.errors import ClError
from sdi.intervals import ByteRange
from sdi.launch.arguments import BufferArgument, ImageArgument, decode_arguments
from sdi.vmem.memory import VirtualMemory


def poison_written(memory: VirtualMemory, model: KernelModel, launch: Launch, why: Exception) -> None:
    """Whoever reads what ``launch`` may write fails, because of ``why``."""
    with suppress(ClError):
        for buffer in memory.reached(launch).buffers:
            memory.recovery.poison(buffer, buffer.whole, why)
    for argument, value in zip(model.arguments, decode_arguments(model, launch), strict=True):
        if not argument.writes:
            continue
        with suppress(ClError):  # what is gone is read by nobody
            if isinstance(value, ImageArgument):
                memory.recovery.poison(memory.buffer(value.buffer), value.view.over, why)
            elif isinstance(value, BufferArgument) and value.buffer:
                buffer = memory.buffer(value.buffer)
                stop = value.offset + value.reach(buffer.nbytes)
                memory.recovery.poison(buffer, ByteRange(value.offset, stop), why)
