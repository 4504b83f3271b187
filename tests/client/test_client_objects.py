"""Programs about platforms, devices, contexts, queues, buffers, programs and kernels (see test_client.py)."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

from tests.client.test_client_binding import (
    ADD,
    COPY_HOST_PTR,
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    OUT_OF_ORDER,
    PROFILING,
    READ_ONLY,
    READ_WRITE,
    USE_HOST_PTR,
    WRITE_ONLY,
    Cl,
    handles,
    sizes,
)


def a_program_that_asks_for_platforms_starts_no_service(cl: Cl) -> None:
    platform = cl.platform()
    expected = {0x0900: "FULL_PROFILE", 0x0904: "cl_khr_icd cl_sdi_collectives", 0x0920: "SDI"}
    assert {p: cl.text("clGetPlatformInfo", platform, p) for p in expected} == expected
    assert cl.text("clGetPlatformInfo", platform, 0x0901).startswith("OpenCL 3.0 sdi ")
    assert cl.number("clGetPlatformInfo", platform, 0x0905) == 1
    assert cl.number("clGetPlatformInfo", platform, 0x0906) == 3 << 22
    versions = [struct.pack("<I64s", 1 << 22, name) for name in (b"cl_khr_icd", b"cl_sdi_collectives")]
    assert cl.info("clGetPlatformInfo", platform, 0x0907) == b"".join(versions)
    assert cl.clGetPlatformInfo(platform, 0x0999, 0, None, None) == -30
    assert cl.clGetPlatformInfo(platform, 0x0902, 2, (ctypes.c_char * 2)(), None) == -30
    assert cl.clUnloadPlatformCompiler(platform) == cl.clUnloadCompiler() == 0
    assert cl.records() == []


def the_vendor_of_the_platform_is_the_services(cl: Cl) -> None:
    platform, device = cl.platform(), cl.device()
    assert cl.text("clGetPlatformInfo", platform, 0x0903) == "Fake vendor"
    assert cl.clGetPlatformInfo(platform, 0x0903, 11, (ctypes.c_char * 11)(), None) == -30
    assert cl.text("clGetPlatformInfo", platform, 0x0902) == "SDI"
    assert cl.text("clGetPlatformInfo", platform, 0x0901).startswith("OpenCL 3.0 sdi ")
    assert cl.number("clGetDeviceInfo", device, 0x4003) == 32
    for private in (0x80000001, 0x80000002, 0x80000003, 0x80000006, 0x80000007):
        assert cl.clGetDeviceInfo(device, private, 0, None, None) == -30


def a_platform_that_has_another_name_is_called_as_the_service_says(cl: Cl) -> None:
    environ = c_void_p.in_dll(ctypes.CDLL(None), "environ")  # that of C, which the client reads
    platform = cl.platform()
    assert environ.value
    ctypes.CDLL(None).setenv(b"SDI_PLATFORM_NAME", b"", 1)
    assert cl.text("clGetPlatformInfo", platform, 0x0902) == "SDI" and cl.records() == []
    ctypes.CDLL(None).setenv(b"SDI_PLATFORM_NAME", b"members", 1)
    assert cl.text("clGetPlatformInfo", platform, 0x0902) == "Fake platform"
    assert cl.text("clGetPlatformInfo", platform, 0x0901) == "OpenCL 3.0 fake"
    assert cl.clGetPlatformInfo(platform, 0x0902, 13, (ctypes.c_char * 13)(), None) == -30


def the_device_answers_from_the_facts(cl: Cl) -> None:
    device = cl.device()
    assert cl.text("clGetDeviceInfo", device, 0x102B) == "Fake"
    assert cl.number("clGetDeviceInfo", device, 0x1000) == 2
    assert cl.number("clGetDeviceInfo", device, 0x1031) == cl.platform()
    assert cl.number("clGetDeviceInfo", device, 0x1047) == 1
    assert cl.number("clGetDeviceInfo", device, 0x1042) == 0
    assert cl.number("clGetDeviceInfo", device, 0x1043) == 0
    assert cl.info("clGetDeviceInfo", device, 0x1044) == bytes(8)
    assert cl.clGetDeviceInfo(device, 0x1FFF, 0, None, None) == -30
    assert cl.clRetainDevice(device) == cl.clReleaseDevice(device) == cl.clReleaseDevice(device) == 0
    a, b = c_uint64(), c_uint64()
    assert cl.clGetDeviceAndHostTimer(device, byref(a), byref(b)) == 0
    assert cl.clGetHostTimer(device, byref(b)) == 0
    assert 0 < a.value <= b.value
    assert cl.clGetHostTimer(device, None) == -30
    assert cl.clCreateSubDevices(device, None, 0, None, None) == -30


def the_device_is_found_by_its_types_only(cl: Cl) -> None:
    platform, num = cl.platform(), c_uint32()
    for device_type in (0xFFFFFFFF, 1, 2, 2 | 4, 31):
        assert cl.clGetDeviceIDs(platform, device_type, 0, None, byref(num)) == 0
        assert num.value == 1
    for device_type in (4, 8, 16):
        assert cl.clGetDeviceIDs(platform, device_type, 0, None, byref(num)) == -1
        assert num.value == 0
    for device_type in (0, 32, 1 << 40):
        assert cl.clGetDeviceIDs(platform, device_type, 0, None, byref(num)) == -31
    assert cl.clGetDeviceIDs(platform, 2, 0, None, None) == -30
    assert cl.clGetDeviceIDs(platform, 2, 0, (c_void_p * 1)(), None) == -30


def contexts_check_their_properties(cl: Cl) -> None:
    device, platform = cl.device(), cl.platform()
    devices = handles([device])

    def properties(*words: int) -> object:
        return (c_size_t * len(words))(*words)

    context = cl.make("clCreateContext", properties(0x1084, platform, 0x1085, 1, 0), 1, devices, None, None)
    assert cl.info("clGetContextInfo", context, 0x1082) == struct.pack("<5Q", 0x1084, platform, 0x1085, 1, 0)
    assert cl.number("clGetContextInfo", context, 0x1081) == device
    assert cl.number("clGetContextInfo", context, 0x1083) == 1
    assert cl.number("clGetContextInfo", context, 0x1080) == 1
    assert cl.info("clGetContextInfo", cl.context(), 0x1082) == b""
    assert cl.code("clCreateContext", properties(0x1084, 4096, 0), 1, devices, None, None) in (-32, -34)
    assert cl.code("clCreateContext", properties(0x1085, 1, 0x1085, 1, 0), 1, devices, None, None) == -64
    assert cl.code("clCreateContext", properties(0x7777, 1, 0), 1, devices, None, None) == -64
    assert cl.code("clCreateContext", None, 1, devices, None, 8) == -30
    twice = handles([device, device])
    assert cl.clReleaseContext(cl.make("clCreateContext", None, 2, twice, None, None)) == 0
    assert cl.make("clCreateContextFromType", properties(0x1084, platform, 0), 2, None, None)
    assert cl.code("clCreateContextFromType", properties(0x1084, platform, 0), 4, None, None) == -1


def freed_handles_are_invalid_objects(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    program = cl.program(context, ADD)
    kernel, event = cl.kernel(program, "add"), cl.user_event(context)
    assert cl.clSetUserEventStatus(event, 0) == 0
    for release, retain, info, handle, code in (
        ("clReleaseEvent", "clRetainEvent", "clGetEventInfo", event, -58),
        ("clReleaseKernel", "clRetainKernel", "clGetKernelInfo", kernel, -48),
        ("clReleaseProgram", "clRetainProgram", "clGetProgramInfo", program, -44),
        ("clReleaseMemObject", "clRetainMemObject", "clGetMemObjectInfo", buffer, -38),
        ("clReleaseCommandQueue", "clRetainCommandQueue", "clGetCommandQueueInfo", queue, -36),
        ("clReleaseContext", "clRetainContext", "clGetContextInfo", context, -34),
    ):
        functions = cl.functions
        assert functions[retain](handle) == 0
        assert functions[release](handle) == functions[release](handle) == 0
        assert functions[release](handle) == functions[retain](handle) == code
        assert functions[info](handle, 0, 0, None, None) == code
    assert cl.clFinish(queue) == -36
    assert cl.clSetKernelArg(kernel, 0, 8, None) == -48
    assert cl.clWaitForEvents(1, handles([event])) == -58
    assert cl.code("clCreateBuffer", context, 0, 4, None) == -34


def handles_of_another_kind_are_invalid_objects(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    for wrong in (context, queue, cl.device()):
        assert cl.clRetainMemObject(wrong) == cl.clReleaseMemObject(wrong) == -38
        assert cl.clEnqueueReadBuffer(queue, wrong, 1, 0, 4, (c_int32 * 1)(), 0, None, None) == -38
    for wrong in (context, buffer):
        assert cl.clFinish(wrong) == cl.clFlush(wrong) == cl.clEnqueueBarrier(wrong) == -36
        assert cl.clWaitForEvents(1, handles([wrong])) == -58
        assert cl.clEnqueueBarrierWithWaitList(queue, 1, handles([wrong]), None) == -57
    garbage = (c_void_p * 32)(*[ctypes.cast(ctypes.c_void_p(queue), ctypes.POINTER(c_void_p))[0]] * 32)
    foreign = ctypes.addressof(garbage)
    assert cl.clEnqueueBarrierWithWaitList(queue, 1, handles([foreign]), None) == -57
    assert cl.clEnqueueBarrierWithWaitList(queue, 1, handles([queue + 8]), None) == -57
    assert cl.clEnqueueBarrierWithWaitList(queue, 1, handles([1]), None) == -57
    assert cl.clReleaseMemObject(foreign) == -38
    assert cl.clReleaseContext(foreign) == -34


def freed_handles_are_used_again_late(cl: Cl) -> None:
    context = cl.context()
    seen = set()
    for _ in range(3000):
        event = cl.user_event(context)
        assert event not in seen
        seen.add(event)
        cl.check(cl.clSetUserEventStatus(event, 0))
        cl.check(cl.clReleaseEvent(event))
    for _ in range(10000):
        event = cl.user_event(context)
        seen.add(event)
        cl.check(cl.clSetUserEventStatus(event, 0))
        cl.check(cl.clReleaseEvent(event))
    assert len(seen) < 6000


def objects_keep_what_they_need(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 4096)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    program = cl.number("clGetKernelInfo", kernel, 0x1194)
    cl.set_args(kernel, c_void_p(buffer), c_int32(1))
    event = cl.event_of("clEnqueueNDRangeKernel", queue, kernel, 1, None, sizes([256]), None, 0, None)
    cl.check(cl.clReleaseContext(context))
    assert cl.clReleaseContext(context) == -34
    assert cl.number("clGetCommandQueueInfo", queue, 0x1090) == context
    cl.check(cl.clReleaseProgram(program))
    assert cl.text("clGetProgramInfo", program, 0x1168) == "add"
    cl.check(cl.clReleaseCommandQueue(queue))
    assert cl.number("clGetEventInfo", event, 0x11D0) == queue
    assert cl.wait(event) == 0
    cl.check(cl.clReleaseEvent(event))
    assert cl.clFinish(queue) == -36
    cl.check(cl.clReleaseKernel(kernel))
    assert cl.clRetainProgram(program) == -44
    cl.check(cl.clReleaseMemObject(buffer))
    assert cl.clRetainContext(context) == -34


def queues_check_their_properties(cl: Cl) -> None:
    context, device = cl.context(), cl.device()
    queue = cl.queue(context, OUT_OF_ORDER | PROFILING)
    assert cl.number("clGetCommandQueueInfo", queue, 0x1093) == 3
    assert cl.number("clGetCommandQueueInfo", queue, 0x1091) == device
    assert cl.number("clGetCommandQueueInfo", queue, 0x1095) == 0
    assert cl.info("clGetCommandQueueInfo", queue, 0x1098) == b""
    assert cl.clGetCommandQueueInfo(queue, 0x1094, 0, None, None) == -36
    assert cl.code("clCreateCommandQueue", context, device, 4) == -35
    assert cl.code("clCreateCommandQueue", context, device, 64) == -30
    assert cl.code("clCreateCommandQueue", context, context, 0) == -33

    def properties(*words: int) -> object:
        return (c_uint64 * len(words))(*words)

    queue = cl.make("clCreateCommandQueueWithProperties", context, device, properties(0x1093, 2, 0))
    assert cl.info("clGetCommandQueueInfo", queue, 0x1098) == struct.pack("<3Q", 0x1093, 2, 0)
    assert cl.make("clCreateCommandQueueWithProperties", context, device, None)
    assert cl.code("clCreateCommandQueueWithProperties", context, device, properties(0x1093, 12, 0)) == -35
    assert cl.code("clCreateCommandQueueWithProperties", context, device, properties(0x1094, 64, 0)) == -35
    assert cl.code("clCreateCommandQueueWithProperties", context, device, properties(0x9999, 0, 0)) == -30
    assert cl.clSetCommandQueueProperty(queue, 1, 1, None) == -59
    cl.check(cl.clFinish(queue))
    assert [r["properties"] for r in cl.records("CREATE_QUEUE")] == [3, 2, 0]
    cl.check(cl.clReleaseCommandQueue(queue))
    cl.check(cl.clFinish(cl.queue(context)))
    assert [r["id"] for r in cl.records("RELEASE_QUEUE")] == [cl.records("CREATE_QUEUE")[1]["id"]]


def buffers_check_flags_sizes_and_pointers(cl: Cl) -> None:
    context = cl.context()
    host = ctypes.create_string_buffer(64)
    for flags, nbytes, pointer, code in (
        (0, 0, None, -61),
        (0, (2 << 30) + 1, None, -61),
        (READ_ONLY | WRITE_ONLY, 4, None, -30),
        (1 << 14, 4, None, -30),
        (HOST_READ_ONLY | HOST_NO_ACCESS, 4, None, -30),
        (USE_HOST_PTR | COPY_HOST_PTR, 4, host, -30),
        (USE_HOST_PTR | 16, 4, host, -30),
        (USE_HOST_PTR, 4, None, -37),
        (COPY_HOST_PTR, 4, None, -37),
        (READ_WRITE, 4, host, -37),
    ):
        assert cl.code("clCreateBuffer", context, flags, nbytes, pointer) == code, (flags, nbytes)
    buffer = cl.buffer(context, 64, USE_HOST_PTR, host)
    assert cl.number("clGetMemObjectInfo", buffer, 0x1100) == 0x10F0
    assert cl.number("clGetMemObjectInfo", buffer, 0x1101) == USE_HOST_PTR
    assert cl.number("clGetMemObjectInfo", buffer, 0x1102) == 64
    assert cl.number("clGetMemObjectInfo", buffer, 0x1103) == ctypes.addressof(host)
    assert cl.number("clGetMemObjectInfo", buffer, 0x1104) == 0
    assert cl.number("clGetMemObjectInfo", buffer, 0x1105) == 1
    assert cl.number("clGetMemObjectInfo", buffer, 0x1106) == context
    assert cl.number("clGetMemObjectInfo", buffer, 0x1107) == 0
    assert cl.number("clGetMemObjectInfo", buffer, 0x1109) == 0
    assert cl.info("clGetMemObjectInfo", buffer, 0x110A) == b""
    none = (c_uint64 * 1)(0)
    assert cl.info(
        "clGetMemObjectInfo", cl.make("clCreateBufferWithProperties", context, none, 0, 4, None), 0x110A
    ) == bytes(8)
    some = (c_uint64 * 3)(0x1234, 1, 0)
    assert cl.code("clCreateBufferWithProperties", context, some, 0, 4, None) == -64
    many = [cl.buffer(context, 2 << 30) for _ in range(3)]
    assert cl.code("clCreateBuffer", context, 0, 2 << 30, None) == -4
    for buffer in many:
        cl.check(cl.clReleaseMemObject(buffer))


def parts_of_buffers_are_views(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    data = bytes(range(256)) * 16
    whole = cl.buffer(context, 4096, COPY_HOST_PTR | READ_ONLY | HOST_WRITE_ONLY, data)
    region = sizes([1024, 512])
    for flags, code in ((WRITE_ONLY, -30), (READ_WRITE, -30), (HOST_READ_ONLY, -30), (COPY_HOST_PTR, -30)):
        assert cl.code("clCreateSubBuffer", whole, flags, 0x1220, region) == code
    assert cl.code("clCreateSubBuffer", whole, 0, 0x1221, region) == -30
    assert cl.code("clCreateSubBuffer", whole, 0, 0x1220, None) == -30
    assert cl.code("clCreateSubBuffer", whole, 0, 0x1220, sizes([1024, 0])) == -61
    assert cl.code("clCreateSubBuffer", whole, 0, 0x1220, sizes([1024, 3073])) == -30
    assert cl.code("clCreateSubBuffer", whole, 0, 0x1220, sizes([64, 64])) == -13
    part = cl.make("clCreateSubBuffer", whole, 0, 0x1220, region)
    assert cl.number("clGetMemObjectInfo", part, 0x1101) == READ_ONLY | HOST_WRITE_ONLY | COPY_HOST_PTR
    assert cl.number("clGetMemObjectInfo", part, 0x1102) == 512
    assert cl.number("clGetMemObjectInfo", part, 0x1107) == whole
    assert cl.number("clGetMemObjectInfo", part, 0x1108) == 1024
    assert cl.code("clCreateSubBuffer", part, 0, 0x1220, sizes([0, 128])) == -38
    plain = cl.buffer(context, 4096, COPY_HOST_PTR, data)
    part = cl.make("clCreateSubBuffer", plain, 0, 0x1220, region)
    assert cl.read(queue, part, 16, 3) == data[1027:1043]
    cl.write(queue, part, b"part", 4)
    assert cl.read(queue, plain, 12, 1024) == data[1024:1028] + b"part" + data[1032:1036]
    assert cl.last("WRITE")["offset"] == 1028
    assert (
        cl.clEnqueueReadBuffer(queue, part, 1, 500, 13, ctypes.create_string_buffer(13), 0, None, None) == -30
    )
    kernel = cl.kernel(cl.program(context, ADD), "add")
    cl.set_args(kernel, c_void_p(part), c_int32(7))
    cl.launch(queue, kernel)
    cl.check(cl.clReleaseMemObject(plain))
    assert cl.read(queue, part, 4) == struct.pack("<I", struct.unpack_from("<I", data, 1024)[0] + 7)
    record = cl.last("NDRANGE")
    root = cl.records("CREATE_BUFFER")[-1]["id"]
    assert bytes.fromhex(record["tail"])[:32] == struct.pack("<IIQQQ", 1, 24, root, 1024, 512)
    assert not cl.records("RECYCLE_BUFFER")
    cl.check(cl.clReleaseMemObject(part))
    cl.check(cl.clFinish(queue))
    assert [r["id"] for r in cl.records("RECYCLE_BUFFER")] == [root]


def destructor_callbacks_run_in_reverse_order(cl: Cl) -> None:
    context = cl.context()
    buffer = cl.buffer(context, 64)
    called: list[tuple[str, int]] = []
    first = cl.callback(lambda handle, data: called.append(("first", data)), c_void_p)
    second = cl.callback(lambda handle, data: called.append(("second", data)), c_void_p)
    cl.check(cl.clSetMemObjectDestructorCallback(buffer, first, 1))
    cl.check(cl.clSetMemObjectDestructorCallback(buffer, second, 2))
    assert cl.clSetMemObjectDestructorCallback(buffer, None, None) == -30
    cl.check(cl.clSetContextDestructorCallback(context, first, 3))
    assert cl.clSetContextDestructorCallback(context, None, None) == -30
    cl.check(cl.clReleaseContext(context))
    assert called == []
    cl.check(cl.clReleaseMemObject(buffer))
    assert called == [("second", 2), ("first", 1), ("first", 3)]


def what_the_device_does_not_have_is_refused(cl: Cl) -> None:
    context, device = cl.context(), cl.device()
    queue = cl.queue(context)
    program, num = cl.program(context, ADD), c_uint32()
    kernel = cl.kernel(program, "add")
    for parts in ((0x1086, 2, 0), (0x1087, 1, 1, 0, 0), (0x1088, 0x20, 0)):
        assert cl.clCreateSubDevices(device, handles(parts), 0, None, byref(num)) == -30
    native = cl.callback(lambda _arguments: None)
    assert cl.clEnqueueNativeKernel(queue, native, None, 0, 0, None, None, 0, None, None) == -59
    assert cl.clSetProgramSpecializationConstant(program, 0, 4, byref(num)) == -59
    assert cl.clSetProgramReleaseCallback(program, cl.callback(lambda _program: None, c_void_p), None) == -59
    assert cl.clSetDefaultDeviceCommandQueue(context, device, queue) == -59
    assert cl.clGetKernelSubGroupInfo(kernel, device, 0x2033, 0, None, 0, None, None) == -59
    assert cl.clSetKernelExecInfo(kernel, 0x11B6, 8, byref(c_uint64())) == -59
    assert cl.clSetKernelArgSVMPointer(kernel, 0, None) == -59
    assert not cl.clSVMAlloc(context, 1, 64, 0)
    assert cl.clEnqueueSVMMap(queue, 1, 1, None, 4, 0, None, None) == -59
    assert cl.code("clCreatePipe", context, 0, 4, 4, None) == -59


def functions_are_found_by_name(cl: Cl) -> None:
    cl.loader.clGetExtensionFunctionAddressForPlatform.restype = c_void_p
    assert cl.clGetExtensionFunctionAddressForPlatform(cl.platform(), b"clIcdGetPlatformIDsKHR")
    assert cl.clGetExtensionFunctionAddressForPlatform(cl.platform(), b"clCreateUserEvent")
    assert not cl.clGetExtensionFunctionAddressForPlatform(cl.platform(), b"clCreatePipe")
    assert not cl.clGetExtensionFunctionAddressForPlatform(cl.platform(), b"clMakeCoffee")


PROGRAMS = (
    a_program_that_asks_for_platforms_starts_no_service,
    the_vendor_of_the_platform_is_the_services,
    a_platform_that_has_another_name_is_called_as_the_service_says,
    the_device_answers_from_the_facts,
    the_device_is_found_by_its_types_only,
    contexts_check_their_properties,
    freed_handles_are_invalid_objects,
    handles_of_another_kind_are_invalid_objects,
    freed_handles_are_used_again_late,
    objects_keep_what_they_need,
    queues_check_their_properties,
    buffers_check_flags_sizes_and_pointers,
    parts_of_buffers_are_views,
    destructor_callbacks_run_in_reverse_order,
    what_the_device_does_not_have_is_refused,
    functions_are_found_by_name,
)
