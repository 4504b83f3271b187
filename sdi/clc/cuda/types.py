"""OpenCL C types as CUDA C++: scalars, vectors of the compat header, records, pointers, arrays."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from sdi.clc.frontend.syntax import Form, Space, SyntaxNode, Type
from sdi.wire.opencl import IMAGE_TYPES, Addressing, Filter

_SCALARS = {
    "bool": "bool",
    "char": "char",
    "signed char": "signed char",
    "unsigned char": "unsigned char",
    "short": "short",
    "unsigned short": "unsigned short",
    "int": "int",
    "unsigned int": "unsigned int",
    "long": "long",
    "unsigned long": "unsigned long",
    "long long": "long",
    "unsigned long long": "unsigned long",
    "float": "float",
    "double": "double",
    "half": "_cl_half",
    "__fp16": "_cl_half",
}
_QUALIFIERS = re.compile(
    r"\b(const|volatile|restrict|__(global|local|constant|private|generic|restrict|(read|write)_only|read_write))\b"
)
_ATOMIC = re.compile(r"_Atomic\((.*)\)\Z")
_OF_ENUMERATIONS = {1: "char", 2: "short", 4: "int", 8: "long"}
_ENUMERATION = re.compile(r"enum .*|(?!__|\d)\w+")  # one without a tag has its typedef's name

# Words of C++ and CUDA that OpenCL C programs may use as names.  Source: C++20 working draft N4861,
# section 5.11; CUDA C++ programming guide, "Built-in Variables".
_WORDS = """
alignas alignof and and_eq asm bitand bitor bool catch char char16_t char32_t char8_t class compl concept
const_cast consteval constexpr constinit co_await co_return co_yield decltype delete dynamic_cast
explicit export extern false final friend import inline module mutable namespace new noexcept not not_eq
nullptr operator or or_eq override private protected public register reinterpret_cast requires
static_assert static_cast template this thread_local throw true try typeid typename typeof using virtual
wchar_t xor xor_eq threadIdx blockIdx blockDim gridDim warpSize dim3 printf memcpy linux unix
"""
RESERVED = frozenset(_WORDS.split())


_OTHERS = ("_cl_", "_u_", "_CL_", "__")
"""What the header's names begin with, and CUDA's words and macros."""

_PLAIN = re.compile(r"[A-Za-z0-9_]*")
_BITS = re.compile(r"[\d\s|+()]*\d[\d\s|+()]*")


class UnknownConstruct(Exception):
    """The emitter has no rule for something; ``node``: where it is."""

    def __init__(self, node: SyntaxNode | None, what: str) -> None:
        super().__init__(what)
        self.node = node
        self.what = what


def safe_name(name: str) -> str:
    """A name that means nothing else in CUDA C++, in ASCII; different names stay different."""
    if not _PLAIN.fullmatch(name):
        return "_u_u_" + "".join(
            "__" if c == "_" else c if _PLAIN.fullmatch(c) else f"_{ord(c):x}_" for c in name
        )
    is_other = name in RESERVED or (name.startswith(_OTHERS) and not name.startswith("__sdi_"))
    return f"_u_{name}" if is_other else name


def in_ascii(literal: str) -> str:
    """A string or character literal of a tree's text, where each character is a byte."""
    return re.sub(r"[\x80-\xff]", lambda byte: f"\\{ord(byte.group()):o}", literal)


def in_unicode(source: str) -> str:
    """A name in a tree's text, where each character is a byte, as declarations have it."""
    return source.encode("latin-1").decode("utf-8", "surrogateescape")


def samplers_of(value: str) -> set[int]:
    """What a number may be that is written so and becomes a sampler: its bits, or those of every sampler."""
    if _BITS.fullmatch(value) and not re.search(r"\b0\d", value):
        bits = 0
        for number in re.findall(r"\d+", value):
            bits |= int(number)
        return {bits}
    return {normalized | each.bits | Filter.LINEAR.bits for normalized in (0, 1) for each in Addressing}


def unqualified(found: Type) -> str:
    """The canonical type without qualifiers and address spaces."""
    return _unqualified(found.canonical)


@functools.lru_cache(1024)
def _unqualified(canonical: str) -> str:
    return " ".join(_QUALIFIERS.sub(" ", canonical).replace("*", " * ").split())


