"""The launches that the programs of tests/programs make, caught as they make them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from sdi.ndrange import NDRange
from tests.sampling.checking import Argument, Launch

PROGRAMS = Path(__file__).parents[1] / "programs"
PER_KERNEL = 3


@dataclass(frozen=True, slots=True)
class Caught:
    """One launch of a program."""

    program: str
    source: str
    options: str
    kernel: str
    launch: Launch


def program_names() -> list[str]:
    """Modules of tests/programs that run kernels."""
    return sorted(p.stem for p in PROGRAMS.glob("*.py") if not p.name.startswith("_") and p.stem != "runner")


def catch(name: str, context: cl.Context, needs_content: Callable[[str, str, str], bool]) -> list[Caught]:
    """Run one program and note its launches; a few different ones of each kernel.

    ``needs_content``: whether a kernel (source, options, name) may only run on the program's own data.
    """
    found: dict[tuple[str, str, str], list[Caught]] = {}
    original = cl.Kernel.__call__

    def note(self: Any, queue: Any, global_size: Any, local_size: Any, *args: Any, **more: Any) -> Any:
        source = self.program.get_info(cl.program_info.SOURCE)
        device = queue.device
        options = self.program.get_build_info(device, cl.program_build_info.OPTIONS).strip()
        kernel = self.function_name
        held = found.setdefault((source, options, kernel), [])
        ndrange = _ndrange(global_size, local_size, more.get("global_offset"))
        if len(held) < PER_KERNEL and ndrange is not None and source:
            own = needs_content(source, options, kernel)
            arguments = _arguments(args, queue if own else None)
            if arguments is not None and all(h.launch.ndrange != ndrange for h in held[1:]):
                held.append(Caught(name, source, options, kernel, Launch(ndrange, arguments)))
        return original(self, queue, global_size, local_size, *args, **more)

    module = importlib.import_module(f"tests.programs.{name}")
    cl.Kernel.__call__ = note
    try:
        module.run(context, cl.CommandQueue(context))
    finally:
        cl.Kernel.__call__ = original
    return [each for held in found.values() for each in held]


def _ndrange(global_size: Any, local_size: Any, offset: Any) -> NDRange | None:
    dims = len(global_size)
    local = tuple(local_size) if local_size is not None else _some_local_size(tuple(global_size))
    start = tuple(offset) if offset is not None else (0,) * dims

    def padded(values: Any, with_value: int) -> tuple[int, int, int]:
        x, y, z = (*(int(v) for v in values), *(with_value,) * (3 - dims))
        return (x, y, z)

    try:
        return NDRange(dims, padded(start, 0), padded(global_size, 1), padded(local, 1))
    except ValueError:
        return None


def _some_local_size(global_size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(next(n for n in (8, 4, 2, 1) if size % n == 0) for size in global_size)


def _arguments(args: tuple[Any, ...], queue: Any) -> tuple[Argument, ...] | None:
    found: list[Argument] = []
    for arg in args:
        if hasattr(arg, "base_data"):  # pyopencl.array.Array
            arg = arg.base_data
        if isinstance(arg, cl.Buffer):
            array = np.zeros(arg.size, np.uint8)
            if queue is not None:
                cl.enqueue_copy(queue, array, arg)
            found.append(array)
        elif isinstance(arg, cl.LocalMemory):
            found.append(arg.size)
        elif arg is None:
            found.append(None)
        elif isinstance(arg, np.generic | np.ndarray | bytes):
            found.append(arg if isinstance(arg, bytes) else arg.tobytes())
        else:
            return None
    return tuple(found)
