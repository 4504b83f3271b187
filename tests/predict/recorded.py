"""Programs of kernels that swap halos, need all, count and scatter, as if they had been recorded."""

from __future__ import annotations

import struct
from base64 import b64encode

from sdi.commands import Launch, Read, Rectangle, Write
from sdi.devices.capabilities import GPU
from sdi.devices.testing.null import NullDevice
from sdi.launch.programs.builds import Target, build
from sdi.predict.program import Built, Created, Enqueued, Gone, RecordedProgram, Step
from sdi.predict.rates import given
from sdi.profile.analyse.model import Member, SessionProfile
from sdi.wire.arguments import ArgumentKind
from sdi.wire.opencl import DeviceInfo

SOURCE = """
__kernel void step(__global float *to, __global const float *from, int n)
{
    int i = get_global_id(0);
    to[i] = from[i] + (i > 0 ? from[i - 1] : 0.0f) + (i < n - 1 ? from[i + 1] : 0.0f);
}
__kernel void all(__global float *to, __global const float *from, int n)
{
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += from[k];
    to[get_global_id(0)] = sum;
}
__kernel void first(__global int *a) { if (get_global_id(0) == 0) a[1] = atomic_inc(a); }
__kernel void scatter(__global int *to, __global const int *at) { to[at[get_global_id(0)]] = 1; }
"""
ITEMS, LOCAL = 1 << 16, 64
NBYTES = 4 * ITEMS
NAMES = ("step", "all", "first", "scatter")
H200 = given()["h200"]
INFO = {
    DeviceInfo.EXTENSIONS: b"cl_khr_byte_addressable_store\0",
    DeviceInfo.MAX_MEM_ALLOC_SIZE: (1 << 34).to_bytes(8, "little"),
    DeviceInfo.MAX_COMPUTE_UNITS: (4).to_bytes(4, "little"),
}
TOLD = {str(int(param)): b64encode(value).decode() for param, value in INFO.items()}


def built() -> bytes:
    """The program's object."""
    return build(SOURCE, "", "/dev/null", Target([NullDevice(0, GPU)])).object


def whole(nbytes: int = NBYTES) -> Rectangle:
    return Rectangle(0, (nbytes, 1, 1), 0, 0)


def launch(kernel: str, *values: int | bytes, ns: float = 1e6, after: int = 0) -> Enqueued:
    entries = b""
    for value in values:
        is_buffer = isinstance(value, int)
        payload = struct.pack("<QQQ", value, 0, 0) if is_buffer else value
        kind = ArgumentKind.GLOBAL if is_buffer else ArgumentKind.VALUE
        entries += struct.pack("<II", kind, len(payload)) + payload + bytes(-len(payload) % 8)
    number = NAMES.index(kernel)
    shape = (ITEMS, 1, 1), (LOCAL, 1, 1)
    found = Launch(9, number, 1, (0, 0, 0), *shape, entries, len(values), record=bytes([number]) + entries)
    return Enqueued(found, 1, kernel, after, 1000.0, ns, ITEMS // LOCAL, 0.0, 0.0)


def write(buffer: int) -> Enqueued:
    return Enqueued(Write(buffer, whole(), False), 1, "", 0, 0.0, 0.0, 0, 0.0, 5000.0)


def read(buffer: int, after: int) -> Enqueued:
    return Enqueued(Read(buffer, whole(), True), 1, "", after, 0.0, 0.0, 0, 0.0, 5000.0)


N = struct.pack("<i", ITEMS)


def program(packed: bytes, *commands: Enqueued, kind: str = "gpu", members: int = 1) -> RecordedProgram:
    buffers = [Created(number, NBYTES, False) for number in (1, 2)]
    steps: list[Step] = [Built(9, packed), *buffers, *commands, Gone(1), Gone(2), Gone(9)]
    member = Member("a member", kind, memory_nbytes=1 << 32, info=TOLD)
    session = SessionProfile(1, 2, (member,) * members, 0, 0, True)
    return RecordedProgram(session, tuple(steps), 1e6, 0.0)


def halos(packed: bytes, launches: int = 4, **given: int | str) -> RecordedProgram:
    steps = [launch("step", 2 - k % 2, 1 + k % 2, N, ns=1e8) for k in range(launches)]
    return program(packed, write(1), *steps, read(1 + launches % 2, 1 + launches), **given)  # type: ignore[arg-type]
