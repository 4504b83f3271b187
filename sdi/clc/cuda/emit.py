"""A program as CUDA C++: the compat header, then the program's declarations in a namespace.

Each kernel becomes ``extern "C" sdi_k_NAME`` with the kernel's own parameters, a ``__local`` pointer
being an offset into dynamic shared memory, and one last parameter: the native grid (``_cl_grid``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from sdi.clc.arguments import argument_kind, is_kernel, required_work_group_size
from sdi.clc.cuda.builtins import NATIVE_GEOMETRY, PRINT_HEADER, header_part, header_text
from sdi.clc.cuda.expressions import GRID, ExpressionWriter
from sdi.clc.cuda.records import Records
from sdi.clc.cuda.statements import StatementWriter, is_assertion
from sdi.clc.cuda.tree import CudaTree
from sdi.clc.cuda.types import (
    TypeNames,
    UnknownConstruct,
    in_unicode,
    safe_name,
    space_of,
    unqualified,
)
from sdi.clc.frontend.syntax import Form, Function, NodeKind, Space, SyntaxNode, Type, callee_of
from sdi.clc.model import ArgumentKind
from sdi.clc.preprocess.lines import LineMap, line_map
from sdi.clc.printf_text import Format
from sdi.clc.printing import prints
from sdi.dataclass import dataclass
from sdi.errors import BuildError
from sdi.ndrange import Int3
from sdi.wire.cuda import SHARED_NBYTES
from sdi.wire.kernels import CUDA_IMAGE
from sdi.wire.layout import layout
from sdi.wire.opencl import IMAGE_TYPES, Filter, MemObjectType

SYMBOL_PREFIX = "sdi_k_"
TOO_LARGE = "_CL_TOO_LARGE_"
"""Before the symbol of a kernel, defined: it has more local memory than there is, and can't be launched."""
LOCAL_ALIGNMENT = 128
"""Alignment of ``__local`` arguments: that of the largest vector."""
IMAGE_NBYTES = layout(CUDA_IMAGE).size
PARAMETER_ALIGNMENT = 16
"""No parameter is aligned to more: how compilers place larger ones is written nowhere (they differ)."""
_DYNAMIC = "_cl_dynamic"
_HIDDEN = "__sdi_launch"
_IMMEDIATE = re.compile(r'"[in]+"\s*\(\s*(\w+)\s*\)')
"""A name that is an operand of inline assembly, and has to be known at compile time."""
_SHIFT = re.compile(r"([\w$\x80-\xff]+) - __sdi_launch\.shift\[\d+\]")
# Functions of sub-range text that have a faster twin here: see ``subrange.py``.
_ACCESSORS = {"__sdi_get_global_id": "_cl_box_global_id"}
_POINTERS = (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)


class ParameterKind(Enum):
    """What a kernel's parameter is in CUDA: an image is described by ``_cl_image``, a sampler by its bits."""

    POINTER = "pointer"
    LOCAL = "local"
    VALUE = "value"
    IMAGE = "image"
    SAMPLER = "sampler"


@dataclass(frozen=True, slots=True)
class CudaParameter:
    """A parameter: bytes and alignment in the parameter block (8 and 8 for POINTER, 4 and 4 for LOCAL and
    SAMPLER, ``IMAGE_NBYTES`` and 8 for IMAGE).

    ``alignment`` is at most ``PARAMETER_ALIGNMENT``.  ``samplers``: the bits of those with a linear filter
    that the program names, of images that textures may filter with them; None of all others.
    """

    kind: ParameterKind
    nbytes: int
    alignment: int
    samplers: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """One kernel; the native grid (``GRID_NBYTES``, aligned to 8) follows its parameters.

    ``is_subrange``: its last parameter is the hidden launch of sub-range text; of that the caller subtracts
    the shifts from the pointers, and puts the first global id into the grid: the kernel does neither.
    ``prints``: it may call printf.
    """

    name: str
    symbol: str
    parameters: tuple[CudaParameter, ...]
    required_work_group_size: Int3 | None
    is_subrange: bool
    prints: bool = False


@dataclass(frozen=True, slots=True)
class CudaProgram:
    """``text``: CUDA C++, complete.  ``contracts``: multiplication and addition may be fused.

    ``formats``: of what it prints, by their numbers in records (see ``printf_text``).
    """

    text: str
    kernels: tuple[CudaKernel, ...]
    contracts: bool
    formats: tuple[Format, ...] = ()


