"""Programs that see several devices: which a context, a queue, a build and a launch are for."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_char_p, c_int32, c_uint32, c_void_p

from tests.client.test_client_binding import ADD, COPY_HOST_PTR, READ_WRITE, Cl, handles, sizes

TYPE_CPU, TYPE_GPU, TYPE_DEFAULT, TYPE_ALL = 2, 4, 1, 0xFFFFFFFF
DEVICES = 3


def _devices(cl: Cl, kind: int = TYPE_ALL) -> list[int]:
    num = c_uint32()
    status = cl.clGetDeviceIDs(cl.platform(), kind, 0, None, byref(num))
    if status:
        assert (status, num.value) == (-1, 0)
        return []
    found = (c_void_p * num.value)()
    cl.check(cl.clGetDeviceIDs(cl.platform(), kind, num.value, found, None))
    return [each for each in found if each]


def _context(cl: Cl, *devices: int) -> int:
    return cl.make("clCreateContext", None, len(devices), handles(devices), None, None)


def _handles(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


def devices_are_told_apart(cl: Cl) -> None:
    devices = _devices(cl)
    assert len(set(devices)) == DEVICES and _devices(cl) == devices
    assert _devices(cl, TYPE_DEFAULT) == devices[:1]
    assert _devices(cl, TYPE_CPU) == devices and _devices(cl, TYPE_GPU) == []
    names = [cl.text("clGetDeviceInfo", each, 0x102B) for each in devices]
    assert names == ["Fake", "Fake 1", "Fake 2"]
    assert [cl.number("clGetDeviceInfo", each, 0x1002) for each in devices] == [2, 4, 8]
    first = (c_void_p * 2)()
    cl.check(cl.clGetDeviceIDs(cl.platform(), TYPE_ALL, 2, first, None))
    assert list(first) == devices[:2]


def contexts_have_the_devices_that_they_were_made_for(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, devices[2], devices[0], devices[2])
    assert cl.number("clGetContextInfo", context, 0x1083) == 2
    assert _handles(cl.info("clGetContextInfo", context, 0x1081)) == [devices[2], devices[0]]
    everyone = cl.make("clCreateContextFromType", None, TYPE_ALL, None, None)
    assert _handles(cl.info("clGetContextInfo", everyone, 0x1081)) == devices
    one = cl.make("clCreateContextFromType", None, TYPE_DEFAULT, None, None)
    assert _handles(cl.info("clGetContextInfo", one, 0x1081)) == devices[:1]
    assert cl.code("clCreateCommandQueue", context, devices[1], 0) == -33
    assert cl.code("clCreateCommandQueueWithProperties", context, devices[1], None) == -33
    queue = cl.make("clCreateCommandQueue", context, devices[0], 0)
    assert _handles(cl.info("clGetCommandQueueInfo", queue, 0x1091)) == [devices[0]]


def commands_name_their_queues_member(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, *devices)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    a, b = (cl.buffer(context, 64, READ_WRITE) for _ in range(2))
    cl.set_args(kernel, c_void_p(a), c_int32(5))
    for number in (2, 0, 1):
        queue = cl.make("clCreateCommandQueue", context, devices[number], 0)
        cl.launch(queue, kernel, 16)
        cl.check(cl.clEnqueueCopyBuffer(queue, a, b, 0, 0, 64, 0, None, None))
        cl.check(cl.clEnqueueFillBuffer(queue, b, b"x", 1, 0, 64, 0, None, None))
        cl.check(cl.clEnqueueMigrateMemObjects(queue, 1, handles([a]), 0, 0, None, None))
        cl.check(cl.clEnqueueMigrateMemObjects(queue, 1, handles([a]), 1, 0, None, None))
        cl.check(cl.clFinish(queue))
        told = [cl.last(op)["member"] for op in ("NDRANGE", "COPY", "FILL")]
        assert told == [number + 1] * 3
        assert [each["member"] for each in cl.records("MIGRATE")[-2:]] == [number + 1, 0]
    undefined = len(cl.records("MIGRATE"))
    cl.check(cl.clEnqueueMigrateMemObjects(queue, 1, handles([a]), 2, 0, None, None))
    cl.check(cl.clFinish(queue))
    assert len(cl.records("MIGRATE")) == undefined


def limits_of_a_launch_are_those_of_its_device(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, *devices)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    found = [cl.number("clGetKernelWorkGroupInfo", kernel, each, 0x11B0) for each in devices]
    assert found == [128, 64, 32]
    size = ctypes.c_size_t()
    assert cl.clGetKernelWorkGroupInfo(kernel, None, 0x11B0, 8, byref(size), None) == -33
    cl.set_args(kernel, c_void_p(cl.buffer(context, 512)), c_int32(1))
    for number, device in enumerate(devices):
        queue = cl.make("clCreateCommandQueue", context, device, 0)
        for local in (128, 64, 32):
            status = cl.clEnqueueNDRangeKernel(
                queue, kernel, 1, None, sizes([128]), sizes([local]), 0, None, None
            )
            assert status == (0 if local <= 128 >> number else -54)


def programs_are_built_for_the_devices_that_are_listed(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, *devices[:2])
    program = cl.source(context, ADD)
    assert cl.number("clGetProgramInfo", program, 0x1162) == 2
    assert _handles(cl.info("clGetProgramInfo", program, 0x1163)) == devices[:2]
    foreign = handles([devices[2]])
    assert cl.clBuildProgram(program, 1, foreign, None, None, None) == -33
    cl.check(cl.clBuildProgram(program, 1, handles([devices[1]]), b"-DONE", None, None))
    states = [cl.info("clGetProgramBuildInfo", program, each, 0x1181) for each in devices[:2]]
    assert [struct.unpack("<i", each)[0] for each in states] == [-1, 0]
    status = c_int32()
    assert cl.clGetProgramBuildInfo(program, devices[2], 0x1181, 4, byref(status), None) == -33
    kernel = cl.kernel(program, "add")
    cl.set_args(kernel, c_void_p(cl.buffer(context, 64)), c_int32(1))
    queues = [cl.make("clCreateCommandQueue", context, each, 0) for each in devices[:2]]
    enqueue = (1, None, sizes([16]), None, 0, None, None)
    assert cl.clEnqueueNDRangeKernel(queues[0], kernel, *enqueue) == -45
    assert cl.clEnqueueNDRangeKernel(queues[1], kernel, *enqueue) == 0
    assert (
        cl.clBuildProgram(program, 1, handles([devices[0]]), b"-DTWO", None, None) == -59
    )  # it has a kernel
    cl.check(cl.clReleaseKernel(kernel))
    cl.check(cl.clBuildProgram(program, 1, handles([devices[0]]), b"-DTWO", None, None))
    assert [cl.text("clGetProgramBuildInfo", program, each, 0x1182) for each in devices[:2]] == [
        "-DTWO",
        "-DONE",
    ]
    builds = [each["id"] for each in cl.records("BUILD")]
    assert len(builds) == 2 and cl.records("RELEASE_BUILD") == []
    kernel = cl.kernel(program, "add")
    cl.set_args(kernel, c_void_p(cl.buffer(context, 64)), c_int32(1))
    for queue in queues:
        cl.launch(queue, kernel, 16)
        cl.check(cl.clFinish(queue))
    assert [each["build"] for each in cl.records("NDRANGE")][-2:] == builds[::-1]
    cl.check(cl.clReleaseKernel(kernel))
    cl.check(cl.clBuildProgram(program, 0, None, None, None, None))
    assert {each["id"] for each in cl.records("RELEASE_BUILD")} == set(builds)


def builds_fail_for_one_device_alone(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, *devices)
    program = cl.source(context, ADD)
    cl.check(cl.clBuildProgram(program, 2, handles(devices[:2]), None, None, None))
    assert cl.clBuildProgram(program, 1, handles([devices[2]]), b"-bad", None, None) == -43
    states = [cl.info("clGetProgramBuildInfo", program, each, 0x1181) for each in devices]
    assert [struct.unpack("<i", each)[0] for each in states] == [0, 0, -2]
    assert cl.kernel(program, "add")


def kernels_are_defined_alike_on_all_devices(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, *devices)
    other = "__kernel void add(global int *data) {}"
    binaries = []
    for source in (ADD, other):
        built = cl.program(context, source)
        nbytes = _handles(cl.info("clGetProgramInfo", built, 0x1165))
        assert len(nbytes) == DEVICES and len(set(nbytes)) == 1
        texts = [ctypes.create_string_buffer(each) for each in nbytes]
        pointers = (c_void_p * DEVICES)(*[ctypes.addressof(each) for each in texts])
        cl.check(cl.clGetProgramInfo(built, 0x1166, ctypes.sizeof(pointers), pointers, None))
        assert len({each.raw for each in texts}) == 1
        binaries.append(texts[0].raw)

    def program(*chosen: int) -> int:
        given = [binaries[each] for each in chosen]
        states = (c_int32 * len(given))(*[7] * len(given))
        made = cl.make(
            "clCreateProgramWithBinary",
            context,
            len(given),
            handles(devices[: len(given)]),
            sizes([len(each) for each in given]),
            (c_char_p * len(given))(*given),
            states,
        )
        assert list(states) == [0] * len(given)
        before = len(cl.records("LINK"))
        cl.check(cl.clBuildProgram(made, 0, None, None, None, None))
        assert len(cl.records("LINK")) - before == len(set(chosen))
        return made

    assert cl.kernel(program(0, 0, 0), "add")
    assert cl.code("clCreateKernel", program(0, 1, 0), b"add") == -47
    few = program(1, 1)
    assert _handles(cl.info("clGetProgramInfo", few, 0x1163)) == devices[:2]
    broken = (c_int32 * 2)()
    arguments = (sizes([len(binaries[0]), 5]), (c_char_p * 2)(binaries[0], b"wrong"), broken)
    assert cl.code("clCreateProgramWithBinary", context, 2, handles(devices[:2]), *arguments) == -42
    assert list(broken) == [0, -42]


def parts_are_linked_for_the_devices_that_have_all_of_them(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, *devices)
    parts = [cl.source(context, text) for text in (ADD, "// no kernel")]
    for part in parts:
        cl.check(cl.clCompileProgram(part, 2, handles(devices[:2]), None, 0, None, None, None, None))
    link = ("clLinkProgram", context)
    assert cl.code(*link, 0, None, None, 2, handles(parts), None, None) == -59
    linked = cl.make(*link, 2, handles(devices[:2]), None, 2, handles(parts), None, None)
    assert len(cl.records("LINK")) == 1 and cl.kernel(linked, "add")
    assert _handles(cl.info("clGetProgramInfo", linked, 0x1163)) == devices[:2]


def _extension(cl: Cl, name: str, *types: type) -> object:
    find = cl.loader.clGetExtensionFunctionAddressForPlatform
    find.restype, find.argtypes = c_void_p, [c_void_p, c_char_p]
    waits = (c_uint32, c_void_p, c_void_p)
    return ctypes.CFUNCTYPE(c_int32, *types, *waits)(find(cl.platform(), name.encode()))


def collective_commands_are_commands_of_the_first_queue(cl: Cl) -> None:
    devices = _devices(cl)
    context = _context(cl, *devices)
    size = ctypes.c_size_t
    lists = (c_void_p, c_uint32, c_void_p, c_void_p, size, c_void_p, size)
    broadcast = _extension(cl, "clEnqueueBroadcastBuffer", *lists)
    extensions = cl.text("clGetPlatformInfo", cl.platform(), 0x0904).split()
    assert extensions == ["cl_khr_icd", "cl_sdi_collectives"]
    for properties in (0, 1):
        queues = [cl.make("clCreateCommandQueue", context, each, properties) for each in reversed(devices)]
        source = cl.buffer(context, 64, COPY_HOST_PTR, ctypes.create_string_buffer(b"x" * 64, 64))
        targets = [cl.buffer(context, 64) for _ in devices]
        gate, done = cl.user_event(context), c_void_p()
        before = len(cl.records("COPY"))
        arguments = (handles(queues), 3, source, handles(targets), 0, None, 64)
        cl.check(broadcast(*arguments, 1, handles([gate]), byref(done)))
        assert done.value and cl.number("clGetEventInfo", done, 0x11D1) == 0x53440200
        cl.check(cl.clSetUserEventStatus(gate, 0))
        assert cl.wait(done.value) == 0
        copies = cl.records("COPY")[before:]
        assert [each["member"] for each in copies] == [1, 2, 3]
        assert len({each["queue"] for each in copies}) == 1
        ids, first = [each["id"] for each in copies], copies[0]["waits"]
        assert len(first) == 1 and cl.last("MARKER")["waits"] == ids
        ahead = [[], ids[:1], ids[1:2]] if properties else [[]] * 3  # of queues without order: one by one
        assert [each["waits"] for each in copies] == [first + more for more in ahead]
        assert copies[1]["source"] == copies[0]["source"]
        assert copies[2]["source"] == copies[0]["target"]  # down a tree
        for queue, target in zip(queues, targets, strict=True):
            assert cl.read(queue, target, 64) == b"x" * 64


PROGRAMS = (
    devices_are_told_apart,
    contexts_have_the_devices_that_they_were_made_for,
    commands_name_their_queues_member,
    limits_of_a_launch_are_those_of_its_device,
    programs_are_built_for_the_devices_that_are_listed,
    builds_fail_for_one_device_alone,
    kernels_are_defined_alike_on_all_devices,
    parts_are_linked_for_the_devices_that_have_all_of_them,
    collective_commands_are_commands_of_the_first_queue,
)
"""All with SDI_FAKE_DEVICES."""
