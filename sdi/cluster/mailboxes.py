"""Copies that nodes repeat by mailboxes: nothing is said of them, and no host sees to them.

Rank 0 has the memory and says where each copy's is when it has a recording kept.  What a device waits for
then may be what another process has yet to issue; design/0011-nodes.md, "Firm replays", says why no wait
lasts.  Where one of them fails, or is lost, whoever hears of it ends all waits that it knows: nothing of what
was under way counts then.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from sdi.cluster.loans import Loans
from sdi.cluster.shared import PAGE_NBYTES
from sdi.cluster.staging import Staging
from sdi.cluster.transport import Transport
from sdi.devices.base import Device
from sdi.devices.signals import CopyRound, Mailbox, RepeatedCopy, sends_first
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.vmem.dependencies import Use

NUMBERS_MAX = 1 << 31
"""Numbers are smaller: a word that nobody has written stands for an older one."""
_SHARE = 8
"""All together have no more than this part of the pool: other copies need memory there, too."""
_LATER = 1 << 30
"""What a word says that ends all waits is so much later than the last number that is known."""


def _half_nbytes(nbytes: int) -> int:
    return -(-nbytes // PAGE_NBYTES) * PAGE_NBYTES


class Mailboxes:
    """Those that this process uses; at rank 0 all.  Any thread."""

    def __init__(self, transport: Transport, loans: Loans, staging: Staging) -> None:
        self._transport: Final = transport
        self._loans: Final = loans
        self._staging: Final = staging
        self._lock: Final = threading.Lock()
        self._used: dict[int, Mailbox] = {}  # by place
        self._sizes: dict[int, int] = {}  # at rank 0: what was taken of its pool
        self._late: set[Ticket] = set()
        self._last = 0
        self._pending = 0

    # -- rank 0's pool ------------------------------------------------------------------------------------

    def make(self, nbytes: int) -> int | None:
        """The place of a new one for so many bytes, whose words are 0; None where there is no room."""
        pool = self._staging.pool
        taken = 2 * _half_nbytes(nbytes)
        if pool is None or sum(self._sizes.values()) + taken > pool.nbytes // _SHARE:
            return None
        memory = pool.take(taken)
        if memory is None:
            return None
        place = pool.place(memory)
        box = self._at(place, nbytes)
        for word in (box.filled, box.emptied):
            word[:] = bytes(4)
        with self._lock:
            self._used[place], self._sizes[place] = box, taken
        return place

    def give(self, place: int) -> None:
        """No copy by the one at ``place`` is under way any more, and none will be."""
        pool = self._staging.pool
        with self._lock:
            del self._used[place]
            taken = self._sizes.pop(place)
        assert pool is not None
        pool.give(pool.view(place, taken))

    def clear(self) -> None:
        """Nothing is under way.  What a process may still write, since one failed, is not used again."""
        with self._lock:
            places = list(self._sizes)
        is_sure = not self._loans.is_in_doubt()
        for place in places:
            if is_sure:
                self.give(place)
        with self._lock:
            self._used.clear()
            self._sizes.clear()

    # -- any process --------------------------------------------------------------------------------------

    def _at(self, place: int, nbytes: int) -> Mailbox:
        half, view = _half_nbytes(nbytes), self._loans.in_first_pool
        halves = view(place, nbytes), view(place + half, nbytes)
        return Mailbox(halves, self._loans.word_of_first(place), self._loans.word_of_first(place + half))

    def use(self, place: int, nbytes: int) -> Mailbox:
        """The one at ``place``, for so many bytes.  Raises ValueError where there can't be one."""
        box = self._at(place, nbytes)
        with self._lock:
            self._used[place] = box
        return box

    def round_of(
        self, device: Device, copies: Sequence[RepeatedCopy], sent: Mapping[int, int], uses: Sequence[Use]
    ) -> RepeatedRound:
        """What makes ``copies`` of ``device`` each time; ``sent``: so many bytes to which ranks; ``uses``: of
        the device's memory.
        """
        assert device.signals is not None
        issue = device.signals.round_of(sends_first(copies))
        return RepeatedRound(self, issue, self._transport, sent, uses)

    def kept_back(self) -> Ticket:
        """What is to be done before any round that is issued later goes to a device."""
        ticket = Ticket()
        self._late.add(ticket)
        ticket.when_done(self._late.discard)
        return ticket

    @property
    def are_none_under_way(self) -> bool:
        """Whether signals count, and all rounds of this process are done: what is sent behind one may be
        there only when others are asked for theirs.
        """
        return not (self._pending or self._loans.is_in_doubt())

    @property
    def late(self) -> list[Ticket]:
        """What keeps back a round that is issued now."""
        return list(self._late)

    @property
    def is_in_doubt(self) -> bool:
        """Whether nothing counts that comes so."""
        return self._loans.is_in_doubt()

    def verdict(self) -> BaseException | None:
        """Why what came does not count, if it does not."""
        if self._loans.is_in_doubt():
            return DeviceFailed(
                "a node", "a copy failed, and others may have gone on with what they never got"
            )
        return None

    def began(self, number: int) -> None:
        """Copies of that number are to be made."""
        with self._lock:
            self._last = max(self._last, number)
            self._pending += 1

    def ended(self, ticket: Ticket) -> None:
        """They are, or have failed."""
        with self._lock:
            self._pending -= 1
        if ticket.error is not None:
            self.give_up()

    def give_up(self) -> None:
        """Nobody waits any more, and nothing that is under way counts: something has failed."""
        with self._lock:
            is_any = bool(self._used)
        if is_any:
            self._loans.doubt()
            self.end_waits()

    def abandon(self) -> None:
        """The same, where anything is under way here."""
        if self._pending:
            self.give_up()

    def end_waits(self) -> None:
        """Once more, while it is in doubt: what was on its way may have been written behind that."""
        if not self._used:
            return
        with self._lock:
            if not self._loans.is_in_doubt():  # asked here: what the next session has is not touched
                return
            later = (self._last + _LATER & 0xFFFFFFFF).to_bytes(4, "little")
            for box in self._used.values():
                box.filled[:] = later
                box.emptied[:] = later


class RepeatedRound:
    """A process' copies of a recording.  Owned by: who issues."""

    def __init__(
        self,
        mailboxes: Mailboxes,
        copies: CopyRound,
        transport: Transport,
        sent: Mapping[int, int],
        uses: Sequence[Use],
    ) -> None:
        self._mailboxes: Final = mailboxes
        self._uses: Final = uses
        self._sent: Final = [(transport.traffic[rank], nbytes) for rank, nbytes in sent.items()]
        self._copies: Final = copies

    def issue(self, number: int, wait: Sequence[Ticket] = ()) -> Ticket:
        """Make all of them as replay ``number``, behind ``wait`` and what uses the same bytes."""
        mailboxes, found = self._mailboxes, dict.fromkeys(wait)
        for use in self._uses:
            use.gather(found)
        mailboxes.began(number)
        ticket = self._copies.issue(number, list(found), mailboxes.late, mailboxes.verdict)
        for use in self._uses:
            use.by(ticket)
        ticket.when_done(mailboxes.ended)
        for traffic, nbytes in self._sent:
            traffic.shared_nbytes += nbytes
        return ticket
