"""The nine collective commands against numpy: few bytes and many, ordered queues and others, wrong calls.

Not for drivers that lack ``cl_sdi_collectives``.
"""

import ctypes
import itertools
from collections.abc import Callable, Sequence
from ctypes import c_int32, c_size_t, c_uint32, c_void_p
from functools import reduce
from typing import Any

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, failure, same

LOADER = ctypes.CDLL("libOpenCL.so.1")
SUM, PRODUCT, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR = range(0x53440000, 0x5344000A)
TYPES = {
    np.int8: 0x10D7,
    np.int16: 0x10D8,
    np.int32: 0x10D9,
    np.uint8: 0x10DA,
    np.uint16: 0x10DB,
    np.uint32: 0x10DC,
    np.float32: 0x10DE,
    np.int64: 0x53440100,
    np.uint64: 0x53440101,
    np.float64: 0x53440102,
}
FEW, MANY = 1 << 10, 700_001
"""Elements; many of four bytes go round rings and in pieces along chains."""

SOURCE = """
__kernel void start(__global uint *data, uint seed)
{
    uint i = get_global_id(0), x = (i + 1) * 2654435761u ^ seed * 40503u;
    data[i] = x ^ x >> 13;
}
"""

_WAITS = [c_uint32, c_void_p, c_void_p]
_LISTS = [c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, c_void_p, c_size_t]
_FROM_ONE = [c_void_p, c_uint32, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t]
_TO_ONE = [c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, c_size_t, c_size_t]
_REDUCES = [c_uint32, c_uint32]
PARAMETERS = {
    "Broadcast": _FROM_ONE,
    "Scatter": _FROM_ONE,
    "Gather": _TO_ONE,
    "AllGather": _LISTS,
    "AlltoAll": _LISTS,
    "Reduce": _TO_ONE + _REDUCES,
    "AllReduce": _LISTS + _REDUCES,
    "ReduceScatter": _LISTS + _REDUCES,
    "Scan": _LISTS + _REDUCES,
}

Operation = Callable[[Array, Array], Array]
OPERATIONS: dict[int, Operation] = {
    SUM: lambda a, b: a + b,
    PRODUCT: lambda a, b: a * b,
    MIN: lambda a, b: np.where(b < a, b, a),
    MAX: lambda a, b: np.where(b > a, b, a),
    BAND: lambda a, b: a & b,
    BOR: lambda a, b: a | b,
    BXOR: lambda a, b: a ^ b,
    LAND: lambda a, b: ((a != 0) & (b != 0)).astype(a.dtype),
    LOR: lambda a, b: ((a != 0) | (b != 0)).astype(a.dtype),
    LXOR: lambda a, b: ((a != 0) != (b != 0)).astype(a.dtype),
}


def handles(objects: Sequence[Any]) -> Any:
    """A C array."""
    return (c_void_p * len(objects))(*[each.int_ptr for each in objects])


def numbers(values: Sequence[int]) -> Any:
    """Likewise, of sizes."""
    return (c_size_t * len(values))(*values)


class Ring:
    """A context of all devices with a queue for each, and the extension's functions."""

    def __init__(self, devices: list[cl.Device], properties: int = 0) -> None:
        self.context = cl.Context(devices)
        self.queues = [cl.CommandQueue(self.context, device, properties) for device in devices]
        self.n = len(devices)
        find = LOADER.clGetExtensionFunctionAddressForPlatform
        find.restype, find.argtypes = c_void_p, [c_void_p, ctypes.c_char_p]
        assert "cl_sdi_collectives" in devices[0].platform.extensions.split()
        self.functions: dict[str, Callable[..., int]] = {}
        for name, parameters in PARAMETERS.items():
            address = find(devices[0].platform.int_ptr, f"clEnqueue{name}Buffer".encode())
            self.functions[name] = ctypes.CFUNCTYPE(c_int32, *parameters, *_WAITS)(address)
        self.start = cl.Kernel(cl.Program(self.context, SOURCE).build(), "start")

    def code(self, name: str, *arguments: object) -> int:
        """What a call answers that asks for no event."""
        return self.functions[name](*arguments, 0, None, None)

    def event(self, name: str, *arguments: object, waits: Sequence[cl.Event] = ()) -> cl.Event:
        """The event of a call that succeeds."""
        event = c_void_p()
        given = (len(waits), handles(waits) if waits else None, ctypes.byref(event))
        status = self.functions[name](*arguments, *given)
        assert status == 0, (name, status)
        return cl.Event.from_int_ptr(event.value, retain=False)

    def buffers(self, arrays: Sequence[Array], offset: int = 0) -> list[cl.Buffer]:
        """Buffers that hold arrays from an offset on, written by their devices' queues."""
        made = [cl.Buffer(self.context, 0, each.nbytes + offset) for each in arrays]
        for queue, buffer, array in zip(itertools.cycle(self.queues), made, arrays, strict=False):
            cl.enqueue_copy(queue, buffer, array, dst_offset=offset)
        return made

    def read(self, buffer: cl.Buffer, like: Array, event: cl.Event, offset: int = 0) -> Array:
        """An array's bytes, once the event is complete."""
        found = np.empty_like(like)
        cl.enqueue_copy(self.queues[-1], found, buffer, src_offset=offset, wait_for=[event])
        return found


