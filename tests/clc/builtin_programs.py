"""Programs that use every built-in function, operator, conversion and swizzle with every type and width.

A case is one kernel ``k(a_, b_, c_, r_)`` over 64 work-items; each takes 16 elements of each input and writes
up to 96 of ``r_``.  Cases of ``each_width`` do the same with scalars and with vectors of 2, 3, 4, 8 and 16.
Source: OpenCL C 3.0 specification, sections 6.3, 6.4, 6.15.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

ITEMS, PER_ITEM = 64, 16
ELEMENTS = ITEMS * PER_ITEM
VECTORS = (2, 3, 4, 8, 16)
WIDTHS = (1, *VECTORS)
SIGNED = ("char", "short", "int", "long")
UNSIGNED = ("uchar", "ushort", "uint", "ulong")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float", "double")
SCALARS = INTEGERS + FLOATS
DTYPES = dict(zip(SCALARS, ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"], strict=True))
NBYTES = {name: np.dtype(code).itemsize for name, code in DTYPES.items()}
MASKS = {"float": "int", "double": "long", **{name: name.removeprefix("u") for name in INTEGERS}}
WIDER = {"char": "short", "short": "int", "int": "long", "uchar": "ushort", "ushort": "uint", "uint": "ulong"}

# Functions of floats by their number of arguments, and how many units in the last place they may be off.
# Source: OpenCL C 3.0 specification, sections 7.4 (full profile) and 6.15.2, 6.15.4.
UNARY = {
    "fabs": 0, "ceil": 0, "floor": 0, "trunc": 0, "rint": 0, "round": 0, "logb": 0, "sign": 0,
    "acos": 4, "acosh": 4, "acospi": 5, "asin": 4, "asinh": 4, "asinpi": 5, "atan": 5, "atanh": 5,
    "atanpi": 5,
    "cbrt": 2, "cos": 4, "cosh": 4, "cospi": 4, "erf": 16, "erfc": 16, "exp": 3, "exp2": 3, "exp10": 3,
    "expm1": 3, "log": 3, "log2": 3, "log10": 3, "log1p": 2, "sin": 4, "sinh": 4, "sinpi": 4, "sqrt": 3,
    "rsqrt": 2, "tan": 5, "tanh": 5, "tanpi": 6, "tgamma": 16, "degrees": 2, "radians": 2,
}  # fmt: skip
BINARY = {
    "atan2": 6, "atan2pi": 6, "copysign": 0, "fdim": 0, "fmax": 0, "fmin": 0, "fmod": 0, "hypot": 4,
    "maxmag": 0, "minmag": 0, "nextafter": 0, "pow": 16, "powr": 16, "remainder": 0,
}  # fmt: skip
RELATIONS = (
    "isequal", "isnotequal", "isgreater", "isgreaterequal", "isless", "islessequal", "islessgreater",
    "isordered", "isunordered",
)  # fmt: skip
CLASSES = ("isfinite", "isinf", "isnan", "isnormal", "signbit")
INTEGER_UNARY = ("abs", "clz", "popcount")
INTEGER_BINARY = ("abs_diff", "add_sat", "sub_sat", "hadd", "rhadd", "max", "min", "mul_hi", "rotate")
INTEGER_TERNARY = ("mad_hi", "mad_sat")
OPERATORS = ("+", "-", "*", "&", "|", "^", "<<", ">>")
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
ROUNDINGS = ("", "_rte", "_rtz", "_rtp", "_rtn")


@dataclass(frozen=True, slots=True)
class Case:
    """``inputs``, ``result``: element types.  ``body``: of the kernel; ``i`` is the work-item.

    ``ulps``: how far floats may be from a true result; ``domain``: what inputs are like, see ``inputs_of``.
    """

    name: str
    inputs: tuple[str, str, str]
    result: str
    body: str
    ulps: int = 0
    domain: str = ""
    before: str = ""

    def kernel(self, symbol: str) -> str:
        """The kernel's text."""
        x, y, z = self.inputs
        return (
            f"{self.before}kernel void {symbol}(global const {x} *a_, global const {y} *b_, "
            f"global const {z} *c_, global {self.result} *r_) {{\n"
            f"  size_t i = get_global_id(0); a_ += 16 * i; b_ += 16 * i; c_ += 16 * i; r_ += 96 * i;\n"
            f"  {self.body}\n}}\n"
        )


