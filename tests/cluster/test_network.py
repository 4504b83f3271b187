"""What programs on ranks of several machines send, by the counters of the job; and what a profile shows."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

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


GATHERED_NBYTES, GATHERS = 4 << 20, 16
GATHER = f"""
n = {GATHERED_NBYTES} // 4
{START}
f = built("int i = get_global_id(0); b[i] = i + (a[a[i] & {GATHERED_NBYTES // 4 - 1}] & 1);")
for _ in range({GATHERS}):
    f(queue, (n,), (64,), a, b)
    a, b = b, a
queue.finish()
"""
LITTLE = f"""
n = 1 << 14
{START}
f = built("int i = get_global_id(0); b[i] = a[(a[i] * 7919u + 13) & ((1 << 14) - 1)] * 3 + i;")
wanted = data
for _ in range({GATHERS}):
    f(queue, (n,), (64,), a, b)
    wanted = wanted[(wanted.astype(np.uint32) * 7919 + 13) & (n - 1)] * 3 + data
    a, b = b, a
found = np.empty_like(data)
cl.enqueue_copy(queue, found, a)
assert np.array_equal(found, wanted)
"""
SWAPPED_NBYTES, SWAPS = 4 << 20, 8
"""Of a row, of which each rank has two; and how often edge rows go through the application."""
SWAP = f"""
n, w, ranks = {2 * RANKS * SWAPPED_NBYTES} // 4, {SWAPPED_NBYTES} // 4, {RANKS}
{START}
f = built("int x = get_global_id(0), y = get_global_id(1), w = {SWAPPED_NBYTES} / 4;"
          "b[y * w + x] += a[y * w + x] * 3;")
edges = np.empty((2 * ranks, w), np.int32)
mine, other = data.reshape(-1, w).copy(), data.reshape(-1, w).copy()
for step in range({SWAPS}):
    f(queue, (w, 2 * ranks), (64, 2), a, b)
    other += mine * 3
    for row in range(2 * ranks):
        cl.enqueue_copy(queue, edges[row], b, src_offset=4 * w * row)
    if step == {SWAPS} // 2:
        edges[3, w - 1] += 1
    for row in range(2 * ranks):
        cl.enqueue_copy(queue, a, edges[row - 2], dst_offset=4 * w * row, is_blocking=step % 2 == 1)
        mine[row] = edges[row - 2]
    queue.finish()
for buffer, wanted in ((a, mine), (b, other)):
    found = np.empty_like(wanted)
    cl.enqueue_copy(queue, found, buffer)
    assert np.array_equal(found, wanted)
"""
LARGE_NBYTES, LARGE_BUFFERS, TURNS = 1 << 20, 8, 4
LARGE = f"""
n, wanted = {LARGE_NBYTES} // 4, []
{START}
f = built("int i = get_global_id(0); b[i] = b[i] * 3 + a[i];")
buffers = [cl.Buffer(context, flags, hostbuf=data + k) for k in range({LARGE_BUFFERS})]
wanted = [data + k for k in range({LARGE_BUFFERS})]
for turn in range({TURNS}):
    for k in range({LARGE_BUFFERS}):
        f(queue, (n,), (64,), buffers[k - 1], buffers[k])
        wanted[k] = wanted[k] * 3 + wanted[k - 1]
for buffer, each in zip(buffers, wanted):
    found = np.empty_like(each)
    cl.enqueue_copy(queue, found, buffer)
    assert np.array_equal(found, each)
"""
PROGRAMS = {
    "stencil": STENCIL,
    "broadcast": BROADCAST,
    "merge": MERGE,
    "gather": GATHER,
    "swap": SWAP,
    "large": LARGE,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what programs left, one after the other in one job as if on as many machines as ranks."""
    folder = tmp_path_factory.mktemp("network")
    commands = []
    for name, program in PROGRAMS.items():
        (folder / f"{name}.py").write_text(program)
        commands.append(f"SDI_STATS={folder}/{name}.json {sys.executable} {folder}/{name}.py")
    commands[0] = f"SDI_PROFILE={folder}/profile {commands[0]}"
    half = LARGE_BUFFERS * LARGE_NBYTES // RANKS // 2
    commands[-1] = f"SDI_MEMBER_MEMORY={half} SDI_PROFILE={folder}/large-profile {commands[-1]}"
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


def test_what_all_ranks_want_of_each_other_leaves_each_of_them_about_once_a_launch(folder: Path) -> None:
    found = sent(folder / "gather.json")
    wanted = (GATHERS - 1) * GATHERED_NBYTES * (RANKS - 1) // RANKS
    initial = 2 * GATHERED_NBYTES
    for rank in range(RANKS):
        leaving = sum(nbytes for (source, _), nbytes in found.items() if source == rank)
        arriving = sum(nbytes for (_, to), nbytes in found.items() if to == rank)
        assert leaving <= 1.4 * wanted + initial, found
        assert not rank or wanted <= arriving <= wanted + initial, found


