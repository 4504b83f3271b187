"""Runs kernels on the OpenCL CPU driver: plainly, and as emitted for boxes of work-groups."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyopencl as cl
import pytest

from sdi.clc.compile import compile_source
from sdi.clc.launch import pack_hidden
from sdi.clc.model import ArgumentKind, CompiledProgram, KernelModel
from sdi.ndrange import GroupBox, Int3, NDRange

Value = np.ndarray | np.generic | bytes | int | None  # an int is a local size in bytes


@functools.cache
def queue() -> cl.CommandQueue:
    """A queue on a CPU device; the test is skipped where there is none."""
    for platform in cl.get_platforms():
        for device in platform.get_devices():
            if device.type & cl.device_type.CPU:
                return cl.CommandQueue(cl.Context([device]))
    pytest.skip("no OpenCL CPU driver")


def build(text: str, options: Sequence[str] = ()) -> cl.Program:
    return cl.Program(queue().context, text).build(list(options), cache_dir=False)


def whole(ndrange: NDRange) -> list[GroupBox]:
    return [GroupBox((0, 0, 0), ndrange.num_groups)]


def cut_everywhere(ndrange: NDRange, cuts: Sequence[Sequence[int]]) -> list[GroupBox]:
    """The grid of boxes between the cut positions of each dimension."""
    sides: list[list[tuple[int, int]]] = []
    for dim in range(3):
        groups = ndrange.num_groups[dim]
        inner = sorted({c for c in (cuts[dim] if dim < len(cuts) else ()) if 0 < c < groups})
        edges = [0, *inner, groups]
        sides.append(list(itertools.pairwise(edges)))
    return [GroupBox((x[0], y[0], z[0]), (x[1], y[1], z[1])) for x, y, z in itertools.product(*sides)]


def times(a: Int3, b: Int3) -> Int3:
    return (a[0] * b[0], a[1] * b[1], a[2] * b[2])


@dataclass
class Runner:
    """One program, built plainly and as emitted."""

    source: str
    options: str = ""

    def __post_init__(self) -> None:
        self.compiled: CompiledProgram = compile_source(self.source, self.options)
        self.plain = build(self.source, [*self.options.split(), "-w"])
        self.emitted = build(self.compiled.text, self.compiled.member_options)

    def model(self, name: str) -> KernelModel:
        return next(k for k in self.compiled.kernels if k.name == name)

    def _run(
        self,
        program: cl.Program,
        name: str,
        arguments: Sequence[Value],
        ndrange: NDRange,
        boxes: list[GroupBox] | None,
    ) -> list[bytes]:
        kernel = cl.Kernel(program, name)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers: dict[int, cl.Buffer] = {}
        for index, value in enumerate(arguments):
            if isinstance(value, np.ndarray):
                buffers[index] = cl.Buffer(queue().context, flags, hostbuf=value)
                kernel.set_arg(index, buffers[index])
            elif isinstance(value, int):
                kernel.set_arg(index, cl.LocalMemory(value))
            else:
                kernel.set_arg(index, value)
        if boxes is None:
            dims = ndrange.work_dim
            cl.enqueue_nd_range_kernel(
                queue(),
                kernel,
                ndrange.global_size[:dims],
                ndrange.local_size[:dims],
                ndrange.offset[:dims],
            )
        else:
            model = self.model(name)
            shifts = [0] * sum(
                a.kind in (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT) for a in model.arguments
            )
            for box in boxes:
                kernel.set_arg(len(arguments), pack_hidden(model, ndrange, box, shifts))
                size = times(box.extent, ndrange.local_size)
                cl.enqueue_nd_range_kernel(queue(), kernel, size, ndrange.local_size)
        queue().finish()
        results: list[bytes] = []
        for index, buffer in buffers.items():
            host = np.empty_like(arguments[index])
            cl.enqueue_copy(queue(), host, buffer)
            results.append(host.tobytes())
        return results

    def run_plain(self, name: str, arguments: Sequence[Value], ndrange: NDRange) -> list[bytes]:
        """Bytes of all buffers after the plain program ran the whole NDRange."""
        return self._run(self.plain, name, arguments, ndrange, None)

    def run_boxes(
        self, name: str, arguments: Sequence[Value], ndrange: NDRange, boxes: list[GroupBox]
    ) -> list[bytes]:
        """Bytes of all buffers after the emitted program ran the boxes, one after the other."""
        return self._run(self.emitted, name, arguments, ndrange, boxes)

    def assert_same(
        self, name: str, arguments: Sequence[Value], ndrange: NDRange, boxes: list[GroupBox]
    ) -> None:
        assert self.run_boxes(name, arguments, ndrange, boxes) == self.run_plain(name, arguments, ndrange)
