"""Members on NVIDIA GPUs: what every member does, then kernels against the CPU driver."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from sdi.clc.compile import compile_source
from sdi.clc.launch import pack_hidden
from sdi.devices import copying
from sdi.devices.base import Device, LocalBytes
from sdi.devices.capabilities import CPU, GPU
from sdi.devices.cuda.context import use_page_locks
from sdi.devices.cuda.gpu import CudaGpu
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.cuda.printing import CAPACITY_NBYTES
from sdi.devices.handles import DeviceBuffer
from sdi.devices.opencl.member import OpenCLDevice, driver_devices
from sdi.devices.page_locks import PAGE_LOCKS, SLAB_NBYTES
from sdi.devices.ticket import Ticket
from sdi.errors import ClError
from sdi.ndrange import GroupBox, NDRange
from sdi.region import Region
from sdi.vmem.arena import Arena
from tests.clc.cuda.cases import INEXACT, ITEMS, LOCAL_ITEMS, LOCAL_NBYTES, PER_ITEM, SOURCES
from tests.devices import test_base as every_member
from tests.devices import test_comparing, test_copying, test_image
from tests.devices.conftest import KINDS, OpenMembers, finish

# The tests of every member run here once more, on the fixtures below.
for _tests in (every_member, test_comparing, test_copying, test_image):
    globals().update({name: test for name, test in vars(_tests).items() if name.startswith("test_")})
host = every_member.host


@pytest.fixture(params=list(KINDS))
def open_members(request: pytest.FixtureRequest, gpu: CudaGpu) -> Iterator[OpenMembers]:
    """Opens members that share the first GPU, wrapped in each way; closes them in reverse."""
    opened: list[Device] = []

    def open_(count: int) -> list[Device]:
        for number in range(len(opened), len(opened) + count):
            opened.append(KINDS[request.param](CudaDevice(gpu, number, 4 << 30), number))
        return opened[-count:]

    yield open_
    for member in reversed(opened):
        member.close()


@pytest.fixture
def member(open_members: OpenMembers) -> Device:
    """One member."""
    return open_members(1)[0]


@pytest.fixture
def plain(gpu: CudaGpu) -> Iterator[Device]:
    """One member as it is."""
    made = CudaDevice(gpu, 0, 4 << 30)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    """A member on the CPU driver, whose answers are the truth."""
    devices = [device for device in driver_devices() if device.kind is CPU]
    if not devices:
        pytest.skip("no OpenCL driver offers a CPU device")
    member = OpenCLDevice(devices[0], 99, 1 << 30)
    yield member
    member.close()


def test_facts_carry_the_bytes_that_the_driver_gives(member: Device) -> None:
    info = member.capabilities.info
    assert member.capabilities.kind is GPU
    assert info[0x102B].rstrip(b"\0").decode() in member.capabilities.name
    assert len(info[0x1005]) == 24
    assert int.from_bytes(info[0x1004], "little") == 1024


def upload(member: Device, array: np.ndarray) -> DeviceBuffer:
    buffer = member.allocate(array.nbytes)
    finish(copying.upload(member, host(array), buffer, 0, []))
    return buffer


def download(member: Device, buffer: DeviceBuffer, like: np.ndarray, *wait: Ticket) -> np.ndarray:
    found = np.empty_like(like)
    finish(copying.download(member, buffer, 0, host(found), wait))
    return found


def run_case(member: Device, source: str) -> tuple[np.ndarray, np.ndarray]:
    """Floats and ints that a case writes."""
    rng = np.random.default_rng(7)
    f = rng.uniform(-1.5, 1.5, ITEMS * PER_ITEM).astype(np.float32)
    n = rng.integers(-50, 50, ITEMS * PER_ITEM, dtype=np.int32)
    f_out, n_out = np.zeros_like(f), np.zeros_like(n)
    buffers = [upload(member, array) for array in (f, n, f_out, n_out)]
    kernel = member.bind(member.build(source, []), "t", [*buffers, LocalBytes(LOCAL_NBYTES)])
    ticket = member.launch(kernel, (ITEMS // LOCAL_ITEMS, 1, 1), (LOCAL_ITEMS, 1, 1), 1, [])
    answer = (download(member, buffers[2], f_out, ticket), download(member, buffers[3], n_out, ticket))
    for buffer in buffers:
        member.free(buffer)
    return answer


@pytest.mark.parametrize("name", SOURCES)
def test_each_case_answers_as_on_the_cpu_driver(plain: Device, cpu: Device, name: str) -> None:
    floats, ints = run_case(plain, SOURCES[name])
    true_floats, true_ints = run_case(cpu, SOURCES[name])
    assert floats.any() or ints.any(), "a case writes something"
    wrong = np.flatnonzero(ints != true_ints)
    assert not wrong.size, (
        f"int {wrong[0] % 8} of {wrong[0] // 8}: {ints[wrong[0]]}, not {true_ints[wrong[0]]}"
    )
    if name in INEXACT:
        np.testing.assert_allclose(floats, true_floats, rtol=INEXACT[name], atol=INEXACT[name])
    else:
        wrong = np.flatnonzero(floats.view(np.int32) != true_floats.view(np.int32))
        what = [(int(w), floats[w], true_floats[w]) for w in wrong[:4]]
        assert not wrong.size, f"floats differ: {what}"


def test_boxes_of_work_groups_behave_as_the_whole_ndrange(member: Device) -> None:
    source = """
    kernel void ids(global uint *out, global uint *none) {
      size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);
      uint at = (get_global_id(2) * get_global_size(1) + y) * get_global_size(0) + x;
      out[at] = get_group_id(0) + 10 * get_group_id(1) + 100 * get_group_id(2) + 1000 * get_local_id(0)
        + 10000 * get_num_groups(1) + 100000 * get_work_dim() + 1000000 * (none != 0);
    }"""
    compiled = compile_source(source, "")
    ndrange = NDRange(3, (5, 7, 0), (8, 6, 4), (4, 2, 1))
    program = member.build(compiled.text, compiled.member_options)
    answers = []
    whole = [GroupBox((0, 0, 0), (2, 3, 4))]
    cut = [GroupBox((0, 0, 0), (1, 3, 4)), GroupBox((1, 0, 0), (2, 2, 4)), GroupBox((1, 2, 0), (2, 3, 4))]
    for boxes, shift in ((whole, 0), (cut, 0), (cut, 256)):
        out = np.zeros(8 * 6 * 4 + 64, np.uint32)
        buffer = upload(member, out)
        tickets: list[Ticket] = []
        for box in boxes:
            hidden = pack_hidden(compiled.kernels[0], ndrange, box, [-shift, 0])
            kernel = member.bind(program, "ids", [buffer, None, hidden])
            tickets.append(member.launch(kernel, box.extent, ndrange.local_size, 3, []))
        answers.append(download(member, buffer, out, *tickets)[shift // 4 :][: 8 * 6 * 4].tobytes())
    assert answers[0] == answers[1] == answers[2]
    assert len(set(np.frombuffer(answers[0], np.uint32).tolist())) == 2 * 3 * 4 * 4


@pytest.mark.parametrize("groups", [(2, 70_000, 1), (1, 3, 66_000)])
def test_grids_may_have_more_groups_than_cuda_allows(member: Device, groups: tuple[int, int, int]) -> None:
    source = """
    kernel void k(global uint *a) {
      size_t g = get_group_id(2) * get_num_groups(1) + get_group_id(1);
      g = g * get_num_groups(0) + get_group_id(0);
      atomic_add(&a[g], (uint)(get_local_id(0) + get_local_id(1) * 2 + 1));
    }"""
    total = groups[0] * groups[1] * groups[2]
    buffer = upload(member, np.zeros(total, np.uint32))
    kernel = member.bind(member.build(source, []), "k", [buffer])
    ticket = member.launch(kernel, groups, (2, 2, 1), 3, [])
    assert (download(member, buffer, np.zeros(total, np.uint32), ticket) == 10).all()


def test_members_copy_from_each_other(open_members: OpenMembers) -> None:
    first, second = open_members(2)
    data = np.arange(1000, dtype=np.int32)
    source, target = upload(first, data), upload(second, np.zeros(1000, np.int32))
    gate = Ticket()
    changed = first.fill(source, 0, 400, b"\7\0\0\0", [gate])
    copied = copying.across(second, first, source, 40, target, 80, 2000, [changed], [])[1]
    gate.complete()
    found = download(second, target, data, copied)
    expected = np.zeros(1000, np.int32)
    expected[20:520] = np.where(np.arange(10, 510) < 100, 7, np.arange(10, 510))
    assert (found == expected).all()


def test_members_take_turns_on_one_chain_of_tickets(open_members: OpenMembers) -> None:
    first, second = open_members(2)
    source = "kernel void k(global int *a) { a[get_global_id(0)] += 1; }"
    buffers = [upload(each, np.zeros(64, np.int32)) for each in (first, second)]
    kernels = [
        each.bind(each.build(source, []), "k", [buffer])
        for each, buffer in zip((first, second), buffers, strict=True)
    ]
    tickets: list[Ticket] = []
    for _ in range(2000):
        tickets = [first.launch(kernels[0], (4, 1, 1), (16, 1, 1), 1, tickets)]
        tickets = [second.launch(kernels[1], (4, 1, 1), (16, 1, 1), 1, tickets)]
    for each, buffer in zip((first, second), buffers, strict=True):
        assert (download(each, buffer, np.zeros(64, np.int32), *tickets) == 2000).all()


def test_registered_memory_is_copied_without_blocking(member: Device) -> None:
    nbytes = 64 << 20
    with mmap.mmap(-1, nbytes) as store:
        view = memoryview(store)
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        use_page_locks()
        PAGE_LOCKS.offer(address, nbytes)
        PAGE_LOCKS.lock(view)
        try:
            view[:4096] = bytes(range(256)) * 16
            buffer = member.allocate(nbytes)
            up = copying.upload(member, view[: nbytes // 2], buffer, 0, [])
            down = copying.download(member, buffer, 0, view[nbytes // 2 :], [up])
            finish(down)
            assert bytes(view[nbytes // 2 :][:4096]) == bytes(range(256)) * 16
            member.free(buffer)
            del up, down
        finally:
            PAGE_LOCKS.withdraw(address)
            view.release()


def test_the_arena_is_registered_by_slab_as_it_is_copied(member: Device) -> None:
    nbytes = 3 * SLAB_NBYTES
    arena = Arena(1 << 33, 1 << 16)
    try:
        at = arena.allocate(2 * nbytes)
        data, found = arena.view(at, nbytes), arena.view(at + nbytes, nbytes)
        np.frombuffer(data, np.uint64)[:] = np.arange(nbytes // 8)
        buffer = member.allocate(nbytes)
        for turn in range(3):
            up = copying.upload(member, data, buffer, 0, [])
            assert up.is_typical == (turn > 0)
            finish(copying.download(member, buffer, 0, found, [up]))
            assert data == found
            np.frombuffer(data, np.uint64)[:] += np.uint64(1)
        assert PAGE_LOCKS.holds(data) and PAGE_LOCKS.holds(found)
        # A small one behind a large one, of memory that is not locked.
        small = bytearray(b"later" * 100)
        large = copying.upload(member, data, buffer, 0, [])
        finish(copying.upload(member, memoryview(small), buffer, 8, [large]))
        finish(copying.upload(member, memoryview(small), buffer, 800, []))
        finish(copying.download(member, buffer, 0, found, []))
        assert found[8:508] == found[800:1300] == small
        assert found[1304:] == data[1304:]
        member.free(buffer)
        del up, large
        data.release()
        found.release()
    finally:
        arena.close()


def test_kernels_work_on_host_memory_that_a_member_adopted(member: Device) -> None:
    arena = Arena(1 << 33, 1 << 16)
    try:
        items = 1 << 20
        at = arena.allocate(4 * items)
        values = np.frombuffer(arena.view(at, 4 * items), np.int32)
        values[:] = np.arange(items)
        used = member.memory.in_use
        buffer = member.allocate(arena.view(at, 4 * items))
        assert member.memory.in_use == used
        source = "kernel void k(global int *a) { a[get_global_id(0)] *= 3; }"
        kernel = member.bind(member.build(source, []), "k", [buffer])
        finish(member.launch(kernel, (items // 256, 1, 1), (256, 1, 1), 1, []))
        assert (values == 3 * np.arange(items)).all()
        member.free(buffer)
        with pytest.raises(ClError, match="can't be page-locked"):
            member.allocate(memoryview(bytearray(4096)))
    finally:
        arena.close()


def test_rows_are_copied_at_a_time(open_members: OpenMembers) -> None:
    first, second = open_members(2)
    rows = Region(0, 1000, ((4096, 37),))
    arena = Arena(1 << 33, 1 << 16)
    try:
        at = arena.allocate(1 << 20)
        host, found = arena.view(at, 1 << 19), arena.view(at + (1 << 19), 1 << 19)
        np.frombuffer(host, np.uint8)[:] = np.random.default_rng(2).integers(0, 256, 1 << 19, np.uint8)
        buffers = [member.allocate(1 << 19) for member in (first, second)]
        for turn in range(2):  # the first time the arena is not registered yet
            for member, buffer in zip((first, second), buffers, strict=True):
                finish(member.fill(buffer, 0, 1 << 19, bytes([turn]), []))
            up = copying.upload(first, host[100:], buffers[0], 100, [], rows)
            across = copying.across(second, first, buffers[0], 100, buffers[1], 300, rows, [up], [])[1]
            np.frombuffer(found, np.uint8)[:] = 9
            finish(copying.download(second, buffers[1], 300, found[200:], [across], rows))
            wanted = np.full(1 << 19, 9, np.uint8)
            whole = np.full(1 << 19, turn, np.uint8)
            for row in range(37):
                sent = np.frombuffer(host, np.uint8)[100 + row * 4096 :][:1000]
                wanted[200 + row * 4096 :][:1000] = sent
                whole[300 + row * 4096 :][:1000] = sent
            assert (np.frombuffer(found, np.uint8) == wanted).all()
            assert (download(second, buffers[1], whole) == whole).all()
            finish(copying.upload(first, host, buffers[0], 0, []))
        del host, found
    finally:
        arena.close()


_BREAKS = """
import threading
from sdi.devices import copying
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.cuda.gpu import cuda_devices
from sdi.errors import ClError, DeviceFailed

