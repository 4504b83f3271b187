"""What a program on ranks of several machines sends, by the counters of the job: bytes, not times."""

from __future__ import annotations

import itertools
import json
import sys

import pytest

from tests.image_runs import run

from .test_jobs import SDI_RUN, TIMEOUT_S, job_environ

RANKS, SIDE, STEPS = 4, 512, 50
ROW_NBYTES = 4 * SIDE
BROADCAST_NBYTES = 64 << 20
START = """
import numpy as np, pyopencl as cl
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
data = np.arange(n, dtype=np.int32)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
a, b = (cl.Buffer(context, flags, hostbuf=data) for _ in range(2))
def built(source):
    return cl.Program(context, "kernel void f(global const int *a, global int *b) {" + source + "}").build().f
"""
STENCIL = f"""
n = {SIDE} * {SIDE}
{START}
f = built("int x = get_global_id(0), y = get_global_id(1), at = y * {SIDE} + x;"
          "if (y > 0 && y < {SIDE} - 1) b[at] = a[at - {SIDE}] + a[at + {SIDE}];")
for _ in range({STEPS}):
    f(queue, ({SIDE}, {SIDE}), (16, 16), a, b)
    a, b = b, a
queue.finish()
"""
BROADCAST = f"""
n = {BROADCAST_NBYTES} // 4
{START}
f = built("int i = get_global_id(0); b[i] = a[a[i]];")
f(queue, (n,), (64,), a, b)
queue.finish()
"""


Sent = dict[tuple[int, int], int]
"""Bytes of buffers that ranks sent each other, by both ranks."""


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sent]:
    """Of two programs, one after the other in one job as if on as many machines as ranks."""
    folder = tmp_path_factory.mktemp("network")
    commands = []
    for name, program in (("stencil", STENCIL), ("broadcast", BROADCAST)):
        (folder / f"{name}.py").write_text(program)
        commands.append(f"SDI_STATS={folder}/{name}.json {sys.executable} {folder}/{name}.py")
    environ = job_environ(RANKS, SDI_TEST_FAR="1", SDI_BALANCE="off")
    done = run([*SDI_RUN, "sh", "-c", " && ".join(commands)], environ, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained and not done.stderr, done.describe()
    found = {}
    for name in ("stencil", "broadcast"):
        network = json.loads((folder / f"{name}.json").read_text())["network"]
        found[name] = {(each["from"], each["to"]): each["bulk_nbytes"] for each in network}
    return found


def test_a_stencils_steps_send_rows_between_neighbours_and_nothing_through_rank_0(
    sent: dict[str, Sent],
) -> None:
    found = sent["stencil"]
    given = 2 * ROW_NBYTES * (SIDE // RANKS)
    for source, target in itertools.permutations(range(RANKS), 2):
        row_steps = STEPS + 2 if abs(source - target) == 1 else 0
        initial = given if source == 0 else 0
        assert found.get((source, target), 0) <= initial + row_steps * ROW_NBYTES, found
    assert found[2, 1] >= (STEPS - 2) * ROW_NBYTES, "it was split as wanted"


def test_what_all_ranks_read_leaves_each_of_them_at_most_once(sent: dict[str, Sent]) -> None:
    found = sent["broadcast"]
    for rank in range(RANKS):
        assert (
            sum(nbytes for (source, _), nbytes in found.items() if source == rank) <= 1.1 * BROADCAST_NBYTES
        )
        assert not rank or sum(nbytes for (_, to), nbytes in found.items() if to == rank) >= BROADCAST_NBYTES
