"""Issuing in steps: where memory can be had only after something that was issued before is done."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from sdi.devices.ticket import Ticket

T = TypeVar("T")

Steps = Generator[list[Ticket], None, T]
"""Issues as it runs.  Each time it stops, it goes on when the tickets that it gives are done, failed or not.

The engine issues nothing else meanwhile.  No deadlock: the tickets are those of operations that were issued
before, which wait for others issued before them and for the application's copies, never for what is held.
"""
