"""Programs about shared virtual memory: regions, kernels that reach them, commands (see test_client.py)."""

from __future__ import annotations

import ctypes
import struct
import threading
from ctypes import byref, c_int32, c_uint32, c_uint64, c_void_p, string_at

from tests.client.test_client_binding import (
    ADD,
    COPY_HOST_PTR,
    READ,
    READ_ONLY,
    READ_WRITE,
    USE_HOST_PTR,
    WRITE,
    WRITE_ONLY,
    Cl,
    handles,
    sizes,
    until,
)
from tests.client.test_client_events import marker
from tests.client.test_client_session import in_child

ADDRESS, ARENA_NBYTES, MAX_NBYTES, PAGE_NBYTES = 0x2000_0000_0000, 8 << 30, 2 << 30, 4096
KERNELS = """
kernel void follow(global int *data, global int *other) {}
kernel void follow_heads(global long *heads, global int *data) {}
kernel void plain(global int *data, global int *other) {}
kernel void kinds(global int *data, constant int *table, local int *scratch, int n) {}
kernel void add(global int *data, int term) {}
"""
CAPABILITIES, PTRS, SYSTEM = 0x1053, 0x11B6, 0x11B7
FREES = ("RECYCLE_BUFFER", "RELEASE_BUFFER")
FINE_GRAIN, ATOMICS = 1 << 10, 1 << 11
INVALID_VALUE, INVALID_CONTEXT, INVALID_QUEUE, INVALID_OPERATION = -30, -34, -36, -59
INVALID_KERNEL, INVALID_ARG_INDEX, INVALID_ARG_VALUE, INVALID_KERNEL_ARGS = -48, -49, -50, -52
OVERLAP, WAITED_FOR_FAILURE, INVALID_BUFFER_SIZE, INVALID_WAIT_LIST = -8, -14, -61, -57


class Svm:
    """A context, a queue, kernels, and regions."""

    def __init__(self, cl: Cl, properties: int = 0) -> None:
        self.cl, self.context = cl, cl.context()
        self.queue = cl.queue(self.context, properties)
        self.program = cl.program(self.context, KERNELS)

    def alloc(self, nbytes: int, flags: int = 0, alignment: int = 0) -> int:
        """A region."""
        found = self.cl.clSVMAlloc(self.context, flags, nbytes, alignment)
        assert found
        return found

    def region(self, data: bytes) -> tuple[int, int]:
        """One with these bytes, and the id of its buffer."""
        at = self.alloc(len(data))
        number = self.cl.last("CREATE_BUFFER")["id"]
        self.copy(at, data)
        return at, number

    def copy(self, to: object, source: object, nbytes: int | None = None) -> None:
        """A blocking copy."""
        nbytes = len(source) if nbytes is None else nbytes  # type: ignore[arg-type]
        self.cl.check(self.cl.clEnqueueSVMMemcpy(self.queue, 1, to, source, nbytes, 0, None, None))

    def bytes_at(self, at: int, nbytes: int) -> bytes:
        """By a blocking map of them."""
        self.cl.check(self.cl.clEnqueueSVMMap(self.queue, 1, READ, at, nbytes, 0, None, None))
        found = string_at(at, nbytes)
        self.cl.check(self.cl.clEnqueueSVMUnmap(self.queue, at, 0, None, None))
        return found

    def kernel(self, name: str, *pointers: int | None) -> int:
        """A kernel with these arguments."""
        kernel = self.cl.kernel(self.program, name)
        for index, pointer in enumerate(pointers):
            self.cl.check(self.cl.clSetKernelArgSVMPointer(kernel, index, pointer))
        return kernel

    def reach(self, kernel: int, *pointers: int) -> int:
        """The code of clSetKernelExecInfo."""
        return self.cl.clSetKernelExecInfo(kernel, PTRS, 8 * len(pointers), handles(pointers))

    def last(self, op: str) -> dict:
        """The last record of a kind, when all before it has arrived."""
        self.cl.check(self.cl.clFinish(self.queue))
        return self.cl.last(op)

    def launched(self, kernel: int) -> list[int]:
        """Launch; the regions that the record names, and what it names told of before."""
        self.cl.launch(self.queue, kernel)
        record = self.last("NDRANGE")
        return regions_of(record) + self.told(record["reach"])

    def told(self, reach: int) -> list[int]:
        """The regions that ``reach`` stands for."""
        if not reach:
            return []
        assert reach not in [r["id"] for r in self.cl.records("RELEASE_REACH")]
        (record,) = (r for r in self.cl.records("REACH") if r["id"] == reach)
        tail = bytes.fromhex(record["tail"])
        assert len(tail) == 8 * record["num_regions"]
        return list(struct.unpack(f"<{record['num_regions']}Q", tail))


