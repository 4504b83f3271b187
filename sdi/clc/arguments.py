"""Kernels and their arguments as clSetKernelArg and clGetKernelArgInfo see them.

Source: OpenCL 3.0 API specification, sections "Setting Kernel Arguments" and "Kernel Object Queries".
"""

from __future__ import annotations

import re

from sdi.clc.frontend.syntax import Form, Function, Space, SyntaxNode, Tree, Type
from sdi.clc.model import ArgumentKind
from sdi.clc.preprocess.conditions import evaluate
from sdi.clc.preprocess.macros import MacroError
from sdi.ndrange import Int3
from sdi.wire.opencl import ArgumentAccess, ArgumentAddress, ArgumentType

_ADDRESS = {
    Space.GLOBAL: ArgumentAddress.GLOBAL,
    Space.LOCAL: ArgumentAddress.LOCAL,
    Space.CONSTANT: ArgumentAddress.CONSTANT,
}
_KINDS = {
    Space.GLOBAL: ArgumentKind.GLOBAL,
    Space.GENERIC: ArgumentKind.GLOBAL,
    Space.CONSTANT: ArgumentKind.CONSTANT,
    Space.LOCAL: ArgumentKind.LOCAL,
}
_QUALIFIERS = re.compile(
    r"\b(const|volatile|restrict|(__)?(global|local|constant|private|generic)|(__)?(read|write)_only"
    r"|(__)?read_write)\b"
)
_UNSIGNED = re.compile(r"\bunsigned (char|short|int|long)\b")


def is_kernel(tree: Tree, function: Function) -> bool:
    """Declared with ``__kernel`` or ``kernel``."""
    return any(tree.source(a) in ("__kernel", "kernel") for a in function.attributes)


def argument_kind(parameter: Type) -> ArgumentKind:
    """What kind of value clSetKernelArg takes."""
    if parameter.form is Form.POINTER and parameter.element is not None:
        return _KINDS.get(parameter.element.space, ArgumentKind.GLOBAL)
    if parameter.form is Form.IMAGE:
        return ArgumentKind.IMAGE
    return ArgumentKind.SAMPLER if parameter.form is Form.SAMPLER else ArgumentKind.VALUE


def argument_nbytes(parameter: Type) -> int:
    """The size that clSetKernelArg demands; 0 for local memory, of which the application says how much."""
    match argument_kind(parameter):
        case ArgumentKind.VALUE:
            return parameter.nbytes
        case ArgumentKind.LOCAL:
            return 0
        case _:
            return 8


def type_name(parameter: Type) -> str:
    """CL_KERNEL_ARG_TYPE_NAME: without qualifiers, ``unsigned int`` as ``uint``, ``*`` without spaces."""
    if parameter.form is Form.POINTER and parameter.element is not None:
        return type_name(parameter.element) + "*"
    spelling = _QUALIFIERS.sub("", parameter.spelling)
    spelling = " ".join(_UNSIGNED.sub(r"u\1", spelling).split())
    return spelling.replace(" *", "*").replace(" [", "[")


def address_qualifier(parameter: Type) -> int:
    """CL_KERNEL_ARG_ADDRESS_QUALIFIER."""
    if parameter.form is Form.IMAGE:
        return ArgumentAddress.GLOBAL
    if parameter.form is Form.POINTER and parameter.element is not None:
        return _ADDRESS.get(parameter.element.space, ArgumentAddress.PRIVATE)
    return ArgumentAddress.PRIVATE


def access_qualifier(parameter: Type) -> int:
    """CL_KERNEL_ARG_ACCESS_QUALIFIER: images are read-only unless declared otherwise."""
    if parameter.form is not Form.IMAGE:
        return ArgumentAccess.NONE
    if "read_write" in parameter.canonical:
        return ArgumentAccess.READ_WRITE
    is_written = "write_only" in parameter.canonical
    return ArgumentAccess.WRITE_ONLY if is_written else ArgumentAccess.READ_ONLY


def type_qualifier(parameter: Type) -> int:
    """CL_KERNEL_ARG_TYPE_QUALIFIER: of pointers only; a pointer to constant memory is const."""
    pointee = parameter.element
    if parameter.form is not Form.POINTER or pointee is None:
        return 0
    bits = ArgumentType.CONST if pointee.const or pointee.space is Space.CONSTANT else 0
    bits |= ArgumentType.VOLATILE if pointee.volatile else 0
    return bits | (ArgumentType.RESTRICT if parameter.restrict else 0)


def _attributes(tree: Tree, kernel: Function) -> list[str]:
    texts: list[str] = []
    nodes: list[SyntaxNode] = sorted(kernel.attributes, key=lambda a: a.begin)
    for node in nodes:
        text = " ".join(tree.source(node).split())
        if text not in ("__kernel", "kernel", "") and text not in texts:
            texts.append(text)
    return texts


def attributes_text(tree: Tree, kernel: Function) -> str:
    """CL_KERNEL_ATTRIBUTES: as declared inside ``__attribute__((...))``, separated by spaces."""
    return " ".join(_attributes(tree, kernel))


def required_work_group_size(tree: Tree, kernel: Function) -> Int3 | None:
    """The sizes of ``reqd_work_group_size``, or None."""
    for text in _attributes(tree, kernel):
        match = re.fullmatch(r"(?:__)?reqd_work_group_size(?:__)?\s*\((.*)\)", text, re.DOTALL)
        if match is None:
            continue
        try:
            sizes = [evaluate(each) for each in match.group(1).split(",")]
        except MacroError:
            return None
        if len(sizes) == 3 and min(sizes) > 0:
            return (sizes[0], sizes[1], sizes[2])
    return None
