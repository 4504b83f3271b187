"""Random programs for the preprocessor: conditions and macros whose results end in one string.

A program is lines of directives and string literals, of names that no other program has, so that many of them
make one text.  What is left of them, all literals in a row, is what two compilers have to agree on: the sign
and some bits of conditions, which branches were taken, and macro expressions spelled out.
"""

from __future__ import annotations

from random import Random

from sdi.clc.frontend.base_header import FUNCTION_MACROS
from sdi.clc.preprocess.probe import PLACES, is_operator, usual_questions

PRELUDE = """
#define SPELL(...) #__VA_ARGS__
#define TEXT(...) SPELL(__VA_ARGS__)
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define NOTHING
#define CALL(f, ...) f(__VA_ARGS__)
#define TWICE(x) x x
"""
NEXT, END = "\036~\036", "\004~\004"
"""Between programs and behind the last one; a backslash that a program spells may make one such character."""
_NAMES = tuple(
    name
    for name in usual_questions()[1:]
    if not name.startswith(("as_", "ATOMIC_VAR", "cl_")) and name not in FUNCTION_MACROS
)
"""What may be defined.  Not extensions, which are those of the image, nor macros with arguments: the image
does not know their texts."""
_OPERATORS = (
    "+",
    "-",
    "*",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&&",
    "||",
    "/",
    "%",
)
_SUFFIXES = ("", "", "", "", "u", "U", "l", "L", "ul", "LU", "ll", "LL", "ull", "llu", "uLL")
_CHARACTERS = (
    "a",
    "Z",
    "0",
    " ",
    "\\n",
    "\\0",
    "\\377",
    "\\xff",
    "\\x7f",
    "\\177",
    "\\'",
    "\\\\",
    '"',
    "\\a",
    "\\e",
    "ab",
    "abc",
    "\\1234",
    "\\377\\377",
    "abcd",
    "zzzzz",
    "\\x80a",
    "\\?",
    "//",
    "/*",
)
_TOKENS = (
    "a",
    "b",
    "x1",
    "_y",
    "1",
    "2.5f",
    "0x1p-3",
    "1e+5",
    ".5",
    "'c'",
    '"s"',
    '"a\\"b\\\\n"',
    "'\\''",
    "+",
    "-",
    "++",
    "->",
    "<<=",
    "==",
    "!",
    "~",
    "&&",
    ";",
    ":",
    "?",
    "[",
    "]",
    "{",
    "}",
    "...",
    ".",
    "float4",
    "(1, 2)",
    "(a)",
    "sin",
    "min",
    "__global",
    "__LINE__",
    "__COUNTER__",
    "$",
    "1.e",
    "0b1",
    "L'x'",
    "\\",
    "@",
    "<:",
    "%>",
    "??(",
)
TESTS = {
    "__has_builtin": (
        "__builtin_popcount",
        "__builtin_expect",
        "__builtin_ia32_pause",
        "__sync_fetch_and_add",
        "printf",
        "nothing",
        "__builtin_astype",
        "__builtin_shufflevector",
        "__nvvm_read_ptx_sreg_tid_x",
        "abs",
        "__builtin_nanf",
    ),
    "__has_attribute": (
        "opencl_unroll_hint",
        "always_inline",
        "noinline",
        "packed",
        "aligned",
        "nothing",
        "address_space",
        "overloadable",
        "intel_reqd_sub_group_size",
        "reqd_work_group_size",
        "__packed__",
        "amdgpu_num_vgpr",
        "target",
        "flatten",
    ),
    "__has_feature": (
        "c_static_assert",
        "blocks",
        "address_sanitizer",
        "nothing",
        "attribute_overloadable",
        "modules",
    ),
    "__has_extension": (
        "c_static_assert",
        "blocks",
        "c_generic_selections",
        "nothing",
        "c_alignas",
        "matrix_types",
    ),
    "__is_identifier": ("int", "foo", "kernel", "half", "__global", "_Bool", "float4", "inline"),
    "__has_warning": ('"-Wall"', '"-Wnothing"', '"-Wformat"'),
    "__has_include": ("<stdio.h>", '"nothing.h"', "<nothing/at/all.h>"),
    "__has_declspec_attribute": ("align", "nothing", "dllexport"),
}
_GARBAGE = (
    "#unknown directive",
    "don't",
    "#include <none.h>",
    "#error no",
    "# 3 words",
    'a "b',
    "#define",
    "#if (((",
    "#pragma once",
    "#line",
    "/* #else */",
    "// #endif",
    "$ @ `",
    "#define 1x",
    "#undef",
    "??=else_",
)