def _values(kind: type, count: int, n: int) -> list[Array]:
    random = np.random.default_rng(n)
    if np.issubdtype(kind, np.floating):
        return [random.standard_normal(count).astype(kind) for _ in range(n)]
    return [random.integers(-128, 128, count).astype(np.int8).astype(kind) * kind(37) for _ in range(n)]


def copies(ring: Ring, count: int) -> Outputs:
    """The five that only move bytes; parts of arrays of ``n`` times ``count`` numbers."""
    n, head = ring.n, 64
    data = _values(np.int32, n * count, n)
    nbytes = data[0].nbytes // n
    sources, queues = ring.buffers(data, head), handles(ring.queues)
    offsets, ends = numbers([head] * n), numbers([8 * k for k in range(n)])

    def targets(parts: int) -> list[cl.Buffer]:
        return [cl.Buffer(ring.context, 0, 8 * n + parts * nbytes) for _ in range(n)]

    found: Outputs = {}

    def check(name: str, made: cl.Event, k: int, buffer: cl.Buffer, expected: Array, offset: int) -> None:
        array = ring.read(buffer, expected, made, offset)
        same(array, expected, f"{name} {k}")
        found.setdefault(name, array)

    cut = [each.reshape(n, count) for each in data]
    to = targets(1)
    made = ring.event("Broadcast", queues, n, sources[-1].int_ptr, handles(to), head, ends, nbytes)
    for k in range(n):
        check("broadcast", made, k, to[k], cut[-1][0], 8 * k)
    to = targets(1)
    made = ring.event("Scatter", queues, n, sources[0].int_ptr, handles(to), head, ends, nbytes)
    for k in range(n):
        check("scatter", made, k, to[k], cut[0][k], 8 * k)
    (into, *_) = targets(n)
    made = ring.event(
        "Gather", ring.queues[-1].int_ptr, n, handles(sources), into.int_ptr, offsets, 8, nbytes
    )
    check("gather", made, 0, into, np.concatenate([each[0] for each in cut]), 8)
    to = targets(n)
    made = ring.event("AllGather", queues, n, handles(sources), handles(to), offsets, ends, nbytes)
    for k in range(n):
        check("all gather", made, k, to[k], np.concatenate([each[0] for each in cut]), 8 * k)
    to = targets(n)
    made = ring.event("AlltoAll", queues, n, handles(sources), handles(to), offsets, ends, nbytes)
    for k in range(n):
        check("all to all", made, k, to[k], np.concatenate([each[k] for each in cut]), 8 * k)
    return found


def reductions(ring: Ring, kind: type, operation: int, count: int) -> Outputs:
    """The four that compute, from the left."""
    n, op = ring.n, OPERATIONS[operation]
    data = _values(kind, n * count, n)
    whole, part = data[0].nbytes, data[0].nbytes // n
    sources, queues = ring.buffers(data), handles(ring.queues)
    to_do = (operation, TYPES[kind])
    with np.errstate(over="ignore"):
        steps = list(itertools.accumulate(data, op))
    assert steps[-1].tobytes() == reduce(op, data).tobytes()
    found: Outputs = {}

    def targets(nbytes: int) -> list[cl.Buffer]:
        return [cl.Buffer(ring.context, 0, nbytes) for _ in range(n)]

    def check(name: str, made: cl.Event, k: int, buffer: cl.Buffer, expected: Array) -> None:
        array = ring.read(buffer, expected, made)
        assert array.tobytes() == np.ascontiguousarray(expected).tobytes(), (name, k, kind, operation)
        found.setdefault(name, array)

    into = targets(whole)[0]
    last = ring.queues[-1].int_ptr
    made = ring.event("Reduce", last, n, handles(sources), into.int_ptr, None, 0, whole, *to_do)
    check("reduce", made, 0, into, steps[-1])
    for name, size, expected in (
        ("AllReduce", whole, [steps[-1]] * n),
        ("ReduceScatter", part, list(steps[-1].reshape(n, count))),
        ("Scan", whole, steps),
    ):
        to = targets(size)
        made = ring.event(name, queues, n, handles(sources), handles(to), None, None, size, *to_do)
        for k in range(n):
            check(name, made, k, to[k], expected[k])
    return found