def wait(ticket):
    done = threading.Event()
    ticket.when_done(lambda _: done.set())
    assert done.wait(60)
    return ticket.error

member = CudaDevice(cuda_devices()[0], 0, 1 << 30)
source = "kernel void k(global int *a, ulong at) { *(global int *)at = *a; }"
buffer, host = member.allocate(1 << 20), memoryview(bytearray(1 << 20))
bound = member.bind(member.build(source, []), "k", [buffer, (64).to_bytes(8, "little")])
broken = member.launch(bound, (1, 1, 1), (1, 1, 1), 1, [])
after = [
    member.launch(bound, (1, 1, 1), (1, 1, 1), 1, [broken]),
    copying.download(member, buffer, 0, host, [broken]),
]
for ticket in (broken, *after):
    assert isinstance(wait(ticket), DeviceFailed), wait(ticket)
assert isinstance(wait(member.fill(buffer, 0, 4, b"1234", [])), DeviceFailed)
member.close()
print("closed")
"""


def test_a_kernel_that_breaks_its_gpu_fails_all_that_follows(gpu: CudaGpu) -> None:
    del gpu  # it breaks in a process of its own
    done = subprocess.run(
        [sys.executable, "-c", _BREAKS], capture_output=True, text=True, check=False, timeout=100
    )
    assert "closed" in done.stdout, done.stderr


def test_options_of_one_build_are_not_those_of_another_of_the_same_text(member: Device) -> None:
    source = "kernel void k(global float *a) { a[get_global_id(0)] *= 0.25f; } // " + str(os.getpid())
    values = np.linspace(1.2e-38, 1e-37, 4096, dtype=np.float32)
    for options in (("-cl-fast-relaxed-math",), (), ("-cl-denorms-are-zero",), ()):
        buffer = upload(member, values)
        kernel = member.bind(member.build(source, options), "k", [buffer])
        found = download(member, buffer, values, member.launch(kernel, (64, 1, 1), (64, 1, 1), 1, []))
        is_tiny = np.abs(values / 4) < np.finfo(np.float32).tiny
        assert is_tiny.any() and not is_tiny.all()
        expected = np.where(is_tiny, 0, values / 4) if options else values / 4
        assert (found.view(np.int32) == expected.astype(np.float32).view(np.int32)).all(), options
        member.free(buffer)


def test_division_is_exact_where_the_program_asks_for_it(member: Device) -> None:
    source = (
        "kernel void k(global float *a) { size_t i = get_global_id(0); a[i] = a[i] / 3.0f + sqrt(a[i]); }"
    )
    values = np.random.default_rng(3).uniform(0, 100, 4096).astype(np.float32)
    expected = values / np.float32(3) + np.sqrt(values)
    for options, ulps in (((), 6), (("-cl-fp32-correctly-rounded-divide-sqrt",), 0)):
        buffer = upload(member, values)
        kernel = member.bind(member.build(source, options), "k", [buffer])
        found = download(member, buffer, values, member.launch(kernel, (64, 1, 1), (64, 1, 1), 1, []))
        np.testing.assert_array_max_ulp(found, expected, ulps or 2)
        if not ulps:
            exact = (found.view(np.int32) == expected.view(np.int32)).mean()
            assert exact > 0.4, "the sum may be fused, the parts are exact"


@pytest.mark.logs("calls of printf are lost")
def test_kernels_print_each_line_once_and_say_what_is_lost(
    plain: Device, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
    kernel void tell(global const int *a, int from) {
      int i = get_global_id(0);
      if (i >= from) printf("%d: %v2hld %s\\n", i, (int2)(a[0], -i), "done");
    }
    kernel void many(global int *a) { if (printf("%d\\n", (int)get_global_id(0)) < 0) atomic_inc(a); }"""
    program = plain.build(source, [])
    buffer = upload(plain, np.array([7], np.int32))
    for first in (0, 40, 64):
        bound = plain.bind(program, "tell", [buffer, first.to_bytes(4, "little")])
        finish(plain.launch(bound, (4, 1, 1), (16, 1, 1), 1, []))
        lines = sorted(capfd.readouterr().out.splitlines())
        assert lines == sorted(f"{item}: 7,{-item} done" for item in range(first, 64))
    most = CAPACITY_NBYTES // 16
    items = most + 4096
    zero = upload(plain, np.zeros(1, np.int32))
    done = plain.launch(plain.bind(program, "many", [zero]), (items // 256, 1, 1), (256, 1, 1), 1, [])
    assert download(plain, zero, np.zeros(1, np.int32), done)[0] == 4096
    numbers = capfd.readouterr().out.split()
    assert len(numbers) == most == len({int(number) for number in numbers})
