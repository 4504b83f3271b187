"""Inline PTX as CUDA C++, which has it with fewer constraints: an operand that fits none gets a variable.

Source: "Inline PTX Assembly in CUDA", sections 1.1 to 1.3.
"""

from __future__ import annotations

from collections.abc import Callable

from sdi.clc.cuda.types import TypeNames, UnknownConstruct, is_scalar
from sdi.clc.frontend.assembly import Assembly, Operand, read
from sdi.clc.frontend.syntax import Form, Space, SyntaxNode, Tree
from sdi.dataclass import dataclass, field

_REGISTERS = {
    "h": ("unsigned short", 2, Form.INTEGER),
    "r": ("unsigned int", 4, Form.INTEGER),
    "l": ("unsigned long", 8, Form.INTEGER),
    "f": ("float", 4, Form.FLOATING),
    "d": ("double", 8, Form.FLOATING),
}
"""By constraint: the type of a variable in such a register, its bytes, its form."""
_WINDOWS = {Space.LOCAL: "__cvta_generic_to_shared", Space.PRIVATE: "__cvta_generic_to_local"}
"""Pointers of CUDA C++ are generic; in PTX, as from OpenCL C, those to such memory count from its begin."""
_CONSTANTS = frozenset("ni")


@dataclass(slots=True)
class _Written:
    """``before``, ``after``: statements around the asm.  ``listed``: by operand, how it is passed.

    ``tied``: by operand, the output whose register it has instead of one of its own.
    """

    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    listed: dict[int, str] = field(default_factory=dict)
    tied: dict[int, int] = field(default_factory=dict)


def assembly_statement(
    tree: Tree,
    node: SyntaxNode,
    types: TypeNames,
    value: Callable[[SyntaxNode], str],
    target: Callable[[SyntaxNode], str],
) -> str:
    """An ASM node as a statement; ``value``, ``target``: write an expression and an lvalue.

    Raises UnknownConstruct.
    """
    found = read(tree, node)
    if found is None:
        raise UnknownConstruct(node, "this inline assembly")
    made = _Written()
    ties = {int(o.constraint): o for o in found.operands if o.constraint.isdigit()}
    for number, operand in enumerate(found.operands):
        if operand.constraint.isdigit():
            made.tied[number] = int(operand.constraint)
        elif operand.is_written:
            made.listed[number] = _output(made, number, operand, ties.get(number), types, value, target)
        else:
            made.listed[number] = _input(made, number, operand, types, value)
    if not set(made.tied.values()) <= {n for n in made.listed if found.operands[n].is_written}:
        raise UnknownConstruct(node, "an operand that shares a register with no output")
    written = _statement(found, made, node)
    grid = "\n#ifdef _CL_FLAT\n#error %ctaid in so large a grid: not supported on CUDA members\n#endif\n"
    before = grid if "ctaid" in found.template else ""
    if not made.before:
        return before + written
    return f"{before}{{ {' '.join(made.before)} {written} {' '.join(made.after)} }}"


def _statement(found: Assembly, made: _Written, node: SyntaxNode) -> str:
    places = {number: place for place, number in enumerate(made.listed)}
    clobbers = [each for each in found.clobbers if each == "memory"]
    marked = found.filled("\0{}\0", "%%" if made.listed else "%")
    if marked is None:
        raise UnknownConstruct(node, "this operand in the text of inline assembly")
    parts = marked.split("\0")
    for at in range(1, len(parts), 2) if not found.is_plain else ():
        number = int(parts[at])
        parts[at] = f"%{places[made.tied.get(number, number)]}"
    outputs = [text for number, text in made.listed.items() if found.operands[number].is_written]
    inputs = [text for number, text in made.listed.items() if not found.operands[number].is_written]
    listed = "".join(f" : {', '.join(each)}" for each in (outputs, inputs, [f'"{c}"' for c in clobbers]))
    volatile = "volatile " * found.is_volatile
    return f'asm {volatile}("{_literal("".join(parts))}"{listed.rstrip(" :")});'


def _literal(text: str) -> str:
    plain = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return "".join(plain.get(c, c if " " <= c <= "~" else f"\\{ord(c):03o}") for c in text)


def _register(operand: Operand) -> str:
    known = next((letter for letter in operand.constraint if letter in _REGISTERS), "")
    if not known:
        raise UnknownConstruct(operand.node, f"the constraint '{operand.constraint}' of inline assembly")
    return known


def _fits(operand: Operand, register: str) -> bool:
    """Whether CUDA C++ takes the operand for such a register."""
    _, nbytes, form = _REGISTERS[register]
    found = operand.node.type
    return found.form is form and found.nbytes == nbytes and not found.volatile


def _input(
    made: _Written, number: int, operand: Operand, types: TypeNames, value: Callable[[SyntaxNode], str]
) -> str:
    if set(operand.constraint) <= _CONSTANTS:
        return f'"n"({value(operand.node)})'
    register = _register(operand)
    if _fits(operand, register):
        return f'"{register}"({value(operand.node)})'
    name = f"_cl_a{number}"
    made.before.append(f"{_REGISTERS[register][0]} {name} = {_into(operand, register, types, value)};")
    return f'"{register}"({name})'


def _output(
    made: _Written,
    number: int,
    operand: Operand,
    tied: Operand | None,
    types: TypeNames,
    value: Callable[[SyntaxNode], str],
    target: Callable[[SyntaxNode], str],
) -> str:
    """``tied``: the input that is in its register."""
    register, node = _register(operand), operand.node
    sign = "+" if operand.is_read or tied is not None else "="
    if tied is None and _fits(operand, register):
        return f'"{sign}{register}"({target(node)})'
    if not is_scalar(node.type) and node.type.form is not Form.POINTER:
        raise UnknownConstruct(node, f"an operand of type '{node.type.spelling}' in inline assembly")
    name, place, kind = f"_cl_a{number}", f"_cl_o{number}", _REGISTERS[register][0]
    made.before.append(f"auto &{place} = {target(node)};")
    source = tied if tied is not None else operand if operand.is_read else None
    first = f" = {_into(source, register, types, value)}" if source is not None else ""
    made.before.append(f"{kind} {name}{first};")
    own = types.value(node.type, node)
    pointee = node.type.element
    if pointee is not None and pointee.space in _WINDOWS:
        raise UnknownConstruct(node, "a pointer to local or private memory that inline assembly writes")
    is_same = node.type.form is not Form.POINTER and node.type.nbytes == _REGISTERS[register][1]
    made.after.append(f"{place} = {f'_cl_as<{own}>({name})' if is_same else f'({own}){name}'};")
    return f'"{sign}{register}"({name})'


def _into(operand: Operand, register: str, types: TypeNames, value: Callable[[SyntaxNode], str]) -> str:
    """An operand's value as what is in such a register."""
    kind, nbytes, form = _REGISTERS[register]
    node = operand.node
    found, written = node.type, value(node)
    if found.form is Form.POINTER and found.element is not None and form is Form.INTEGER:
        window = _WINDOWS.get(found.element.space)
        return f"({kind}){window}({written})" if window else f"({kind})({written})"
    if found.form is Form.INTEGER and form is Form.INTEGER:
        return f"({kind})({written})"
    if is_scalar(found) and found.nbytes == nbytes:
        return f"_cl_as<{kind}>(({types.plain(found, node)})({written}))"
    raise UnknownConstruct(node, f"an operand of type '{found.spelling}' as '{operand.constraint}'")
