"""Kernels that append or search, launched again and again with what changes between.

``python -m tests.launch.repeated_appends SEED STEPS`` prints, of each kernel, how often it was launched, once
all that it left was what one device could have left: counters, what was appended in any order, and every
other byte.
"""

import sys

import numpy as np
import pyopencl as cl

from tests.programs.runner import choose_device

SOURCE = """
__kernel void every(__global const int *in, __global int *out, __global int *marks,
                    volatile __global int *size, int mask, int tag)
{
    int i = get_global_id(0), v = in[i];
    marks[i] = v ^ tag;
    if (!(v & mask))
        out[atomic_inc(&size[1])] = v;
}

__kernel void below(__global const int *in, __global int *out, volatile __global uint *size,
                    int mask, uint limit)
{
    int v = in[get_global_id(0)];
    if (!(v & mask)) {
        uint at = atomic_inc(size);
        if (at < limit)
            out[at] = v;
    }
}

__kernel void pairs(__global const int *in, __global int2 *out, __global int *down,
                    volatile __global int *size, int from)
{
    int i = get_global_id(0), v = in[i];
    if (v & 1) {
        int p = atomic_add(size, 2);
        out[p] = (int2)(v, i);
        out[p + 1] = (int2)(i, v);
        int q = atomic_inc(size + 1);
        down[from - q] = v;
    }
}

__kernel void search(__global const int *in, volatile __global int *hit, __global int *seen, int wanted)
{
    int i = get_global_id(0), v = in[i];
    seen[i] = v + wanted;
    if (v == wanted && atomic_cmpxchg(hit, -1, i) == -1)
        hit[1] = v;
}

__kernel void renew(__global int *out, int tag)
{
    int i = get_global_id(0);
    out[i] = tag - i;
}

__kernel void total(__global const int *out, __global int *sums, int count)
{
    int i = get_global_id(0);
    sums[i] = i < count ? 3 * out[i] : 0;
}
"""
N, ROOM = 1024, 4096


