"""Programs of a member on an OpenCL driver: built, their kernels bound to arguments, and enqueued."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol, cast

import numpy as np
import pyopencl as cl
from pyopencl import _cl

from sdi.clc.preprocess.probe import KERNEL, QUOTED_OPTION, ROOM_NBYTES, Answers, answers, probe_text
from sdi.dataclass import dataclass, field
from sdi.devices.base import KernelFacts, LocalBytes, SubGroupQuery
from sdi.devices.handles import DeviceProgram
from sdi.devices.image import Sampler
from sdi.devices.opencl.building import build, new_kernel
from sdi.devices.opencl.context import DriverContext
from sdi.devices.opencl.driver_program import DriverProgram, ProgramKey
from sdi.devices.opencl.sub_groups import answered
from sdi.errors import BuildError, ClError, DeviceFailed, Status

Given = bytes | LocalBytes | Sampler | cl.Buffer | cl.Image | None
"""An argument: as ``BoundArgument``, with the driver's objects."""
_Object = cl.Buffer | cl.Image | cl.Sampler | cl.LocalMemory | None


class _TakesValues(Protocol):
    """Kernel's method for values in bulk, which pyopencl's stub lacks; ``set_arg`` takes 6 us for bytes."""

    def _set_arg_buf_multi(self, values: tuple[int | bytes, ...]) -> None: ...


class _TakesObjects(Protocol):
    def set_arg(self, index: int, value: _Object) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Arguments:
    """All arguments of a kernel.  ``values``: index and bytes in turn, as the driver call wants them."""

    values: tuple[int | bytes, ...]
    objects: tuple[tuple[int, _Object], ...]

    def on_own_kernel(self, like: cl.Kernel) -> cl.Kernel:
        """They are set on another kernel object than ``like``, of the same function."""
        program = cast(cl.Program, like.get_info(cl.kernel_info.PROGRAM))
        own = new_kernel(program, str(like.get_info(cl.kernel_info.FUNCTION_NAME)))
        self.set_on(own)
        return own

    def set_on(self, kernel: cl.Kernel) -> None:
        cast(_TakesValues, kernel)._set_arg_buf_multi(self.values)
        for index, value in self.objects:
            cast(_TakesObjects, kernel).set_arg(index, value)


@dataclass(slots=True, eq=False)
class _Kernel:
    """The driver's kernel, shared by all bindings of it: making one costs 0.2 ms, setting arguments
    about 1 us.

    ``lock``: setting arguments and enqueueing are one step (other threads issue what was held back); neither
    blocks.  ``arguments``: those that are set.
    """

    handle: cl.Kernel
    lock: threading.Lock = field(default_factory=threading.Lock)
    arguments: _Arguments | None = None


@dataclass(slots=True, eq=False)
class OpenClMemberProgram(DeviceProgram):
    """What a member has of a program that members of its device share."""

    shared: DriverProgram
    kernels: dict[str, _Kernel] = field(default_factory=dict)

    def keep(self) -> None:
        self.shared.want_binary()


@dataclass(frozen=True, slots=True, eq=False)
class OpenClBoundKernel:
    """``key``: what drivers may share between members."""

    kernel: _Kernel
    arguments: _Arguments
    key: tuple[ProgramKey, str]