def regions_of(record: dict) -> list[int]:
    tail, nbytes = bytes.fromhex(record["tail"]), record["args_nbytes"]
    assert len(tail) == nbytes + 8 * record["num_regions"]
    return list(struct.unpack(f"<{record['num_regions']}Q", tail[nbytes:]))


def places_of(record: dict, num: int) -> list[tuple[int, int, int]]:
    """Root, offset and bytes of the first pointers among the arguments."""
    found = struct.iter_unpack("<IIQQQ", bytes.fromhex(record["tail"])[: 32 * num])
    return [(root, offset, nbytes) for _, _, root, offset, nbytes in found]


def all_is_refused(cl: Cl) -> None:
    """Nothing of it is there, and everything else works."""
    context = cl.context()
    queue, kernel = cl.queue(context), cl.kernel(cl.program(context, ADD), "add")
    assert cl.number("clGetDeviceInfo", cl.device(), CAPABILITIES) == 0
    assert not cl.clSVMAlloc(context, READ_WRITE, 64, 0)
    at = ctypes.create_string_buffer(64)
    place, one, none = ctypes.addressof(at), handles([ctypes.addressof(at)]), (0, None, None)
    cl.clSVMFree(context, place)
    cl.clSVMFree(context, None)
    codes = [
        cl.clSetKernelArgSVMPointer(kernel, 0, None),
        cl.clSetKernelExecInfo(kernel, PTRS, 8, one),
        cl.clEnqueueSVMFree(queue, 1, one, None, None, *none),
        cl.clEnqueueSVMMemcpy(queue, 1, place, place + 8, 8, *none),
        cl.clEnqueueSVMMemFill(queue, place, b"a", 1, 8, *none),
        cl.clEnqueueSVMMap(queue, 1, READ, place, 8, *none),
        cl.clEnqueueSVMUnmap(queue, place, *none),
        cl.clEnqueueSVMMigrateMem(queue, 1, one, None, 0, *none),
    ]
    assert codes == [INVALID_OPERATION] * len(codes)
    assert not cl.records(*FREES)
    buffer = cl.buffer(context, 64, COPY_HOST_PTR, bytes(64))
    assert cl.number("clGetMemObjectInfo", buffer, 0x1109) == 0
    cl.set_args(kernel, c_void_p(buffer), c_int32(5))
    cl.launch(queue, kernel)
    assert cl.read(queue, buffer, 64) == struct.pack("<i", 5) * 16


def without_an_address_there_is_none(cl: Cl) -> None:
    all_is_refused(cl)


def where_the_address_is_taken_there_is_none(cl: Cl) -> None:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    at = ADDRESS + ARENA_NBYTES - PAGE_NBYTES
    assert libc.mmap(at, PAGE_NBYTES, 3, 0x100022, -1, 0) == at
    ctypes.memset(at, 7, PAGE_NBYTES)
    all_is_refused(cl)
    assert string_at(at, PAGE_NBYTES) == b"\7" * PAGE_NBYTES


