"""Building, compiling and linking programs for all members: everything here blocks.

It runs on a build thread.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TypeVar

from sdi.clc.compile import compile_object, compile_source, compile_text
from sdi.clc.frontend.base_header import Language
from sdi.clc.frontend.objects import pack_objects, unpack_objects
from sdi.clc.model import CompiledProgram, KernelModel
from sdi.clc.preprocess.files_seen import FilesSeen
from sdi.clc.preprocess.probe import Dialect
from sdi.dataclass import dataclass, field, replace
from sdi.devices.base import Device, KernelFacts, SubGroupQuery
from sdi.devices.handles import DeviceProgram
from sdi.errors import BuildError, ClError, DeviceLost, Status, require
from sdi.launch.kernel import Build, Kernel, Recent
from sdi.launch.programs.analysed import (
    Analysed,
    analysed,
    find,
    find_object,
    keep,
    keep_object,
    name_of,
    name_of_linked,
    name_of_object,
)
from sdi.launch.programs.language import image_dialect, image_language
from sdi.sampling.machine import TOO_MUCH
from sdi.sampling.model import KernelAccess

_log = logging.getLogger("sdi.access")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What is no executable: a packed object or library, or nothing but a log."""

    object: bytes
    log: str


_PROGRAMS_MAX = 256
"""A training library builds the 33 programs that it uses anew for each model."""


class ProgramCache:
    """Members' programs by their text: a driver takes long to build one, and applications build one again.

    ``binaries``: what is known of them, which takes some milliseconds to read anew.  Owned by: the build
    thread.
    """

    def __init__(self) -> None:
        self.binaries: Recent[bytes, Analysed] = Recent(_PROGRAMS_MAX)
        self._found: Recent[tuple[str, tuple[str, ...]], tuple[DeviceProgram | None, ...]] = Recent(
            _PROGRAMS_MAX
        )

    def programs(
        self, text: str, options: tuple[str, ...], has_global_variables: bool, devices: Sequence[Device]
    ) -> tuple[DeviceProgram | None, ...]:
        """The programs for all ``devices``, which are always the same.  Raises BuildError.

        A member that is lost has None.
        """
        key = (text, options)
        found = self._found.find(key)
        if found is None:
            found = tuple(on_all(devices, lambda member: _built(devices[member], *key)))
            require(any(found), Status.OUT_OF_RESOURCES, "all members of the image are lost")
            if not has_global_variables:  # those are each program's own
                self._found.keep(key, found, ())
        return found


Note = Callable[[CompiledProgram, KernelModel, KernelAccess], object]
"""Says of a kernel what it does, for people."""


@dataclass(frozen=True, slots=True)
class Target:
    """What programs are built for.

    ``verified``: launches will run a second time, which must not print again.  ``note``: makes the notes that
    kernels get on what they do.  ``is_image``: the application sees one device, not each member.
    """

    devices: Sequence[Device]
    verified: bool = False
    note: Note | None = None
    is_image: bool = True
    cache: ProgramCache = field(default_factory=ProgramCache)
    dialect: Dialect = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dialect", image_dialect(self.devices))

    @property
    def language(self) -> Language:
        """What programs may use."""
        return replace(image_language(self.devices), dialect=self.dialect)


_SILENCE = ' -D "printf(format,...)=((void)0,##__VA_ARGS__,0)" -w'
"""A build option: printf evaluates its arguments, and prints nothing."""


def build(source: str, options: str, directory: str, target: Target) -> Build:
    """Compile for every member; what is known from an earlier run is not found out again.

    Raises BuildError with the whole log.
    """
    name = name_of(source, options, directory, target.language)
    if (known := find(name)) is not None:
        return _for_members(known, target)
    seen = FilesSeen()
    compiled = compile_source(source, options, directory or None, target.language, seen)
    made, found = _analysed_for_members(compiled, target)
    keep(name, found, seen, target.language)
    return made


def compile_only(
    source: str, options: str, directory: str, headers: Mapping[str, str], target: Target
) -> Compiled:
    """A compiled object.  Raises BuildError."""
    try:
        made, log = compile_object(source, options, directory or None, headers, target.language)
    except BuildError as error:
        if error.status is Status.INVALID_BUILD_OPTIONS:
            raise BuildError(error.log, Status.INVALID_COMPILER_OPTIONS) from error
        raise BuildError(error.log, Status.COMPILE_PROGRAM_FAILURE) from error
    return Compiled(pack_objects([made]), log)


def link(objects: Sequence[bytes], options: str, target: Target) -> Build | Compiled:
    """An executable from packed objects and libraries, or a library if ``options`` ask for one.

    Raises ClError with INVALID_BINARY for an object that is none, and BuildError.
    """
    from sdi.clc.frontend.link import link_options, merge

    is_library, flags = link_options(options.split())
    found = [one for data in objects for one in unpack_objects(data)]
    if is_library:
        return Compiled(pack_objects(found), "")
    name = name_of_linked(found, flags, target.language)
    try:
        if (known := find(name)) is not None:
            return _for_members(known, target)
        linked = merge(found, target.language, flags)
        compiled = compile_text(linked, "", target.language, linked=True)
        made, what = _analysed_for_members(compiled, target)
    except BuildError as error:
        raise BuildError(error.log, Status.LINK_PROGRAM_FAILURE) from error
    keep(name, what, FilesSeen(), target.language)
    return made


