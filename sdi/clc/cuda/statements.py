"""OpenCL C statements as CUDA C++."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace

from sdi.clc.cuda.assembly import assembly_statement
from sdi.clc.cuda.blocks import inside, label_of, leaves, statement_expression, with_value
from sdi.clc.cuda.branches import BranchWriter, is_chain
from sdi.clc.cuda.expressions import ExpressionWriter
from sdi.clc.cuda.literals import known
from sdi.clc.cuda.tree import CudaTree
from sdi.clc.cuda.types import TypeNames, UnknownConstruct, safe_name, space_of
from sdi.clc.frontend.syntax import LOOPS, Form, NodeKind, Space, SyntaxNode, outside_literals
from sdi.clc.preprocess.conditions import evaluate
from sdi.clc.preprocess.lines import LineMap
from sdi.clc.preprocess.macros import MacroError

_NOT_UNROLLED = re.compile(r"\bnounroll\b|\bunroll\s*\(\s*disable\s*\)")
_UNROLLED = re.compile(
    r"\b(?:(?:__)?opencl_unroll_hint(?:__)?|unroll_count|unroll)\b\s*(\(.*|[^\n\")]*)", re.DOTALL
)
_RANGE_LIMIT = 1024
_JUMPS, _CLASSES = (NodeKind.GOTO, NodeKind.SWITCH), (Form.VECTOR, Form.RECORD)
_CONSTANT_LIMIT_NBYTES = 60_000  # of the 64 KiB that a module may have


def is_assertion(source: str) -> bool:
    """Of C's ``_Static_assert``, which clang has checked."""
    return re.match(r"_?[Ss]tatic_assert\b", source) is not None


def _unrolled(before: str) -> str:
    """A pragma for what stands before a loop; empty where the number is not known here: it is a hint."""
    if _NOT_UNROLLED.search(before):
        return "\n#pragma unroll 1\n"
    match = _UNROLLED.search(before)
    if match is None:
        return ""
    number = match[1].strip()
    if number.startswith("("):
        depths = itertools.accumulate((c == "(") - (c == ")") for c in number)
        number = number[: next((at for at, depth in enumerate(depths) if depth == 0), 0)][1:].strip()
    if number in ("", "full"):
        return "\n#pragma unroll\n"
    try:
        count = evaluate(number)
    except MacroError:
        return ""
    return f"\n#pragma unroll {count}\n" if count > 0 else ""