def allocations_are_in_the_arena_at_its_address(cl: Cl) -> None:
    context = cl.context()
    alloc = cl.clSVMAlloc
    assert cl.number("clGetDeviceInfo", cl.device(), CAPABILITIES) == 1
    given = []
    for flags in (0, READ_WRITE, WRITE_ONLY, READ_ONLY):
        given.append(alloc(context, flags, 100, 0))
        record = cl.last("CREATE_BUFFER")
        assert (record["flags"], record["buffer_nbytes"]) == (flags or READ_WRITE, 100)
    for shift in range(13):
        given.append(alloc(context, READ_WRITE, 5000, 1 << shift))
        assert given[-1] % (1 << shift) == 0
    given.append(alloc(context, 0, MAX_NBYTES, 0))
    assert all(at and ADDRESS < at < ADDRESS + ARENA_NBYTES for at in given)
    assert len(set(given)) == len(given)
    for at in given:
        ctypes.memset(at, 3, 100)
    num = len(cl.records("CREATE_BUFFER"))
    for flags in (3, 5, 7, USE_HOST_PTR, COPY_HOST_PTR, 1 << 10, 1 << 11, 1 << 10 | 1 << 11 | 1, 1 << 63):
        assert alloc(context, flags, 100, 0) is None
    for nbytes in (0, MAX_NBYTES + 1, 2**64 - 1):
        assert alloc(context, 0, nbytes, 0) is None
    for alignment in (3, 24, 2 * PAGE_NBYTES, 2**31, 2**32 - 1):
        assert alloc(context, 0, 100, alignment) is None
    assert alloc(None, 0, 100, 0) is None
    other = cl.context()
    cl.check(cl.clReleaseContext(other))
    assert alloc(other, 0, 100, 0) is None
    assert len(cl.records("CREATE_BUFFER")) == num


def the_heaps_end_is_no_region(cl: Cl) -> None:
    svm = Svm(cl)
    given = [svm.alloc(MAX_NBYTES) for _ in range(3)]
    assert cl.clSVMAlloc(svm.context, 0, MAX_NBYTES, 0) is None
    cl.clSVMFree(svm.context, given[1])
    svm.copy(given[2] + MAX_NBYTES - 4, b"last")
    assert svm.bytes_at(given[2] + MAX_NBYTES - 4, 4) == b"last"


def only_what_was_allocated_is_freed(cl: Cl) -> None:
    svm, other = Svm(cl), cl.context()
    at, number = svm.region(bytes(5000))
    mine = ctypes.create_string_buffer(64)
    for context, pointer in (
        (svm.context, None),
        (svm.context, at + 1),
        (svm.context, at + PAGE_NBYTES),
        (svm.context, at - 1),
        (svm.context, ctypes.addressof(mine)),
        (svm.context, ADDRESS),
        (svm.context, 2**64 - 1),
        (other, at),
        (None, at),
    ):
        cl.clSVMFree(context, pointer)
    assert svm.bytes_at(at, 5000) == bytes(5000)
    assert not cl.records(*FREES)
    cl.clSVMFree(svm.context, at)
    cl.clSVMFree(svm.context, at)
    cl.check(cl.clFinish(svm.queue))
    assert [r["id"] for r in cl.records(*FREES)] == [number]
    assert cl.clEnqueueSVMMap(svm.queue, 1, READ, at, 1, 0, None, None) == INVALID_VALUE
    again = svm.alloc(5000)  # the same place, from what is kept
    assert again == at and cl.clEnqueueSVMMap(svm.queue, 1, READ, at, 1, 0, None, None) == 0
    assert cl.number("clGetContextInfo", svm.context, 0x1080) == 1


