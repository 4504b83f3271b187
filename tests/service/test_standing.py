"""A service is asked what it believes to be under way, while an application waits."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from typing import IO

from tests.image_runs import MARK, ask_services, image_environ

APPLICATION = """
import numpy as np, pyopencl as cl
(device,) = cl.get_platforms()[0].get_devices()
ctx = cl.Context([device])
queue = cl.CommandQueue(ctx)
buffer = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.arange(64))
gate = cl.UserEvent(ctx)
filled = cl.enqueue_fill_buffer(queue, buffer, np.int32(7), 0, 256, wait_for=[gate])
out = np.empty(64, np.int32)
copied = cl.enqueue_copy(queue, out, buffer, is_blocking=False)
queue.flush()
print("waits", flush=True)
input()
gate.set_status(0)
copied.wait()
assert (out == 7).all()
"""


EXPECTED = (
    r"session: open, nothing posted",
    r"engine: user event \d+: waiting, 0 to be issued and 0 to end before it, its work not done",
    r"engine: fill \d+: waiting, 1 to be issued and 1 to end before it, its work not done",
    r"engine: read \d+: waiting, 1 to be issued and 1 to end before it, its work not done",
    r"engine: busy: nobody",
    r"player: \d+ records taken, all records are read",
    r"page: epoch \d+, asleep",
)
ASKED_MOST = 200
"""The application goes on when its records are sent, and the service is at them when it is asked first."""


def answer(stderr: IO[str]) -> str:
    """What a service says when it is asked, up to its last line."""
    said: list[str] = []
    while not said or not said[-1].startswith("page:"):
        said.append(stderr.readline())
        assert said[-1], f"the service ended: {said}"
    return "".join(said)


def test_it_tells_what_is_under_way() -> None:
    mark = uuid.uuid4().hex
    application = subprocess.Popen(
        [sys.executable, "-c", APPLICATION],
        env=image_environ(2, SDI_SPLIT="always") | {MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with application:
        assert application.stdin is not None and application.stdout is not None
        assert application.stderr is not None
        assert application.stdout.readline() == "waits\n", application.stderr.read()
        for _ in range(ASKED_MOST):
            ask_services(mark, 0)
            text = answer(application.stderr)
            if missing := [line for line in EXPECTED if not re.search(f"^{line}$", text, re.M)]:
                continue
            break
        application.stdin.write("go on\n")
        application.stdin.flush()
        assert application.wait(60) == 0, application.stderr.read()
    assert not missing, f"{missing} in {text}"
    assert "Current thread" in text or "Thread 0x" in text, text
