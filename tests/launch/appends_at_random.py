"""Runs kernels that append, written at random, and stores what they leave: ``SEED COUNT FILE.npz``.

Of each kernel its counters, what it stored (a row per element), a buffer that it updates in place, and how
far its counters may go before what is stored depends on the order of work-items.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import numpy as np
import pyopencl as cl

from tests.programs.runner import choose_device

ITEMS, CELLS = 640, 7
EMPTY = -5


@dataclass(frozen=True, slots=True)
class Kernel:
    """``room``: places of one counter, or below its limit.  ``width``: numbers in an element."""

    source: str
    cells: int
    room: int
    width: int
    is_float: bool


def written(r: random.Random) -> Kernel:
    """A kernel: one counter or cells; a place, several, or as many as data say; below a limit or not."""
    cells = CELLS if r.random() < 0.4 else 1
    from_starts = cells > 1 and r.random() < 0.4
    several = "1" if from_starts else r.choice(["1", "1", "3", "k", "3*k"])
    kind = r.choice(["int", "int2", "float", "pair"])
    each = r.choice([1, 2, 3]) if several == "1" and kind in ("int", "float") and not from_starts else 1
    columns = r.choice([1, 1, 3]) if cells == 1 else 1
    most = 3 * ITEMS * {"1": 1, "3": 3, "k": 3, "3*k": 9}[several] + 10
    is_limited = r.random() < 0.6 and not from_starts
    room = max(1, int(most // cells * r.choice([0.02, 0.3, 1, 1, 1]))) if is_limited else most
    base = "starts[c] + " if from_starts else f"c * room * {each} + " if cells > 1 else ""
    number = r.choice(["int", "uint"])

    def stored(index: str, value: str) -> str:
        if kind == "pair":
            return f"out[{index}].other = {value}; out[{index}].one = g;"
        if kind == "int2":
            whole, parts = (
                f"out[{index}] = (int2)({value}, g);",
                f"out[{index}].y = g; out[{index}].x = {value};",
            )
            return r.choice([whole, parts])
        return f"out[{index}] = {value};"

    stores = []
    for column in range(columns):
        at = (f"{column} * room * {each} + " if column else "") + base
        if several == "1":
            place = "p" if each == 1 else f"{each} * p"
            stores += [stored(f"{at}{place} + {e}", f"w * 4 + {e} + {column}") for e in range(each)]
        elif several == "3":
            stores += [stored(f"{at}p + {e}", f"w * 8 + {e} + {column}") for e in r.sample(range(3), 3)]
        elif several == "k":
            stores.append(
                f"for (uint i = 0; i < k; i++) {{ {stored(f'{at}p + i', f'w * 4 + i + {column}')} }}"
            )
        else:
            inner = "".join(stored(f"{at}p + 3 * i + {e}", f"w * 4 + i + {e}") for e in range(3))
            stores.append(f"for (uint i = 0; i < k; ++i) {{ {inner} }}")
    counter = "&n[c]" if cells > 1 else r.choice(["n", "&n[0]", "n + 0"])
    call = (
        f"atomic_inc({counter})"
        if several == "1" and r.random() < 0.5
        else f"atomic_add({counter}, {several})"
    )
    body = "".join(stores)
    if is_limited:
        below = [f"p + {several} <= room"] + ["p < room", "room > p"] * (several == "1")
        body = f"if ({r.choice(below)}) {{ {body} }}"
    result = r.choice([f"{number} p = {call};", f"{number} p; p = {call};"])
    return Kernel(
        f"""
        typedef struct {{ int one, other; }} pair;
        kernel void append(global const int *in, global {kind} *out, volatile global {number} *n,
                           {number} room, global const int *starts, global int *seen)
        {{
            int g = get_global_id(0), v = in[g];
            for (int j = 0; j < {r.randint(1, 3)}; j++) {{
                int w = v + j * {r.randint(1, 9)}, c = w / 3 % {cells};
                uint k = w % 4;
                if (w % {r.choice([1, 2, 3, 50])} == 0) {{ {result} {body} }}
            }}
            seen[g] += v + 1;
        }}""",
        cells,
        room,
        2 if kind in ("int2", "pair") else 1,
        kind == "float",
    )


def main() -> None:
    """Run them all."""
    seed, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    context = cl.Context([choose_device()])
    queue = cl.CommandQueue(context)
    found: dict[str, np.ndarray] = {}
    for number in range(seed, seed + count):
        made = written(random.Random(number))
        data = np.random.default_rng(number).integers(0, 1000, ITEMS).astype(np.int32)
        elements = 9 * made.room * made.cells + 64
        out = np.full((elements, made.width), EMPTY, np.float32 if made.is_float else np.int32)
        counters, seen = np.zeros(made.cells, np.int32), np.arange(ITEMS, dtype=np.int32)
        starts = (np.arange(made.cells) * made.room).astype(np.int32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(context, flags, hostbuf=each) for each in (data, out, counters, starts, seen)]
        append = cl.Program(context, made.source).build().append
        append(queue, (ITEMS,), (32,), *buffers[:3], np.int32(made.room), *buffers[3:])
        for name, array, buffer in (("out", out, 1), ("counters", counters, 2), ("seen", seen, 4)):
            cl.enqueue_copy(queue, array, buffers[buffer])
            found[f"{number} {name}"] = array
        found[f"{number} room"] = np.array(made.room)
    np.savez(path, **found)


if __name__ == "__main__":
    main()
