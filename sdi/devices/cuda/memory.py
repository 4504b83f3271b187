"""Buffers of CUDA members, and how to fill device memory with a pattern."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from sdi.dataclass import dataclass
from sdi.devices.page_locks import PAGE_LOCKS, SLAB_NBYTES
from sdi.region import Region

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


def blocks_of(rows: Region, stops: Sequence[int]) -> list[tuple[int, int, int]]:
    """``rows`` in blocks, (offset of the first row, bytes, rows), none of which goes past one of ``stops``.

    ``stops``: offsets from the first row's begin, rising.  A row that one of them cuts becomes two blocks.
    """
    blocks: list[tuple[int, int, int]] = []
    nbytes, (pitch, count) = rows.nbytes, rows.levels[0]
    row = 0
    for stop in stops:
        whole = min(count, (stop - nbytes) // pitch + 1)
        if whole > row:
            blocks.append((row * pitch, nbytes, whole - row))
            row = whole
        begin = row * pitch
        if row < count and begin < stop:
            head = stop - begin
            blocks.append((begin, head, 1))
            blocks.append((stop, nbytes - head, 1))
            row += 1
    return blocks


class OwnHostMemory:
    """``nbytes`` of new host memory that can be page-locked as a whole: no other mapping shares its slabs."""

    def __init__(self, nbytes: int) -> None:
        """Raises OSError."""
        room = nbytes + 2 * SLAB_NBYTES
        whole = memoryview(mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        start = -ctypes.addressof(ctypes.c_char.from_buffer(whole)) % SLAB_NBYTES
        self.bytes: Final = whole[start : start + nbytes]
        self.address: Final = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        PAGE_LOCKS.offer(self.address, nbytes)

    def free(self) -> None:
        """Unlock it; nothing may use it."""
        PAGE_LOCKS.withdraw(self.address)


class DeviceMemory(Protocol):
    """An allocation of the driver."""

    def free(self) -> None: ...


@dataclass(slots=True, eq=False)
class CudaBuffer:
    """Bytes on a GPU; or, with no ``memory``, page-locked bytes of the host that it reads and writes.

    ``host``: where these are its own.
    """

    memory: DeviceMemory | None
    address: int
    nbytes: int
    host: OwnHostMemory | None = None