def program(cases: list[Case]) -> str:
    """A program whose kernels ``k0``, ``k1``, ... are the cases."""
    return "".join(case.kernel(f"k{number}") for number, case in enumerate(cases))


def each_width(
    name: str,
    types: tuple[str, str, str] | str,
    result: str,
    expression: str,
    ulps: int = 0,
    domain: str = "",
    statements: str = "",
) -> Case:
    """A case whose ``expression`` of ``a``, ``b``, ``c`` has ``W`` where a type's width stands."""
    inputs = (types,) * 3 if isinstance(types, str) else types
    parts = []
    for place, width in enumerate(WIDTHS):
        suffix = str(width) if width > 1 else ""
        loads = " ".join(f"{t}{suffix} {v} = {load(suffix, v)};" for t, v in zip(inputs, "abc", strict=True))
        doing = statements.replace("W", suffix)
        value = expression.replace("W", suffix)
        written = f"vstore{suffix}({value}, k, r_ + {16 * place})" if suffix else f"r_[k] = {value}"
        once = "__attribute__((opencl_unroll_hint(1)))"
        parts.append(f"{once} for (int k = 0; k < {PER_ITEM // width}; k++) {{ {loads} {doing} {written}; }}")
    return Case(name, inputs, result, "\n  ".join(parts), ulps, domain)


def load(suffix: str, name: str) -> str:
    """Element or vector ``k`` of an input."""
    return f"vload{suffix}(k, {name}_)" if suffix else f"{name}_[k]"


def groups() -> dict[str, list[Case]]:
    """All cases, in groups for one program each."""
    found: dict[str, list[Case]] = {}
    for t in FLOATS:
        found[f"math of {t}"] = math_cases(t)
        found[f"relations of {t}"] = relation_cases(t)
    for t in INTEGERS:
        found[f"integers of {t}"] = integer_cases(t)
    for t in SCALARS:
        found[f"conversions to {t}"] = list(conversion_cases(t))
    for t in ("char", "ushort", "int", "ulong", "float", "double"):
        found[f"swizzles of {t}"] = list(swizzle_cases(t))
        found[f"shuffles of {t}"] = list(shuffle_cases(t))
    found["halves"] = list(half_cases())
    found["structs"] = list(struct_cases())
    return found


def math_cases(t: str) -> list[Case]:
    """Functions and operators of floats."""
    exponent = (t, "int", t)
    return [
        *(each_width(f, t, t, f"{f}(a)", ulps) for f, ulps in UNARY.items()),
        *(each_width(f, t, t, f"{f}(a, b)", ulps) for f, ulps in BINARY.items()),
        each_width("fma", t, t, "fma(a, b, c)"),
        each_width("clamp", t, t, "clamp(a, b, c)", domain="sorted"),
        each_width("max", t, t, "max(a, b)", domain="finite"),
        each_width("min", t, t, "min(a, b)", domain="finite"),
        each_width("step", t, t, "step(a, b)", domain="finite"),
        each_width("mix", t, t, "mix(a, b, c)", 64, "unit"),
        each_width("mad", t, t, "mad(a, b, c)", 64, "unit"),
        each_width("smoothstep", t, t, f"smoothstep(({t}W)(-0.5f), ({t}W)(1.5f), c)", 64, "unit"),
        each_width("ldexp", exponent, t, "ldexp(a, b)", domain="exponents"),
        each_width("pown", exponent, t, "pown(a, b)", 16, "exponents"),
        each_width("rootn", exponent, t, "rootn(a, b)", 16, "exponents"),
        each_width("ilogb", t, "int", "ilogb(a)", domain="ordinary"),
        each_width("nan", t, MASKS[t], f"isnan(nan(as_u{MASKS[t]}W(a)))"),
        each_width("fract", t, t, "q", 0, "finite", f"{t}W p, q = fract(a, &p);"),
        each_width("whole of fract", t, t, "p", 0, "finite", f"{t}W p, q = fract(a, &p);"),
        each_width("modf", t, t, "q", 0, "", f"{t}W p, q = modf(a, &p);"),
        each_width("whole of modf", t, t, "p", 0, "", f"{t}W p, q = modf(a, &p);"),
        each_width("sine of sincos", t, t, "q", 4, "", f"{t}W p, q = sincos(a, &p);"),
        each_width("cosine of sincos", t, t, "p", 4, "", f"{t}W p, q = sincos(a, &p);"),
        each_width("frexp", t, t, "q", 0, "", f"intW p; {t}W q = frexp(a, &p);"),
        each_width("exponent of frexp", t, "int", "p", 0, "ordinary", f"intW p; {t}W q = frexp(a, &p);"),
        each_width("remquo", t, t, "q", 0, "ordinary", f"intW p; {t}W q = remquo(a, b, &p);"),
        each_width("quotient of remquo", t, "int", "p", 0, "ordinary", f"intW p; {t}W q = remquo(a, b, &p);"),
        *(each_width(op, t, t, f"a {op} b") for op in "+-*"),
        each_width("/", t, t, "a / b", 3),
        *(each_width(f"{op} scalar", t, t, f"a {op} ({t})1.25f") for op in "+-*"),
        *(each_width(f"scalar {op}", t, t, f"({t})1.25f {op} a") for op in "+-*"),
        each_width("-", t, t, "-a"),
        each_width(
            "+=", t, t, "v", 8, "unit", f"{t}W v = a; v += b; v *= ({t})3; v /= c + 1; v -= ({t})2 * b;"
        ),
        *geometric_cases(t),
    ]