def arguments_are_places_in_regions(cl: Cl) -> None:
    svm = Svm(cl)
    (a, first), (b, second) = svm.region(bytes(1000)), svm.region(bytes(200))
    assert svm.launched(svm.kernel("plain", a, b)) == []
    kernel = svm.kernel("plain", a, b + 8)  # what is before that can be reached, too
    assert svm.launched(kernel) == [first, second]
    assert places_of(svm.last("NDRANGE"), 2) == [(first, 0, 1000), (second, 8, 192)]
    kernel = svm.kernel("plain", a + 999, None)
    assert svm.launched(kernel) == [first]
    assert places_of(svm.last("NDRANGE"), 2) == [(first, 999, 1), (0, 0, 0)]
    set_pointer = cl.clSetKernelArgSVMPointer
    kinds = svm.kernel("kinds", a, b)
    mine, other = ctypes.create_string_buffer(8), cl.context()
    foreign = cl.clSVMAlloc(other, 0, 64, 0)
    assert set_pointer(None, 0, a) == set_pointer(svm.queue, 0, a) == INVALID_KERNEL
    assert set_pointer(kinds, 4, a) == INVALID_ARG_INDEX
    for index, pointer in (
        *((0, wrong) for wrong in (ctypes.addressof(mine), a + 1000, a - 1, ADDRESS, foreign)),
        (2, a),
        (3, a),
        (2, None),
    ):
        assert set_pointer(kinds, index, pointer) == INVALID_ARG_VALUE
    for index, value in enumerate((None, c_int32(3)), 2):
        cl.check(cl.set_arg(kinds, index, value, 4))
    assert svm.launched(kinds) == []  # what failed left them as they were
    assert places_of(svm.last("NDRANGE"), 2) == [(first, 0, 1000), (second, 0, 200)]
    add = svm.kernel("add", b + 4)
    cl.check(cl.set_arg(add, 1, c_int32(9)))
    cl.launch(svm.queue, add)
    assert svm.bytes_at(b, 200) == bytes(4) + struct.pack("<i", 9) * 49
    cl.check(cl.set_arg(add, 0, c_void_p(cl.buffer(svm.context, 64))))
    cl.launch(svm.queue, add)
    cl.check(set_pointer(add, 0, b))
    cl.clSVMFree(svm.context, b)
    codes = {
        cl.clEnqueueNDRangeKernel(svm.queue, add, 1, None, sizes([8]), None, 0, None, None) for _ in range(3)
    }
    assert codes == {INVALID_KERNEL_ARGS}


def kernels_that_follow_pointers_name_the_regions_that_live(cl: Cl) -> None:
    svm = Svm(cl)
    (a, first), (b, second), (c, third), (d, fourth) = (svm.region(bytes(5000)) for _ in range(4))
    buffer = cl.buffer(svm.context, 64)
    follow, plain = svm.kernel("follow", a, None), svm.kernel("plain", a, b)
    assert svm.launched(follow) == [first]
    assert svm.launched(plain) == []
    cl.check(svm.reach(follow, c + 17, d, d + 4999))
    cl.check(svm.reach(plain, c))
    assert svm.launched(follow) == [first, third, fourth, fourth]
    assert svm.launched(plain) == []
    cl.check(cl.set_arg(follow, 0, c_void_p(buffer)))
    cl.check(cl.clSetKernelArgSVMPointer(follow, 1, b + 5))
    assert svm.launched(follow) == [second, third, fourth, fourth]
    clone = cl.make("clCloneKernel", follow)
    cl.clSVMFree(svm.context, d)
    cl.check(svm.reach(follow, c))
    assert svm.launched(follow) == [second, third]
    assert svm.launched(clone) == [second, third, fourth, fourth]  # of which the service knows what is gone
    num = len(cl.records("REACH"))
    cl.check(svm.reach(follow, c))  # as it is
    assert svm.launched(follow) == [second, third] and len(cl.records("REACH")) == num
    more = svm.kernel("follow", b, None)
    cl.clSVMFree(svm.context, svm.alloc(9000))  # nobody names it
    cl.check(svm.reach(more, c))
    cl.check(svm.reach(follow, a))
    cl.check(svm.reach(follow, c))
    assert svm.launched(more) == svm.launched(follow) == [second, third]
    assert len(cl.records("REACH")) == num + 1, "of what was told nobody is told again"
    again = svm.alloc(5000)  # takes the place and the number of what was freed
    assert again == d and svm.last("REUSE_BUFFER")["id"] == fourth
    assert svm.launched(clone)[:2] == [second, third]
    cl.check(svm.reach(clone, c + 17, d, d + 4999))
    assert svm.launched(clone) == [second, third, fourth, fourth] and len(cl.records("REACH")) == num + 2
    cl.check(svm.reach(clone, a))
    assert svm.launched(clone) == [second, first]
    assert svm.launched(follow) == [second, third]
    cl.check(cl.clSetKernelExecInfo(follow, PTRS, 0, None))
    assert svm.launched(follow) == [second]
    assert svm.launched(cl.make("clCloneKernel", follow)) == [second]
    cl.check(cl.clReleaseKernel(clone))
    over = cl.buffer(svm.context, 64, USE_HOST_PTR, a + 128)
    cl.check(cl.set_arg(follow, 0, c_void_p(over)))
    cl.check(cl.set_arg(follow, 1, c_void_p(buffer)))
    assert svm.launched(follow) == [first]
    assert places_of(svm.last("NDRANGE"), 1) == [(first, 128, 64)]


