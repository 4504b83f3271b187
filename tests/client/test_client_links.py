"""Programs about compiling and linking (see test_client.py)."""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_int32

from tests.client.test_client_binding import ADD, Cl, handles, sizes, until
from tests.client.test_client_launches import binary_of


def programs_are_compiled_and_linked(cl: Cl) -> None:
    context, device = cl.context(), cl.device()
    header = cl.source(context, "// a header\n")
    program = cl.source(context, ADD)
    names = (ctypes.c_char_p * 1)(b"sub/x.h")
    compile_only = cl.clCompileProgram
    cl.check(compile_only(program, 0, None, b"-D N=3", 1, handles([header]), names, None, None))
    tail = bytes.fromhex(cl.last("COMPILE")["tail"]).rstrip(b"\0")
    assert tail.endswith(ADD.encode() + struct.pack("<2I", 7, 12) + b"sub/x.h// a header\n")
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1184) == 1
    assert cl.number("clGetProgramBuildInfo", program, device, 0x1181) == 0
    assert cl.text("clGetProgramBuildInfo", program, device, 0x1182) == "-D N=3"
    assert cl.code("clCreateKernel", program, b"add") == -45
    library = cl.make(
        "clLinkProgram", context, 0, None, b"-create-library", 1, handles([program]), None, None
    )
    assert cl.number("clGetProgramBuildInfo", library, device, 0x1184) == 2
    assert cl.clGetProgramInfo(library, 0x1167, 0, None, None) == -45
    linked = cl.make("clLinkProgram", context, 0, None, None, 1, handles([library]), None, None)
    assert cl.number("clGetProgramBuildInfo", linked, device, 0x1184) == 4
    assert cl.text("clGetProgramInfo", linked, 0x1164) == ""
    assert cl.clBuildProgram(linked, 0, None, None, None, None) == -59
    assert compile_only(linked, 0, None, None, 0, None, None, None, None) == -59
    cl.kernel(linked, "add")
    for made, kind in ((program, 1), (library, 2), (linked, 4)):
        binary = binary_of(cl, made)
        again = cl.make(
            "clCreateProgramWithBinary",
            context,
            1,
            handles([device]),
            sizes([len(binary)]),
            (ctypes.c_char_p * 1)(binary),
            None,
        )
        assert cl.number("clGetProgramBuildInfo", again, device, 0x1184) == kind
        assert cl.clBuildProgram(again, 0, None, None, None, None) == (0 if kind == 4 else -42)
        if kind != 4:
            cl.make("clLinkProgram", context, 0, None, None, 1, handles([again]), None, None)


def a_failed_link_gives_a_program_with_a_log(cl: Cl) -> None:
    context, device = cl.context(), cl.device()
    program = cl.source(context, ADD)
    cl.check(cl.clCompileProgram(program, 0, None, None, 0, None, None, None, None))
    status = c_int32()
    link = cl.clLinkProgram
    done = link(context, 0, None, b"-bad", 1, handles([program]), None, None, ctypes.byref(status))
    assert (done, status.value) == (None, -43)
    called: list[tuple[int, int]] = []
    notify = cl.callback(lambda made, data: called.append((made, data)), ctypes.c_void_p)
    made = link(context, 0, None, None, 1, handles([program]), notify, 5, ctypes.byref(status))
    assert made and status.value == 0
    until(lambda: called == [(made, 5)])
    assert cl.number("clGetProgramBuildInfo", made, device, 0x1181) == 0


def callbacks_hear_of_compilations_and_of_what_fails(cl: Cl) -> None:
    context, device = cl.context(), cl.device()
    called: list[tuple[int, int, int]] = []

    def done(program: int, data: int) -> None:
        called.append((program, data, cl.number("clGetProgramBuildInfo", program, device, 0x1181)))

    notify = cl.callback(done, ctypes.c_void_p)
    good, bad, worse = cl.source(context, ADD), cl.source(context, "#error"), cl.source(context, "#error")
    cl.check(cl.clCompileProgram(good, 0, None, None, 0, None, None, notify, 1))
    until(lambda: len(called) == 1)
    cl.check(cl.clCompileProgram(bad, 0, None, None, 0, None, None, notify, 2))
    until(lambda: len(called) == 2)
    cl.check(cl.clBuildProgram(worse, 0, None, None, notify, 3))
    until(lambda: len(called) == 3)
    assert called == [(good, 1, 0), (bad, 2, 2**32 - 2), (worse, 3, 2**32 - 2)]
    assert "error" in cl.text("clGetProgramBuildInfo", bad, device, 0x1183)
    # a call that is wrong is refused at once, without a callback
    assert cl.clCompileProgram(good, 0, None, None, 1, None, None, notify, 4) == -30
    assert cl.clBuildProgram(good, 1, None, None, notify, 5) == -30
    assert len(called) == 3


PROGRAMS = (
    programs_are_compiled_and_linked,
    a_failed_link_gives_a_program_with_a_log,
    callbacks_hear_of_compilations_and_of_what_fails,
)