def geometric_cases(t: str) -> Iterator[Case]:
    """Geometric functions: their results may be off by several roundings."""
    for width in (1, 2, 3, 4):
        suffix = str(width) if width > 1 else ""
        loads = f"int k = 0; {t}{suffix} a = {load(suffix, 'a')}, b = {load(suffix, 'b')};"
        body = f"{loads} r_[0] = dot(a, b); r_[1] = distance(a, -b); r_[2] = length(a);"
        vector = f"vstore{suffix}(normalize(a), 1, r_);" if suffix else "r_[4] = normalize(a);"
        yield Case(f"geometry {width}", (t,) * 3, t, f"{body} {vector}", 64, "unit")
    for width in (3, 4):
        body = f"vstore{width}(cross(vload{width}(0, a_), -vload{width}(0, b_)), 0, r_);"
        yield Case(f"cross {width}", (t,) * 3, t, body, 1 << 12, "unit")


def relation_cases(t: str) -> list[Case]:
    """Relational functions and comparisons of floats."""
    mask = MASKS[t]
    return [
        *(each_width(f, t, mask, f"{f}(a, b)") for f in RELATIONS),
        *(each_width(f, t, mask, f"{f}(a)") for f in CLASSES),
        *(each_width(op, t, mask, f"(a {op} b)") for op in COMPARISONS),
        *(each_width(f"{op} scalar", t, mask, f"(a {op} ({t})1)") for op in COMPARISONS),
        each_width("!", t, mask, "!a"),
        each_width("&&", t, mask, "(a && b)"),
        each_width("||", t, mask, "(a || b)"),
        each_width("select", (t, t, mask), t, "select(a, b, c)"),
        each_width("bitselect", t, t, "bitselect(a, b, c)"),
        each_width("?:", t, t, "(a < b ? b : c)"),
    ]


