"""Who finds out what is complete: the thread that issues operations while it is busy, else threads that wait.

A thread that is woken for every completion takes the GIL from the one that issues, each time; with a thread
per stream of four GPUs that was most of what a launch cost.  So a session that has commands to issue asks
its members in between what is complete (``poll``); only when it has nothing more to do are threads told to
wait in the driver (``idle``).  Members without threads of that kind are no part of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Pollable(Protocol):
    """A member whose operations can be asked whether they are complete."""

    def ask(self) -> None:
        """Find out what is done, without blocking; complete nothing yet."""

    def complete(self) -> bool:
        """Complete what ``ask`` found to be done; whether anything is left."""

    def arm(self) -> None:
        """Have threads complete what is left."""


class Polling:
    """Of one session and the members that it opened; each member has it from when it was made.

    ``is_busy``: the issuing thread will call ``poll`` or ``idle`` soon.  ``gathers``: what is said to other
    processes goes out together, when the issuing thread calls ``send``.  Only the session says so: members
    that are used without one complete operations by their threads.
    """

    __slots__ = ("_members", "_unsent", "gathers", "is_busy")

    def __init__(self) -> None:
        self.is_busy = False
        self.gathers = False
        self._unsent: list[Callable[[], None]] = []
        self._members: tuple[Pollable, ...] = ()

    def add(self, member: Pollable) -> None:
        """Ask ``member`` too."""
        self._members = (*self._members, member)

    def remove(self, member: Pollable) -> None:
        """``member`` has nothing left, and never will have."""
        self._members = tuple([each for each in self._members if each is not member])

    def later(self, send: Callable[[], None]) -> None:
        """While ``gathers``: call ``send`` at the end of it."""
        self._unsent.append(send)

    def send(self) -> None:
        """Who gathers has issued all: what was kept back goes out."""
        self.gathers = False
        unsent, self._unsent = self._unsent, []
        for send in unsent:
            send()

    def poll(self) -> bool:
        """Complete what is done on all members; whether anything is left.  On a thread that may issue.

        All are asked first: what waited for another's operation needs no question about that one then.
        """
        for member in self._members:
            member.ask()
        is_left = False
        for member in self._members:
            is_left |= member.complete()
        return is_left

    def idle(self) -> None:
        """The issuing thread has nothing to do: threads complete what is left, and what others issue."""
        self.is_busy = False
        for member in self._members:
            member.arm()
