"""Who may work together: the same version, the same records and the same objects."""

from __future__ import annotations

import re

import pytest

from sdi import __version__
from sdi.cluster import identity as module
from sdi.cluster import records
from sdi.cluster.identity import Stranger, check_same, identity, introduced, introduction
from sdi.cluster.node_facts import JobDevice, NodeFacts
from sdi.cluster.records import RecordKind
from sdi.devices.capabilities import CPU

FACTS = NodeFacts("1", "boot", "alpha", 7, (JobDevice("P", "cpu", CPU, "cpu", 4096, {1: b"x"}, 0),))


def test_an_introduction_tells_what_the_node_has() -> None:
    assert introduced(3, introduction(FACTS)) == FACTS
    assert re.fullmatch(re.escape(__version__) + r" \(messages [0-9a-f]{8}\)", identity())


def test_another_version_is_refused_before_anything_of_it_is_read() -> None:
    with pytest.raises(Stranger) as caught:
        introduced(3, b"0.0.1 (messages 00000000)\nnot even a pickle")
    assert str(caught.value) == (
        f"rank 3 has sdi 0.0.1 (messages 00000000), rank 0 has sdi {identity()}: all ranks need the same"
    )
    check_same(1, "a", 2, "a")


@pytest.mark.parametrize("what", ["field", "class", "version"])
def test_another_record_object_or_version_is_another_identity(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = identity()
    if what == "field":
        monkeypatch.setitem(records._FIELDS, RecordKind.DONE, "4q")
    elif what == "class":
        monkeypatch.setattr(module, "_PICKLED", module._PICKLED[1:])
    else:
        monkeypatch.setattr(module, "__version__", "9.9.9")
    assert identity() != before
