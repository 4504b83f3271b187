"""Says on a terminal what is going on, in one line that goes away again; piped output stays clean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sdi.service.progress import show


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show ``what`` while the block runs."""
    show(f"{what} ...")
    try:
        yield
    finally:
        show("")
