"""Memory of this process' pool that others read bytes of, and then return.

Source: design/0011-nodes.md, "Processes of rank 0's machine".
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from sdi.cluster.records import RecordKind, packed
from sdi.cluster.shared import Mapped, word_at, words_nbytes
from sdi.cluster.staging import Staging
from sdi.cluster.transport import Transport
from sdi.dataclass import dataclass
from sdi.devices.ticket import Ticket

_WINDOW = 8
"""So many chunks of a copy are lent at a time."""
_UNSAID_MAX = 31
"""So much memory of others may be kept longer than it is needed."""


@dataclass(slots=True, eq=False)
class Loan:
    """``memory`` of this process' pool that ``to`` reads until it is ``returned``.

    ``is_last``: no later chunk of the copy lies there too; ``whole``: what was taken of the pool; ``place``:
    where that is.  ``read``: is done when nothing is written there any more.  ``is_said``: to ``to``.
    """

    to: int
    memory: memoryview
    whole: memoryview
    place: int
    is_last: bool
    returned: Ticket
    read: Ticket | None = None
    is_said: bool = False
    is_over: bool = False


class Loans:
    """What this process has lent to others, and to whom it may.  Any thread.

    ``pools``: of those who can read this process' pool, by rank.
    """

    def __init__(self, transport: Transport, staging: Staging) -> None:
        self.pools: Mapping[int, Mapped] = {}
        self._transport: Final = transport
        self._staging: Final = staging
        self._lock: Final = threading.Lock()
        self._lent: Final[dict[int, Loan]] = {}  # by place
        self._lost: Final[set[int]] = set()
        self._unsaid: Final[dict[int, list[bytes]]] = {}

    def close(self) -> None:
        """Nobody reads anything any more."""
        with self._lock:
            self._lent.clear()
            self._unsaid.clear()
        for mapped in self.pools.values():
            mapped.close()
        self.pools = {}

    def words(self) -> list[memoryview]:
        """Those of the signals of all memory that is lent, by this process and to it."""
        assert self._staging.pool is not None
        others = [mapped.view(0, words_nbytes(mapped.nbytes)) for mapped in self.pools.values()]
        return [self._staging.pool.words(), *others]

    def place(self, memory: memoryview) -> int:
        """Where ``memory``, of this process' pool, lies in it."""
        assert self._staging.pool is not None
        return self._staging.pool.place(memory)

    def in_first_pool(self, place: int, nbytes: int) -> memoryview:
        """Bytes of rank 0's pool.  Raises ValueError where there are none."""
        first = self.pools.get(0) or self._staging.pool
        assert first is not None
        return first.view(place, nbytes)

    def word_of_first(self, place: int) -> memoryview:
        """The word there of memory at ``place``."""
        return self.in_first_pool(*word_at(place))

    def _doubts(self) -> memoryview:
        """The word of rank 0's pool that says whether signals count."""
        return self.word_of_first(0)

    def doubt(self) -> None:
        """Some process goes on with what it never got, and so may all that hear of it by signals."""
        self._doubts()[:] = b"\1\0\0\0"

    def believe(self) -> None:
        """Nothing of the kind is under way."""
        if self.pools:
            self._doubts()[:] = bytes(4)

    def is_in_doubt(self) -> bool:
        """Whether a signal that was given, by anybody, says nothing."""
        return bool(self.pools) and self._doubts()[0] != 0

    def ring(self, to: int, sizes: Sequence[int]) -> list[memoryview]:
        """Memory for chunks of these sizes that are lent to ``to``, each for every so manieth; none where
        ``to`` can't read it.
        """
        pool, found = self._staging.pool, list[memoryview]()
        if pool is None or to not in self.pools:
            return found
        for nbytes in sizes[:_WINDOW]:
            memory = pool.take(max(nbytes, sizes[0]))
            if memory is None:
                break
            found.append(memory)
        return found

    def lend(self, loan: Loan, key: int, at: int, number: int = 0) -> None:
        """``number``: of the signal without which the bytes are not there."""
        with self._lock:
            is_lost = loan.to in self._lost
            if not is_lost:
                loan.is_said = True
                self._lent[loan.place] = loan
                self._transport.traffic[loan.to].shared_nbytes += loan.memory.nbytes
        if is_lost:
            self.end(loan)
        else:
            self._say(loan.to, packed(RecordKind.DATA, 0, key, (at, loan.memory.nbytes, loan.place, number)))

    def give_back(self, source: int, place: int, is_awaited: bool = True) -> None:
        """What ``source`` has lent is not needed any more; where nobody waits for it that is said with what
        else is to be said, or with some more like it.
        """
        record = packed(RecordKind.RETURN, 0, 0, (place,))
        if not is_awaited:
            with self._lock:
                unsaid = self._unsaid.setdefault(source, [])
                if len(unsaid) < _UNSAID_MAX:
                    unsaid.append(record)
                    return
        self._say(source, record)

    def _say(self, to: int, record: bytes) -> None:
        """With what was not said before."""
        with self._lock:
            unsaid = self._unsaid.pop(to, None)
        self._transport.send(to, record if unsaid is None else b"".join((*unsaid, record)))

    def end(self, loan: Loan) -> None:
        """Nobody reads it any more; what is said of it later, too, is nothing new."""
        with self._lock:
            if loan.is_over:
                return
            loan.is_over = True
        if loan.read is None:
            self._give(loan)
        else:
            loan.read.when_done(lambda _: self._give(loan))

    def _give(self, loan: Loan) -> None:
        if loan.is_last:
            self._staging.give(loan.whole)
        loan.returned.complete()

    def returned(self, place: int) -> None:
        """What was lent there is not needed any more."""
        with self._lock:
            loan = self._lent.pop(place, None)
        if loan is not None:
            self.end(loan)

    def lost(self, rank: int) -> None:
        """Nobody reads there any more what was lent to ``rank``."""
        with self._lock:
            self._lost.add(rank)
            self._unsaid.pop(rank, None)
            places = [place for place, loan in self._lent.items() if loan.to == rank]
            loans = [self._lent.pop(place) for place in places]
        for loan in loans:
            self.end(loan)
