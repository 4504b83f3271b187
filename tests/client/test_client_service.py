"""The service's side of the wire in one file, for tests of the C client: a fake without devices or threads.

Run as the service would be (``... 3 4``: command and notice socket).  It does at once what is ready.  Memory
commands are real; kernels do what their names say:

* ``add...``: adds the first 4-byte VALUE to every int of its first buffer, from its offset on;
* ``hold...``: runs until a kernel named ``let_go...`` does; ``fail...``: ends with CL_OUT_OF_RESOURCES;
* ``die...``: the service ends without a word, or ``die_by_a_signal``, or ``die_as_said``; any other: nothing.

Programs (an object is its source): ``#error`` in the source fails the build with a log, ``-bad`` in the
options is an invalid option, ``wait for a fill`` delays the reply until a FILL has come.  Transfers of 1 MiB
and more become ready in two
steps.  ``SDI_FAKE_LOG`` names a file that gets every record as one line of JSON before it is obeyed;
``SDI_FAKE_FACTS`` a JSON file of facts (hexadecimal, by parameter); ``SDI_FAKE_START`` a way to fail:
``refuse``, ``vanish``, ``old``, ``garbage``, or ``corrupt`` (the first reply is no reply).  The log's first
line tells what the process found when it started.  ``SDI_FAKE_DEVICES``: so many devices.
``SDI_FAKE_RING``: records come through the ring.
``SDI_FAKE_SVM``: where the arena is to be in the application; the device has shared virtual memory then,
``SDI_FAKE_SVM_KINDS`` says which: 1, coarse-grained buffers, if it is not set.  Fine-grained ones are used in
place, unless ``SDI_FAKE_TYPE`` makes the members something else than CPUs; ``SDI_FAKE_SVM_UPDATE``: how
copies are kept coherent then, three numbers with commas.
Kernels follow pointers whose names say so (``follow...``).
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sdi.wire.arguments import ARG_ENTRY, ArgumentKind
from sdi.wire.layout import layout, offset_of, padded
from sdi.wire.records import (
    ARENA_HEADER,
    ARGUMENT_ENTRY,
    BODY,
    BUILD_REPLY,
    COMMAND,
    COMMANDS,
    ENDED_BY_ITSELF,
    FACT_FINE_IN_PLACE,
    FACT_FINE_UPDATE,
    FACT_IMAGE_FORMATS,
    FACT_NEXT_DEVICE,
    FACT_PLATFORM_NAME,
    FACT_PLATFORM_VENDOR,
    FACT_PLATFORM_VERSION,
    HEADER,
    HEAP_OFFSET,
    INFO_ENTRY,
    KERNEL_ENTRY,
    MAGIC,
    PROTOCOL_VERSION,
    RING,
    RING_BYTES_OFFSET,
    RING_NBYTES,
    RING_OFFSET,
    SLOT_NBYTES,
    SLOTS_OFFSET,
    STAGED_MAX_NBYTES,
    WORK_GROUP_ENTRY,
    NoticeKind,
    Op,
    record_layout,
)

ARENA_NBYTES = 8 << 30
SVM_ADDRESS = int(os.environ.get("SDI_FAKE_SVM", "0"), 0)
SVM_KINDS = int(os.environ.get("SDI_FAKE_SVM_KINDS", "1"))
DEVICES = int(os.environ.get("SDI_FAKE_DEVICES", "1"))
OUT_OF_RESOURCES, ALLOCATION_FAILURE, WAITED_FOR_FAILURE = -5, -4, -14
BUILD_FAILURE, INVALID_BUILD_OPTIONS = -11, -43
TWO_STEPS_NBYTES = 1 << 20
EPOCH_OFFSET = 12


def _u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def _u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


FACTS: dict[int, bytes] = {
    0x1000: _u64(2),  # TYPE: CPU
    0x1002: _u32(2),  # MAX_COMPUTE_UNITS
    0x1003: _u32(3),  # MAX_WORK_ITEM_DIMENSIONS
    0x1004: _u64(256),  # MAX_WORK_GROUP_SIZE
    0x1005: _u64(256, 256, 64),  # MAX_WORK_ITEM_SIZES
    0x1010: _u64(2 << 30),  # MAX_MEM_ALLOC_SIZE
    0x1019: _u32(1024),  # MEM_BASE_ADDR_ALIGN, in bits
    0x1023: _u64(32768),  # LOCAL_MEM_SIZE
    0x102A: _u64(3),  # QUEUE_PROPERTIES
    0x102B: b"Fake\0",  # NAME
    0x102C: b"sdi\0",  # VENDOR
    0x102F: b"OpenCL 3.0 fake\0",  # VERSION
    0x105E: _u32(3 << 22),  # NUMERIC_VERSION
    0x4003: _u32(32),  # WARP_SIZE_NV
    FACT_PLATFORM_VENDOR: b"Fake vendor\0",
    FACT_PLATFORM_NAME: b"Fake platform\0",
    FACT_PLATFORM_VERSION: b"OpenCL 3.0 fake\0",
}
ALL_USES = 0xFFFFFF
IMAGE_FACTS: dict[int, bytes] = {
    0x1011: _u64(1024),  # IMAGE2D_MAX_WIDTH
    0x1012: _u64(512),  # IMAGE2D_MAX_HEIGHT
    0x1013: _u64(256),  # IMAGE3D_MAX_WIDTH
    0x1014: _u64(128),  # IMAGE3D_MAX_HEIGHT
    0x1015: _u64(64),  # IMAGE3D_MAX_DEPTH
    0x1016: _u32(1),  # IMAGE_SUPPORT
    0x1040: _u64(65536),  # IMAGE_MAX_BUFFER_SIZE
    0x1041: _u64(32),  # IMAGE_MAX_ARRAY_SIZE
    FACT_IMAGE_FORMATS: _u32(
        *(0x10B5, 0x10D2, ALL_USES, 0),  # RGBA, UNORM_INT8
        *(0x10B0, 0x10DE, ALL_USES, 0),  # R, FLOAT
        *(0x10B5, 0x10DC, 0x444444, 0),  # RGBA, UNSIGNED_INT32: only read
        *(0x10B6, 0x10D1, 0x444444, 0),  # BGRA, SNORM_INT16, which OpenCL does not allow and a driver has
    ),
}
"""Of a device that has images: all but those with ``SDI_FAKE_IMAGES=0``."""


# -- records ------------------------------------------------------------------------------------------


def decode(record: bytes) -> dict[str, object]:
    """A record of the command stream by names of fields; ``tail``: its variable part in hexadecimal."""
    op = Op(struct.unpack_from("<I", record, 4)[0])
    fields = HEADER + (COMMAND if op in COMMANDS else ()) + BODY[op]
    shape = record_layout(op)
    values: Iterator[int] = iter(shape.unpack_from(record))
    found: dict[str, object] = {}
    for f in fields:
        found[f.name] = [next(values) for _ in range(f.count)] if f.count else next(values)
    at = shape.size
    if op in COMMANDS:
        num = int(str(found["num_waits"]))
        found["waits"] = list(struct.unpack_from(f"<{num}Q", record, at))
        at += 8 * num
    found["op"] = op.name
    found["tail"] = record[at:].hex()
    return found


def arguments(tail: bytes, num: int) -> list[tuple[ArgumentKind, bytes]]:
    """The arguments of an NDRANGE record's variable part."""
    entry, at, found = layout(ARG_ENTRY), 0, []
    for _ in range(num):
        kind, nbytes = entry.unpack_from(tail, at)
        at += entry.size
        found.append((ArgumentKind(kind), tail[at : at + nbytes]))
        at += len(padded(bytes(nbytes)))
    return found


