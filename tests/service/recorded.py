"""What services were told by real programs: recorded where it comes in, for tests that damage it.

Run as the service would be (``... 3 4 ROOM ADDRESSES``): the service, which writes every record that it gets,
and what its builds have, to a file in the folder ``OCL_TEST_RECORD``.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdi.clc.model import KernelModel
from sdi.service.decode import field_of
from sdi.service.door import Door, Limits, RecordEntry
from sdi.wire.arguments import ARG_ENTRY, ArgumentKind
from sdi.wire.layout import layout
from sdi.wire.opencl import DeviceInfo, u32
from sdi.wire.records import COMMANDS, HEADER, Op, record_layout

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "OCL_TEST_RECORD"
LIMITS = Limits(1 << 16, 1 << 12)
KINDS = frozenset(op for op in Op if op not in (Op.FACTS, Op.REPLY, Op.NOTICE, Op.RING))
"""All kinds of records that come in."""
_HEADER = layout(HEADER)


@dataclass(frozen=True, slots=True)
class Built:
    """The kernels that a build has."""

    build: int
    kernels: tuple[KernelModel, ...]


Stream = Sequence[bytes | Built]
"""All that one service was told, in order; where a build was done what it has."""


def streams(folder: Path) -> list[Stream]:
    """What was recorded in ``folder``."""
    found: list[Stream] = []
    for path in sorted(folder.glob("*.records")):
        with path.open("rb") as file:
            stream: list[bytes | Built] = []
            while True:
                try:
                    stream.append(pickle.load(file))
                except EOFError:
                    break
        found.append(stream)
    return found


def service(folder: Path) -> Path:
    """A stand-in for Python, for ``SDI_PYTHON``, that records."""
    script = folder / "python3"
    command = f'PYTHONPATH={ROOT} exec {sys.executable} -m tests.service.recorded "$@"'
    script.write_text(f"#!/bin/sh\n{command}\n")
    script.chmod(0o755)
    return script


def environ(folder: Path) -> dict[str, str]:
    """Variables with which a program's service records: what C executes Python never sees."""
    return {FOLDER: str(folder), "SDI_PYTHON": str(service(folder)), "SDI_PLAYER": "off"}


class Replay:
    """A door before which a recorded stream passes.  ``at``: the next record."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._events: set[int] = set()
        self.door = Door(LIMITS, self._events.__contains__)
        self.kernels: dict[int, tuple[KernelModel, ...]] = {}

    def records(self) -> Iterator[bytes]:
        """Each record, before it comes in."""
        for item in self._stream:
            if isinstance(item, Built):
                self.door.built(item.build, item.kernels)
                self.kernels[item.build] = item.kernels
                continue
            yield item
            self.admit(self.door.check(item))

    def admit(self, entry: RecordEntry) -> None:
        """A record comes in."""
        self.door.admit(entry)
        if entry.op in COMMANDS or entry.op is Op.CREATE_USER_EVENT:
            self._events.add(entry.id)
        elif entry.op is Op.RELEASE_EVENT:
            self._events.discard(entry.id)
        elif entry.op is Op.RELEASE_BUILD:
            self.kernels.pop(entry.id, None)

    def ids(self) -> list[int]:
        """Some that mean something."""
        return [*list(self._events)[-8:], *list(self.door.buffers)[-8:], *list(self.kernels)[-4:]]


def kinds(stream: Stream) -> set[str]:
    """The kinds of records in a stream, and what else is worth damaging: rectangles and images."""
    found: set[str] = set()
    for record in stream:
        if isinstance(record, Built):
            continue
        op = Op(_HEADER.unpack_from(record)[1])
        fields = record_layout(op).unpack_from(record)
        found.add(op.name)
        if op in (Op.READ, Op.WRITE, Op.FILL, Op.MAP, Op.UNMAP) and max(fields[9:11]) > 1:
            found.add(f"{op.name} of a rectangle")
        if op is Op.COPY and max(fields[11:13]) > 1:
            found.add("COPY of a rectangle")
        if op is Op.WRITE and field_of(op, fields, "staged_at"):
            found.add("WRITE of staged bytes")
        if op is Op.WRITE and field_of(op, fields, "carried_nbytes"):
            found.add("WRITE with its bytes")
        if op is Op.FILL and field_of(op, fields, "data_type"):
            found.add("FILL of an image")
        if op is Op.NDRANGE:
            found |= {f"NDRANGE with {kind.name}" for kind in _argument_kinds(record, fields)}
            if field_of(op, fields, "num_regions"):
                found.add("NDRANGE with regions")
        if op in COMMANDS and fields[5]:
            found.add("a wait list")
    return found


def _argument_kinds(record: bytes, fields: tuple[int, ...]) -> Iterator[ArgumentKind]:
    at = record_layout(Op.NDRANGE).size + 8 * fields[5]
    for _ in range(field_of(Op.NDRANGE, fields, "num_args")):
        kind, nbytes = layout(ARG_ENTRY).unpack_from(record, at)
        at += 8 + nbytes + -nbytes % 8
        yield ArgumentKind(kind)


WANTED = frozenset(
    {op.name for op in KINDS}
    | {f"{name} of a rectangle" for name in ("READ", "WRITE", "COPY", "FILL", "MAP", "UNMAP")}
    | {
        "FILL of an image",
        "WRITE with its bytes",
        "WRITE of staged bytes",
        "a wait list",
        "NDRANGE with regions",
    }
    | {f"NDRANGE with {kind.name}" for kind in ArgumentKind}
)
"""What recorded programs have to tell."""


def _record(arguments: list[str]) -> int:
    """Be the service, and write down what it is told."""
    from sdi.service import dispatch, facts
    from sdi.service import main as server

    file = Path(os.environ[FOLDER], f"{os.getpid()}.records").open("wb")  # noqa: SIM115
    came, built = dispatch.Dispatcher.act, Door.built

    def note(self: Any, number: int, record_id: int, record: bytes, has_more: bool) -> None:
        pickle.dump(record, file)
        came(self, number, record_id, record, has_more)

    def note_built(self: Any, build: int, kernels: Sequence[KernelModel]) -> None:
        pickle.dump(Built(build, tuple(kernels)), file)
        built(self, build, kernels)

    said = facts.image_info

    def with_sub_groups(*arguments: Any, **more: Any) -> dict[int, bytes]:
        """Members' drivers need not have them; then they refuse to answer what programs ask."""
        return said(*arguments, **more) | {int(DeviceInfo.MAX_NUM_SUB_GROUPS): u32(1)}

    facts.image_info = with_sub_groups
    dispatch.Dispatcher.act = note  # type: ignore[method-assign]
    Door.built = note_built  # type: ignore[method-assign]
    try:
        return server.main(arguments)
    finally:
        file.close()


if __name__ == "__main__":
    # Under this name what is written down can be read.
    from tests.service import recorded

    os._exit(recorded._record(sys.argv[-4:]))
