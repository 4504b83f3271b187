"""Built-in functions that have the name of one of a program's own functions.

clang declares built-in functions when it finds no other declaration of a name, so a program's own
``float4 step(float4)`` would hide ``step(float, float)``.  Drivers declare them all before the program, which
adds one: there both are called, by their arguments.  So such names are declared before the program here too.
"""

from __future__ import annotations

from collections.abc import Iterable

from sdi.clc.frontend.libclang import CXCursor, CXType, Unit, text_of
from sdi.clc.frontend.syntax import NodeKind

_OVERLOADED = 49
_POINTER, _ATOMIC = 101, 177
_VECTORS = frozenset({113, 176})
_SHORT = {
    f"unsigned {name}": short
    for name, short in (("char", "uchar"), ("short", "ushort"), ("int", "uint"), ("long", "ulong"))
}
_SPACES = {1: "__global ", 2: "__local ", 3: "__constant ", 4: "__private ", 5: "__generic "}

Signature = tuple[str, str, tuple[str, ...]]
"""A function's name, what it returns, and its parameters' types, as text."""


def own_functions(unit: Unit, header: str) -> set[Signature]:
    """The functions that are declared outside ``header``."""
    own = [cursor for cursor in unit.children(unit.root()) if cursor.kind == NodeKind.FUNCTION_DECL]
    return {_signature(unit, cursor) for cursor in own if not _is_in(unit, cursor, header)}


def probe_text(names: list[str]) -> bytes:
    """A program with a call of each name, none of them right: so clang tells what they could mean."""
    calls = "".join(f"if ({name}(it, it, it, it, it, it, it, it, it));\n" for name in names)
    return f"struct __sdi_it {{ int it; }};\nvoid __sdi_names(struct __sdi_it it) {{\n{calls}}}\n".encode()


def built_in(probe: Unit, header: str) -> set[Signature]:
    """The functions that the text of ``probe_text`` mentions and nobody declares."""
    lib = probe.lib
    found: set[Signature] = set()
    pending = probe.children(probe.root())[-1:]
    while pending:
        cursor = pending.pop()
        if cursor.kind != NodeKind.DECL_REF:
            pending += probe.children(cursor)
            continue
        named = lib.clang_getCursorReferenced(cursor)
        if named.kind == _OVERLOADED:
            count = lib.clang_getNumOverloadedDecls(named)
            overloads = [lib.clang_getOverloadedDecl(named, number) for number in range(count)]
            found |= {_signature(probe, overload) for overload in overloads}
        elif named.kind == NodeKind.FUNCTION_DECL and not _is_in(probe, named, header):
            found.add(_signature(probe, named))
    return found


def hidden(own: Iterable[Signature], there: Iterable[Signature]) -> str:
    """Declarations of the built-in functions in ``there``, but for those that ``own`` ones replace."""
    replaced = {(name, parameters) for name, _, parameters in own}
    names = {name for name, _ in replaced}
    wanted = [one for one in there if one[0] in names and (one[0], one[2]) not in replaced]
    return "".join(map(declaration, sorted(wanted)))


def _is_in(unit: Unit, cursor: CXCursor, path: str) -> bool:
    lib = unit.lib
    file = int(lib.clang_getFile(unit.handle, path.encode()) or 0)
    return bool(unit.file_offset(lib.clang_getCursorLocation(cursor))[0] == file)


def declaration(signature: Signature) -> str:
    """The function as C."""
    name, result, parameters = signature
    return f"{result} __attribute__((overloadable)) {name}({', '.join(parameters) or 'void'});\n"


def _signature(unit: Unit, cursor: CXCursor) -> Signature:
    lib = unit.lib
    kind = lib.clang_getCursorType(cursor)
    parameters = [lib.clang_getArgType(kind, at) for at in range(max(0, lib.clang_getNumArgTypes(kind)))]
    return (
        text_of(lib.clang_getCursorSpelling(cursor)),
        _text(unit, lib.clang_getResultType(kind)),
        tuple([_text(unit, lib.clang_getUnqualifiedType(parameter)) for parameter in parameters]),
    )


def _text(unit: Unit, given: CXType) -> str:
    """A type as C has it before a name: clang's own text of some is another type, or none."""
    lib = unit.lib
    kind = lib.clang_getCanonicalType(given)
    if kind.kind == _POINTER:
        return _text(unit, lib.clang_getPointeeType(kind)) + " *"
    if kind.kind == _ATOMIC:
        inner = text_of(lib.clang_getTypeSpelling(lib.clang_Type_getValueType(kind)))
        name = f"atomic_{_SHORT.get(inner, inner)}"
    elif kind.kind in _VECTORS:
        inner = text_of(lib.clang_getTypeSpelling(lib.clang_getElementType(kind)))
        name = f"{_SHORT.get(inner, inner)}{lib.clang_getNumElements(kind)}"
    else:
        return text_of(lib.clang_getTypeSpelling(kind))
    const = "const " if lib.clang_isConstQualifiedType(kind) else ""
    volatile = "volatile " if lib.clang_isVolatileQualifiedType(kind) else ""
    space = _SPACES.get(int(lib.clang_getAddressSpace(kind)), "")
    return f"{const}{volatile}{space}{name}"
