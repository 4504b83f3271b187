"""What kernels of a CUDA member print: records in a buffer of the member's, taken after each such launch.

The text goes to the service's standard output, as that of other drivers' kernels does;
``service/kernel_output.py`` takes it from there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final, Protocol, cast

from sdi.clc.cuda.translate import CudaProgram
from sdi.clc.printf_text import records_text
from sdi.devices.cuda.channel import Stream
from sdi.devices.cuda.context import CudaContext
from sdi.devices.cuda.driver import drv
from sdi.devices.cuda.memory import DeviceMemory
from sdi.errors import DeviceFailed
from sdi.wire.kernels import CUDA_PRINT
from sdi.wire.layout import layout

_log = logging.getLogger(__name__)
_STDOUT = 1
_HEADER = layout(CUDA_PRINT)
SYMBOL = "sdi_print"
CAPACITY_NBYTES = 16 << 20
"""Of records, which are at most eight times as long as their text: CL_DEVICE_PRINTF_BUFFER_SIZE is less."""


class _Module(Protocol):
    def get_global(self, name: str) -> tuple[object, int]: ...


class _Waits(Protocol):
    def synchronize(self) -> object: ...


class PrintBuffer:
    """One member's.  ``name``: the member's.  Launches that print come one after the other."""

    def __init__(self, context: CudaContext, name: str, capacity_nbytes: int = CAPACITY_NBYTES) -> None:
        self._context: Final = context
        self._name: Final = name
        self._capacity: Final = capacity_nbytes
        self._memory: DeviceMemory | None = None

    def serve(self, module: object) -> None:
        """Have the kernels of a loaded program print here.  The context is on pycuda's stack."""
        if self._memory is None:
            self._memory = cast(DeviceMemory, drv.mem_alloc(_HEADER.size + self._capacity))
        try:
            pointer, _ = cast(_Module, module).get_global(SYMBOL)
        except (drv.LogicError, DeviceFailed):  # the compiler left it out: nothing that can be reached prints
            return
        drv.memcpy_htod(pointer, int(cast(int, self._memory)).to_bytes(8, "little"))

    def run(self, launch: Callable[[], object], program: CudaProgram, kernel: str, stream: Stream) -> None:
        """Launch, wait, and put out what was printed.  Blocks: for the thread of the stream."""
        at = int(cast(int, self._memory))
        drv.memcpy_htod_async(at, _HEADER.pack(0, 0, self._capacity, 0), stream)
        launch()
        header = bytearray(_HEADER.size)
        self._fetch(header, at, stream)
        used, lost, capacity, _ = _HEADER.unpack(header)
        if lost:
            what = "calls of printf are lost: what was printed before them fills all"
            _log.warning("%s: %s: %d %s %d bytes", self._name, kernel, lost, what, capacity)
        records = bytearray(min(used, capacity))
        if records:
            self._fetch(records, at + _HEADER.size, stream)
            text = memoryview(records_text(program.formats, bytes(records)))
            while text:
                text = text[os.write(_STDOUT, text) :]

    def _fetch(self, into: bytearray, at: int, stream: Stream) -> None:
        drv.memcpy_dtoh_async(into, at, stream)
        cast(_Waits, stream).synchronize()

    def close(self) -> None:
        """Give its memory back.  The context is on pycuda's stack."""
        if self._memory is not None:
            self._memory.free()
            self._memory = None
