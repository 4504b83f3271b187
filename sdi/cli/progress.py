"""Says on a terminal what is going on, in one line that goes away again; piped output stays clean."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def show(text: str) -> None:
    """``text`` in place of what was shown before, on stderr if that is a terminal; "" for nothing."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show ``what`` while the block runs."""
    show(f"{what} ...")
    try:
        yield
    finally:
        show("")
