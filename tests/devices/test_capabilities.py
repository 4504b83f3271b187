"""Kinds of members are found by their names, which profiles have."""

import pytest

from sdi.devices.capabilities import CPU, GPU, MemberKind, kind_named


@pytest.mark.parametrize(("name", "kind"), [("cpu", CPU), ("gpu", GPU), ("defined elsewhere", CPU)])
def test_a_kind_is_found_by_its_name(name: str, kind: MemberKind) -> None:
    assert kind_named(name) is kind