def addresses_in_a_buffer_may_be_of_any_region_unless_the_application_says_which(cl: Cl) -> None:
    svm = Svm(cl)
    (a, first), (b, second), (_, third) = (svm.region(bytes(5000)) for _ in range(3))
    assert cl.clSVMAlloc(cl.context(), 0, 64, 0)  # another context's
    heads, data = cl.buffer(svm.context, 64), cl.buffer(svm.context, 64)
    kernel, other = svm.kernel("follow_heads"), svm.kernel("follow")
    for each in (kernel, other):
        cl.check(cl.set_arg(each, 0, c_void_p(heads)))
        cl.check(cl.set_arg(each, 1, c_void_p(data)))
    assert svm.launched(other) == []
    assert svm.launched(kernel) == [first, second, third]
    num = len(cl.records("REACH"))
    assert svm.launched(kernel) == [first, second, third] and len(cl.records("REACH")) == num
    clone = cl.make("clCloneKernel", kernel)
    fourth = svm.region(bytes(5000))[1]
    assert svm.launched(clone) == [first, second, third, fourth]
    cl.clSVMFree(svm.context, a)
    assert svm.launched(kernel) == [second, third, fourth]
    cl.check(svm.reach(clone, b))
    assert svm.launched(clone) == [second]
    cl.check(cl.clSetKernelExecInfo(clone, PTRS, 0, None))
    assert svm.launched(clone) == []
    cl.check(cl.clSetKernelArgSVMPointer(kernel, 0, b))  # what is legal reaches its arguments only
    assert svm.launched(kernel) == [second]


def wrong_information_for_kernels_is_refused(cl: Cl) -> None:
    svm = Svm(cl)
    at, number = svm.region(bytes(64))
    kernel, mine = svm.kernel("follow", None, None), ctypes.create_string_buffer(8)
    foreign = cl.clSVMAlloc(cl.context(), 0, 64, 0)
    tell, one = cl.clSetKernelExecInfo, handles([at])
    cl.check(tell(kernel, PTRS, 8, one))
    assert tell(None, PTRS, 8, one) == tell(svm.queue, PTRS, 8, one) == INVALID_KERNEL
    for param, size, value in (
        (PTRS, 7, one),
        (PTRS, 4, one),
        (PTRS, 8, None),
        (PTRS, 0, one),
        (SYSTEM, 0, None),
        (SYSTEM, 4, None),
        (SYSTEM, 8, byref(c_uint64())),
        (0, 8, one),
        (0x11B8, 8, one),
    ):
        assert tell(kernel, param, size, value) == INVALID_VALUE, (param, size)
    for pointer in (ctypes.addressof(mine), at + 64, foreign):
        assert svm.reach(kernel, at, pointer) == INVALID_VALUE
    assert tell(kernel, SYSTEM, 4, byref(c_uint32(1))) == INVALID_OPERATION
    cl.check(tell(kernel, SYSTEM, 4, byref(c_uint32(0))))
    assert svm.launched(kernel) == [number]  # what failed left it as it was


