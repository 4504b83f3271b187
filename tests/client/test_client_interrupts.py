"""Applications that are interrupted or killed end, whatever is under way, and so do their services."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import pytest

from tests.image_runs import MARK, ROOT, image_environ, kill_remaining, run

LIMIT_S = 10
"""Ten times what the issue gives an application, and the same for its service."""

BEGIN = """
import os, signal, numpy as np, pyopencl as cl
(device,) = cl.get_platforms()[0].get_devices()
ctx = cl.Context([device])
queue = cl.CommandQueue(ctx)
source = '''
kernel void turn(global float *a, int times) {
    float x = a[get_global_id(0)];
    for (int i = 0; i < times; i++) x = sin(x) + 0.3f;
    a[get_global_id(0)] = x;
}
kernel void add(global float *a, float by) { a[get_global_id(0)] += by; }
'''
program = cl.Program(ctx, source).build()
turn, add = cl.Kernel(program, "turn"), cl.Kernel(program, "add")
array = np.zeros(1 << 14, np.float32)
buffer = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, array.nbytes)
cl.enqueue_copy(queue, buffer, array)
def launch(times):
    return turn(queue, array.shape, (64,), buffer, np.int32(times))
launch(1)
queue.finish()
def ready():
    os.write(1, b"ready\\n")
"""

NEVER = 2_000_000_000
"""Turns that take hours."""

UNDER_WAY = {
    "a wait for a queue": f"launch({NEVER}); ready(); queue.finish()",
    "a wait for an event": f"event = launch({NEVER}); ready(); event.wait()",
    "a blocking read": f"launch({NEVER}); ready(); cl.enqueue_copy(queue, array, buffer)",
    "a blocking map": f"""
        launch({NEVER})
        ready()
        cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, array.shape, array.dtype)
        """,
    "a read that nobody waits for": f"""
        launch({NEVER})
        ready()
        read = cl.enqueue_copy(queue, array, buffer, is_blocking=False)
        queue.finish()
        """,
    "a write behind it": f"launch({NEVER}); ready(); cl.enqueue_copy(queue, buffer, array)",
    "very many launches": """
        for number in range(1 << 20):
            launch(100_000)
            if number == 100:
                ready()
        """,
    "a user event": """
        gate = cl.UserEvent(ctx)
        add(queue, array.shape, None, buffer, np.float32(1), wait_for=[gate])
        ready()
        queue.finish()
        """,
    "large copies": """
        large = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 1 << 28)
        cl.enqueue_fill_buffer(queue, large, b"\\0", 0, 1 << 28)
        into = np.empty(1 << 28, np.uint8)
        ready()
        while True:
            cl.enqueue_copy(queue, into, large)
        """,
    "a build": """
        line = "x = x * 3 + a[(x + %d) & 1023]; if (x > %d) x ^= a[%d];\\n"
        text = "".join(line % (i, i, i % 1000) for i in range(20_000))
        ready()
        cl.Program(ctx, "kernel void k(global int *a) { int x = 1;" + text + "a[0] = x; }").build()
        """,
}


@pytest.mark.parametrize("how", ["interrupted", "killed"])
@pytest.mark.parametrize("what", UNDER_WAY)
def test_an_application_ends_with_its_service_whatever_is_under_way(
    what: str, how: str, tmp_path: Path
) -> None:
    mark = uuid.uuid4().hex
    files = set(Path("/dev/shm").glob("*sdi*"))  # other programs keep files there too
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + textwrap.dedent(UNDER_WAY[what])],
        cwd=ROOT,
        env=image_environ(2, SDI_SPLIT="always", TMPDIR=str(tmp_path)) | {MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    end_s = time.monotonic() + LIMIT_S
    process.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
    while process.poll() is None and time.monotonic() < end_s:
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:  # it came just before the wait; a user does it again
            process.send_signal(signal.SIGINT)
    has_ended = process.poll() is not None
    remained = kill_remaining(mark, LIMIT_S if has_ended else 0)
    _, said = process.communicate()
    assert has_ended, said
    assert not remained
    assert not [*tmp_path.iterdir()]
    assert set(Path("/dev/shm").glob("*sdi*")) <= files


def once(code: str) -> str:
    """What a program says that interrupts itself once, from another thread, in a wait."""
    script = BEGIN + textwrap.dedent(code)
    result = run([sys.executable, "-c", script], image_environ(2, SDI_SPLIT="always"), 120)
    assert result.returncode == 0, result.describe()
    assert not result.remained
    return result.stdout


GATE = """
import threading
gate = cl.UserEvent(ctx)
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    "wait",
    [
        "queue.finish()",
        "event.wait()",
        "cl.enqueue_copy(queue, array, buffer)",
        "read = cl.enqueue_copy(queue, array, buffer, is_blocking=False); queue.finish()",
    ],
)
def test_a_program_that_goes_on_after_an_interrupt_finds_all_as_it_was(wait: str) -> None:
    said = once(
        GATE
        + f"""
event = add(queue, array.shape, None, buffer, np.float32(1), wait_for=[gate])
before = float(array[0])
try:
    try:
        threading.Thread(target=interrupt).start()
        while True:
            {wait}
    except cl.RuntimeError:
        for _ in range(1000):
            pass
except KeyboardInterrupt:
    print("interrupted")
gate.set_status(cl.command_execution_status.COMPLETE)
add(queue, array.shape, None, buffer, np.float32(2))
array[:] = -1
cl.enqueue_copy(queue, array, buffer)
print(sorted(set((array - np.float32(np.sin(0) + 0.3)).round(3).tolist())))
"""
    )
    assert said == "interrupted\n[3.0]\n"


def test_a_handler_that_does_not_raise_runs_while_the_wait_goes_on() -> None:
    said = once(
        GATE
        + """
def handler(number, frame):
    print("handled", flush=True)
    gate.set_status(cl.command_execution_status.COMPLETE)
signal.signal(signal.SIGINT, handler)
add(queue, array.shape, None, buffer, np.float32(1), wait_for=[gate])
threading.Thread(target=interrupt).start()
queue.finish()
cl.enqueue_copy(queue, array, buffer)
print(round(float(array[0]), 3))
"""
    )
    assert said == "handled\n1.3\n"
