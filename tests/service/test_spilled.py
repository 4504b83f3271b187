"""Programs whose buffers lie in files: the same bytes, whoever ends first, and whatever is full."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.errors import Status
from sdi.vmem.spill.budget import Spill
from tests.image_runs import ROOT, Run, answers_faults, computed, image_environ, plain_environ, run
from tests.service.wire_client import WireClient

PROGRAMS = [
    *("conjugate_gradient", "global_atomics", "host_pointers", "image_copies", "jacobi", "matmul", "scatter"),
    *("map_unmap", "spmv", "svm_arrays", "svm_lists", "transpose", "two_queues"),
]
LIMIT_NBYTES = 16 << 10
MIB = 1 << 20


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return computed(PROGRAMS, tmp_path_factory.mktemp("plain"), plain_environ(), 200.0)


@pytest.mark.parametrize(
    ("members", "more"),
    [(1, {}), (2, {}), (3, {"SDI_VERIFY": "1"}), (3, {"SDI_COHERENCE": "host"}), (5, {})],
    ids=str,
)
def test_programs_compute_the_same_bytes_with_a_file(
    plain: dict[str, bytes], tmp_path: Path, members: int, more: dict[str, str]
) -> None:
    files, stats = tmp_path / "files", tmp_path / "stats.json"
    files.mkdir()
    limited = image_environ(
        members,
        SDI_SPLIT="always",
        SDI_HOST_MEMORY=str(LIMIT_NBYTES),
        SDI_SPILL=f"{files}:1G",
        SDI_STATS=str(stats),
        **more,
    )
    if "SDI_VERIFY" not in more:  # that takes members that have room for whole buffers
        limited["SDI_MEMBER_MEMORY"] = str(LIMIT_NBYTES)
    assert computed(PROGRAMS, tmp_path, limited, 200.0) == plain
    memory = json.loads(stats.read_text())["memory"]
    assert max(memory["peak_nbytes"]) <= LIMIT_NBYTES or "SDI_VERIFY" in more
    assert memory["file_nbytes"] > 0 < memory["file_written_nbytes"] and memory["file_read_nbytes"] > 0
    assert list(files.iterdir()) == []


FINE_GRAINED = """
import ctypes
import numpy as np
import pyopencl as cl
context = cl.Context(next(p for p in cl.get_platforms() if p.name == "SDI").get_devices())
queue = cl.CommandQueue(context)
source = "__kernel void more(__global uint *a) { a[get_global_id(0)] += get_global_id(0); }"
more = cl.Program(context, source).build().more
count = 1 << 19
ids = np.arange(count, dtype=np.uint32)
flags = cl.svm_mem_flags.READ_WRITE | cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER
for turn in range(2):
    region = cl.SVMAllocation(context, ids.nbytes, 0, flags, queue)
    seen = np.ctypeslib.as_array((ctypes.c_uint * count).from_address(region.svm_ptr))
    seen[:] = turn
    for _ in range(2):
        more(queue, (count,), None, region)
        queue.finish()
        seen += np.uint32(1)
    print((seen == 2 * ids + turn + 2).all())
    region.release()
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=ids)  # where the region was
    more(queue, (count,), None, buffer)
    found = np.empty_like(ids)
    cl.enqueue_copy(queue, found, buffer)
    print((found == 2 * ids).all())
    buffer.release()
"""


@pytest.mark.parametrize("update", ["batch", "eager", "lazy", "rolling:64K:2"])
def test_a_fine_grained_region_may_lie_in_memory_and_in_the_file(update: str, tmp_path: Path) -> None:
    if update[0] in "lr" and not answers_faults():
        pytest.skip("this process may not answer its own page faults (userfaultfd)")
    environ = image_environ(2, SDI_FINE_GRAIN=update, SDI_HOST_MEMORY="1M", SDI_SPILL=f"{tmp_path}:64M")
    ended = run([sys.executable, "-c", FINE_GRAINED], environ, 100.0)
    assert ended.returncode == 0 and ended.stdout.split() == ["True"] * 4, ended.describe()


APPLICATION = """
import sys
import numpy as np
import pyopencl as cl
device = next(p for p in cl.get_platforms() if p.name == "SDI").get_devices()[0]
context = cl.Context([device])
queue = cl.CommandQueue(context)
buffers = []
for number in range(8):
    try:
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 20)
    except cl.MemoryError as error:
        print(number, error.code, flush=True)
        break
    cl.enqueue_copy(queue, buffer, np.full(1 << 18, number, np.int32))
    buffers.append(buffer)
