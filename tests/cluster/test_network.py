"""What programs on ranks of several machines send, by the counters of the job; and what a profile shows."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from tests.cluster.test_jobs import SDI_RUN, TIMEOUT_S, job_environ
from tests.image_runs import plain_environ, run

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
MERGED_NBYTES = 4 << 20
MERGE = f"""
n = {MERGED_NBYTES} // 4
{START}
f = built("int i = get_global_id(0); b[((uint)a[i] * 7919 + 13) % {MERGED_NBYTES // 4}] += i;")
for _ in range({STEPS // 10}):
    f(queue, (n,), (64,), a, b)
queue.finish()
"""
BROADCAST = f"""
n = {BROADCAST_NBYTES} // 4
{START}
f = built("int i = get_global_id(0); b[i] = a[a[i]];")
f(queue, (n,), (64,), a, b)
queue.finish()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what two programs left, one after the other in one job as if on as many machines as ranks."""
    folder = tmp_path_factory.mktemp("network")
    commands = []
    for name, program in (("stencil", STENCIL), ("broadcast", BROADCAST), ("merge", MERGE)):
        (folder / f"{name}.py").write_text(program)
        commands.append(f"SDI_STATS={folder}/{name}.json {sys.executable} {folder}/{name}.py")
    commands[0] = f"SDI_PROFILE={folder}/profile {commands[0]}"
    environ = job_environ(RANKS, SDI_TEST_FAR="1", SDI_BALANCE="off")
    done = run([*SDI_RUN, "sh", "-c", " && ".join(commands)], environ, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained and not done.stderr, done.describe()
    return folder


def sent(stats: Path) -> dict[tuple[int, int], int]:
    """Bytes of buffers that ranks sent each other, by both ranks."""
    network = json.loads(stats.read_text())["network"]
    return {(each["from"], each["to"]): each["bulk_nbytes"] for each in network}


def test_a_stencils_steps_send_rows_between_neighbours_and_nothing_through_rank_0(
    folder: Path,
) -> None:
    found = sent(folder / "stencil.json")
    given = 2 * ROW_NBYTES * (SIDE // RANKS)
    for source, target in itertools.permutations(range(RANKS), 2):
        row_steps = STEPS + 2 if abs(source - target) == 1 else 0
        initial = given if source == 0 else 0
        assert found.get((source, target), 0) <= initial + row_steps * ROW_NBYTES, found
    assert found[2, 1] >= (STEPS - 2) * ROW_NBYTES, "it was split as wanted"


def test_what_all_ranks_read_leaves_each_of_them_at_most_once(folder: Path) -> None:
    found = sent(folder / "broadcast.json")
    for rank in range(RANKS):
        assert (
            sum(nbytes for (source, _), nbytes in found.items() if source == rank) <= 1.1 * BROADCAST_NBYTES
        )
        assert not rank or sum(nbytes for (_, to), nbytes in found.items() if to == rank) >= BROADCAST_NBYTES


def test_what_several_nodes_wrote_comes_together_on_one_of_them_and_not_through_rank_0(folder: Path) -> None:
    """Two buffers go out from rank 0 once; then changes go to whom they belong, and what is stale back."""
    found = sent(folder / "merge.json")
    initial = 2 * MERGED_NBYTES
    others = [nbytes for (source, to), nbytes in found.items() if 0 not in (source, to)]
    assert sum(others) > MERGED_NBYTES // 2, "they merge among each other"
    assert max(nbytes for (source, _), nbytes in found.items() if source) <= (STEPS // 10) * MERGED_NBYTES
    assert sum(nbytes for (source, _), nbytes in found.items() if not source) <= (
        initial + (STEPS // 10) * MERGED_NBYTES
    )


def test_a_profile_has_a_track_for_the_members_of_each_node(folder: Path) -> None:
    shown = [*SDI_RUN[:-2], "profile", "-o", folder / "profile", "--format", "chrome"]
    done = run(shown, plain_environ(), TIMEOUT_S)
    assert done.returncode == 0, done.describe()
    events = json.loads((folder / "profile" / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    for number in range(RANKS):
        (name,) = (name for name in names if name.startswith(f"member {number}: "))
        assert name.endswith(f" on node {number}") if number else " on node " not in name
        kernels = [each for each in events if each["pid"] == names[name] and each["name"] == "f"]
        assert len(kernels) == STEPS
