"""Programs about building, kernels, arguments and launches (see test_client.py)."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Sequence
from ctypes import byref, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

from sdi.wire.arguments import ArgumentKind
from tests.client.test_client_binding import ADD, COPY_HOST_PTR, Cl, handles, sizes, until
from tests.client.test_client_service import arguments

KINDS = """
kernel void kinds(global int *data, constant float *table, local int *scratch, const char c, float4 v, long n)
{}
kernel __attribute__((reqd_work_group_size(8,4,1))) void shaped(global int *data) {}
kernel void static_local() {}
kernel void picture(image2d_t image, sampler_t sampler) {}
"""


def builds_send_source_options_and_directory(cl: Cl) -> None:
    context = cl.context()
    first, second = b"kernel void a(", b"int x) {}garbage"
    strings = (ctypes.c_char_p * 2)(first, second)
    program = cl.make("clCreateProgramWithSource", context, 2, strings, sizes([0, 9]))
    source = "kernel void a(int x) {}"
    assert cl.text("clGetProgramInfo", program, 0x1164) == source
    device = cl.device()
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1181) == 2**32 - 1
    assert cl.text("clGetProgramBuildInfo", program, device, 0x1183) == ""
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1184) == 0
    assert cl.clGetProgramInfo(program, 0x1167, 0, None, None) == -45
    assert cl.clGetProgramInfo(program, 0x1168, 0, None, None) == -45
    cl.check(cl.clBuildProgram(program, 1, handles([device]), b"-D N=3", None, None))
    record = cl.last("BUILD")
    tail, directory = bytes.fromhex(record["tail"]), os.getcwd().encode()
    lengths = [record[f"{part}_nbytes"] for part in ("options", "directory", "source")]
    assert lengths == [6, len(directory), len(source)]
    assert tail[: sum(lengths)] == b"-D N=3" + directory + source.encode()
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1181) == 0
    assert cl.text("clGetProgramBuildInfo", program, device, 0x1182) == "-D N=3"
    assert cl.text("clGetProgramBuildInfo", program, device, 0x1183) == "all is well\n"
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1184) == 4
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1185) == 0
    assert cl.number("clGetProgramInfo", program, 0x1167) == 1
    assert cl.number("clGetProgramInfo", program, 0x1162) == 1
    assert cl.number("clGetProgramInfo", program, 0x1163) == device
    assert cl.number("clGetProgramInfo", program, 0x1165) > len(source)
    assert len(cl.info("clGetProgramInfo", program, 0x1166)) == 8
    assert cl.info("clGetProgramInfo", program, 0x1169) == b""


def binary_of(cl: Cl, program: int) -> bytes:
    nbytes = cl.number("clGetProgramInfo", program, 0x1165)
    place = ctypes.create_string_buffer(nbytes + 1)
    cl.check(cl.clGetProgramInfo(program, 0x1166, 8, (ctypes.c_void_p * 1)(ctypes.addressof(place)), None))
    return place.raw[:nbytes]


def with_checksum(binary: bytes) -> bytes:
    """With the checksum that belongs to what it holds now."""
    checksum = 0xCBF29CE484222325
    for byte in binary[40:]:
        checksum = (checksum ^ byte) * 0x100000001B3 % 2**64
    return binary[:32] + checksum.to_bytes(8, "little") + binary[40:]


def binaries_hold_what_the_program_is_made_from(cl: Cl) -> None:
    context, devices = cl.context(), handles([cl.device()])
    program = cl.source(context, ADD)
    assert binary_of(cl, program) == b""
    cl.check(cl.clGetProgramInfo(program, 0x1166, 8, (ctypes.c_void_p * 1)(None), None))
    cl.check(cl.clBuildProgram(program, 0, None, b"-D N=3", None, None))
    cl.check(cl.clGetProgramInfo(program, 0x1166, 8, (ctypes.c_void_p * 1)(None), None))
    assert cl.records("KEEP_BUILD") == []
    binary = binary_of(cl, program)
    kept = [cl.last("BUILD")["id"]]
    until(lambda: [each["id"] for each in cl.records("KEEP_BUILD")] == kept)
    answer = (c_int32 * 1)(7)
    again = cl.make(
        "clCreateProgramWithBinary",
        context,
        1,
        devices,
        sizes([len(binary)]),
        (ctypes.c_char_p * 1)(binary),
        answer,
    )
    assert answer[0] == 0
    assert binary_of(cl, again) == binary == with_checksum(binary)
    assert cl.text("clGetProgramInfo", again, 0x1164) == ""
    assert cl.number("clGetProgramBuildInfo", again, cl.device(), 0x1184) == 4
    cl.check(cl.clBuildProgram(again, 0, None, b"-D N=4", None, None))
    record = cl.last("LINK")
    assert (record["num_objects"], record["rebuild"], record["options_nbytes"]) == (1, 1, 6)
    tail = bytes.fromhex(record["tail"])
    assert tail[:14] == struct.pack("<Q", len(ADD)) + b"-D N=3" and tail[14:].rstrip(b"\0") == ADD.encode()
    cl.kernel(again, "add")
    assert binary_of(cl, again) == binary_of(cl, program)
    kept.append(record["id"])
    until(lambda: [each["id"] for each in cl.records("KEEP_BUILD")] == kept)
    cl.check(cl.clFinish(cl.queue(context)))
    assert [each["id"] for each in cl.records("KEEP_BUILD")] == kept, "once each"
    for damaged in (
        binary[:-1],
        binary + b"x",
        b"x" + binary[1:],
        binary[:-1] + b"#",
        binary[:20],
        b"\x7fELF",
        with_checksum(binary.replace(b"-D N=3", b"-D\0N=3")),
        with_checksum(binary[:8] + b"\3" + binary[9:]),
        with_checksum(binary[:12] + b"\0" + binary[13:]),
        with_checksum(binary[:12] + b"\5" + binary[13:]),
        with_checksum(binary[:16] + b"\xff" * 8 + binary[24:]),
        with_checksum(binary[:24] + b"\xff" * 8 + binary[32:]),
    ):
        bad = (ctypes.c_char_p * 1)(damaged)
        assert (
            cl.code("clCreateProgramWithBinary", context, 1, devices, sizes([len(damaged)]), bad, answer)
            == -42
        )
        assert answer[0] == -42


def failed_builds_keep_their_log(cl: Cl) -> None:
    context = cl.context()
    device = cl.device()
    program = cl.source(context, "#error\n" + ADD)
    assert cl.clBuildProgram(program, 0, None, None, None, None) == -11
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1181) == 2**32 - 2
    assert cl.text("clGetProgramBuildInfo", program, device, 0x1183) == "1:1: error: #error\n"
    assert cl.code("clCreateKernel", program, b"add") == -45
    program = cl.source(context, ADD)
    assert cl.clBuildProgram(program, 0, None, b"-bad", None, None) == -43
    assert cl.clBuildProgram(program, 0, None, b"", None, None) == 0
    kernel = cl.kernel(program, "add")
    assert cl.clBuildProgram(program, 0, None, b"", None, None) == -59
    cl.check(cl.clReleaseKernel(kernel))
    assert cl.clBuildProgram(program, 0, None, b"", None, None) == 0
    cl.check(cl.clReleaseProgram(program))
    assert cl.clBuildProgram(program, 0, None, b"", None, None) == -44
    cl.check(cl.clFinish(cl.queue(context)))
    builds = [r["id"] for r in cl.records("BUILD")]
    assert [r["id"] for r in cl.records("RELEASE_BUILD")] == builds[2:]


def bad_builds_have_their_codes(cl: Cl) -> None:
    context, device = cl.context(), cl.device()
    program = cl.source(context, ADD)
    devices = handles([device])
    assert cl.clBuildProgram(program, 0, devices, None, None, None) == -30
    assert cl.clBuildProgram(program, 1, None, None, None, None) == -30
    assert cl.clBuildProgram(program, 1, handles([context]), None, None, None) == -33
    assert cl.clBuildProgram(program, 0, None, None, None, 8) == -30
    assert cl.code("clCreateProgramWithSource", context, 0, None, None) == -30
    assert cl.code("clCreateProgramWithSource", context, 1, None, None) == -30
    assert cl.code("clCreateProgramWithSource", context, 1, (ctypes.c_char_p * 1)(None), None) == -30
    binary = (ctypes.c_char_p * 1)(b"binary")
    answer = (c_int32 * 1)()
    assert cl.code("clCreateProgramWithBinary", context, 1, devices, sizes([6]), binary, answer) == -42
    assert answer[0] == -42
    assert cl.code("clCreateProgramWithBinary", context, 1, devices, sizes([0]), binary, answer) == -30
    assert cl.code("clCreateProgramWithIL", context, b"il", 2) == -59
    assert cl.code("clCreateProgramWithBuiltInKernels", context, 1, devices, b"x") == -30
    compile_only = cl.clCompileProgram
    headers, names = handles([program]), (ctypes.c_char_p * 1)(b"x.h")
    assert compile_only(None, 0, None, None, 0, None, None, None, None) == -44
    assert compile_only(program, 1, None, None, 0, None, None, None, None) == -30
    assert compile_only(program, 0, devices, None, 0, None, None, None, None) == -30
    assert compile_only(program, 1, handles([context]), None, 0, None, None, None, None) == -33
    assert compile_only(program, 0, None, None, 0, None, None, None, 8) == -30
    assert compile_only(program, 0, None, None, 1, headers, None, None, None) == -30
    assert compile_only(program, 0, None, None, 1, None, names, None, None) == -30
    assert compile_only(program, 0, None, None, 0, headers, names, None, None) == -30
    assert compile_only(program, 0, None, None, 1, handles([context]), names, None, None) == -44
    assert compile_only(program, 0, None, None, 1, headers, (ctypes.c_char_p * 1)(None), None, None) == -30
    inputs = handles([program])
    assert cl.code("clLinkProgram", None, 0, None, None, 1, inputs, None, None) == -34
    assert cl.code("clLinkProgram", context, 1, None, None, 1, inputs, None, None) == -30
    assert cl.code("clLinkProgram", context, 1, handles([context]), None, 1, inputs, None, None) == -33
    assert cl.code("clLinkProgram", context, 0, None, None, 0, inputs, None, None) == -30
    assert cl.code("clLinkProgram", context, 0, None, None, 1, None, None, None) == -30
    assert cl.code("clLinkProgram", context, 0, None, None, 1, handles([context]), None, None) == -44
    assert cl.code("clLinkProgram", context, 0, None, None, 1, inputs, None, 8) == -30
    assert cl.code("clLinkProgram", context, 0, None, None, 1, inputs, None, None) == -59
    cl.check(cl.clBuildProgram(program, 0, None, None, None, None))
    assert cl.code("clLinkProgram", context, 0, None, None, 1, inputs, None, None) == -59
    kernel = cl.kernel(program, "add")
    assert compile_only(program, 0, None, None, 0, None, None, None, None) == -59
    cl.check(cl.clReleaseKernel(kernel))


def builds_with_a_callback_run_elsewhere(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    program = cl.source(context, ADD + "// wait for a fill")
    called = threading.Event()
    seen: list[tuple[int, int]] = []

    def built(handle: int, data: int) -> None:
        seen.append((handle, data))
        called.set()

    notify = cl.callback(built, c_void_p)
    cl.check(cl.clBuildProgram(program, 0, None, None, notify, 42))
    assert cl.number("clGetProgramBuildInfo", program, cl.device(), 0x1181) == 2**32 - 3
    assert cl.clBuildProgram(program, 0, None, None, None, None) == -59
    # while it builds: a whole program in this thread, and another reply
    other = cl.buffer(context, 4096)
    cl.write(queue, other, b"meanwhile")
    assert cl.read(queue, other, 9) == b"meanwhile"
    until(lambda: bool(cl.records("BUILD")))
    assert not seen
    cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"x", 1, 0, 64, 0, None, None))
    assert called.wait(60)
    assert seen == [(program, 42)]
    assert cl.number("clGetProgramBuildInfo", program, cl.device(), 0x1181) == 0
    assert cl.kernel(program, "add")


def kernels_wait_for_a_build_in_progress(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    program = cl.source(context, ADD + "// wait for a fill")
    told: list[int] = []
    notify = cl.callback(lambda *_: told.append(1), c_void_p)
    cl.check(cl.clBuildProgram(program, 0, None, None, notify, 42))
    made: list[int] = []
    thread = threading.Thread(target=lambda: made.append(cl.kernel(program, "add")))
    thread.start()
    until(lambda: bool(cl.records("BUILD")))
    cl.write(queue, buffer, b"meanwhile")  # the lock is free
    assert thread.is_alive() and not made
    cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"x", 1, 0, 64, 0, None, None))
    thread.join(60)
    assert made
    worse = cl.source(context, "#error")
    cl.check(cl.clBuildProgram(worse, 0, None, None, notify, 3))
    assert cl.code("clCreateKernel", worse, b"add") == -45
    until(lambda: len(told) == 2)  # Python ends threads that call it while it ends itself


def a_program_may_be_released_while_a_kernel_waits_for_its_build(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    for number in range(10):
        program = cl.source(context, f"{ADD} // {number} wait for a fill")
        build = threading.Thread(target=cl.clBuildProgram, args=(program, 0, None, None, None, None))
        build.start()
        until(lambda number=number: len(cl.records("BUILD")) == number + 1)
        made: list[int] = []
        thread = threading.Thread(
            target=lambda program=program, made=made: made.append(cl.kernel(program, "add"))
        )
        thread.start()
        stat = Path(f"/proc/self/task/{thread.native_id}/stat")
        for _ in range(200):  # for the build, most often: it waits for Python now and then
            until(lambda stat=stat: stat.read_text().rpartition(") ")[2][0] == "S")
        cl.check(cl.clReleaseProgram(program))
        cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"x", 1, 0, 64, 0, None, None))
        build.join()
        thread.join()
        cl.check(cl.clReleaseKernel(made[0]))


def a_long_build_does_not_stop_other_threads(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    threads = [
        threading.Thread(target=cl.program, args=(context, f"{ADD} // {n} wait for a fill")) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(cl.records("BUILD")) == 4)
    for n in range(20):
        buffer = cl.buffer(context, 64)
        cl.write(queue, buffer, struct.pack("<i", n))
        assert cl.read(queue, buffer, 4) == struct.pack("<i", n)
        cl.check(cl.clReleaseMemObject(buffer))
    assert all(thread.is_alive() for thread in threads)
    cl.check(cl.clEnqueueFillBuffer(queue, cl.buffer(context, 64), b"x", 1, 0, 64, 0, None, None))
    for thread in threads:
        thread.join()


def kernels_answer_from_the_tables(cl: Cl) -> None:
    context, device = cl.context(), cl.device()
    program = cl.program(context, KINDS, "-w\t-cl-kernel-arg-info")
    assert cl.text("clGetProgramInfo", program, 0x1168) == "kinds;shaped;static_local;picture"
    assert cl.code("clCreateKernel", program, b"kind") == -46
    assert cl.code("clCreateKernel", program, None) == -30
    num, made = c_uint32(), (c_void_p * 4)()
    assert cl.clCreateKernelsInProgram(program, 0, None, byref(num)) == 0
    assert num.value == 4
    assert cl.clCreateKernelsInProgram(program, 3, made, None) == -30
    assert cl.clCreateKernelsInProgram(program, 4, made, None) == 0
    kinds, shaped, static_local, picture = (k or 0 for k in made)
    assert cl.text("clGetKernelInfo", kinds, 0x1190) == "kinds"
    assert cl.number("clGetKernelInfo", kinds, 0x1191) == 6
    assert cl.number("clGetKernelInfo", kinds, 0x1192) == 1
    assert cl.number("clGetKernelInfo", kinds, 0x1193) == context
    assert cl.number("clGetKernelInfo", kinds, 0x1194) == program
    assert cl.text("clGetKernelInfo", shaped, 0x1195) == "reqd_work_group_size(8,4,1)"
    names = [cl.text("clGetKernelArgInfo", kinds, i, 0x119A) for i in range(6)]
    assert names == ["data", "table", "scratch", "c", "v", "n"]
    assert cl.text("clGetKernelArgInfo", kinds, 1, 0x1198) == "float*"
    spaces = [cl.number("clGetKernelArgInfo", kinds, i, 0x1196) for i in range(4)]
    assert spaces == [0x119B, 0x119D, 0x119C, 0x119E]
    assert cl.number("clGetKernelArgInfo", kinds, 0, 0x1197) == 0x11A3
    assert [cl.number("clGetKernelArgInfo", kinds, i, 0x1199) for i in (0, 3)] == [0, 1]
    assert cl.clGetKernelArgInfo(kinds, 6, 0x119A, 0, None, None) == -49
    assert cl.clGetKernelArgInfo(kinds, 0, 0x1190, 0, None, None) == -30
    for options in (None, "-w", "-DX-cl-kernel-arg-info", "-cl-kernel-arg-infos"):
        quiet = cl.kernel(cl.program(context, KINDS, options), "kinds")
        assert cl.clGetKernelArgInfo(quiet, 0, 0x119A, 0, None, None) == -19
        assert cl.clGetKernelArgInfo(quiet, 6, 0x119A, 0, None, None) == -49
    assert cl.number("clGetKernelWorkGroupInfo", kinds, device, 0x11B0) == 128
    assert cl.info("clGetKernelWorkGroupInfo", shaped, None, 0x11B1) == struct.pack("<3Q", 8, 4, 1)
    assert cl.number("clGetKernelWorkGroupInfo", static_local, device, 0x11B2) == 64
    assert cl.number("clGetKernelWorkGroupInfo", kinds, device, 0x11B2) == 0
    cl.check(cl.set_arg(kinds, 2, None, 400))
    assert cl.number("clGetKernelWorkGroupInfo", kinds, device, 0x11B2) == 400
    assert cl.number("clGetKernelWorkGroupInfo", kinds, device, 0x11B3) == 8
    assert cl.number("clGetKernelWorkGroupInfo", kinds, device, 0x11B4) == 16
    assert cl.clGetKernelWorkGroupInfo(kinds, device, 0x11B5, 0, None, None) == -30
    assert cl.clGetKernelWorkGroupInfo(kinds, context, 0x11B0, 0, None, None) == -33
    assert cl.clGetKernelSubGroupInfo(kinds, device, 0x2033, 0, None, 0, None, None) == -59
    assert cl.clSetKernelArg(picture, 0, 8, byref(c_void_p(1))) == -38
    assert cl.clSetKernelArg(picture, 1, 8, byref(c_void_p(1))) == -41


def bad_arguments_have_their_codes(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    kernel = cl.kernel(cl.program(context, KINDS), "kinds")
    foreign = cl.buffer(cl.context(), 64)
    assert cl.set_arg(kernel, 6, c_int32()) == -49
    assert cl.set_arg(kernel, 0, c_void_p(buffer), 4) == -51
    assert cl.set_arg(kernel, 0, c_void_p(queue)) == -38
    assert cl.set_arg(kernel, 0, c_void_p(foreign)) == -38
    assert cl.set_arg(kernel, 2, c_int32(4)) == -50
    assert cl.set_arg(kernel, 2, None, 0) == -51
    assert cl.set_arg(kernel, 3, c_int32(4)) == -51
    assert cl.set_arg(kernel, 3, None, 1) == -50
    assert cl.set_arg(kernel, 5, c_int32(4)) == -51
    assert cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, sizes([4]), None, 0, None, None) == -52
    cl.check(cl.set_arg(kernel, 0, c_void_p(buffer)))
    assert cl.set_arg(kernel, 0, c_void_p(foreign)) == -38  # and the buffer of before stays
    for index, value, size in (
        (1, c_void_p(buffer), None),
        (2, None, 16),
        (3, ctypes.c_char(b"c"), None),
        (4, (c_float * 4)(1, 2, 3, 4), None),
    ):
        cl.check(cl.set_arg(kernel, index, value, size))
        assert cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, sizes([4]), None, 0, None, None) == -52
    cl.check(cl.set_arg(kernel, 5, c_int64(5)))
    cl.launch(queue, kernel)
    cl.check(cl.clReleaseMemObject(buffer))
    assert cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, sizes([4]), None, 0, None, None) == -52


def launches_carry_a_copy_of_their_arguments(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    kernel = cl.kernel(cl.program(context, KINDS), "kinds")
    vector = (c_float * 4)(1, 2, 3, 4)
    for index, value, size in (
        (0, c_void_p(buffer), None),
        (1, None, 8),
        (2, None, 400),
        (3, ctypes.c_char(b"c"), None),
        (4, vector, None),
        (5, c_int64(-5), None),
    ):
        cl.check(cl.set_arg(kernel, index, value, size))
    gate = cl.user_event(context)
    waits, event = handles([gate]), c_void_p()
    offset, size, local = sizes([1, 2, 3]), sizes([16, 8, 4]), sizes([8, 4, 2])
    cl.check(cl.clEnqueueNDRangeKernel(queue, kernel, 3, offset, size, local, 1, waits, byref(event)))
    cl.check(cl.set_arg(kernel, 5, c_int64(7)))
    cl.check(cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, sizes([3]), None, 0, None, None))
    cl.check(cl.clEnqueueTask(queue, kernel, 0, None, None))
    clone = cl.make("clCloneKernel", kernel)
    cl.launch(queue, clone)
    cl.check(cl.clSetUserEventStatus(gate, 0))
    cl.check(cl.clFinish(queue))
    first, second, task, cloned = cl.records("NDRANGE")
    build = cl.last("BUILD")["id"]
    buffer_id = cl.last("CREATE_BUFFER")["id"]
    expected = {
        "queue": cl.last("CREATE_QUEUE")["id"],
        "waits": [cl.last("CREATE_USER_EVENT")["id"]],
        "build": build,
        "kernel_index": 0,
        "work_dim": 3,
        "offset": [1, 2, 3],
        "global_size": [16, 8, 4],
        "local_size": [8, 4, 2],
        "num_args": 6,
        "args_nbytes": 32 + 32 + 16 + 16 + 24 + 16,
    }
    assert {k: first[k] for k in expected} == expected
    assert first["slot"] > 0 and second["slot"] == task["slot"] == 0
    tail = bytes.fromhex(first["tail"])
    assert len(tail) == first["args_nbytes"]
    assert arguments(tail, 6) == [
        (ArgumentKind.GLOBAL, struct.pack("<QQQ", buffer_id, 0, 64)),
        (ArgumentKind.CONSTANT, bytes(24)),
        (ArgumentKind.LOCAL, struct.pack("<Q", 400)),
        (ArgumentKind.VALUE, b"c"),
        (ArgumentKind.VALUE, bytes(vector)),
        (ArgumentKind.VALUE, struct.pack("<q", -5)),
    ]
    expected = {
        "work_dim": 1,
        "offset": [0] * 3,
        "global_size": [3, 1, 1],
        "local_size": [0] * 3,
        "waits": [],
    }
    assert {k: second[k] for k in expected} == expected
    expected = {"work_dim": 1, "global_size": [1] * 3, "local_size": [1] * 3}
    assert {k: task[k] for k in expected} == expected
    for record in (second, cloned):
        assert arguments(bytes.fromhex(record["tail"]), 6)[5] == (ArgumentKind.VALUE, struct.pack("<q", 7))
    assert second["kernel"] == first["kernel"] != cloned["kernel"]


def bad_launches_have_their_codes(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context), cl.context()
    program = cl.program(context, KINDS + ADD)
    kernel, shaped = cl.kernel(program, "add"), cl.kernel(program, "shaped")
    buffer = cl.buffer(context, 4096)
    cl.set_args(kernel, c_void_p(buffer), c_int32(0))
    cl.set_args(shaped, c_void_p(buffer))

    def launch(
        size: Sequence[int] | None,
        local: Sequence[int] | None = None,
        offset: Sequence[int] | None = None,
        what: int = kernel,
    ) -> int:
        dims = len(size) if size else 1
        return cl.clEnqueueNDRangeKernel(
            queue, what, dims, sizes(offset), sizes(size), sizes(local), 0, None, None
        )

    assert cl.clEnqueueNDRangeKernel(cl.queue(other), kernel, 1, None, sizes([4]), None, 0, None, None) == -34
    assert cl.clEnqueueNDRangeKernel(queue, kernel, 0, None, sizes([4]), None, 0, None, None) == -53
    assert launch([1] * 4) == -53
    assert launch([16], [0]) == -54
    assert launch([16], [5]) == -54
    assert launch([129], [129]) == -54
    assert launch([256, 2], [128, 2]) == -54
    assert launch([64, 1, 128], [1, 1, 128]) == -55
    assert launch([2**63, 4, 4], [2**62, 2, 2]) == -55
    assert launch([16], None, [2**64 - 8]) == -56
    assert launch([16, 4], [8, 2], what=shaped) == -54
    assert launch([16], [8], what=shaped) == -54
    assert launch([16, 5], None, what=shaped) == -54
    cl.check(launch([16, 4], None, what=shaped))
    cl.check(launch([16, 4], [8, 4], what=shaped))
    event = cl.user_event(other)
    call = cl.clEnqueueNDRangeKernel
    assert call(queue, kernel, 1, None, sizes([4]), None, 1, handles([event]), None) == -34
    assert call(queue, kernel, 1, None, sizes([4]), None, 1, None, None) == -57
    # nothing to do is allowed since OpenCL 2.1
    nothing = c_void_p()
    cl.check(call(queue, kernel, 1, None, sizes([0]), None, 0, None, byref(nothing)))
    cl.check(launch(None))
    assert nothing.value and cl.wait(nothing.value) == 0
    assert cl.number("clGetEventInfo", nothing.value, 0x11D1) == 0x11F0
    scratch = cl.kernel(cl.program(context, "kernel void s(local int *scratch) {}"), "s")
    cl.check(cl.set_arg(scratch, 0, None, 32769))
    assert launch([4], what=scratch) == -5
    cl.check(cl.set_arg(scratch, 0, None, 32768))
    assert launch([4], what=scratch) == 0
    cl.check(cl.clFinish(queue))
    assert [r["local_size"] for r in cl.records("NDRANGE")] == [[8, 4, 1], [8, 4, 1], [0, 0, 0]]


def kernels_compute_on_the_bytes_that_were_written(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 1024, COPY_HOST_PTR, struct.pack("<256i", *range(256)))
    kernel = cl.kernel(cl.program(context, ADD), "add")
    for n in range(100):
        cl.set_args(kernel, c_void_p(buffer), c_int32(n))
        cl.launch(queue, kernel)
    assert struct.unpack("<256i", cl.read(queue, buffer, 1024)) == tuple(n + 4950 for n in range(256))


def many_threads_enqueue_at_once(cl: Cl) -> None:
    context = cl.context()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            queue = cl.queue(context)
            buffer = cl.buffer(context, 1024)
            kernel = cl.kernel(cl.program(context, f"{ADD} // {number}"), "add")
            zeros, landed = bytes(1024), ctypes.create_string_buffer(1024)
            for step in range(20):
                cl.write(queue, buffer, zeros)
                cl.set_args(kernel, c_void_p(buffer), c_int32(number))
                cl.launch(queue, kernel)
                event = cl.event_of(
                    "clEnqueueNDRangeKernel", queue, kernel, 1, None, sizes([256]), None, 0, None
                )
                read = (queue, buffer, 0, 0, 1024, landed, 1, handles([event]))
                done = cl.event_of("clEnqueueReadBuffer", *read)
                cl.check(cl.wait(done))
                assert struct.unpack("<256i", landed.raw) == (2 * number,) * 256, step
                cl.check(cl.clReleaseEvent(event))
                cl.check(cl.clReleaseEvent(done))
            cl.check(cl.clFinish(queue))
            cl.check(cl.clReleaseKernel(kernel))
            cl.check(cl.clReleaseMemObject(buffer))
            cl.check(cl.clReleaseCommandQueue(queue))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def setting_an_argument_asks_nobody(cl: Cl) -> None:
    context = cl.context()
    buffer = cl.buffer(context, 64)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    queue = cl.queue(context)
    cl.check(cl.clFinish(queue))
    for n in range(1000):
        cl.set_args(kernel, c_void_p(buffer), c_int32(n))
    size = c_size_t()
    cl.check(cl.clGetKernelInfo(kernel, 0x1190, 0, None, byref(size)))
    cl.check(cl.clFinish(queue))
    asked = [r["op"] for r in cl.records() if r["op"] != "RELEASE_EVENT"]
    assert asked == ["CREATE_BUFFER", "BUILD", "CREATE_QUEUE", "MARKER", "MARKER"]


def launches_of_kernels_made_anew_are_told_as_those_before(cl: Cl) -> None:
    """As libraries do that make their kernels for each call; kernels that live side by side differ."""
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    program = cl.program(context, ADD + ADD.replace("add", "other"))

    def launched(*kernels: int) -> list[int]:
        for n, kernel in enumerate(kernels):
            cl.set_args(kernel, c_void_p(buffer), c_int32(n))
            cl.launch(queue, kernel, 16)
        for kernel in kernels:
            cl.check(cl.clReleaseKernel(kernel))
        cl.check(cl.clFinish(queue))
        return [record["kernel"] for record in cl.records("NDRANGE")[-len(kernels) :]]

    def pair() -> tuple[int, int, int]:
        return cl.kernel(program, "add"), cl.kernel(program, "add"), cl.kernel(program, "other")

    first = launched(*pair())
    assert len({*first}) == 3
    assert launched(*pair()) == launched(*pair()) == first
    kept = cl.kernel(program, "add")
    among = launched(*pair())
    assert among[0] == first[1] and among[2] == first[2] and among[1] not in first
    many = [cl.kernel(program, "other") for _ in range(40)]
    assert len({*launched(*many)}) == 40
    cl.check(cl.clReleaseKernel(kept))
    unset = cl.kernel(program, "add")
    assert cl.clEnqueueNDRangeKernel(queue, unset, 1, None, sizes([16]), None, 0, None, None) == -52
    anew = cl.program(context, ADD)
    assert launched(cl.kernel(anew, "add"))[0] not in {*first, *among}


PROGRAMS = (
    builds_send_source_options_and_directory,
    binaries_hold_what_the_program_is_made_from,
    failed_builds_keep_their_log,
    bad_builds_have_their_codes,
    builds_with_a_callback_run_elsewhere,
    kernels_wait_for_a_build_in_progress,
    a_program_may_be_released_while_a_kernel_waits_for_its_build,
    a_long_build_does_not_stop_other_threads,
    kernels_answer_from_the_tables,
    bad_arguments_have_their_codes,
    launches_carry_a_copy_of_their_arguments,
    launches_of_kernels_made_anew_are_told_as_those_before,
    bad_launches_have_their_codes,
    kernels_compute_on_the_bytes_that_were_written,
    many_threads_enqueue_at_once,
    setting_an_argument_asks_nobody,
)