if sys.argv[1] == "fork":
    import os
    child = os.fork()
    if not child:
        os._exit(len(cl.get_platforms()))
    os.waitpid(child, 0)
if sys.argv[1] == "wait":
    print("ready", flush=True)
    sys.stdin.readline()
found = np.empty(1 << 18, np.int32)
for number, buffer in enumerate(buffers):
    view, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, found.shape, found.dtype)
    assert (view == number).all()
    del view
    cl.enqueue_copy(queue, found, buffer)
    assert (found == number).all()
print("right", flush=True)
"""


def small(folder: Path, limit: str) -> dict[str, str]:
    """For an image whose host has 1 MiB."""
    return image_environ(2, SDI_HOST_MEMORY="1M", SDI_SPILL=f"{folder}:{limit}")


def application(environ: dict[str, str], what: str = "", under: tuple[str, ...] = ()) -> Run:
    return run([*under, sys.executable, "-c", APPLICATION, what], environ, 100.0)


def test_a_child_of_an_application_with_a_file_leaves_it_alone(tmp_path: Path) -> None:
    ended = application(small(tmp_path, "1G"), "fork")
    assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.describe()


def test_what_is_beyond_the_limit_is_refused_in_one_line_and_the_rest_is_right(
    tmp_path: Path,
) -> None:
    ended = application(small(tmp_path, "3M"))
    assert (ended.returncode, ended.stdout) == (0, "3 -4\nright\n"), ended.describe()
    assert "files: 1.0 MiB more asked" in ended.stderr and len(ended.stderr.splitlines()) == 1


def test_on_a_full_disk_likewise(tmp_path: Path) -> None:
    """A file system of 2 MiB, of which the application sees all that it has."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("no right to mount a file system here")
    mount = f'mount -t tmpfs -o size=3m none {tmp_path} && exec "$@"'
    ended = application(small(tmp_path, "1G"), "", ("unshare", "-rm", "sh", "-c", mount, "sh"))
    assert (ended.returncode, ended.stdout) == (0, "3 -4\nright\n"), ended.describe()
    assert f"no room for 1.0 MiB more in {tmp_path}" in ended.stderr
    assert "No space left on device" in ended.stderr and len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("who", ["service", "application"])
def test_whoever_is_killed_nothing_stays_on_disk_and_the_next_has_all_of_the_limit(
    tmp_path: Path, who: str
) -> None:
    stats, files = tmp_path / "stats", tmp_path / "files"
    files.mkdir()
    environ = small(files, "8M")
    command = [sys.executable, "-c", APPLICATION, "wait"]
    with subprocess.Popen(
        command,
        env=environ | {"SDI_STATS": str(stats)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        service = json.loads(stats.read_text())["pid"]
        assert list(files.iterdir()) == []
        refused = application(environ)
        assert refused.stdout.startswith("0 -4\n"), "both have one limit: " + refused.describe()
        os.kill(service if who == "service" else process.pid, signal.SIGKILL)
        process.communicate()
    ended = application(environ)
    assert (ended.returncode, ended.stdout) == (0, "right\n"), ended.describe()
    assert list(files.iterdir()) == []


@pytest.mark.logs("of the limit of")
def test_a_buffer_that_finds_no_room_fails_and_others_do_not(tmp_path: Path) -> None:
    with WireClient(open_members(MemberSettings(count=2)), spill=Spill(tmp_path, 4 * MIB, MIB)) as client:
        data = np.arange(MIB, dtype=np.int32)
        kept = client.buffer(data.tobytes())
        with pytest.raises(AssertionError, match=str(Status.MEM_OBJECT_ALLOCATION_FAILURE.value)):
            client.buffer(4 * MIB)
        assert client.read(kept, data.nbytes) == data.tobytes()