@pytest.mark.parametrize(("ranks", "rounds"), [(4, 2), (5, 3), (8, 3)])
def test_little_that_all_want_of_each_other_goes_in_rounds_and_explain_says_so(
    ranks: int, rounds: int, tmp_path: Path
) -> None:
    (tmp_path / "little.py").write_text(LITTLE)
    settings = {"SDI_TEST_FAR": "1", "SDI_EXPLAIN": "1", "SDI_STATS": str(tmp_path / "stats.json")}
    environ = job_environ(ranks, SDI_BALANCE="off", **settings)
    done = run([*SDI_RUN, sys.executable, tmp_path / "little.py"], environ, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, done.describe()
    explained = json.loads((tmp_path / "stats.json").read_text())["kernels"]["f"]["explain"]["text"]
    (told,) = [line for line in explained if "all-gather" in line]
    assert re.fullmatch(rf"  all-gather of .*, in {rounds} rounds, .* passed on for a", told)
    found = sent(tmp_path / "stats.json")
    wanted = (GATHERS - 1) * (4 << 14) * (ranks - 1) // ranks
    for rank in range(ranks):
        arriving = sum(nbytes for (_, to), nbytes in found.items() if to == rank)
        assert not rank or wanted <= arriving <= wanted + 3 * (4 << 14), "each byte once"


def test_what_a_program_swaps_through_its_memory_goes_between_neighbours_once_it_was_read(
    folder: Path,
) -> None:
    found = sent(folder / "swap.json")
    initial, swaps = 4 * SWAPPED_NBYTES, SWAPS * SWAPPED_NBYTES
    for rank in range(1, RANKS):
        assert found[0, rank] <= initial + (2 * swaps if rank == 1 else 2 * SWAPPED_NBYTES), found
    assert found[1, 2] >= swaps and found[2, 3] >= swaps, found
    events = json.loads((folder / "swap.json").read_text())["memory"]
    assert events["round_trip_nbytes"] >= found[1, 2] + found[2, 3] - 2 * SWAPPED_NBYTES


def test_what_several_nodes_wrote_comes_together_on_one_of_them_and_not_through_rank_0(folder: Path) -> None:
    """Two buffers go out from rank 0 once; then changes go to whom they belong, and what is stale back.

    Who sends what is stale follows from the rates that were measured, so only sums are the same each time.
    """
    found = sent(folder / "merge.json")
    initial, launches = 2 * MERGED_NBYTES, STEPS // 10
    others = [nbytes for (source, to), nbytes in found.items() if 0 not in (source, to)]
    assert sum(others) > MERGED_NBYTES // 2, "they merge among each other"
    assert sum(found.values()) <= initial + launches * RANKS * MERGED_NBYTES
    by_rank_0 = sum(nbytes for (source, _), nbytes in found.items() if not source)
    assert by_rank_0 < sum(found.values()) // 2, "all that is stale from rank 0 would be three quarters"


def test_of_data_twice_as_large_as_members_rank_0_passes_only_what_the_program_writes_and_reads(
    folder: Path,
) -> None:
    found, memory = sent(folder / "large.json"), json.loads((folder / "large.json").read_text())["memory"]
    own = LARGE_BUFFERS * LARGE_NBYTES // RANKS
    edges = LARGE_BUFFERS * 2 * 4096
    for rank in range(1, RANKS):
        assert own <= found[0, rank] <= own + edges and own <= found[rank, 0] <= own + edges, found
        assert memory["links"][f"{rank}>node {rank}"]["nbytes"] > (TURNS - 1) * own
    assert max([nbytes for ends, nbytes in found.items() if 0 not in ends], default=0) <= TURNS * edges
    assert memory["node_refused_nbytes"] == 0 < memory["node_filled_nbytes"]


def test_a_profile_shows_nodes_own_memory_and_no_time_on_the_network_for_it(folder: Path) -> None:
    shown = [*SDI_RUN[:-2], "profile", "-o", folder / "large-profile", "--format", "table,chrome,json,html"]
    done = run(shown, plain_environ(), TIMEOUT_S)
    assert done.returncode == 0, done.describe()
    tables = json.loads((folder / "large-profile" / "profile.json").read_text())
    links = {(each["source"], each["target"]): each for each in tables["links"]}
    counted = json.loads((folder / "large.json").read_text())["memory"]["links"]
    for rank in range(1, RANKS):
        for ends in ((str(rank), f"node {rank}"), (f"node {rank}", str(rank))):
            assert links[ends]["kind"] == "own memory"
            assert links[ends]["nbytes"] == counted[">".join(ends)]["nbytes"]
    between = {(each["source"], each["target"]): each["nbytes"] for each in tables["nodes"]}
    assert between == {ends: nbytes for ends, nbytes in sent(folder / "large.json").items() if nbytes}


@pytest.fixture(scope="module")
def profiled(folder: Path) -> Path:
    """The stencil's profile, with all that is written of it."""
    shown = [*SDI_RUN[:-2], "profile", "-o", folder / "profile", "--format", "table,chrome,json"]
    done = run(shown, plain_environ(), TIMEOUT_S)
    assert done.returncode == 0, done.describe()
    (folder / "profile" / "text").write_text(done.stderr)
    return folder / "profile"


def trace(profiled: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The events of the trace, and its processes by name."""
    events = json.loads((profiled / "trace.json").read_text())["traceEvents"]
    return events, {each["args"]["name"]: each["pid"] for each in events if each["name"] == "process_name"}


def test_a_profile_has_a_track_for_the_members_of_each_node(profiled: Path) -> None:
    events, names = trace(profiled)
    for number in range(RANKS):
        (name,) = (name for name in names if name.startswith(f"member {number}: "))
        assert name.endswith(f" on node {number}") if number else " on node " not in name
        kernels = [each for each in events if each["pid"] == names[name] and each["name"] == "f"]
        assert len(kernels) == STEPS


def test_a_trace_has_a_track_for_each_node_with_what_goes_to_others_on_one_clock(profiled: Path) -> None:
    events, names = trace(profiled)
    assert [name for name in names if name.startswith("node ")] == [
        f"node {node}: members {node}" for node in range(RANKS)
    ]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [each for each in events if each.get("cat") == "node"]
    seen = {(each["pid"], tracks[each["pid"], each["tid"]].partition(" (")[0]) for each in spans}
    assert {(names["node 1: members 1"], "to node 2"), (names["node 2: members 2"], "from node 1")} <= seen
    plans = [each for each in events if each["name"] == "f" and each.get("cat") == "issue"]
    first_us, last_us = min(each["ts"] for each in plans), max(each["ts"] for each in events if "ts" in each)
    assert spans and all(first_us <= each["ts"] <= last_us for each in spans), "none before the first launch"


def test_a_profile_tells_what_went_between_nodes_and_the_time_on_the_network(
    folder: Path, profiled: Path
) -> None:
    tables = json.loads((profiled / "profile.json").read_text())
    between = {(each["source"], each["target"]): each for each in tables["nodes"]}
    assert all(each["way"] == "network" and each["ns"] > 0 for each in between.values())
    counted = sent(folder / "stencil.json")
    assert {ends: each["nbytes"] for ends, each in between.items()} == {
        ends: nbytes for ends, nbytes in counted.items() if nbytes
    }, "as the transports count"
    assert sum(row["ns"]["network"] for row in tables["losses"]) > 0
    (kernel,) = tables["kernels"]
    patterns = {each["pattern"]: each for each in kernel["patterns"]}
    assert patterns["scatter"]["launches"] >= 1, "the initial data"
    assert patterns["halo"]["launches"] >= STEPS - 4
    rows = patterns["halo"]["nbytes"] / ROW_NBYTES - patterns["halo"]["launches"] * 2 * (RANKS - 1)
    assert 0 <= rows <= 2, "of the first launches"
    text = (profiled / "text").read_text()
    assert "  halo for a: " in text
    assert "from node > to node" in text and "1 > 2" in text


def test_what_processes_of_one_machine_copy_is_no_time_on_the_network(folder: Path, tmp_path: Path) -> None:
    environ = job_environ(2, SDI_BALANCE="off", SDI_PROFILE=str(tmp_path / "profile"), SDI_EXPLAIN="1")
    done = run([*SDI_RUN, sys.executable, folder / "stencil.py"], environ, TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, done.describe()
    assert "member 1 on node 1 runs groups" in done.stderr, "explained"
    assert "  halo of 4.0 KiB, at most 2.0 KiB from one place for a\n" in done.stderr
    shown = [*SDI_RUN[:-2], "profile", "-o", tmp_path / "profile", "--format", "json"]
    assert run(shown, plain_environ(), TIMEOUT_S).returncode == 0
    tables = json.loads((tmp_path / "profile" / "profile.json").read_text())
    assert {(each["source"], each["target"]) for each in tables["nodes"]} >= {(0, 1), (1, 0)}
    assert {each["way"] for each in tables["nodes"]} == {"shared memory"}
    assert sum(row["ns"]["network"] for row in tables["losses"]) == 0