class Model:
    """Buffers, and what they hold: of ``loose`` rows of ``out`` the order is open."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.context = cl.Context([choose_device()])
        self.queue = cl.CommandQueue(self.context)
        self.kernels = cl.Program(self.context, SOURCE).build()
        rng = self.rng
        self.host = {
            "in": rng.integers(0, 1 << 12, N).astype(np.int32),
            "out": np.full(ROOM, -1, np.int32),
            "pairs": np.full((2 * ROOM, 2), -1, np.int32),
            "down": np.full(ROOM, -1, np.int32),
            "marks": np.zeros(N, np.int32),
            "seen": np.zeros(N, np.int32),
            "sums": np.zeros(ROOM, np.int32),
            "size": np.zeros(2, np.int32),
            "two": np.zeros(2, np.int32),
            "hit": np.full(2, -1, np.int32),
        }
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.device = {name: cl.Buffer(self.context, flags, hostbuf=of) for name, of in self.host.items()}
        self.launches: dict[str, int] = {}

    def launch(self, name: str, size: int, *arguments: object) -> None:
        """Run a kernel; names stand for buffers."""
        given = [self.device[each] if isinstance(each, str) else each for each in arguments]
        getattr(self.kernels, name)(self.queue, (size,), (32,), *given)
        self.launches[name] = self.launches.get(name, 0) + 1

    def read(self, name: str) -> np.ndarray:
        """What a buffer holds."""
        found = np.empty_like(self.host[name])
        cl.enqueue_copy(self.queue, found, self.device[name])
        return found

    def put(self, name: str, first: int, values: np.ndarray) -> None:
        """Write a part of a buffer."""
        values = values.astype(np.int32)
        self.host[name].reshape(-1)[first : first + values.size] = values
        cl.enqueue_copy(self.queue, self.device[name], values, dst_offset=4 * first)

    def same(self, *names: str) -> None:
        """These hold what they must."""
        for name in names:
            assert np.array_equal(self.read(name), self.host[name]), name

    def appended(self, name: str, first: int, values: np.ndarray) -> None:
        """A buffer holds these rows from ``first`` on, in any order, and else what it held; they stay."""
        found, stop = self.read(name), first + len(values)
        rows = found[first:stop]
        assert np.array_equal(_sorted(rows), _sorted(values)), name
        self.host[name][first:stop] = rows
        assert np.array_equal(found, self.host[name]), name

    # -- what happens -----------------------------------------------------------------------------

    def every(self, mask: int, tag: int) -> None:
        """Append what has none of some bits."""
        kept = self.host["in"][self.host["in"] & mask == 0]
        first = int(self.host["size"][1])
        if first + kept.size > ROOM:
            self.put("size", 1, np.zeros(1))
            first = 0
        self.launch("every", N, "in", "out", "marks", "size", np.int32(mask), np.int32(tag))
        self.host["size"][1] += kept.size
        self.host["marks"][:] = self.host["in"] ^ tag
        self.appended("out", first, kept)
        self.same("size", "marks")

    def below(self, mask: int, limit: int) -> None:
        """The same below a limit, from the beginning."""
        self.put("size", 0, np.zeros(1))
        kept = self.host["in"][self.host["in"] & mask == 0]
        self.launch("below", N, "in", "out", "size", np.int32(mask), np.uint32(limit))
        self.host["size"][0] = kept.size
        if kept.size <= limit:
            self.appended("out", 0, kept)
        else:
            found = self.read("out")
            assert np.isin(found[:limit], kept).all() and np.array_equal(
                found[limit:], self.host["out"][limit:]
            )
            self.host["out"][:limit] = found[:limit]
        self.same("size")

    def pairs(self) -> None:
        """Two counters, of which one counts downwards in memory."""
        odd = np.flatnonzero(self.host["in"] & 1)
        values = self.host["in"][odd]
        rows = np.stack([values, odd, odd, values], axis=1)
        first, below = map(int, self.host["two"])
        if first + 2 * odd.size > 2 * ROOM or below + odd.size > ROOM:
            self.put("two", 0, np.zeros(2))
            first = below = 0
        self.launch("pairs", N, "in", "pairs", "down", "two", np.int32(ROOM - 1))
        self.host["two"] += (2 * odd.size, odd.size)
        found = self.read("pairs")
        mine = found[first : first + 2 * odd.size]
        assert np.array_equal(_sorted(mine.reshape(-1, 4)), _sorted(rows))
        self.host["pairs"][first : first + 2 * odd.size] = mine
        assert np.array_equal(found, self.host["pairs"])
        self.appended("down", ROOM - below - odd.size, values)
        self.same("two")

    def search(self, wanted: int) -> None:
        """What is found by nobody, by one or by several."""
        self.put("hit", 0, np.full(2, -1))
        self.launch("search", N, "in", "hit", "seen", np.int32(wanted))
        where = np.flatnonzero(self.host["in"] == wanted)
        self.host["seen"][:] = self.host["in"] + wanted
        hit = self.read("hit")
        assert (hit[0] in where and hit[1] == wanted) if where.size else np.all(hit == -1), hit
        self.host["hit"][:] = hit
        self.same("seen")

    def total(self) -> None:
        """All members read what was appended."""
        count = int(self.rng.integers(1, ROOM))
        self.launch("total", ROOM, "out", "sums", np.int32(count))
        self.host["sums"][:] = np.where(np.arange(ROOM) < count, 3 * self.host["out"], 0)
        self.same("sums")

    def grown(self) -> None:
        """More is appended than in all launches before, to a buffer that members have written."""
        tag = -int(self.rng.integers(1, 100))
        self.launch("renew", ROOM, "out", np.int32(tag))
        self.host["out"][:] = tag - np.arange(ROOM)
        kept = np.empty(0, np.int32)
        for every, times in ((1, 8), (2, 1), (4, 4)):
            self.put("in", 0, np.where(np.arange(N) % 16 < every, 32 * np.arange(N), 1))
            kept = self.host["in"][self.host["in"] & 31 == 0]
            for _ in range(times):
                self.put("size", 1, np.zeros(1))
                self.launch("every", N, "in", "out", "marks", "size", np.int32(31), np.int32(tag))
        self.host["size"][1] = kept.size
        self.host["marks"][:] = self.host["in"] ^ tag
        self.appended("out", 0, kept)
        self.same("size", "marks")

    def step(self) -> None:
        """Something, mostly several times in a row."""
        rng = self.rng
        what, times = int(rng.integers(0, 8)), int(rng.integers(1, 9))
        mask = int(rng.choice([1, 3, 7, 15, 63]))
        for _ in range(times):
            match what:
                case 0 | 1:
                    self.every(mask if rng.integers(3) else 31, int(rng.integers(100)))
                case 2 | 3:
                    self.below(mask, int(rng.choice([N, N, N, N, 40])))
                case 4:
                    self.pairs()
                case 5:
                    several = self.host["in"][rng.integers(N)]
                    self.search(int(rng.choice([-5, -5, 9999, several])))
                case 6:
                    self.total()
                case _:
                    first, count = int(rng.integers(N)), int(rng.integers(1, 50))
                    self.put("in", first, rng.integers(0, 1 << 12, min(count, N - first)))
                    self.put("out", first, rng.integers(0, 1 << 12, count))


def _sorted(rows: np.ndarray) -> np.ndarray:
    rows = rows.reshape(len(rows), -1)
    return rows[np.lexsort(rows.T)]


def main() -> None:
    """Several steps."""
    model = Model(int(sys.argv[1]))
    model.grown()
    for _ in range(int(sys.argv[2])):
        model.step()
    print(" ".join(f"{name}:{count}" for name, count in sorted(model.launches.items())))


main()