def buffers_over_regions_are_their_bytes(cl: Cl) -> None:
    svm = Svm(cl)
    at, number = svm.region(bytes(range(256)) * 4)
    num = len(cl.records("CREATE_BUFFER"))
    whole = cl.buffer(svm.context, 1024, USE_HOST_PTR, at)
    inner = cl.buffer(svm.context, 512, USE_HOST_PTR | READ_ONLY, at + 256)
    part = cl.make("clCreateSubBuffer", inner, 0, 0x1220, sizes([128, 100]))
    properties = (c_uint64 * 1)(0)
    other = cl.make("clCreateBufferWithProperties", svm.context, properties, USE_HOST_PTR, 24, at + 1000)
    plain = cl.buffer(svm.context, 64, USE_HOST_PTR, ctypes.create_string_buffer(64))
    assert len(cl.records("CREATE_BUFFER")) == num + 1  # the plain one
    answers = {
        0x1101: (USE_HOST_PTR, USE_HOST_PTR | READ_ONLY, USE_HOST_PTR | READ_ONLY, USE_HOST_PTR),
        0x1102: (1024, 512, 100, 24),
        0x1103: (at, at + 256, at + 384, at + 1000),
        0x1107: (0, 0, inner, 0),
        0x1108: (0, 0, 128, 0),
        0x1109: (1, 1, 1, 1),
    }
    for param, expected in answers.items():
        found = tuple(cl.number("clGetMemObjectInfo", b, param) for b in (whole, inner, part, other))
        assert found == expected, hex(param)
    assert cl.number("clGetMemObjectInfo", plain, 0x1109) == 0
    assert cl.code("clCreateSubBuffer", part, 0, 0x1220, sizes([0, 10])) == -38
    data = bytearray(bytes(range(256)) * 4)
    assert cl.read(svm.queue, inner, 512) == data[256:768]
    cl.write(svm.queue, part, b"part", 3)
    data[387:391] = b"part"
    assert (svm.last("WRITE")["buffer"], svm.last("WRITE")["offset"]) == (number, 387)
    cl.write(svm.queue, other, b"other", 19)
    data[1019:1024] = b"other"
    svm.copy(at, b"first")
    data[:5] = b"first"
    assert cl.read(svm.queue, whole, 1024) == svm.bytes_at(at, 1024) == data
    mapped = cl.make("clEnqueueMapBuffer", svm.queue, part, 1, READ | WRITE, 4, 8, 0, None, None)
    assert mapped == at + 388 and string_at(mapped, 3) == b"art"
    cl.check(cl.clEnqueueUnmapMemObject(svm.queue, part, mapped, 0, None, None))
    assert cl.clEnqueueCopyBuffer(svm.queue, whole, inner, 250, 0, 7, 0, None, None) == OVERLAP
    add = svm.kernel("add")
    cl.set_args(add, c_void_p(part), c_int32(1))
    assert svm.launched(add) == []
    assert places_of(svm.last("NDRANGE"), 1) == [(number, 384, 100)]
    # they hold the region's bytes, also when that is freed too early
    cl.clSVMFree(svm.context, at)
    for buffer in (whole, inner, other):
        cl.check(cl.clReleaseMemObject(buffer))
    assert cl.read(svm.queue, part, 4, 100 - 4) == struct.pack(
        "<I", struct.unpack_from("<I", data, 480)[0] + 1
    )
    assert not cl.records(*FREES)
    cl.check(cl.clReleaseMemObject(part))
    until(lambda: [r["id"] for r in cl.records(*FREES)] == [number])


def wrong_buffers_over_regions_are_refused(cl: Cl) -> None:
    svm, other = Svm(cl), cl.context()
    at, _ = svm.region(bytes(100))
    code = cl.code
    assert code("clCreateBuffer", svm.context, USE_HOST_PTR, 101, at) == INVALID_BUFFER_SIZE
    assert code("clCreateBuffer", svm.context, USE_HOST_PTR, 100, at + 1) == INVALID_BUFFER_SIZE
    assert code("clCreateBuffer", svm.context, USE_HOST_PTR, 0, at) == INVALID_BUFFER_SIZE
    assert code("clCreateBuffer", svm.context, USE_HOST_PTR | COPY_HOST_PTR, 8, at) == INVALID_VALUE
    assert code("clCreateBuffer", other, USE_HOST_PTR, 8, at) == INVALID_CONTEXT
    copy = cl.buffer(svm.context, 100, COPY_HOST_PTR, at)
    assert cl.number("clGetMemObjectInfo", copy, 0x1109) == 0
    assert cl.last("CREATE_BUFFER")["buffer_nbytes"] == 100