def on_devices(ring: Ring) -> Outputs:
    """What devices computed goes on from device to device, behind a user event."""
    n, nbytes = ring.n, 4 * MANY
    sources = [cl.Buffer(ring.context, 0, nbytes) for _ in range(n)]
    targets = [cl.Buffer(ring.context, 0, n * nbytes) for _ in range(n)]
    sums = [cl.Buffer(ring.context, 0, nbytes) for _ in range(n)]
    gate = cl.UserEvent(ring.context)
    queues, before = handles(ring.queues), [gate]
    for k, queue in enumerate(ring.queues):
        before = [ring.start(queue, (MANY,), None, sources[k], np.uint32(k), wait_for=before)]
    lists = (queues, n, handles(sources), handles(targets), None, None, nbytes)
    gathered = ring.event("AllGather", *lists, waits=before)
    lists = (queues, n, handles(sources), handles(sums), None, None, nbytes)
    added = ring.event("AllReduce", *lists, BXOR, TYPES[np.uint32], waits=[gathered])
    running = cl.command_execution_status.COMPLETE
    assert min(gathered.command_execution_status, added.command_execution_status) > running
    assert (gathered.command_type, added.command_type) == (0x53440203, 0x53440206)
    gate.set_status(running)
    i = np.arange(1, MANY + 1, dtype=np.uint32)
    mixed = [(i * np.uint32(2654435761)) ^ np.uint32(k * 40503) for k in range(n)]
    data = [x ^ (x >> np.uint32(13)) for x in mixed]
    for k in range(n):
        same(ring.read(targets[k], np.concatenate(data), gathered), np.concatenate(data), f"gathered {k}")
        same(ring.read(sums[k], data[0], added), reduce(np.bitwise_xor, data), f"added {k}")
    return {"start": data[0]}


def refused(ring: Ring) -> None:
    """Wrong calls have their codes and enqueue nothing."""
    n, queues = ring.n, handles(ring.queues)
    a, b = ([cl.Buffer(ring.context, 0, 64 * n) for _ in range(n)] for _ in range(2))
    lists = (handles(a), handles(b), None, None)
    codes = cl.status_code
    for name in ("AllGather", "AlltoAll"):
        assert ring.code(name, queues, 0, *lists, 64) == codes.INVALID_VALUE
        assert ring.code(name, queues, n, *lists, 0) == codes.INVALID_VALUE
        assert ring.code(name, queues, n, *lists, 65) == codes.INVALID_VALUE
        assert ring.code(name, None, n, *lists, 64) == codes.INVALID_VALUE
        assert ring.code(name, queues, n, handles(a), None, None, None, 64) == codes.INVALID_VALUE
        assert ring.code(name, handles(a), n, *lists, 64) == codes.INVALID_COMMAND_QUEUE
        wrong = (handles(a), queues, None, None)
        assert ring.code(name, queues, n, *wrong, 64) == codes.INVALID_MEM_OBJECT
        assert ring.code(name, queues, n, handles(a), handles(a), None, None, 8) == codes.MEM_COPY_OVERLAP
    other = cl.Context(ring.context.devices)
    foreign = [cl.CommandQueue(other, ring.context.devices[0])] * n
    assert ring.code("AllGather", handles(foreign), n, *lists, 64) == codes.INVALID_CONTEXT
    twice = (handles(a), handles([b[0]] * n), None, None)
    expected = codes.MEM_COPY_OVERLAP if n > 1 else 0
    assert ring.code("AllReduce", queues, n, *twice, 64, SUM, TYPES[np.int32]) == expected
    for operation, kind, nbytes in (
        (SUM - 1, TYPES[np.int32], 64),
        (LXOR + 1, TYPES[np.int32], 64),
        (SUM, 0x10DD, 64),  # CL_HALF_FLOAT
        (BAND, TYPES[np.float32], 64),
        (LOR, TYPES[np.float64], 64),
        (SUM, TYPES[np.int32], 62),
    ):
        assert ring.code("Scan", queues, n, *lists, nbytes, operation, kind) == codes.INVALID_VALUE
    shifted = (handles(a), handles(b), numbers([2] * n), None)
    assert ring.code("Scan", queues, n, *shifted, 32, SUM, TYPES[np.int32]) == codes.INVALID_VALUE
    failed = cl.UserEvent(ring.context)
    made = ring.event("Broadcast", queues, n, a[0].int_ptr, handles(b), 0, None, 64, waits=[failed])
    failed.set_status(-1)
    assert failure(made.wait, "a collective command behind what failed").code < 0


def run(devices: list[cl.Device]) -> Outputs:
    """See the module."""
    found: Outputs = {}
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    for ring in (Ring(devices), Ring(devices, order)):
        for count in (FEW, MANY):
            found |= copies(ring, count)
            found |= reductions(ring, np.float32, SUM, count)
        found |= on_devices(ring)
    ring = Ring(devices)
    for kind, operation in ((np.int8, SUM), (np.uint16, PRODUCT), (np.float64, MIN), (np.int64, LXOR)):
        reductions(ring, kind, operation, 100)
    refused(ring)
    return found
