"""Writes down what a session does while it does it: ``service-PID.jsonl`` in the folder of SDI_PROFILE.

Whoever does something worth recording appends one tuple, with the tickets that will know its times; a thread
of our own looks which tickets are done and writes their rows, so that the way of a command waits for no file.
The file is a stream of short lines: whatever dies, what was written before can be read (``stream.py``).
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sdi import whole_file
from sdi.commands import Command
from sdi.devices.ticket import Ticket
from sdi.profile.record.asked import comparable, row_of

_log = logging.getLogger("sdi.profile")
_T = TypeVar("_T")

VERSION = 3
OLDER = (1, 2)
"""The first could not tell of replays, neither what commands asked for; all else is the same."""
PERIOD_S = 0.1
"""How often rows are written: what a service that is killed can lose."""
_ASKED_MAX = 4096
"""So many commands are known to have been asked for before."""
_ROWS_MAX = 100
"""Rows in a line: turning more into text at a time would hold up the service's other threads."""

COLUMNS = {
    "command": (
        "id", "queue", "kind", "nbytes", "queued_ns", "submitted_ns", "start_ns", "end_ns", "status", "asked",
    ),
    "launch": (
        "command", "kernel", "shape", "known", "begin_ns", "bound_ns", "issued_ns", "held_ns",
    ),
    "shape": (
        "id", "kernel", "num_groups", "local_size", "members", "cut", "why_whole", "chunks", "merged_nbytes",
        "regions", "reached_nbytes",
    ),
    "piece": ("command", "chunk", "member", "groups", "start_ns", "end_ns", "status"),
    "copy": ("command", "source", "target", "nbytes", "cause", "is_staged", "start_ns", "end_ns", "status"),
    "work": ("command", "what", "member", "nbytes", "cause", "start_ns", "end_ns", "status"),
    "turn": ("start_ns", "end_ns", "cpu_ns"),
    "build": ("start_ns", "end_ns", "cpu_ns"),
    "resident": ("member", "at_ns", "nbytes"),
    "recording": ("id", "kind", "nbytes", "kernel", "shape", "is_on_host", "operations", "asked"),
    "replayed": ("lines",),
    "asked": ("id", "row"),
    "program": ("id", "at_ns", "object"),
    "buffer": ("id", "at_ns", "nbytes", "is_defined"),
    "release": ("id", "at_ns"),
}  # fmt: skip
"""The rows of each kind.  Times are of the host's monotonic clock; 0: it never came to that.  ``status``: 0,
or -1 when it failed; a command's is its event's.  Memories (``source``, ``target``): 0 is the host, m + 1 is
member m; ``member`` -1 is the host.  ``known``: "binding" or "plan" when a launch used an earlier one.
Of commands that the player executed there are ``recording`` and ``replayed``, see ``replayed.py``.
``asked``: what equal commands ask for, see ``asked.py``; ``program``: packed objects, in base64;
``release``: of a buffer or a program.  With these ``sdi predict`` plans all of it again.
An assignment is a "piece" in the files: so it was named when they were first written."""


