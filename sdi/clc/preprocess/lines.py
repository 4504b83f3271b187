"""Which line of the user's text an offset of the preprocessed text comes from."""

from __future__ import annotations

import bisect
import functools
import re

KERNEL_FILE = "<kernel>"
_LINE = re.compile(r'^#line (\d+) "((?:\\.|[^"\\])*)"$', re.MULTILINE)


@functools.lru_cache(2)
def line_map(text: str) -> LineMap:
    """The lines of a text that is asked for each of its kernels."""
    return LineMap(text)


class LineMap:
    """Reads the ``#line`` directives of a text once; lookups cost O(log lines).  Immutable."""

    def __init__(self, text: str) -> None:
        self._starts: list[int] = [0, *(end.end() for end in re.finditer("\n", text))]
        self._marks: list[tuple[int, int, str]] = [(0, 1, KERNEL_FILE)]
        for match in _LINE.finditer(text):
            physical = bisect.bisect_right(self._starts, match.start()) - 1
            name = re.sub(r"\\(.)", r"\1", match.group(2))
            self._marks.append((physical + 1, int(match.group(1)), name))

    def place(self, offset: int) -> tuple[str, int]:
        """(file, line) of an offset; the program itself is the file ``<kernel>``."""
        physical = bisect.bisect_right(self._starts, offset) - 1
        mark = self._marks[bisect.bisect_right(self._marks, physical, key=lambda m: m[0]) - 1]
        return (mark[2], mark[1] + physical - mark[0])

    def describe(self, offset: int) -> str:
        """``line 12``, or ``line 12 of file.h`` for an included file."""
        file, line = self.place(offset)
        return f"line {line}" if file == KERNEL_FILE else f"line {line} of {file}"
