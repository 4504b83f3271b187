"""OpenCL C front end: build log, kernel model, sub-range OpenCL C."""

from sdi.clc.compile import compile_source
from sdi.clc.launch import hidden_nbytes, pack_hidden
from sdi.clc.model import Argument, ArgumentKind, CompiledProgram, KernelModel

__all__ = [
    "Argument",
    "ArgumentKind",
    "CompiledProgram",
    "KernelModel",
    "compile_source",
    "hidden_nbytes",
    "pack_hidden",
]
