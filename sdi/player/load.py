"""Finds the compiled player."""

from __future__ import annotations

import ctypes
import functools

from sdi.locate import LIBRARY, prefix
from sdi.player.library import LIBRARY_NAME, load


class NoPlayer(Exception):
    """Why known commands are not replayed natively."""


@functools.cache
def loaded() -> tuple[ctypes.CDLL, ctypes.PyDLL]:
    """The player beside the C library.  Raises NoPlayer."""
    path = prefix() / LIBRARY.parent / LIBRARY_NAME
    try:
        return load(path)
    except (OSError, AttributeError) as error:  # it is not there, or of another version
        raise NoPlayer(f"no player, so launches take longer: {error}") from error
