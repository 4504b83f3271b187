"""How the processes of a job that are on rank 0's machine find each other: sockets, and memory to share.

Rank 0 tells them, over MPI, of a socket in a folder of its own and of a secret that opens it; who comes gives
its pool and gets a socket to each other one, and their pools.  Who can map them all says so, and is told who
else could: these share memory, the others none.  Only processes of the same user are let in
that can be watched: what rank 0 shares with a process is not used again before that one has ended.
"""

from __future__ import annotations

import hmac
import os
import secrets
import selectors
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from sdi.cluster.loopback import sockets
from sdi.cluster.records import strings, strings_of
from sdi.cluster.shared import Mapped, Pool
from sdi.dataclass import dataclass
from sdi.service.handover import HandoverError, check_peer, listen, peer_of

PATIENCE_S = 20.0
_LOOK_S = 0.02
_COOKIE_NBYTES = 32
_HELLO = struct.Struct(f"<{_COOKIE_NBYTES}sIQ")  # the secret, who comes, its pool's size
_COUNT = struct.Struct("<I")
_OTHER = struct.Struct("<IQ")  # another process, its pool's size
_READY = b"\1"


@dataclass(frozen=True, slots=True)
class Met:
    """What a process has of others on its machine, by rank.

    ``ends``: sockets to them.  ``pools``: theirs.  ``processes``: descriptors (pidfd) of those that are to
    end before they count as lost.
    """

    ends: Mapping[int, socket.socket]
    pools: Mapping[int, Mapped]
    processes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Guest:
    """Who came: its end for descriptors, its process, its pool."""

    control: socket.socket
    process: int
    pool: int
    pool_nbytes: int


class NearError(RuntimeError):
    """A process of this machine shares no memory with rank 0; the text says why."""


class NearListener:
    """Where processes of this machine come to rank 0.  Raises OSError.

    ``invitation``: what they have to be told, and nobody else.
    """

    def __init__(self) -> None:
        self._folder: Final = tempfile.mkdtemp(prefix="sdi-near-")
        self._cookie: Final = secrets.token_bytes(_COOKIE_NBYTES)
        path = os.path.join(self._folder, "door")
        try:
            self._listener: Final = listen(path)
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.invitation: Final = strings((path, self._cookie))
        self._guests: Final[dict[int, _Guest]] = {}
        self.refusals: Final[dict[int, str]] = {}

    def wait(self, wanted: Collection[int], has_given_up: Callable[[int], bool]) -> list[int]:
        """Wait until all ranks of ``wanted`` have come or given up; who came."""
        deadline = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if all(rank in self._guests or has_given_up(rank) for rank in wanted):
                    break
                if selector.select(_LOOK_S):
                    self._admit(wanted)
        return sorted(self._guests)

    def _admit(self, wanted: Collection[int]) -> None:
        """Let somebody in who knows the secret; who does not is nobody's business."""
        connection, _ = self._listener.accept()
        descriptors: list[int] = []
        try:
            connection.settimeout(PATIENCE_S)
            check_peer(connection)
            data, descriptors, _, _ = socket.recv_fds(connection, _HELLO.size, 1)
            cookie, rank, nbytes = _HELLO.unpack(data)
            if not hmac.compare_digest(cookie, self._cookie) or rank not in wanted or rank in self._guests:
                raise HandoverError("not who was asked")
            (pool,) = descriptors
            pid, _ = peer_of(connection)
            self._guests[rank] = _Guest(connection, os.pidfd_open(pid), pool, nbytes)
        except (OSError, ValueError, struct.error, HandoverError):
            for descriptor in descriptors:
                os.close(descriptor)
            connection.close()

    def introduce(self, pool: Pool) -> tuple[Met, dict[int, socket.socket]]:
        """Give all who came what they need of each other; what rank 0 has of those who can map it, and where
        they get descriptors from now on.  Raises OSError.

        ``refusals`` says then of whom rank 0 could not map the pool, and why.
        """
        mapped: dict[int, Mapped] = {}
        for rank, guest in sorted(self._guests.items()):
            try:
                mapped[rank] = Mapped(guest.pool, guest.pool_nbytes)
            except OSError as error:
                self.refusals[rank] = f"rank 0 can't map its memory: {error}"
                self._turn_away(rank)
        own = self._give(pool)
        for rank in sorted(self._guests):
            if not self._is_ready(rank):
                self._turn_away(rank)
                mapped.pop(rank).close()
                own.pop(rank).close()
        ready = (0, *self._guests)
        for guest in self._guests.values():
            with suppress(OSError):  # it has just died: its socket will tell
                guest.control.sendall(_COUNT.pack(len(ready)) + b"".join(map(_COUNT.pack, ready)))
            os.close(guest.pool)
        met = Met(own, mapped, {rank: guest.process for rank, guest in self._guests.items()})
        return met, {rank: guest.control for rank, guest in self._guests.items()}

    def _give(self, pool: Pool) -> dict[int, socket.socket]:
        """Give each guest a socket to each other one and all pools; rank 0's sockets."""
        pools = {0: (pool.descriptor, pool.nbytes)}
        pools |= {rank: (guest.pool, guest.pool_nbytes) for rank, guest in self._guests.items()}
        ranks = list(pools)
        own, *others = sockets(len(ranks))
        for rank, ends in zip(ranks[1:], others, strict=True):
            control = self._guests[rank].control
            with suppress(OSError):  # it has gone: it will not be ready
                control.sendall(_COUNT.pack(len(ends)))
                for number, end in ends.items():
                    descriptor, nbytes = pools[ranks[number]]
                    data = _OTHER.pack(ranks[number], nbytes)
                    socket.send_fds(control, [data], [end.fileno(), descriptor])
            for end in ends.values():
                end.close()
        return {ranks[number]: end for number, end in own.items()}

    def _is_ready(self, rank: int) -> bool:
        """Whether a guest says that it has mapped all pools."""
        try:
            return self._guests[rank].control.recv(1) == _READY
        except OSError:
            return False

    def _turn_away(self, rank: int) -> None:
        guest = self._guests.pop(rank)
        guest.control.close()
        os.close(guest.process)
        os.close(guest.pool)

    def close(self) -> None:
        """Nobody else is let in."""
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def come(invitation: bytes | memoryview, rank: int, pool: Pool) -> tuple[Met, socket.socket]:
    """Go through the door of an invitation: what this process has of others, and where descriptors come from.

    Raises NearError; then it has nothing of them.
    """
    path, cookie = strings_of(invitation)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.settimeout(PATIENCE_S)
    ends: dict[int, socket.socket] = {}
    pools: dict[int, Mapped] = {}
    try:
        control.connect(path)
        check_peer(control)
        socket.send_fds(control, [_HELLO.pack(cookie, rank, pool.nbytes)], [pool.descriptor])
        control.settimeout(None)  # rank 0 waits for others first; when it has gone that is the end
        for _ in range(_number(control)):
            _take(control, ends, pools)
        control.sendall(_READY)
        ready = {_number(control) for _ in range(_number(control))}
        _drop(ends.keys() - ready, ends, pools)
        control.settimeout(PATIENCE_S)
    except (OSError, ValueError, struct.error, HandoverError) as error:
        control.close()
        _drop(list(ends), ends, pools)
        raise NearError(f"{path.decode(errors='replace')}: {error}") from error
    return Met(ends, pools, {}), control


