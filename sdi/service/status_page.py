"""The event status page: where the service stores what the application's threads wait for; staged bytes."""

from __future__ import annotations

import ctypes
import platform
from contextlib import suppress

from sdi.limits import cores
from sdi.service.watch import LIBRARY
from sdi.vmem.arena import Arena
from sdi.wire.layout import layout, offset_of
from sdi.wire.opencl import ExecutionStatus
from sdi.wire.records import (
    ARENA_HEADER,
    ENDED_BY_ITSELF,
    MAGIC,
    NUM_SLOTS,
    PROTOCOL_VERSION,
    RING,
    RING_OFFSET,
    SLOT,
    SLOT_NBYTES,
    SLOTS_OFFSET,
    STAGING_NBYTES,
    STAGING_OFFSET,
)

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAKE = 1
_ALL = 2**31 - 1
_EPOCH_OFFSET = offset_of(ARENA_HEADER, "epoch")
_ENDED_OFFSET = offset_of(ARENA_HEADER, "ended")
_RESTING_OFFSET = offset_of(ARENA_HEADER, "resting_nbytes")
_STAGED_OFFSET = offset_of(ARENA_HEADER, "staged_nbytes")
_TAKEN = offset_of(ARENA_HEADER, "taken_nbytes") // 8
_WATCHED_OFFSET = offset_of(ARENA_HEADER, "watched_nbytes")
_WATCHED_LEAST_NBYTES = 256 << 10
"""To compare less takes no longer than to ask."""
_COUNTED = ("host_compared_nbytes", "host_copied_nbytes", "host_faults", "host_faults_ns")
_WORDS, _STATUSES = SLOT_NBYTES // 8, SLOT_NBYTES // 4
_READY, _SUBMITTED, _STARTED, _ENDED, _PACKED_AT = (
    offset_of(SLOT, name) // 8
    for name in ("ready_nbytes", "submitted_ns", "started_ns", "ended_ns", "packed_at")
)
_IS_SUBMITTED = ExecutionStatus.SUBMITTED.value

_syscall = ctypes.PyDLL(None).syscall


class StatusPage:
    """Writes slots; reads nothing from them.  Owned by: sdi-scheduler.

    Stores are single aligned machine stores in program order (x86-64 and what CPython's memoryview does);
    the status comes last.
    """

    def __init__(self, arena: Arena) -> None:
        values = (MAGIC, PROTOCOL_VERSION, 0, arena.nbytes, *(0,) * 5, cores(), *(0,) * 6)
        layout(ARENA_HEADER).pack_into(arena.bytes, 0, *values)
        slots = arena.view(SLOTS_OFFSET, NUM_SLOTS * SLOT_NBYTES)
        self._words = slots.cast("Q")
        self._statuses = slots.cast("i")
        self._epochs = arena.view(0, 64).cast("I")
        self._taken = arena.view(0, 128).cast("Q")
        self._staging = arena.view(STAGING_OFFSET, STAGING_NBYTES)
        self._address = ctypes.c_void_p(arena.address + _EPOCH_OFFSET)
        self._ended_address = ctypes.c_void_p(arena.address + _ENDED_OFFSET)
        self._number = _FUTEX_NUMBERS[platform.machine()]
        self._ring = arena.view(RING_OFFSET, 4096).cast("I")
        self._dirty = False

    def rest(self, nbytes: int) -> None:
        """While no command is under way nothing is done with the bytes of buffers of at most this size."""
        self._taken[_RESTING_OFFSET // 8] = nbytes

    def stage(self, nbytes: int) -> None:
        """The client stages so many of a write's bytes at most."""
        self._taken[_STAGED_OFFSET // 8] = nbytes

    def watch(self) -> None:
        """The client may have the kernel tell what the application writes to memory of its own."""
        self._taken[_WATCHED_OFFSET // 8] = _WATCHED_LEAST_NBYTES

    def end(self) -> None:
        """The service ends as it was asked to, or has said why.  Any thread."""
        self._epochs[_ENDED_OFFSET // 4] = ENDED_BY_ITSELF

    def tell_signals(self) -> None:
        """The client knows what signal ends this process from now on, which serves nobody else."""
        with suppress(OSError, AttributeError):  # it goes without; ``service/watch.py`` warns
            ctypes.CDLL(str(LIBRARY)).sdi_tell_signals(self._ended_address)

    def counted(self) -> dict[str, int]:
        """What the client did with memory of the application that buffers use, by names of ``Events``."""
        return {name: self._taken[offset_of(ARENA_HEADER, name) // 8] for name in _COUNTED}

    def standing(self) -> str:
        """How often its waiters were woken, and whether the service has said that it sleeps."""
        asleep = ", asleep" * bool(self._ring[offset_of(RING, "asleep") // 4])
        return f"epoch {self._epochs[_EPOCH_OFFSET // 4]}{asleep}"

    def submitted(self, slot: int, now_ns: int) -> None:
        """The command is on its way.  Nobody waits for that, so nobody is woken."""
        self._words[slot * _WORDS + _SUBMITTED] = now_ns
        self._statuses[slot * _STATUSES] = _IS_SUBMITTED

    def busy(self, slot: int) -> None:
        """The service knows what the slot is for, and it has not come to that yet."""
        self._statuses[slot * _STATUSES] = _IS_SUBMITTED
        self._dirty = True

    def ready(self, slot: int, nbytes: int, packed_at: int) -> None:
        """The client may copy the first ``nbytes`` bytes; ``packed_at``: see ``SLOT``."""
        self._words[slot * _WORDS + _PACKED_AT] = packed_at
        self._words[slot * _WORDS + _READY] = nbytes
        self._dirty = True

    def finished(self, slot: int, status: int, submitted_ns: int, started_ns: int, ended_ns: int) -> None:
        """Final status and times."""
        words, at = self._words, slot * _WORDS
        words[at + _SUBMITTED] = submitted_ns
        words[at + _STARTED] = started_ns
        words[at + _ENDED] = ended_ns
        self._statuses[slot * _STATUSES] = status
        self._dirty = True

    def staged(self, at: int, nbytes: int) -> bytes:
        """What the client has staged there."""
        return bytes(self._staging[at - STAGING_OFFSET :][:nbytes])

    def has_taken(self, nbytes: int) -> None:
        """The client may use the memory of so many more staged bytes again."""
        self._taken[_TAKEN] += nbytes

    def wake(self) -> None:
        """Let all waiters look, if anything was stored since the last call.

        The player counts on in the same epoch, in turns that are not ours; Python has no fence that would
        allow for asking first whether there are any.
        """
        if self._dirty:
            self._dirty = False
            at = _EPOCH_OFFSET // 4
            self._epochs[at] = (self._epochs[at] + 1) & 0xFFFFFFFF
            _syscall(self._number, self._address, _FUTEX_WAKE, _ALL, None, None, 0)
