"""Large generated kernels, as of ray tracers and raw converters: what building them takes, by part.

``python bench/large_kernels.py [--lines 1250,2500,5000,10000] [--only STYLE] [--write FOLDER]`` generates
kernels of each style and size, the same ones every time, and prints seconds of processor time for each part
of a build on the service's side, operations that the analysis counted, and what became of the kernel.  With
``--write`` it writes the texts, for other tools.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sdi.clc.compile import compile_source  # noqa: E402
from sdi.clc.cuda.translate import translate  # noqa: E402
from sdi.ndrange import GroupBox, NDRange  # noqa: E402
from sdi.sampling import analyse  # noqa: E402

HEAD = """typedef struct { float4 origin, direction; int material, depth; float t; } Ray;
typedef struct { float4 a, b; int kind, first, count, flags; } Node;
"""
PARAMETERS = (
    "global float4 *out, global const Node *nodes, global const float *data, global int *state, "
    "int width, int height, float scale, int mode"
)


def _expression(choose: random.Random, names: list[str]) -> str:
    a, b, c = (choose.choice(names) for _ in range(3))
    return choose.choice(
        (
            f"{a} * {b} + {c}",
            f"({a} ^ ({b} >> 3)) + {choose.randrange(100)}",
            f"{a} + {b} - {c} * {choose.randrange(9)}",
            f"({a} < {b} ? {b} : {c}) & 1023",
            f"min({a}, {b} + {choose.randrange(50)})",
        )
    )


def straight(lines: int) -> str:
    """One long body of assignments to many variables, with reads and writes of global memory."""
    choose, names = random.Random(1), ["i", "width", "mode"]
    body = []
    for number in range(lines):
        if number % 4 == 0:
            body.append(f"    int v{number} = {_expression(choose, names[-60:])};")
            names.append(f"v{number}")
        elif number % 4 == 1:
            body.append(f"    f += data[{choose.choice(names[-60:])}] * scale;")
        elif number % 4 == 2:
            target = choose.choice(names[3:] or names[-1:])
            body.append(f"    {target} += {_expression(choose, names[-60:])};")
        else:
            body.append(f"    state[i * {lines} + {number}] = {names[-1]};")
    return _kernel(body)


def branches(lines: int) -> str:
    """Conditions in conditions, each with assignments, and some that leave."""
    choose, names, body = random.Random(2), ["i", "width", "mode"], []
    for number in range(60):
        body.append(f"    int v{number} = {_expression(choose, names)};")
        names.append(f"v{number}")
    open_: list[bool] = []  # conditions around the line; whether each may have an ``else``
    while len(body) < lines:
        pad = "    " * (len(open_) + 1)
        kind = choose.random()
        if kind < 0.22 and len(open_) < 12:
            body.append(f"{pad}if ({choose.choice(names)} > {choose.randrange(1000)}) {{")
            open_.append(True)
        elif kind < 0.34 and open_ and open_[-1]:
            body.append("    " * len(open_) + "} else {")
            open_[-1] = False
        elif kind < 0.55 and open_:
            body.append("    " * len(open_) + "}")
            open_.pop()
        elif kind < 0.57:
            body.append(f"{pad}if ({choose.choice(names)} == {choose.randrange(1000)}) return;")
        elif kind < 0.8:
            body.append(f"{pad}{choose.choice(names[3:])} = {_expression(choose, names)};")
        elif kind < 0.9:
            body.append(f"{pad}f += data[({choose.choice(names)} & 255) + i * 256] * scale;")
        else:
            body.append(f"{pad}state[i + {choose.randrange(1000)} * width] = {choose.choice(names)};")
    body += ["    " * (level + 1) + "}" for level in reversed(range(len(open_)))]
    return _kernel(body)


def inlined(lines: int) -> str:
    """Functions that call several of those before them, in levels, with structures by value and pointer."""
    choose, functions = random.Random(3), []
    levels, each = 4, 25
    count = max(1, lines // (levels * each))
    for level in range(levels):
        for number in range(count):
            names, body = (
                ["x", "y"],
                [f"int f{level}_{number}(global const float *data, Ray *ray, int x, int y) {{"],
            )
            for line in range(each - 5):
                body.append(f"    int t{line} = {_expression(choose, names)};")
                names.append(f"t{line}")
            body.append(f"    if (t{each - 6} > y) ray->depth += t0;")
            if level:
                for _ in range(2):
                    callee = f"f{level - 1}_{choose.randrange(count)}"
                    body.append(
                        f"    t1 += {callee}(data, ray, {choose.choice(names)}, {choose.choice(names)});"
                    )
            body.append(f"    ray->t += data[t{each - 6} & 1023];")
            body.append(f"    return t1 + {choose.choice(names)};\n}}")
            functions.append("\n".join(body))
    calls = ["    Ray ray; ray.t = 0.0f; ray.depth = mode; ray.material = 0;"]
    calls += [f"    state[i] = f{levels - 1}_{number}(data, &ray, i, {number});" for number in range(count)]
    return _kernel([*calls, "    f += ray.t + (float)ray.depth;"], "\n".join(functions))


def switched(lines: int) -> str:
    """A loop around one big switch, as an interpreter of a shader or a state machine has."""
    choose, body = random.Random(4), []
    names = [f"v{number}" for number in range(24)]
    body += [f"    int {name} = i + {number};" for number, name in enumerate(names)]
    body += ["    for (int step = 0; step < height; step++) {", "        switch (nodes[v0 & 255].kind) {"]
    case = 0
    while len(body) < lines:
        body.append(f"        case {case}:")
        for _ in range(choose.randrange(4, 14)):
            body.append(f"            {choose.choice(names)} = {_expression(choose, names)};")
        body.append(f"            if ({choose.choice(names)} > 7) f += data[{choose.choice(names)} & 1023];")
        body.append(f"            state[i * 16 + {case % 16}] = {choose.choice(names)};")
        body.append(
            "            break;" if choose.random() < 0.95 else "            if (v1 > v2) break; else break;"
        )
        case += 1
    return _kernel([*body, "        default: break;", "        }", "    }"])


def nested(lines: int) -> str:
    """Loops in loops with accesses at indices that depend on all of them."""
    choose, body = random.Random(5), []
    names = [f"v{number}" for number in range(12)]
    body += [f"    int {name} = i + {number};" for number, name in enumerate(names)]
    block = 0
    while len(body) < lines:
        depth = choose.randrange(2, 6)
        for level in range(depth):
            body.append("    " * (level + 1) + f"for (int k{level} = 0; k{level} < height; k{level}++) {{")
        pad = "    " * (depth + 1)
        for _ in range(choose.randrange(3, 9)):
            body.append(
                f"{pad}{choose.choice(names)} += {choose.choice(names)} * k{choose.randrange(depth)};"
            )
        body.append(f"{pad}f += data[{choose.choice(names)} + k0 * width];")
        body.append(f"{pad}state[i * 64 + {block % 64}] = {choose.choice(names)};")
        body += ["    " * (level + 1) + "}" for level in reversed(range(depth))]
        block += 1
    return _kernel(body)


def sums(lines: int) -> str:
    """Sums that grow with every line, as unrolled filters have."""
    body = ["    int sum = i;"]
    for number in range(lines):
        body.append(
            f"    sum += state[i + {number}];" if number % 2 else f"    f += data[sum + {number}] * scale;"
        )
    return _kernel(body)


STYLES: dict[str, Callable[[int], str]] = {
    made.__name__: made for made in (straight, branches, inlined, switched, nested, sums)
}


def _kernel(body: list[str], before: str = "") -> str:
    text = "\n".join(body)
    head = "    int i = get_global_id(0);\n    float f = 0.0f;"
    begin = f"{HEAD}{before}\nkernel void large({PARAMETERS})\n{{\n{head}\n"
    return f"{begin}{text}\n    out[i] = (float4)(f);\n}}\n"


T = TypeVar("T")


class Stages:
    """Seconds of processor time by part of a build."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def timed(self, name: str, call: Callable[[], T]) -> T:
        start = time.thread_time()
        result = call()
        self.found[name] = time.thread_time() - start
        return result