def what_the_application_uses_at_any_time_is_named_by_all_its_kernels(cl: Cl) -> None:
    svm = Svm(cl)
    assert cl.number("clGetDeviceInfo", cl.device(), CAPABILITIES) == 3
    for flags in (ATOMICS, FINE_GRAIN | ATOMICS, FINE_GRAIN | 5, FINE_GRAIN | USE_HOST_PTR):
        assert not cl.clSVMAlloc(svm.context, flags, 64, 0)
    fine = svm.alloc(64, FINE_GRAIN | READ_WRITE)
    record = cl.last("CREATE_BUFFER")
    assert record["flags"] == FINE_GRAIN | READ_WRITE
    number = record["id"]
    coarse, other = svm.region(bytes(64))
    plain = svm.kernel("plain", coarse, coarse)
    assert svm.launched(plain) == []
    plain = svm.kernel("plain", coarse, fine)
    assert svm.launched(plain) == [other, number]
    over = cl.buffer(svm.context, 32, USE_HOST_PTR, fine + 16)
    cl.set_args(plain, c_void_p(over))
    assert svm.launched(plain) == [number, number]
    cl.check(cl.clSetKernelArgSVMPointer(plain, 1, coarse))
    assert svm.launched(plain) == [number, other]
    cl.set_args(plain, c_void_p(cl.buffer(svm.context, 32)))
    assert svm.launched(plain) == []
    cl.check(cl.clReleaseMemObject(over))
    cl.clSVMFree(svm.context, fine)
    created = len(cl.records("CREATE_BUFFER"))
    svm.alloc(64)
    cl.buffer(svm.context, 64)
    assert svm.last("RECYCLE_BUFFER")["id"] == number
    assert len(cl.records("CREATE_BUFFER")) == created + 2, "is for another that is used at any time"
    assert svm.alloc(64, FINE_GRAIN) == fine
    reused = svm.last("REUSE_BUFFER")
    assert (reused["id"], reused["flags"]) == (number, FINE_GRAIN)


def threads_allocate_and_free(cl: Cl) -> None:
    svm = Svm(cl)
    wrong: list[object] = []

    def work(number: int) -> None:
        queue = cl.queue(svm.context)
        kept: list[tuple[int, bytes]] = []
        for step in range(60):
            data = bytes([number, step]) * (100 + 37 * (step % 5))
            at = cl.clSVMAlloc(svm.context, 0, len(data), 0)
            code = cl.clEnqueueSVMMemcpy(queue, 1, at, data, len(data), 0, None, None)
            if code:
                wrong.append((number, step, code))
            kept.append((at, data))
            if step % 3 == 2:
                at, data = kept.pop(step % len(kept))
                found = ctypes.create_string_buffer(len(data))
                code = cl.clEnqueueSVMMemcpy(queue, 1, found, at, len(data), 0, None, None)
                if code or found.raw != data:
                    wrong.append((number, step, code))
                if step % 2:
                    cl.clSVMFree(svm.context, at)
                else:
                    cl.check(cl.clEnqueueSVMFree(queue, 1, handles([at]), None, None, 0, None, None))
        for at, data in kept:
            if string_at(at, len(data)) != data:
                wrong.append((number, at))
            cl.clSVMFree(svm.context, at)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    until(lambda: len(cl.records("RECYCLE_BUFFER")) == 240)
    at = svm.alloc(64)
    svm.copy(at, b"alone")
    assert svm.bytes_at(at, 5) == b"alone"


def regions_are_freed_while_another_thread_launches(cl: Cl) -> None:
    svm = Svm(cl)
    kept, number = svm.region(bytes(64))
    kernel, other = svm.kernel("follow", kept, None), cl.queue(svm.context)
    for _ in range(3):
        given = [svm.alloc(64) for _ in range(1000)]  # the kernel need not reach them
        cl.check(svm.reach(kernel, *given))
        freed = len(cl.records("RECYCLE_BUFFER")) + len(given)
        cl.check(cl.clEnqueueSVMFree(other, len(given), handles(given), None, None, 0, None, None))
        for _ in range(100):
            cl.launch(svm.queue, kernel)
        until(lambda freed=freed: len(cl.records("RECYCLE_BUFFER")) == freed)
        assert svm.launched(kernel)[0] == number  # which of the others live, the service knows
        assert set(svm.told(cl.last("NDRANGE")["reach"])) <= {r["id"] for r in cl.records("CREATE_BUFFER")}
    found = [regions_of(record) for record in cl.records("NDRANGE")]
    assert all(regions[0] == number and 0 not in regions for regions in found)
    assert all(len(set(regions)) == len(regions) for regions in found)


