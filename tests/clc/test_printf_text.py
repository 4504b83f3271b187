"""What kernels print on CUDA members: formats, records, and the same text as the CPU driver's."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from sdi.clc.cuda.builtins import PRINT_HEADER
from sdi.clc.cuda.translate import CudaProgram, translate
from sdi.clc.printf_text import BadFormat, literal_bytes, parse_format, records_text, specifiers
from sdi.errors import BuildError
from tests.clc.cuda.test_emit import body_of
from tests.clc.host_cpp import host_library, host_text
from tests.clc.members import queue

CALLS = r"""
  char c = 'q'; uchar uc = 200; short s = -3; ushort us = 65000; int i = -7; uint u = 4000000000u;
  long l = -1L << 40;
  ulong ul = 0xffffffffffffffffUL; float f = 1.5f; double d = -2.25;
  char4 c4 = (char4)(1, -2, 127, -128); uchar4 uc4 = (uchar4)(1, 2, 254, 255); short2 s2 = (short2)(-1, 300);
  int2 i2 = (int2)(-5, 77); uint8 u8 = (uint8)(0, 1, 2, 3, 4, 5, 6, 4294967295u);
  long2 l2 = (long2)(1L << 33, -9);
  float4 f4 = (float4)(1, -2.5f, 1e10f, 0.125f); double3 d3 = (double3)(1, 2, -3); int3 i3 = (int3)(1, 2, 3);
  printf("plain\n"); printf("a %% b\n");
  printf("%d|%i|%5d|%-5d|%05d|%+d|% d|%.3d\n", i, i, i, i, i, -i, -i, i);
  printf("%u|%x|%X|%#x|%o|%#o|%8x|%08X\n", u, u, u, u, 8, 8, 255, 255);
  printf("%hhd|%hhu|%hd|%hu|%ld|%lu|%lx\n", c, uc, s, us, l, ul, ul);
  printf("%f|%.2f|%8.3f|%-10.1f|%+f|%e|%.3E|%g|%G\n", f, f, d, d, f, d, d, d, f);
  printf("%c%c|%3c|%-3c|\n", c, 'A', 'b', c);
  printf("%s|%10s|%-10s|%.2s\n", "text", "right", "left", "cut");
  printf("%v4hhd|%v4hhx|%v2hd|%v2hld|%v8hlu|%v2ld\n", c4, uc4, s2, i2, u8, l2);
  printf("%v4hlf|%v4hlg|%.1v4hlf|%v3lf|%v3hld|%5v3hld\n", f4, f4, f4, d3, i3, i3);
  printf("two\n" "parts \x41\101\t\"quoted\" \\ \n");
  printf("%d %d extra\n", 1, 2, 3);
  printf(TELL, i, "macro");
  if (printf("answer\n") == 0) printf("is zero\n");
