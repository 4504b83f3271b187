"""The records that processes of a job send each other, in batches.

A batch is a sequence of records; each has a fixed head, the fields that ``FIELDS`` lists for its kind, the
tickets that it waits for, and a tail of bytes.  All integers are little-endian and without sign but for
times.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from sdi.errors import BuildError, ClError, DeviceFailed, DeviceLost, Status
from sdi.region import Region


class RecordKind(IntEnum):
    """What a record asks for or tells.

    To a node: what is before DONE; ``ticket`` is the operation's, or the id of what is made.  From a node:
    DONE to BEAT.  Between any two processes: DATA, and RETURN, of memory that DATA has lent; also SPREAD and
    SUMMED.
    """

    ALLOCATE = 1
    FREE = 2
    CREATE_IMAGE = 3
    GATHER = 4
    SEND = 5
    RECEIVE = 6
    PEER_COPY = 7
    COPY = 27
    FILL = 8
    DIFF = 9
    APPLY = 10
    COPY_PIXELS = 11
    KEEP_BUILD = 12
    BUILD = 13
    FACTS = 14
    BIND = 15
    LAUNCH = 16
    RESOLVE = 17
    SEEN = 18
    OPEN = 19
    CLOSE = 20
    CLOCK = 21
    LEAVE = 22
    GONE = 23
    DROP = 24
    TRAFFIC = 25
    ASK_COMPILER = 26
    NEAR = 28
    SHARE = 29
    UPLOAD = 30
    DOWNLOAD = 31
    ADOPT = 36
    KEEP = 37
    REPLAY = 38
    AWAIT = 39
    FORGET = 40
    SPREAD = 41
    BEHIND = 42
    OFFSET = 43
    REFUSED = 45
    DONE = 32
    ANSWER = 33
    PRINTED = 34
    LOST = 35
    SUMMED = 44
    BEAT = 46
    DATA = 48
    RETURN = 49


ALL = 0xFFFF
"""Stands for all members of a node."""
NODE_MEMORY = 0xFFFE
"""Stands among its members for a node's own memory."""
_HEAD = struct.Struct("<HHIIIQ")
_FIELDS: dict[RecordKind, str] = {
    RecordKind.ALLOCATE: "2Q",  # nbytes, whether in host memory
    RecordKind.FREE: "",
    RecordKind.CREATE_IMAGE: "8Q",  # an ImageShape
    RecordKind.SEND: "7Q",  # buffer, offset, rows' count, nbytes and pitch, to whom, whether devices wait
    RecordKind.GATHER: "4Q",  # of parts: buffer, offset, nbytes, where in the root buffer they belong
    # buffer, offset, rows' count, nbytes and pitch, whether devices wait, from whom, the copy's key
    RecordKind.RECEIVE: "8Q",
    RecordKind.PEER_COPY: "8Q",  # its member, source, offset, target, offset, rows' count, nbytes and pitch
    RecordKind.COPY: "2Q",  # source, target; tail: regions
    RecordKind.FILL: "3Q",  # buffer, offset, nbytes; tail: the pattern
    RecordKind.DIFF: "11Q",  # a Comparison, the changes, and the update's operation, nbytes and sign
    RecordKind.APPLY: "11Q",
    RecordKind.COPY_PIXELS: "2Q2q",  # source, target, offset in each; tail: region, twice
    RecordKind.BUILD: "",  # tail: text and options
    RecordKind.KEEP_BUILD: "",
    RecordKind.FACTS: "Q",  # program; tail: the kernel's name and what is asked of its sub-groups, pickled
    RecordKind.BIND: "Q",  # program; tail: name and arguments
    RecordKind.LAUNCH: "8Q",  # kernel, groups, local size, dimensions
    RecordKind.RESOLVE: "",  # tail: why the foreign ticket failed, if it did
    RecordKind.SEEN: "",  # ticket: as many messages of that node were heard
    RecordKind.OPEN: "",
    RecordKind.CLOSE: "",
    RecordKind.CLOCK: "",
    RecordKind.LEAVE: "",
    RecordKind.GONE: "Q",  # a rank that is lost
    RecordKind.DROP: "",
    RecordKind.TRAFFIC: "",
    RecordKind.ASK_COMPILER: "",  # tail: questions and options
    RecordKind.NEAR: "",  # tail: an invitation of rank 0's door
    RecordKind.SHARE: "QQ",  # the arena, whose descriptors were sent: bytes, and of these before its file
    RecordKind.UPLOAD: "6Q",  # buffer, offset, rows' count, nbytes and pitch, offset in the arena
    RecordKind.DOWNLOAD: "6Q",
    RecordKind.ADOPT: "2Q",  # offset in the arena, nbytes
    RecordKind.KEEP: "",  # ticket: the recording; tail: a KeptPart, or nothing: it is kept no more
    RecordKind.REPLAY: "3Q",  # ticket: see ``part``; recording, timing, whether firm; tail: arguments
    RecordKind.AWAIT: "Q",  # ticket: a replay that comes; which operation of it waits for these
    RecordKind.FORGET: "",  # ticket: a root buffer that no recording names any more; 0: all, and recordings
    RecordKind.SPREAD: "5Q",  # a REPLAY: its number, the last that is answered, recording, timing, firm;
    # waits: ranks, each with its number of direct records before this
    RecordKind.BEHIND: "",  # ticket: that many SPREAD come before what follows
    RecordKind.OFFSET: "q",  # what the node's clock is ahead of rank 0's
    RecordKind.REFUSED: "",  # rank 0 hears the node no more
    RecordKind.SUMMED: "4q",  # a replay's number, start and end by rank 0's clock, and whether it failed;
    # tail: why it did, or what it gathered (``runs_packed``)
    # waits: ranks, each with a member of it that is lost
    RecordKind.DONE: "3q",  # start, end and whether it failed; tail: why it did, or what a replay gathered
    RecordKind.ANSWER: "Q",  # 0, or 1 where the tail says what went wrong
    RecordKind.PRINTED: "",
    RecordKind.LOST: "",
    RecordKind.BEAT: "",  # the node is there, and has something to do; to a node: it is to say so
    # Where in the copy's bytes, how many (0: that chunk failed), IN_BATCH or where in the sender's pool, and
    # the number of the signal without which they are not there, 0: they are (1: there was to be a signal).
    RecordKind.DATA: "4Q",
    RecordKind.RETURN: "Q",  # where in the receiver's pool
}
_LAYOUTS = {kind: struct.Struct("<" + fields) for kind, fields in _FIELDS.items()}