def integer_cases(t: str) -> list[Case]:
    """Functions and operators of integers."""
    mask = MASKS[t]
    unsigned = f"u{mask}"
    assignments = "v += b; v <<= (T)3; v ^= c; v >>= (T)1; v -= b; v *= c; v |= (T)64;"
    found = [
        *(each_width(f, t, unsigned if f == "abs" else t, f"{f}(a)") for f in INTEGER_UNARY),
        *(each_width(f, t, unsigned if f == "abs_diff" else t, f"{f}(a, b)") for f in INTEGER_BINARY),
        *(each_width(f, t, t, f"{f}(a, b, c)") for f in INTEGER_TERNARY),
        each_width("clamp", t, t, "clamp(a, b, c)", domain="sorted"),
        *(each_width(op, t, t, f"({t}W)(a {op} b)") for op in OPERATORS),
        *(each_width(op, t, t, f"({t}W)(a {op} b)", domain="divisor") for op in "/%"),
        *(each_width(f"{op} scalar", t, t, f"({t}W)(a {op} ({t})3)") for op in (*OPERATORS, "/", "%")),
        *(each_width(f"scalar {op}", t, t, f"({t}W)(({t})77 {op} a)") for op in "+-*&|^"),
        *(each_width(op, t, mask, f"(a {op} b)") for op in (*COMPARISONS, "&&", "||")),
        each_width("~", t, t, f"({t}W)(~a)"),
        each_width("-", t, t, f"({t}W)(-a)"),
        each_width("!", t, mask, "!a"),
        each_width("select", (t, t, mask), t, "select(a, b, c)"),
        each_width("select by unsigned", (t, t, unsigned), t, "select(a, b, c)"),
        each_width("bitselect", t, t, "bitselect(a, b, c)"),
        each_width("?:", t, t, "(a < b ? b : c)"),
        each_width("assignments", t, t, "v", statements=f"{t}W v = a; {assignments.replace('T', t)}"),
        each_width("++", t, t, f"({t}W)(w ^ v)", statements=f"{t}W v = a, w = v++; w += --v; ++v; v--;"),
    ]  # fmt: skip
    if t in ("int", "uint"):
        found.append(each_width("mul24", t, t, "mul24(a, b)", domain="24 bits"))
        found.append(each_width("mad24", t, t, "mad24(a, b, c)", domain="24 bits"))
    if t in WIDER:
        found.append(each_width("upsample", (t, unsigned, t), WIDER[t], "upsample(a, b)"))
    return found


def conversion_cases(t: str) -> Iterator[Case]:
    """Conversions and reinterpretations to ``t``."""
    for s in SCALARS:
        for mode in ROUNDINGS:
            if t in INTEGERS:
                yield each_width(f"convert_{t}_sat{mode}({s})", s, t, f"convert_{t}W_sat{mode}(a)")
            domain = f"within {t}" if t in INTEGERS and s in FLOATS else ""
            yield each_width(f"convert_{t}{mode}({s})", s, t, f"convert_{t}W{mode}(a)", domain=domain)
        if NBYTES[s] == NBYTES[t]:
            yield each_width(f"as_{t}({s})", s, t, f"as_{t}W(a)")


_HALVES = ("lo", "hi", "even", "odd")


def swizzle_names(width: int) -> Iterator[tuple[str, int]]:
    """(name, how many) of components of a vector: halves, letters, digits, repeated and in any order."""
    rng = np.random.default_rng(width)
    for half in _HALVES:
        if width != 3 or half in ("lo", "even"):  # the others have an undefined element
            yield half, (width + 1) // 2
    for count in (1, 2, 3, 4):
        words = list(itertools.product("xyzw"[:width], repeat=count))
        for index in sorted(rng.choice(len(words), min(8, len(words)), replace=False)):
            yield "".join(words[index]), count
    for count, (letter, form) in itertools.product((1, 2, 3, 4, 8, 16), (("s", "x"), ("S", "X"))):
        yield letter + "".join(f"{digit:{form}}" for digit in rng.integers(0, width, count)), count
        if count <= width:
            yield letter + "".join(f"{digit:{form}}" for digit in rng.permutation(width)[:count]), count


def swizzle_cases(t: str) -> Iterator[Case]:
    """Components of vectors as values and, where none repeats, as targets."""
    for width in VECTORS:
        for name, count in swizzle_names(width):
            if name[0] in "xyzw" and width > 4:
                continue
            suffix = str(count) if count > 1 else ""
            start = f"{t}{width} v = vload{width}(0, a_);"
            store = f"vstore{suffix}(v.{name}, 0, r_);" if suffix else f"r_[0] = v.{name};"
            yield Case(f"{t}{width}.{name}", (t,) * 3, t, f"{start} {store}")
            digits = name[1:].lower() if name[0] in "sS" else name
            if name in _HALVES or len(set(digits)) == len(digits):
                given = f"vload{suffix}(0, b_)" if suffix else "b_[0]"
                change = f"v.{name} = {given}; v.{name} += ({t})1; v.{name} -= c_[0];"
                change += "" if suffix else f" v.{name}++;"
                body = f"{start} {change} vstore{width}(v, 0, r_);"
                yield Case(f"{t}{width}.{name} =", (t,) * 3, t, body, domain="unit")


