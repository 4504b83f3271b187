"""Programs of a CUDA member: translated, compiled or from the cache, loaded, bound, ready to launch."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Final, Protocol

from sdi.clc.cuda.translate import CudaKernel, CudaProgram, nvrtc_options
from sdi.dataclass import dataclass, field
from sdi.devices.base import BoundArgument, KernelFacts
from sdi.devices.comparing import KERNELS_TEXT
from sdi.devices.cuda.channel import Stream
from sdi.devices.cuda.compare import DIFF_TEXT
from sdi.devices.cuda.context import CudaContext
from sdi.devices.cuda.driver import drv
from sdi.devices.cuda.fetch import FETCH_TEXT
from sdi.devices.cuda.gpu import RESERVED_NBYTES
from sdi.devices.cuda.launch import (
    MAX_GRID_X,
    Offsets,
    filtered_images,
    offsets_of,
    packed,
    parameter_block,
    places_of,
)
from sdi.devices.cuda.module import CudaFunction, CudaModule
from sdi.devices.cuda.nvrtc import cached
from sdi.devices.cuda.printing import PrintBuffer
from sdi.devices.cuda.spread import Units, spread_nbytes
from sdi.devices.cuda.textures import Textures
from sdi.devices.cuda.translated import compiled, translated
from sdi.devices.handles import DeviceProgram
from sdi.devices.native import NativeLaunch
from sdi.errors import BuildError, ClError, DeviceFailed, Status
from sdi.ndrange import Int3
from sdi.wire.cuda import CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, SHARED_NBYTES

_log = logging.getLogger(__name__)


class Module(Protocol):
    """Loaded code of the comparers."""

    def get_function(self, name: str) -> LaunchableFunction: ...


class LaunchableFunction(Protocol):
    """A kernel of them."""

    def _launch_kernel(
        self, grid: Int3, block: Int3, parameters: bytes, shared_nbytes: int, stream: object
    ) -> None: ...


@dataclass(slots=True, eq=False, weakref_slot=True)
class CudaMemberProgram(DeviceProgram):
    """``too_large``: local memory of kernels that have too much, by symbol.

    ``flat``: the same, compiled for grids that are launched in x alone, once one was needed.
    """

    translated: CudaProgram
    options: tuple[str, ...]
    module: CudaModule
    kernels: dict[str, CudaKernel]
    too_large: dict[str, int]
    functions: dict[str, CudaFunction] = field(default_factory=dict)
    others: dict[tuple[bool, bool], CudaMemberProgram] = field(default_factory=dict)


Start = Callable[[], None]


@dataclass(slots=True, eq=False)
class CudaBoundKernel:
    """``parameters``: the block, less the grid at its end; ``offsets``: of groups and of global ids.

    ``prints``: it may print; then a launch blocks.  ``error``: why it can't be launched.  ``last``: groups,
    local size, dimensions and start of the last launch.  ``textures``: those that the parameters name;
    ``filters``: there are none, and it has to filter images itself.
    """

    program: CudaMemberProgram
    kernel: str
    parameters: bytes
    shared_nbytes: int
    offsets: Offsets
    prints: bool
    error: Exception | None = None
    last: tuple[Int3, Int3, int, Start] | None = None
    textures: object = None
    filters: bool = False


class CudaPrograms:
    """What one member, ``name``, has built.  Building blocks; the rest is quick."""

    def __init__(self, context: CudaContext, capability: tuple[int, int], name: str) -> None:
        self._context: Final = context
        self._capability: Final = capability
        self._name: Final = name
        self._differ: Module | None = None
        self._comparers: Final[dict[int, LaunchableFunction]] = {}
        self._applier: CudaMemberProgram | None = None
        self._fetchers: Final[dict[str, CudaFunction | None]] = {}
        self._unit: Units | None = None
        self._printed: Final = PrintBuffer(context, name)
        self._textures: Final = Textures(context, name)

    def close(self) -> None:
        """Forget what was built for the member itself.  The context is on pycuda's stack."""
        self._differ = None
        self._comparers.clear()
        self._fetchers.clear()
        self._applier = None
        self._printed.close()

    def build(self, text: str, options: Sequence[str]) -> CudaMemberProgram:
        """``text``: OpenCL C.  Raises BuildError."""
        return self._load(translated(text, tuple(options)), tuple(options))

    def _compiled_for(self, program: CudaMemberProgram, is_flat: bool, filters: bool) -> CudaMemberProgram:
        """Another kind of the same, see ``nvrtc_options``.  Raises BuildError, DeviceFailed.

        Rare enough to compile when the first such launch comes, which then takes its time.
        """
        if not (is_flat or filters):
            return program
        found = program.others.get((is_flat, filters))
        if found is None:
            found = self._load(program.translated, program.options, is_flat, filters)
            program.others[is_flat, filters] = found
        return found

    def _load(
        self,
        translated: CudaProgram,
        options: tuple[str, ...],
        is_flat: bool = False,
        filters: bool = False,
    ) -> CudaMemberProgram:
        words = nvrtc_options(options, translated.contracts, is_flat, filters)
        code, too_large = compiled(translated, words, self._capability)
        try:
            with self._context.pushed():
                self._context.kept.unload()
                module = CudaModule(code)
                if translated.formats:
                    self._printed.serve(module)
        except (drv.Error, DeviceFailed) as cause:
            if self._context.is_dead():
                raise self._context.failed(cause) from cause
            raise BuildError(f"error: {cause}\n") from cause
        kernels = {kernel.name: kernel for kernel in translated.kernels}
        program = CudaMemberProgram(translated, options, module, kernels, too_large)
        # A module is freed only while its context is on the stack of the thread that frees it.
        weakref.finalize(program, self._context.kept.modules.append, module).atexit = False
        return program

    def kernel_facts(self, program: CudaMemberProgram, kernel: str) -> KernelFacts:
        """Raises ClError, DeviceFailed."""
        function, of = self.function(program, kernel), drv.function_attribute
        try:
            with self._context.pushed():
                return KernelFacts(
                    work_group_size=function.get_attribute(of.MAX_THREADS_PER_BLOCK),
                    preferred_multiple=32,
                    local_mem_nbytes=program.too_large.get(
                        program.kernels[kernel].symbol, function.get_attribute(of.SHARED_SIZE_BYTES)
                    ),
                    private_mem_nbytes=function.get_attribute(of.LOCAL_SIZE_BYTES),
                )
        except (drv.Error, DeviceFailed) as cause:
            raise self._context.failed(cause) from cause

    def function(self, program: CudaMemberProgram, name: str) -> CudaFunction:
        """Raises ClError, DeviceFailed."""
        function = program.functions.get(name)
        if function is None:
            kernel = program.kernels.get(name)
            if kernel is None:
                what = f"{self._name}: the program has no kernel {name!r}"
                raise ClError(Status.INVALID_KERNEL_NAME, what)
            try:
                with self._context.pushed():
                    function = program.module.get_function(kernel.symbol)
            except (drv.Error, DeviceFailed) as cause:
                raise self._context.failed(cause) from cause
            program.functions[name] = function
        return function

    def bind(
        self, own: CudaMemberProgram, kernel: str, arguments: Sequence[BoundArgument]
    ) -> CudaBoundKernel:
        """Arguments that don't fit fail the launch."""
        self.function(own, kernel)
        filtered = filtered_images(own.kernels[kernel], arguments)
        textures = self._textures.find(arguments, filtered) if filtered else {}
        handles = {
            number: [each.handle if each is not None else 0 for each in some]
            for number, some in (textures or {}).items()
        }
        try:
            parameters, shared_nbytes = parameter_block(own.kernels[kernel], arguments, handles)
        except ValueError as cause:
            return CudaBoundKernel(own, kernel, b"", 0, offsets_of(own.kernels[kernel], ()), False, cause)
        offsets, prints = offsets_of(own.kernels[kernel], arguments), own.kernels[kernel].prints
        return CudaBoundKernel(
            own,
            kernel,
            parameters,
            shared_nbytes,
            offsets,
            prints,
            textures=textures,
            filters=textures is None,
        )

    def start_of(
        self, bound: CudaBoundKernel, stream: Stream, groups: Int3, local_size: Int3, work_dim: int
    ) -> Start:
        """What launches: all that does not change between launches of one shape is done here."""
        program, error = bound.program, bound.error
        grid, parameters = packed(bound.parameters, bound.offsets, groups, local_size, work_dim)
        if grid[0] > MAX_GRID_X:
            error = error or ValueError(f"{groups} work-groups are more than a grid can have")
        try:
            if error is None:
                program = self._compiled_for(program, grid != groups, bound.filters)
            function = self.function(program, bound.kernel)
            if bound.shared_nbytes > SHARED_NBYTES:
                with self._context.pushed():
                    limit = drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                    function.set_attribute(limit, bound.shared_nbytes)
        except (BuildError, DeviceFailed, drv.Error) as cause:
            error = error or cause
        if error is not None:
            return partial(_refuse, error)
        launch = function.starter(grid, local_size, parameters, bound.shared_nbytes, stream)
        if bound.prints:
            return partial(self._printed.run, launch, program.translated, bound.kernel, stream)
        return launch

    def native_launch(
        self, bound: CudaBoundKernel, groups: Int3, local_size: Int3, work_dim: int, others: bool
    ) -> NativeLaunch | None:
        """For the player; None for what it does not launch.  ``others``: kernels may run beside it."""
        program = bound.program
        grid, parameters = packed(bound.parameters, bound.offsets, groups, local_size, work_dim)
        if bound.error is not None or bound.prints or grid != groups:
            return None
        if bound.filters and (False, True) not in program.others:
            return None
        kernel = program.kernels[bound.kernel]
        function = self.function(program.others[False, True] if bound.filters else program, bound.kernel)
        spread = self._spread_nbytes(function, bound, prod(groups), prod(local_size)) if others else 0
        return NativeLaunch(
            function.handle,
            groups,
            local_size,
            work_dim,
            bound.shared_nbytes + spread,
            parameters,
            places_of(kernel),
            bound,
        )

    def _spread_nbytes(self, function: CudaFunction, bound: CudaBoundKernel, groups: int, items: int) -> int:
        """What it takes to have groups spread evenly; where the driver does not say, 0."""
        asked_nbytes = bound.shared_nbytes
        try:
            with self._context.pushed():
                local_nbytes = asked_nbytes + function.get_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
                return spread_nbytes(
                    self._units(),
                    groups,
                    items,
                    local_nbytes,
                    lambda more: function.fitting(items, asked_nbytes + more),
                )
        except (DeviceFailed, drv.Error) as cause:
            _log.info("%s: groups are not spread: %s", self._name, cause)
            return 0

    def _units(self) -> Units:
        if self._unit is None:
            device, of = drv.Context.get_device(), drv.device_attribute
            self._unit = Units(
                device.get_attribute(of.MULTIPROCESSOR_COUNT),
                device.get_attribute(of.MAX_THREADS_PER_MULTIPROCESSOR),
                device.get_attribute(of.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
                RESERVED_NBYTES,
                SHARED_NBYTES,
            )
        return self._unit

    def comparer(self, unit_nbytes: int) -> LaunchableFunction:
        """The kernel that compares units of this size; the first call compiles."""
        found = self._comparers.get(unit_nbytes)
        if found is None:
            with self._context.pushed():
                if self._differ is None:
                    words = nvrtc_options((), contracts=True)
                    code = cached(DIFF_TEXT, words, self._capability)
                    self._differ = drv.module_from_buffer(code)
                found = self._comparers[unit_nbytes] = self._differ.get_function(f"sdi_diff_{unit_nbytes}")
        return found

    def fetcher(self, name: str) -> CudaFunction | None:
        """A kernel of ``fetch.py``, which brings bytes of another GPU; the first call compiles.

        None where that fails, which is said once: the driver copies.
        """
        if name not in self._fetchers:
            try:
                code = cached(FETCH_TEXT, nvrtc_options((), contracts=True), self._capability)
                with self._context.pushed():
                    self._fetchers[name] = CudaModule(code).get_function(name)
            except (BuildError, DeviceFailed) as cause:
                _log.info("%s: the driver makes small copies: %s", self._name, cause)
                self._fetchers[name] = None
        return self._fetchers[name]

    def applier(self) -> CudaMemberProgram:
        """What takes over changes of others; the first call compiles.  Raises BuildError, DeviceFailed."""
        if self._applier is None:
            self._applier = self.build(KERNELS_TEXT, ())
        return self._applier


def _refuse(error: Exception) -> None:
    raise error
