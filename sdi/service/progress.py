"""Says on the terminal of ``sdi run`` that a build takes long, in one line that goes away again."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

UNDER_RUN = "_SDI_RUN"
"""Set where ``sdi run`` started the application; no setting."""
PATIENCE_S = 3.0
_EVERY_S = 1.0

_T = TypeVar("_T")


def show(text: str) -> None:
    """``text`` in place of what was shown before, on stderr if that is a terminal; "" for nothing."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def is_watched(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether somebody waits at a terminal that ``sdi run`` may write to."""
    return bool(environ.get(UNDER_RUN)) and sys.stderr is not None and sys.stderr.isatty()


def told(work: Callable[..., _T], num_members: int, tell: Callable[[str], None] = show) -> Callable[..., _T]:
    """``work``, a build, of which ``tell`` hears once it has taken ``PATIENCE_S``, and that it is over."""
    members = f"{num_members} member{'s' * (num_members > 1)}"

    def watched(*arguments: object) -> _T:
        over = threading.Event()

        def watch() -> None:
            seconds = pause_s = PATIENCE_S
            while not over.wait(pause_s):
                tell(f"sdi: building a program for {members}: {seconds:.0f} s ...")
                pause_s = _EVERY_S
                seconds += pause_s
            if seconds > PATIENCE_S:
                tell("")

        watcher = threading.Thread(target=watch, name="sdi-progress", daemon=True)
        watcher.start()
        try:
            return work(*arguments)
        finally:
            over.set()
            watcher.join()  # nothing is shown after the application goes on

    return watched
