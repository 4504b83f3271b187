"""Services that are fed with damaged streams: processes of their own, forked from one that has all modules.

``python -m tests.service.live FOLDER SEED SESSIONS SECONDS``: so many sessions, or for so long, with what was
recorded in FOLDER (see ``recorded``).
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import random
import re
import select
import signal
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sdi.commands import Launch
from sdi.errors import BadRecord
from sdi.wire.layout import layout
from sdi.wire.records import (
    ARENA_NBYTES,
    COMMANDS,
    HEADER,
    REPLIED,
    SHARED_ADDRESSES,
    SLOT_NBYTES,
    SLOTS_OFFSET,
    Op,
    record_layout,
)
from tests.service.mutations import damaged
from tests.service.recorded import Replay, Stream, streams

_HEADER = layout(HEADER)
_REPLY = record_layout(Op.REPLY)
_NOTICE = record_layout(Op.NOTICE)
REPLY_S = 20.0
"""As long a session waits for a reply: a damaged length may have swallowed what was asked."""
TRANSFER_S = 1.0
END_S = 120.0
"""A service that takes longer has not noticed that its client has ended."""
MEMORY_MAX_NBYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class End:
    """How a session went.  ``status``: of the process, negative: a signal."""

    status: int
    said: str
    seconds: float
    memory_nbytes: int
    num_records: int
    num_damaged: int
    is_closed: bool

    def wrong(self) -> str:
        """What should not be; empty when all is well."""
        lines = self.said.splitlines()
        if self.status not in (0, 1):
            return f"ended with {self.status}: {self.said[-2000:]}"
        if self.seconds > END_S:
            return "did not end"
        if self.memory_nbytes > MEMORY_MAX_NBYTES:
            return f"took {self.memory_nbytes} bytes"
        if "Traceback" in self.said or "our bug" in self.said:
            return self.said[-4000:]
        damage = [line for line in lines if "the command stream is damaged" in line]
        if len(damage) > 1 or any(
            not re.search(r"damaged: [A-Za-z_ ]+ \d+: [\w' ]+: ", line) for line in damage
        ):
            return f"said {damage}"
        if self.is_closed and not damage:
            return f"ended before its client, for no reason: {self.said}"
        return ""


class Service:
    """A live service, and its client's side of the sockets."""

    def __init__(self) -> None:
        pairs = [socket.socketpair() for _ in range(2)]
        self._said = os.memfd_create("said")
        self.pid = os.fork()
        if self.pid == 0:
            self._serve([theirs for _, theirs in pairs], [ours for ours, _ in pairs])
        for _, theirs in pairs:
            theirs.close()
        self.commands, self.notices = (ours for ours, _ in pairs)
        self.is_closed = False
        self.replies: set[int] = set()
        self.noticed: set[int] = set()
        self._incoming = {self.commands: bytearray(), self.notices: bytearray()}
        first, (descriptor,), _, _ = socket.recv_fds(self.commands, 1, 1)
        head = first + self._exactly(record_layout(Op.FACTS).size - 1)
        facts = record_layout(Op.FACTS).unpack(head)
        self._exactly(facts[0] - len(head))
        self.arena = mmap.mmap(descriptor, facts[5], flags=mmap.MAP_SHARED | 0x4000)
        os.close(descriptor)
        for end in (self.commands, self.notices):
            end.setblocking(False)

    def _serve(self, ends: list[socket.socket], others: list[socket.socket]) -> None:
        status = 70
        try:
            for other in others:
                other.close()
            os.dup2(self._said, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            from sdi.service import main as server

            addresses = ",".join(f"{address:x}" for address in SHARED_ADDRESSES)
            status = server.main([*(str(end.detach()) for end in ends), str(ARENA_NBYTES), addresses])
            logging.shutdown()
            ctypes.CDLL(None).fflush(None)
        finally:
            os._exit(status)

    def _exactly(self, nbytes: int) -> bytes:
        data = b""
        while len(data) < nbytes:
            more = self.commands.recv(nbytes - len(data))
            if not more:
                raise AssertionError(f"the service did not start: {os.pread(self._said, 4000, 0)!r}")
            data += more
        return data

    def send(self, data: bytes) -> None:
        """Send, and read what comes in meanwhile."""
        rest = memoryview(data)
        while rest and not self.is_closed:
            self.read(0.0)
            try:
                rest = rest[self.commands.send(rest) :]
            except BlockingIOError:
                self.read(0.05)
            except OSError:
                self.is_closed = True

    def read(self, patience_s: float) -> None:
        """Take in what the service says."""
        ready, _, _ = select.select(list(self._incoming), [], [], patience_s)
        for end in ready:
            try:
                data = end.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self.is_closed = True
                return
            self._incoming[end] += data
        for end, shape, found in (
            (self.commands, _REPLY, self.replies),
            (self.notices, _NOTICE, self.noticed),
        ):
            data = self._incoming[end]
            while len(data) >= shape.size:
                nbytes, _, number = _HEADER.unpack_from(data)
                if len(data) < nbytes:
                    break
                found.add(number)
                del data[:nbytes]

    def until(self, done: Callable[[], bool], patience_s: float) -> bool:
        """Read until ``done``, or for so long, or until the service closes."""
        limit_s = time.monotonic() + patience_s
        while not self.is_closed and not done():
            if time.monotonic() > limit_s:
                return False
            self.read(0.01)
        return True

    def may_transfer(self, command: int, slot: int) -> bool:
        """Whether the client was told to copy, or need not."""
        if command in self.noticed or not slot:
            return True
        status, _, ready = struct.unpack_from("<iIQ", self.arena, SLOTS_OFFSET + slot * SLOT_NBYTES)
        return status <= 0 or ready > 0

    def end(self, num_records: int, num_damaged: int) -> End:
        """The client ends; wait for the service."""
        self.arena.close()
        for end in (self.commands, self.notices):
            end.close()
        begun_s = time.monotonic()
        descriptor = os.pidfd_open(self.pid)
        ended, _, _ = select.select([descriptor], [], [], END_S)
        seconds = time.monotonic() - begun_s
        if not ended:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            seconds = END_S + 1
        os.close(descriptor)
        _, status, usage = os.wait4(self.pid, 0)
        said = os.pread(self._said, 1 << 20, 0).decode(errors="replace")
        os.close(self._said)
        code = os.waitstatus_to_exitcode(status)
        return End(code, said, seconds, usage.ru_maxrss << 10, num_records, num_damaged, self.is_closed)


def is_safe(entry_of: Replay, data: bytes, record: bytes) -> bool:
    """Whether a damaged record may be sent: a kernel that is launched in another way may write anywhere."""
    try:
        entry, original = entry_of.door.check(data), entry_of.door.check(record)
    except BadRecord:
        return True
    return not isinstance(entry.command, Launch) or entry.command == original.command


def session(stream: Stream, choose: random.Random) -> End:
    """Play a recorded stream to a new service, with damaged records among its own."""
    service, replay, slots = Service(), Replay(stream), dict[int, int]()
    num_records = num_damaged = 0
    originals = [item for item in stream if isinstance(item, bytes)]
    first, often = choose.randrange(len(originals)), choose.choice((1, 3, 10))
    for number, record in enumerate(replay.records()):
        if service.is_closed:
            break
        if number >= first and not choose.randrange(often):
            data = damaged(choose, record, originals, replay.ids())
            if is_safe(replay, data, record):
                service.send(data)
                num_damaged += 1
        nbytes, kind, record_id = _HEADER.unpack_from(record)
        assert nbytes == len(record)
        if kind in COMMANDS:
            slots[record_id] = int.from_bytes(record[24:28], "little")
            with suppress(ValueError):
                struct.pack_into(
                    "<iIQ", service.arena, SLOTS_OFFSET + slots[record_id] * SLOT_NBYTES, 3, 0, 0
                )
        if kind == Op.TRANSFER_DONE:
            slot = slots.get(record_id, 0)
            service.until(lambda: service.may_transfer(record_id, slot), TRANSFER_S)  # noqa: B023
        service.send(record)
        num_records += 1
        if kind in REPLIED and not service.until(lambda: record_id in service.replies, REPLY_S):  # noqa: B023
            break
    if choose.randrange(2):  # else it ends while the service is busy
        service.until(lambda: False, 0.05)
    return service.end(num_records, num_damaged)


def prepare() -> None:
    """Import what services import, before they are forked; set what all of them are told."""
    os.environ.update(SDI_NUM_GPUS="2", SDI_SPLIT="always", SDI_BALANCE="off", SDI_IN_SERVICE="1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import sdi.devices.discover
    import sdi.service.main
    import sdi.service.session  # noqa: F401


def live(recorded: list[Stream], seeds: range, seconds: float) -> tuple[Counter[str], list[str]]:
    """Sessions with these seeds, until the time is over; what was counted, and what went wrong."""
    counts, wrong = Counter[str](), list[str]()
    limit_s = time.monotonic() + seconds
    for seed in seeds:
        choose = random.Random(seed)
        end = session(choose.choice(recorded), choose)
        counts["sessions"] += 1
        counts["records"] += end.num_records
        counts["damaged"] += end.num_damaged
        counts["ended by a damaged record"] += "stream is damaged" in end.said
        counts["took more than 1 s to end"] += end.seconds > 1
        counts["slowest end, ms"] = max(counts["slowest end, ms"], round(1000 * end.seconds))
        counts["most memory, MiB"] = max(counts["most memory, MiB"], end.memory_nbytes >> 20)
        if end.wrong():
            wrong.append(f"seed {seed}: {end.wrong()}")
            print(wrong[-1], flush=True)
        if not counts["sessions"] % 100:
            print(f"seed {seed}:", ", ".join(f"{n} {what}" for what, n in counts.items()), flush=True)
        if time.monotonic() > limit_s:
            break
    return counts, wrong


def main(arguments: list[str]) -> int:
    """See the module."""
    seed, num_sessions = int(arguments[1]), int(arguments[2])
    prepare()
    recorded = streams(Path(arguments[0]))
    counts, wrong = live(recorded, range(seed, seed + num_sessions), float(arguments[3]))
    print(", ".join(f"{n} {what}" for what, n in counts.items()), f"; {len(wrong)} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
