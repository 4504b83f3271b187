"""Sub-range OpenCL C: every kernel can run a box of work-groups and behave as part of the whole NDRange.

Each kernel gets one more parameter, ``__sdi_launch`` (see ``launch.py``).  Functions that need the
NDRange's geometry, at any depth, get a pointer to it as their first parameter, ``__sdi_range``.
The text is edited at the allocations of nodes and never printed anew, so what the front end does not
know passes through untouched; no edit adds or removes a line, so ``#line`` stays true.
"""

from __future__ import annotations

import re

from sdi.clc.arguments import argument_kind, is_kernel
from sdi.clc.frontend.builtins import GEOMETRY_FUNCTIONS
from sdi.clc.frontend.syntax import Function, NodeKind, Space, SyntaxNode, Tree, callee_of, outside_literals
from sdi.clc.model import ArgumentKind
from sdi.dataclass import dataclass
from sdi.wire.kernels import GEOMETRY
from sdi.wire.layout import declarations

_GEOMETRY = (
    f"typedef struct {{ {declarations(GEOMETRY, {'u64': 'ulong', 'u32': 'uint'})} }} __sdi_geometry;\n"
)
_FUNCTION = "static inline __attribute__((always_inline)) "
# PoCL 3.1 compiles no kernel that asks both functions for a dimension that is not constant and guarded.
_OF_CONSTANT = "(d == 0 ? {0}(0) : d == 1 ? {0}(1) : {0}(2))"
_ACCESSORS = {
    "get_work_dim": ("uint", "", "r->work_dim"),
    "get_global_id": (
        "size_t",
        "uint d",
        "d < 3 ? " + _OF_CONSTANT.format("get_global_id") + " + (size_t)(r->group_offset[d] * "
        "get_local_size(d) + r->global_offset[d]) : 0",
    ),
    "get_global_size": ("size_t", "uint d", "d < 3 ? (size_t)r->global_size[d] : 1"),
    "get_group_id": (
        "size_t",
        "uint d",
        "d < 3 ? " + _OF_CONSTANT.format("get_group_id") + " + (size_t)r->group_offset[d] : 0",
    ),
    "get_num_groups": ("size_t", "uint d", "d < 3 ? (size_t)r->num_groups[d] : 1"),
    "get_global_offset": ("size_t", "uint d", "d < 3 ? (size_t)r->global_offset[d] : 0"),
    "get_enqueued_local_size": ("size_t", "uint d", "get_local_size(d)"),
    "get_global_linear_id": (
        "size_t",
        "",
        "((get_global_id(2) + (size_t)r->group_offset[2] * get_local_size(2)) * (size_t)r->global_size[1]"
        " + get_global_id(1) + (size_t)r->group_offset[1] * get_local_size(1)) * (size_t)r->global_size[0]"
        " + get_global_id(0) + (size_t)r->group_offset[0] * get_local_size(0)",
    ),
}
_NAME = re.compile(r"[\w$\x80-\xff]+")
_CONTRACTION = re.compile(
    r"(?:(?:\s|#\s*line[^\n]*\n|#\s*\d[^\n]*\n)*#\s*pragma[^\n]*\b(?:FP_CONTRACT|fp_contract|clang\s+fp)\b[^\n]*\n)+"
)
_POINTER = "const __sdi_geometry *__sdi_range"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``[begin, end)`` of the text."""

    begin: int
    end: int
    text: str


def apply_edits(text: str, edits: list[Edit]) -> str:
    """The text with all edits made; edits at one place keep their order, and none may overlap."""
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.begin, e.end)):
        assert at <= edit.begin <= edit.end, f"edits overlap at {edit.begin}"
        parts += [text[at : edit.begin], edit.text]
        at = edit.end
    return "".join(parts) + text[at:]


def _name_end(text: str, at: int) -> int:
    """Where the name that begins at ``at`` ends; characters beyond ASCII are several bytes."""
    found = _NAME.match(text, at)
    assert found is not None, f"no name at {at}"
    return found.end()


def _opening(text: str, at: int) -> int:
    """Offset of the first ``(`` at or after ``at``, past white space and closing parentheses."""
    while text[at] in " \t\n\r\f\v)":
        at += 1
    assert text[at] == "(", f"no parameter list at {at}"
    return at


def _closing(text: str, opening: int) -> int:
    """Offset of the ``)`` that matches the ``(`` at ``opening``; strings are skipped."""
    depth = 0
    for at, char in outside_literals(text, opening):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at
    raise AssertionError(f"no end of the list at {opening}")


def _calls(tree: Tree, body: SyntaxNode) -> list[tuple[SyntaxNode, SyntaxNode]]:
    """(call, reference to its function) for each direct call."""
    found: list[tuple[SyntaxNode, SyntaxNode]] = []
    for node in body.walk():
        if node.kind is NodeKind.CALL:
            reference = callee_of(node)
            if reference is not None:
                found.append((node, reference))
    return found


def _shifted(kernel: Function) -> list[SyntaxNode]:
    return [
        p for p in kernel.parameters if argument_kind(p.type) in (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)
    ]


class SubrangeEmitter:
    """Emits one program.  Owned by: the thread of the build."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.text = tree.text
        self.edits: list[Edit] = []
        self.kernels = {key for key, f in tree.functions.items() if is_kernel(tree, f)}
        self.calls = {
            key: _calls(tree, f.body) if f.body is not None else [] for key, f in tree.functions.items()
        }
        self.needing = self._needing_geometry()

    def emit(self) -> str:
        """The whole text, ready for a member's compiler."""
        for key, function in self.tree.functions.items():
            if key in self.kernels:
                self._kernel(function)
            elif key in self.needing:
                for node in function.nodes:
                    self._prepend_parameter(node)
            for call, reference in self.calls[key]:
                self._call(call, reference)
        for begin, end in self.tree.unused_bodies:
            # What nothing calls needs no geometry; left as it is, it might call what now does.
            self.edits.append(self._keeping_lines(begin + 1, end - 1, " "))
        return self._prologue() + apply_edits(self.text, self.edits)

    def _needing_geometry(self) -> set[int]:
        """Functions that ask for the geometry, or call one that does, or call a kernel."""
        functions = self.tree.functions
        needing = {
            key
            for key, calls in self.calls.items()
            if any(
                r.declaration in self.kernels
                or (r.declaration not in functions and r.name in GEOMETRY_FUNCTIONS)
                for _, r in calls
            )
        }
        grown = True
        while grown:
            more = {
                key
                for key, calls in self.calls.items()
                if key not in needing and any(r.declaration in needing for _, r in calls)
            }
            needing |= more
            grown = bool(more)
        return needing

    def _prologue(self) -> str:
        counts = sorted({len(_shifted(self.tree.functions[key])) for key in self.kernels})
        nested = {
            len(_shifted(self.tree.functions[r.declaration]))
            for calls in self.calls.values()
            for _, r in calls
            if r.declaration in self.kernels
        }
        used = {r.name for calls in self.calls.values() for _, r in calls} & GEOMETRY_FUNCTIONS
        parts = [_GEOMETRY]
        for count in counts:
            shift = f" long shift[{count}];" if count else ""
            parts.append(f"typedef struct {{ __sdi_geometry range;{shift} }} __sdi_launch_{count};\n")
        for count in sorted(nested):
            zero = f" for (int i = 0; i < {count}; i++) l.shift[i] = 0;" if count else ""
            parts.append(
                f"{_FUNCTION}__sdi_launch_{count} __sdi_nested_{count}(const __sdi_geometry *r) "
                f"{{ __sdi_launch_{count} l; l.range = *r;{zero} return l; }}\n"
            )
        for name in sorted(used):
            result, parameter, value = _ACCESSORS[name]
            more = f", {parameter}" if parameter else ""
            parts.append(
                f"{_FUNCTION}{result} __sdi_{name}(const __sdi_geometry *r{more}) {{ return {value}; }}\n"
            )
        return "".join(parts)

    def _parameter_list(self, declaration: SyntaxNode) -> tuple[int, int]:
        """Offsets of the parentheses around the parameters."""
        opening = _opening(self.text, _name_end(self.text, declaration.location))
        return opening, _closing(self.text, opening)

    def _prepend_parameter(self, declaration: SyntaxNode) -> None:
        opening, closing = self._parameter_list(declaration)
        if any(n.kind is NodeKind.PARM_DECL for n in declaration.children):
            self.edits.append(Edit(opening + 1, opening + 1, f"{_POINTER}, "))
        else:
            self.edits.append(self._keeping_lines(opening + 1, closing, _POINTER))

    def _keeping_lines(self, begin: int, end: int, text: str) -> Edit:
        return Edit(begin, end, text + "\n" * self.text.count("\n", begin, end))

    def _kernel(self, kernel: Function) -> None:
        shifted = _shifted(kernel)
        hidden = f"__sdi_launch_{len(shifted)} __sdi_launch"
        for node in kernel.nodes:
            opening, closing = self._parameter_list(node)
            if any(n.kind is NodeKind.PARM_DECL for n in node.children):
                self.edits.append(Edit(closing, closing, f", {hidden}"))
            else:
                self.edits.append(self._keeping_lines(opening + 1, closing, hidden))
        body = kernel.body
        if body is None:
            return
        statements: list[str] = []
        if kernel.declaration in self.needing:
            statements.append(f"{_POINTER} = &__sdi_launch.range;")
        for number, parameter in enumerate(shifted):
            if parameter.name:
                statements.append(self._unshift(parameter, number))
        if statements:
            inside = body.begin + (2 if self.text.startswith("<%", body.begin) else 1)
            if match := _CONTRACTION.match(self.text, inside):  # which no statement may stand before
                inside = match.end()
            self.edits.append(Edit(inside, inside, " " + " ".join(statements)))

    def _unshift(self, parameter: SyntaxNode, number: int) -> str:
        """The statement that makes a pointer name byte 0 of the application's buffer; NULL is shifted by 0.

        With a condition PoCL keeps a pointer for each work-item where there are barriers, and reads through
        them one by one: silx's back projection took 1.75 times as long.
        """
        pointee = parameter.type.element
        assert pointee is not None
        space = "__constant" if pointee.space is Space.CONSTANT else "__global"
        qualifiers = space + " const" * pointee.const + " volatile" * pointee.volatile
        end = _name_end(self.text, parameter.location)
        target = source = self.text[parameter.location : end]
        if parameter.type.const:
            # A const pointer can't be assigned: the parameter gets another name, a local takes its own.
            source = f"__sdi_arg_{source}"
            self.edits.append(Edit(parameter.location, end, source))
            declared = self.text[parameter.begin : parameter.end]
            # A structure that is declared there can't be declared again.
            target = f"__typeof__({source}) {target}" if "{" in declared else declared
        moved = f"({qualifiers} void *)(({qualifiers} char *){source} - __sdi_launch.shift[{number}])"
        return f"{' '.join(target.split())} = {moved};"

    def _call(self, call: SyntaxNode, reference: SyntaxNode) -> None:
        key = reference.declaration
        if key in self.kernels:
            count = len(_shifted(self.tree.functions[key]))
            closing = call.end - 1
            assert self.text[closing] == ")"
            comma = ", " if len(call.children) > 1 else ""
            self.edits.append(Edit(closing, closing, f"{comma}__sdi_nested_{count}(__sdi_range)"))
            return
        is_builtin = key not in self.tree.functions and reference.name in GEOMETRY_FUNCTIONS
        if not is_builtin and key not in self.needing:
            return
        if is_builtin:
            self.edits.append(Edit(reference.begin, reference.end, f"__sdi_{reference.name}"))
        comma = ", " if len(call.children) > 1 else ""
        after = _opening(self.text, reference.end) + 1
        self.edits.append(Edit(after, after, f"__sdi_range{comma}"))