def layouts() -> dict[RecordKind, str]:
    """Of each kind how its fields are packed."""
    return dict(_FIELDS)


IN_BATCH = 2**64 - 1
"""The bytes of DATA follow the batch."""

_WAITS = [struct.Struct(f"<{count}Q") for count in range(64)]


class DamagedBatch(ValueError):
    """What was received is no sequence of records."""


class NodeRecord(NamedTuple):
    """``member``: on the node.  ``ticket``: see ``RecordKind``.  ``tail``: valid until acted on."""

    kind: RecordKind
    member: int
    ticket: int
    fields: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    tail: bytes | memoryview = b""


def packed(
    kind: RecordKind,
    member: int,
    ticket: int,
    fields: Sequence[int] = (),
    waits: Sequence[int] = (),
    tail: bytes | memoryview = b"",
) -> bytes:
    """One record."""
    layout, count = _LAYOUTS[kind], len(waits)
    names = _WAITS[count] if count < 64 else struct.Struct(f"<{count}Q")
    nbytes = _HEAD.size + layout.size + names.size + len(tail)
    head = _HEAD.pack(kind, member, nbytes, count, len(tail), ticket)
    return b"".join((head, layout.pack(*fields), names.pack(*waits), tail))


def records(batch: memoryview) -> Iterator[NodeRecord]:
    """The records of a batch.  Raises DamagedBatch."""
    at, end = 0, len(batch)
    while at < end:
        try:
            number, member, nbytes, count, tail_nbytes, ticket = _HEAD.unpack_from(batch, at)
            kind = RecordKind(number)
            layout = _LAYOUTS[kind]
            behind = at + _HEAD.size + layout.size
            if nbytes != _HEAD.size + layout.size + 8 * count + tail_nbytes or at + nbytes > end:
                raise DamagedBatch(f"a record {kind.name} of {nbytes} bytes, {end - at} of them there")
            fields = layout.unpack_from(batch, at + _HEAD.size)
            waits = struct.unpack_from(f"<{count}Q", batch, behind) if count else ()
        except (struct.error, ValueError) as error:
            raise DamagedBatch(f"{error} at byte {at} of {end}") from error
        tail = batch[behind + 8 * count : at + nbytes]
        at += nbytes
        yield NodeRecord(kind, member, ticket, fields, waits, tail)


