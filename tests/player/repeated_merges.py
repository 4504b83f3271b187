"""Kernels of which several members write the same few bytes, launched again and again.

``python -m tests.player.repeated_merges SEED STEPS [BINS]`` prints a digest of every buffer after each step.
"""

import hashlib
import sys

import numpy as np
import pyopencl as cl

from tests.programs.runner import choose_device

SOURCE = """
kernel void count(global const uint *in, volatile global uint *bins, uint num_bins)
{
    atomic_inc(&bins[in[get_global_id(0)] % num_bins]);
}

kernel void range(global const int *in, volatile global int *ends)
{
    int v = in[get_global_id(0)];
    atomic_min(&ends[1], v);
}

kernel void bits(global const uint *in, volatile global uint *seen)
{
    uint v = in[get_global_id(0)];
    atomic_or(&seen[v % 8 + 8], v);
}

kernel void mark(global const uint *in, global uchar *marks, uint num_marks, uint wanted)
{
    uint v = in[get_global_id(0)];
    if (v % 16 == wanted)
        marks[v / 16 % num_marks] = (uchar)(v / 16 % num_marks + wanted);
}

kernel void note(global const uint *in, global ulong *notes, uint num_notes, uint wanted)
{
    uint v = in[get_global_id(0)];
    if (v % 16 == wanted)
        notes[v / 16 % num_notes] = ((ulong)(v / 16 % num_notes) << 32) + wanted;
}

kernel void clash(global const uint *in, global uint *last, uint wanted)
{
    if (in[get_global_id(0)] % 4 == wanted % 4)
        last[3] = wanted;
}

kernel void spread(global uint *out, global const uint *bins, global const uchar *marks)
{
    uint i = get_global_id(0);
    out[i] = out[i] * 5 + bins[i % 64] + marks[i % 64];
}
"""
N = 2048


def main(seed: int, steps: int, num_bins: int) -> None:
    """Launch them."""
    rng = np.random.default_rng(seed)
    context = cl.Context([choose_device()])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}

    def buffer(values: np.ndarray) -> cl.Buffer:
        return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)

    inputs = [buffer(rng.integers(0, 1 << 31, N, np.uint32)) for _ in range(2)]
    bins, ends, seen = (buffer(np.zeros(each, np.uint32)) for each in (num_bins, 4, 16))
    marks, notes = buffer(np.zeros(num_bins + 3, np.uint8)), buffer(np.zeros(num_bins, np.uint64))
    last, out = buffer(np.zeros(8, np.uint32)), buffer(np.arange(N, dtype=np.uint32))
    everything = [bins, ends, seen, marks, notes, last, out]

    def launch(name: str, *arguments: object) -> None:
        kernels[name](queue, (N,), (32,), *arguments)

    for step in range(steps):
        of, wanted = inputs[step % 2], np.uint32(step // 2 % 16)
        launch("count", of, bins, np.uint32(num_bins))
        launch("mark", of, marks, np.uint32(num_bins), wanted)
        launch("note", of, notes, np.uint32(num_bins), wanted)
        launch("range", of, ends)
        launch("bits", of, seen)
        launch("clash", of, last, wanted)
        launch("spread", out, bins, marks)
        if step % 7 == 3:
            cl.enqueue_fill_buffer(queue, bins, np.uint32(step), 0, 4 * num_bins)
        if step % 5 == 2:
            cl.enqueue_copy(queue, ends, np.full(4, 1 << 30, np.int32), is_blocking=bool(step & 1))
        if step % 11 == 5:
            cl.enqueue_copy(queue, bins, seen, byte_count=64)
        if step % 3 == 0:
            queue.finish()
        if step % 4 and step < steps - 1:
            continue
        digest = hashlib.sha256()
        for each in everything:
            content = np.empty(each.size, np.uint8)
            cl.enqueue_copy(queue, content, each)
            digest.update(content)
        print(step, digest.hexdigest()[:16])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 96)
