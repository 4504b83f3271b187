"""From libclang's cursors to our tree."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import replace

from sdi.clc.frontend.assembly import has_assembly
from sdi.clc.frontend.base_header import HEADER_PATH, USUAL_TARGET, header_text, parser_extensions
from sdi.clc.frontend.libclang import CXCursor, CXType, Unit, text_of
from sdi.clc.frontend.overloads import Signature, built_in, hidden, own_functions, probe_text
from sdi.clc.frontend.syntax import Form, Function, NodeKind, Space, SyntaxNode, Tree, Type
from sdi.clc.preprocess.options import BuildOptions

_BINARY = (
    "",
    ".*",
    "->*",
    "*",
    "/",
    "%",
    "+",
    "-",
    "<<",
    ">>",
    "<=>",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&",
    "^",
    "|",
    "&&",
    "||",
    "=",
    "*=",
    "/=",
    "%=",
    "+=",
    "-=",
    "<<=",
    ">>=",
    "&=",
    "^=",
    "|=",
    ",",
)
_UNARY = ("", "x++", "x--", "++", "--", "&", "*", "+", "-", "~", "!", "__real", "__imag", "__extension__", "")

_UNSIGNED = frozenset({4, 5, 6, 7, 8, 9, 10, 11, 12})
_INTEGERS = frozenset(range(3, 21))
_FLOATS = frozenset({21, 22, 23, 30, 31, 32})
_ATOMIC = 177
_ENUM = 106
_POINTER = 101
_RECORD = 105
_VECTORS = frozenset({113, 176})
_ARRAYS = frozenset({112, 114, 115, 116})
_FUNCTIONS = frozenset({110, 111})
# clang crashes when it is asked for the size of some others, such as the type of a built-in function.
_SIZED = frozenset({*_INTEGERS, *_FLOATS, *_VECTORS, *_ARRAYS, _ENUM, _POINTER, _RECORD, _ATOMIC})
_VOID = 2
_IMAGES = range(121, 157)
_SAMPLER = 157
_EVENT = 158
_WORD = re.compile(rb"[A-Za-z_$\x80-\xff][A-Za-z0-9_$\x80-\xff]*")
_KERNEL_WORD = re.compile(rb"\b(__)?kernel\b")
_KINDS: dict[int, NodeKind] = {kind.value: kind for kind in NodeKind}
_LEAVES = frozenset(
    {
        NodeKind.DECL_REF,
        NodeKind.TYPE_REF,
        NodeKind.INTEGER_LITERAL,
        NodeKind.FLOATING_LITERAL,
        NodeKind.STRING_LITERAL,
        NodeKind.CHARACTER_LITERAL,
    }
)
"""In C these have no children."""
_NAMED = frozenset({NodeKind.DECL_REF, NodeKind.MEMBER_REF, NodeKind.CALL})
_DECLARATIONS = frozenset(
    {
        NodeKind.FUNCTION_DECL,
        NodeKind.VAR_DECL,
        NodeKind.PARM_DECL,
        NodeKind.FIELD_DECL,
        NodeKind.STRUCT_DECL,
        NodeKind.UNION_DECL,
        NodeKind.ENUM_DECL,
        NodeKind.ENUM_CONSTANT_DECL,
        NodeKind.TYPEDEF_DECL,
    }
)
_SPACES = {
    0: Space.NONE,
    1: Space.GLOBAL,
    2: Space.LOCAL,
    3: Space.CONSTANT,
    4: Space.PRIVATE,
    5: Space.GENERIC,
}

_COMPUTED = frozenset(
    {
        NodeKind.BINARY_OPERATOR,
        NodeKind.COMPOUND_ASSIGNMENT,
        NodeKind.CONDITIONAL_OPERATOR,
        NodeKind.CAST,
        NodeKind.CALL,
    }
)

NO_TYPE = Type(Form.OTHER, "", "", 0, Space.NONE, False, False, False, False, None, 0, (0, 0), False)


def _component(of: Type, vector: SyntaxNode, begin: int, end: int) -> Type:
    """The type of components of a vector: libclang does not say where those of ``*p`` are."""
    whole = vector.type
    is_component = whole.form is Form.VECTOR and vector.begin == begin and vector.end < end
    if not is_component or of.space is not Space.NONE:
        return of
    return replace(of, space=whole.space, const=whole.const, volatile=whole.volatile)


def _pointer_to(array: Type) -> Type:
    """The pointer that a parameter declared as an array is."""
    assert array.element is not None
    # libclang tells the qualifiers of an array's elements with the array.
    element = replace(array.element, space=array.space, const=array.const, volatile=array.volatile)
    return Type(
        Form.POINTER,
        f"{element.spelling} *",
        f"{element.canonical} *",
        8,
        Space.NONE,
        False,
        False,
        False,
        False,
        element,
        0,
        (8, 8),
        True,
    )


def clang_arguments(options: BuildOptions, target: str) -> list[str]:
    """clang's command line for a program with these options.

    ``target``: a machine, for inline assembly, or ``USUAL_TARGET``; where data lie all have the same rules.
    """
    arguments = ["-x", "cl", f"-cl-std={options.read_as}", "-target", target]
    arguments += ["-Xclang", "-fdeclare-opencl-builtins", "-Xclang", parser_extensions(options.version)]
    arguments += ["-cl-no-stdinc", "-nostdinc", "-undef", "-fgnu-keywords", "-ferror-limit=100"]
    # Drivers made of an older clang only warn of it.
    arguments += ["-Wno-error=int-conversion", "-include", HEADER_PATH]
    arguments += options.flags
    return arguments


def target_for(text: str, assembly: str) -> str:
    """What preprocessed ``text`` is parsed for; ``assembly``: the machine whose assembly it may have."""
    return assembly if has_assembly(text) else USUAL_TARGET


def parse_unit(
    path: str,
    text: bytes,
    options: BuildOptions,
    macros: Mapping[str, str | None],
    extra: list[str],
    target: str = USUAL_TARGET,
) -> Unit:
    """Parse ``text`` as if it lay at ``path``; the caller leaves the Unit's context.

    ``macros``: predefined, None for what is not; clang also looks at them to know which built-in functions
    there are.
    """
    given = {n: v for n, v in macros.items() if not n.startswith("__STDC")}
    header = "#pragma clang system_header\n" + "".join(
        f"#define {n} {v}\n" for n, v in given.items() if v is not None
    )
    missing = "".join(f"#undef {n}\n" for n, v in given.items() if v is None)
    arguments = [*clang_arguments(options, target), *extra]
    return unit_of({path: text}, (header + header_text(), missing), arguments, options, given)


def unit_of(
    files: dict[str, bytes],
    header: tuple[str, str],
    arguments: list[str],
    options: BuildOptions,
    macros: Mapping[str, str | None],
) -> Unit:
    """Parse ``files`` behind ``header``, of two parts, with all built-in functions: see ``overloads``."""
    unit = Unit({**files, HEADER_PATH: "".join(header).encode()}, arguments)
    own = own_functions(unit, HEADER_PATH)
    known = frozenset((n, v) for n, v in macros.items() if n.startswith(("cl_", "__opencl_", "__OPENCL_")))
    language = replace(options, defines=(), include_folders=())
    declared = hidden(own, _built_in(frozenset(name for name, _, _ in own), language, known))
    if not declared:
        return unit
    with unit:
        pass
    return Unit({**files, HEADER_PATH: declared.join(header).encode()}, arguments)


@functools.lru_cache(maxsize=256)
def _built_in(
    names: frozenset[str], options: BuildOptions, macros: frozenset[tuple[str, str | None]]
) -> frozenset[Signature]:
    """The built-in functions with these names.  About 5 ms."""
    asked = sorted(name for name in names if name.islower())
    if not asked:
        return frozenset()
    header = "".join(f"#define {n} {v}\n" for n, v in macros if v is not None) + header_text()
    files = {"/__sdi__/names.cl": probe_text(asked), HEADER_PATH: header.encode()}
    with Unit(files, [*clang_arguments(options, USUAL_TARGET), "-w", "-ferror-limit=0"]) as unit:
        return frozenset(built_in(unit, HEADER_PATH))


class TreeBuilder:
    """Builds a Tree from one Unit.  Owned by: the thread of the build.

    ``noted``: the kinds of nodes that ``note`` wants to see.
    """

    noted: frozenset[NodeKind] = frozenset()

    def __init__(self, unit: Unit, text: bytes, target: str = USUAL_TARGET) -> None:
        self.unit = unit
        self.target = target
        self.lib = unit.lib
        self.text = text
        self.main = unit.main_file()
        self._has_globals = False
        self._functions: list[SyntaxNode] = []
        self._unused_bodies: list[tuple[int, int]] = []
        self._types: dict[tuple[int, int], Type] = {}

    def build(self) -> Tree:
        """The declarations of the main file, and the bodies of the functions that kernels may call."""
        cursors = [c for c in self.unit.children(self.unit.root()) if not self.is_foreign(c)]
        reachable = self._reachable_functions(cursors)
        declarations = [
            self.node(c, with_body=c.kind != NodeKind.FUNCTION_DECL or c.identity in reachable)
            for c in cursors
        ]
        grouped: dict[int, list[SyntaxNode]] = {}
        for node in self._functions:
            grouped.setdefault(node.declaration, []).append(node)
        functions = {
            key: Function(nodes[0].name, key, tuple(nodes), next((n for n in nodes if n.is_definition), None))
            for key, nodes in grouped.items()
        }
        return Tree(
            self.text.decode("latin-1"),
            tuple(declarations),
            functions,
            self._has_globals,
            tuple(self._unused_bodies),
            self.target,
        )

    def _reachable_functions(self, cursors: list[CXCursor]) -> set[int]:
        """Function declarations whose name the text of a kernel, or of a function it names, mentions.

        Programs with large libraries of helpers use few of them; names are found much faster than calls.
        """
        lib = self.lib
        by_name: dict[bytes, list[CXCursor]] = {}
        pending: list[bytes] = []
        for cursor in cursors:
            if cursor.kind == NodeKind.FUNCTION_DECL:
                name = text_of(lib.clang_getCursorSpelling(cursor)).encode()
                by_name.setdefault(name, []).append(cursor)
                begin, _ = self.unit.extent(cursor)
                at = self.unit.file_offset(lib.clang_getCursorLocation(cursor))[1]
                if _KERNEL_WORD.search(self.text, begin, at):
                    pending.append(name)
        reachable: set[int] = set()
        while pending:
            for cursor in by_name.pop(pending.pop(), ()):
                reachable.add(cursor.identity)
                begin, end = self.unit.extent(cursor)
                pending += by_name.keys() & set(_WORD.findall(self.text, begin, end))
        return reachable

    def is_foreign(self, cursor: CXCursor) -> bool:
        """Declared in the base header or by clang itself."""
        return self.unit.file_offset(self.lib.clang_getCursorLocation(cursor))[0] != self.main

    def note(self, cursor: CXCursor, made: SyntaxNode) -> None:
        """A node was made."""

    def node(self, cursor: CXCursor, with_body: bool = True) -> SyntaxNode:
        """The tree below ``cursor``; without its body for a function that nothing calls."""
        lib = self.lib
        kind = _KINDS.get(cursor.kind, NodeKind.OTHER)
        begin, end = self.unit.extent(cursor)
        name, operator, declaration = "", "", 0
        is_definition = is_static = False
        location = 0
        if kind is NodeKind.PARM_DECL:
            location = self.unit.file_offset(lib.clang_getCursorLocation(cursor))[1]
        if kind in _DECLARATIONS:
            name = text_of(lib.clang_getCursorSpelling(cursor))
            declaration = lib.clang_getCanonicalCursor(cursor).identity
            if kind in (NodeKind.FUNCTION_DECL, NodeKind.VAR_DECL):
                is_definition = bool(lib.clang_isCursorDefinition(cursor))
                location = self.unit.file_offset(lib.clang_getCursorLocation(cursor))[1]
        elif kind in _NAMED:
            referenced = lib.clang_getCursorReferenced(cursor)
            declaration = lib.clang_getCanonicalCursor(referenced).identity
            name = text_of(lib.clang_getCursorSpelling(cursor))
        elif kind is NodeKind.BINARY_OPERATOR or kind is NodeKind.COMPOUND_ASSIGNMENT:
            operator = _BINARY[lib.clang_getCursorBinaryOperatorKind(cursor)]
        elif kind is NodeKind.UNARY_OPERATOR:
            operator = _UNARY[lib.clang_getCursorUnaryOperatorKind(cursor)]
        if kind is NodeKind.VAR_DECL:
            is_static = int(lib.clang_Cursor_getStorageClass(cursor)) in (2, 3)
        parts = [] if kind in _LEAVES else self.unit.children(cursor)
        if not with_body and parts and parts[-1].kind == NodeKind.COMPOUND:
            self._unused_bodies.append(self.unit.extent(parts.pop()))
        if kind is NodeKind.UNEXPOSED and len(parts) == 4:  # GNU's a ?: b names a three times
            allocations = {self.unit.extent(part) for part in parts[:3]}
            parts = parts if len(allocations) > 1 else [parts[0], parts[3]]
        children = tuple([self.node(child) for child in parts]) if parts else ()
        node_type = self.type_of(lib.clang_getCursorType(cursor))
        if node_type.form is Form.ARRAY and self._is_decayed(kind, operator, cursor, children):
            node_type = _pointer_to(node_type)
        if kind is NodeKind.UNEXPOSED and len(children) == 1 and node_type.form is not Form.POINTER:
            children = (self._vector_of(children[0], end),)
            node_type = _component(node_type, children[0], begin, end)
        if kind is NodeKind.VAR_DECL and node_type.space is Space.GLOBAL:
            self._has_globals = True
        made = SyntaxNode(
            kind,
            name,
            node_type,
            begin,
            end,
            children,
            declaration,
            operator,
            is_definition,
            is_static,
            location,
        )
        if kind is NodeKind.FUNCTION_DECL:  # at program scope, or a prototype inside a function
            self._functions.append(made)
        if kind in self.noted:
            self.note(cursor, made)
        return made

    def _vector_of(self, node: SyntaxNode, end: int) -> SyntaxNode:
        """The vector ``*p`` of components ``p->xy`` that end there, of which libclang has ``p`` only."""
        vector = node.type.element if node.type.form in (Form.POINTER, Form.ARRAY) else None
        if vector is None or vector.form is not Form.VECTOR or b"->" not in self.text[node.end : end]:
            return node
        return SyntaxNode(NodeKind.UNARY_OPERATOR, "", vector, node.begin, node.end, (node,), operator="*")

    def _is_decayed(
        self, kind: NodeKind, operator: str, cursor: CXCursor, children: tuple[SyntaxNode, ...]
    ) -> bool:
        """Whether something that libclang calls an array is a pointer: a parameter, or made of one.

        C adjusts a parameter's array to a pointer; libclang tells the type as it was written.
        """
        match kind:
            case NodeKind.PARM_DECL:
                return True
            case NodeKind.DECL_REF:
                return bool(self.lib.clang_getCursorReferenced(cursor).kind == NodeKind.PARM_DECL)
            case NodeKind.PAREN | NodeKind.UNEXPOSED:
                return len(children) == 1 and children[0].type.form is Form.POINTER
            case NodeKind.UNARY_OPERATOR:
                return operator != "*"
            case _:  # no value is an array
                return kind in _COMPUTED

    def type_of(self, ctype: CXType) -> Type:
        """Our value for a libclang type; each is made once."""
        key = ctype.identity
        known = self._types.get(key)
        if known is None:
            known = self._types[key] = self._make_type(ctype) if ctype.kind else NO_TYPE
        return known

    def _make_type(self, ctype: CXType) -> Type:
        lib = self.lib
        canonical = lib.clang_getCanonicalType(ctype)
        kind: int = canonical.kind
        form, element, count = Form.OTHER, None, 0
        holds_pointer = punned = False
        nbytes = max(int(lib.clang_Type_getSizeOf(canonical)), 0) if kind in _SIZED else 0
        scalars, record = (nbytes, nbytes), 0
        if kind == _ATOMIC:
            inner = self.type_of(lib.clang_Type_getValueType(canonical))
            form, scalars = inner.form, inner.scalar_nbytes
        elif kind in _INTEGERS or kind == _ENUM:
            form = Form.INTEGER
            if kind == _ENUM:  # those of no negative number are unsigned
                kind = lib.clang_getEnumDeclIntegerType(lib.clang_getTypeDeclaration(canonical)).kind
        elif kind in _FLOATS:
            form = Form.FLOATING
        elif kind in _VECTORS or kind in _ARRAYS:
            form = Form.VECTOR if kind in _VECTORS else Form.ARRAY
            element = self.type_of(lib.clang_getElementType(canonical))
            count = max(int(lib.clang_getNumElements(canonical)), 0)
            scalars, holds_pointer = element.scalar_nbytes, element.holds_pointer
            punned = element.punned
        elif kind == _POINTER:
            form, holds_pointer = Form.POINTER, True
            # The type as written keeps the pointee's typedef names; behind a typedef there are none.
            pointee = lib.clang_getPointeeType(ctype)
            element = self.type_of(pointee if pointee.kind else lib.clang_getPointeeType(canonical))
        elif kind == _RECORD:
            form = Form.RECORD
            scalars, holds_pointer, punned = self._record(canonical)
            record = lib.clang_getCanonicalCursor(lib.clang_getTypeDeclaration(canonical)).identity
        elif kind in _FUNCTIONS:
            form, scalars = Form.FUNCTION, (0, 0)
        elif kind == _VOID:
            form, scalars = Form.VOID, (0, 0)
        elif kind == _SAMPLER:
            form = Form.SAMPLER
        elif kind == _EVENT:
            form = Form.EVENT
        elif kind in _IMAGES:
            form = Form.IMAGE
        return Type(
            form,
            text_of(lib.clang_getTypeSpelling(ctype)),
            text_of(lib.clang_getTypeSpelling(canonical)),
            nbytes,
            _SPACES.get(int(lib.clang_getAddressSpace(canonical)), Space.GENERIC),
            bool(lib.clang_isConstQualifiedType(canonical)),
            bool(lib.clang_isVolatileQualifiedType(canonical)),
            bool(lib.clang_isRestrictQualifiedType(canonical)),
            kind in _UNSIGNED,
            element,
            count,
            scalars,
            holds_pointer,
            punned,
            record,
        )

    def _record(self, record: CXType) -> tuple[tuple[int, int], bool, bool]:
        """Largest and smallest scalar of a record, whether it holds a pointer, and one in a union."""
        largest, smallest, pointer, union = 0, 0, False, False
        pending = [record]
        seen = 0
        while pending:
            current = pending.pop()
            seen += 1
            declaration = self.lib.clang_getTypeDeclaration(current)
            union = union or declaration.kind == NodeKind.UNION_DECL
            for child in self.unit.children(declaration):
                if child.kind != NodeKind.FIELD_DECL:
                    continue
                field = self.lib.clang_getCanonicalType(self.lib.clang_getCursorType(child))
                while field.kind in _ARRAYS or field.kind in _VECTORS:
                    field = self.lib.clang_getCanonicalType(self.lib.clang_getElementType(field))
                if field.kind == _RECORD and seen < 1000:
                    pending.append(field)
                    continue
                pointer = pointer or field.kind == _POINTER
                nbytes = max(int(self.lib.clang_Type_getSizeOf(field)), 1)
                largest = max(largest, nbytes)
                smallest = min(smallest or nbytes, nbytes)
        return (largest, smallest), pointer, pointer and union
