"""The kinds of members that there are: each is found, opened and pooled by its ``MemberSource``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sdi.devices.base import Device
from sdi.devices.capabilities import MemberKind
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory


class MemberCandidate(Protocol):
    """What is known of a device that can become a member, of whatever process.

    ``unit``: the physical device; processes on one machine have the same names for them.
    ``info``: see ``Capabilities``; of other processes' devices, what queries ask for.
    """

    @property
    def platform(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> MemberKind: ...
    @property
    def unit(self) -> str: ...
    @property
    def memory_nbytes(self) -> int: ...
    @property
    def node(self) -> int: ...
    @property
    def info(self) -> Mapping[int, bytes]: ...


class Found(MemberCandidate, Protocol):
    """A device of this process that can become a member."""


class MemberSource(Protocol):
    """One kind of members.  What is asked about others' devices or members answers that there is none."""

    def find(self) -> Sequence[Found]:
        """Devices of this process, in order.  Logs why there are none, if that is no usual thing."""

    def open(
        self, found: Found, number: int, nbytes: int, beside: Sequence[Device], polling: Polling | None
    ) -> Device | None:
        """A member on that device with so much memory.  Raises DeviceFailed.

        ``number``: of the member; ``beside``: what was opened before, which it may share things with.
        ``polling``: of the session that polls it, if one does.
        """

    def connection(self, one: Found, other: Found) -> str:
        """What direct copies between two of its devices go through; "": there are none."""

    def pool(self, members: Sequence[Device]) -> PooledMemory | None:
        """The memory of all ``members`` together, where each of them reaches all of it."""
