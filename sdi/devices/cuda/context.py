"""Where a CUDA member's driver objects live: the GPU's primary context, kept for the life of the process.

One primary context per GPU, made when first needed.  It becomes current on a thread when an operation needs
it there and stays so (``cuCtxSetCurrent``); pycuda's own stack, which must be empty when a thread ends, is
used only around the making and freeing of its objects.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Final, Protocol, cast

from sdi.dataclass import dataclass, field
from sdi.devices.cuda import driver as cuda_driver
from sdi.devices.cuda.channel import Event, Stream
from sdi.devices.cuda.driver import drv
from sdi.devices.cuda.module import CudaModule
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.errors import DeviceFailed, DeviceLost
from sdi.wire.cuda import CU_STREAM_NON_BLOCKING


class RawContext(Protocol):
    """pycuda's context."""

    handle: int

    def push(self) -> None: ...


class _Thread(threading.local):
    """``context``: the one that is current on this thread, as a handle."""

    context: int = 0


_thread = _Thread()


_made: list[int] = []
"""The GPUs of which this process has the context."""


@functools.cache
def _primary_context(ordinal: int) -> RawContext:
    """Kept for as long as the process lives: what was made in it may be destroyed late."""
    made: RawContext = drv.Device(ordinal).retain_primary_context()
    _made.append(ordinal)
    return made


@dataclass(slots=True, eq=False)
class Kept:
    """What members on one GPU are done with, for as long as the process lives, like its context.

    pycuda frees an object only where its context is on the thread's stack, and whoever keeps a ticket, an
    exception or a kernel may let the last reference go anywhere.  ``streams`` are used again; ``modules``
    are freed with the next build, ``textures``, by their handles, when the next ones are made.
    """

    streams: list[Stream] = field(default_factory=list)
    modules: list[CudaModule] = field(default_factory=list)
    textures: list[int] = field(default_factory=list)

    def unload(self) -> None:
        """Unload what is not used any more.  The context is current."""
        while self.modules:
            self.modules.pop().unload()
        self.unload_textures()

    def unload_textures(self) -> None:
        """Of what is not used any more, texture objects alone."""
        while self.textures:
            cuda_driver.quick().cuTexObjectDestroy(self.textures.pop())


@functools.cache
def _kept(ordinal: int) -> Kept:
    made = Kept()
    atexit.register(_free_kept, ordinal, made)
    return made


def _free_kept(ordinal: int, kept: Kept) -> None:
    """Before the interpreter goes, when destructors would find no context."""
    if not (kept.streams or kept.modules or kept.textures):
        return
    with contextlib.suppress(drv.Error):  # of a lost GPU, which has nothing left to free
        _primary_context(ordinal).push()
        try:
            kept.streams.clear()
            kept.unload()
        finally:
            drv.Context.pop()


def forget_current() -> None:
    """Another context may be current on this thread now."""
    _thread.context = 0


class CudaContext:
    """A member's way to its GPU's context.  ``handle``: 0 until it is first needed.  Any thread."""

    def __init__(self, ordinal: int, name: str) -> None:
        self.handle = 0
        self.kept: Final = _kept(ordinal)
        self._ordinal: Final = ordinal
        self._name: Final = name
        self._opening: Final = threading.Lock()
        self._made: RawContext | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was needed so far."""
        return self._made is not None

    def enter(self) -> None:
        """Make it current on this thread."""
        handle = self.handle
        if _thread.context != handle or not handle:
            if not handle:
                self.open()
                handle = self.handle
            cuda_driver.quick().cuCtxSetCurrent(handle)
            _thread.context = handle

    def open(self) -> RawContext:
        """pycuda's object.  Raises DeviceFailed."""
        with self._opening:
            if self._made is None:
                try:
                    context = _primary_context(self._ordinal)
                except drv.Error as cause:
                    raise DeviceFailed(self._name, str(cause)) from cause
                self.handle = context.handle
                self._made = context
            return self._made

    @contextlib.contextmanager
    def pushed(self) -> Iterator[None]:
        """It is on pycuda's stack: its objects are made and freed only so."""
        self.open().push()
        try:
            yield
        finally:
            drv.Context.pop()

    def is_dead(self) -> bool:
        """Whether the driver refuses everything in it, as it does after a fault."""
        if self._made is None:
            return False
        try:
            self.enter()
            cuda_driver.memory_info()
        except DeviceFailed:
            return True
        return False

    def failed(self, cause: Exception) -> DeviceFailed:
        """``cause``, as the rest of the program knows it."""
        kind = DeviceLost if self.is_dead() else DeviceFailed
        return kind(self._name, str(cause))

    def new_event(self, is_timed: bool) -> Event:
        """An event, with or without timing."""
        flags = drv.event_flags.DEFAULT if is_timed else drv.event_flags.DISABLE_TIMING
        with self.pushed():
            return cast(Event, drv.Event(flags))

    def new_stream(self) -> Stream:
        """A stream that a member does not use any more, or a new one."""
        with self.pushed():
            try:
                return self.kept.streams.pop()
            except IndexError:
                return cast(Stream, drv.Stream(CU_STREAM_NON_BLOCKING))


def use_page_locks() -> None:
    """Have the CUDA driver lock host pages."""
    PAGE_LOCKS.use((_register, _unregister))


def _register(address: int, nbytes: int) -> None:
    """Lock host pages for all contexts.  Raises DeviceFailed."""
    portable = 1
    with _any_context():
        status = cuda_driver.slow().cuMemHostRegister_v2(address, nbytes, portable)
    cuda_driver.check(status, f"cuMemHostRegister of {nbytes} bytes")


def _unregister(address: int) -> None:
    with _any_context():
        cuda_driver.slow().cuMemHostUnregister(address)


@contextlib.contextmanager
def _any_context() -> Iterator[None]:
    drv.init()
    _primary_context(_made[0] if _made else 0).push()
    try:
        yield
    finally:
        drv.Context.pop()