def regions(*given: Region) -> bytes:
    """Regions one after the other."""
    numbers: list[int] = []
    for region in given:
        numbers += [len(region.levels), region.base, region.nbytes, *chain.from_iterable(region.levels)]
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def regions_of(tail: bytes | memoryview) -> list[Region]:
    """What ``regions`` packed.  Raises DamagedBatch."""
    try:
        numbers = list(struct.unpack(f"<{len(tail) // 8}Q", tail))
        found = []
        while numbers:
            count, base, nbytes = numbers[:3]
            levels = numbers[3 : 3 + 2 * count]
            if len(levels) != 2 * count:
                raise DamagedBatch(f"a region of {count} levels is cut off")
            found.append(Region(base, nbytes, tuple(zip(levels[::2], levels[1::2], strict=True))))
            del numbers[: 3 + 2 * count]
    except (struct.error, ValueError) as error:
        raise DamagedBatch(f"regions in {len(tail)} bytes: {error}") from error
    return found


_STRINGS = struct.Struct("<I")


def strings(texts: Sequence[str | bytes]) -> bytes:
    """Texts one after the other, each behind its length."""
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    return b"".join(part for text in encoded for part in (_STRINGS.pack(len(text)), text))


def strings_of(tail: bytes | memoryview) -> list[bytes]:
    """What ``strings`` packed.  Raises DamagedBatch."""
    found, at, data = [], 0, bytes(tail)
    while at < len(data):
        if len(data) - at < _STRINGS.size:
            raise DamagedBatch("a text's length is cut off")
        (nbytes,) = _STRINGS.unpack_from(data, at)
        at += _STRINGS.size
        if at + nbytes > len(data):
            raise DamagedBatch(f"a text of {nbytes} bytes, {len(data) - at} of them there")
        found.append(data[at : at + nbytes])
        at += nbytes
    return found


class GivenFailure(Exception):
    """A failure that rank 0 told of: ``name`` is what it knows it by."""

    def __init__(self, name: int, what: str) -> None:
        super().__init__(what)
        self.name = name


class DriverError(Exception):
    """What a driver of another process raised, as text."""


def failure(error: BaseException, name: int = 0) -> bytes:
    """Why something failed, as a tail.  ``name``: what the receiver is to call it when it tells of it."""
    cause = "" if error.__cause__ is None else f"{type(error.__cause__).__name__}: {error.__cause__}"
    match error:
        case _ if name:
            found = ("given", str(name), str(error))
        case GivenFailure():
            found = ("given", str(error.name), str(error))
        case BuildError():
            found = ("build", str(int(error.status)), error.log)
        case ClError():
            found = ("status", str(int(error.status)), error.what)
        case DeviceFailed():
            what = str(error).removeprefix(f"{error.device}: ")
            found = ("lost" if isinstance(error, DeviceLost) else "failed", error.device, what)
        case _:
            found = ("failed", "a node", f"{type(error).__name__}: {error}")
    return strings((*found, cause))


def failure_of(tail: bytes | memoryview) -> Exception | None:
    """What ``failure`` packed; None for an empty tail.  Raises DamagedBatch."""
    if not len(tail):
        return None
    found = [text.decode(errors="replace") for text in strings_of(tail)]
    if len(found) != 4:
        raise DamagedBatch(f"a failure of {len(found)} texts")
    what, first, second, cause = found
    error: Exception
    match what:
        case "given":
            return GivenFailure(int(first), second)
        case "build":
            error = BuildError(second, Status(int(first)))
        case "status":
            error = ClError(Status(int(first)), second)
        case "lost":
            error = DeviceLost(first, second)
        case _:
            error = DeviceFailed(first, second)
    if cause:
        error.__cause__ = DriverError(cause)
    return error
