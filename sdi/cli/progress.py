"""Says on a terminal what is going on, in one line that goes away again; piped output stays clean."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show ``what`` on stderr while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    print(f"\r\033[K{what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