def sub_groups(param: int, given: list[int], num_answers: int) -> tuple[int, bytes]:
    """Status and answer of a device whose sub-groups have 8 work-items, of which 1,000 are too many."""
    match param:
        case 0x2034 if math.prod(given) >= 1000:
            return -30, b""
        case 0x2033:
            return 0, _u64(8)
        case 0x2034:
            return 0, _u64(-(-math.prod(given) // 8))
        case 0x11B8:
            return 0, _u64(8 * given[0], 1, 1)[: 8 * num_answers]
        case _:
            return 0, _u64(param)


# -- programs -----------------------------------------------------------------------------------------

_SIZES = {"char": 1, "short": 2, "int": 4, "uint": 4, "float": 4, "long": 8, "double": 8, "float4": 16}
_SIGNATURE = re.compile(
    r"kernel\s+(?:__attribute__\(\((reqd_work_group_size)\((\d+),(\d+),(\d+)\)\)\)\s+)?void\s+(\w+)\s*\(([^)]*)\)"
)
_ADDRESSES = {ArgumentKind.GLOBAL: 0x119B, ArgumentKind.LOCAL: 0x119C, ArgumentKind.CONSTANT: 0x119D}


def _argument(text: str) -> bytes:
    words = [w.removeprefix("__") for w in text.replace("*", " * ").split()]
    name, is_pointer = words[-1], "*" in words
    kind = ArgumentKind.VALUE
    for word, meaning in (
        ("global", ArgumentKind.GLOBAL),
        ("constant", ArgumentKind.CONSTANT),
        ("local", ArgumentKind.LOCAL),
    ):
        if word in words:
            kind = meaning
    if words[-2].startswith("image"):
        kind = ArgumentKind.IMAGE
    elif words[-2] == "sampler_t":
        kind = ArgumentKind.SAMPLER
    access = 0x11A1 if "write_only" in words else 0x11A0 if kind is ArgumentKind.IMAGE else 0x11A3
    type_name = next(w for w in reversed(words[:-1]) if w != "*") + ("*" if is_pointer else "")
    nbytes = 0 if kind is ArgumentKind.LOCAL else 8 if kind is not ArgumentKind.VALUE else _SIZES[type_name]
    qualifiers = 1 if "const" in words else 0
    texts, holds = (len(name), len(type_name)), int(name.startswith("heads"))
    is_written = int(
        not qualifiers
        and kind is not ArgumentKind.CONSTANT
        and access != 0x11A0
        and not name.startswith("unwritten")
    )
    entry = layout(ARGUMENT_ENTRY).pack(
        kind, nbytes, _ADDRESSES.get(kind, 0x119E), access, qualifiers, *texts, holds, is_written
    )
    return entry + padded(name.encode()) + padded(type_name.encode())


def build_tables(source: str) -> tuple[list[str], bytes]:
    """Names of the kernels, and their entries as a BUILD reply has them."""
    names, entries = [], b""
    for required, x, y, z, name, parameters in _SIGNATURE.findall(source):
        given = [p for p in parameters.split(",") if p.strip()]
        attributes = f"reqd_work_group_size({x},{y},{z})" if required else ""
        sizes = (int(x), int(y), int(z)) if required else (0, 0, 0)
        follows = int(name.startswith("follow"))
        entries += layout(KERNEL_ENTRY).pack(len(name), len(attributes), len(given), 0, *sizes, follows, 0)
        for device in range(DEVICES):
            local_nbytes = 64 if "static_local" in name else 0
            entries += layout(WORK_GROUP_ENTRY).pack(128 >> device, 8, local_nbytes, 16)
        entries += padded(name.encode()) + padded(attributes.encode()) + b"".join(map(_argument, given))
        names.append(name)
    return names, entries


# -- commands -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Node:
    """A command, or a user event."""

    id: int
    slot: int
    queue: int
    run: Callable[[], int | None]
    """Does the work; its status, or None: it goes on until something else finishes the node."""
    waits: set[int] = field(default_factory=set)
    failed: bool = False
    submitted_ns: int = 0
    started_ns: int = 0
    watches: list[int] = field(default_factory=list)


def rows(region: list[int], offset: int, row: int, slice_: int) -> Iterator[int]:
    """Where the rows of a box begin."""
    for z in range(region[2]):
        for y in range(region[1]):
            yield offset + z * slice_ + y * row


class Service:
    """One session.  ``pending``: what is not complete, in the order of arrival."""

    def __init__(self, commands: socket.socket, notices: socket.socket) -> None:
        self.commands, self.notices = commands, notices
        name = os.environ.get("SDI_FAKE_LOG")
        self.log = open(name, "a", encoding="utf-8") if name else None  # noqa: SIM115
        self.corrupt = os.environ.get("SDI_FAKE_START") == "corrupt"
        self.memory = os.memfd_create("sdi-fake")
        os.ftruncate(self.memory, ARENA_NBYTES)
        self.arena = mmap.mmap(self.memory, ARENA_NBYTES)
        # By one store each: packing begins with zeros, which would tell that a command is complete.
        self.statuses = memoryview(self.arena).cast("i")
        self.epoch = ctypes.c_uint32.from_buffer(self.arena, EPOCH_OFFSET)
        self.ended = ctypes.c_uint32.from_buffer(self.arena, offset_of(ARENA_HEADER, "ended"))
        self.taken = ctypes.c_uint64.from_buffer(self.arena, offset_of(ARENA_HEADER, "taken_nbytes"))
        values = (MAGIC, PROTOCOL_VERSION, 0, ARENA_NBYTES, *(0,) * 6, STAGED_MAX_NBYTES, *(0,) * 4, 64 << 12)
        layout(ARENA_HEADER).pack_into(self.arena, 0, *values)
        self.has_ring = ctypes.c_uint32.from_buffer(self.arena, offset_of(ARENA_HEADER, "has_ring"))
        self.head, self.tail, self.asleep = (
            kind.from_buffer(self.arena, RING_OFFSET + offset_of(RING, name))
            for kind, name in (
                (ctypes.c_uint64, "head"),
                (ctypes.c_uint64, "tail"),
                (ctypes.c_uint32, "asleep"),
            )
        )
        self.heap = HEAP_OFFSET
        self.buffers: dict[int, int] = {}
        self.recycled: list[int] = []
        self.mumbles = False
        self.unsaid: list[tuple[int, int]] = []
        self.kernels: dict[int, list[str]] = {}
        self.out_of_order: dict[int, bool] = {}
        self.listeners: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.pending: dict[int, Node] = {}
        self.results: dict[int, int] = {}
        self.held: list[int] = []
        self.keeps, self.kept_nbytes = False, 0
        self.withholds = False
        self.withheld: list[tuple[Node, dict]] = []
        self.delayed: list[bytes] = []
        self.barrier = threading.Lock()

    def take(self) -> None:
        """What is staged is needed no more."""
        self.taken.value += self.kept_nbytes
        self.kept_nbytes = 0

    def log_start(self) -> None:
        """What this process was given."""
        if not self.log:
            return
        status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
        links = {int(fd): os.readlink(f"/proc/self/fd/{fd}") for fd in ("0", "3", "4")}
        start = {
            "arguments": Path("/proc/self/cmdline").read_text().split("\0")[:-1],
            "environment": sorted(os.environ),
            "descriptors": [int(fd) for fd in os.listdir("/proc/self/fd")],
            "links": links,
            "pid": os.getpid(),
            "session": os.getsid(0),
            "blocked": int(status["SigBlk"], 16),
            "ignored": int(status["SigIgn"], 16),
            "directory": os.getcwd(),
        }
        self.log.write(json.dumps({"start": start}) + "\n")
        self.log.flush()

    # -- what goes out ---------------------------------------------------------------------------------

    def send_facts(self) -> None:
        """The first record, with the arena's descriptor."""
        name = os.environ.get("SDI_FAKE_FACTS")
        facts = (
            {int(k): bytes.fromhex(v) for k, v in json.loads(Path(name).read_text()).items()}
            if name
            else FACTS | (IMAGE_FACTS if os.environ.get("SDI_FAKE_IMAGES") != "0" else {})
        )
        if "SDI_FAKE_SUB_GROUPS" in os.environ:
            facts[0x105C] = _u32(64)  # MAX_NUM_SUB_GROUPS
        if os.environ.get("SDI_FAKE_SUB_GROUPS") == "sizes":
            facts[0x4108] = _u64(8, 16)  # SUB_GROUP_SIZES_INTEL
        if "SDI_FAKE_TYPE" in os.environ:
            facts[0x1000] = _u64(int(os.environ["SDI_FAKE_TYPE"]))
        if SVM_ADDRESS:
            facts[0x1053] = _u64(SVM_KINDS)  # SVM_CAPABILITIES
            if SVM_KINDS & 2 and "SDI_FAKE_TYPE" not in os.environ:
                facts[FACT_FINE_IN_PLACE] = b""
            if update := os.environ.get("SDI_FAKE_SVM_UPDATE"):
                facts[FACT_FINE_UPDATE] = _u64(*map(int, update.split(",")))
        entry = layout(INFO_ENTRY)
        told = list(facts.items())
        for number in range(1, DEVICES):  # each with half the groups and twice the units of the one before
            others = {0x1004: _u64(256 >> number), 0x1002: _u32(2 << number), 0x102B: b"Fake %d\0" % number}
            told += [(FACT_NEXT_DEVICE, b""), *(facts | others).items()]
        body = b"".join(entry.pack(param, len(data)) + padded(data) for param, data in told)
        shape = record_layout(Op.FACTS)
        version = PROTOCOL_VERSION + (os.environ.get("SDI_FAKE_START") == "old")
        record = (
            shape.pack(
                shape.size + len(body), Op.FACTS, 0, version, 0, ARENA_NBYTES, SVM_ADDRESS, 0, len(told), 0
            )
            + body
        )
        sent = socket.send_fds(self.commands, [record], [self.memory])
        self.commands.sendall(record[sent:])

    def refuse(self, message: bytes) -> None:
        """FACTS of a service that cannot work."""
        shape, body = record_layout(Op.FACTS), padded(message)
        self.commands.sendall(
            shape.pack(shape.size + len(body), Op.FACTS, 0, PROTOCOL_VERSION, -1, 0, 0, 0, 0, len(message))
            + body
        )

    def reply(self, record_id: int, status: int, value: int = 0, payload: bytes = b"") -> bytes:
        """A REPLY record."""
        shape, body = record_layout(Op.REPLY), padded(payload)
        op = Op.NOTICE if self.corrupt else Op.REPLY
        return shape.pack(shape.size + len(body), op, record_id, status, 0, value, len(payload)) + body

    def notice(self, kind: NoticeKind, event: int, status: int, text: bytes = b"") -> None:
        """One NOTICE record."""
        shape, body = record_layout(Op.NOTICE), padded(text)
        head = shape.pack(shape.size + len(body), Op.NOTICE, event, kind, status, len(text))
        self.notices.sendall(head + body)

    def bump(self) -> None:
        """Tell all waiters that something on the status page has changed."""
        self.epoch.value += 1
        ctypes.CDLL(None).syscall(202, ctypes.byref(self.epoch), 1, 0x7FFFFFFF, None, None, 0)

    def settle_recycled(self) -> None:
        """While nothing is pending, recycled buffers are clean; with SDI_FAKE_RECYCLING set they can't be."""
        if not self.pending:
            for slot in self.recycled:
                status = -5 if "SDI_FAKE_RECYCLING" in os.environ else 0
                self.statuses[(SLOTS_OFFSET + SLOT_NBYTES * slot) // 4] = status
            self.recycled.clear()

    # -- events ----------------------------------------------------------------------------------------

    def finish(self, node: Node, status: int) -> None:
        """Publish a status and let go what waited for it."""
        del self.pending[node.id]
        self.settle_recycled()
        self.results[node.id] = status
        if node.slot:
            now = time.monotonic_ns()
            at = SLOTS_OFFSET + SLOT_NBYTES * node.slot
            struct.pack_into("<QQQ", self.arena, at + 24, node.submitted_ns, node.started_ns or now, now)
            self.statuses[at // 4] = status
            self.bump()
        if node.watches:
            self.notice(NoticeKind.EVENT_STATUS, node.id, status)
        if status == OUT_OF_RESOURCES and self.listeners.get(node.queue):
            self.notice(NoticeKind.FAILED, self.listeners[node.queue], status, b"launch failed, as asked")
        for other in list(self.pending.values()):
            if node.id in other.waits:
                other.waits.discard(node.id)
                self.start_if_ready(other)

    def start_if_ready(self, node: Node) -> None:
        """Run a command that waits for nothing any more."""
        if node.waits or node.started_ns or node.id not in self.pending:
            return
        node.started_ns = time.monotonic_ns()
        status = WAITED_FOR_FAILURE if node.failed else node.run()
        if status is not None:
            self.finish(node, status)

    def enqueue(self, op: Op, r: dict, run: Callable[[Node], int | None]) -> None:
        """Take a command into the order of its queue."""
        node = Node(r["id"], r["slot"], r["queue"], lambda: run(node), submitted_ns=time.monotonic_ns())
        if not self.out_of_order[node.queue]:
            node.waits.update({self.last.get(node.queue, 0)} & self.pending.keys())
        elif op in (Op.MARKER, Op.BARRIER) and not r["waits"]:
            node.waits.update(n.id for n in self.pending.values() if n.queue == node.queue)
        self.last[node.queue] = node.id
        for event in r["waits"]:
            if event in self.pending:
                node.waits.add(event)
            node.failed |= self.results.get(event, 0) < 0
        self.pending[node.id] = node
        self.start_if_ready(node)

    # -- what comes in ---------------------------------------------------------------------------------

    def obey(self, record: bytes) -> None:
        """Do what a record says."""
        r = decode(record)
        if self.log:
            self.log.write(json.dumps(r) + "\n")
            self.log.flush()
        op, tail = Op[str(r["op"])], bytes.fromhex(str(r["tail"]))
        if op is Op.WRITE and r["staged_at"]:
            n = math.prod(r["region"])
            tail = self.arena[r["staged_at"] : r["staged_at"] + n]
            self.kept_nbytes += n
            if not self.keeps:
                self.take()
        if op is Op.FILL and self.delayed:
            for late in self.delayed:
                self.commands.sendall(late)
            self.delayed.clear()
        match op:
            case Op.CREATE_BUFFER:
                nbytes = (r["buffer_nbytes"] + r["shift"] + 4095) // 4096 * 4096
                if self.heap + nbytes > ARENA_NBYTES:
                    self.commands.sendall(self.reply(r["id"], ALLOCATION_FAILURE))
                else:
                    self.buffers[r["id"]] = self.heap + r["shift"]
                    self.commands.sendall(self.reply(r["id"], 0, self.heap + r["shift"]))
                    self.heap += nbytes
            case Op.RECYCLE_BUFFER:
                self.recycled.append(r["slot"])
                self.statuses[(SLOTS_OFFSET + SLOT_NBYTES * r["slot"]) // 4] = 2
                self.settle_recycled()
                self.bump()
            case Op.BUILD | Op.COMPILE:
                a, b = r["options_nbytes"], r["options_nbytes"] + r["directory_nbytes"]
                options, source = tail[:a].decode(), tail[b : b + r["source_nbytes"]].decode()
                self.build(r, options, source, op is Op.BUILD)
            case Op.LINK:
                a = 8 * r["num_objects"]
                sizes, options = struct.unpack(f"<{a // 8}Q", tail[:a]), tail[a : a + r["options_nbytes"]]
                texts = tail[a + len(options) :][: sum(sizes)].decode()
                self.build(r, options.decode(), texts, b"-create-library" not in options)
            case Op.SUB_GROUPS:
                status, answers = sub_groups(r["param"], r["given"][: r["num_given"]], r["num_answers"])
                self.commands.sendall(self.reply(r["id"], status, 0, answers))
            case Op.CREATE_QUEUE:
                self.out_of_order[r["id"]] = bool(r["properties"] & 1)
                self.listeners[r["id"]] = r["listener"]
            case Op.CREATE_USER_EVENT:
                self.pending[r["id"]] = Node(r["id"], r["slot"], 0, lambda: None, started_ns=1)
            case Op.SET_USER_EVENT:
                self.fail_or_finish(self.pending[r["id"]], r["status"])
            case Op.WATCH:
                if r["id"] in self.pending:
                    self.pending[r["id"]].watches.append(r["status"])
                    if r["status"] > 0:
                        self.notice(NoticeKind.EVENT_STATUS, r["id"], r["status"])
                else:
                    self.notice(NoticeKind.EVENT_STATUS, r["id"], self.results[r["id"]])
            case Op.TRANSFER_DONE if self.mumbles:
                self.unsaid.append((r["id"], r["status"]))
            case Op.TRANSFER_DONE:
                self.finish(self.pending[r["id"]], r["status"])
            case _ if op in COMMANDS:
                self.enqueue(op, r, lambda node: self.run(op, node, r, tail))
            case _:
                pass

    def fail_or_finish(self, node: Node, status: int) -> None:
        """Finish; those that name it in their wait lists fail with it."""
        if status < 0:
            for other in self.pending.values():
                other.failed |= node.id in other.waits and other.queue != node.queue
        self.finish(node, status)

    def build(self, r: dict, options: str, source: str, executable: bool) -> None:
        """Answer a BUILD, COMPILE or LINK; an object is its source."""
        names, entries = build_tables(source) if executable else ([], b"")
        log = (
            b"1:1: error: #error\n" if "#error" in source else b"" if "quiet" in source else b"all is well\n"
        )
        head = layout(BUILD_REPLY)
        if "#error" in source or "-bad" in options:
            status = INVALID_BUILD_OPTIONS if "-bad" in options else BUILD_FAILURE
            answer = self.reply(r["id"], status, 0, head.pack(len(log), 0, 0, 0, 0) + padded(log))
        else:
            self.kernels[r["id"]] = names
            made = source.encode()
            said = head.pack(len(log), len(names), len(made), DEVICES, 0) + padded(log) + entries + made
            answer = self.reply(r["id"], 0, 0, said)
        if "wait for a fill" in source:
            self.delayed.append(answer)
        else:
            self.commands.sendall(answer)

    def announce(self, node: Node, r: dict, total: int) -> None:
        """A transfer's bytes may be copied by the client."""
        at = SLOTS_OFFSET + SLOT_NBYTES * node.slot
        steps = [total // 2, total] if total >= TWO_STEPS_NBYTES else [total]
        for ready in steps:
            struct.pack_into("<Q", self.arena, at + 8, ready)
            self.bump()
            if not r.get("blocking", 0):
                self.notice(NoticeKind.TRANSFER_READY, node.id, 0)

    def run(self, op: Op, node: Node, r: dict, tail: bytes) -> int | None:
        """What a ready command does."""
        arena = self.arena
        match op:
            case Op.WRITE if r["written_ns"]:
                return 0
            case Op.WRITE if r["carried_nbytes"] or r["staged_at"]:
                n = r["region"][0]
                for k, at in enumerate(rows(r["region"], r["offset"], r["row_pitch"], r["slice_pitch"])):
                    at += self.buffers[r["buffer"]]
                    arena[at : at + n] = tail[k * n : (k + 1) * n]
            case Op.READ if r["unasked"] and self.withholds:
                self.withheld.append((node, r))
                return None
            case Op.READ if r["into"]:
                at, n = self.buffers[r["buffer"]] + r["offset"], r["region"][0]
                arena[r["into"] : r["into"] + n] = arena[at : at + n]
            case Op.READ | Op.WRITE:
                self.announce(node, r, r["region"][0] * r["region"][1] * r["region"][2])
                return None
            case Op.MAP | Op.UNMAP if r["transfer"]:
                self.announce(node, r, r["region"][0] * r["region"][1] * r["region"][2])
                return None
            case Op.COPY:
                n = r["region"][0]
                source = rows(r["region"], r["source_offset"], r["source_row_pitch"], r["source_slice_pitch"])
                target = rows(r["region"], r["target_offset"], r["target_row_pitch"], r["target_slice_pitch"])
                for s, t in zip(source, target, strict=True):
                    s, t = s + self.buffers[r["source"]], t + self.buffers[r["target"]]
                    arena[t : t + n] = arena[s : s + n]
            case Op.FILL:
                pattern, n = tail[: r["pattern_nbytes"]], r["region"][0]
                if r["data_type"]:  # RGBA, UNORM_INT8
                    color = struct.unpack("<4f", pattern)
                    pattern = bytes(min(max(round(value * 255), 0), 255) for value in color)
                for at in rows(r["region"], r["offset"], r["row_pitch"], r["slice_pitch"]):
                    at += self.buffers[r["buffer"]]
                    arena[at : at + n] = pattern * (n // len(pattern))
                self.withholds = self.mumbles = self.keeps = False
                self.take()
                for copied, status in self.unsaid:
                    self.finish(self.pending[copied], status)
                self.unsaid.clear()
                for read, asked in self.withheld:
                    self.announce(read, asked, asked["region"][0])
                self.withheld.clear()
            case Op.NDRANGE:
                return self.launch(
                    node, self.kernels[r["build"]][r["kernel_index"]], arguments(tail, r["num_args"])
                )
            case _:
                pass
        return 0

    def launch(self, node: Node, name: str, given: list[tuple[ArgumentKind, bytes]]) -> int | None:
        """Run a kernel by its name."""
        if name.startswith("die"):
            self.ended.value = {"die_by_a_signal": signal.SIGBUS, "die_as_said": ENDED_BY_ITSELF}.get(name, 0)
            os._exit(0)
        if name.startswith("fail"):
            for other in self.pending.values():
                other.failed |= node.id in other.waits and other.queue != node.queue
            return OUT_OF_RESOURCES
        if name.startswith("hold"):
            self.held.append(node.id)
            return None
        if name.startswith("mumble"):  # what the client has copied is over after a fill
            self.mumbles = True
        if name.startswith("keep"):  # staged bytes, until a fill
            self.keeps = True
        if name.startswith("withhold"):  # what nobody asked for, until a fill
            self.withholds = True
        if name.startswith("let_go"):
            for held in self.held:
                self.finish(self.pending[held], 0)
            self.held.clear()
        if name.startswith("add"):
            buffer, offset, nbytes = struct.unpack(
                "<QQQ", next(data for kind, data in given if kind is ArgumentKind.GLOBAL)
            )
            (term,) = struct.unpack("<i", next(data for kind, data in given if kind is ArgumentKind.VALUE))
            start = self.buffers[buffer] + offset
            shape = f"<{nbytes // 4}i"
            numbers = struct.unpack_from(shape, self.arena, start)
            struct.pack_into(shape, self.arena, start, *(n + term for n in numbers))
        return 0

    def serve(self) -> None:
        """Until the application hangs up."""
        self.has_ring.value = "SDI_FAKE_RING" in os.environ
        waiting = b""
        while data := self.commands.recv(1 << 20):
            waiting = self.obey_all(waiting + data)
            if waiting is None:
                self.serve_ring()
                return

    def obey_all(self, waiting: bytes) -> bytes | None:
        """Whole records; the rest, or None where no other comes through the socket."""
        while len(waiting) >= 4 and len(waiting) >= (nbytes := struct.unpack_from("<I", waiting)[0]):
            if struct.unpack_from("<I", waiting, 4)[0] == Op.RING:
                return None
            self.obey(waiting[:nbytes])
            waiting = waiting[nbytes:]
        return waiting

    def note(self, line: dict[str, object]) -> None:
        """Into the log."""
        if self.log:
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()

    def serve_ring(self) -> None:
        """The same, where records come through the ring and bytes in the socket mean nothing."""
        waiting, has_left = b"", False
        says = False  # that it sleeps, which only a client takes back
        while not has_left or self.tail.value < self.head.value:
            if self.tail.value < self.head.value:
                at = self.tail.value % RING_NBYTES
                nbytes = min(self.head.value - self.tail.value, RING_NBYTES - at, 5000)
                data = self.arena[RING_BYTES_OFFSET + at : RING_BYTES_OFFSET + at + nbytes]
                self.tail.value += nbytes
                waiting = self.obey_all(waiting + data) or b""
                continue
            if says and not self.asleep.value:  # a client woke it while it was awake: take its byte now
                has_left, says = not self.commands.recv(64), False
            if not says:
                self.asleep.value = 1
            says = True
            self.barrier.acquire()  # the store before, the load behind
            self.barrier.release()
            if self.tail.value == self.head.value and not has_left:
                self.note({"sleeps": True})
                has_left, says = not self.commands.recv(64), False
                self.note({"sleeps": False})


def main() -> None:
    """The last arguments are the two descriptors, and what the client can map."""
    commands, notices = (socket.socket(fileno=int(a)) for a in sys.argv[-4:-2])
    how = os.environ.get("SDI_FAKE_START")
    if how == "vanish":
        sys.exit(0)
    if how == "garbage":
        commands.sendall(bytes(range(256)) * 4)
        sys.exit(0)
    service = Service(commands, notices)
    if how == "refuse":
        service.refuse(b"no device for you")
        sys.exit(0)
    service.log_start()
    try:
        service.send_facts()
        service.serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the application has ended
    os._exit(0)


if __name__ == "__main__":
    main()
