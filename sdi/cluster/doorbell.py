"""Rings that wake an idle process of a job: datagrams beside MPI, which has no wait that sleeps.

A ring carries nothing and only wakes; one that is lost costs time, nothing else.  Each process has a socket
and a key that the others are told over MPI.  A ring is who rings, a count, and their authentication code by
the receiver's key (BLAKE2s, RFC 7693), which itself never travels so: only processes of the job can ring, and
a ring that somebody saw can't be used again.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import math
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sdi.dataclass import dataclass, field

_KEY_NBYTES = 16
_RING = struct.Struct("<IBQ")  # who rings, to which of the receiver's addresses, a count
_CODE_NBYTES = 16
_ADDRESSES_MAX = 16
_TAKEN_MAX = 256
"""So many datagrams are looked at before anything else is done."""
_ON_THE_WAY_S = 0.2
_SIOCGIFADDR = 0x8915
_IF_INET6 = Path("/proc/net/if_inet6")
_GLOBAL = "00"
_MAPPED = "::ffff:"
"""Before an IPv4 address that is used with a socket of IPv6 (RFC 4291, section 2.5.5.2)."""

Heard = Mapping[int, int]
"""Of each rank whose rings arrive somewhere, at which of the addresses there."""


@dataclass(frozen=True, slots=True)
class Card:
    """What others of the job need to ring a process.  ``key``: nobody else may know it."""

    key: bytes = field(repr=False)
    port: int
    addresses: tuple[str, ...]


def own_addresses() -> tuple[str, ...]:
    """The first of IPv4 of each interface, then those of IPv6 that others can reach.  Raises OSError."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                answer = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                found.append(socket.inet_ntop(socket.AF_INET, answer[20:24]))
    with suppress(OSError):  # no IPv6
        for line in _IF_INET6.read_text().splitlines():
            address, _, _, scope, *_ = line.split()
            if scope == _GLOBAL:
                found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address)))
    return tuple(found[:_ADDRESSES_MAX])


class Doorbell:
    """Rank ``rank``'s.  Owned by: sdi-net; any thread may ring.  Raises OSError.

    ``deaf``: ranks that can't be rung by all others, and why; known after ``meet``.
    """

    def __init__(self, rank: int) -> None:
        self._rank: Final = rank
        self._key: Final = secrets.token_bytes(_KEY_NBYTES)
        self._socket: Final = _opened()
        try:
            addresses = own_addresses()
            self._wake: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._socket.close()
            raise
        self._poll: Final = select.poll()
        for descriptor in (self._socket.fileno(), self._wake):
            self._poll.register(descriptor, select.POLLIN)
        self.card: Final = Card(self._key, self._socket.getsockname()[1], addresses)
        self._heard: Final[dict[int, int]] = {}
        self._counts: Final[dict[int, int]] = {}  # of each rank the last that was heard
        self._targets: Final[dict[int, tuple[bytes, int, tuple[str, int]]]] = {}
        self.deaf: Final[dict[int, str]] = {}

    # -- at the start -----------------------------------------------------------------------------------

    def meet(
        self,
        cards: Sequence[Card],
        wait_for_all: Callable[[], object],
        exchange: Callable[[Heard], Sequence[Heard]],
    ) -> None:
        """Find out who hears whom, and ring from now on whom all can ring; all ranks do this at once.

        ``cards``: theirs, by rank; ``wait_for_all``: until all are here; ``exchange``: what each gives.
        A socket holds a few hundred datagrams, so of many ranks' some are lost: those who were not heard
        call again, as long as that helps.
        """
        heard: Sequence[Heard] = [{} for _ in cards]
        num_heard = -1
        while num_heard < (found := sum(map(len, heard))) < len(cards) ** 2:
            num_heard = found
            self._call(cards, heard)
            wait_for_all()
            heard = exchange(self._listen(len(cards)))
        self._settle(cards, heard)

    def _call(self, cards: Sequence[Card], heard: Sequence[Heard]) -> None:
        """Ring all ranks that have not heard this one, at all addresses they have."""
        for card, each in zip(cards, heard, strict=True):
            if self._rank not in each:
                for at, address in enumerate(card.addresses):
                    self._send(card.key, at, (address, card.port))
            self._take()  # others call here meanwhile

    def _listen(self, size: int) -> Heard:
        """Which of all ranks, all of whom have called, are heard here."""
        while len(self._heard) < size and self.wait(_ON_THE_WAY_S):
            pass
        return dict(self._heard)

    def _settle(self, cards: Sequence[Card], heard: Sequence[Heard]) -> None:
        """``heard``: by whom on each rank."""
        while self._take():
            pass  # what was heard at several addresses
        for rank, each in enumerate(heard):
            missing = [str(other) for other in range(len(heard)) if other not in each]
            if missing:
                self.deaf[rank] = f"datagrams of rank {', '.join(missing)} do not arrive there"
        for rank, card in enumerate(cards):
            if rank not in self.deaf:
                at = heard[rank][self._rank]
                self._targets[rank] = card.key, at, (card.addresses[at], card.port)

    @property
    def is_rung(self) -> bool:
        """Whether all others can ring here."""
        return self._rank in self._targets

    # -- then -------------------------------------------------------------------------------------------

    def ring(self, rank: int) -> bool:
        """Wake rank ``rank`` if it is idle; whether it can be rung.  Never blocks.  Any thread."""
        target = self._targets.get(rank)
        if target is not None:
            self._send(*target)
        return target is not None

    def ring_here(self) -> None:
        """Wake who waits here, or will.  Any thread."""
        os.eventfd_write(self._wake, 1)

    def wait(self, seconds: float) -> bool:
        """Whether somebody of the job rings within that time, this process among them."""
        deadline = time.monotonic() + seconds
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            ready = [descriptor for descriptor, _ in self._poll.poll(math.ceil(1000 * left_s))]
            if self._wake in ready:
                os.eventfd_read(self._wake)
                return True
            if ready and self._take():
                return True
            if not ready or not left_s:
                return False

    def close(self) -> None:
        """Nobody rings here any more."""
        self._socket.close()
        os.close(self._wake)

    def _send(self, key: bytes, at: int, address: tuple[str, int]) -> None:
        """Nothing, where there is no way to there."""
        body = _RING.pack(self._rank, at, time.monotonic_ns())
        with suppress(OSError):
            self._socket.sendto(body + _code(key, body), self._reached(address))

    def _reached(self, address: tuple[str, int]) -> tuple[str, int]:
        """``address`` as this socket names it."""
        host, port = address
        is_mapped = self._socket.family == socket.AF_INET6 and ":" not in host
        return (_MAPPED + host if is_mapped else host, port)

    def _take(self) -> bool:
        """Whether any of the datagrams that are there is a ring."""
        is_any = False
        for _ in range(_TAKEN_MAX):
            try:
                is_any |= self._is_ring(self._socket.recv(_RING.size + _CODE_NBYTES + 1))
            except OSError:
                break
        return is_any

    def _is_ring(self, data: bytes) -> bool:
        body, code = data[: _RING.size], data[_RING.size :]
        if len(body) < _RING.size or not hmac.compare_digest(code, _code(self._key, body)):
            return False
        rank, at, count = _RING.unpack(body)
        if count <= self._counts.get(rank, -1):
            return False
        self._counts[rank] = count
        self._heard.setdefault(rank, at)
        return True


def _code(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2s(body, digest_size=_CODE_NBYTES, key=key).digest()


def _opened() -> socket.socket:
    """A socket for datagrams to all addresses of this machine.  Raises OSError."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    found = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind(("", 0))
    except OSError:
        found.close()
        raise
    return found
