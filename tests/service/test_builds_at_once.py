"""Several applications build the same programs at the same time, with caches that they fill and read."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.image_runs import END_PATIENCE_S, MARK, ROOT, image_environ, kill_remaining

APPLICATION = """
import sys
import numpy as np
import pyopencl as cl

context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
print("ready", flush=True)
sys.stdin.readline()
first, found = int(sys.argv[1]), {}
for number in ((first + k) % 3 for k in range(3)):  # each begins with another
    source = f'''
    kernel void scaled(global float *a) {{ a[get_global_id(0)] *= {number + 2}; }}
    kernel void turned(global const float *a, global float *b)
    {{
        b[get_global_size(0) - 1 - get_global_id(0)] = a[get_global_id(0)];
    }}
    '''
    program = cl.Program(context, source).build()
    binary = cl.Program(context, context.devices, program.get_info(cl.program_info.BINARIES)).build()
    for built in (program, binary):
        host, result = np.arange(256, dtype=np.float32), np.empty(256, np.float32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        a, b = (cl.Buffer(context, flags, hostbuf=host) for _ in range(2))
        built.scaled(queue, (256,), (16,), a)
        built.turned(queue, (256,), (16,), a, b)
        cl.enqueue_copy(queue, result, b)
        assert (result == (number + 2) * host[::-1]).all(), result
    found[number] = len(program.get_info(cl.program_info.BINARIES)[0])
print(sorted(found.items()))
"""


def test_applications_that_build_at_once_all_get_what_they_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    mark = uuid.uuid4().hex
    (tmp_path / "pocl").mkdir()
    environ = image_environ(2, XDG_CACHE_HOME=str(tmp_path), POCL_CACHE_DIR=str(tmp_path / "pocl"))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", APPLICATION, str(number)],
            cwd=ROOT,
            env={**environ, MARK: mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    try:
        for each in started:
            assert each.stdout is not None and each.stdout.readline() == "ready\n"
        ended = []
        for each in started:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()
        for each in started:
            said, _ = each.communicate(timeout=300)
            ended.append((each.returncode, said))
    finally:
        for each in started:
            each.kill()
            each.communicate()
    assert kill_remaining(mark, END_PATIENCE_S) == ()
    assert all(one == ended[0] for one in ended) and ended[0][0] == 0 and ended[0][1], ended
    for kind in ("programs", "objects"):
        kept = [path.name for path in (tmp_path / "sdi" / kind).iterdir()]
        assert [len(name) for name in kept] == [64] * 3, "a file of each program, none half-made"