def _take(control: socket.socket, ends: dict[int, socket.socket], pools: dict[int, Mapped]) -> None:
    """Receive a socket to another process and its pool.  Raises OSError and ValueError."""
    data, descriptors = _received(control, _OTHER.size, 2)
    try:
        end, memory = descriptors
        other, nbytes = _OTHER.unpack(data)
        ends[other] = socket.socket(fileno=os.dup(end))
        pools[other] = Mapped(memory, nbytes)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _drop(ranks: Collection[int], ends: dict[int, socket.socket], pools: dict[int, Mapped]) -> None:
    """These share no memory."""
    for rank in ranks:
        ends.pop(rank).close()
        pool = pools.pop(rank, None)
        if pool is not None:
            pool.close()


def received_arena(control: socket.socket, nbytes: int, file_offset: int) -> Mapped:
    """The arena, whose descriptors rank 0 sends next: of the memory, and of the file where it has one.

    Raises NearError where they do not come, and OSError.
    """
    try:
        _, descriptors = _received(control, 1, count := 1 + (file_offset < nbytes))
    except OSError as error:
        raise NearError(f"no descriptor came: {error}") from error
    try:
        if len(descriptors) != count:
            raise NearError(f"{len(descriptors)} descriptors came of {count}")
        return Mapped(descriptors[0], nbytes, file_offset, *descriptors[1:])
    finally:
        for each in descriptors:
            os.close(each)


def _number(control: socket.socket) -> int:
    """The next number that rank 0 sends.  Raises OSError."""
    (found,) = _COUNT.unpack(_received(control, _COUNT.size)[0])
    return int(found)


def _received(control: socket.socket, nbytes: int, count: int = 0) -> tuple[bytes, list[int]]:
    """So many bytes, and the descriptors that come with the first of them.  Raises OSError."""
    data, descriptors, _, _ = socket.recv_fds(control, nbytes, count)
    while data and len(data) < nbytes:
        more = control.recv(nbytes - len(data))
        if not more:
            break
        data += more
    if len(data) < nbytes:
        raise OSError("the other end has gone")
    return data, descriptors
