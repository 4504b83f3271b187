"""``sdi run --stats`` says of real runs what happened, and whether that was a gain."""

import os
import subprocess
import sys
import textwrap

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
