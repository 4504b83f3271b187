"""Host memory that CUDA has page-locked, and how to fill device memory with a pattern."""

from __future__ import annotations

import bisect
import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sdi.devices.base import HostBytes

_SPREAD_NBYTES = 1 << 16


def check_range(nbytes: int, offset: int, limit: int) -> None:
    """Raise ValueError unless ``[offset, offset + nbytes)`` lies within ``limit`` bytes."""
    if not 0 <= offset <= offset + nbytes <= limit:
        raise ValueError(f"bytes [{offset}, {offset + nbytes}) of a buffer of {limit} bytes")


@dataclass(frozen=True, slots=True)
class Fills:
    """The driver's fills and copy, bound to a stream.

    ``rows(address, pitch, value, words, height)`` sets the first words of each row.
    """

    d8: Callable[[int, int, int], object]
    d16: Callable[[int, int, int], object]
    d32: Callable[[int, int, int], object]
    rows: Callable[[int, int, int, int, int], object]
    copy: Callable[[int, int, int], object]


def fill_pattern(fills: Fills, address: int, nbytes: int, pattern: bytes) -> None:
    """Repeat ``pattern`` over ``nbytes``; no host memory is read later.

    Source of the limits: OpenCL 3.0 API specification, clEnqueueFillBuffer.  A pattern of more than 4 bytes
    is written word by word to the beginning, which is then doubled.
    """
    size = len(pattern)
    if size not in (1, 2, 4, 8, 16, 32, 64, 128) or nbytes % size:
        raise ValueError(f"a pattern of {size} bytes for {nbytes} bytes")
    while size > 1 and pattern[: size // 2] == pattern[size // 2 :]:
        size //= 2
    value = int.from_bytes(pattern[:size], "little")
    if size <= 4:
        {1: fills.d8, 2: fills.d16, 4: fills.d32}[size](address, value, nbytes // size)
        return
    done = min(nbytes, max(size, _SPREAD_NBYTES))
    for at in range(0, size, 4):
        word = int.from_bytes(pattern[at : at + 4], "little")
        fills.rows(address + at, size, word, 1, done // size)
    while done < nbytes:
        count = min(done, nbytes - done)
        fills.copy(address + done, address, count)
        done += count


class DeviceMemory(Protocol):
    """An allocation of the driver."""

    def free(self) -> None: ...


@dataclass(slots=True, eq=False)
class CudaBuffer:
    """Bytes on a GPU."""

    memory: DeviceMemory
    address: int
    nbytes: int


class Pinned:
    """Host memory registered with CUDA: copies to and from it are asynchronous.  Any thread.

    Registered for all contexts; a range stays mapped until it is unregistered.
    """

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._ranges: list[tuple[int, int]] = []  # sorted (begin, end)

    def add(self, address: int, nbytes: int) -> None:
        """The range was registered."""
        with self._lock:
            self._ranges = sorted([*self._ranges, (address, address + nbytes)])

    def remove(self, address: int) -> None:
        """The range was unregistered."""
        with self._lock:
            self._ranges = [each for each in self._ranges if each[0] != address]

    def holds(self, host: HostBytes) -> bool:
        """All of ``host`` lies in one registered range."""
        ranges = self._ranges
        if not ranges or host.readonly:
            return False
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        at = bisect.bisect_right(ranges, (begin, 1 << 64)) - 1
        return at >= 0 and begin + host.nbytes <= ranges[at][1]


PINNED = Pinned()
"""One for the process: registration is the driver's, not a member's."""
