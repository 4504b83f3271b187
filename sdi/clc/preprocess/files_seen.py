"""The files that the text of a program came from, so that it can be known later whether they have changed."""

from __future__ import annotations

import hashlib

from sdi.dataclass import dataclass, field


@dataclass(slots=True)
class FilesSeen:
    """What was asked of the file system.  Owned by: the thread that preprocesses.

    ``digests``: of every path that was looked for, that of its content; None where there was no file.
    ``is_complete``: nothing else was asked.
    """

    digests: dict[str, bytes | None] = field(default_factory=dict)
    is_complete: bool = True


def digest_of(path: str) -> bytes | None:
    """Of a file's content as it is now; None where there is no file that can be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest()
    except OSError:
        return None
