"""Inline assembly: its parts, and what PTX in it may do beside computing its outputs from its inputs.

GCC's form, ``asm volatile("text" : outputs : inputs : clobbers)``, from the text of the node: clang's tree
has its operands alone.  Source: PTX ISA 8.5 (instructions, special registers); GCC manual, "Extended Asm".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sdi.clc.frontend.syntax import Form, SyntaxNode, Tree
from sdi.clc.printf_text import literal_bytes
from sdi.dataclass import dataclass

_WORD = re.compile(r"\b(asm|__asm|__asm__)\b")
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\w+|::|[^\s]|\n[ \t]*\#[^\n]*')
_IN_TEXT = re.compile(r"%(?:(%)|(\d+)|\[(\w+)\]|(.?))", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT = re.compile(r"[\s{}]*(?P<guard>@!?%?[\w$]+\s+)?(?P<opcode>[\w.:]+)(?P<rest>.*)", re.DOTALL)
_REGISTER = re.compile(r"%[A-Za-z_]\w*")
_DECLARED = re.compile(r"([%\w$]+)\s*(<\s*\d+\s*>)?")

_TYPE_NAMES = """
b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 bf16 bf16x2 tf32 u16x2 s16x2 pred
"""
_TYPES = frozenset(_TYPE_NAMES.split())
"""Types that each instruction below names: assembly of other machines has no such suffixes."""
_COMPUTING_NAMES = """
abs add addc and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma fns lg2 lop3 mad
mad24 madc max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct
sqrt sub subc szext tanh testp vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2
vmax4 vmin vmin2 vmin4 vset vset2 vset4 vshl vshr vsub vsub2 vsub4 xor
"""
_COMPUTING = frozenset(_COMPUTING_NAMES.split())
"""Instructions that write registers, from registers alone."""
_OWN_NAMES = """
%tid %ntid %laneid %warpid %nwarpid %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt
"""
_OWN = frozenset(_OWN_NAMES.split())
"""Special registers that are the same however a launch is split."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An output or input.  ``constraint``: without ``=``, ``+``, ``&`` and spaces.

    ``is_read``, ``is_written``: both for ``+``.
    """

    name: str
    constraint: str
    is_read: bool
    is_written: bool
    node: SyntaxNode


@dataclass(frozen=True, slots=True)
class Assembly:
    """One ``asm``.  ``template``: its text, escapes resolved; ``is_plain``: in it ``%`` means nothing.

    ``operands``: outputs first, as the text counts them.
    """

    template: str
    is_plain: bool
    is_volatile: bool
    operands: tuple[Operand, ...]
    clobbers: tuple[str, ...]

    def filled(self, operand: str, percent: str) -> str | None:
        """The template with ``operand``, formatted with its number, for each operand, ``percent`` for ``%%``.

        None for one with something else after a ``%``.
        """
        if self.is_plain:
            return self.template.replace("%", percent)
        is_known = True
        numbers = {each.name: number for number, each in enumerate(self.operands) if each.name}

        def fill(match: re.Match[str]) -> str:
            nonlocal is_known
            if match[1]:
                return percent
            number = int(match[2]) if match[2] else numbers.get(match[3] or "", -1)
            is_known = is_known and 0 <= number < len(self.operands)
            return operand.format(number)

        filled = _IN_TEXT.sub(fill, self.template)
        return filled if is_known else None


def has_assembly(text: str) -> bool:
    """Whether a program's text may have any."""
    return _WORD.search(text) is not None


def read(tree: Tree, node: SyntaxNode) -> Assembly | None:
    """The parts of an ASM node; None for ``asm goto`` and what can't be read."""
    tokens = [t for t in _TOKEN.finditer(tree.text, node.begin, node.end) if not t[0].startswith("\n")]
    at = next((i for i, token in enumerate(tokens) if token[0] == "("), len(tokens))
    words = {token[0] for token in tokens[1:at]}
    if at == len(tokens) or tokens[-1][0] != ")" or "goto" in words:
        return None
    sections: list[list[str]] = [[]]
    children = list(node.children)
    operands: list[Operand] = []
    is_plain = True
    body = iter(tokens[at + 1 : -1])
    for token in body:
        if token[0] in (":", "::"):
            is_plain = False
            sections += [[] for _ in token[0]]
        elif token[0] == "(" and len(sections) in (2, 3):
            if not children or not _skip(body):
                return None
            operand = _operand(sections[-1], children.pop(0), len(sections) == 2)
            if operand is None:
                return None
            operands.append(operand)
            sections[-1] = []
        elif token[0] != ",":
            sections[-1].append(token[0])
    if children or len(sections) > 4 or not sections[0]:
        return None
    clobbers = sections[3] if len(sections) == 4 else []
    return Assembly(
        _text(sections[0]),
        is_plain,
        bool(words & {"volatile", "__volatile__", "__volatile"}) or not any(o.is_written for o in operands),
        tuple(operands),
        tuple(_text([each]) for each in clobbers),
    )


def _skip(tokens: Iterator[re.Match[str]]) -> bool:
    """Past the parenthesis that closes the one just read."""
    depth = 1
    for token in tokens:
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0:
            return True
    return False


def _operand(before: list[str], node: SyntaxNode, is_output: bool) -> Operand | None:
    """``before``: ``[name]`` and the constraint."""
    name = ""
    if before[:1] == ["["] and before[2:3] == ["]"]:
        name, before = before[1], before[3:]
    if not before:
        return None
    constraint = _text(before)
    is_read = not is_output or "+" in constraint
    return Operand(name, re.sub(r"[=+&%\s]", "", constraint), is_read, is_output, node)


def _text(literals: list[str]) -> str:
    return literal_bytes(" ".join(literals)).decode("latin-1")


# -- what it may do ----------------------------------------------------------------------------------


def effects_of(found: Assembly | None) -> str:
    """What PTX may do beside computing its outputs: a phrase for the user; empty when it does no more.

    ``found``: None for assembly that can't be read.
    """
    if found is None:
        return "inline assembly that is not understood"
    for operand in found.operands:
        if operand.node.type.form not in (Form.INTEGER, Form.FLOATING):
            return "inline assembly with an operand that is a pointer"
        if not re.fullmatch(r"[hrlfdnqi\d]+", operand.constraint):
            return f"inline assembly with the constraint '{operand.constraint}'"
    other = [each for each in found.clobbers if each != "cc"]
    if other:
        return f"inline assembly that clobbers '{other[0]}'"
    text = found.filled("0", "%")  # a number stands for each operand: no name of a register
    if text is None:
        return "inline assembly that is not understood"
    return _effects_of_text(text)


def _effects_of_text(text: str) -> str:
    declared: set[str] = set()
    for statement in _COMMENT.sub(" ", text).split(";"):
        match = _STATEMENT.fullmatch(statement)
        if match is None:
            if statement.strip(" \t\n\r{}"):
                return "inline assembly that is not understood"
            continue
        opcode, rest = match["opcode"], match["rest"]
        if opcode == ".reg":
            declared |= {name for name, _ in _DECLARED.findall(rest)}
            continue
        base, *suffixes = opcode.split(".")
        if base not in _COMPUTING or not _TYPES & set(suffixes) or set(rest) & set("[]()"):
            return f"the inline assembly '{opcode}'"
        for register in _REGISTER.findall((match["guard"] or "") + rest):
            if register not in _OWN and not _is_declared(register, declared):
                return f"'{register}' in inline assembly"
    return ""


def _is_declared(register: str, declared: set[str]) -> bool:
    """By its name, or as one of ``.reg .b32 %r<8>``."""
    return register in declared or register.rstrip("0123456789") in declared
