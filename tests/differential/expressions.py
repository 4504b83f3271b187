"""Random expressions of type int whose bounds are known as they are written, so that no index leaves its buffer."""

# ruff: noqa: E501 -- lines of kernels

from __future__ import annotations

from dataclasses import dataclass
from random import Random

INTS = 4096
"""Elements of each buffer that is only read."""
PIXELS = 128
"""Width and height of each image."""
VARIABLE = 300
"""Variables stay between minus that and that."""

PRELUDE = """\
#define ANY __attribute__((may_alias))
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
#define SQUARE(v) ((v) * (v))
#define PICK(c, a, b) ((c) ? (a) : (b))
#define AT(p, i) (p)[i]
typedef struct ANY Pair { short lo; short hi; int v[2]; } Pair;
typedef struct ANY { int a; Pair pair; int2 two; } Cell;
typedef union ANY { int i; uint u; uchar c[4]; short2 s; } Word;
typedef short ANY Short;
__constant int table[8] = {3, 0, 7, 1, 12, 5, 2, 9};
__constant short2 pairs[4] = {(short2)(1, 2), (short2)(0, 5), (short2)(7, 3), (short2)(4, 4)};
enum { FEW = 2, SOME = 5, MANY = 11 };
int folded(int a, int b) { if (a > b) return (a - b) & 15; if (b < 0) return 3; return b & 7; }
int counted(int a) { int c = 0; for (int i = 0; i < (a & 7); i++) { if (i == 5) continue; c += i; } return c; }
int searched(__global const int p[16], int n) { int i = 0; while (i < n && (p[i] & 3)) i++; return i; }
int last_of(__global const int *p, int n) { int v, i = 0; do { v = p[i++] & 31; } while (i < n); return v; }
void stepped(int *v, int by) { *v = (*v + by) & 31; }
void swapped(int *a, int *b) { int t = *a; *a = *b; *b = t; }
void put(__global int p[], int at, int v) { p[at] = v; }
void put_guarded(__global int *p, int at, int v, int c) { if (c > 2) return; p[at] = v; }
void advanced(__global int **p, int by) { *p += by; }
__global int *chosen(__global int *a, __global int *b, int c) { return c & 1 ? a : b; }
__global int *moved(__global int a[4], int by) { a += by; return a; }
Pair made(int a, int b) { Pair p; p.lo = a; p.hi = b; p.v[0] = b; p.v[1] = a; return p; }
int first_of(int v[2]) { return v[0] & 15; }
int summed(Pair p) { return (p.lo & 15) + (p.hi & 15) + (p.v[1] & 7) + first_of(p.v); }
"""


@dataclass(frozen=True, slots=True)
class Bounded:
    """An expression of type int between ``lo`` and ``hi``."""

    text: str
    lo: int
    hi: int


