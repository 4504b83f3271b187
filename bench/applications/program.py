"""What all applications share: a context with a queue, a clock, and how results are judged.

An application is a module with ``TITLE``, ``SOURCE`` (OpenCL C), ``SIZES`` (name of the size → its value),
``inputs(size)``, ``run(session, size, inputs)`` and ``check(size, inputs, outputs)``; see ``Application``.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyopencl as cl

Array: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = dict[str, Array]
Argument: TypeAlias = "cl.Buffer | cl.LocalMemory | np.generic | Array"

_FLAGS = cl.mem_flags


class WrongResult(Exception):
    """An application's result is not what it should be; the text says where."""


class Application(Protocol):
    """What the modules of this package provide.  ``Any`` is the module's own type of sizes."""

    TITLE: str
    SOURCE: str
    SIZES: Mapping[str, Any]

    def inputs(self, size: Any) -> Arrays:
        """The same arrays in every run."""

    def run(self, session: Session, size: Any, inputs: Arrays) -> Arrays:
        """From the first buffer to the last result on the host."""

    def check(self, size: Any, inputs: Arrays, outputs: Arrays) -> None:
        """Compare with a computation on the host, of some elements where all would take too long.

        Raises WrongResult.
        """


def load(name: str) -> Application:
    """The application in module ``name``."""
    return cast(Application, importlib.import_module(f"bench.applications.{name}"))


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch.  ``arguments``: the number of a buffer, the bytes of a scalar, or None for local memory."""

    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    arguments: tuple[int | bytes | None, ...]


@dataclass(slots=True)
class Trace:
    """What one run did.  ``buffers``: their sizes in bytes, by number.  ``launches``: with their events."""

    buffers: list[int] = field(default_factory=list)
    launches: list[tuple[Launch, cl.Event]] = field(default_factory=list)
    start_ns: int = 0
    stop_ns: int = 0

    def kernel_ns(self) -> dict[str, int]:
        """Time from start to end of each kernel's launches, added up, in ns."""
        found: dict[str, int] = {}
        for launch, event in self.launches:
            found[launch.kernel] = found.get(launch.kernel, 0) + event.profile.end - event.profile.start
        return found


class Session:
    """One device, one queue that takes times, one built program; what a run makes is released after it."""

    def __init__(self, device: cl.Device, source: str) -> None:
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        start = time.perf_counter()
        self.program = cl.Program(self.context, source).build()
        self.build_s = time.perf_counter() - start
        self._kernels: dict[str, cl.Kernel] = {}
        self._buffers: list[cl.Buffer] = []
        self._trace = Trace()

    def run(self, application: Application, size: Any, inputs: Arrays) -> tuple[Arrays, Trace]:
        """One run, timed on the host's clock from the first buffer to the last result."""
        self._trace = trace = Trace()
        trace.start_ns = time.perf_counter_ns()
        outputs = application.run(self, size, inputs)
        self.queue.finish()
        trace.stop_ns = time.perf_counter_ns()
        for buffer in self._buffers:
            buffer.release()
        self._buffers.clear()
        return outputs, trace

    # -- for applications ------------------------------------------------------------------------------

    def upload(self, array: Array) -> cl.Buffer:
        """A buffer for reading and writing with the bytes of ``array``."""
        buffer = self.empty(array.nbytes)
        cl.enqueue_copy(self.queue, buffer, array, is_blocking=False)
        return buffer

    def empty(self, nbytes: int) -> cl.Buffer:
        """A buffer of undefined bytes."""
        buffer = cl.Buffer(self.context, _FLAGS.READ_WRITE, nbytes)
        self._buffers.append(buffer)
        self._trace.buffers.append(nbytes)
        return buffer

    def zeros(self, nbytes: int) -> cl.Buffer:
        """A buffer of zero bytes."""
        buffer = self.empty(nbytes)
        cl.enqueue_fill_buffer(self.queue, buffer, np.uint8(0), 0, nbytes)
        return buffer

    def launch(
        self, kernel: str, global_size: Sequence[int], local_size: Sequence[int], *arguments: Argument
    ) -> None:
        """Enqueue a kernel."""
        found = self._kernels.get(kernel)
        if found is None:
            found = self._kernels[kernel] = cl.Kernel(self.program, kernel)
        found.set_args(*arguments)
        event = cl.enqueue_nd_range_kernel(self.queue, found, tuple(global_size), tuple(local_size))
        numbers = {buffer.int_ptr: number for number, buffer in enumerate(self._buffers)}
        noted = tuple(
            numbers[a.int_ptr]
            if isinstance(a, cl.Buffer)
            else None
            if isinstance(a, cl.LocalMemory)
            else a.tobytes()
            for a in arguments
        )
        self._trace.launches.append((Launch(kernel, tuple(global_size), tuple(local_size), noted), event))

    def download(self, buffer: cl.Buffer, shape: int | tuple[int, ...], dtype: type) -> Array:
        """The first elements of a buffer; waits for them."""
        array: Array = np.empty(shape, dtype)
        cl.enqueue_copy(self.queue, array, buffer, is_blocking=True)
        return array


def sample(total: int, count: int) -> Array:
    """``min(total, count)`` different numbers below ``total``, sorted, always the same, ends included."""
    if total <= count:
        return np.arange(total)
    inner = np.random.default_rng(total).choice(total - 2, count - 2, replace=False) + 1
    return np.sort(np.concatenate([[0], inner, [total - 1]]))


def expect_close(what: str, found: Array, wanted: Array, tolerance: float, scale: float = 0.0) -> None:
    """Every element within ``tolerance`` times the larger of ``scale`` and its own wanted magnitude.

    Raises WrongResult with the worst element.
    """
    if found.shape != wanted.shape:
        raise WrongResult(f"{what}: shape {found.shape} instead of {wanted.shape}")
    wide = found.astype(np.float64)
    error = np.abs(wide - wanted) / np.maximum(np.abs(wanted), scale or np.finfo(np.float64).tiny)
    error = np.where(np.isfinite(wide), error, np.inf)
    error = np.where(wide == wanted, 0.0, error)
    worst = int(np.argmax(error))
    if error.flat[worst] > tolerance:
        raise WrongResult(
            f"{what}: element {worst} is {found.flat[worst]}, not {wanted.flat[worst]} "
            f"({np.count_nonzero(error > tolerance)} of {error.size} are off by more than {tolerance:g})"
        )
