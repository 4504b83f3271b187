"""OpenCL C expressions as CUDA C++.

Expressions are written anew from the tree, never copied, so what has no rule here can't slip through.
clang's implicit conversions are in the tree and become casts: C++ then has nothing left to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sdi.clc.cuda.blocks import label_of, leaves, statement_expression, value_of
from sdi.clc.cuda.branches import is_chain, is_little_arithmetic
from sdi.clc.cuda.builtins import NATIVE_GEOMETRY, Builtin, builtin, constant_of
from sdi.clc.cuda.components import component_indices
from sdi.clc.cuda.compound_literals import CompoundLiterals
from sdi.clc.cuda.contraction import fused, may_contract, subtracted
from sdi.clc.cuda.generic import chosen, is_generic
from sdi.clc.cuda.initialisers import InitialiserWriter
from sdi.clc.cuda.literals import floating, integer, is_number, known
from sdi.clc.cuda.printf import Printing
from sdi.clc.cuda.tree import CudaTree
from sdi.clc.cuda.types import (
    TypeNames,
    UnknownConstruct,
    in_ascii,
    is_anonymous,
    is_empty,
    is_scalar,
    safe_name,
    samplers_of,
    unqualified,
)
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Type, callee_of

GRID = "_cl_g"
"""The parameter through which functions get the native geometry of the launch."""

_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!="})
_LOGICAL = {"&&": "_cl_and", "||": "_cl_or"}
_SHIFTS = {"<<": "_cl_shl", ">>": "_cl_shr"}
_COMPOUND = dict(
    zip(
        ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="),
        ("add", "sub", "mul", "div", "rem", "ands", "ors", "xors", "shl", "shr"),
        strict=True,
    )
)
"""Names of what the header has for operators on vectors that ``_is_stored`` tells."""
_SEEN_BY_OTHERS = (Space.GLOBAL, Space.LOCAL, Space.GENERIC)
_COMPONENT = re.compile(r"[\s)]*(\.|->)\s*([A-Za-z0-9]+)\s*\Z")
_BOOLEAN = {"true": "1", "false": "0"}
_IN_MEMORY = frozenset({NodeKind.ARRAY_SUBSCRIPT, NodeKind.UNARY_OPERATOR, NodeKind.MEMBER_REF})


def _is_void_pointer(found: Type) -> bool:
    return found.form is Form.POINTER and found.element is not None and found.element.form is Form.VOID


class ExpressionWriter:
    """Writes the expressions of one program.  Owned by: the thread of the build.

    ``samplers``: the bits of those that the expressions so far name.  ``names``: of functions that go by
    another one here, by declaration.  ``constants``: parameters of functions, by number, that are template
    arguments here.  ``in_constant``: what is written must be known at compile time.
    """

    def __init__(
        self,
        program: CudaTree,
        types: TypeNames,
        needing: set[int],
        fields: Mapping[int, tuple[SyntaxNode, ...]],
    ) -> None:
        self.program = program
        self.tree = program.tree
        self.types = types
        self.needing = needing
        self.initialisers = InitialiserWriter(
            types, fields, program.numbers, self, self._source, self._is_boolean
        )
        self.compounds = CompoundLiterals(types, self.initialisers)
        self.printing = Printing(program.tree, self.condition)
        self.samplers: set[int] = set()
        self.names: dict[int, str] = {}
        self.constants: dict[int, set[int]] = {}
        self.in_constant = False
        self.statement: Callable[[SyntaxNode], str] | None = None
        self.contracts = may_contract(self.tree.text)

    # -- values ----------------------------------------------------------------------------------

    def __call__(self, node: SyntaxNode) -> str:
        """The C++ text of an expression; safe as an operand of any operator."""
        operands = node.operands
        is_computed = self.in_constant and (node.begin, node.end) in self.program.numbers
        if is_computed and (not is_number(node) or unqualified(node.type) == "half"):
            return self._computed(node)
        match node.kind:
            case NodeKind.PAREN:
                return self(operands[0])
            case NodeKind.DECL_REF:
                return self._name(node)
            case NodeKind.INTEGER_LITERAL | NodeKind.FLOATING_LITERAL | NodeKind.CHARACTER_LITERAL:
                return self._literal(node)
            case NodeKind.STRING_LITERAL:
                source = self.program.texts.get(node.begin) or self._source(node)
                return in_ascii(source) if source.startswith('"') else '""'  # of a macro such as NAN
            case NodeKind.UNEXPOSED:
                return self._unexposed(node)
            case NodeKind.CAST:
                return self._converted(node, operands[-1], is_explicit=True)
            case NodeKind.COMPOUND_LITERAL:
                return self.compounds(node, operands[-1])
            case NodeKind.INIT_LIST:
                return self.initialisers(node.type, node)
            case NodeKind.CALL:
                return self._call(node)
            case NodeKind.MEMBER_REF:
                whole = operands[0]
                while whole.kind is NodeKind.MEMBER_REF and is_anonymous(whole.type) and "(" in whole.name:
                    whole = whole.operands[0]
                return self._member(node, whole)
            case NodeKind.ARRAY_SUBSCRIPT:
                return self._subscript(*operands)
            case NodeKind.UNARY_OPERATOR:
                return self._unary(node, operands[0])
            case NodeKind.BINARY_OPERATOR:
                return self._binary(node, *operands)
            case NodeKind.COMPOUND_ASSIGNMENT:
                return self._compound_assignment(node, *operands)
            case NodeKind.CONDITIONAL_OPERATOR:
                return self._conditional(*operands)
            case NodeKind.SIZEOF:
                return self._computed(node)
            case _:
                return self._other(node)

    def _source(self, node: SyntaxNode) -> str:
        return self.tree.source(node)

    def _unknown(self, node: SyntaxNode) -> UnknownConstruct:
        return UnknownConstruct(node, f"'{' '.join(self._source(node).split())[:60]}'")

    def _computed(self, node: SyntaxNode) -> str:
        """A number that clang computes."""
        value = self.program.numbers.get((node.begin, node.end))
        if value is None:
            raise self._unknown(node)
        plain = self.types.plain(node.type, node)
        return f"{value}ul" if plain == "unsigned long" and value >= 0 else known(plain, value)

    def _other(self, node: SyntaxNode) -> str:
        source = self._source(node)
        if source in _BOOLEAN and node.type.form is Form.INTEGER:
            return f"(({self.types.plain(node.type, node)}){_BOOLEAN[source]})"
        if is_generic(self.tree, node):
            found = chosen(self.tree, node)
            if found is None or found.type.canonical != node.type.canonical:
                raise self._unknown(node)
            return self(found)
        block = statement_expression(self.tree, node)
        if block is None:
            return self._of_vectors(node)
        # CUDA C++ has lambdas instead, which nothing may leave by a jump.
        if leaves(self.tree, block):
            raise UnknownConstruct(node, "a jump out of a statement expression inside an expression")
        body = self.block_of(block, lambda value: f"return {self(value)};")
        return f"[&]() -> {self.types.value(node.type, node)} {{ {body} }}()"

    def _of_vectors(self, node: SyntaxNode) -> str:
        """clang's functions of vectors, for which its tree has nodes of their own."""
        name, operands = self._source(node).partition("(")[0].strip(), node.operands
        if name == "__builtin_astype":
            return f"_cl_as<{self.types.plain(node.type, node)}>({self(operands[0])})"
        if name == "__builtin_convertvector" and node.type.form is Form.VECTOR:
            return f"_cl_convert<{self.types.plain(node.type, node)}, false, -1>({self(operands[0])})"
        if name != "__builtin_shufflevector" or node.type.form is not Form.VECTOR:
            raise self._unknown(node)
        numbers = [re.fullmatch(r"-?\d+", self._source(each)) for each in operands[2:]]
        if len(numbers) != node.type.count or not all(numbers):
            raise self._unknown(node)
        count, picked = operands[0].type.count, [int(each[0]) for each in numbers if each is not None]
        both = [f"_cl_b.v[{at - count}]" if at >= count else f"_cl_a.v[{max(at, 0)}]" for at in picked]
        written = self.types.plain(node.type, node)
        values = f"const auto _cl_a = {self(operands[0])}; const auto _cl_b = {self(operands[1])};"
        return f"[&]() -> {written} {{ {values} return _cl_make<{written}>({', '.join(both)}); }}()"

    def block_of(self, block: SyntaxNode, end: Callable[[SyntaxNode], str]) -> str:
        """The statements of a statement expression; ``end`` writes the one that is its value."""
        assert self.statement is not None
        value = value_of(block)
        written = [self.statement(each) for each in block.children[:-1]]
        for last in block.children[-1:]:
            while value is not None and last is not value:
                written.append(f"{safe_name(label_of(self.tree, last))}:")
                last = last.children[-1]
            written.append(self.statement(last) if value is None else end(value))
        return " ".join(written)

    def _name(self, node: SyntaxNode) -> str:
        if self.in_constant and node.declaration in self.program.values:
            return known(self.types.plain(node.type, node), self.program.values[node.declaration])
        if node.declaration in self.program.variables:
            return safe_name(node.name)
        if node.declaration in self.tree.functions:
            return self.function_name(node)
        if node.declaration in self.program.enumerators:  # the value: another one may hide it here
            value = self.program.enumerators[node.declaration]
            number = f"{value}l" if value != -(1 << 63) else f"({value + 1}l - 1)"
            return f"(({self.types.plain(node.type, node)}){number})"
        constant = constant_of(node.name)
        if constant is None:
            raise UnknownConstruct(node, f"'{node.name}'")
        return constant

    def function_name(self, node: SyntaxNode) -> str:
        """Of a function of the program; those that differ in address spaces alone get names of their own."""
        return self.names.get(node.declaration) or safe_name(node.name)

    def _literal(self, node: SyntaxNode) -> str:
        text = self._source(node)
        if text[:1].isalpha():
            constant = constant_of(text)
            if constant is None:
                raise UnknownConstruct(node, f"'{text}'")
            text = constant
        if node.kind is NodeKind.CHARACTER_LITERAL:
            return f"((int){text})"
        written = floating if node.kind is NodeKind.FLOATING_LITERAL else integer
        return written(text, self.types.plain(node.type, node))

    def _unexposed(self, node: SyntaxNode) -> str:
        operands = node.operands
        if self.tree.text.startswith("__builtin_choose_expr", node.begin) and len(operands) == 3:
            is_first = self.program.numbers.get((operands[0].begin, operands[0].end))
            return self(operands[1 if is_first else 2])
        if self.tree.is_gnu_conditional(node):
            return self._either(node, *operands)
        is_call = self.tree.text.startswith("__builtin_", node.begin)
        if is_call and (node.begin, node.end) in self.program.numbers:
            return self._computed(node)
        if len(operands) != 1 or (is_call and operands[0].begin > node.begin):
            return self._of_vectors(node)
        if self._components(node) is not None:
            return self._swizzle(node)
        return self._converted(node, operands[0], is_explicit=False)

    def _is_boolean(self, node: SyntaxNode) -> bool:
        """A conversion of a bool to an integer, as it stands inside a splat."""
        while node.kind is NodeKind.PAREN:
            node = node.operands[0]
        return unqualified(node.type) == "bool" or (
            node.kind is NodeKind.UNEXPOSED
            and node.type.form is Form.INTEGER
            and len(node.operands) == 1
            and unqualified(node.operands[0].type) == "bool"
        )

    def _operand(self, node: SyntaxNode) -> str:
        """An operand of an arithmetic operator, where a bool splat into a vector counts as 0 or 1."""
        is_one = node.kind is NodeKind.UNEXPOSED and len(node.operands) == 1
        if is_one and node.begin == node.operands[0].begin and self._components(node) is None:
            return self._converted(node, node.operands[0], is_explicit=False, is_operand=True)
        return self(node)

    def _splat(self, node: SyntaxNode, child: SyntaxNode, value: str, is_operand: bool) -> str:
        """A scalar in all elements.

        All bits of a vector made from a true bool are set, but not in ``(int4)(b)`` and operands: the
        specification (6.2.2) knows no such exceptions; clang, and so each driver made of it, does.  With
        elements that are floats, clang's tree has a conversion to int where the sign changes.
        """
        element = node.type.element
        assert element is not None
        if element.form is Form.FLOATING and child.kind is NodeKind.UNEXPOSED and len(child.operands) == 1:
            inner = child.operands[0]
            is_signed = inner.kind is NodeKind.UNEXPOSED and unqualified(inner.type) == "int"
            if is_signed and self._is_boolean(inner):
                value = f"(({self.types.scalar(element, node)})(-{self(inner)}))"
        elif element.form is Form.INTEGER and self._is_boolean(child) and not is_operand:
            before = self.tree.text[max(0, child.begin - 80) : child.begin].rstrip()
            if node.kind is not NodeKind.CAST or not before.endswith("("):
                value = f"-{value}"
        return f"_cl_splat<{self.types.plain(node.type, node)}>({value})"

    def _converted(
        self, node: SyntaxNode, child: SyntaxNode, is_explicit: bool, is_operand: bool = False
    ) -> str:
        """``child`` as the type of ``node``."""
        target, source = node.type, child.type
        if source.form is Form.ARRAY:
            self.compounds.place(child)
        value = self(child)
        if target.form is Form.VECTOR:
            if source.form is Form.VECTOR:
                if unqualified(target) != unqualified(source):
                    raise UnknownConstruct(
                        node, f"a conversion of '{source.spelling}' to '{target.spelling}'"
                    )
                return self._loaded(node, child, value)
            if not is_scalar(source):
                raise UnknownConstruct(node, f"a conversion of '{source.spelling}' to '{target.spelling}'")
            return self._splat(node, child, value, is_operand)
        if target.form is Form.RECORD:
            if target.record != source.record:
                return self.initialisers.of_member(target, child)
            return self._loaded(node, child, value)
        if target.form is Form.VOID:
            return f"((void){value})"
        if target.form is Form.FUNCTION or source.form is Form.FUNCTION:
            return value
        if target.form is Form.ARRAY and child.kind is NodeKind.STRING_LITERAL:
            return value  # __func__
        if target.form is Form.POINTER and source.form is Form.ARRAY and not is_explicit:
            return value
        if target.form is Form.EVENT:
            return f"((_cl_event){value})"
        if target.form in (Form.IMAGE, Form.SAMPLER):
            if source.form is target.form:
                return value
            if target.form is Form.SAMPLER:
                self.samplers |= samplers_of(value)
            return f"(({self.types.plain(target, node)}){value})"
        if not is_scalar(target) and target.form is not Form.POINTER:
            raise UnknownConstruct(node, f"a conversion to '{target.spelling}'")
        if is_scalar(target) and unqualified(target) == unqualified(source):
            is_component = not is_explicit and self._components(child) is not None
            if unqualified(target) == "half" and child.type.volatile and not target.volatile:
                return f"_cl_read({value})"
            return self._swizzle(child, is_value=True) if is_component else value
        if source.form is Form.VECTOR:
            raise UnknownConstruct(node, f"a conversion of '{source.spelling}' to '{target.spelling}'")
        written = self.types.value(target, node)
        if source.form is Form.POINTER and is_scalar(target) and written != "bool":
            value = f"(unsigned long){value}"
        is_same = target.form is source.form is Form.POINTER and written == self.types.value(source, node)
        return value if is_same and not is_explicit else f"(({written}){value})"

    def _loaded(self, node: SyntaxNode, child: SyntaxNode, value: str) -> str:
        """The value of a class object; C++ copies volatile ones only element by element."""
        if child.type.volatile and not node.type.volatile and self._components(child) is None:
            return f"_cl_load<{self.types.plain(node.type, node)}>({value})"
        return value

    # -- vectors ---------------------------------------------------------------------------------

    def _components(self, node: SyntaxNode) -> tuple[SyntaxNode, tuple[int, ...]] | None:
        """(vector, elements) if ``node`` selects components of a vector."""
        if node.kind is not NodeKind.UNEXPOSED:
            return None
        operands = node.operands
        if len(operands) != 1:
            return None
        child = operands[0]
        is_around = node.begin == child.begin and node.end > child.end
        if child.type.form is not Form.VECTOR or not is_around:
            return None
        match = _COMPONENT.match(self.tree.text, child.end, node.end)
        indices = component_indices(match.group(2), child.type.count) if match else None
        expected = node.type.count if node.type.form is Form.VECTOR else 1
        if indices is None or len(indices) != expected:
            raise UnknownConstruct(node, f"'{self._source(node)}'")
        return child, indices

    def _swizzle(self, node: SyntaxNode, as_target: bool = False, is_value: bool = False) -> str:
        """Components of a vector; those of components are found at once.

        ``is_value``: nothing is done with it but to read it.  Of a vector in memory all is read then, as
        drivers do: a read of each component by itself takes several accesses where one does.
        """
        found = self._components(node)
        assert found is not None
        vector, indices = found
        while True:
            while vector.kind is NodeKind.PAREN:
                vector = vector.operands[0]
            inner = self._components(vector)
            if inner is None:
                break
            vector, outer = inner
            indices = tuple(outer[index] for index in indices)
        base, inside = self(vector), vector.type
        if node.type.form is not Form.VECTOR:
            if is_value and vector.kind in _IN_MEMORY and not inside.volatile:
                return f"_cl_get<{indices[0]}>({base})"
            return f"{base}.v[{indices[0]}]"
        listed = ", ".join(map(str, indices))
        if as_target:
            return f"_cl_ref<{listed}>({base})"
        if inside.volatile:
            base = f"_cl_load<{self.types.plain(inside, vector)}>({base})"
        return f"_cl_swizzle<{listed}>({base})"

    def _member(self, node: SyntaxNode, whole: SyntaxNode) -> str:
        is_pointer, found = whole.type.form is Form.POINTER, whole.type
        if not is_empty(node.type):
            return f"{self(whole)}{'->' if is_pointer else '.'}{safe_name(node.name)}"
        record = found.element if is_pointer and found.element is not None else found
        begin = f"(const volatile char *){'' if is_pointer else '&'}{self(whole)}"
        offset = self.program.layouts[record.record].offsets[node.name]
        return f"(*({self.types.declare(node.type, '*', node)})({begin} + {offset}))"

    # -- operators -------------------------------------------------------------------------------

    def _subscript(self, base: SyntaxNode, index: SyntaxNode) -> str:
        if index.type.form in (Form.POINTER, Form.ARRAY, Form.VECTOR):
            base, index = index, base
        member = ".v" if base.type.form is Form.VECTOR else ""
        return f"{self(base)}{member}[{self(index)}]"

    def target(self, node: SyntaxNode) -> str:
        """An lvalue that is assigned to."""
        self.compounds.place(node)
        while node.kind is NodeKind.PAREN:
            node = node.operands[0]
        if self._components(node) is not None:
            return self._swizzle(node, as_target=True)
        return self(node)

    def _unary(self, node: SyntaxNode, operand: SyntaxNode) -> str:
        operator = node.operator
        if operator in ("x++", "x--", "++", "--"):
            target = self.target(operand)
            if _is_void_pointer(operand.type):
                target = f"(*(const char **)&{target})"
            if unqualified(operand.type) == "bool":
                by, before = operator[-1] + "1", operator[0] == "x"
                return f"_cl_bool_{'post' if before else 'pre'}({target}, {by})"
            stepped = f"({target}{operator[1:]})" if operator[0] == "x" else f"({operator}{target})"
            return self._of_bytes(node, stepped) if _is_void_pointer(operand.type) else stepped
        if operator == "!":
            is_vector = node.type.form is Form.VECTOR
            return f"_cl_not({self(operand)})" if is_vector else f"((int){self.condition(node)})"
        if operator == "&" and operand.type.form is Form.FUNCTION:
            raise UnknownConstruct(node, "a function's address")
        if operator in ("-", "~", "+", "*", "&"):
            while operator == "&" and operand.kind is NodeKind.PAREN:
                operand = operand.operands[0]
            is_place = operator == "&" and operand.kind is NodeKind.DECL_REF
            if operator == "&":
                self.compounds.place(operand)
            value = f"({operator}{safe_name(operand.name) if is_place else self(operand)})"
            if is_scalar(node.type) and operator in ("-", "~", "+") and node.type.nbytes < 4:
                return f"(({self.types.plain(node.type, node)}){value})"
            return value
        raise UnknownConstruct(node, f"the operator '{operator}'")

    def _binary(self, node: SyntaxNode, left: SyntaxNode, right: SyntaxNode) -> str:
        operator = node.operator
        if operator == "=":
            return self._assignment(left, right)
        is_vector = node.type.form is Form.VECTOR
        if not is_vector and (operator in _COMPARISONS or operator in _LOGICAL):
            return f"((int){self.condition(node)})"
        if self.contracts and operator in ("+", "-") and (found := fused(node, self._operand)):
            return found
        a, b = self._operand(left), self._operand(right)
        if operator == ",":
            return f"((void){a}, {b})" if left.type.form is not Form.VOID else f"({a}, {b})"
        if operator in _LOGICAL:
            return f"{_LOGICAL[operator]}({a}, {b})"
        if operator in _SHIFTS:
            count = re.fullmatch(r"\d+", b)
            if not is_vector and count is not None and int(b) < 8 * node.type.nbytes:
                return f"({a} {operator} {b})"
            return f"{_SHIFTS[operator]}({a}, {b})"
        if operator in ("+", "-") and (_is_void_pointer(left.type) or _is_void_pointer(right.type)):
            sides = [
                f"((const char *){text})" if _is_void_pointer(side.type) else text
                for side, text in ((left, a), (right, b))
            ]
            return self._of_bytes(node, f"({sides[0]} {operator} {sides[1]})")
        if operator in ("*", "/", "%", "+", "-", "&", "^", "|") or operator in _COMPARISONS:
            return f"({a} {operator} {b})"
        raise UnknownConstruct(node, f"the operator '{operator}'")

    def _of_bytes(self, node: SyntaxNode, value: str) -> str:
        """A pointer to characters as one to void, of which C++ does no arithmetic."""
        return f"(({self.types.value(node.type, node)}){value})" if _is_void_pointer(node.type) else value

    def condition(self, node: SyntaxNode) -> str:
        """What a branch or a choice hangs on: comparisons without their conversion to int.

        Through that NVRTC's front end does not see that it could branch from operand to operand.
        """
        while node.kind is NodeKind.PAREN:
            node = node.operands[0]
        operator, operands = node.operator, node.operands
        is_operator = node.kind in (NodeKind.BINARY_OPERATOR, NodeKind.UNARY_OPERATOR)
        if not is_operator or node.type.form is Form.VECTOR:
            return self(node)
        if operator == "!":
            return f"(!{self.condition(operands[0])})"
        if operator in _LOGICAL:
            return f"({self.condition(operands[0])} {operator} {self.condition(operands[1])})"
        if operator in _COMPARISONS:
            return f"({self._operand(operands[0])} {operator} {self._operand(operands[1])})"
        return self(node)

    def loop_condition(self, node: SyntaxNode) -> str:
        """What a loop goes on by: one branch for operands that are a little arithmetic."""
        while node.kind is NodeKind.PAREN:
            node = node.operands[0]
        if node.operator == "&&" and is_chain(node):
            first, second = node.operands
            if is_little_arithmetic(second):
                return f"(bool({self.loop_condition(first)}) & {self.condition(second)})"
        return self.condition(node)

    def _is_stored(self, target: SyntaxNode) -> bool:
        """Not assigned as an object of a class: volatile ones, three elements that other work-items see."""
        found = target.type
        if unqualified(found) == "half":
            return found.volatile
        if found.form not in (Form.VECTOR, Form.RECORD) or self._components(target) is not None:
            return False
        is_short = found.form is Form.VECTOR and found.count == 3
        return found.volatile or (is_short and found.space in _SEEN_BY_OTHERS)

    def _assignment(self, left: SyntaxNode, right: SyntaxNode) -> str:
        value = self(right)
        if self._is_stored(left):
            return f"_cl_store({self(left)}, {value})"
        return f"({self.target(left)} = {value})"

    def _compound_assignment(self, node: SyntaxNode, left: SyntaxNode, right: SyntaxNode) -> str:
        operator = node.operator
        may_fuse = operator == "-=" and self.contracts and not self._is_stored(left)
        if may_fuse and (found := subtracted(left, right)):
            a, b = map(self._operand, found)
            return f"_cl_fused_to({self.target(left)}, -{a}, {b})"
        target, value = self.target(left), self._operand(right)
        if left.type.form is Form.VECTOR and self._is_stored(left):
            return f"_cl_memory_{_COMPOUND[operator]}({target}, {value})"
        if operator in ("<<=", ">>="):
            return f"{_SHIFTS[operator[:2]]}_to({target}, {value})"
        if _is_void_pointer(left.type):
            return self._of_bytes(node, f"(*(const char **)&{target} {operator} {value})")
        if left.type.form is Form.POINTER:
            return f"({target} {operator} {value})"
        return f"({target} {operator} {value})"

    def _conditional(self, condition: SyntaxNode, yes: SyntaxNode, no: SyntaxNode) -> str:
        if condition.type.form is Form.VECTOR:
            return f"_cl_choose({self(condition)}, {self(yes)}, {self(no)})"
        return f"({self.condition(condition)} ? {self(yes)} : {self(no)})"

    def _either(self, node: SyntaxNode, first: SyntaxNode, other: SyntaxNode) -> str:
        """GNU's ``a ?: b``, which computes a once: CUDA C++ has lambdas instead."""
        written = self.types.value(node.type, node)
        if first.type.form is Form.VECTOR:
            value = self._converted(node, other, is_explicit=False)
            chosen = f"_cl_choose(_cl_first, _cl_first, {value})"
            return f"[&]() -> {written} {{ const {written} _cl_first = {self(first)}; return {chosen}; }}()"
        chosen = f"_cl_first ? ({written})_cl_first : ({written}){self(other)}"
        return f"[&]() -> {written} {{ auto _cl_first = {self(first)}; return {chosen}; }}()"

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, node: SyntaxNode) -> str:
        reference = callee_of(node)
        if reference is None:
            raise UnknownConstruct(node, "a call through a pointer")
        arguments = node.children[1:]
        values = [self(each) for each in arguments]
        own = self.tree.functions.get(reference.declaration)
        if own is not None and own.body is None and builtin(reference.name) is not None:
            own = None  # the program declares a built-in function
        if own is not None:
            constants = self.constants.get(reference.declaration, set())
            listed = ", ".join(f"({values[number]})" for number in sorted(constants))
            values = [value for number, value in enumerate(values) if number not in constants]
            if reference.declaration in self.needing:
                values.insert(0, GRID)
            return f"{self.function_name(reference)}{listed and f'<{listed}>'}({', '.join(values)})"
        if reference.name == "printf":
            return self.printing.call(arguments, values)
        found = builtin(reference.name)
        if found is None:
            raise UnknownConstruct(node, f"the built-in function '{reference.name}'")
        return self._builtin(node, reference.name, found, values)

    def _builtin(self, node: SyntaxNode, name: str, found: Builtin, values: list[str]) -> str:
        parameters = list(found.template)
        if found.takes_result:
            parameters.insert(0, self.types.plain(node.type, node))
        if name in NATIVE_GEOMETRY:
            values = [GRID, *values]
        listed = f"<{', '.join(parameters)}>" if parameters else ""
        return f"{found.function}{listed}({', '.join(values)})"
