"""The code of dataclasses' methods, compiled once for all services of a user.

A dataclass writes its methods as text and compiles them whenever its module is imported, 0.4 ms each time:
Python keeps the bytecode of modules, but not of this.  The service has two hundred of them, which was a fifth
of its start.  Here the same texts are looked up in a file of ``sdi.cache``, and only new ones are compiled.

Nothing else changes: a text stands for itself, so it can't be out of date, and the file is one Python's own.
A Python whose dataclasses work without ``exec`` compiles as ever.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import marshal
import sys
from collections.abc import Mapping
from types import CodeType

from sdi import cache

_log = logging.getLogger("sdi.cache")

_KIND = "dataclasses"
_TEXTS_MAX = 5_000
_MARSHAL_VERSION = 4


class CompiledTexts:
    """What ``dataclasses`` finds under the name of ``exec`` while it is ``installed``.

    Owned by: whoever makes it; any thread may import meanwhile.
    """

    def __init__(self) -> None:
        self._name = f"{sys.implementation.cache_tag}-{importlib.util.MAGIC_NUMBER.hex()}"
        self._kept = _loaded(cache.read(_KIND, self._name))
        self._used: dict[str, CodeType] = {}

    def install(self) -> None:
        """Have dataclasses made from now on use what is kept."""
        vars(dataclasses)["exec"] = self._execute

    def remove(self) -> None:
        """Leave the module as it was."""
        vars(dataclasses).pop("exec", None)

    def save(self) -> None:
        """Keep what was compiled here."""
        if self._used.keys() <= self._kept.keys():
            return
        together = {**self._kept, **self._used}
        if len(together) > _TEXTS_MAX:  # most are of sources that have changed
            together = self._used
        cache.write(_KIND, self._name, marshal.dumps(together, _MARSHAL_VERSION), most=8)

    def _execute(self, text: str, variables: dict[str, object], names: Mapping[str, object]) -> None:
        code = self._kept.get(text)
        if code is None:
            code = compile(text, "<string>", "exec", dont_inherit=True)
        self._used[text] = code
        exec(code, variables, names)


def _loaded(content: bytes | None) -> dict[str, CodeType]:
    if content is None:
        return {}
    try:
        found = marshal.loads(content)
    except (ValueError, EOFError, TypeError):
        found = None
    if not isinstance(found, dict):
        _log.debug("the bytecode of dataclasses can't be read")
        return {}
    return found