def measure(text: str) -> tuple[dict[str, float], int, str]:
    """Seconds by part, operations of the analysis, and why the kernel is whole if it is."""
    stages = Stages()
    compiled = stages.timed("front end", lambda: compile_source(text, ""))
    function = next(f for f in compiled.tree.functions.values() if f.name == "large")
    found = stages.timed("analysis", lambda: analyse(compiled.tree, function))
    kept = stages.timed("keep", lambda: pickle.dumps(found, pickle.HIGHEST_PROTOCOL))
    stages.timed("find", lambda: pickle.loads(kept))
    ndrange = NDRange(1, (0, 0, 0), (4096, 1, 1), (64, 1, 1))
    values = (None,) * 4 + tuple(n.to_bytes(4, "little") for n in (64, 64, 0, 3))
    bound = stages.timed("bind", lambda: found.bind(ndrange, values, (1 << 20,) * 4 + (None,) * 4))
    boxes = [GroupBox((start, 0, 0), (start + 16, 1, 1)) for start in range(0, 64, 16)]
    stages.timed("boxes", lambda: [bound.bounds(box) for box in boxes])
    stages.timed("CUDA", lambda: translate(compiled.text, ()))
    return stages.found, found.operations, compiled.kernels[0].why_whole or found.too_long


def main() -> int:
    parser = argparse.ArgumentParser(description="What building large kernels takes.")
    parser.add_argument("--lines", default="1250,2500,5000,10000")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    sizes = [int(word) for word in options.lines.split(",")]
    if options.write is not None:
        for name, style in STYLES.items():
            for lines in sizes:
                (options.write / f"{name}_{lines}.cl").write_text(style(lines))
        return 0
    names = ("front end", "analysis", "keep", "find", "bind", "boxes", "CUDA")
    print(f"{'s of processor time':22}" + "".join(f"{name:>10}" for name in names) + f"{'operations':>12}")
    for name, style in STYLES.items():
        for lines in sizes if options.only in name else ():
            found, operations, why = measure(style(lines))
            row = "".join(f"{found[part]:10.3f}" for part in names)
            print(f"{name:14}{lines:8}{row}{operations:12}  {why[:60]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
