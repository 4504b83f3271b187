"""Runs generated programs on images, and says which of them read something else than numpy arrays have.

``python -m tests.generated.compare FIRST COUNT [--members 1,2,3,5,8] [--commands 24] [--late] [--json]
[--more] [--ranks 3] [--devices 1,0] [--far]``
runs each program under both protocols, with and without a limit per member that makes launches spill and go
in chunks, also with a file for what the host has no room for, on one of the numbers of members after the
other; ``--late``: one member of each image is slow.
``--more``: see ``generate``.
``--ranks``: members are those of a job of so many processes: of the MPI job of which this is rank 0, or of
processes that this one starts.  ``--devices``: as SDI_DEVICES.  ``--far``: they share no memory.
Ends with 1 when a program differs.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from sdi.cluster.head import Heads
from sdi.cluster.job import Job
from sdi.cluster.members import facts_of, host_id, node_memories, open_job_members
from sdi.devices.base import Device
from sdi.devices.discover import MemberSettings, all_devices, open_members
from sdi.vmem.accounting import Accounting
from sdi.vmem.memory import Coherence
from sdi.vmem.spill.budget import Spill
from tests.cluster.jobs import job_of
from tests.devices.testing.hooks import hooks
from tests.generated.application import Application
from tests.generated.generate import generate
from tests.service.wire_client import WireClient

LIMITS_NBYTES = {1: 64 << 10, 2: 64 << 10, 3: 64 << 10, 5: 24 << 10, 8: 16 << 10}
"""By members: less than programs want of each, so that launches spill and go in chunks."""


@dataclass(frozen=True, slots=True)
class Image:
    """What programs run on.

    ``limit_nbytes``: what each member may hold, and the own memory of each node of a job; 0 for no limit.
    ``spills_to_files``: so may the host, and the rest goes to a file.
    """

    members: int
    coherence: Coherence = "lazy"
    limit_nbytes: int = 0
    late: int | None = None
    devices: str | None = None
    spills_to_files: bool = False

    def __str__(self) -> str:
        limit = f"-{self.limit_nbytes >> 10}K" if self.limit_nbytes else ""
        late = "" if self.late is None else f"-member{self.late}-late"
        return f"N{self.members}-{self.coherence}{limit}{late}{'-file' * self.spills_to_files}"

    @contextmanager
    def open(self, job: Job | None = None) -> Iterator[tuple[Application, Accounting]]:
        """A session on this image.  ``job``: whose members these are."""
        settings = MemberSettings(
            count=self.members,
            devices=self.devices,
            memory_nbytes=self.limit_nbytes or None,
            node_memory_nbytes=self.limit_nbytes or None,
            testing=None if self.late is None else hooks(late=self.late),
        )
        share = None if job is None else job.share
        members = _members(settings, job)
        nodes = [] if job is None else node_memories(settings, job, members)
        spill = (
            Spill(Path(tempfile.gettempdir()), 1 << 30, self.limit_nbytes) if self.spills_to_files else None
        )
        has_limits = self.limit_nbytes != 0  # else one member alone computes in the arena
        with WireClient(
            members,
            "always",
            self.coherence,
            share=share,
            nodes=nodes,
            spill=spill,
            has_limits=has_limits,
        ) as client:
            if job is not None:
                client.session.keep_parts(partial(Heads, job))
            yield Application(client), client.session.counters._accounting
        if job is not None:
            job.end_session()


def _members(settings: MemberSettings, job: Job | None) -> list[Device]:
    if job is None:
        return open_members(settings)
    devices = all_devices()
    return open_job_members(settings, job, devices, facts_of(devices))


def images(members: int, late: int | None = None, devices: str | None = None) -> list[Image]:
    """Both protocols, with a limit and without one; with files.  ``members``: a key of ``LIMITS_NBYTES``."""
    protocols: tuple[Coherence, ...] = ("lazy", "host")
    limit = LIMITS_NBYTES[members]
    found = [Image(members, each, nbytes, late, devices) for each in protocols for nbytes in (0, limit)]
    return [*found, Image(members, "lazy", limit, late, devices, spills_to_files=True)]


class _Warnings(logging.Handler):
    """Keeps what the service warns about: generated programs give it no reason to."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


def compare(
    image: Image,
    seeds: Sequence[int],
    num_commands: int,
    more: bool,
    events: Counter[str],
    job: Job | None = None,
) -> list[str]:
    """What went wrong.  After a program that did the session is not used any more.

    ``more``: see ``generate``.  ``events`` gets what virtual memory did in all of them, and the most that a
    member held.
    """
    waiting, warnings = list(seeds), _Warnings()
    logging.getLogger().addHandler(warnings)
    found: list[str] = []
    while waiting:
        with image.open(job) as (application, accounting):
            while waiting:
                seed, before = waiting.pop(0), len(found)
                try:
                    application.run(generate(seed, num_commands, more))
                except (AssertionError, TimeoutError) as error:
                    found.append(f"{image}: {error}")
                found += [f"{image}: program {seed}: {text}" for text in warnings.found]
                warnings.found.clear()
                if len(found) > before:
                    break
            accounting.settle()
            peak = max(accounting.peak_nbytes)
            events.update(asdict(accounting.events))
            events["peak_nbytes"] = max(events["peak_nbytes"], peak)
            if image.limit_nbytes and peak > image.limit_nbytes:
                found.append(f"{image}: a member held {peak} bytes")
    logging.getLogger().removeHandler(warnings)
    return found


def main(arguments: list[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--members", default=",".join(map(str, LIMITS_NBYTES)))
    parser.add_argument("--commands", type=int, default=24)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--json", action="store_true", help="a line for each image instead of each chunk")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--devices")
    parser.add_argument("--far", action="store_true")
    given = parser.parse_args(arguments)
    host = None if given.far else host_id()
    with nullcontext() if given.ranks is None else job_of(given.ranks, host) as job:
        return 1 if _compare_all(given, job) else 0


def _compare_all(given: argparse.Namespace, job: Job | None) -> int:
    """How many programs differ."""
    counts = [int(text) for text in given.members.split(",")]
    differing = 0
    for first in range(given.first, given.first + given.count, given.chunk):
        stop = min(first + given.chunk, given.first + given.count)
        for number, members in enumerate(counts):
            seeds = range(first + (number - first) % len(counts), stop, len(counts))
            late = first // given.chunk % members if given.late else None
            for image in images(members, late, given.devices):
                events: Counter[str] = Counter()
                found = compare(image, seeds, given.commands, given.more, events, job)
                differing += len(found)
                print("".join(f"{text}\n" for text in found), end="", file=sys.stderr, flush=True)
                if given.json:
                    print(json.dumps({**asdict(image), "programs": len(seeds), **events}), flush=True)
        if not given.json:
            print(f"{stop - given.first} programs, {differing} differences", flush=True)
    return differing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
