"""A program of a driver device, which is built when it is needed first, if enough is known of it.

To build from its text what it has on disk takes PoCL 17 to 50 ms, and applications build more programs than
they launch kernels of: a library has one for each size that may come.  What an application can ask of a
built program is kept, so that a program that was built before need not be built for the answer; so is
whether a kernel of it was launched, since then it probably will be again (``ahead.py``).

An application that has binaries builds quickly without sdi, PoCL in 2 ms.  So the driver's binary is kept,
too, of what it launches.  To make one takes PoCL a tenth of a second for each kernel: without sdi the
application waits for that where it asks for its binary.  That is done before the first launch, since PoCL 3.1
ends the process where it happens while the program's kernels run (it finds other code than it counted).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import astuple, fields
from typing import Final

import pyopencl as cl
from pyopencl import _cl
from pyopencl import program_info as asked_of

from sdi import cache
from sdi.clc import kept
from sdi.devices.base import KernelFacts
from sdi.devices.opencl.building import binary_of
from sdi.errors import BuildError

_log = logging.getLogger(__name__)

ProgramKey = tuple[str, str]
"""Text and options: a driver builds the same from the same."""
PUT_OFF_NS: Final = 300_000_000
"""What took longer to build is built when it is asked for: a session waits for what was put off."""
_KERNELS_MAX: Final = 16
"""Of programs that have more, no binary is made: a session waits while one is."""
_KIND: Final = "built"
_BINARIES: Final = "binaries"
_launched: Final[set[str]] = set()
"""The names of programs of which this process launched a kernel."""
_first: Final = threading.Lock()
"""While the first launch of any program is prepared."""
_FACTS: Final = ["took_ns", "is_used", *[each.name for each in fields(KernelFacts)]]
"""What is kept: of the program, and of each kernel, in this order: sdi with other facts has its own files."""


Build = Callable[[bytes | None], _cl._Program]
"""A new program, of this binary or of the text.  Raises BuildError."""


class DriverProgram:
    """``key``, built by ``build`` with a compiler that ``compiler`` tells from others; members of a device
    share it.  Any thread.

    Raises BuildError when it is made, unless building it is put off: then ``handle`` may.
    ``facts``: of its kernels, as far as they are known.
    """

    def __init__(self, key: ProgramKey, compiler: str, build: Build) -> None:
        self.key: Final = key
        self.facts: Final[dict[str, KernelFacts]] = {}
        self._new: Final = build
        self._lock: Final = threading.Lock()
        self._handle: _cl._Program | None = None
        self._took_ns = 0
        self._is_used = self._is_launched = False
        self._is_binary_wanted = self._is_binary_kept = False
        self._name = "" if kept.may_include(key[0]) else kept.name_of(*key, compiler, _FACTS)
        known = kept.find(_KIND, self._name) if self._name else None
        if isinstance(known, tuple):
            self._took_ns, self._is_used, facts = known
            self.facts.update({kernel: KernelFacts(*each) for kernel, each in facts.items()})
        self._are_all_known = bool(self.facts)
        if not self.facts or self._took_ns > PUT_OFF_NS:
            before_ns, begin_ns = self._took_ns, time.monotonic_ns()
            self._handle = self._build()
            self._took_ns = time.monotonic_ns() - begin_ns
            if self.facts and self._took_ns < before_ns:
                self._keep()

    @property
    def handle(self) -> _cl._Program:
        """The driver's program.  Blocks where it was put off, and raises BuildError then."""
        with self._lock:
            if self._handle is None:
                self._handle = self._build()
            return self._handle

    @property
    def is_wanted(self) -> bool:
        """Whether it is not built, and kernels of it were launched in an earlier run."""
        return self._is_used and self._handle is None

    def want_binary(self) -> None:
        """The application has one of it."""
        self._is_binary_wanted = True

    def use(self) -> None:
        """A kernel of it is launched; called before that.  Blocks where a binary is made."""
        if not self._is_launched:
            with _first:
                self._prepare()

    def _prepare(self) -> None:
        if self._is_launched:
            return
        is_new = self._name != "" and self._name not in _launched
        if self._is_binary_wanted and is_new and len(self.facts) <= _KERNELS_MAX:
            self._keep_binary()
        _launched.add(self._name)
        self._is_launched = True
        if not self._is_used:
            self._is_used = True
            if self._are_all_known:
                self._keep()

    def _keep_binary(self) -> None:
        try:
            cache.folder(_BINARIES)
            program = self.handle
            if self._are_all_known and not self._is_binary_kept:
                kept.keep(_BINARIES, self._name, binary_of(program))
        except (BuildError, cl.Error, cache.NoCache) as cause:  # who launches it is told
            _log.debug("there is no binary: %s", cause)

    def _build(self) -> _cl._Program:
        binary = kept.find(_BINARIES, self._name) if self._name and self._are_all_known else None
        if isinstance(binary, bytes):
            try:
                made = self._new(binary)
            except BuildError as cause:
                _log.debug("a binary that was kept builds no more: %s", cause)
            else:
                self._is_binary_kept = True
                return made
        return self._new(None)

    def learn(self, kernel: str, facts: KernelFacts) -> None:
        """What the driver answered of a kernel; kept once it did of all."""
        if kernel not in self.facts:
            self.facts[kernel] = facts
            self._are_all_known = len(self.facts) == self.handle.get_info(asked_of.NUM_KERNELS)
            if self._are_all_known:
                self._keep()

    def _keep(self) -> None:
        if self._name:
            facts = {kernel: astuple(each) for kernel, each in self.facts.items()}
            kept.keep(_KIND, self._name, (self._took_ns, self._is_used, facts))