def shuffle_cases(t: str) -> Iterator[Case]:
    """``shuffle`` and ``shuffle2`` for all pairs of widths."""
    mask = f"u{MASKS[t]}"
    for n, m in itertools.product((2, 4, 8, 16), repeat=2):
        by = f"convert_{mask}{m}(vload{m}(0, c_))"
        body = f"vstore{m}(shuffle(vload{n}(0, a_), {by}), 0, r_); "
        body += f"vstore{m}(shuffle2(vload{n}(0, a_), vload{n}(0, b_), {by}), 1, r_);"
        yield Case(f"shuffle {n} to {m}", (t, t, "uchar"), t, body)


def half_cases() -> Iterator[Case]:
    """Loads and stores of halves."""
    for width in WIDTHS:
        suffix = str(width) if width > 1 else ""
        store = f"vstore{suffix}(v, 0, r_);" if suffix else "r_[0] = v;"
        for how in ("vload_half", "vloada_half")[: 1 + bool(suffix)]:  # clang knows no scalar vloada_half
            body = f"float{suffix} v = {how}{suffix}(0, (global const half *)a_); {store}"
            yield Case(f"{how}{suffix}", ("ushort",) * 3, "float", body)
        value = f"vload{suffix}(0, a_)" if suffix else "a_[0]"
        stores = ("vstore_half", "vstorea_half")[: 1 + bool(suffix)]
        for t, how, mode in itertools.product(FLOATS, stores, ROUNDINGS):
            body = f"{how}{suffix}{mode}({value}, 0, (global half *)r_);"
            yield Case(f"{how}{suffix}{mode} {t}", (t,) * 3, "ushort", body)


def struct_cases(count: int = 24) -> Iterator[Case]:
    """Records of random members: their sizes and offsets, and members read from memory and from a copy."""
    rng = np.random.default_rng(11)
    earlier: list[str] = []
    for number in range(count):
        is_packed = number % 4 == 3
        members: list[str] = []
        reads: list[str] = []
        for place in range(rng.integers(1, 7)):
            if earlier and not is_packed and rng.random() < 0.2:
                members.append(f"{earlier[rng.integers(len(earlier))]} m{place};")
                continue
            width = 1 if is_packed else WIDTHS[rng.integers(len(WIDTHS))]
            array = rng.integers(1, 4) if rng.random() < 0.3 else 0
            vector = f"{SCALARS[rng.integers(len(SCALARS))]}{width if width > 1 else ''}"
            members.append(f"{vector} m{place}{f'[{array}]' if array else ''};")
            component = f".s{width - 1:x}" if width > 1 else ""
            reads.append(f"m{place}{f'[{array - 1}]' if array else ''}{component}")
        kind = "union" if number % 6 == 5 else "struct"
        packed = " __attribute__((packed))" if is_packed else ""
        before = f"typedef {kind}{packed} {{ {' '.join(members)} }} s_{number};\n"
        body = f"global const s_{number} *p = (global const s_{number} *)(a_ - 16 * i); s_{number} s = *p;"
        offsets = (f"(char *)&s.m{place} - (char *)&s" for place in range(len(members)))
        values = (f"as_ulong((double)s.{name}) ^ (s.{name} == p->{name})" for name in reads)
        for at, value in enumerate(("sizeof(s)", *offsets, *values)):
            body += f" r_[{at}] = (ulong)({value});"
        yield Case(f"record {number}", ("ulong",) * 3, "ulong", body, domain="bytes", before=before)
        if not is_packed:
            earlier.append(f"s_{number}")


