"""A program of a driver device, which is built when it is needed first, if enough is known of it.

To build from its text what it has on disk takes PoCL 17 ms, and applications build more programs than
they launch kernels of: a library has one for each size that may come.  What an application can ask of a
built program is kept, so that a program that was built before need not be built for the answer; so is
whether a kernel of it was launched, since then it probably will be again (``ahead.py``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import astuple, fields
from typing import Final

from pyopencl import _cl
from pyopencl import program_info as asked_of

from sdi.clc import kept
from sdi.devices.base import KernelFacts

ProgramKey = tuple[str, str]
"""Text and options: a driver builds the same from the same."""
PUT_OFF_NS: Final = 300_000_000
"""What took longer to build is built when it is asked for: a session waits for what was put off."""
_KIND: Final = "built"
_FACTS: Final = ["took_ns", "is_used", *[each.name for each in fields(KernelFacts)]]
"""What is kept: of the program, and of each kernel, in this order: sdi with other facts has its own files."""


class DriverProgram:
    """``key``, built by ``build`` with a compiler that ``compiler`` tells from others; members of a device
    share it.  Any thread.

    Raises BuildError when it is made, unless building it is put off: then ``handle`` may.
    ``facts``: of its kernels, as far as they are known.
    """

    def __init__(self, key: ProgramKey, compiler: str, build: Callable[[], _cl._Program]) -> None:
        self.key: Final = key
        self.facts: Final[dict[str, KernelFacts]] = {}
        self._build: Final = build
        self._lock: Final = threading.Lock()
        self._handle: _cl._Program | None = None
        self._took_ns = 0
        self._is_used = False
        self._name = "" if kept.may_include(key[0]) else kept.name_of(*key, compiler, _FACTS)
        known = kept.find(_KIND, self._name) if self._name else None
        if isinstance(known, tuple):
            self._took_ns, self._is_used, facts = known
            self.facts.update({kernel: KernelFacts(*each) for kernel, each in facts.items()})
        self._are_all_known = bool(self.facts)
        if not self.facts or self._took_ns > PUT_OFF_NS:
            before_ns, begin_ns = self._took_ns, time.monotonic_ns()
            self._handle = build()
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

    def use(self) -> None:
        """A kernel of it is launched."""
        if not self._is_used:
            self._is_used = True
            if self._are_all_known:
                self._keep()

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