def a_child_forgets_regions(cl: Cl) -> None:
    svm = Svm(cl)
    at, _ = svm.region(b"parent's" * 700)

    def child() -> None:
        assert not cl.clSVMAlloc(svm.context, 0, 64, 0)
        cl.clSVMFree(svm.context, at)
        mine = Svm(cl)
        assert cl.number("clGetDeviceInfo", cl.device(), CAPABILITIES) == 1
        assert cl.clEnqueueSVMMap(mine.queue, 1, READ, at, 1, 0, None, None) == INVALID_VALUE
        assert cl.clSetKernelArgSVMPointer(mine.kernel("plain"), 0, at) == INVALID_ARG_VALUE
        again, _ = mine.region(b"child's " * 700)
        assert ADDRESS < again < ADDRESS + ARENA_NBYTES
        assert mine.bytes_at(again, 5600) == b"child's " * 700
        cl.clSVMFree(mine.context, again)

    in_child(child)
    assert svm.bytes_at(at, 5600) == b"parent's" * 700
    cl.clSVMFree(svm.context, at)
    assert cl.wait(marker(cl, svm.queue)) == 0


def a_dead_service_refuses_them(cl: Cl) -> None:
    svm = Svm(cl)
    at, _ = svm.region(bytes(100))
    killer = cl.kernel(cl.program(svm.context, "kernel void die() {}"), "die")
    cl.check(cl.clEnqueueTask(svm.queue, killer, 0, None, None))
    host, none, failed = ctypes.create_string_buffer(8), (0, None, None), -5
    assert cl.clFinish(svm.queue) == failed
    assert cl.clSVMAlloc(svm.context, 0, 64, 0) is None
    codes = [
        cl.clEnqueueSVMFree(svm.queue, 1, handles([at]), None, None, *none),
        cl.clEnqueueSVMMemcpy(svm.queue, 1, at, at + 50, 8, *none),
        cl.clEnqueueSVMMemcpy(svm.queue, 0, at, host, 8, *none),
        cl.clEnqueueSVMMemcpy(svm.queue, 1, at, host, 0, *none),
        cl.clEnqueueSVMMemFill(svm.queue, at, b"a", 1, 8, *none),
        cl.clEnqueueSVMMap(svm.queue, 1, READ, at, 8, *none),
        cl.clEnqueueSVMMigrateMem(svm.queue, 1, handles([at]), None, 0, *none),
        cl.code("clCreateBuffer", svm.context, USE_HOST_PTR, 8, at),
    ]
    assert codes == [failed] * len(codes)
    cl.clSVMFree(svm.context, at)


WITHOUT = frozenset({"without_an_address_there_is_none"})
FINE = frozenset({"what_the_application_uses_at_any_time_is_named_by_all_its_kernels"})

PROGRAMS = (
    without_an_address_there_is_none,
    where_the_address_is_taken_there_is_none,
    allocations_are_in_the_arena_at_its_address,
    the_heaps_end_is_no_region,
    only_what_was_allocated_is_freed,
    arguments_are_places_in_regions,
    kernels_that_follow_pointers_name_the_regions_that_live,
    addresses_in_a_buffer_may_be_of_any_region_unless_the_application_says_which,
    wrong_information_for_kernels_is_refused,
    buffers_over_regions_are_their_bytes,
    wrong_buffers_over_regions_are_refused,
    what_the_application_uses_at_any_time_is_named_by_all_its_kernels,
    threads_allocate_and_free,
    regions_are_freed_while_another_thread_launches,
    a_child_forgets_regions,
    a_dead_service_refuses_them,
)
