"""Kinds of compilers that are asked what they have defined; what they said is kept on disk."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Collection, Sequence

from sdi import cache
from sdi.clc.preprocess.probe import QUOTED, WIDTH, Answers, usual_questions
from sdi.dataclass import dataclass, field
from sdi.errors import BuildError

_log = logging.getLogger(__name__)
_KIND = "macros"

Ask = Callable[[Sequence[str], Sequence[str]], Answers]
"""Puts questions to a compiler that was given such options.  Blocks.  Raises BuildError if it refuses."""


@dataclass(slots=True, eq=False)
class Compiler:
    """One kind of compiler.  ``name``: all that its answers depend on, such as its version.

    What it was asked is kept, in memory and, if ``is_kept``, on disk.  Any thread.
    """

    name: str
    ask: Ask = field(repr=False)
    is_kept: bool = field(default=True, repr=False)
    _known: dict[tuple[str, ...], dict[str, str | None]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def answers(self, questions: Collection[str], options: tuple[str, ...]) -> Answers:
        with self._lock:
            known = self._known.get(options)
            if known is None:
                known = self._known[options] = self._read(options)
            missing = [question for question in questions if question not in known]
            if missing:
                if not known:
                    missing = list(dict.fromkeys([*usual_questions(), QUOTED, *missing]))
                known.update(self._asked(missing, options))
                self._write(options, known)
            return {question: known[question] for question in questions}

    def _asked(self, questions: Sequence[str], options: tuple[str, ...]) -> Answers:
        """A compiler that refuses some of the questions is asked the others; these it does not know.

        One that refuses the options knows nothing.
        """
        try:
            return self.ask(questions, options)
        except BuildError as cause:
            if len(questions) == 1:
                _log.info("%s can't be asked for %s: %s", self.name, questions[0], cause)
                return {questions[0]: None}
        if WIDTH in questions and not self._takes(options):
            return dict.fromkeys(questions)
        half = len(questions) // 2
        return {**self._asked(questions[:half], options), **self._asked(questions[half:], options)}

    def _takes(self, options: tuple[str, ...]) -> bool:
        try:
            self.ask([WIDTH], options)
        except BuildError as cause:
            _log.info("%s refuses %s: %s", self.name, " ".join(options), cause)
            return False
        return True

    def _file(self, options: tuple[str, ...]) -> str:
        return hashlib.sha256(repr((self.name, options, usual_questions())).encode()).hexdigest()

    def _read(self, options: tuple[str, ...]) -> dict[str, str | None]:
        content = cache.read(_KIND, self._file(options)) if self.is_kept else None
        return dict(json.loads(content)) if content is not None else {}

    def _write(self, options: tuple[str, ...], known: Answers) -> None:
        if self.is_kept:
            cache.write(_KIND, self._file(options), json.dumps(known).encode())