class Recorder:
    """Records one session.  Any thread may record; ``close`` ends it.

    ``command``, of assignments, copies and other work: the command that they were issued for.
    """

    def __init__(self, folder: Path, opening: dict[str, object]) -> None:
        """``opening`` tells about the session: it becomes the first line.  Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = whole_file.open_new(folder / f"service-{os.getpid()}.jsonl")
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._rows: deque[tuple[object, ...]] = deque()
        self._open: dict[int, tuple[int, str, int, int]] = {}
        self._asked_by: dict[int, int] = {}
        self._asked: dict[Command, int] = {}
        self._num_asked = 0
        self._unfinished: list[tuple[object, ...]] = []
        self._shapes = self._recordings = 0
        self._begun = (0, 0)
        self._failed = False
        self._stop = threading.Event()
        opened = {"version": VERSION, "pid": os.getpid(), "opened_ns": time.monotonic_ns()}
        try:
            self._file.write(json.dumps(["open", {**opened, **opening}]) + "\n")
            self._file.flush()
        except OSError:
            with suppress(OSError):
                self._file.close()
            raise
        self._thread = threading.Thread(target=self._run, name="sdi-profile", daemon=True)
        self._thread.start()

    # -- commands: sdi-scheduler ------------------------------------------------------------------------

    def arrived(self, command: int, queue: int, kind: str, nbytes: int, now_ns: int, asked: int = 0) -> None:
        """A command came from the application.  ``nbytes``: that it reads, writes, copies or fills."""
        self._open[command] = (queue, kind, nbytes, now_ns)
        self._asked_by[command] = asked

    def asked(self, command: Command) -> int:
        """The number by which rows refer to what ``command`` asks for."""
        known = comparable(command)
        number = self._asked.get(known, 0)
        if not number:
            if len(self._asked) >= _ASKED_MAX:
                self._asked.clear()
            self._num_asked += 1
            number = self._asked[known] = self._num_asked
            self._rows.append(("asked", number, row_of(known)))
        return number

    def program(self, build: int, packed: bytes) -> None:
        """A program was built; ``packed``: what it can be made from again."""
        text = b2a_base64(packed, newline=False).decode()
        self._rows.append(("program", build, time.monotonic_ns(), text))

    def created(self, buffer: int, nbytes: int, is_defined: bool) -> None:
        """A buffer was made, which the application has filled if it ``is_defined``."""
        self._rows.append(("buffer", buffer, time.monotonic_ns(), nbytes, int(is_defined)))

    def released(self, number: int) -> None:
        """A buffer or a program has gone."""
        self._rows.append(("release", number, time.monotonic_ns()))

    def finished(self, command: int, submitted_ns: int, start_ns: int, end_ns: int, status: int) -> None:
        """A command has its final status and times."""
        came = self._open.pop(command, None)
        if came is not None:
            asked = self._asked_by.pop(command, 0)
            self._rows.append(("command", command, *came, submitted_ns, start_ns, end_ns, status, asked))

    def launched(
        self, command: int, kernel: str, shape: int, known: str, begin_ns: int, bound_ns: int, held_ns: int
    ) -> None:
        """A command launched ``kernel`` as ``shape`` says.  It was begun at ``begin_ns``, had
        its plan at ``bound_ns`` and is issued now; for ``held_ns`` of that it waited for memory.
        """
        now_ns = time.monotonic_ns()
        self._rows.append(("launch", command, kernel, shape, known, begin_ns, bound_ns, now_ns, held_ns))

    def shape(self, **columns: object) -> int:
        """How launches are cut that refer to the number returned (see ``COLUMNS``)."""
        self._shapes += 1
        self._rows.append(("shape", self._shapes, *[columns[name] for name in COLUMNS["shape"][1:]]))
        return self._shapes

    def assignment(self, command: int, chunk: int, member: int, groups: int, ticket: Ticket) -> None:
        """A member got ``groups`` work-groups of a launch."""
        self._rows.append(("piece", command, chunk, member, groups, ticket))

    def copied(
        self,
        command: int,
        source: int,
        target: int,
        nbytes: int,
        cause: str,
        is_staged: bool,
        ticket: Ticket,
    ) -> None:
        """A copy between two memories was issued."""
        self._rows.append(("copy", command, source, target, nbytes, cause, is_staged, ticket))

    def worked(self, command: int, what: str, member: int, nbytes: int, cause: str, ticket: Ticket) -> None:
        """Something else was issued on a member, or on the host (-1); see ``Work``."""
        self._rows.append(("work", command, what, member, nbytes, cause, ticket))

    def resident(self, member: int, nbytes: int) -> None:
        """So many bytes are allocated on a member from now on."""
        self._rows.append(("resident", member, time.monotonic_ns(), nbytes))

    # -- what the player executed: whoever has the turn ------------------------------------------------

    def recording(
        self,
        kind: str,
        nbytes: int,
        kernel: str,
        shape: int,
        is_on_host: bool,
        operations: Sequence[tuple[object, ...]],
        asked: int = 0,
    ) -> int:
        """What commands come to that refer to the number returned."""
        self._recordings += 1
        told = (
            "recording",
            self._recordings,
            kind,
            nbytes,
            kernel,
            shape,
            is_on_host,
            list(operations),
            asked,
        )
        self._rows.append(told)
        return self._recordings

    def replayed(self, lines: bytes) -> None:
        """Commands were executed: ``struct logged`` of the player."""
        self._rows.append(("replayed", lines))

    # -- the service's own work: any thread ---------------------------------------------------------------

    def begin(self) -> tuple[int, int]:
        """Now, as time and as processor time of this thread, in ns."""
        return time.monotonic_ns(), time.thread_time_ns()

    def turn_begins(self) -> None:
        """This thread has the scheduler's turn, and will do something."""
        self._begun = self.begin()

    def turn_ends(self) -> None:
        """It does no more."""
        end_ns, cpu_ns = self.begin()
        self._rows.append(("turn", self._begun[0], end_ns, cpu_ns - self._begun[1]))

    def built(self, work: Callable[..., _T]) -> Callable[..., _T]:
        """``work``, a build, with its time recorded."""

        def timed(*arguments: object) -> _T:
            start_ns, start_cpu_ns = self.begin()
            try:
                return work(*arguments)
            finally:
                end_ns, end_cpu_ns = self.begin()
                self._rows.append(("build", start_ns, end_ns, end_cpu_ns - start_cpu_ns))

        return timed

    # -- the file -----------------------------------------------------------------------------------------

    def close(self, closing: dict[str, object]) -> None:
        """Write everything, also what never ended, and ``closing`` as the last line."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        now_ns = time.monotonic_ns()
        for command, came in self._open.items():
            asked = self._asked_by.pop(command, 0)
            self._rows.append(("command", command, *came, 0, 0, 0, 0, asked))
        self._open.clear()
        self._write(True)
        self._put(["close", {"closed_ns": now_ns, **closing}])
        try:
            self._file.close()
        except OSError as error:
            self._give_up(error)

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            self._write(False)

    def _write(self, is_end: bool) -> None:
        """Write the rows whose tickets are done; at the end all."""
        waiting, self._unfinished = self._unfinished, []
        rows: dict[str, list[Sequence[object]]] = {}
        for row in self._taken(waiting):
            last = row[-1]
            if isinstance(last, bytes):
                self._put_all(rows)  # the recordings that it refers to come first, wherever the file ends
                text = b2a_base64(last, newline=False).decode()
                self._put_text(f'["replayed",[["{text}"]]]')
            elif not isinstance(last, Ticket):
                rows.setdefault(str(row[0]), []).append(row[1:])
            elif last.done or is_end:
                status = -1 if last.error is not None else 0
                rows.setdefault(str(row[0]), []).append((*row[1:-1], last.start_ns, last.end_ns, status))
            else:
                self._unfinished.append(row)
            if sum(map(len, rows.values())) >= _ROWS_MAX:
                self._put_all(rows)
        self._put_all(rows)
        try:
            self._file.flush()
        except OSError as error:
            self._give_up(error)

    def _taken(self, waiting: Iterable[tuple[object, ...]]) -> Iterable[tuple[object, ...]]:
        """The rows that still wait, then the new ones."""
        yield from waiting
        while self._rows:
            yield self._rows.popleft()

    def _put_all(self, rows: dict[str, list[Sequence[object]]]) -> None:
        for kind, found in rows.items():
            self._put([kind, found])
        rows.clear()

    def _put(self, line: list[object]) -> None:
        self._put_text(json.dumps(line, separators=(",", ":")))

    def _put_text(self, line: str) -> None:
        if self._failed:
            return
        try:
            self._file.write(line + "\n")
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """The session goes on without its profile."""
        if not self._failed:
            self._failed = True
            _log.warning("SDI_PROFILE: %s: the rest of the profile is lost", error)