def emit(program: CudaTree) -> CudaProgram:
    """The program as CUDA C++.  Raises BuildError with the user's line for what it has no rule for."""
    lines = line_map(program.tree.text)
    try:
        return _Emitter(program, lines).emit()
    except UnknownConstruct as unknown:
        where = "<kernel>"
        if unknown.node is not None:
            file, line = lines.place(unknown.node.begin)
            where = f"{file}:{line}"
        raise BuildError(f"{where}: error: {unknown.what}: not supported on CUDA members\n") from unknown


class _Emitter:
    """Emits one program.  Owned by: the thread of the build."""

    def __init__(self, program: CudaTree, lines: LineMap) -> None:
        self.program = program
        self.tree = program.tree
        functions = self.tree.functions
        self.kernels = {key for key, f in functions.items() if is_kernel(self.tree, f)}
        calls = {key: _references(f.body) if f.body is not None else [] for key, f in functions.items()}
        self.needing = self._needing_geometry(calls)
        self.types = TypeNames()
        self.records = Records(program, self.types)
        self.expressions = ExpressionWriter(program, self.types, self.needing, self.records.fields)
        self.statements = StatementWriter(program, self.types, self.expressions, lines)
        bodies = [f.body for f in functions.values() if f.body is not None]
        self.may_be_too_large = sum(map(_local_nbytes, bodies)) > SHARED_NBYTES
        self.expressions.names = self._names()
        self.expressions.constants = self._constants()
        self.called = {reference.declaration for each in calls.values() for reference in each}

    def emit(self) -> CudaProgram:
        parts = ["\nnamespace sdi_program {\n"]
        parts.append(f"extern __shared__ __align__({LOCAL_ALIGNMENT}) unsigned char {_DYNAMIC}[];\n")
        outer = {id(node) for node in self.tree.declarations}
        prototypes = [n for f in self.tree.functions.values() for n in f.nodes if id(n) not in outer]
        for node in self.tree.declarations:
            parts.append(self.statements.place(node) + self.records.inside(node))
            parts += [self._function(each) for each in prototypes if node.begin <= each.begin < node.end]
            parts.append(self.statements.place(node) + self._declaration(node))
        parts.append("\n}\n")
        kernels = tuple(
            self._signature(function)
            for key, function in self.tree.functions.items()
            if key in self.kernels and function.body is not None
        )
        formats = tuple(self.expressions.printing.formats)
        header = header_text() + (header_part(PRINT_HEADER) if formats else "")
        return CudaProgram(header + "".join(parts), kernels, self.expressions.contracts, formats)

    def _names(self) -> dict[int, str]:
        """Names of functions that would be the same for C++ as others, which differ in address spaces."""
        seen: dict[tuple[str, ...], int] = {}
        found: dict[int, str] = {}
        for key, function in self.tree.functions.items():
            if function.body is None:
                continue
            types = [self.types.value(p.type, p) for p in function.parameters]
            number = seen[function.name, *types] = seen.get((function.name, *types), -1) + 1
            if number:
                found[key] = f"_cl_other{number}_{safe_name(function.name)}"
        return found

    def _constants(self) -> dict[int, set[int]]:
        """Parameters, by number, that inline assembly wants to be constants; those of callers that give them.

        A compiler that puts a function in its caller's place first finds the caller's constant; C++ has
        template arguments.
        """
        found: dict[int, set[int]] = {}
        if not _IMMEDIATE.search(self.tree.text):
            return found
        functions = self.tree.functions.items()
        places = {p.declaration: (key, n) for key, f in functions for n, p in enumerate(f.parameters)}
        calls: dict[int, list[SyntaxNode]] = {}
        waiting: list[tuple[int, int]] = []
        for key, function in functions:
            for node in function.body.walk() if function.body is not None else ():
                if node.kind is NodeKind.ASM:
                    named = _IMMEDIATE.findall(self.tree.source(node))
                    waiting += [(key, n) for n, p in enumerate(function.parameters) if p.name in named]
                elif node.kind is NodeKind.CALL and (reference := callee_of(node)) is not None:
                    calls.setdefault(reference.declaration, []).append(node)
        while waiting:
            key, number = waiting.pop()
            if key in self.kernels or number in found.setdefault(key, set()):
                continue
            found[key].add(number)
            for call in calls.get(key, ()):
                given = [node.declaration for node in call.children[1 + number].walk()]
                waiting += [places[each] for each in given if each in places]
        return found

    def _needing_geometry(self, calls: Mapping[int, Sequence[SyntaxNode]]) -> set[int]:
        """Functions that ask for the native geometry or call one that does."""
        functions = self.tree.functions
        needing = {
            key
            for key, references in calls.items()
            if any(r.declaration not in functions and r.name in NATIVE_GEOMETRY for r in references)
        }
        grown = True
        while grown:
            more = {
                key
                for key, references in calls.items()
                if key not in needing and any(r.declaration in needing for r in references)
            }
            needing |= more
            grown = bool(more)
        return needing

    def _declaration(self, node: SyntaxNode) -> str:
        match node.kind:
            case NodeKind.FUNCTION_DECL:
                return self._function(node)
            case NodeKind.VAR_DECL:
                return self.statements.scope(lambda: self.statements.variable(node, is_global=True))
            case NodeKind.STRUCT_DECL | NodeKind.UNION_DECL | NodeKind.ENUM_DECL | NodeKind.TYPEDEF_DECL:
                return ""
            case _:
                source = self.tree.source(node).strip()
                if source in (";", "") or is_assertion(source):
                    return ""
                raise UnknownConstruct(node, f"'{self.tree.source(node)[:40]}'")

    def _function(self, node: SyntaxNode) -> str:
        function = self.tree.functions[node.declaration]
        if function.body is None:
            return ""  # never called, or a prototype of what is not defined
        key = node.declaration
        is_definition = node is function.definition
        written = ""
        if key not in self.kernels or key in self.called:
            body = self.statements.block(function.body) if is_definition else ";"
            if node.name in _ACCESSORS and is_definition:
                body = f"{{ return {_ACCESSORS[node.name]}({GRID}, {function.parameters[1].name}); }}"
            written = f"{self._prototype(node, function)} {body}\n"
        if key in self.kernels and is_definition:
            written += self._entry(function)
        return written

    def _prototype(self, node: SyntaxNode, function: Function) -> str:
        parameters = [
            self.types.declare(p.type, safe_name(p.name), p)
            for p in node.children
            if p.kind is NodeKind.PARM_DECL
        ]
        constants = sorted(self.expressions.constants.get(node.declaration, ()))
        given = ", ".join(parameters[number] for number in constants)
        template = f"template<{given}> " if constants else ""
        parameters = [each for number, each in enumerate(parameters) if number not in constants]
        if node.declaration in self.needing:
            parameters.insert(0, f"const _cl_grid &{GRID}")
        result = self.types.value(self.program.results[node.declaration], node)
        inline = "__forceinline__"
        if any("noinline" in self.tree.source(a) for a in function.attributes):
            inline = "__noinline__"
        name = self.expressions.function_name(node)
        return f"{template}static __device__ {inline} {result} {name}({', '.join(parameters)})"

    def _entry(self, function: Function) -> str:
        parameters: list[str] = []
        locals_: list[str] = []
        for parameter in function.parameters:
            name = safe_name(parameter.name)
            if argument_kind(parameter.type) is ArgumentKind.LOCAL:
                parameters.append(f"unsigned _cl_at_{name}")
                if not parameter.name:
                    continue
                pointer = self.types.value(parameter.type, parameter)
                declared = self.types.declare(parameter.type, name, parameter)
                locals_.append(f"{declared} = ({pointer})({_DYNAMIC} + _cl_at_{name});")
            elif self._alignment(parameter) > PARAMETER_ALIGNMENT:
                parameters.append(
                    f"const _cl_boxed<{self.types.plain(parameter.type, parameter)}> _cl_in_{name}"
                )
                if parameter.name:
                    declared = self.types.declare(parameter.type, name, parameter)
                    locals_.append(f"{declared} = _cl_in_{name}.value();")
            else:
                parameters.append(self.types.declare(parameter.type, name, parameter))
        parameters.append(f"const _cl_grid {GRID}")
        assert function.body is not None
        bounds = ""
        required = required_work_group_size(self.tree, function)
        if required is not None:
            bounds = f"__launch_bounds__({required[0] * required[1] * required[2]}) "
        symbol = SYMBOL_PREFIX + _symbol_of(function)
        head = f'extern "C" __global__ void {bounds}{symbol}({", ".join(parameters)})'
        statements = function.body.children
        body = self.statements.scope(
            lambda: "".join(
                self.statements.place(each) + (self._unshifted(each) or self.statements(each))
                for each in statements
            )
        )
        body = f"{' '.join(locals_)} {{ {body}\n}}"
        if self.may_be_too_large:
            body = f"\n#ifdef {TOO_LARGE}{symbol}\n__trap();\n#else\n{body}\n#endif\n"
        return f"{head} {{ {body} }}\n"

    def _alignment(self, parameter: SyntaxNode) -> int:
        """Of a parameter that is a value; 0 of others."""
        is_value = argument_kind(parameter.type) is ArgumentKind.VALUE
        return self.program.alignments.get(parameter.type, 0) if is_value else 0

    def _unshifted(self, statement: SyntaxNode) -> str:
        """What stands for a statement that shifts a pointer, which the launch has done; else nothing.

        Sub-range text has ``a = (void *)((char *)a - __sdi_launch.shift[0]);``, or the same as the
        declaration of a const pointer.
        """
        match = _SHIFT.search(self.tree.source(statement))
        if match is None:
            return ""
        if statement.kind is NodeKind.BINARY_OPERATOR and statement.operator == "=":
            return ";"
        variable = statement.children[0]
        if statement.kind is not NodeKind.DECL_STATEMENT or variable.kind is not NodeKind.VAR_DECL:
            raise UnknownConstruct(statement, "this use of the hidden argument")
        declared = self.types.declare(variable.type, safe_name(variable.name), variable)
        return f"{declared} = {safe_name(in_unicode(match.group(1)))};"

    def _samplers_of(self, image: Type) -> frozenset[int] | None:
        """See ``CudaParameter``."""
        if IMAGE_TYPES.get(unqualified(image)) != MemObjectType.IMAGE2D or "write" in image.canonical:
            return None
        return frozenset(bits for bits in self.expressions.samplers if bits & Filter.LINEAR.bits)

    def _signature(self, function: Function) -> CudaKernel:
        parameters: list[CudaParameter] = []
        for parameter in function.parameters:
            kind = argument_kind(parameter.type)
            if kind in _POINTERS:
                parameters.append(CudaParameter(ParameterKind.POINTER, 8, 8))
            elif kind is ArgumentKind.LOCAL:
                parameters.append(CudaParameter(ParameterKind.LOCAL, 4, 4))
            elif kind is ArgumentKind.IMAGE:
                parameters.append(
                    CudaParameter(ParameterKind.IMAGE, IMAGE_NBYTES, 8, self._samplers_of(parameter.type))
                )
            elif kind is ArgumentKind.SAMPLER:
                parameters.append(CudaParameter(ParameterKind.SAMPLER, 4, 4))
            elif parameter.type.form is not Form.OTHER:
                alignment = min(self._alignment(parameter), PARAMETER_ALIGNMENT)
                parameters.append(CudaParameter(ParameterKind.VALUE, parameter.type.nbytes, alignment))
            else:
                raise UnknownConstruct(parameter, f"the type '{parameter.type.spelling}'")
        return CudaKernel(
            function.name,
            SYMBOL_PREFIX + _symbol_of(function),
            tuple(parameters),
            required_work_group_size(self.tree, function),
            bool(function.parameters) and function.parameters[-1].name == _HIDDEN,
            prints(self.tree, function),
        )


def _symbol_of(kernel: Function) -> str:
    """The kernel's name, in ASCII: what stands before it keeps it apart from words of C++."""
    return kernel.name if re.fullmatch(r"\w+", kernel.name, re.ASCII) else safe_name(kernel.name)


def _local_nbytes(body: SyntaxNode) -> int:
    variables = (node for node in body.walk() if node.kind is NodeKind.VAR_DECL)
    return sum(node.type.nbytes for node in variables if space_of(node.type) is Space.LOCAL)


def _references(body: SyntaxNode) -> list[SyntaxNode]:
    """References to the functions that a body calls."""
    found = [callee_of(node) for node in body.walk() if node.kind is NodeKind.CALL]
    return [each for each in found if each is not None]
