"""What processes of a job must have in common to understand each other: the version, and what they say."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import fields
from typing import Final

from sdi import __version__
from sdi.cluster.node_facts import Asked, JobDevice, NodeFacts
from sdi.cluster.part import KeptOperation, KeptPart, KeptRecord, KeptUse
from sdi.cluster.records import layouts
from sdi.cluster.transport import Traffic
from sdi.devices.base import KernelFacts, SubGroupQuery
from sdi.devices.capabilities import Capabilities, MemberKind
from sdi.devices.discover import MemberSettings

_PICKLED: Final = (
    *(Asked, Capabilities, JobDevice, KeptOperation, KeptPart, KeptRecord, KeptUse),
    *(KernelFacts, MemberKind),
    *(MemberSettings, NodeFacts, SubGroupQuery, Traffic),
)
"""What is sent as Python's objects."""


class Stranger(ValueError):
    """Two ranks do not understand each other; one line."""


def identity() -> str:
    """The same for all processes that may work together: "0.1.0 (messages 1f2e3d4c)"."""
    records = sorted((kind.name, int(kind), layout) for kind, layout in layouts().items())
    classes = [(each.__name__, [(one.name, str(one.type)) for one in fields(each)]) for each in _PICKLED]
    digest = hashlib.blake2s(repr((records, classes)).encode(), digest_size=4).hexdigest()
    return f"{__version__} (messages {digest})"


def check_same(rank: int, said: str, other: int, other_said: str) -> None:
    """Raises Stranger where two ranks differ."""
    if said != other_said:
        raise Stranger(
            f"rank {rank} has sdi {said}, rank {other} has sdi {other_said}: all ranks need the same"
        )


def introduction(facts: NodeFacts) -> bytes:
    """What a node says first: its identity, in a line that any version can read, then what it has."""
    return identity().encode() + b"\n" + pickle.dumps(facts)


def introduced(rank: int, data: bytes) -> NodeFacts:
    """What rank ``rank`` has, by its introduction to rank 0.  Raises Stranger."""
    said, _, facts = data.partition(b"\n")
    check_same(rank, said.decode(errors="replace"), 0, identity())
    found = pickle.loads(facts)
    assert isinstance(found, NodeFacts)
    return found