def rebuild(data: bytes, target: Target) -> Build:
    """An executable from the object in a binary; what is known of it is not found out again.

    Raises ClError with INVALID_BINARY, with a log where the object does not build: once it did.
    """
    from sdi.clc.frontend.link import merge

    try:
        if (known := target.cache.binaries.find(data)) is not None:
            return _for_members(known, target)
        linked = merge(unpack_objects(data), target.language)
        if (known := find_object(name_of_object(linked, target.language))) is not None:
            target.cache.binaries.keep(data, known, ())
            return _for_members(known, target)
        made, found = _analysed_for_members(compile_text(linked, "", target.language), target)
    except BuildError as error:
        raise BuildError(error.log, Status.INVALID_BINARY) from error
    keep_object(found, target.language)
    return made


def _analysed_for_members(compiled: CompiledProgram, target: Target) -> tuple[Build, Analysed]:
    """A program built for the members while it is analysed: drivers build without Python's lock."""
    has_variables = compiled.tree.has_global_variables
    with ThreadPoolExecutor(1, "sdi-analysis") as beside:
        analysis = beside.submit(analysed, compiled)
        programs = target.cache.programs(
            compiled.text, compiled.member_options, has_variables, target.devices
        )
    found = analysis.result()
    return _made(found, programs, target), found


def _for_members(found: Analysed, target: Target) -> Build:
    """A program of which all is known."""
    programs = target.cache.programs(
        found.text, found.member_options, found.has_global_variables, target.devices
    )
    return _made(found, programs, target)


def _made(found: Analysed, programs: tuple[DeviceProgram | None, ...], target: Target) -> Build:
    """A kernel that a member's driver does not find by its name is none, as there; the log says so."""
    for model in found.kernels:
        if model.why_whole.endswith(TOO_MUCH):
            _log.warning("kernel %s runs whole on one member: %s", model.name, model.why_whole)
    devices = target.devices
    facts: list[tuple[KernelFacts, ...]] = []
    kernels: list[Kernel] = []
    log = found.log
    names = [model.name for model in found.kernels]
    asked = on_all(devices, lambda member: _facts_of(devices[member], programs[member], names))
    for model, access, *of_members in zip(found.kernels, found.accesses, *asked, strict=True):
        missing = [each for each in of_members if isinstance(each, ClError)]
        if missing:  # pocl has another name for a kernel that is named like a built-in function
            log += f"warning: there is no kernel '{model.name}': {missing[0].what}\n"
            continue
        weakest = _weakest([each for each in of_members if isinstance(each, KernelFacts)])
        own = [each if isinstance(each, KernelFacts) else weakest for each in of_members]
        facts.append((weakest,) if target.is_image else tuple(own))
        kernels.append(Kernel(model, access, found.has_global_variables))
    if target.note is not None:
        again = functools.cache(lambda: compile_text(found.object, "", target.language))
        for kernel in kernels:
            kernel.note = partial(_noted, target.note, again, kernel.model, kernel.access)
    silent = programs[0]
    if target.verified and "printf" in found.text:
        options = " ".join([f"-cl-std={found.object.standard}", *found.object.flags])
        quiet = compile_source(found.object.text, options + _SILENCE, "/", target.language)
        silent = _built(devices[0], quiet.text, quiet.member_options)
    return Build(tuple(kernels), tuple(facts), programs, log, silent, pack_objects([found.object]))


def _noted(
    note: Note, compiled: Callable[[], CompiledProgram], model: KernelModel, access: KernelAccess
) -> object:
    """Of a kernel whose tree nobody keeps."""
    return note(compiled(), model, access)


def _built(device: Device, text: str, options: Sequence[str]) -> DeviceProgram | None:
    try:
        return device.build(text, options)
    except DeviceLost:
        return None


def _facts_of(
    device: Device, program: DeviceProgram | None, kernels: Sequence[str]
) -> list[KernelFacts | ClError | None]:
    """Of each kernel; why there is none of that name; None of a member that is lost."""
    found: list[KernelFacts | ClError | None] = []
    for kernel in kernels:
        try:
            found.append(device.kernel_info(program, kernel) if program else None)
        except DeviceLost:
            found.append(None)
        except ClError as error:
            if error.status is not Status.INVALID_KERNEL_NAME:
                raise
            found.append(error)
    return found


def ask_sub_groups(
    made: Build, kernel: int, asked: SubGroupQuery, devices: Sequence[Device]
) -> tuple[int, ...]:
    """What ``made``'s kernel of that number answers: sub-groups are offered by members that are alike, so
    that any will do that is not lost.  Blocks.  Raises ClError for what the driver refuses, DeviceFailed.
    """
    for device, program in zip(devices, made.programs, strict=True):
        if program is not None:
            with contextlib.suppress(DeviceLost):
                return device.kernel_info(program, made.kernels[kernel].model.name, asked).sub_groups
    raise DeviceLost(devices[0].capabilities.name, "no device is left that could be asked for its sub-groups")


def on_all(devices: Sequence[Device], ask: Callable[[int], T]) -> list[T]:
    """``ask`` of each member's position: all nodes at once, the members of a node one after the other."""
    nodes: dict[int, list[int]] = {}
    for member, device in enumerate(devices):
        nodes.setdefault(device.capabilities.node, []).append(member)
    if len(nodes) == 1:
        return [ask(member) for member in range(len(devices))]
    with ThreadPoolExecutor(len(nodes), "sdi-on-node") as threads:
        parts = list(threads.map(lambda members: [ask(member) for member in members], nodes.values()))
    found = dict(zip((m for members in nodes.values() for m in members), chain(*parts), strict=True))
    return [found[member] for member in range(len(devices))]


def _weakest(facts: Sequence[KernelFacts]) -> KernelFacts:
    """Limits that hold on every member."""
    return KernelFacts(
        min(f.work_group_size for f in facts),
        max(f.preferred_multiple for f in facts),
        max(f.local_mem_nbytes for f in facts),
        max(f.private_mem_nbytes for f in facts),
    )
