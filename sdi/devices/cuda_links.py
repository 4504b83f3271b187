"""Direct links between GPUs: used only where a checked copy proves that they work."""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from sdi.devices.cuda_context import CudaContext
from sdi.devices.cuda_driver import drv

_log = logging.getLogger(__name__)


class CudaLinks:
    """Of one member, ``name``, to the GPUs of others.  Owned by: the issuing thread."""

    def __init__(self, ordinal: int, context: CudaContext, name: str) -> None:
        self._ordinal: Final = ordinal
        self._context: Final = context
        self._name: Final = name
        self._found: Final[dict[int, bool]] = {}

    def reads(self, other: CudaLinks) -> bool:
        """Whether this member reads ``other``'s memory directly.  Tried once per pair."""
        key = other._ordinal
        known = self._found.get(key)
        if known is None:
            try:
                known = key == self._ordinal or self._try(other)
            except drv.Error as cause:
                known = False
                _log.warning("%s: no direct link to %s: %s", self._name, other._name, cause)
            self._found[key] = known
        return known

    def _try(self, other: CudaLinks) -> bool:
        other_context, context = other._context.open(), self._context.open()
        mine, theirs = drv.Device(self._ordinal), drv.Device(other._ordinal)
        if not mine.can_access_peer(theirs):
            return False
        sent = bytes(range(1, 256)) * 17
        found = bytearray(len(sent))
        with other._context.pushed():
            there = drv.mem_alloc(len(sent))
            drv.memcpy_htod(there, sent)
        with self._context.pushed():
            here = drv.mem_alloc(len(sent))
            with contextlib.suppress(drv.LogicError):  # enabled before, by another member in this context
                drv.Context.enable_peer_access(other_context)
            drv.memcpy_peer(here, there, len(sent), context, other_context)
            drv.memcpy_dtoh(found, here)
            here.free()
            works = bytes(found) == sent
            if not works:
                drv.Context.disable_peer_access(other_context)
                _log.error("%s: copies from %s arrive damaged", self._name, other._name)
        with other._context.pushed():
            there.free()
        return works