def inputs_of(case: Case) -> list[np.ndarray]:
    """The three inputs: extremes and random values of every size, as the case's ``domain`` allows.

    Domains: *finite*, no infinities, no NaN; *ordinary*, finite, normal, not zero; *unit*, 0 to 1; *sorted*,
    second up to third; *divisor*, the second neither 0 nor -1; *exponents*, the second up to 160; *24 bits*;
    *within T*, in range of type T; *bytes*, each 0 to 63, so that floats made of them are finite.
    """
    rng = np.random.default_rng(sum(map(ord, case.name)))
    made = [_values(t, rng) for t in case.inputs]
    if made[0].dtype == made[1].dtype:
        made[1] = np.where(rng.random(ELEMENTS) < 0.1, made[0], made[1])
    a, b, c = made
    match case.domain.split():
        case ["finite"]:
            made = [np.nan_to_num(x, nan=1, posinf=3, neginf=-3) for x in made]
        case ["ordinary"]:
            tiny = np.finfo(a.dtype).tiny
            made = [np.where(np.isfinite(x) & (np.abs(x) >= tiny), x, x.dtype.type(2.5)) for x in made]
        case ["unit"] if a.dtype.kind == "f":
            made = [rng.random(ELEMENTS).astype(x.dtype) for x in made]
        case ["sorted"]:
            made = [np.nan_to_num(x, nan=1) if x.dtype.kind == "f" else x for x in made]
            made = [made[0], np.minimum(made[1], made[2]), np.maximum(made[1], made[2])]
        case ["divisor"]:
            made = [
                a,
                np.where((b == 0) | (b == b.dtype.type(-1 if b.dtype.kind == "i" else 0)), 3, b).astype(
                    b.dtype
                ),
                c,
            ]
        case ["exponents"]:
            made = [a, rng.integers(-160, 161, ELEMENTS).astype(b.dtype), c]
            made[1][made[1] == 0] = 1
        case ["24", "bits"]:
            low, high = (-(1 << 23), 1 << 23) if a.dtype.kind == "i" else (0, 1 << 24)
            made = [rng.integers(low, high, ELEMENTS).astype(x.dtype) for x in made]
        case ["within", t]:
            limits = np.iinfo(DTYPES[t])
            low, high = max(limits.min, -(1 << 62)), min(limits.max, 1 << 62)
            size = np.exp2(rng.uniform(-3, np.log2(float(high)) - 0.01, ELEMENTS))
            sign = np.where(rng.random(ELEMENTS) < (0.5 if low else 0), -1.0, 1.0)
            made[0] = (
                np.where(rng.random(ELEMENTS) < 0.3, np.floor(size) / 2, size * 0.99).astype(a.dtype) * sign
            )
            made[0] = np.clip(made[0], low, high - 1 if high < 1 << 50 else high).astype(a.dtype)
        case ["bytes"]:
            made = [(x.view(np.uint8) & 63).view(x.dtype) for x in made]
        case _:
            pass
    return [np.ascontiguousarray(x) for x in made]


def _values(t: str, rng: np.random.Generator) -> np.ndarray:
    """Elements of one type: its extremes beside random ones, in random order."""
    dtype = np.dtype(DTYPES[t])
    if dtype.kind == "f":
        limits = np.finfo(dtype)
        special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            np.inf,
            -np.inf,
            np.nan,
            limits.max,
            -limits.max,
        ]
        special += [
            limits.tiny,
            -limits.tiny,
            limits.smallest_subnormal,
            3.0,
            0.1,
            1e-3,
            8388609.0,
            -4194303.5,
        ]
        bits = rng.integers(0, 256, ELEMENTS * dtype.itemsize, np.uint8).view(dtype)
        near = rng.normal(size=ELEMENTS) * np.exp2(rng.uniform(-6, 6, ELEMENTS))
        made = np.where(rng.random(ELEMENTS) < 0.3, bits, near.astype(dtype))
    else:
        info = np.iinfo(dtype)
        special = [
            0,
            1,
            2,
            3,
            info.max,
            info.max - 1,
            info.min,
            info.min + 1,
            info.max // 2,
            info.min // 2,
            7,
            31,
            33,
        ]
        special += [-1, -2, -3, -31] if info.min else []
        wide = rng.integers(info.min, info.max, ELEMENTS, dtype, endpoint=True)
        made = np.where(rng.random(ELEMENTS) < 0.6, wide, wide >> (dtype.itemsize * 4)).astype(dtype)
    places = rng.permutation(ELEMENTS)[: 8 * len(special)]
    made[places] = np.tile(np.array(special, dtype), 8)
    return made
