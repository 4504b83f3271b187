"""Streams and events on native threads, for CUDA lanes without a GPU: ``native_streams.c`` in Python."""

from __future__ import annotations

import atexit
import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from sdi.devices.cuda.channel import Event

_RAN_MAX = 1 << 20


@functools.cache
def _library(quick: bool) -> ctypes.CDLL:
    """``quick``: calls keep the GIL, as the driver's that return at once do."""
    lib = (ctypes.PyDLL if quick else ctypes.CDLL)(_compiled())
    handle = ctypes.c_void_p
    lib.stream_new.restype = lib.event_new.restype = handle
    lib.event_at_ns.restype = ctypes.c_int64
    lib.stream_run.argtypes = [handle, ctypes.c_int, ctypes.c_int64]
    for name in ("stream_fail", "event_query", "event_synchronize", "event_at_ns", "event_release"):
        getattr(lib, name).argtypes = [handle]
    lib.stream_wait.argtypes = lib.stream_hold.argtypes = lib.event_record.argtypes = [handle, handle]
    lib.take_ran.argtypes = [ctypes.POINTER(ctypes.c_int), ctypes.c_int]
    return lib


@functools.cache
def _compiled() -> str:
    folder = Path(tempfile.mkdtemp(prefix="sdi-streams-"))
    atexit.register(shutil.rmtree, folder)
    library = folder / "native_streams.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-pthread", "-Wall", "-Wextra", "-o", str(library), str(source)],
        check=True,
    )
    return str(library)


class StreamFailed(Exception):
    """What the driver says of all that comes after a fault."""


class NativeEvent:
    """Counts what it was asked; ``is_timed``: whether it may be asked for times."""

    def __init__(self, is_timed: bool) -> None:
        self.is_timed = is_timed
        self.handle: int = _library(True).event_new()

    def record(self, stream: object) -> None:
        assert isinstance(stream, NativeStream)
        _library(True).event_record(self.handle, stream.handle)

    def synchronize(self) -> None:
        if _library(False).event_synchronize(self.handle) < 0:
            raise StreamFailed("the stream failed")

    def query(self) -> bool:
        answer: int = _library(True).event_query(self.handle)
        if answer < 0:
            raise StreamFailed("the stream failed")
        return answer > 0

    def time_till(self, other: Event) -> float:
        assert isinstance(other, NativeEvent) and self.is_timed and other.is_timed
        return float(other.at_ns() - self.at_ns()) / 1e6

    def at_ns(self) -> int:
        """When the stream came to it."""
        at: int = _library(True).event_at_ns(self.handle)
        return at


class NativeGate:
    """What holds a stream up until it is released."""

    def __init__(self) -> None:
        self.handle: int = _library(True).event_new()

    def release(self) -> None:
        _library(True).event_release(self.handle)


class NativeStream:
    """``run``: an operation that takes so long and leaves its tag in what ``ran`` returns."""

    def __init__(self) -> None:
        self.handle: int = _library(True).stream_new()
        self.waits = 0

    def run(self, tag: int, ns: int = 0) -> None:
        _library(True).stream_run(self.handle, tag, ns)

    def hold(self, gate: NativeGate) -> None:
        _library(True).stream_hold(self.handle, gate.handle)

    def fail(self) -> None:
        _library(True).stream_fail(self.handle)

    def wait_for_event(self, event: Event) -> None:
        assert isinstance(event, NativeEvent)
        self.waits += 1
        _library(True).stream_wait(self.handle, event.handle)


class NativeDriver:
    """``made``: how many events the lane asked for; ``timed``: those with timing."""

    def __init__(self) -> None:
        self.made = 0
        self.timed: list[NativeEvent] = []

    def enter(self) -> None:
        pass

    def new_event(self, is_timed: bool) -> Event:
        self.made += 1
        event = NativeEvent(is_timed)
        if is_timed:
            self.timed.append(event)
        return event


def ran() -> list[int]:
    """Tags of what ran on all streams since the last call, in the order of its ends."""
    tags = (ctypes.c_int * _RAN_MAX)()
    return list(tags[: _library(True).take_ran(tags, _RAN_MAX)])
