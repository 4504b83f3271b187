"""Handing an application to a service that runs already (``SDI_SERVICE``), and taking it over there.

What is sent is one JSON text behind its length, with the application's two sockets; the connection lasts as
long as the session does.  Both ends look who the other one is: only the same user's processes talk to each
other.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence

from sdi.dataclass import dataclass

_LENGTH = struct.Struct("<I")
_TEXT_MAX_NBYTES = 1 << 20
_PREFIX = "SDI_"


class HandoverError(RuntimeError):
    """The application could not be handed over; the text says why."""


@dataclass(frozen=True, slots=True)
class Handed:
    """An application.  ``arguments``: what the service was started with behind the sockets; ``environ``: the
    settings.
    """

    connection: socket.socket
    commands: socket.socket
    notices: socket.socket
    arguments: tuple[str, ...]
    environ: Mapping[str, str]


def listen(path: str) -> socket.socket:
    """The service's end, at a path in a folder that is the user's own.  Raises OSError."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end.bind(path)
    os.chmod(path, 0o600)
    end.listen(16)
    return end


def hand_over(path: str, ends: Sequence[socket.socket], arguments: Sequence[str]) -> int:
    """Give the application's sockets to the service at ``path``; wait for its end.  Raises HandoverError.

    0, or 1 where the service went away before the application.
    """
    settings = {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    for name in settings.keys() & {"SDI_STATS", "SDI_PROFILE"}:  # there the process id would be another
        settings[name] = os.path.abspath(settings[name].replace("%p", str(os.getpid())))
    text = json.dumps({"arguments": list(arguments), "environ": settings}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(path)
            check_peer(connection)
            socket.send_fds(connection, [_LENGTH.pack(len(text))], [end.fileno() for end in ends])
            connection.sendall(text)
            for end in ends:
                end.close()
            return 0 if connection.recv(1) else 1
        except OSError as error:
            raise HandoverError(f"no service at SDI_SERVICE={path!r}: {error.strerror or error}") from error


def take_over(connection: socket.socket) -> Handed:
    """What ``hand_over`` gave.  Raises HandoverError, and OSError."""
    check_peer(connection)
    head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
    ends = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    try:
        if len(head) != _LENGTH.size or len(ends) != 2:
            raise HandoverError(f"{len(head)} bytes and {len(ends)} sockets instead of an application")
        (nbytes,) = _LENGTH.unpack(head)
        if nbytes > _TEXT_MAX_NBYTES:
            raise HandoverError(f"settings of {nbytes} bytes")
        text = connection.recv(nbytes, socket.MSG_WAITALL)
        try:
            found = json.loads(text)
            arguments = tuple(str(each) for each in found["arguments"])
            environ = {str(name): str(value) for name, value in found["environ"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HandoverError(f"settings that can't be read: {error}") from error
    except BaseException:
        for end in ends:
            end.close()
        raise
    commands, notices = ends
    return Handed(connection, commands, notices, arguments, environ)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """(process, user) that made the other end."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def check_peer(connection: socket.socket) -> None:
    """Raises HandoverError where the other end is another user's."""
    _, uid = peer_of(connection)
    if uid != os.geteuid():
        raise HandoverError(f"the other end belongs to user {uid}, not to {os.geteuid()}")