class Expressions:
    """Writes expressions of what can be named.

    ``known``: ids, counters and parameters, all ints; ``variables``: ints that may be assigned;
    ``has_images``: whether there is an image ``picture`` to read.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.known: list[Bounded] = [
            Bounded("n", 0, 12),
            Bounded("(int)m", 0, 40),
            Bounded("pr.lo", 0, 9),
            Bounded("pr.v[1]", 0, 9),
        ]
        self.variables: list[str] = []
        self.has_images = False

    def chance(self, of: float) -> bool:
        """True so often."""
        return self.random.random() < of

    def leaf(self) -> Bounded:
        r = self.random
        match r.randint(0, 9):
            case 0:
                value = r.randint(-20, 20)
                return Bounded(
                    f"({value})" if value < 0 else r.choice((str(value), f"{value:#x}")), value, value
                )
            case 1 | 2 if self.variables:
                return Bounded(r.choice(self.variables), -VARIABLE, VARIABLE)
            case 3:
                return r.choice(
                    (Bounded("FEW", 2, 2), Bounded("SOME", 5, 5), Bounded("(int)sizeof(Cell)", 24, 24))
                )
            case _:
                return r.choice(self.known)

    def affine(self) -> Bounded:
        """A sum, computed in some type that it is congruent in."""
        r = self.random
        text, lo, hi = str(r.randint(0, 20)), 0, 20
        kind = r.choice(("", "", "(uint)", "(long)", "(size_t)"))
        for _ in range(r.randint(1, 3)):
            part, factor = self.leaf(), r.randint(-4, 5)
            sign = "-" if factor < 0 else "+"
            text += f" {sign} {abs(factor)} * {kind}{part.text}"
            ends = (factor * part.lo, factor * part.hi)
            lo, hi = lo + min(ends), hi + max(ends)
        return Bounded(f"(int)({text})" if kind else f"({text})", lo, hi)

    def integer(self, depth: int = 2) -> Bounded:
        """Any int."""
        r = self.random
        if depth == 0:
            return self.leaf() if self.chance(0.5) else self.affine()
        a = self.integer(depth - 1)
        if a.hi - a.lo > 100_000:
            a = Bounded(f"({a.text} & 1023)", 0, 1023)
        widest = max(abs(a.lo), abs(a.hi))
        match r.randint(0, 33):
            case 0:
                k = r.randint(2, 7)
                return Bounded(f"({a.text} / {k})", -(widest // k) if a.lo < 0 else 0, widest // k)
            case 1:
                k = r.choice((2, 3, 4, 5, 8, 8))
                if self.chance(0.3):  # a remainder that is never negative
                    return Bounded(f"(({a.text} % {k} + {k}) % {k})", 0, k - 1)
                return Bounded(f"({a.text} % {k})", -(k - 1) if a.lo < 0 else 0, k - 1)
            case 2:
                mask = r.choice((1, 3, 7, 15, 31, 21, 12))
                return Bounded(f"({a.text} & {mask})", 0, mask)
            case 3:
                k = r.randint(1, 5)
                return Bounded(f"({a.text} >> {k})", a.lo >> k, a.hi >> k)
            case 4:
                k = r.randint(1, 3)
                return Bounded(f"({a.text} * (1 << {k}))", a.lo << k, a.hi << k)
            case 5:
                return Bounded(f"(({a.text} & 31) ^ {r.randint(1, 31)})", 0, 31)
            case 6:
                return Bounded(f"(({a.text} & 28) | {r.randint(0, 31)})", 0, 31)
            case 7 | 8:
                b = self.integer(depth - 1)
                name, pick = r.choice((("min", min), ("max", max)))
                return Bounded(f"{name}((int){a.text}, (int){b.text})", pick(a.lo, b.lo), pick(a.hi, b.hi))
            case 9:
                low, high = sorted((r.randint(-30, 30), r.randint(0, 60)))
                return Bounded(f"clamp((int){a.text}, {low}, {high})", low, high)
            case 10:
                return Bounded(f"(int)abs((int){a.text})", 0, widest)
            case 11 | 12:
                b = self.integer(depth - 1)
                form = r.choice(("({} ? {} : {})", "PICK({}, {}, {})", "select((int){2}, (int){1}, {0})"))
                condition = (
                    self.condition(depth - 1)
                    if "select" not in form
                    else f"(int)({self.condition(depth - 1)})"
                )
                return Bounded(form.format(condition, a.text, b.text), min(a.lo, b.lo), max(a.hi, b.hi))
            case 13:
                kind, low, high = r.choice(
                    (("char", -128, 127), ("uchar", 0, 255), ("short", -32768, 32767), ("ushort", 0, 65535))
                )
                made = Bounded(f"(int)({kind}){a.text}", low, high)
                return made if high < 300 else Bounded(f"({made.text} % 50)", -49, 49)
            case 14:
                return Bounded(f"(int)(((uint){a.text} * 2654435761u) >> {r.choice((26, 28))})", 0, 63)
            case 15:
                return Bounded(f"(int)((uint){a.text} % {r.randint(2, 40)}u)", 0, 39)
            case 16:
                return Bounded(f"({self.condition(depth - 1)})", 0, 1)
            case 17:
                return Bounded(f"table[{a.text} & 7]", 0, 12)
            case 18:
                return Bounded(f"(int)pairs[{a.text} & 3].{r.choice('xy')}", 0, 7)
            case 19 | 20:
                return self.read(depth - 1)
            case 21:
                b = self.integer(depth - 1)
                return Bounded(f"folded({a.text}, {b.text})", 0, 15)
            case 22:
                return Bounded(f"counted({a.text})", 0, 21)
            case 23:
                text = r.choice(("searched", "last_of"))
                start = self.index(depth - 1, INTS - 64)
                return Bounded(f"{text}(in + {start}, {self.reduced(depth - 1, 16)})", 0, 31)
            case 24:
                return Bounded(f"summed(made({a.text}, {self.leaf().text}))", 0, 52)
            case 25 if self.variables:
                v = r.choice(self.variables)
                return Bounded(f"({v} = {self.fitting(a).text}, {v})", -VARIABLE, VARIABLE)
            case 26:
                return Bounded(f"(int)(ulong)({a.text} & 15ul)", 0, 15)
            case 27:
                return Bounded(f"(int)mad24((int){a.text} & 63, 3, 5)", 5, 194)
            case 28:
                return Bounded(f"(int)popcount((int){a.text})", 0, 32)
            case 29:
                return Bounded(f"as_int((uint){a.text} & 7u)", 0, 7)
            case 30 if self.chance(0.4):
                b = self.integer(depth - 1)
                return Bounded(f"({a.text} ?: {b.text})", min(a.lo, b.lo), max(a.hi, b.hi))
            case 30:
                return Bounded(f"(int)((size_t){a.text} % 9)", 0, 8)
            case 31 if self.chance(0.5):
                return Bounded(f"(int)(bool){a.text}", 0, 1)
            case 31:
                b = self.leaf()
                corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
                return Bounded(f"({a.text} * {b.text})", min(corners), max(corners))
            case 32 if self.chance(0.3):
                there = self.index(0, 32)
                return Bounded(f"(int)((in + ({self.index(depth - 1, 32)})) - &in[{there}])", -31, 31)
            case 32:
                return Bounded(
                    f"(int)((int2)({a.text}, {self.leaf().text}) & (int2)(15, 7)).{r.choice('xy')}", 0, 15
                )
            case _:
                b = self.affine()
                sign = r.choice("+-")
                low, high = (b.lo, b.hi) if sign == "+" else (-b.hi, -b.lo)
                return Bounded(f"({a.text} {sign} {b.text})", a.lo + low, a.hi + high)

    def condition(self, depth: int = 1) -> str:
        """A condition."""
        r = self.random
        a, b = self.integer(max(depth, 0)), self.affine()
        compare = r.choice(("<", "<=", ">", ">=", "==", "!="))
        match r.randint(0, 10):
            case 0:
                return f"({a.text} {compare} {b.text} && {self.affine().text} > -4)"
            case 1:
                return f"({a.text} {compare} {b.text} || {self.affine().text} > 4)"
            case 2:
                return f"!({a.text} % 3 == 1)"
            case 3:
                return f"({a.text} - 3u < {r.randint(1, 40)}u)"
            case 4:
                return f"(in[{self.index(0, INTS)}] & {r.choice((1, 2, 7))}) {r.choice(('==', '!='))} 0"
            case 5:
                return f"{a.text} & {r.choice((1, 2, 5))}"
            case 6:  # addresses, in one buffer
                one, two = self.index(0, INTS), self.index(0, INTS)
                return f"in + ({one}) {compare} &in[{two}]"
            case _:
                return f"{a.text} {compare} {b.text}"

    def index(self, depth: int, below: int) -> str:
        """An index from 0 to ``below`` - 1 of something that is read."""
        a = self.integer(depth)
        if a.hi - a.lo < below and abs(a.lo) < below:
            shift = max(-a.lo, 0)
            if a.hi + shift < below:
                suffix = self.random.choice(("", "", "u", "ul"))
                return f"{a.text} + {shift}{suffix}" if shift else a.text
        return f"({a.text} & {(1 << (below.bit_length() - 1)) - 1})"

    def reduced(self, depth: int, below: int) -> str:
        """A number from 0 to ``below`` - 1."""
        a = self.integer(depth)
        if a.lo >= 0 and a.hi < below:
            return a.text
        match self.random.randint(0, 3):
            case 0:
                return f"({a.text} % {below} + {below}) % {below}"
            case 1:
                return f"clamp((int){a.text}, 0, {below - 1})"
            case 2:
                return f"(int)((uint){a.text} % {below}u)"
            case _:
                return f"({a.text} & {(1 << (below.bit_length() - 1)) - 1})"

    def fitting(self, a: Bounded) -> Bounded:
        """``a`` as a variable may hold it."""
        if a.lo >= -VARIABLE and a.hi <= VARIABLE:
            return a
        form = self.random.choice(("({} % 200)", "clamp((int){}, -90, 200)", "({} & 255)", "(int)(char)({})"))
        return Bounded(form.format(a.text), -VARIABLE, VARIABLE)

    def read(self, depth: int) -> Bounded:
        """What a buffer holds, made small."""
        r = self.random
        at = self.index(depth, INTS)
        if self.has_images and self.chance(0.25):
            x, y = self.reduced(depth, PIXELS), self.reduced(0, PIXELS)
            sampler = r.choice(("", "nearest, "))
            return Bounded(f"(int)read_imageui(picture, {sampler}(int2)({x}, {y})).{r.choice('xw')}", 0, 255)
        match r.randint(0, 9):
            case 0:
                return Bounded(f"(*(in + {at}) & 15)", 0, 15)
            case 1:
                return Bounded(f"(int)bytes[{at}]", 0, 255)
            case 2:
                return Bounded(f"(((__global const short *)in)[{at}] & 7)", 0, 7)
            case 3:
                return Bounded(
                    f"(vload4({self.index(depth, INTS // 4)}, in).{r.choice(('x', 's3', 'z'))} & 15)", 0, 15
                )
            case 4:
                return Bounded(
                    f"(((__global const int4 *)in)[{self.index(depth, INTS // 4)}].{r.choice('yw')} & 15)",
                    0,
                    15,
                )
            case 5:
                field_ = r.choice(
                    ("a", "pair.lo", "pair.v[1]", "two.y", f"pair.v[{self.integer(0).text} & 1]")
                )
                return Bounded(
                    f"(((__global const Cell *)in)[{self.index(depth, INTS // 8)}].{field_} & 15)", 0, 15
                )
            case 6:
                return Bounded(f"(AT(in, {at}) & 15)", 0, 15)
            case 7:
                return Bounded(
                    f"(int)vload3({self.index(depth, INTS // 3)}, bytes).{r.choice('xyz')}", 0, 255
                )
            case _:
                return Bounded(f"(in[{at}] & 31)", 0, 31)