class StatementWriter:
    """Writes the statements and variables of one program.  Owned by: the thread of the build."""

    def __init__(
        self, program: CudaTree, types: TypeNames, expressions: ExpressionWriter, lines: LineMap
    ) -> None:
        self.tree = program.tree
        self._numbers = program.numbers
        self.types = types
        self.expressions = expressions
        self.lines = lines
        self._constant_nbytes = 0
        may_jump = re.search(r"\b(goto|switch)\b", self.tree.text)
        bodies = [f.body for f in self.tree.functions.values() if f.body is not None] if may_jump else []
        self._jumping = [
            (body.begin, body.end) for body in bodies if any(each.kind in _JUMPS for each in body.walk())
        ]
        self._branches = BranchWriter(expressions.condition)
        expressions.statement = self

    def place(self, node: SyntaxNode) -> str:
        """``#line`` for the text of ``node``."""
        file, line = self.lines.place(node.begin)
        return f'\n#line {line} "{file.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"\n'

    def block(self, node: SyntaxNode) -> str:
        """A compound statement with its braces."""
        return f"{{{self.scope(lambda: ''.join(self.place(each) + self(each) for each in node.children))}\n}}"

    def scope(self, write: Callable[[], str]) -> str:
        """What ``write`` makes, behind the variables that compound literals in it are."""
        outer, self.expressions.compounds.declared = self.expressions.compounds.declared, []
        written = write()
        declared, self.expressions.compounds.declared = self.expressions.compounds.declared, outer
        return " ".join(declared) + written

    def __call__(self, node: SyntaxNode) -> str:
        """One statement."""
        value, children = self.expressions, node.children
        left = self._left(node)
        if left is not None:
            return left
        match node.kind:
            case NodeKind.COMPOUND:
                return self.block(node)
            case NodeKind.DECL_STATEMENT:
                return " ".join(self.declarations(node))
            case NodeKind.NULL_STATEMENT:
                return ";"
            case NodeKind.IF:
                yes, no = self.nested(children[1]), self.nested(children[2]) if len(children) > 2 else ""
                if is_chain(children[0]):
                    return self._branches(children[0], yes, no)
                return f"if ({value.condition(children[0])}) {yes}{no and f' else {no}'}"
            case NodeKind.WHILE:
                return f"while ({value.loop_condition(children[0])}) {self.nested(children[1])}"
            case NodeKind.DO:
                return f"do {self.nested(children[0])} while ({value.loop_condition(children[1])});"
            case NodeKind.FOR:
                return self._for(node)
            case NodeKind.SWITCH:
                return f"switch ({value(children[0])}) {self.nested(children[1])}"
            case NodeKind.CASE:
                return f"{self._labels(node)} {self(children[-1])}"
            case NodeKind.DEFAULT:
                return f"default: {self(children[0])}"
            case NodeKind.BREAK:
                return "break;"
            case NodeKind.CONTINUE:
                return "continue;"
            case NodeKind.RETURN:
                return f"return {value(children[0])};" if children else "return;"
            case NodeKind.LABEL | NodeKind.GOTO:
                return self._label(node)
            case NodeKind.ASM:
                return assembly_statement(self.tree, node, self.types, value, value.target)
            case NodeKind.INDIRECT_GOTO:
                raise UnknownConstruct(node, "a computed goto")
            case NodeKind.OTHER:
                return self._attributed(node)
            case _:
                return f"{value(node)};"

    def nested(self, node: SyntaxNode) -> str:
        """The body of a control statement, in braces so that it may be several C++ statements."""
        if node.kind is NodeKind.COMPOUND:
            return self.block(node)
        return f"{{{self.scope(lambda: self.place(node) + self(node))}\n}}"

    def _left(self, node: SyntaxNode) -> str | None:
        """A statement whose value is a statement expression that a jump leaves, as a block; else None."""
        is_value = node.kind in (NodeKind.RETURN, NodeKind.COMPOUND_ASSIGNMENT) or node.operator == "="
        valued = node.children[-1] if is_value and node.children else node

        def end(value: SyntaxNode) -> str:
            return self(value if valued is node else node._replace(children=(*node.children[:-1], value)))

        return self._left_block(valued, end)

    def _left_block(self, valued: SyntaxNode, end: Callable[[SyntaxNode], str]) -> str | None:
        """A statement expression that a jump leaves, as a block; ``end`` writes what becomes of its value."""
        found = inside(self.tree, valued)
        block = statement_expression(self.tree, found) if found is not None else None
        if found is None or block is None or not leaves(self.tree, block):
            return None
        written = self.expressions.block_of(block, lambda value: end(with_value(valued, found, value)))
        return f"{{ {written} }}"

    def _label(self, node: SyntaxNode) -> str:
        name = safe_name(label_of(self.tree, node))
        return f"goto {name};" if node.kind is NodeKind.GOTO else f"{name}: {self(node.children[-1])}"

    def _labels(self, node: SyntaxNode) -> str:
        """One ``case``, or one for each value of a range, which C++ does not have."""
        *bounds, _ = node.children
        if len(bounds) == 1:
            return f"case {self.expressions(bounds[0])}:"
        low, high = (self._numbers.get((each.begin, each.end)) for each in bounds)
        if not isinstance(low, int) or not isinstance(high, int):
            raise UnknownConstruct(node, "a range of cases whose ends are not numbers")
        if not low <= high < low + _RANGE_LIMIT:
            raise UnknownConstruct(node, f"a range of {high - low + 1} cases")
        return " ".join(f"case {number}{'l' * (abs(number) >> 31 > 0)}:" for number in range(low, high + 1))

    def _attributed(self, node: SyntaxNode) -> str:
        """A statement with an attribute or a pragma before it."""
        statements = [
            c for c in node.children if c.kind in LOOPS or c.kind in (NodeKind.COMPOUND, NodeKind.IF)
        ]
        source = self.tree.source(node)
        if len(statements) != 1 or not source.startswith(("#", "__attribute__", "[[", "_Pragma")):
            are_empty = all(each.kind is NodeKind.NULL_STATEMENT for each in node.children)
            if source.startswith(("__attribute__", "[[")) and are_empty:
                return ";"
            return f"{self.expressions(node)};"
        before = self.tree.text[node.begin : statements[0].begin]
        unroll = _unrolled(before) if statements[0].kind in LOOPS else ""
        return unroll + self(statements[0])

    def _for(self, node: SyntaxNode) -> str:
        """The children do not say which clauses are missing: the semicolons do."""
        first, second, closing = self._clauses(node)
        init = condition = increment = ""
        before = ""
        for child in node.children[:-1]:
            if child.begin < first:
                if child.kind is NodeKind.DECL_STATEMENT:
                    written = self.declarations(child, may_jump=False)
                    if len(written) == 1:
                        init = written[0].rstrip(";")
                    else:
                        before = " ".join(written)
                else:
                    init = self.expressions(child)
            elif child.begin < second:
                condition = self.expressions.loop_condition(child)
            elif child.begin < closing:
                increment = self.expressions(child)
        body = self.nested(node.children[-1])
        # In C the body may hide the loop's variable.
        loop = f"for ({init}; {condition}; {increment}) {{{body}}}"
        return f"{{ {before} {loop} }}" if before else loop

    def _clauses(self, node: SyntaxNode) -> tuple[int, int, int]:
        """Offsets of a loop's two semicolons and of the parenthesis that closes its head."""
        text, depth = self.tree.text, 0
        found: list[int] = []
        for at, char in outside_literals(text, node.begin):
            if char in "({[":
                depth += 1
            elif char in ")}]":
                depth -= 1
                if depth == 0:
                    return found[0], found[1], at
            elif char == ";" and depth == 1:
                found.append(at)
        raise AssertionError("a loop's head is open")

    # -- variables -------------------------------------------------------------------------------

    def declarations(self, node: SyntaxNode, may_jump: bool = True) -> list[str]:
        """The declarations of a statement, each complete.  ``may_jump``: something may jump over them."""
        written: list[str] = []
        for child in node.children:
            match child.kind:
                case NodeKind.VAR_DECL:
                    written.append(self.variable(child, is_global=False, may_jump=may_jump))
                case NodeKind.STRUCT_DECL | NodeKind.UNION_DECL | NodeKind.FUNCTION_DECL:
                    pass  # declared before the function
                case NodeKind.ENUM_DECL | NodeKind.TYPEDEF_DECL | NodeKind.TYPE_REF:
                    pass
                case _ if is_assertion(self.tree.source(child)):
                    pass
                case _:
                    raise UnknownConstruct(child, "this declaration")
        return written

    def variable(self, node: SyntaxNode, is_global: bool, may_jump: bool = False) -> str:
        """A variable with its initialiser, in the memory that its address space names."""
        declared = self.types.declare(node.type, safe_name(node.name), node)
        if node.type.form is Form.SAMPLER:  # a number that the compiler knows
            return f"{'static ' * is_global}constexpr {declared} = {self.expressions(node.operands[-1])};"
        match space_of(node.type):
            case Space.CONSTANT:
                self._constant_nbytes += node.type.nbytes
                fits = self._constant_nbytes <= _CONSTANT_LIMIT_NBYTES
                declared = f"static {'__constant__' if fits else '__device__'} {declared}"
            case Space.GLOBAL:
                declared = f"static __device__ {declared}"
            case Space.LOCAL:
                return f"__shared__ {declared};"
            case _:
                if is_global or node.is_static_storage:
                    raise UnknownConstruct(node, f"the variable '{node.name}'")
        operands = node.operands
        last = operands[-1] if operands else None
        name = safe_name(node.name)
        plain = self.types.declare(replace(node.type, const=False), name, node)
        if last is None or not self._is_initialiser(last):
            if space_of(node.type) is Space.CONSTANT:  # it is defined elsewhere
                return ""
            return f"{declared};" if space_of(node.type) is Space.GLOBAL else f"{plain};"
        if space_of(node.type) is Space.CONSTANT:
            return f"{declared} = {self._constant(node, last)};"
        left = self._left_block(last, lambda value: f"{name} = {self.expressions(value)};")
        if left is not None:
            return f"{plain}; {left}"
        if may_jump and self._has_jumps(node) and node.type.form in _CLASSES and not node.type.volatile:
            return f"{plain}; {name} = {self._initialiser(node, last)};"
        return f"{declared} = {self._initialiser(node, last)};"

    def _constant(self, node: SyntaxNode, value: SyntaxNode) -> str:
        """What is in constant memory is known at compile time."""
        computed = self.expressions.program.values.get(node.declaration)
        if computed is not None:
            return known(self.types.plain(node.type, node), computed)
        self.expressions.in_constant = True
        try:
            return self._initialiser(node, value)
        finally:
            self.expressions.in_constant = False

    def _has_jumps(self, node: SyntaxNode) -> bool:
        """Whether its function has jumps, over which C++ lets no object of a class be initialised."""
        return any(begin <= node.begin < end for begin, end in self._jumping)

    def _initialiser(self, node: SyntaxNode, value: SyntaxNode) -> str:
        if value.kind is NodeKind.INIT_LIST and node.type.form is Form.ARRAY and not node.type.count:
            raise UnknownConstruct(node, f"the size of '{node.name}'")
        return self.expressions.initialisers(node.type, value)

    def _is_initialiser(self, node: SyntaxNode) -> bool:
        """The last child of a variable; else it may be an array's bound or an attribute."""
        before = self.tree.text[max(0, node.begin - 200) : node.begin].rstrip("( \t\n\r\f\v")
        return before.endswith("=") or re.search(r"=\s*(\n#line[^\n]*\n\s*)*\Z", before) is not None