class Program:
    """One program; ``number`` makes its names its own."""

    def __init__(self, random: Random, number: int) -> None:
        self.random = random
        self.number = number
        self.lines: list[str] = []
        self.values: list[str] = []
        self.texts: list[str] = []
        self.functions: dict[str, int] = {}
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"P{self.number}_{self.count}"

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def literal(self) -> str:
        random = self.random
        kind = random.random()
        if kind < 0.12:
            return f"'{random.choice(_CHARACTERS)}'"
        if kind < 0.14:
            return f"L'{random.choice(_CHARACTERS[:10])}'"
        value = random.choice(
            (
                random.randint(0, 9),
                random.randint(0, 300),
                1 << random.randint(0, 126),
                (1 << 64) - random.randint(0, 3),
                (1 << 63) - random.randint(0, 2),
                random.getrandbits(40),
            )
        )
        spelled = random.choice(
            (str(value), str(value), hex(value), "0" + oct(value)[2:], bin(value), f"0X{value:X}")
        )
        return spelled + random.choice(_SUFFIXES)

    def condition(self, depth: int = 3) -> str:
        """An integer expression; it may divide by zero."""
        random = self.random
        kind = random.random()
        if depth == 0 or kind < 0.2:
            return self.leaf()
        if kind < 0.62:
            operator = random.choice(_OPERATORS)
            right = self.condition(depth - 1)
            if operator in "/%" and random.random() < 0.97:
                right = f"(({right}) | 1)" if random.random() < 0.5 else str(random.randint(1, 99))
            if operator in ("<<", ">>") and random.random() < 0.8:
                right = str(random.randint(0, 140))
            return f"{self.condition(depth - 1)} {operator} {right}"
        if kind < 0.72:
            return f"{self.pick('-', '+', '~', '!', '- -')}{self.leaf()}"
        if kind < 0.8:
            return (
                f"({self.condition(depth - 1)} ? {self.condition(depth - 1)} : {self.condition(depth - 1)})"
            )
        if kind < 0.83:
            return f"({self.condition(depth - 1)}, {self.condition(depth - 1)})"
        return f"({self.condition(depth - 1)})"

    def leaf(self) -> str:
        random = self.random
        kind = random.random()
        if kind < 0.3 and self.values:
            return random.choice(self.values)
        if kind < 0.38:
            known = [
                *self.values,
                *self.functions,
                f"P{self.number}_none",
                "NOTHING",
                random.choice(_NAMES),
            ]
            name = random.choice(known)
            return self.pick(f"defined({name})", f"defined {name}", f"!defined( {name} )")
        if kind < 0.42:
            return self.test()
        if kind < 0.46:
            return self.pick(
                "true", "false", "unknown", "__LINE__", "__INT_MAX__", "__CHAR_BIT__", "__OPENCL_C_VERSION__"
            )
        return self.literal()

    def test(self) -> str:
        name = self.random.choice(sorted(TESTS))
        return f"{name}({self.pick('', ' ')}{self.random.choice(TESTS[name])}{self.pick('', ' ')})"

    def words(self, most: int, extra: tuple[str, ...] = ()) -> str:
        """Tokens, calls among them; parentheses are balanced."""
        random = self.random
        out = []
        for _ in range(random.randint(0, most)):
            kind = random.random()
            if kind < 0.3 and extra:
                out.append(random.choice(extra))
            elif kind < 0.45 and self.texts:
                out.append(random.choice(self.texts))
            elif kind < 0.62 and self.functions:
                out.append(self.call(most - 1) if most > 1 else "c")
            elif kind < 0.66:
                out.append("(" + self.words(most - 1, extra) + ")")
            elif kind < 0.7:
                out.append(
                    random.choice(("NOTHING", "TWICE(a)", "TWICE()", "GLUE(a, b)", "GLUE(, 1)", "SPELL(a b)"))
                )
            elif kind < 0.74:
                name = random.choice(_NAMES)
                out.append(name if not is_operator(name) and name not in PLACES else "b")
            else:
                out.append(random.choice(_TOKENS))
        return random.choice(("", " ", "  ", " /**/ ")).join(out) if random.random() < 0.2 else " ".join(out)

    def call(self, most: int = 2) -> str:
        """A call of a macro, or only its name."""
        random = self.random
        name = random.choice(sorted(self.functions))
        wanted = self.functions[name]
        if random.random() < 0.07:
            return name
        count = wanted if wanted >= 0 else random.randint(0, 3) + -wanted - 1
        arguments = ", ".join(self.argument(most - 1) for _ in range(count))
        return f"{name}{self.pick('', '', ' ')}({self.pick('', ' ')}{arguments}{self.pick('', ' ')})"

    def argument(self, most: int) -> str:
        words = self.words(most) if most > 0 else self.random.choice(_TOKENS)
        return words.replace(",", ";") if "(" not in words else f"({words})"

    def define(self) -> None:
        random = self.random
        kind = random.random()
        name = self.name()
        if kind < 0.3:
            self.lines.append(f"#define {name} {self.condition(2)}")
            self.values.append(name)
            return
        if kind < 0.5:
            self.lines.append(f"#  define {name} {self.words(4, (name,))}")
            self.texts.append(name)
            return
        parameters = list("xyz")[: random.randint(0, 3)]
        rest = self.pick("", "", "...", "more...")
        body = []
        variadic = {"...": "__VA_ARGS__", "more...": "more", "": ""}[rest]
        names = [*parameters, *([variadic] if variadic else [])]
        for _ in range(random.randint(0, 5)):
            kind = random.random()
            if kind < 0.3 and names:
                body.append(random.choice(names))
            elif kind < 0.42 and names:
                body.append(f"{self.pick('#', '# ')}{random.choice(names)}")
            elif kind < 0.55 and names:
                sides = [*names, "a", "b2", "_", "1"]
                chain = [
                    random.choice(sides[:-1]),
                    *(random.choice(sides) for _ in range(random.randint(1, 2))),
                ]
                body.append(self.pick("##", " ## ").join(chain))
            elif kind < 0.62 and variadic:
                body.append(self.pick(f", ## {variadic}", f", {variadic}", f",##{variadic}"))
            elif kind < 0.67 and variadic:
                body.append(f"__VA_OPT__({self.pick(',', 'o', 'o p', names[0], '')})")
            elif kind < 0.72 and names:
                caller = self.pick("TEXT", "SPELL", "TWICE", "CALL", "CALL")
                called = f"({caller}({random.choice(names)}, {random.choice(names)}))"
                body.append(called if random.random() < 0.3 else f"TWICE({random.choice(names)})")
            elif kind < 0.78 and self.functions:
                body.append(self.call(0))
            else:
                body.append(self.pick(*_TOKENS, name))
        if body and "#" in body[-1] and body[-1].endswith("#"):
            body.append("e")
        given = ", ".join([*parameters, *([rest] if rest else [])])
        self.lines.append(f"#define {name}({given}) {' '.join(body)}")
        self.functions[name] = len(parameters) if not rest else -len(parameters) - 1

    def say(self) -> None:
        """A literal that tells what something came to."""
        random = self.random
        kind = random.random()
        if kind < 0.35:
            self.tell(self.condition())
        elif kind < 0.75 and (self.functions or self.texts):
            self.lines.append(
                f"TEXT({self.words(4)})" if random.random() < 0.6 else f"SPELL({self.words(4)})"
            )
        elif kind < 0.85 and self.functions:
            self.spread()
        elif kind < 0.9:
            name = random.choice(_NAMES)
            text = (
                "" if is_operator(name) or name in PLACES - {"__LINE__", "__COUNTER__"} else f"TEXT({name})"
            )
            self.lines += [f"#ifdef {name}", f'"d" {text}', "#endif"]
        elif kind < 0.95:
            self.lines.append(
                self.pick(
                    "TEXT(__LINE__)", "TEXT(__COUNTER__)", "TEXT(TWICE(__LINE__))", "TEXT(__INCLUDE_LEVEL__)"
                )
            )
        else:
            self.tell(self.test())

    def tell(self, condition: str) -> None:
        given = f"({condition})"
        bits = self.random.randint(0, 130)
        self.lines += [f"#if {condition}", '"t"', "#else", '"f"', "#endif"]
        if self.random.random() < 0.5:
            self.lines += [f"#if {given} < 0", '"n"', "#elif " + given + f" >> {bits} & 1", '"o"', "#endif"]

    def spread(self) -> None:
        """A call over several lines, with directives in it."""
        random = self.random
        name = random.choice(sorted(self.functions))
        wanted = self.functions[name]
        count = wanted if wanted >= 0 else random.randint(1, 3) + -wanted - 1
        lines = ["TEXT(" + self.words(1) + f" {name}("]
        for index in range(count):
            lines.append(self.argument(1) + ("," if index + 1 < count else ""))
            if random.random() < 0.5:
                inside = self.pick("a", "__LINE__", "b c", "", "TWICE(q)")
                lines += [
                    f"#if {self.condition(1)}",
                    inside,
                    "#else",
                    self.pick("e", "", "f __LINE__"),
                    "#endif",
                ]
            elif random.random() < 0.2:
                lines.append(self.pick("// comment", "/* two", "\\", "") + "")
                if lines[-1] == "/* two":
                    lines.append("lines */")
        lines.append(f") {self.words(1)})")
        self.lines += lines

    def branch(self, depth: int) -> None:
        random = self.random
        self.lines.append(
            self.pick(
                f"#if {self.condition(2)}",
                f"#ifdef {self.pick(*(self.values or ['no']))}",
                "#if 0",
                f"#ifndef {random.choice(_NAMES)}",
            )
        )
        self.block(depth)
        for _ in range(random.randint(0, 2)):
            self.lines.append(f"#elif {self.condition(2)}")
            self.block(depth)
        if random.random() < 0.6:
            self.lines.append(self.pick("#else", "# else // what", "#else /* x */"))
            self.block(depth)
        self.lines.append("#endif")

    def skipped(self) -> None:
        random = self.random
        self.lines.append(self.pick("#if 0", "#ifdef nowhere", "#if 1 == 2", "#ifndef NOTHING"))
        self.lines += [
            random.choice(_GARBAGE).replace("#if (((", "#if (((\n#endif") for _ in range(random.randint(1, 4))
        ]
        self.lines += [self.pick("#else", "#elif 1"), f'"{self.pick("p", "q")}"']
        if random.random() < 0.4:
            self.lines.append("#elif ((( not looked at")
            if self.lines[-3].startswith("#else"):
                self.lines.pop()
        self.lines.append("#endif")

    def block(self, depth: int) -> None:
        saved = list(self.values), list(self.texts), dict(self.functions)
        for _ in range(self.random.randint(0, 3)):
            self.step(depth - 1)
        if depth < 2:
            # Outside it is not known whether this part was there.
            self.values, self.texts, self.functions = saved

    def step(self, depth: int) -> None:
        random = self.random
        kind = random.random()
        if kind < 0.36:
            self.define()
        elif kind < 0.78:
            self.say()
        elif kind < 0.86 and depth > 0:
            self.branch(depth)
        elif kind < 0.9:
            self.skipped()
        elif kind < 0.92 and self.texts:
            self.lines.append(f"#undef {random.choice(self.texts)}")
        elif kind < 0.93:
            self.lines.append(
                f"#line {random.randint(1, 9999)}{self.pick('', f' {chr(34)}f{self.number}.cl{chr(34)}')}"
            )
        elif kind < 0.94:
            is_named = any("#line" in each and '"' in each for each in self.lines)
            self.lines.append(self.pick("TEXT(__FILE__)" if is_named else "", f"??=define T{self.name()} 1"))
        else:
            self.lines.append(self.pick('"w" \\', "/* c */ # /* d */", "// e \\", "", '/* f */ "g"'))
            if self.lines[-1].endswith("\\"):
                self.lines.append("")


def program(seed: int) -> str:
    """The lines of one program; the same for the same seed."""
    made = Program(Random(seed), seed)
    for _ in range(made.random.randint(6, 16)):
        made.step(2)
    return "\n".join(made.lines) + "\n"


def together(programs: list[str]) -> str:
    """An OpenCL C text whose kernel ``tell`` writes what all of them came to."""
    parts = "".join(f'{each}"\\036~\\036"\n' for each in programs)
    return f"""{PRELUDE}
__constant char said[] =
{parts}"\\004~\\004";
__kernel void tell(__global char *out, uint room)
{{
    for (uint i = 0; i < sizeof(said) && i < room; i++)
        out[i] = said[i];
}}
"""
