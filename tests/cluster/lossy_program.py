"""Launches kernels while a node is killed or stopped; says how many went wrong: "right N failed N wrong N".

``lossy_program.py SEED [kill|stop|wake] [late]``: the moment at which a node is killed follows from the seed.
``stop``: it is not killed but stops to run; ``wake``: and runs on once commands have failed for that.
``late``: up to LATE_S after that moment, whatever is going on then; with odd seeds buffers are larger.
With every third seed all members want what all have.
"""

import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path
from threading import Timer

import numpy as np
import pyopencl as cl

from sdi.cluster import start

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "wake": signal.SIGSTOP}
MARK = "OCL_TEST_RUN"
"""Variable that all processes of a run have: see ``tests/image_runs.py``."""
SOURCE = """
kernel void blend(global const int *in, global int *out, int n, int k) {
    int i = get_global_id(0);
    int left = i > 0 ? in[i - 1] : 0, right = i < n - 1 ? in[i + 1] : 0;
    out[i] = 3 * in[i] + left - right + k;
}
kernel void gather(global const int *in, global int *out, int n, int k) {
    int i = get_global_id(0);
    out[i] = 3 * in[i] + in[(in[i] * 7919u + 13) & (n - 1)] + k;
}
"""
N, STEPS, AFTER, LATE_S = 1 << 16, 8, 12, 0.03


def nodes() -> list[int]:
    """Processes of this job that serve members: ranks above 0 of the run that this one belongs to."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            settings = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{MARK}={os.environ[MARK]}".encode() not in settings or b"-m" not in words:
            continue
        place = start.place(dict(each.decode().split("=", 1) for each in settings if b"=" in each))
        if b"sdi.cluster.local" in words or (b"sdi.cli" in words and place is not None and place.rank):
            found.append(int(folder.name))
    return sorted(found)


def gathered(data: np.ndarray, k: int) -> np.ndarray:
    """What one launch of ``gather`` computes."""
    at = (data.astype(np.uint32) * 7919 + 13) & (len(data) - 1)
    return 3 * data + data[at] + np.int32(k)


def blended(data: np.ndarray, k: int) -> np.ndarray:
    """What one launch of ``blend`` computes."""
    left, right = np.roll(data, 1), np.roll(data, -1)
    left[0] = right[-1] = 0
    return 3 * data + left - right + np.int32(k)


def main() -> None:
    how = sys.argv[2] if len(sys.argv) > 2 else "kill"
    seed, is_late = int(sys.argv[1]), "late" in sys.argv[3:]
    n = N << 5 if is_late and seed % 2 else N
    numbers = random.Random(seed)
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    kernel, expected = (program.gather, gathered) if seed % 3 == 2 else (program.blend, blended)
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * n) for _ in range(2)]
    right = failed = wrong = after = 0
    victims, kill_at = nodes(), (numbers.randrange(2, 6), numbers.randrange(STEPS))
    data = np.random.default_rng(1).integers(0, 1 << 20, n, np.int32)
    for turn in range(40):
        result, wanted = np.empty_like(data), data
        try:
            cl.enqueue_copy(queue, buffers[0], data, is_blocking=False)
            for step in range(STEPS):
                if (turn, step) == kill_at:
                    victim = numbers.choice(victims)
                    late_s = LATE_S * numbers.random() if is_late else 0.0
                    blow = Timer(late_s, os.kill, (victim, SIGNALS[how]))
                    blow.start()
                    if not is_late:
                        blow.join()
                kernel(queue, (n,), (64,), *buffers, np.int32(n), np.int32(step))
                buffers.reverse()
                wanted = expected(wanted, step)
            cl.enqueue_copy(queue, result, buffers[0])
        except cl.Error:
            failed += 1
            after = 0
            if how == "wake":
                with suppress(ProcessLookupError):  # on this machine it was killed
                    os.kill(victim, signal.SIGCONT)
            continue
        if (result == wanted).all():
            right += 1
        else:
            wrong += 1
        after += turn > kill_at[0]
        if after >= AFTER:
            break
    print("right", right, "failed", failed, "wrong", wrong, "after", after)


if __name__ == "__main__":
    main()
