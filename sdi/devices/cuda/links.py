"""How bytes get from one GPU to another: in a way of which a checked copy proves that it works."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from enum import Enum
from typing import Final

from sdi.devices.cuda.context import CudaContext, RawContext
from sdi.devices.cuda.driver import drv
from sdi.devices.cuda.memory import DeviceMemory
from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)
_CHECKED_NBYTES = 1 << 20


class PeerRoute(Enum):
    """``DIRECT``: the GPUs reach each other's memory.  ``DRIVER``: the driver goes through host memory.
    ``HOST``: we do, since what the driver copies arrives damaged.
    """

    DIRECT = 0
    DRIVER = 1
    HOST = 2


class CudaLinks:
    """Of one member, ``name``, to the GPUs of others.  Owned by: the issuing thread."""

    def __init__(self, ordinal: int, context: CudaContext, name: str) -> None:
        self._ordinal: Final = ordinal
        self._context: Final = context
        self._name: Final = name
        self._found: Final[dict[int, PeerRoute]] = {}

    def way(self, other: CudaLinks) -> PeerRoute:
        """How this member gets what is in ``other``'s memory.  Tried once per pair."""
        key = other._ordinal
        known = self._found.get(key)
        if known is None:
            try:
                known = PeerRoute.DIRECT if key == self._ordinal else self._try(other)
            except (drv.Error, DeviceFailed) as cause:
                known = PeerRoute.HOST  # the only one that needs no proof
                _log.warning("%s: no direct link to %s: %s", self._name, other._name, cause)
            self._found[key] = known
        return known

    def reads(self, other: CudaLinks) -> bool:
        """Whether it is another GPU, whose memory kernels of this one read."""
        return other._ordinal != self._ordinal and self.way(other) is PeerRoute.DIRECT

    def _try(self, other: CudaLinks) -> PeerRoute:
        there, here = other._context.open(), self._context.open()
        mine, theirs = drv.Device(self._ordinal), drv.Device(other._ordinal)
        if mine.can_access_peer(theirs):
            with self._context.pushed(), contextlib.suppress(drv.LogicError):
                drv.Context.enable_peer_access(there)  # unless another member in this context did
            if self._arrives(other, there, here):
                return PeerRoute.DIRECT
            with self._context.pushed():
                drv.Context.disable_peer_access(there)
            _log.error("%s: direct copies from %s arrive damaged", self._name, other._name)
        if self._arrives(other, there, here):
            return PeerRoute.DRIVER
        _log.error("%s: the driver's copies from %s arrive damaged", self._name, other._name)
        return PeerRoute.HOST

    def _arrives(self, other: CudaLinks, there: RawContext, here: RawContext) -> bool:
        """Whether a copy, as things are now, brings what was sent."""
        sent, found = os.urandom(_CHECKED_NBYTES), bytearray(_CHECKED_NBYTES)
        with _allocated(other._context, len(sent)) as source, _allocated(self._context, len(sent)) as target:
            with other._context.pushed():
                drv.memcpy_htod(source, sent)
            with self._context.pushed():
                drv.memcpy_htod(target, bytes(len(sent)))
                drv.memcpy_peer(target, source, len(sent), here, there)
                drv.memcpy_dtoh(found, target)
        return bytes(found) == sent


@contextlib.contextmanager
def _allocated(context: CudaContext, nbytes: int) -> Iterator[DeviceMemory]:
    """Memory of the context's GPU, for as long as the block runs."""
    with context.pushed():
        memory: DeviceMemory = drv.mem_alloc(nbytes)
    try:
        yield memory
    finally:
        with context.pushed():
            memory.free()
