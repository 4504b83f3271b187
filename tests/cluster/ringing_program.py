"""One of two ranks that ring each other: ``ringing_program.py CASE FIFO``; rank 0 prints JSON.

``rings``: only rings wake them, nobody looks for messages.  ``unreachable``: rank 1 is not where it says.
``socketless``: rank 1 gets no socket.
"""

import errno
import json
import os
import sys
import threading
from pathlib import Path

from sdi.cluster import doorbell, mpi, start
from sdi.cluster.mpi import MpiTransport
from sdi.cluster.transport import Room

CASE, FIFO = sys.argv[1], Path(sys.argv[2])
PATIENCE_S = 60.0
EXCHANGES = 200
NEVER_S, NEVER_NS = 1e6, 1 << 62


class Ends:
    """Rank 1 answers each message with what it is; rank 0 waits for the answers."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.last = b""

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        self.last = bytes(batch)
        if source == 0:
            if self.last == b"busy":
                be_busy()
            transport.send(0, b"%d" % transport.traffic[0].rings)
        if source == 1 or self.last == b"end":
            self.came.set()
        return None

    def lost(self, rank: int, why: str) -> None:
        raise AssertionError(f"rank {rank} is lost: {why}")

    def is_busy(self) -> bool:
        return False


def be_busy() -> None:
    """Find what nobody rings for, and ring nobody who was sent something before."""
    mpi._SELDOM_S, mpi._UNSURE_NS = 20e-3, NEVER_NS


def ask(text: bytes) -> int:
    """How often rank 1 says that it has rung, asked so."""
    ends.came.clear()
    transport.send(1, text)
    if not ends.came.wait(PATIENCE_S):
        print(f"no answer to {text!r}", flush=True)
        os._exit(1)
    return int(ends.last)


def until_idle() -> None:
    """Wait for this rank to sleep until it is rung."""
    while not transport._is_listening:
        os.sched_yield()


def unable(*_: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def sockets() -> list[str]:
    """Open sockets for datagrams of this process."""
    known = {
        line.split()[9]
        for table in ("/proc/net/udp", "/proc/net/udp6")
        for line in Path(table).read_text().splitlines()[1:]
    }
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            name = os.readlink(entry)
        except FileNotFoundError:
            continue  # the listing's own
        if name.startswith("socket:[") and name[8:-1] in known:
            found.append(name)
    return found


place = start.place(os.environ)
assert place is not None and place.size == 2
before = sockets()
if CASE == "rings":
    mpi._SELDOM_S = NEVER_S
elif place.rank == 1 and CASE == "unreachable":
    doorbell.own_addresses = lambda: ("198.51.100.1",)
elif place.rank == 1 and CASE == "socketless":
    doorbell._opened = unable
transport, ends = MpiTransport(2), Ends()
transport.start(ends)
said: dict[str, object] = {"deaf": {str(rank): why for rank, why in transport.deaf.items()}}
if CASE == "rings":
    if place.rank == 1:
        until_idle()
        FIFO.write_text("idle")  # waits for rank 0 to read
    else:
        assert FIFO.read_text() == "idle"
        until_idle()
        said["rang before"] = transport.traffic[1].rings + ask(b"wake")
        said["rang"] = transport.traffic[1].rings > 0
        mpi._SELDOM_S = 20e-3
        first = ask(b"busy")
        be_busy()
        own = transport.traffic[1].rings
        last = [ask(b"more") for _ in range(EXCHANGES)][-1]
        said["rang while busy"] = transport.traffic[1].rings - own + last - first
elif place.rank == 0:
    said["was rung"] = [ask(b"wake") for _ in range(EXCHANGES)][-1] > 0
if place.rank == 0:
    ask(b"end")
elif not ends.came.wait(PATIENCE_S):
    os._exit(1)
transport.close()
said["left"] = [name for name in sockets() if name not in before]
if place.rank == 0 or said["left"]:
    print(json.dumps(said), flush=True)
start.leave(0)
