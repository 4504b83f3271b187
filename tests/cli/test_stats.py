"""``sdi run --stats`` says of real runs what happened, and whether that was a gain."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.image_runs import computed, image_environ, run

SDI = [sys.executable, "-m", "sdi.cli"]
RACING = """
    import pyopencl as cl
    context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(context)
    program = cl.Program(context, '''
        __kernel void same(__global int *p, __global int *q) {
            q[get_global_id(0)] = 1;
            p[0] = get_global_id(0) + 1;
        }
        __kernel void chosen(__global const int *q, __global int *p) {
            p[q[get_global_id(0)]] = get_group_id(0);
        }
    ''').build()
    p, q = (cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096) for _ in range(2))
    for buffer in (p, q):
        cl.enqueue_fill_buffer(queue, buffer, b"\\0" * 4, 0, 4096)
    same, chosen = program.same, program.chosen
    for _ in range(TIMES):
        same(queue, (1024,), (64,), p, q)
        chosen(queue, (1024,), (64,), q, p)
    queue.finish()
"""


def stats(split: str, times: int = 1) -> list[str]:
    racing = textwrap.dedent(RACING).replace("TIMES", str(times))
    done = subprocess.run(
        [*SDI, "run", "-n", "2", "--split", split, "--stats", "--", sys.executable, "-c", racing],
        env={**os.environ, "PYOPENCL_NO_CACHE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr.splitlines()


ARRAYS = """
    import sys
    import numpy as np
    import pyopencl as cl
    context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(context)
    program = cl.Program(context, '''
        kernel void axpy(global const float *x, global float *y) {
            int i = get_global_id(0);
            y[i] += x[i];
        }
        kernel void stencil(global const float *x, global float *y) {
            int i = get_global_id(0), n = get_global_size(0);
            y[i] = x[i] + (i ? x[i - 1] : 0) + (i + 1 < n ? x[i + 1] : 0);
        }
    ''').build()
    numbers = np.arange(1 << 14, dtype=np.float32)
    flags = cl.mem_flags.READ_WRITE
    if sys.argv[1] == "regions":
        one, two = (cl.SVMAllocation(context, numbers.nbytes, 0, flags, queue) for _ in range(2))
    else:
        one, two = (cl.Buffer(context, flags, numbers.nbytes) for _ in range(2))
    for each in (one, two):
        cl.enqueue_copy(queue, each, numbers)
    axpy, stencil = program.axpy, program.stencil
    for _ in range(5):
        axpy(queue, numbers.shape, (64,), one, two)
        stencil(queue, numbers.shape, (64,), two, one)
    found = np.empty_like(numbers)
    cl.enqueue_copy(queue, found, one)
    print(found.tobytes().hex())
"""


@pytest.mark.parametrize("members", [1, 2, 3])
def test_array_programs_move_and_run_the_same_in_shared_virtual_memory_as_in_buffers(
    tmp_path: Path, members: int
) -> None:
    found = []
    for kind in ("buffers", "regions"):
        written = tmp_path / kind
        environ = image_environ(members, SDI_SPLIT="always", SDI_STATS=str(written))
        ended = run([sys.executable, "-c", textwrap.dedent(ARRAYS), kind], environ, 60.0)
        assert ended.returncode == 0, ended.describe()
        counted = json.loads(written.read_text())
        ran = [
            (kernel["groups_per_member"], kernel["launches_split"], kernel["launches_by_address"])
            for kernel in counted["kernels"].values()
        ]
        found.append((ended.stdout, counted["bytes_moved"], counted["memory"]["links"], ran))
    assert found[0] == found[1]
    assert [by_address for _, _, by_address in ran] == [0, 0] and counted["bytes_moved"]["application"] > 0


def test_launches_by_address_are_counted(tmp_path: Path) -> None:
    written = tmp_path / "stats"
    environ = image_environ(3, SDI_SPLIT="always", SDI_STATS=str(written))
    computed(["svm_lists"], tmp_path, environ, 60.0)
    kernels = json.loads(written.read_text())["kernels"]
    launched = {name: each["launches_split"] + each["launches_whole"] for name, each in kernels.items()}
    assert {name: each["launches_by_address"] for name, each in kernels.items()} == launched
    assert launched["sl_tree"] == 3


ASTRAY = """
    import resource
    import numpy as np
    import pyopencl as cl
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(context)
    program = cl.Program(context, '''
        __kernel void near(__global int *p) { p[get_global_id(0)] = 1; }
        __kernel void astray(__global int *p, ulong far) { p[get_global_id(0) + far] = 1; }
    ''').build()
    p = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
    program.near(queue, (1024,), (64,), p)
    queue.finish()
    program.astray(queue, (1024,), (64,), p, np.uint64(1 << 44))
    try:
        queue.finish()
    except cl.Error as error:
        print(error.code)
"""


@pytest.mark.parametrize("ready", ["ready", "started"])
def test_a_kernel_that_ends_the_service_is_told_of_and_that_the_counters_are_lost(ready: str) -> None:
    environ = {**os.environ, "PYOPENCL_NO_CACHE": "1", "PYTHONWARNINGS": "ignore"}
    if ready == "started":
        environ["SDI_PYTHON"] = sys.executable
    command = [*SDI, "run", "-n", "2", "--devices", "cpu", "--stats", "--explain", "--", sys.executable, "-c"]
    done = subprocess.run(
        [*command, textwrap.dedent(ASTRAY)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "-5\n", done.stderr
    assert [line for line in done.stderr.splitlines() if "service" in line or line.startswith("sdi: ")] == [
        "sdi: the service was ended by SIGSEGV, perhaps by a kernel that stores outside of its buffers, or "
        "by a driver; all calls of this program fail from now on",
        "sdi: the service did not finish (SIGSEGV): its counters are lost",
        "sdi: 2 members",
        "the service did not finish (SIGSEGV): its counters are lost",
    ]
    assert not [
        line for line in done.stderr.splitlines() if line.startswith(("no kernel", "moved", "verdict"))
    ]


def test_a_race_is_named_with_its_kernel_argument_and_line() -> None:
    said = "stored to the same place in one launch of"
    assert [line for line in stats("always") if line.startswith("races: ")] == [
        f"races: 1 times two members {said} same, through p, line 4; the later value was kept",
        f"races: 1 times two members {said} chosen, through p, line 7; the later value was kept",
    ]


def test_the_last_line_is_the_verdict() -> None:
    assert stats("always", times=3)[-1] == (
        "verdict: split 6 of 6 launches as SDI_SPLIT=always asks; "
        "what these take on one device was not measured"
    )
    # Kernels' first launches are no measure; later ones are.
    verdict = stats("auto", times=20)[-1]
    assert verdict.startswith("verdict: ran on one device: launches of ")
    assert verdict.endswith(" µs are too short to share; nothing lost")
    assert stats("never")[-1] == "verdict: ran on one device: SDI_SPLIT=never; nothing lost"
