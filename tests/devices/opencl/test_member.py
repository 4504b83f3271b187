"""Members whose driver refuses commands."""

from __future__ import annotations

import pyopencl as cl
import pytest

from sdi.devices.opencl.member import OpenCLDevice
from sdi.errors import DeviceFailed


class Refusing:
    """A queue whose flush fails so often, and then no more."""

    def __init__(self, times: int) -> None:
        self._times = times

    def flush(self) -> None:
        self._times -= 1
        if self._times >= 0:
            raise cl.LogicError("clFlush", cl.status_code.OUT_OF_RESOURCES, "")


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.devices.opencl.member.cl.enqueue_marker", lambda queue: None)


@pytest.mark.usefixtures("marked")
def test_a_command_that_is_refused_fails_and_names_the_member(
    members: list[OpenCLDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members[1], "_queue", Refusing(1))
    with pytest.raises(DeviceFailed, match="member 1"):
        members[1].flush()


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(("times", "is_lost"), [(0, False), (1, False), (2, True)])
def test_a_member_is_lost_when_it_refuses_twice(
    members: list[OpenCLDevice], monkeypatch: pytest.MonkeyPatch, times: int, is_lost: bool
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(members[0], "_queue", Refusing(times))
        assert members[0].is_lost() == is_lost
    assert not members[0].is_lost()
