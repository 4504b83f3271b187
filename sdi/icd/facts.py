"""What the service tells the client first: what the image is, or why there is none.

Apart from the session, so that the application goes on while the service still gets ready for its commands.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from sdi.devices.base import Device
from sdi.icd.image_info import image_info
from sdi.icd.status_page import StatusPage
from sdi.icd.wire import (
    ARENA_NBYTES,
    HEAP_OFFSET,
    INFO_ENTRY,
    PROTOCOL_VERSION,
    Op,
    layout,
    padded,
    record_layout,
)
from sdi.vmem.arena import Arena

_FACTS = record_layout(Op.FACTS)
_INFO = layout(INFO_ENTRY)


def facts_record(devices: Sequence[Device], arena_nbytes: int) -> bytes:
    """The FACTS record of an image made of ``devices``."""
    info = image_info(devices)
    body = b"".join(_INFO.pack(param, len(value)) + padded(value) for param, value in info.items())
    return (
        _FACTS.pack(_FACTS.size + len(body), Op.FACTS, 0, PROTOCOL_VERSION, 0, arena_nbytes, len(info), 0)
        + body
    )


def failure_record(status: int, message: str) -> bytes:
    """The FACTS record of a service that cannot serve."""
    text = message.encode()
    body = padded(text)
    return _FACTS.pack(_FACTS.size + len(body), Op.FACTS, 0, PROTOCOL_VERSION, status, 0, 0, len(text)) + body


def announce(commands: socket.socket, devices: Sequence[Device]) -> tuple[Arena, StatusPage]:
    """Tell the client of an image made of ``devices``, and give it the arena; both are the caller's."""
    arena = Arena(ARENA_NBYTES, HEAP_OFFSET)
    page = StatusPage(arena)
    record = facts_record(devices, arena.nbytes)
    socket.send_fds(commands, [record[:1]], [arena.fd])
    commands.sendall(record[1:])
    return arena, page
