"""Searches whose results lie in a buffer of their own, launched again and again with what changes between.

``python -m tests.launch.claiming SEED STEPS [KINDS]`` prints, of each kernel, how often it was launched,
once all that it left was what one device could have left.  KINDS: of so many kernels, all or those of which
each byte is known but for who was first.  ``crossed`` for steps: of one whose work-items use what others have
left, one after the other, as members do that have found something at once; ``scattered``: of one whose
results lie in 60,000 bytes.
"""

import sys

import numpy as np
import pyopencl as cl

from tests.programs.runner import choose_device

SOURCE = """
__kernel void first(__global const int *in, volatile __global int *found, __global int *hits,
                    __global int *seen, int wanted)
{
    int i = get_global_id(0), v = in[i];
    seen[i] = v + wanted;
    if (v == wanted && atomic_xchg(found, 1) == 0) {
        hits[0] = i;
        hits[1] = v;
    }
}

__kernel void listed(__global const int *in, volatile __global int *found, __global int2 *hits, int wanted)
{
    int i = get_global_id(0), v = in[i];
    if (v != wanted)
        return;
    int p = atomic_inc(found);
    if (!(p & 64))
        hits[p & 15] = (int2)(i, v);
}

/* The flag may be set already, and what is there may be written again: neither changes a byte. */
__kernel void marked(__global const int *in, volatile __global int *found, __global int *hits, int wanted)
{
    int i = get_global_id(0), v = in[i];
    if (v == wanted) {
        hits[i & 7] = v;
        hits[8] += atomic_or(found, 1);
    }
}

/* What was found is read, and says what is written elsewhere. */
__kernel void smallest(__global const int *in, volatile __global int *found, __global int *hits,
                       __global int *seen, int wanted)
{
    int i = get_global_id(0), v = in[i], known = hits[0];
    seen[i] = known;
    if (v == wanted && i < known && atomic_xchg(found, i) != i)
        hits[0] = i;
}

/* Where that lies nobody knows before. */
__kernel void scattered(__global const int *in, volatile __global int *found, __global int *hits, int wanted)
{
    int i = get_global_id(0), v = in[i];
    if (v == wanted && atomic_xchg(found, 1) == 0)
        hits[in[i + 1]] = i;
}

/* Of two one sees what the other has left. */
__kernel void crossed(__global const int *in, volatile __global int *found, __global int *hits, int wanted)
{
    int i = get_global_id(0), v = in[i];
    if (v == wanted)
        atomic_xchg(found, hits[0] + 1);
    if (v == wanted + 1)
        hits[0] = atomic_or(found, 0) + 1;
}
"""
N, ROOM, MUCH = 1024, 32, 15_000