class OpenCLPrograms:
    """What one member, ``name``, builds and binds in its context.  Building blocks, and so does the first
    use of a program that was put off (``driver_program``); the rest is quick.

    ``compiler``: what tells the device's compiler and its limits from others.
    """

    def __init__(
        self, shared: DriverContext, device: cl.Device, number: int, name: str, compiler: str
    ) -> None:
        self._shared: Final = shared
        self._device: Final = device
        self._number: Final = number
        self._name: Final = name
        self._compiler: Final = compiler
        self._samplers: Final[dict[Sampler, cl.Sampler]] = {}

    def build(self, text: str, options: Sequence[str]) -> OpenClMemberProgram:
        """Blocks.  Raises BuildError."""
        key = (text, " ".join(options))
        new = partial(DriverProgram, key, self._compiler, partial(self._built, *key))
        return OpenClMemberProgram(self._shared.program(self._number, key, new))

    def _built(self, text: str, options: str, binary: bytes | None = None) -> _cl._Program:
        # Not cl.Program: it adds include paths and warns about every non-empty log.
        handle = None
        try:
            if binary is None:
                handle = _cl._Program(self._shared.handle, text)
            else:
                handle = _cl._Program(self._shared.handle, [self._device], [binary])
            build(handle, text, options)
        except cl.Error as cause:
            log = ""
            if handle is not None:
                log = str(handle.get_build_info(self._device, cl.program_build_info.LOG) or "")
            raise BuildError(log or str(cause)) from cause
        return handle

    def answers(self, questions: Sequence[str], options: Sequence[str]) -> Answers:
        """See ``Ask``.  On a queue of its own: members' queues belong to another thread."""
        text = probe_text(questions)
        try:
            try:
                program = self._built(text, " ".join([*options, QUOTED_OPTION, "-w"]))
            except BuildError:  # perhaps of the strange option, which most programs do without
                program = self._built(text, " ".join([*options, "-w"]))
            context = self._shared.handle
            queue = cl.CommandQueue(context, self._device)
            said = np.zeros(ROOM_NBYTES, np.uint8)
            told = cl.Buffer(context, cl.mem_flags.WRITE_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=said)
            kernel = new_kernel(program, KERNEL)
            kernel.set_arg(0, told)
            cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
            cl.enqueue_copy(queue, said, told)
        except cl.Error as cause:
            raise DeviceFailed(self._name, str(cause)) from cause
        try:
            return answers(questions, said.tobytes())
        except ValueError as cause:
            raise BuildError(f"error: {cause}\n") from cause

    def kernel_facts(
        self, program: OpenClMemberProgram, kernel: str, asked_too: SubGroupQuery | None
    ) -> KernelFacts:
        """Raises ClError, DeviceFailed."""
        known = program.shared.facts.get(kernel)
        if known is not None and asked_too is None:
            return known
        handle = self._kernel(program, kernel).handle
        asked = cl.kernel_work_group_info
        device = self._device
        try:
            found = KernelFacts(
                work_group_size=handle.get_work_group_info(asked.WORK_GROUP_SIZE, device),
                preferred_multiple=handle.get_work_group_info(
                    asked.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device
                ),
                local_mem_nbytes=handle.get_work_group_info(asked.LOCAL_MEM_SIZE, device),
                private_mem_nbytes=handle.get_work_group_info(asked.PRIVATE_MEM_SIZE, device),
                sub_groups=answered(handle, device, self._name, asked_too) if asked_too else (),
            )
        except cl.Error as cause:
            raise DeviceFailed(self._name, str(cause)) from cause
        if asked_too is None:
            program.shared.learn(kernel, found)
        return found

    def bind(
        self, program: OpenClMemberProgram, kernel: str, arguments: Sequence[Given]
    ) -> OpenClBoundKernel:
        """Raises ClError(INVALID_KERNEL_NAME), and DeviceFailed where what was put off can't be built."""
        values: list[int | bytes] = []
        objects: list[tuple[int, _Object]] = []
        for index, argument in enumerate(arguments):
            match argument:
                case bytes():
                    values += (index, argument)
                case LocalBytes():
                    objects.append((index, cl.LocalMemory(argument.nbytes)))
                case Sampler():
                    objects.append((index, self._sampler(argument)))
                case _:
                    objects.append((index, argument))
        program.shared.use()
        arguments_set = _Arguments(tuple(values), tuple(objects))
        return OpenClBoundKernel(self._kernel(program, kernel), arguments_set, (program.shared.key, kernel))

    def _sampler(self, modes: Sampler) -> cl.Sampler:
        found = self._samplers.get(modes)
        if found is None:
            found = cl.Sampler(self._shared.handle, modes.normalized, modes.addressing, modes.filter)
            self._samplers[modes] = found
        return found

    def _kernel(self, program: OpenClMemberProgram, name: str) -> _Kernel:
        kernel = program.kernels.get(name)
        if kernel is None:
            try:
                handle = new_kernel(program.shared.handle, name)
            except BuildError as cause:
                raise DeviceFailed(self._name, f"a program builds no more: {cause.log}") from cause
            except cl.Error as cause:
                raise ClError(
                    Status.INVALID_KERNEL_NAME, f"{self._name}: kernel {name!r}: {cause}"
                ) from cause
            kernel = program.kernels.setdefault(name, _Kernel(handle))
        return kernel


def launch(
    queue: cl.CommandQueue, bound: OpenClBoundKernel, groups: tuple[int, ...], local_size: tuple[int, ...]
) -> cl.Event:
    """Set the arguments, if others are set, and enqueue."""
    kernel, arguments = bound.kernel, bound.arguments
    with kernel.lock:
        if kernel.arguments is not arguments:
            kernel.arguments = None
            arguments.set_on(kernel.handle)
            kernel.arguments = arguments
        return cl.enqueue_nd_range_kernel(
            queue, kernel.handle, groups, local_size, None, None, g_times_l=True
        )
