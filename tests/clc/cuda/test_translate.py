"""What CUDA members would compile, compiled for a GPU that is not there; where parameters lie in it.

Needs NVRTC (the package nvidia-cuda-nvrtc) and no GPU.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import pyopencl as cl
import pytest

from sdi.clc.compile import compile_source
from sdi.clc.cuda.translate import CudaKernel, CudaProgram, ParameterKind, nvrtc_options, translate
from sdi.devices.base import BoundArgument, LocalBytes
from sdi.devices.cuda.images import CudaImage
from sdi.devices.cuda.launch import packed, parameter_block
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text, version
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape, Sampler
from sdi.errors import BuildError
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType
from tests.clc.cuda.cubin import parameters_of
from tests.clc.members import queue
from tests.kernels.cases import FOLDER
from tests.programs.runner import program_names

CAPABILITIES = ((9, 0), (7, 5))
# Their first build fails, has no kernel, or is made inside pyopencl.
LINE = ImageShape(MemObjectType.IMAGE1D, ChannelOrder.RGBA, ChannelType.UNORM_INT8, 4, 1, 1, 16, 16)
NO_SOURCE = ("build_failures", "compile_and_link", "pyopencl_arrays")
NOT_OFFERED = ("float_atomics",)
"""What CUDA members do not have."""


@pytest.fixture(scope="module", autouse=True)
def nvrtc() -> None:
    try:
        version()
    except NvrtcMissing as missing:
        pytest.skip(str(missing))


class _Noted(Exception):
    """Ends a program at its first build."""


def first_build(program: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Source and options of the first build of one of tests/programs."""
    noted: list[tuple[str, str]] = []

    def note(self: Any, options: Sequence[str] = (), *_: object, **__: object) -> None:
        noted.append((self._source, " ".join(options)))
        raise _Noted

    for name in ("build", "compile"):
        monkeypatch.setattr(cl.Program, name, note)
    module = importlib.import_module(f"tests.programs.{program}")
    with pytest.raises(_Noted):
        module.run(queue().context, queue())
    return noted[0]


def compile_boxes(source: str, options: str, capability: tuple[int, int]) -> tuple[CudaProgram, bytes]:
    """A program as a member would get it: for boxes of work-groups; and its machine code."""
    compiled = compile_source(source, options)
    program = translate(compiled.text, compiled.member_options)
    code = compile_text(program.text, nvrtc_options(compiled.member_options, program.contracts), capability)
    return program, code


def assert_parameters_lie_where_launches_put_them(program: CudaProgram, cubin: bytes) -> None:
    for kernel in program.kernels:
        places, total = parameters_of(cubin, kernel.symbol)
        block = marked_block(kernel)
        assert len(block) == total, kernel.name
        for number, (offset, nbytes) in enumerate(places[:-1]):
            assert nbytes == kernel.parameters[number].nbytes
            if kernel.parameters[number].kind is ParameterKind.VALUE:
                assert set(block[offset : offset + nbytes]) == {number + 1}, (kernel.name, number)


def marked_block(kernel: CudaKernel) -> bytes:
    """Parameters in which the bytes of value ``n`` are all ``n + 1``, as a launch would pass them."""
    arguments: list[BoundArgument] = []
    for number, parameter in enumerate(kernel.parameters):
        match parameter.kind:
            case ParameterKind.VALUE:
                arguments.append(bytes([number + 1]) * parameter.nbytes)
            case ParameterKind.LOCAL:
                arguments.append(LocalBytes(4))
            case ParameterKind.POINTER:
                arguments.append(None)
            case ParameterKind.IMAGE:
                arguments.append(DeviceBuffer(CudaImage(CudaBuffer(None, 0, LINE.nbytes), LINE)))
            case ParameterKind.SAMPLER:
                arguments.append(Sampler(False, 0x1130, 0x1140))
    block, _ = parameter_block(kernel, arguments)
    zeros = ((0, 0, 0), (0, 0, 0))
    return packed(block, zeros, (1, 1, 1), (1, 1, 1), 1)[1]


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.cl")))
@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda each: "sm_{}{}".format(*each))
def test_every_kernel_of_tests_kernels_compiles(file: str, capability: tuple[int, int]) -> None:
    program, code = compile_boxes((FOLDER / file).read_text(), "", capability)
    assert_parameters_lie_where_launches_put_them(program, code)


PROGRAMS = [name for name in program_names() if name not in NO_SOURCE + NOT_OFFERED]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_compiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, options = first_build(name, monkeypatch)
    program, code = compile_boxes(source, options, CAPABILITIES[0])
    assert program.kernels
    assert_parameters_lie_where_launches_put_them(program, code)


@pytest.mark.parametrize("element", ["char", "ushort", "int", "ulong", "float", "double"])
def test_values_of_every_width_are_passed_where_the_kernel_looks(element: str) -> None:
    widths = (2, 3, 4, 8, 16)
    values = ", ".join(f"{element}{width} v{width}, char c{width}" for width in widths)
    sums = " + ".join(f"v{width}.s{width - 1:x}" for width in widths)
    source = f"""
    typedef struct {{ char c; {element}16 wide; }} record;
    kernel void k(global {element} *out, {values}, record r, local int *l, char last) {{
      l[0] = last;
      *out = {sums} + r.wide.s7 + l[0];
    }}"""
    program, code = compile_boxes(source, "", CAPABILITIES[0])
    assert max(p.alignment for p in program.kernels[0].parameters) <= 16
    assert_parameters_lie_where_launches_put_them(program, code)


def test_what_does_not_compile_is_a_build_error() -> None:
    with pytest.raises(BuildError, match="error: "):
        compile_text("__global__ void k( {", (), CAPABILITIES[0])