class Model:
    """Buffers, and what they hold."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.context = cl.Context([choose_device()])
        self.queue = cl.CommandQueue(self.context)
        program = cl.Program(self.context, SOURCE).build()
        self.kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.input = self.rng.integers(0, 1 << 12, N).astype(np.int32)
        self.device_input = cl.Buffer(self.context, flags, hostbuf=self.input)
        self.seen = cl.Buffer(self.context, flags, hostbuf=np.zeros(N, np.int32))
        self.found = cl.Buffer(self.context, flags, hostbuf=np.zeros(1, np.int32))
        self.hits = cl.Buffer(self.context, flags, hostbuf=np.zeros(ROOM, np.int32))
        self.both = cl.Buffer(self.context, flags, hostbuf=np.zeros(64 + ROOM, np.int32))
        self.parts = self.both.get_sub_region(0, 4), self.both.get_sub_region(256, 4 * ROOM)
        self.launches: dict[str, int] = {}

    def launch(
        self, name: str, flag: int, old: np.ndarray, wanted: int, seen: bool
    ) -> tuple[int, np.ndarray]:
        """Run a kernel from this on; the flag and the results afterwards."""
        found, hits = (self.found, self.hits) if self.rng.integers(3) else self.parts
        cl.enqueue_copy(self.queue, found, np.array([flag], np.int32))
        cl.enqueue_copy(self.queue, hits, old)
        arguments = [self.device_input, found, hits, *([self.seen] if seen else []), np.int32(wanted)]
        self.kernels[name](self.queue, (N,), (32,), *arguments)
        self.launches[name] = self.launches.get(name, 0) + 1
        after, results = np.empty(1, np.int32), np.empty(ROOM, np.int32)
        cl.enqueue_copy(self.queue, results, hits)
        cl.enqueue_copy(self.queue, after, found)
        return int(after[0]), results

    def all_seen(self) -> np.ndarray:
        """What the work-items have seen."""
        seen = np.empty(N, np.int32)
        cl.enqueue_copy(self.queue, seen, self.seen)
        return seen

    def rest(self, kinds: int) -> None:
        """All searches, without a hit."""
        old = np.full(ROOM, -9, np.int32)
        for search in (self.first, self.listed, self.marked, self.smallest)[:kinds]:
            for _ in range(12):
                search(-5, np.empty(0, np.int64), old.copy())

    def crossed(self) -> None:
        """Two find something, far from each other: both orders leave a 1 and a 2."""
        zeros = np.zeros(ROOM, np.int32)
        for number in range(36):
            is_found = number % 9 == 8
            self.input[:] = 7
            self.input[[0, -1]] = (100, 101) if is_found else 7
            cl.enqueue_copy(self.queue, self.device_input, self.input)
            after, hits = self.launch("crossed", 0, zeros, 100, False)
            assert sorted((after, int(hits[0]))) == ([1, 2] if is_found else [0, 0]), (after, hits)
            assert not hits[1:].any()

    def scattered(self) -> None:
        """One stores somewhere in much memory."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.hits = cl.Buffer(self.context, flags, hostbuf=np.zeros(MUCH, np.int32))
        expected, found = np.zeros(MUCH, np.int32), np.empty(MUCH, np.int32)
        arguments = self.device_input, self.found, self.hits, np.int32(100)
        for number in range(36):
            at, place = int(self.rng.integers(N - 1)), int(self.rng.integers(MUCH))
            self.input[:] = 7
            self.input[at : at + 2] = (100, place) if number % 3 == 2 else 7
            cl.enqueue_copy(self.queue, self.device_input, self.input)
            cl.enqueue_copy(self.queue, self.found, np.zeros(1, np.int32))
            self.kernels["scattered"](self.queue, (N,), (32,), *arguments)
            cl.enqueue_copy(self.queue, found, self.hits)
            expected[place] = at if number % 3 == 2 else expected[place]
            assert np.array_equal(found, expected)

    def step(self, kinds: int) -> None:
        """A search, several times in a row."""
        rng = self.rng
        what = int(rng.integers(kinds))
        for _ in range(int(rng.integers(1, 9))):
            wanted = int(self.input[rng.integers(N)]) if rng.integers(3) == 0 else -5
            if rng.integers(12) == 0:  # many hits
                self.input[rng.integers(N, size=40)] = 77
                cl.enqueue_copy(self.queue, self.device_input, self.input)
                wanted = 77
            where = np.flatnonzero(self.input == wanted)
            old = rng.integers(-99, -9, ROOM).astype(np.int32)
            (self.first, self.listed, self.marked, self.smallest)[what](wanted, where, old)

    def first(self, wanted: int, where: np.ndarray, old: np.ndarray) -> None:
        """One claims what it found."""
        flag = int(self.rng.integers(4) == 0)
        after, hits = self.launch("first", flag, old, wanted, True)
        if flag or not where.size:
            assert after == flag and np.array_equal(hits, old)
        else:
            assert after == 1 and hits[0] in where and hits[1] == wanted
            assert np.array_equal(hits[2:], old[2:])
        assert np.array_equal(self.all_seen(), self.input + wanted)

    def listed(self, wanted: int, where: np.ndarray, old: np.ndarray) -> None:
        """All are listed, or as many as there is room for."""
        after, hits = self.launch("listed", 0, old, wanted, False)
        assert after == where.size
        rows = hits.reshape(-1, 2)[: min(16, where.size)]
        assert np.all(np.isin(rows[:, 0], where)) and np.all(rows[:, 1] == wanted)
        assert len(set(rows[:, 0].tolist())) == len(rows)
        assert np.array_equal(hits.reshape(-1, 2)[len(rows) :], old.reshape(-1, 2)[len(rows) :])

    def marked(self, wanted: int, where: np.ndarray, old: np.ndarray) -> None:
        """Several may store where nobody changes the flag."""
        flag, expected = int(self.rng.integers(2)), old.copy()
        if self.rng.integers(2):
            expected[where & 7] = wanted
            old = expected.copy()
        expected[where & 7] = wanted
        after, hits = self.launch("marked", flag, old, wanted, False)
        assert after == (1 if where.size else flag)
        assert np.array_equal(np.delete(hits, 8), np.delete(expected, 8))
        assert 0 <= hits[8] - old[8] <= where.size, "additions that are no atomic ones may be lost"

    def smallest(self, wanted: int, where: np.ndarray, old: np.ndarray) -> None:
        """What is read is what was there, or a result."""
        old[0] = self.rng.integers(N)
        after, hits = self.launch("smallest", -1, old, wanted, True)
        better = where[where < old[0]]
        assert (after in better and hits[0] in better) if better.size else (after, hits[0]) == (-1, old[0])
        assert np.array_equal(hits[1:], old[1:])
        assert np.all(np.isin(self.all_seen(), [*better, old[0]]))


def main() -> None:
    """Several steps."""
    model = Model(int(sys.argv[1]))
    if sys.argv[2] in ("crossed", "scattered"):
        getattr(model, sys.argv[2])()
    else:
        kinds = int(sys.argv[3]) if len(sys.argv) > 3 else 4
        model.rest(kinds)
        for _ in range(int(sys.argv[2])):
            model.step(kinds)
    print(" ".join(f"{name}:{count}" for name, count in sorted(model.launches.items())))


main()