"""
PROGRAM = f'#define TELL "%d of a %s\\n"\nkernel void k(global int *a) {{ {CALLS} }}\n'

_ON_THE_DRIVER = """
import sys
import pyopencl as cl
from tests.clc.members import queue
context = queue().context
kernel = cl.Kernel(cl.Program(context, sys.stdin.read()).build(), "k")
kernel(queue(), (1,), (1,), cl.Buffer(context, cl.mem_flags.READ_WRITE, 64))
queue().finish()
"""


def driver_prints(source: str) -> str:
    """What the CPU driver's kernel writes to the process's standard output."""
    queue()  # skips without a driver
    command = [sys.executable, "-W", "ignore", "-c", _ON_THE_DRIVER]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    return done.stdout


class _Grid(ctypes.Structure):
    _fields_ = [("base", ctypes.c_long * 3), ("rest", ctypes.c_int * 4)]


class Records:
    """A translated program as C++ of this machine, and the buffer that it prints to."""

    def __init__(self, program: CudaProgram, folder: Path, capacity: int = 1 << 16) -> None:
        text = host_text("compat.h", PRINT_HEADER) + "struct _cl_grid { long base[3]; int rest[4]; };\n"
        self.program = program
        self.library = host_library(text + body_of(program), folder)
        self.buffer = ctypes.create_string_buffer(32 + capacity)
        struct.pack_into("<4Q", self.buffer, 0, 0, 0, capacity, 0)
        ctypes.c_void_p.in_dll(self.library, "sdi_print").value = ctypes.addressof(self.buffer)

    def run(self) -> None:
        """Call the kernel ``k``."""
        memory = ctypes.create_string_buffer(1024)
        self.library.sdi_k_k(memory, _Grid())

    @property
    def header(self) -> tuple[int, int]:
        """Bytes used, calls lost."""
        used, lost, _, _ = struct.unpack_from("<4Q", self.buffer)
        return used, lost

    def text(self) -> str:
        """What the host makes of it."""
        capacity = len(self.buffer) - 32
        records = self.buffer.raw[32 : 32 + min(self.header[0], capacity)]
        return records_text(self.program.formats, records).decode("latin-1")


def test_kernels_print_what_they_do_on_the_cpu_driver(tmp_path: Path) -> None:
    records = Records(translate(PROGRAM, ()), tmp_path)
    records.run()
    assert records.text().splitlines() == driver_prints(PROGRAM).splitlines()
    assert records.header[1] == 0


def test_what_does_not_fit_is_counted_and_what_came_before_is_whole(tmp_path: Path) -> None:
    source = (
        'kernel void k(global int *a) { for (int i = 0; i < 9; i++) a[i] = printf("%d %s\\n", i, "abc"); }'
    )
    records = Records(translate(source, ()), tmp_path, capacity=3 * 32 + 16)
    records.buffer[32 + 96 : 32 + 112] = b"\xff" * 16  # what is left of a launch before
    records.run()
    assert records.header == (9 * 32, 6)
    assert records.text() == "0 abc\n1 abc\n2 abc\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r'"a\tb\\\"\n"', b'a\tb\\"\n'),
        (r'"\x41\1012" "\0end"', b"AA2\0end"),
        ('"one "\n#line 3 "<kernel>"\n"two"', b"one two"),
        (r'"\?\e"', b"?e"),
        ('"ä"', "ä".encode()),
    ],
)
def test_literals_are_read_as_the_language_has_them(source: str, expected: bytes) -> None:
    assert literal_bytes(source) == expected


@pytest.mark.parametrize("form", [b"%", b"%q", b"%*d", b"%v5d", b"ok %d %n", b"%5"])
def test_formats_that_are_none_are_refused(form: bytes) -> None:
    with pytest.raises(BadFormat, match="a printf with '%"):
        parse_format(form)
    with pytest.raises(BuildError, match=r"<kernel>:1: error: a printf with '%"):
        translate(f'kernel void k(global int *a) {{ printf("{form.decode()}", 1, 2); }}', ())


def test_formats_end_at_a_zero_byte() -> None:
    assert parse_format(b"a%d\0%q") == (b"a", *specifiers(parse_format(b"%d")))


def record(number: int, *slots: bytes) -> bytes:
    body = b"".join(slots)
    return struct.pack("<II", 8 + len(body), number) + body


def test_records_by_hand() -> None:
    forms = [parse_format(each) for each in (b"%d %c%c\n", b"%5.1v2hlf;", b"<%s|%-6s|%s>", b"%p %hhx\n")]
    negative = struct.pack("<q", -5)
    data = b"".join(
        [
            record(0, negative, struct.pack("<Q", 65), struct.pack("<q", -191)),
            record(1, struct.pack("<d", 1.25), struct.pack("<d", -3)),
            record(2, struct.pack("<Q", 3), b"abc".ljust(8, b"\xff"), bytes(8), b"\xff" * 8),
            record(3, struct.pack("<Q", 4096), struct.pack("<q", -1)),
            record(1, struct.pack("<d", float("inf")), struct.pack("<d", float("nan"))),
        ]
    )
    wanted = b"-5 AA\n  1.2, -3.0;<abc|      |(null)>0x1000 ff\n  inf,  nan;"
    assert records_text(forms, data) == wanted
    assert records_text(forms, data + bytes(64)) == wanted
    assert records_text(forms, data[:-4]) == wanted[: wanted.rindex(b"  inf")]
    assert records_text(forms, b"") == b""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('printf("%d %d", 1)', "fewer arguments than its format asks for"),
        ('printf("%v4d", 1)', "a printf of 'int' as %v4"),
        ('printf("%d", (int2)(1, 2))', "as %d"),
    ],
)
def test_arguments_that_a_format_does_not_fit_fail_the_build(call: str, said: str) -> None:
    with pytest.raises(BuildError, match=f"<kernel>:1: error: .*{said}"):
        translate(f"kernel void k(global int *a) {{ {call}; }}", ())


def test_only_kernels_that_may_print_say_so() -> None:
    source = """
    void tell(int x) { printf("%d\\n", x); }
    kernel void loud(global int *a) { tell(*a); }
    kernel void quiet(global int *a) { *a = 1; }"""
    program = translate(source, ())
    assert {kernel.name: kernel.prints for kernel in program.kernels} == {"loud": True, "quiet": False}
    assert "sdi_print" in program.text and len(program.formats) == 1
    assert "sdi_print" not in translate("kernel void k(global int *a) {}", ()).text
