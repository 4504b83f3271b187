"""Members on one driver device, and what they have it build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.devices.opencl.programs import OpenCLPrograms


@pytest.fixture
def members(driver: DriverDevice) -> Iterator[list[OpenCLDevice]]:
    """Two on the CPU device."""
    opened = open_members(MemberSettings(count=2, devices=driver.name))
    yield [cast(OpenCLDevice, member) for member in opened]
    for member in reversed(opened):
        member.close()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The text and the options of each build that reaches the driver."""
    builds: list[tuple[str, str]] = []
    original = OpenCLPrograms._built

    def build(self: OpenCLPrograms, text: str, options: str, binary: bytes | None = None) -> object:
        builds.append((text, options))
        return original(self, text, options, binary)

    monkeypatch.setattr(OpenCLPrograms, "_built", build)
    return builds
