"""Random kernels: affine and quasi-affine indices under guards, loops and data-dependent conditions.

No access can leave its buffer: indices are small, and those that may not be are guarded or masked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random

import numpy as np

from sdi.ndrange import NDRange
from tests.sampling.checking import Launch

INTS = 8192
_MIDDLE = 4096


@dataclass(frozen=True, slots=True)
class Generated:
    """A program with one kernel, ``k``, and a launch of it."""

    source: str
    launch: Launch


class _Writer:
    """Writes one kernel."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names = ["x", "y", "g", "l", "n"]
        self.lines: list[str] = []
        self.depth = 1
        self.loops = 0
        self.statements = 0

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def affine(self, size: int = 5) -> str:
        """A sum of at most three names; its absolute value stays below 1200."""
        parts = [str(self.random.randint(-20, 20))]
        for _ in range(self.random.randint(1, 3)):
            name = self.random.choice(self.names)
            parts.append(f"{self.random.randint(-size, size)} * {name}")
        return "(" + " + ".join(parts) + ")"

    def index(self) -> str:
        """An int expression; its absolute value stays below 3600."""
        inner = self.affine()
        match self.random.randint(0, 13):
            case 0:
                return f"({inner} / {self.random.randint(2, 7)})"
            case 1:
                return f"({inner} % {self.random.randint(2, 9)})"
            case 2:
                return f"({inner} & {self.random.choice((3, 7, 15, 21))})"
            case 3:
                return f"({inner} >> {self.random.randint(1, 4)})"
            case 4:
                return f"{self.random.choice(('min', 'max'))}({inner}, {self.affine()})"
            case 5:
                return f"({self.condition()} ? {inner} : {self.affine()})"
            case 6:
                return f"(int)(uchar){inner}"
            case 7:
                return f"((int)((uint){inner} >> {self.random.randint(20, 31)}) & 1023)"
            case 8:
                return f"(int)(((uint){inner}) % 97u)"
            case 9:
                return f"({inner} + (x / 3) * 2 + x % 3)"
            case 10:
                return f"clamp({inner}, -{self.random.randint(0, 30)}, n)"
            case _:
                return inner

    def condition(self) -> str:
        """A condition."""
        a, b = self.affine(), self.affine(2)
        match self.random.randint(0, 8):
            case 0:
                return f"{a} == {self.random.randint(-9, 9)}"
            case 1:
                return f"{a} != {b}"
            case 2:
                return f"(uint){a} < {self.random.randint(1, 90)}u"
            case 3:
                return f"({a} < {b} || {self.affine()} > 4)"
            case 4:
                return f"({a} < {b} && {self.affine()} > -4)"
            case 5:
                return f"!({a} % 3 == 1)"
            case 6:
                return f"(x - 3u < {self.random.randint(0, 40)}u)"
            case _:
                return f"{a} {self.random.choice(('<', '<=', '>', '>='))} {b}"

    def statement(self) -> None:
        """A statement, perhaps with others inside."""
        self.statements += 1
        choice = self.random.randint(0, 11)
        if self.statements > 12 or self.depth > 4:
            choice = 0
        match choice:
            case 1 | 2:
                self.put(f"if ({self.condition()}) {{")
                self.block()
                if self.random.random() < 0.4:
                    self.put("} else {")
                    self.block()
                self.put("}")
            case 3 if self.loops < 2:
                self.loop()
            case 4:
                self.put(f"if (a[{self.index()} + {_MIDDLE}] > 1) {{")
                self.block()
                self.put("}")
            case 5 if self.loops == 0:
                self.put(f"if ({self.condition()})")
                self.put("    return;")
            case 6:
                name = f"v{len(self.names)}"
                self.put(f"int {name} = clamp({self.index()}, -60, 60);")
                if self.random.random() < 0.5:
                    self.put(f"if ({self.condition()})")
                    self.put(f"    {name} = clamp({self.affine()}, -40, 60);")
                self.names.append(name)
            case 7:
                at = self.index()
                self.put(f"if ({at} >= 0 && {at} < {self.random.choice((30, 100))})")
                self.put(f"    b[{at}] = 3;")
            case 8:
                self.put(f"b[({self.index()} * {self.affine()}) & 1023] = 4;")
            case _:
                self.put(f"b[{self.index()} + {_MIDDLE}] = a[{self.index()} + {_MIDDLE}];")

    def block(self) -> None:
        """One or two statements, and the names they declare."""
        names = list(self.names)
        self.depth += 1
        for _ in range(self.random.randint(1, 2)):
            self.statement()
        self.depth -= 1
        self.names = names

    def loop(self) -> None:
        """A loop of at most about ten iterations."""
        self.loops += 1
        name = f"k{self.loops}{self.statements}"
        step = self.random.randint(1, 3)
        head = self.random.choice(
            (
                f"for (int {name} = 0; {name} < 5; {name}++)",
                f"for (int {name} = x; {name} < x + n; {name} += {step})",
                f"for (int {name} = l; {name} <= 9; {name} += {step})",
                f"for (int {name} = 8; {name} >= {self.random.randint(0, 4)}; {name} -= {step})",
                f"for (int {name} = x; {name} < 40; {name} += 9)",
                f"for (uint {name} = 6; {name} > 0; {name}--)",
                f"for (int {name} = 1; {name} < 30; {name} *= 2)",
                f"for (int {name} = 0; {name} != 4; {name}++)",
                f"for (int {name} = 0; {name} < min(x, 6); {name}++)",
                f"for (int {name} = 0; {name} < (a[x] & 7); {name}++)",
            )
        )
        if self.random.random() < 0.3:
            self.put(f"int s{name} = {self.random.randint(-9, 9)};")
        has_second = bool(self.lines) and self.lines[-1].lstrip().startswith(f"int s{name}")
        names = list(self.names)
        self.put(head + " {")
        self.names.append(f"(int){name}" if "uint" in head else name)
        if has_second:
            self.names.append(f"s{name}")
        if self.random.random() < 0.25:
            leave = self.random.choice(("continue", "break", "break"))
            if self.random.random() < 0.4:
                self.put(f"    b[{self.affine()} + {_MIDDLE}] = 6;")
            self.put(f"    if ({self.condition()}) {leave};")
        self.block()
        if has_second:
            update = self.random.choice((f"s{name} += 3;", f"s{name} -= 1;", f"if (x > 3) s{name} += 2;"))
            self.put("    " + update)
        self.put("}")
        self.names = [*names, f"s{name}"] if has_second else names
        self.loops -= 1

    def kernel(self) -> str:
        """The text."""
        for _ in range(self.random.randint(1, 4)):
            self.statement()
        head = "__kernel void k(__global const int *a, __global int *b, int n)\n{\n"
        ids = (
            "    int x = get_global_id(0), y = get_global_id(1), g = get_group_id(0), l = get_local_id(0);\n"
        )
        return head + ids + "\n".join(self.lines) + "\n}\n"


def generate(seed: int) -> Generated:
    """The kernel and launch number ``seed``."""
    random = Random(seed)
    source = _Writer(random).kernel()
    local = random.choice((1, 4, 5))
    groups = random.randint(1, 6)
    offset = random.choice((0, 0, 0, 3))
    if random.random() < 0.5:
        rows = random.choice((1, 2))
        ndrange = NDRange(2, (offset, 0, 0), (local * groups, rows * 4, 1), (local, rows, 1))
    else:
        ndrange = NDRange(1, (offset, 0, 0), (local * groups, 1, 1), (local, 1, 1))
    n = struct.pack("<i", random.choice((0, 1, 3, 8, 10)))
    buffers = np.zeros(4 * INTS, np.uint8), np.zeros(4 * INTS, np.uint8)
    return Generated(source, Launch(ndrange, (*buffers, n)))
