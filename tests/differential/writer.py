"""Random kernels in all of OpenCL C that reaches memory: pointers, casts, structures, helpers, loops, jumps.

Where ``tests/sampling`` compares access maps with records for the shapes that the analysis is made for, these
kernels are written the way people write them.  There are no races: a work-item writes only its own *slots* of a
buffer, wherever the layout puts them, or updates counters atomically.  No access leaves its buffer: every
expression is an ``int`` whose bounds are tracked as it is written, and cut where they get too wide.
"""

# ruff: noqa: E501 -- lines of kernels

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.differential.expressions import INTS, PIXELS, PRELUDE, VARIABLE, Bounded, Expressions

COUNTERS = 64
ITEMS = 512
"""The most work-items of a launch."""


@dataclass(frozen=True, slots=True)
class Output:
    """A buffer that is written: each work-item, or the first item of each group, owns ``slots`` ints.

    ``own``: the index of slot ``{}``, an int; ``base``, when slots are neighbours: the index of the first one.
    ``is_led``: the first work-item of a group owns those of all its group.
    ``together``: where a group's are neighbours, the index of the first of them; they are ``of_group``.
    """

    name: str
    slots: int
    own: str
    base: str | None
    is_led: bool = False
    together: str | None = None
    of_group: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch.  ``order``: which written buffer each output argument is bound to."""

    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    offset: tuple[int, ...]
    n: int
    m: int


@dataclass(frozen=True, slots=True)
class Program:
    """A program with the kernel ``k`` and its launches.

    Arguments: two buffers that are read (ints, bytes), the outputs, counters, ``n`` (int), ``m`` (uint), a Pair;
    with ``has_images``, an image that is read and one that is written.  ``slots``: of each output.
    """

    source: str
    launches: tuple[Launch, ...]
    slots: tuple[int, ...]
    has_images: bool


class Writer:
    """Writes one kernel."""

    def __init__(self, random: Random, dims: int, local: tuple[int, ...], has_images: bool) -> None:
        self.random = random
        self.dims = dims
        self.local = local
        self.lines: list[str] = []
        self.depth = 1
        self.loops = 0
        self.budget = 16
        self.serial = 0
        self.make = Expressions(random)
        self.make.has_images = has_images
        self.outputs: list[Output] = []
        self.in_group = False
        self.place = ""
        self.hides_pair = False

    # -- small things ----------------------------------------------------------------------------

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def name(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}{self.serial}"

    # -- writes ----------------------------------------------------------------------------------

    def output(self) -> Output | None:
        found = [o for o in self.outputs if o.is_led == self.in_group]
        return self.random.choice(found) if found else None

    def write(self) -> None:
        """A store to slots of its own."""
        r = self.random
        out = self.output()
        if out is None:
            return
        slot = self.make.reduced(1, out.slots)
        value = self.make.integer(2).text
        at = out.own.format(f"({slot})")
        forms = [
            lambda: self.put(f"{out.name}[{at}] = {value};"),
            lambda: self.put(f"*({out.name} + {at}) = {value};"),
            lambda: self.put(f"{out.name}[{at}] {r.choice(('+=', '^=', '-=', '|=', '*='))} {value};"),
            lambda: self.put(f"{out.name}[{at}]{r.choice(('++', '--'))};"),
            lambda: self.put(f"put({out.name}, {at}, {value});"),
            lambda: self.put(f"put(&{out.name}[{at}], 0, {value});"),
            lambda: self.put(f"put_guarded({out.name}, {at}, {value}, {self.make.integer(1).text});"),
            lambda: self.put(f"((__global char *){out.name})[4 * ({at}) + {r.randint(0, 3)}] = {value};"),
            lambda: self.put(f"((__global Short *)&{out.name}[{at}])[{r.randint(0, 1)}] = {value};"),
            lambda: self.put(
                f"((__global Word *){out.name})[{at}].{r.choice(('u', 'c[1]', 's.y', 'i'))} = {value};"
            ),
            lambda: self.put(f"if ({self.make.condition()}) {out.name}[{at}] = {value};"),
            lambda: self.put(
                f"*({self.make.condition()} ? {out.name} + {at} : &{out.name}[{out.own.format('0')}]) = {value};"
            ),
            lambda: self.put(f"*moved({out.name}, {at}) = {value};"),
            lambda: self.put(f"(void)atomic_xchg(&{out.name}[{at}], {value});") if self.chance(0.1) else None,
            lambda: self.put(f"atomic_add(&{out.name}[{at}], {value});") if self.chance(0.2) else None,
            lambda: self.two_outputs(out, at, value),
            lambda: self.put(
                f"if (&{out.name}[{at}] {r.choice(('==', '!=', '<='))} {out.name} + {out.own.format('0')}) {out.name}[{at}] = {value};"
            ),
            lambda: self.results(out, at, value),
            self.wandering_pointer,
            self.wandering_pointer,
        ]
        if self.make.has_images and not self.in_group:
            forms += [self.pixel] * 4
        if out.base is not None and out.slots >= 8:
            forms += [lambda: self.through_pointer(out)] * 6
        r.choice(forms)()

    def two_outputs(self, out: Output, at: str, value: str) -> None:
        others = [o for o in self.outputs if o is not out and o.is_led == out.is_led]
        if not others:
            return
        other = self.random.choice(others)
        there = f"&{other.name}[{other.own.format('0')}]"
        form = self.random.choice(
            ("*({c} ? &{o}[{at}] : {there}) = {v};", "*chosen(&{o}[{at}], {there}, {c}) = {v};")
        )
        self.put(form.format(c=f"({self.make.condition()})", o=out.name, at=at, there=there, v=value))

    def results(self, out: Output, at: str, value: str) -> None:
        """What an atomic function returns for a slot that nobody else touches."""
        r = self.random
        if not self.chance(0.25):
            return
        function = r.choice(("atomic_add", "atomic_xchg", "atomic_min", "atomic_xor"))
        if self.make.variables and self.chance(0.5):
            self.put(f"{r.choice(self.make.variables)} = {function}({out.name} + {at}, {value}) & 31;")
        elif self.chance(0.5):
            self.put(
                f"if (atomic_cmpxchg(&{out.name}[{at}], {value}, {self.make.leaf().text}) > 3) {out.name}[{at}] = 1;"
            )
        else:
            self.put(f"{out.name}[{at}] = {function}(&{out.name}[{at}], {value}) / 2;")

    def pixel(self) -> None:
        """A pixel of its own: one of four that lie side by side, or far apart."""
        r = self.random
        self.place = self.place or r.choice(
            (
                "lin % 16 * 4 + ({}), lin / 16",
                f"lin % {PIXELS}, lin / {PIXELS} + 4 * ({{}})",
                "lin / 8, lin % 8 * 4 + ({})",
                f"lin % 32 + 32 * ({{}}), {PIXELS - 1} - lin / 32",
            )
        )
        at = self.place.format(self.make.reduced(1, 4))
        self.put(
            f"write_imageui(canvas, (int2)({at}), (uint4)({self.make.integer(1).text}, 1, 2, lin) & 255u);"
        )

    def wandering_pointer(self) -> None:
        """A pointer that is moved from one place to another on some ways through a statement."""
        found = [o for o in self.outputs if o.is_led == self.in_group]
        if not found:
            return
        r = self.random
        one, two = (
            f"&{o.name}[{o.own.format(self.make.reduced(0, o.slots))}]"
            for o in (r.choice(found), r.choice(found))
        )
        p, condition, value = self.name("p"), self.make.condition(), self.make.integer(1).text
        start, limit = f"__global int *{p} = {one};", self.make.reduced(1, 5)
        forms = (
            f"{{ {start} for (int i = 0; i < {limit}; i++) {{ {p} = {two}; if ({condition}) break; {p} = {one}; }} *{p} = {value}; }}",
            f"{{ {start} int i = 0; do {{ if ({condition}) break; {p} = {two}; }} while (++i < {limit}); *{p} = {value}; }}",
            f"{{ {start} int i = 0; while ({p} = {two}, i < {limit}) {{ {p} = {one}; i++; }} *{p} = {value}; }}",
            f"{{ {start} switch ({limit}) {{ case 0: {p} = {two}; break; case 1: if ({condition}) break; {p} = {two}; }} *{p} = {value}; }}",
            f"{{ struct {{ __global int *p; int k; }} {p} = {{{one}, 0}}; for (; {p}.k < {limit}; {p}.k++) if ({condition}) {p}.p = {two}; *{p}.p = {value}; }}",
            f"{{ {start} bool b = {condition}; if (b) {p} = {two}; *{p} = {value} + b; }}",
        )
        self.put(r.choice(forms))

    def through_pointer(self, out: Output) -> None:
        """Slots are neighbours: pointers that walk, wide stores, structures."""
        r = self.random
        p, value = self.name("p"), self.make.integer(1).text
        slots = out.slots
        base = f"__global int *{p} = {out.name} + {out.base};"
        match r.randint(0, 13):
            case 0:
                self.put(f"{{ {base} *{p}++ = {value}; *{p}++ += 3; *++{p} = 4; *--{p} = 5; {p}[-1] = 6; }}")
            case 1:
                self.put(
                    f"{{ {base} for (int i = 0; i < {self.make.reduced(1, slots + 1)}; i++) *{p}++ = i + {value}; }}"
                )
            case 2:
                self.put(
                    f"{{ {base} {p} += {slots}; while ({p} > {out.name} + {out.base}) *--{p} = {value}; }}"
                )
            case 3:
                self.put(
                    f"{{ {base} *(__global int2 *)({p} + 2 * ({self.make.reduced(1, slots // 2)})) = (int2)({value}, 7); }}"
                )
            case 4:
                self.put(f"{{ {base} vstore4((int4)({value}), {self.make.reduced(1, slots // 4)}, {p}); }}")
            case 5:
                self.put(f"{{ {base} vstore3((int3)({value}), {self.make.reduced(1, slots // 3)}, {p}); }}")
            case 6:
                component = r.choice(("x", "yz", "s3", "lo", "odd", "zx"))
                count = 2 if (len(component) == 2 and component != "s3") or component in ("lo", "odd") else 1
                made = f"(int2)({value})" if count == 2 else value
                self.put(
                    f"{{ {base} ((__global int4 *){p})[{self.make.reduced(1, slots // 4)}].{component} = {made}; }}"
                )
            case 7:
                inner = r.choice(
                    ("a", "pair.hi", "pair.v[1]", "two.x", f"pair.v[{self.make.integer(0).text} & 1]")
                )
                self.put(f"{{ {base} __global Cell *c = (__global Cell *){p}; c->{inner} = {value}; }}")
            case 8:
                self.put(f"{{ {base} *(__global Pair *)({p} + 4) = made({value}, 2); }}")
            case 9:
                self.put(f"{{ {base} advanced(&{p}, {self.make.reduced(1, slots)}); *{p} = {value}; }}")
            case 10:
                self.put(f"{{ {base} __global int *q = {p} + 2; int d = q - {p}; q[d] = {value}; }}")
            case 11:
                self.put(
                    f"{{ {base} __global uchar *c = (__global uchar *){p}; for (int i = 0; i < {4 * slots}; i += {r.choice((1, 3, 4))}) c[i] = i; }}"
                )
            case 12:
                self.put(
                    f"{{ {base} if ({self.make.condition()}) {p} += 2; {p}[{self.make.reduced(0, slots - 2)}] = {value}; }}"
                )
            case _:
                self.put(
                    f"{{ {base} for (int i = 0, j = {slots - 1}; i < j; i++, j--) {{ int t = {p}[i]; {p}[i] = {p}[j] + {value}; {p}[j] = t; }} }}"
                )

    # -- statements ------------------------------------------------------------------------------

    def statement(self) -> None:
        """A statement, perhaps with others inside."""
        r = self.random
        self.budget -= 1
        if self.budget < 0 or self.depth > 4:
            self.write()
            return
        match r.randint(0, 24):
            case 0 | 1 | 2:
                self.put(f"if ({self.make.condition(2)}) {{")
                self.block()
                if self.chance(0.4):
                    self.put("} else {")
                    self.block()
                self.put("}")
            case 3 | 4 | 5 | 6 if self.loops < 2:
                self.loop()
            case 7 if self.loops == 0 and not self.in_group and self.chance(0.6):
                self.put(f"if ({self.make.condition()}) return;")
            case 8 | 9:
                name = self.name("v")
                kind = r.choice(("int", "int", "short", "long"))
                if kind == "int":
                    self.put(f"int {name} = {self.make.fitting(self.make.integer()).text};")
                    self.make.variables.append(name)
                else:
                    self.put(f"{kind} {name} = {self.make.fitting(self.make.integer()).text};")
                    self.make.known.append(Bounded(f"(int){name}", -VARIABLE, VARIABLE))
            case 10 | 11 if self.make.variables:
                self.assign(r.choice(self.make.variables))
            case 12:
                self.switch()
            case 13:
                self.counters()
            case 14:
                self.private()
            case 15 if self.chance(0.3):
                label = self.name("skip")
                self.put(f"if ({self.make.condition()}) goto {label};")
                self.write()
                self.put(f"{label}: ;")
            case 16:
                self.put("{")
                self.block()
                self.put("}")
            case 17 if self.loops == 0 and not self.in_group and self.dims == 1:
                pass
            case _:
                self.write()

    def assign(self, name: str) -> None:
        r = self.random
        match r.randint(0, 6):
            case 0:
                self.put(f"stepped(&{name}, {self.make.leaf().text});")
            case 1 if len(self.make.variables) > 1:
                other = r.choice([v for v in self.make.variables if v != name])
                self.put(f"swapped(&{name}, &{other});")
            case 2:
                self.put(
                    f"if ({self.make.condition()}) {name} = {self.make.fitting(self.make.integer()).text};"
                )
            case 3:
                self.put(f"{name} {r.choice(('&=', '%=', '>>='))} {r.randint(1, 30)};")
            case 4:
                self.put(f"{name} = {name} / 2 + {r.randint(0, 9)};")
            case _:
                self.put(f"{name} = {self.make.fitting(self.make.integer()).text};")

    def block(self) -> None:
        """One or two statements, and the names they declare."""
        known, variables = list(self.make.known), list(self.make.variables)
        self.depth += 1
        for _ in range(self.random.randint(1, 2)):
            self.statement()
        self.depth -= 1
        self.make.known, self.make.variables = known, variables

    def loop(self) -> None:
        """A loop of at most about twelve iterations."""
        r = self.random
        self.loops += 1
        i, step = self.name("i"), r.randint(1, 3)
        limit = self.make.reduced(1, 12)
        start = self.make.fitting(self.make.affine()).text
        last = VARIABLE + 40
        forms: list[tuple[str, str, str, Bounded]] = [
            (f"for (int {i} = 0; {i} < {limit}; {i}++) {{", "}", "", Bounded(i, 0, 12)),
            (f"for (int {i} = 0; {i} < {limit}; {i} += {step}) {{", "}", "", Bounded(i, 0, 12)),
            (f"for (uint {i} = {limit}; {i} > 0; {i}--) {{", "}", "", Bounded(f"(int){i}", 0, 12)),
            (f"for (int {i} = {limit}; {i} >= 0; --{i}) {{", "}", "", Bounded(i, 0, 12)),
            (f"for (int {i} = 1; {i} < 40; {i} <<= 1) {{", "}", "", Bounded(i, 0, 40)),
            (f"for (int {i} = 40; {i} > 0; {i} /= {step + 1}) {{", "}", "", Bounded(i, 0, 40)),
            (f"for (int {i} = {start}, e = {i} + n; {i} < e; {i}++) {{", "}", "", Bounded(i, -last, last)),
            (f"int {i} = {limit}; while ({i}-- > 0) {{", "}", "", Bounded(i, -1, 12)),
            (f"int {i} = 0; while ({i} < {limit}) {{", f"{i}++; }}", "", Bounded(i, 0, 12)),
            (f"int {i} = 0; do {{", f"}} while (++{i} < {limit});", "", Bounded(i, 0, 12)),
            (f"int {i} = 0; for (;;) {{", f"if (++{i} > {limit}) break; }}", "", Bounded(i, 0, 12)),
            (f"int {i} = 0; for (;; {i}++) {{ if ({i} >= {limit}) break;", "}", "", Bounded(i, 0, 12)),
            (
                f"int {i} = 0; while ({i} < 9 && (in[{self.make.index(0, INTS - 16)} + {i}] & 3)) {{",
                f"{i}++; }}",
                "",
                Bounded(i, 0, 9),
            ),
            (f"for (int {i} = 0; {i} != {r.randint(1, 6)}; {i}++) {{", "}", "", Bounded(i, 0, 6)),
            (f"for (char {i} = 0; {i} < {limit}; {i}++) {{", "}", "", Bounded(f"(int){i}", 0, 12)),
            (f"for (size_t {i} = 0; {i} < {limit} + 0ul; {i}++) {{", "}", "", Bounded(f"(int){i}", 0, 12)),
            (f"int {i}; for ({i} = 3; {i}; {i}--) {{", "}", "", Bounded(i, 0, 3)),
            (
                f"for (__global const int *{i} = in + ({self.make.index(1, INTS - 64)}), *e = {i} + ({limit}); {i} {r.choice(('!=', '<'))} e; {i}++) {{",
                "}",
                "",
                Bounded(f"(*{i} & 31)", 0, 31),
            ),
        ]
        opening, closing, _, counter = r.choice(forms)
        known, variables = list(self.make.known), list(self.make.variables)
        second = ""
        self.put("{")
        if self.chance(0.35):
            second = self.name("s")
            self.put(f"int {second} = {r.randint(-9, 9)};")
            self.make.known.append(Bounded(second, -60, 60))
        self.put(opening)
        self.make.known.append(counter)
        self.depth += 1
        is_while = closing != "}"
        if self.chance(0.3):
            leave = "break" if is_while else r.choice(("continue", "break"))
            before = r.randint(0, 2)
            if before == 0:
                self.write()
            elif before == 1 and self.make.variables:
                self.put(f"{r.choice(self.make.variables)} = in[{self.make.index(1, INTS)}] & 31;")
            self.put(f"if ({self.make.condition()}) {leave};")
        self.depth -= 1
        self.block()
        if second:
            self.put("    " + r.choice((f"{second} += 3;", f"{second} -= 1;", f"if (n > 3) {second} += 2;")))
        self.put(closing)
        self.put("}")
        self.make.known, self.make.variables = known, variables
        self.loops -= 1

    def switch(self) -> None:
        r = self.random
        self.put(f"switch ({self.make.integer(1).text} & 3) {{")
        labels = r.sample(["case 0:", "case 1:", "case 2: case 3:", "default:"], r.randint(2, 4))
        for label in labels:
            if r.random() < 0.3:
                self.put(label + " {;")
                self.block()
                self.put("    break; }")
                continue
            self.put(label + ";")
            known, variables = list(self.make.known), list(self.make.variables)
            self.depth += 1
            self.write()
            self.depth -= 1
            self.make.known, self.make.variables = known, variables
            if r.random() < 0.7:
                self.put("    break;")
        self.put("}")

    def counters(self) -> None:
        r = self.random
        at = self.make.reduced(1, COUNTERS // 4)
        value = self.make.integer(1).text
        if self.chance(0.1):
            self.tickets(at)
            return
        match r.randint(0, 5):
            case 0:
                self.put(f"atomic_inc(&counters[{at}]);")
            case 1:
                self.put(f"atomic_max(&counters[{COUNTERS // 4} + {at}], {value});")
            case 2:
                self.put(f"atomic_or(&counters[{COUNTERS // 2} + {at}], {value});")
            case 3:
                self.put(f"if ({self.make.condition()}) atomic_sub(counters + {at}, {value});")
            case _:
                self.put(f"atomic_add(&counters[{at}], {value});")

    def tickets(self, at: str) -> None:
        """Results whose order is open, but not which there are: all that is left is how often each was drawn."""
        r = self.random
        drawn = f"atomic_inc(&counters[{COUNTERS - 8 + r.randint(0, 3)}])"
        still = f"atomic_{r.choice(('or', 'add', 'xor'))}(&counters[{COUNTERS - 4 + r.randint(0, 3)}], 0)"
        forms = (
            f"atomic_inc(&counters[{drawn} & 15]);",
            f"atomic_add(&counters[{at}], {drawn});",
            f"{{ int t = {drawn}; if ((t & 3) == 1) atomic_add(&counters[0], t / 4); }}",
            f"if (({still}) & 1) atomic_inc(&counters[{at}]);",
        )
        self.put(r.choice(forms))

    def private(self) -> None:
        """Private arrays, vectors, structures and unions, and pointers to them."""
        r = self.random
        value = self.make.fitting(self.make.integer(1)).text
        match r.randint(0, 9):
            case 0:
                a = self.name("a")
                self.put(
                    f"int {a}[4] = {{1, {value}, 3, 2}}; {a}[{self.make.integer(0).text} & 3] = {value};"
                )
                self.make.known.append(Bounded(f"{a}[{self.make.integer(0).text} & 3]", -VARIABLE, VARIABLE))
            case 1:
                q = self.name("q")
                self.put(f"int4 {q} = (int4)({value}, 1, 2, 3); {q}.{r.choice(('y', 's2', 'w'))} = {value};")
                self.make.known.append(Bounded(f"{q}.{r.choice(('x', 'y', 's2', 'w'))}", -VARIABLE, VARIABLE))
            case 2:
                s = self.name("c")
                self.put(f"Cell {s}; {s}.pair = made({value}, 4); {s}.a = {value}; {s}.two.y = 5;")
                self.make.known.append(
                    Bounded(f"(int){s}.{r.choice(('pair.lo', 'pair.hi', 'a', 'two.y'))}", -VARIABLE, VARIABLE)
                )
            case 3:
                w = self.name("w")
                self.put(f"Word {w}; {w}.i = {value}; {w}.c[1] = 0;")
                self.make.known.append(Bounded(f"({w}.s.x & 63)", 0, 63))
            case 4:
                a, p = self.name("v"), self.name("pp")
                self.put(f"int {a} = 3; int *{p} = &{a}; *{p} = {value};")
                self.make.variables.append(a)
            case 5:
                q = self.name("q")
                self.put(f"int2 {q}[2]; {q}[0] = (int2)(1, {value}); {q}[1] = {q}[0].yx;")
                self.make.known.append(
                    Bounded(f"{q}[{self.make.integer(0).text} & 1].x", -VARIABLE, VARIABLE)
                )
            case 6:
                q = self.name("q")
                self.put(f"int2 {q} = (int2)({value}) + (int2)(1, 2); {q} += 1; {q}.x >>= 1;")
                self.make.known.append(Bounded(f"({q}.{r.choice('xy')} & 127)", 0, 127))
            case 7:  # braces left out: two.x is 0
                s = self.name("c")
                self.put(f"Cell {s} = {{{r.randint(0, 9)}, {r.randint(0, 9)}, {r.randint(0, 9)}}};")
                fields = ("a", "pair.lo", "pair.hi", "pair.v[1]", "two.x")
                self.make.known.append(Bounded(f"(int){s}.{r.choice(fields)}", 0, 9))
            case 8 if not self.hides_pair:
                self.hides_pair = True  # one per scope is allowed, and one shows it
                s, n = self.name("c"), r.randint(1, 9)
                self.put(f"struct Pair {{ int v; int lo; }} {s} = {{{n}, {value}}}; {s}.v += {s}.lo & 3;")
                self.make.known.append(Bounded(f"({s}.{r.choice(('lo', 'v'))} & 31)", 0, 31))
            case _:
                s, p = self.name("c"), self.name("cp")
                self.put(f"Pair {s} = made(1, {value}); Pair *{p} = &{s}; {p}->lo = {value};")
                self.make.known.append(Bounded(f"({s}.{r.choice(('lo', 'hi'))} & 63)", 0, 63))

    # -- the kernel ------------------------------------------------------------------------------

    def ids(self) -> None:
        """Ids under several names and types, and the number of the work-item in the launch."""
        r = self.random
        for d, name in zip(range(self.dims), "xyz", strict=False):
            form = r.choice(("int", "int", "int", "uint", "size_t", "ushort"))
            self.put(f"{form} {name} = get_global_id({d});")
            self.make.known.append(Bounded(name if form == "int" else f"(int){name}", 0, 80))
            if self.chance(0.5):
                self.make.known.append(Bounded(f"(int)get_local_id({d})", 0, self.local[d] - 1))
            if self.chance(0.4):
                self.make.known.append(Bounded(f"(int)get_group_id({d})", 0, 64))
            if self.chance(0.2):
                self.make.known.append(Bounded(f"(int)get_num_groups({d})", 1, 64))
                self.make.known.append(Bounded(f"(int)get_global_offset({d})", 0, 10))
        parts = [
            "(int)(get_global_id({0}) - get_global_offset({0}))",
            "(int)(get_group_id({0}) * get_local_size({0}) + get_local_id({0}))",
        ]
        line = ""
        for d in reversed(range(self.dims)):
            own = r.choice(parts).format(d)
            line = f"({line}) * (int)get_global_size({d}) + {own}" if line else own
        self.put(f"int lin = {line};")
        sizes = [f"(int)get_global_size({d})" for d in range(self.dims)]
        self.put(f"int total = {' * '.join(sizes)};")
        groups = ""
        for d in reversed(range(self.dims)):
            own = f"(int)get_group_id({d})"
            groups = f"({groups}) * (int)get_num_groups({d}) + {own}" if groups else own
        self.put(f"int group = {groups};")
        self.make.known.append(Bounded("lin", 0, ITEMS - 1))

    def make_outputs(self) -> None:
        r = self.random
        for number in range(r.randint(1, 3)):
            name = f"out{number}"
            slots = r.choice((1, 1, 2, 4, 8, 8, 16))
            is_led = number > 0 and self.chance(0.3)
            who = "group" if is_led else "lin"
            count = f"(total / {self.items_of_group()})" if is_led else "total"
            match r.randint(0, 7):
                case 0:
                    own, base = f"{{}} * {count} + {who}", None
                case 1:
                    own, base = f"({count} - 1 - {who}) * {slots} + {{}}", f"({count} - 1 - {who}) * {slots}"
                case 2:
                    own, base = f"(({who} ^ 1) * {slots} + {{}})", None
                case 3 if self.dims == 1:
                    # Raw ids: slots begin where the offset says.
                    own, base = (
                        (f"{who} * {slots} + {{}}",) * 2
                        if is_led
                        else (f"(int)get_global_id(0) * {slots} + {{}}",) * 2
                    )
                    base = base.format("0")
                case 4:
                    own, base = f"({who} / 4 * {4 * slots} + {{}} * 4 + {who} % 4)", None
                case 5 if self.dims == 2 and not is_led:
                    # Columns: (x, y) is element x * height + y.
                    own = f"(((int)(get_global_id(0) - get_global_offset(0)) * (int)get_global_size(1) + (int)(get_global_id(1) - get_global_offset(1))) * {slots} + {{}})"
                    base = None
                case _:
                    own, base = f"{who} * {slots} + {{}}", f"{who} * {slots}"
            together, of_group = (base, slots) if is_led else (None, slots * self.items_of_group())
            if base is not None and not is_led and self.dims == 1:
                together = base.replace("lin", f"(group * {self.local[0]})").replace(
                    "get_global_id(0)", f"(get_global_offset(0) + group * {self.local[0]})"
                )
                if base.startswith("(total"):  # from the end: the last work-item's come first
                    together = f"(total - (group + 1) * {self.local[0]}) * {slots}"
            self.outputs.append(Output(name, slots, own, base, is_led, together, of_group))

    def items_of_group(self) -> int:
        count = 1
        for each in self.local:
            count *= each
        return count

    def phases(self) -> None:
        """What all work-items of a group do together."""
        r = self.random
        items = self.items_of_group()
        lid = "(int)get_local_id(0)"
        for d in range(1, self.dims):
            lid += f" + (int)get_local_id({d}) * {' * '.join(str(self.local[e]) for e in range(d))}"
        self.put(f"int lid = {lid};")
        if self.chance(0.25):
            t = self.name("t")
            self.put(f"__local int {t}[{items}];")
            self.put(f"{t}[lid] = {self.make.fitting(self.make.integer()).text};")
            self.put("barrier(CLK_LOCAL_MEM_FENCE);")
            v = self.name("v")
            self.put(f"int {v} = {t}[(lid + {r.randint(0, 5)}) % {items}];")
            self.make.variables.append(v)
            if self.chance(0.5):
                self.put("barrier(CLK_LOCAL_MEM_FENCE);")
                self.put(f"{t}[{items - 1} - lid] = {v};")
                self.put("barrier(CLK_LOCAL_MEM_FENCE);")
                self.make.known.append(Bounded(f"{t}[lid]", -VARIABLE, VARIABLE))
        if self.chance(0.25):
            self.copied_from()
        if self.chance(0.5):
            self.copied_to(items)
        led = [o for o in self.outputs if o.is_led]
        if led and self.chance(0.9):
            self.put("if (lid == 0) {")
            self.in_group = True
            self.block()
            self.in_group = False
            self.put("}")

    def copied_from(self) -> None:
        """A copy to local memory, which a group makes together."""
        r = self.random
        t = self.name("t")
        kind, source, count = r.choice(
            (
                ("int", "in", "16"),
                ("int", "in", f"{r.randint(1, 3)} + (m & 7)"),
                ("int4", "(__global const int4 *)in", "4"),
                ("uchar", "(__global const uchar *)in", "16"),
            )
        )
        start = f"group * {r.choice((1, 4) if kind == 'int4' else (1, 4, 16))} + {r.choice(('0', 'n', '(int)m', 'pr.lo'))}"
        self.put(f"__local {kind} {t}[16];")
        self.put(f"if (lid == 0) for (int i = 0; i < 16; i++) {t}[i] = 0;")
        self.put("barrier(CLK_LOCAL_MEM_FENCE);")
        if self.chance(0.3):
            copy = f"async_work_group_strided_copy({t}, {source} + {start}, {r.randint(1, 16)}, {r.randint(1, 5)}, 0)"
        else:
            copy = f"async_work_group_copy({t}, {source} + {start}, {count}, 0)"
        self.put(f"event_t e{t} = {copy};")
        self.put(f"wait_group_events(1, &e{t});")
        part = ".y" if kind == "int4" else ""
        self.make.known.append(Bounded(f"((int){t}[lid & 15]{part} & 31)", 0, 31))

    def copied_to(self, items: int) -> None:
        """A copy from local memory to slots of the group."""
        r = self.random
        found = [o for o in self.outputs if o.together is not None]
        if not found:
            return
        out, t = r.choice(found), self.name("t")
        count, to = out.of_group, f"{out.name} + {out.together}"
        self.put(f"__local int {t}[{count}];")
        self.put(f"for (int i = lid; i < {count}; i += {items}) {t}[i] = i + {self.make.integer(1).text};")
        self.put("barrier(CLK_LOCAL_MEM_FENCE);")
        forms = [
            f"async_work_group_copy({to}, {t}, {r.randint(1, count)}, 0)",
            f"async_work_group_copy({to}, {t}, min({count}, n + 1), 0)",
            f"async_work_group_copy({to}, {t}, {count}, 0)",
        ]
        if count % 4 == 0:
            forms.append(f"async_work_group_strided_copy({to} + 1, {t}, {count // 4}, 4, 0)")
            forms.append(
                f"async_work_group_copy((__global char *)({to}), (__local char *){t}, {count} * 3, 0)"
            )
        copy = r.choice(forms)
        if self.chance(0.3):
            guard = r.choice(("n > 4", "group % 3 != 1", "m < 20u"))
            self.put(f"if ({guard}) {{ event_t e = {copy}; wait_group_events(1, &e); }}")
        else:
            self.put(f"event_t e{t} = {copy};")
            self.put(f"wait_group_events(1, &e{t});")
        self.put("barrier(CLK_GLOBAL_MEM_FENCE);")

    def kernel(self) -> str:
        """The text."""
        r = self.random
        self.ids()
        self.make_outputs()
        self.phases()
        if self.dims == 1 and self.chance(0.4):
            self.put(f"if (x {r.choice(('>', '>='))} n * {r.randint(2, 9)}) return;")
        for _ in range(r.randint(2, 5)):
            self.statement()
        self.write()
        const = r.choice(("const", "", "const restrict"))
        arguments = [
            f"__global {'const ' if 'const' in const else ''}int *{'restrict ' if 'restrict' in const else ''}in"
        ]
        arguments += [
            r.choice(
                ("__global const uchar *bytes", "__constant uchar *bytes", "const __global uchar *bytes")
            )
        ]
        arguments += [f"__global int *{o.name}" for o in self.outputs]
        arguments += ["__global int *counters", "int n", "uint m", "Pair pr"]
        if self.make.has_images:
            arguments += ["read_only image2d_t picture", "write_only image2d_t canvas"]
        text = "\n".join(self.lines)
        if "__constant uchar" in arguments[1]:
            text = text.replace("(__global const uchar *)bytes", "(__constant uchar *)bytes")
        return f"{PRELUDE}__kernel void k({', '.join(arguments)})\n{{\n{text}\n}}\n"


def generate(seed: int, may_have_images: bool = True) -> Program:
    """Program number ``seed``."""
    random = Random(seed)
    dims = random.choice((1, 1, 1, 2, 2, 3))
    local = {
        1: random.choice(((4,), (8,), (16,), (5,), (1,))),
        2: random.choice(((4, 2), (8, 1), (2, 4), (4, 4), (3, 1))),
        3: random.choice(((2, 2, 2), (4, 1, 2), (1, 2, 4))),
    }[dims]
    has_images = may_have_images and random.random() < 0.25
    writer = Writer(random, dims, local, has_images)
    source = writer.kernel()
    launches = []
    for _ in range(random.randint(2, 4)):
        while True:
            size = tuple(own * random.choice((1, 2, 3, 4, 6, 8)) for own in local)
            items = 1
            for each in size:
                items *= each
            if items <= ITEMS and items % 8 == 0 and max(size) <= 64:
                break
        offset = tuple(random.choice((0, 0, 0, 1, 3, 8)) for _ in size)
        launches.append(Launch(size, local, offset, random.randint(0, 12), random.randint(0, 40)))
    return Program(source, tuple(launches), tuple(o.slots for o in writer.outputs), has_images)
