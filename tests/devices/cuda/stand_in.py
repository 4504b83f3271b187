"""A stand-in for the CUDA driver, on host memory: what pycuda has for memory, copies, streams and events.

Everything happens at the call, in order.  It shows what members ask of the driver and what they do when it
refuses; not what a GPU does.  There is no code to run: a launch does nothing.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import time
from collections.abc import Callable
from typing import Any

from sdi.region import Region


class Error(Exception):
    """The driver's."""


class LogicError(Error):
    """The same, of the kind that the caller could have known."""


class _EventFlags:
    DEFAULT, DISABLE_TIMING = 0, 2


class StandIn:
    """``pycuda.driver``, and what ``cuda_driver`` calls itself, for ``gpus`` devices.

    ``before(call)`` is called with the name of each call, and may raise.  ``is_dead``: what is asked of
    the driver's health says no.  ``waited``: of each wait for a number whether it was there.
    ``unlinked``: pairs (reader, owner) that can't read each other; ``damaged``: those whose direct copies
    arrive wrong; ``broken``: those whose copies do in every way.
    """

    Error, LogicError = Error, LogicError

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus
        self.before: Callable[[str], None] = lambda call: None
        self.unlinked: set[tuple[int, int]] = set()
        self.damaged: set[tuple[int, int]] = set()
        self.broken: set[tuple[int, int]] = set()
        self.stack: list[_Context] = []
        self.enabled: set[tuple[int, int]] = set()
        self.memories: dict[int, _Memory] = {}
        self.contexts = [_Context(self, ordinal) for ordinal in range(gpus)]
        self.current = 0
        self.is_dead = False
        self.awaited: list[int] = []
        self.waited: list[bool] = []
        stand_in = self

        class Context:
            @staticmethod
            def pop() -> None:
                stand_in.stack.pop()

            @staticmethod
            def enable_peer_access(other: _Context) -> None:
                stand_in.before("enable_peer_access")
                pair = (stand_in.stack[-1].ordinal, other.ordinal)
                if pair in stand_in.enabled:
                    raise LogicError("enabled before")
                stand_in.enabled.add(pair)

            @staticmethod
            def disable_peer_access(other: _Context) -> None:
                stand_in.enabled.remove((stand_in.stack[-1].ordinal, other.ordinal))

        self.Context = Context
        self.event_flags = _EventFlags()

    def init(self) -> None:
        """Always works."""

    def Device(self, ordinal: int) -> _Gpu:  # noqa: N802
        return _Gpu(self, ordinal)

    def Event(self, flags: int = 0) -> _Event:  # noqa: N802
        assert self.stack, "made where no context is"
        self.before("Event")
        return _Event(self)

    def Stream(self, flags: int) -> _Stream:  # noqa: N802
        assert self.stack, "made where no context is"
        self.before("Stream")
        return _Stream()

    def mem_alloc(self, nbytes: int) -> _Memory:
        self.before("mem_alloc")
        memory = _Memory(self, self.stack[-1].ordinal, nbytes)
        self.memories[int(memory)] = memory
        return memory

    def module_from_buffer(self, code: bytes) -> None:
        """There is no code: for tests in which it is refused."""
        self.before("module_from_buffer")

    def owner(self, address: int) -> int:
        """The GPU whose memory it is; -1: the host's."""
        for memory in self.memories.values():
            if int(memory) <= address < int(memory) + memory.nbytes:
                return memory.ordinal
        return -1

    def memcpy_htod(self, to: object, host: Any) -> None:
        self.memcpy_htod_async(int(to), host, None)  # type: ignore[call-overload]

    def memcpy_dtoh(self, host: Any, from_: object) -> None:
        self.memcpy_dtoh_async(host, int(from_), None)  # type: ignore[call-overload]

    def memcpy_htod_async(self, to: int, host: Any, stream: object) -> None:
        self.before("memcpy_htod")
        data = bytes(host)
        ctypes.memmove(to, data, len(data))

    def memcpy_dtoh_async(self, host: Any, from_: int, stream: object) -> None:
        self.before("memcpy_dtoh")
        host[:] = ctypes.string_at(from_, len(host))

    def memcpy_dtod_async(self, to: int, from_: int, nbytes: int, stream: object) -> None:
        self.before("memcpy_dtod")
        ctypes.memmove(to, from_, nbytes)

    def memcpy_peer(self, to: object, from_: object, nbytes: int, mine: _Context, theirs: _Context) -> None:
        self.copy_peer(int(to), mine.handle, int(from_), theirs.handle, nbytes, 0)  # type: ignore[call-overload]

    def copy_peer(
        self, to: int, to_context: int, from_: int, from_context: int, nbytes: int, stream: int
    ) -> None:
        """In place of ``cuda_driver.copy_peer``."""
        self.before("memcpy_peer")
        data = bytearray(ctypes.string_at(from_, nbytes))
        pair = (self.owner(to), self.owner(from_))
        if (pair in self.enabled and pair in self.damaged) or pair in self.broken:
            data[nbytes // 2] ^= 1
        ctypes.memmove(to, bytes(data), nbytes)

    def copy_pitched(
        self, to: tuple[int, int], from_: tuple[int, int], nbytes: int, count: int, stream: int
    ) -> None:
        """In place of ``cuda_driver.copy_pitched``."""
        self.before("memcpy_2d")
        pair = (self.owner(to[0]), self.owner(from_[0]))
        assert pair[0] == pair[1] or -1 in pair or pair in self.enabled, "rows of a GPU that is not mapped"
        for row in range(count):
            ctypes.memmove(to[0] + row * to[1], from_[0] + row * from_[1], nbytes)

    def fetcher(self, name: str) -> _Fetcher:
        """In place of ``CudaPrograms.fetcher``: what brings runs of another GPU."""
        assert name == "sdi_fetch_1"
        return _Fetcher(self)

    def fetch(self, to: int, from_: int, nbytes: int, *levels: int) -> None:
        """What that kernel does."""
        self.before("fetch")
        assert (self.owner(to), self.owner(from_)) in self.enabled, "memory of a GPU that is not mapped"
        for number in itertools.product(*map(range, levels[3:])):
            at = sum(times * stride for times, stride in zip(number, levels[:3], strict=True))
            ctypes.memmove(to + at, from_ + at, nbytes)

    def copy_region(self, to: Region, from_: Region, stream: int) -> None:
        """In place of ``cuda_driver.copy_region``."""
        self.before("memcpy_region")
        assert self.owner(to.base) == self.owner(from_.base), "regions of two GPUs"
        for here, there in zip(to.runs(), from_.runs(), strict=True):
            ctypes.memmove(here.start, there.start, to.nbytes)

    def memset_d8_async(self, to: int, value: int, count: int, stream: object) -> None:
        self._set(to, value.to_bytes(1, "little") * count)

    def memset_d16_async(self, to: int, value: int, count: int, stream: object) -> None:
        self._set(to, value.to_bytes(2, "little") * count)

    def memset_d32_async(self, to: int, value: int, count: int, stream: object) -> None:
        self._set(to, value.to_bytes(4, "little") * count)

    def memset_d2d32_async(
        self, to: int, pitch: int, value: int, width: int, height: int, stream: object
    ) -> None:
        for row in range(height):
            self._set(to + row * pitch, value.to_bytes(4, "little") * width)

    def _set(self, to: int, data: bytes) -> None:
        self.before("memset")
        ctypes.memmove(to, data, len(data))

    # What ``cuda_driver.quick()`` has.

    def cuMemGetInfo_v2(self, free: object, total: object) -> int:  # noqa: N802
        return 700 if self.is_dead else 0

    def cuDeviceGetAttribute(self, found: ctypes.c_int, attribute: int, ordinal: int) -> int:  # noqa: N802
        found.value = 1
        return 0

    def cuStreamWriteValue32_v2(self, stream: int, at: int, number: int, flags: int) -> int:  # noqa: N802
        self.before("write_value")
        ctypes.c_uint32.from_address(at).value = number
        return 0

    def cuStreamWaitValue32_v2(self, stream: int, at: int, number: int, flags: int) -> int:  # noqa: N802
        self.before("wait_value")
        self.waited.append(ctypes.c_uint32.from_address(at).value == number)
        self.awaited.append(number)
        return 0

    def cuCtxSetCurrent(self, handle: int) -> int:  # noqa: N802
        self.current = handle
        return 0


class _Fetcher:
    def __init__(self, driver: StandIn) -> None:
        self._driver = driver

    def starter(
        self, grid: object, block: object, parameters: bytes, shared_nbytes: int, stream: object
    ) -> Callable[[], None]:
        return lambda: self._driver.fetch(*struct.unpack("<9Q", parameters))


class _Context:
    def __init__(self, driver: StandIn, ordinal: int) -> None:
        self._driver, self.ordinal, self.handle = driver, ordinal, 1000 + ordinal

    def push(self) -> None:
        self._driver.stack.append(self)


class _Gpu:
    def __init__(self, driver: StandIn, ordinal: int) -> None:
        self._driver, self._ordinal = driver, ordinal

    def retain_primary_context(self) -> _Context:
        self._driver.before("retain_primary_context")
        return self._driver.contexts[self._ordinal]

    def can_access_peer(self, other: _Gpu) -> bool:
        return (self._ordinal, other._ordinal) not in self._driver.unlinked


class _Memory:
    def __init__(self, driver: StandIn, ordinal: int, nbytes: int) -> None:
        self._driver, self.ordinal, self.nbytes = driver, ordinal, nbytes
        self._bytes = ctypes.create_string_buffer(nbytes)

    def __int__(self) -> int:
        return ctypes.addressof(self._bytes)

    def free(self) -> None:
        assert self._driver.stack[-1].ordinal == self.ordinal, "freed where its context is not"
        del self._driver.memories[int(self)]


class _Stream:
    handle = 1

    def synchronize(self) -> None:
        """All before it has happened."""

    def wait_for_event(self, event: _Event) -> None:
        """All before it has happened."""


class _Event:
    def __init__(self, driver: StandIn) -> None:
        self._driver, self._at_ns = driver, 0

    def record(self, stream: object) -> None:
        self._driver.before("record")
        self._at_ns = time.monotonic_ns()

    def synchronize(self) -> None:
        self._driver.before("synchronize")

    def query(self) -> bool:
        self._driver.before("query")
        return True

    def time_till(self, other: _Event) -> float:
        return (other._at_ns - self._at_ns) / 1e6
