"""The tree of a program as the front end's passes read it: plain values, free of libclang.

Offsets count bytes of the preprocessed text.  ``(children of) UNEXPOSED`` nodes are what libclang has
no name for: implicit conversions (extent of their only child), vector components (``v.xy``: the
child is the vector) and a few operators; passes that don't know a node must assume the worst.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import NamedTuple

from sdi.dataclass import dataclass


class NodeKind(IntEnum):
    """Node kinds; values are libclang's CXCursorKind."""

    STRUCT_DECL = 2
    UNION_DECL = 3
    ENUM_DECL = 5
    FIELD_DECL = 6
    ENUM_CONSTANT_DECL = 7
    FUNCTION_DECL = 8
    VAR_DECL = 9
    PARM_DECL = 10
    TYPEDEF_DECL = 20
    TYPE_REF = 43
    UNEXPOSED = 100
    DECL_REF = 101
    MEMBER_REF = 102
    CALL = 103
    INTEGER_LITERAL = 106
    FLOATING_LITERAL = 107
    STRING_LITERAL = 109
    CHARACTER_LITERAL = 110
    PAREN = 111
    UNARY_OPERATOR = 112
    ARRAY_SUBSCRIPT = 113
    BINARY_OPERATOR = 114
    COMPOUND_ASSIGNMENT = 115
    CONDITIONAL_OPERATOR = 116
    CAST = 117
    COMPOUND_LITERAL = 118
    INIT_LIST = 119
    SIZEOF = 136
    LABEL = 201
    COMPOUND = 202
    CASE = 203
    DEFAULT = 204
    IF = 205
    SWITCH = 206
    WHILE = 207
    DO = 208
    FOR = 209
    GOTO = 210
    INDIRECT_GOTO = 211
    CONTINUE = 212
    BREAK = 213
    RETURN = 214
    ASM = 215
    NULL_STATEMENT = 230
    DECL_STATEMENT = 231
    TRANSLATION_UNIT = 350
    UNEXPOSED_ATTRIBUTE = 400
    OTHER = 0


LOOPS = frozenset({NodeKind.WHILE, NodeKind.DO, NodeKind.FOR})
STEPPING = ("++", "--", "x++", "x--")
"""Operators that change their operand."""
WAYS_OUT = frozenset({NodeKind.RETURN, NodeKind.BREAK, NodeKind.CONTINUE})
LEAVES = frozenset(
    {
        NodeKind.INTEGER_LITERAL,
        NodeKind.FLOATING_LITERAL,
        NodeKind.STRING_LITERAL,
        NodeKind.CHARACTER_LITERAL,
        NodeKind.SIZEOF,
        NodeKind.BREAK,
        NodeKind.CONTINUE,
        NodeKind.NULL_STATEMENT,
        NodeKind.UNEXPOSED_ATTRIBUTE,
        NodeKind.STRUCT_DECL,
        NodeKind.UNION_DECL,
        NodeKind.ENUM_DECL,
        NodeKind.TYPEDEF_DECL,
        NodeKind.TYPE_REF,
    }
)
"""What has no effect and no address for a value."""


class Space(Enum):
    """Address spaces; NONE for types that are not in memory of their own, such as pointees of casts."""

    NONE = 0
    GLOBAL = 1
    LOCAL = 2
    CONSTANT = 3
    PRIVATE = 4
    GENERIC = 5


OWN_SPACES = (Space.PRIVATE, Space.LOCAL)
"""Memory of a work-item, or of its group."""


class Form(Enum):
    """What a type is, typedefs resolved."""

    VOID = "void"
    INTEGER = "integer"
    FLOATING = "floating"
    VECTOR = "vector"
    POINTER = "pointer"
    ARRAY = "array"
    RECORD = "record"
    IMAGE = "image"
    SAMPLER = "sampler"
    EVENT = "event"
    FUNCTION = "function"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Type:
    """A type with its qualifiers.

    ``spelling``: as written, typedef names kept; ``canonical``: typedefs resolved.
    ``nbytes``: ``sizeof``, 0 when it has none.
    ``element``: pointee, or type of an element of a vector or array; None for pointees of a pointer
    that is a member of a record.
    ``count``: elements of a vector or array.
    ``scalar_nbytes``: the largest and the smallest scalar inside; (0, 0) without any.
    ``holds_pointer``: a value of it contains a pointer.
    ``punned``: it has a pointer inside a union.
    ``record``: identity of a record's declaration, as in ``SyntaxNode``, another may have its name; else 0.
    """

    form: Form
    spelling: str
    canonical: str
    nbytes: int
    space: Space
    const: bool
    volatile: bool
    restrict: bool
    unsigned: bool
    element: Type | None
    count: int
    scalar_nbytes: tuple[int, int]
    holds_pointer: bool
    punned: bool = False
    record: int = 0


