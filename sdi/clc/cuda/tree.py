"""The tree of a program with what the CUDA emitter needs beyond it: layouts, sizes, result types."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from ctypes import c_double, c_longlong, c_uint, c_void_p

from sdi.clc.cuda.types import space_of, unqualified
from sdi.clc.frontend.base_header import PTX_TARGET, header_text
from sdi.clc.frontend.libclang import CXCursor, Unit, text_of
from sdi.clc.frontend.parse import TreeBuilder, clang_arguments, target_for, unit_of
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Tree, Type
from sdi.clc.preprocess.options import BuildOptions
from sdi.dataclass import dataclass, field

_SCALARS = {
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "half": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
    "long": 8,
    "ulong": 8,
    "double": 8,
}
_EVALUATED = (
    *("char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long", "unsigned long"),
    *("half", "float", "double"),
)
_COMPUTED = re.compile(rb"__builtin_(offsetof|types_compatible_p|choose_expr)\b")
_WIDTHS = {1: 1, 2: 2, 3: 4, 4: 4, 8: 8, 16: 16}


@dataclass(frozen=True, slots=True)
class Layout:
    """A record as clang lays it out: bytes, alignment, and the offset of each named field."""

    nbytes: int
    alignment: int
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CudaTree:
    """A program's tree and facts about its nodes, by the nodes' places.

    ``numbers``: what clang computes where C++ must know a number, by (begin, end): each ``sizeof``,
    ``vec_step`` and ``offsetof``, indices of designators, bounds of ranges of cases, scalars of constants.
    ``results``: result type of each function, by declaration.  ``layouts``: by the record's declaration.
    ``alignments``: of parameters' types.  ``variables``: declarations of the program's own ones.
    ``enumerators``, ``values``: what its own ones, and its scalars in constant memory, are, by declaration.
    ``texts``: strings that clang makes, by where they begin.
    """

    tree: Tree
    numbers: Mapping[tuple[int, int], int | float]
    results: Mapping[int, Type]
    layouts: Mapping[int, Layout]
    alignments: Mapping[Type, int]
    variables: frozenset[int]
    enumerators: Mapping[int, int]
    values: Mapping[int, float]
    texts: Mapping[int, str]


@dataclass(slots=True)
class _Facts:
    numbers: dict[tuple[int, int], int | float] = field(default_factory=dict)
    results: dict[int, Type] = field(default_factory=dict)
    layouts: dict[int, Layout] = field(default_factory=dict)
    alignments: dict[Type, int] = field(default_factory=dict)
    variables: set[int] = field(default_factory=set)
    enumerators: dict[int, int] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)


class CudaTreeBuilder(TreeBuilder):
    """Builds the tree and notes the facts.  Owned by: the thread of the build."""

    noted = frozenset(
        {
            NodeKind.SIZEOF,
            NodeKind.CASE,
            NodeKind.UNEXPOSED,
            NodeKind.FUNCTION_DECL,
            NodeKind.PARM_DECL,
            NodeKind.VAR_DECL,
            NodeKind.ENUM_CONSTANT_DECL,
            NodeKind.STRUCT_DECL,
            NodeKind.UNION_DECL,
        }
    )

    def __init__(self, unit: Unit, text: bytes) -> None:
        super().__init__(unit, text)
        self._facts = _Facts()
        lib = unit.lib
        lib.clang_Cursor_Evaluate.argtypes, lib.clang_Cursor_Evaluate.restype = [CXCursor], c_void_p
        results = {"getAsLongLong": c_longlong, "getAsDouble": c_double, "getKind": c_uint, "dispose": None}
        for name, result in results.items():
            function = getattr(lib, f"clang_EvalResult_{name}")
            function.argtypes, function.restype = [c_void_p], result
        lib.clang_Cursor_getOffsetOfField.argtypes = [CXCursor]
        lib.clang_Cursor_getOffsetOfField.restype = c_longlong
        lib.clang_getEnumConstantDeclValue.argtypes = [CXCursor]
        lib.clang_getEnumConstantDeclValue.restype = c_longlong

    def build_cuda(self) -> CudaTree:
        """The whole program."""
        tree = self.build()
        found = self._facts
        return CudaTree(
            tree,
            found.numbers,
            found.results,
            found.layouts,
            found.alignments,
            frozenset(found.variables),
            found.enumerators,
            found.values,
            found.texts,
        )

    def _evaluated(self, cursor: CXCursor) -> int | float | None:
        """An integer or a number that clang computes."""
        lib = self.lib
        value = lib.clang_Cursor_Evaluate(cursor)
        if not value:
            return None
        kind = int(lib.clang_EvalResult_getKind(value))
        integer, number = lib.clang_EvalResult_getAsLongLong(value), lib.clang_EvalResult_getAsDouble(value)
        lib.clang_EvalResult_dispose(value)
        # Source: clang-c/Index.h, CXEval_Int and CXEval_Float.
        return int(integer) if kind == 1 else float(number) if kind == 2 else None

    def _note_number(self, cursor: CXCursor) -> None:
        value = self._evaluated(cursor)
        if value is not None:
            self._facts.numbers[self.unit.extent(cursor)] = value

    def _note_scalars(self, cursor: CXCursor) -> None:
        """The scalars that a constant is made of, but for those whose address it has."""
        if cursor.kind == NodeKind.UNARY_OPERATOR and self.text.startswith(b"&", self.unit.extent(cursor)[0]):
            return
        for child in self.unit.children(cursor):
            if unqualified(self.type_of(self.lib.clang_getCursorType(child))) in _EVALUATED:
                self._note_number(child)
            else:
                self._note_scalars(child)

    def note(self, cursor: CXCursor, made: SyntaxNode) -> None:
        facts, lib = self._facts, self.lib
        match made.kind:
            case NodeKind.SIZEOF:
                self._note_number(cursor)
            case NodeKind.CASE if len(made.children) == 3:
                for bound in self.unit.children(cursor)[:2]:
                    self._note_number(bound)
            case NodeKind.UNEXPOSED if _COMPUTED.match(self.text, made.begin):
                self._note_number(cursor)
                for condition in self.unit.children(cursor)[:1]:
                    self._note_number(condition)
            case NodeKind.UNEXPOSED if made.type.form is Form.ARRAY:  # __func__
                for child in self.unit.children(cursor):
                    if child.kind == NodeKind.STRING_LITERAL:
                        facts.texts[made.begin] = text_of(self.lib.clang_getCursorSpelling(child))
            case NodeKind.UNEXPOSED if made.type.form is Form.VOID:
                for index, each in zip(self.unit.children(cursor)[:-1], made.children, strict=False):
                    if each.kind is not NodeKind.OTHER:  # else the name of a field
                        self._note_number(index)
            case NodeKind.FUNCTION_DECL:
                result = lib.clang_getResultType(lib.clang_getCursorType(cursor))
                facts.results[made.declaration] = self.type_of(result)
            case NodeKind.PARM_DECL:
                alignment = int(lib.clang_Type_getAlignOf(lib.clang_getCursorType(cursor)))
                facts.alignments[made.type] = alignment
                facts.variables.add(made.declaration)
            case NodeKind.VAR_DECL:
                facts.variables.add(made.declaration)
                if space_of(made.type) is not Space.CONSTANT:
                    return
                value = self._evaluated(cursor) if unqualified(made.type) in _EVALUATED else None
                if value is not None:
                    facts.values[made.declaration] = value
                else:
                    self._note_scalars(cursor)
            case NodeKind.ENUM_CONSTANT_DECL:
                facts.enumerators[made.declaration] = int(lib.clang_getEnumConstantDeclValue(cursor))
            case NodeKind.STRUCT_DECL | NodeKind.UNION_DECL:
                offsets = {}
                for child in self.unit.children(cursor):
                    if child.kind == NodeKind.FIELD_DECL:
                        name = text_of(lib.clang_getCursorSpelling(child))
                        offsets[name] = int(lib.clang_Cursor_getOffsetOfField(child)) // 8
                ctype = lib.clang_getCursorType(cursor)
                alignment = int(lib.clang_Type_getAlignOf(ctype))
                facts.layouts[made.type.record] = Layout(made.type.nbytes, alignment, offsets)


def parse_for_cuda(path: str, text: bytes, options: BuildOptions, macros: Mapping[str, str]) -> Unit:
    """Parse preprocessed text; ``as_type`` is a function here, so that it is a call in the tree."""
    header = "#pragma clang system_header\n" + "".join(
        f"#define {n} {v}\n" for n, v in macros.items() if not n.startswith("__STDC")
    )
    header += header_text() + _reinterpretations()
    target = target_for(text.decode("latin-1"), PTX_TARGET)
    return unit_of({path: text}, (header, ""), [*clang_arguments(options, target), "-w"], options, macros)


@functools.cache
def _reinterpretations() -> str:
    """Declarations of ``as_type`` for every pair of types of one size; vectors of 3 are as large as of 4."""
    types = {
        f"{scalar}{width if width > 1 else ''}": nbytes * _WIDTHS[width]
        for scalar, nbytes in _SCALARS.items()
        for width in _WIDTHS
    }
    lines = ["#pragma OPENCL EXTENSION cl_khr_fp16 : enable", "#undef as_size_t"]
    for target, nbytes in (*types.items(), ("size_t", 8)):
        lines.append(f"#undef as_{target}")
        sources = [name for name, size in types.items() if size == nbytes]
        lines += [
            f"{target} __attribute__((overloadable, const)) as_{target}({source});" for source in sources
        ]
    return "\n".join(lines) + "\n"