def is_anonymous(found: Type) -> bool:
    """A record whose members belong to the one around it, if it is the type of no member."""
    return "(anonymous" in found.canonical


def is_empty(found: Type) -> bool:
    """An array of no elements, at the end of a record; C++ has none."""
    return found.form is Form.ARRAY and not found.nbytes


def is_scalar(found: Type) -> bool:
    """An arithmetic scalar."""
    return found.form in (Form.INTEGER, Form.FLOATING)


def space_of(found: Type) -> Space:
    """Where an object of this type is; an array is where its elements are."""
    while (
        found.form is Form.ARRAY and found.space in (Space.NONE, Space.PRIVATE) and found.element is not None
    ):
        found = found.element
    return found.space


class TypeNames:
    """Spells types; remembers the names it makes for records.  One per program."""

    def __init__(self) -> None:
        self._records: dict[int, str] = {}

    def record(self, found: Type) -> str:
        """The C++ name of a struct or union, of its own: in C variables and other records may share it."""
        known = self._records.get(found.record)
        if known is None:
            tag = re.sub(r"\A(struct|union) ", "", unqualified(found))
            known = f"_cl_record{len(self._records)}"
            if re.fullmatch(r"\w+", tag):
                known += f"_{safe_name(tag)}"
            self._records[found.record] = known
        return known

    def scalar(self, found: Type, node: SyntaxNode | None) -> str:
        """The C++ name of an arithmetic type; enumerations are the integers that clang makes of them."""
        canonical = unqualified(found)
        atomic = _ATOMIC.match(canonical)
        if atomic is not None:
            canonical = atomic.group(1).strip()
        if canonical in _SCALARS:
            return _SCALARS[canonical]
        if found.form is Form.INTEGER and found.nbytes and _ENUMERATION.fullmatch(canonical):
            return "unsigned " * found.unsigned + _OF_ENUMERATIONS[found.nbytes]
        raise UnknownConstruct(node, f"the type '{found.spelling}'")

    def plain(self, found: Type, node: SyntaxNode | None) -> str:
        """A type that needs no declarator, without qualifiers."""
        match found.form:
            case Form.VOID:
                return "void"
            case Form.INTEGER | Form.FLOATING:
                return self.scalar(found, node)
            case Form.VECTOR:
                assert found.element is not None
                return f"_cl_vec<{self.scalar(found.element, node)}, {found.count}>"
            case Form.RECORD:
                return self.record(found)
            case Form.EVENT:
                return "_cl_event"
            case Form.SAMPLER:
                return "_cl_sampler"
            case Form.IMAGE:
                kind = IMAGE_TYPES.get(unqualified(found))
                if kind is None:
                    raise UnknownConstruct(node, f"'{found.spelling}'")
                return f"_cl_image<{kind:#x}>"
            case _:
                raise UnknownConstruct(node, f"the type '{found.spelling}'")

    def declare(self, found: Type, name: str, node: SyntaxNode | None) -> str:
        """A declaration of ``name``; an abstract one for an empty name."""
        if found.form is Form.ARRAY:
            assert found.element is not None
            inner = f"({name})" if name.startswith("*") else name
            count = str(found.count) if found.count else ""
            # libclang tells the qualifiers of an array's elements with the array.
            element = found.element
            element = replace(
                element, const=found.const or element.const, volatile=found.volatile or element.volatile
            )
            return self.declare(element, f"{inner}[{count}]", node)
        qualifiers = "const " * found.const + "volatile " * found.volatile
        if found.form is Form.POINTER:
            if found.element is None:
                raise UnknownConstruct(node, f"the type '{found.spelling}'")
            restrict = "__restrict__ " * found.restrict
            return self.declare(found.element, f"*{restrict}{qualifiers}{name}".rstrip(), node)
        if found.space is Space.CONSTANT and not found.const:
            qualifiers = f"const {qualifiers}"
        return f"{qualifiers}{self.plain(found, node)} {name}".rstrip()

    def of(self, found: Type, node: SyntaxNode | None) -> str:
        """A type for a cast or a template argument."""
        return self.declare(found, "", node)

    def value(self, found: Type, node: SyntaxNode | None) -> str:
        """The type of an expression: without qualifiers at the top."""
        if found.form is Form.POINTER:
            if found.element is None:
                raise UnknownConstruct(node, f"the type '{found.spelling}'")
            return self.declare(found.element, "*", node)
        return self.plain(found, node)