class SyntaxNode(NamedTuple):  # programs have many; a frozen dataclass takes four times as long to make
    """A declaration, statement or expression.

    ``name``: of a declaration, or of what a reference refers to.
    ``declaration``: identity of the declaration (canonical), for declarations and references; 0: none.
    ``operator``: of unary, binary and assignment operators, postfix ones as ``x++``.
    ``is_static_storage``: of variables that live as long as the program.
    ``location``: offset of the name, for declarations.
    """

    kind: NodeKind
    name: str
    type: Type
    begin: int
    end: int
    children: tuple[SyntaxNode, ...]
    declaration: int = 0
    operator: str = ""
    is_definition: bool = False
    is_static_storage: bool = False
    location: int = 0

    @property
    def operands(self) -> tuple[SyntaxNode, ...]:
        """The children without references to types, and of a cast without the sizes of arrays in its type."""
        if self.kind is NodeKind.CAST:
            return self.children[-1:]
        for child in self.children:
            if child.kind is NodeKind.TYPE_REF:
                return tuple([each for each in self.children if each.kind is not NodeKind.TYPE_REF])
        return self.children

    def walk(self) -> Iterator[SyntaxNode]:
        """This node and all below it, in source order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children[::-1]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program: all its declarations, and its body's node when it is defined."""

    name: str
    declaration: int
    nodes: tuple[SyntaxNode, ...]
    definition: SyntaxNode | None

    @property
    def body(self) -> SyntaxNode | None:
        """The compound statement."""
        if self.definition is None:
            return None
        return next((n for n in self.definition.children if n.kind is NodeKind.COMPOUND), None)

    @property
    def parameters(self) -> tuple[SyntaxNode, ...]:
        """Parameters of the definition, else of the first declaration."""
        node = self.definition or self.nodes[0]
        return tuple(n for n in node.children if n.kind is NodeKind.PARM_DECL)

    @property
    def attributes(self) -> tuple[SyntaxNode, ...]:
        """Attributes of all declarations, ``__kernel`` included."""
        return tuple(
            n for node in self.nodes for n in node.children if n.kind is NodeKind.UNEXPOSED_ATTRIBUTE
        )


@dataclass(frozen=True, slots=True)
class Tree:
    """A parsed program.

    ``text``: what the offsets count; one character per byte (latin-1).
    ``has_global_variables``: it declares variables in global memory.
    ``unused_bodies``: allocations of the bodies of functions that no kernel can call; they have no nodes.
    ``target``: clang's name of the machine that it was parsed for, whose assembly it may have.
    """

    text: str
    declarations: tuple[SyntaxNode, ...]
    functions: dict[int, Function]
    has_global_variables: bool
    unused_bodies: tuple[tuple[int, int], ...]
    target: str = ""

    def source(self, node: SyntaxNode) -> str:
        """The text of a node."""
        return self.text[node.begin : node.end]

    def reached(self, function: Function) -> Iterator[SyntaxNode]:
        """All nodes of the bodies of ``function`` and of functions that it may call."""
        seen: set[int] = set()
        pending = [function]
        while pending:
            current = pending.pop()
            if current.declaration in seen or current.body is None:
                continue
            seen.add(current.declaration)
            for node in current.body.walk():
                yield node
                if node.kind is NodeKind.DECL_REF and node.declaration in self.functions:
                    pending.append(self.functions[node.declaration])

    def is_gnu_conditional(self, node: SyntaxNode) -> bool:
        """Whether an UNEXPOSED node is GNU's ``a ?: b``; its operands are these two."""
        operands = node.operands
        return len(operands) == 2 and "?" in self.text[operands[0].end : operands[1].begin]


def callee_of(call: SyntaxNode) -> SyntaxNode | None:
    """The DECL_REF of a call's function, through parentheses and conversions."""
    node = call.children[0] if call.children else None
    while node is not None and node.kind in (NodeKind.UNEXPOSED, NodeKind.PAREN) and len(node.children) == 1:
        node = node.children[0]
    return node if node is not None and node.kind is NodeKind.DECL_REF else None


def is_zero(node: SyntaxNode, tree: Tree) -> bool:
    """A null pointer constant."""
    while node.kind in (NodeKind.UNEXPOSED, NodeKind.PAREN, NodeKind.CAST) and len(node.operands) == 1:
        node = node.operands[0]
    return node.kind is NodeKind.INTEGER_LITERAL and tree.source(node).rstrip("uUlL") in ("0", "0x0", "NULL")


def outside_literals(text: str, at: int) -> Iterator[tuple[int, str]]:
    """Offset and character from ``at`` on, without string and character literals."""
    while at < len(text):
        char = text[at]
        if char in "\"'":
            at += 1
            while text[at] != char:
                at += 2 if text[at] == "\\" else 1
        else:
            yield at, char
        at += 1


def bare(node: SyntaxNode) -> SyntaxNode:
    """Without parentheses and conversions that nobody wrote; a component of a vector is no conversion."""
    while node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(node.operands) == 1:
        (child,) = node.operands
        if node.kind is NodeKind.UNEXPOSED and (node.begin, node.end) != (child.begin, child.end):
            break
        node = child
    return node


def has_any(node: SyntaxNode, kinds: frozenset[NodeKind]) -> bool:
    """Whether a node, or one below it, is of one of these kinds."""
    return any(each.kind in kinds for each in node.walk())


def ends_with_way_out(statement: SyntaxNode) -> bool:
    """Whether nobody gets to what follows a statement."""
    if statement.kind is NodeKind.COMPOUND:
        return bool(statement.children) and ends_with_way_out(statement.children[-1])
    return statement.kind in WAYS_OUT
