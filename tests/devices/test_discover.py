"""Which driver devices become members, and their share of the memory."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import pyopencl as cl
import pytest

from sdi.devices import capabilities as kinds
from sdi.devices.discover import MemberSettings, choose, memory_shares, open_members
from sdi.devices.opencl.member import DriverDevice, driver_devices
from sdi.errors import ClError, DeviceFailed, Status
from tests.devices.conftest import finish
from tests.devices.testing.faulty import FaultyDevice
from tests.devices.testing.hooks import hooks
from tests.devices.testing.late import DelayedDevice


def device(
    platform: str, name: str, kind: kinds.MemberKind, unit: str, memory_nbytes: int = 1000
) -> DriverDevice:
    return DriverDevice(platform, name, kind, unit, memory_nbytes, {}, cast(cl.Device, None))


CPU = device("Portable", "cpu-one", kinds.CPU, "cpu", 4000)
OTHER_CPU = device("Vendor", "cpu-one again", kinds.CPU, "cpu", 4000)
GPUS = [device("NV", f"H{k}", kinds.GPU, f"pci {k}", 1000 + k) for k in range(3)]
SAME_GPU = device("Portable", "H0 by another driver", kinds.GPU, "pci 0")


class Refused(cl.RuntimeError):
    """What pyopencl raises where a driver answers with ``code``."""

    code = property(lambda self: self._code)

    def __init__(self, code: int) -> None:
        super().__init__(f"a driver answers {code}")
        self._code = code


class Platform:
    """One whose devices can't be listed."""

    name = "Broken"
    extensions = "cl_khr_icd"

    def __init__(self, code: int) -> None:
        self._code = code

    def get_devices(self) -> list[cl.Device]:
        raise Refused(self._code)


@pytest.mark.logs("the devices of Broken can't be listed")
def test_a_driver_that_refuses_to_list_its_devices_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    none, refused = Platform(Status.DEVICE_NOT_FOUND), Platform(Status.OUT_OF_HOST_MEMORY)
    monkeypatch.setattr(cl, "get_platforms", lambda: [none, refused])
    assert driver_devices() == []
    assert [record.getMessage() for record in caplog.records] == [
        "the devices of Broken can't be listed: a driver answers -6"
    ]


def test_no_platform_at_all_is_nothing_to_tell_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> list[cl.Platform]:
        raise Refused(Status.PLATFORM_NOT_FOUND_KHR)

    monkeypatch.setattr(cl, "get_platforms", none)
    assert driver_devices() == []


def test_all_gpus_are_members_by_default_each_once() -> None:
    assert choose([CPU, *GPUS, SAME_GPU], None, None) == GPUS


def test_fewer_members_than_gpus_are_the_first_ones() -> None:
    assert choose([CPU, *GPUS], 2, None) == GPUS[:2]


def test_a_gpu_is_never_shared() -> None:
    with pytest.raises(ClError, match=r"SDI_NUM_GPUS=4: there are 3 GPUs.*ask for at most 3") as caught:
        choose([CPU, *GPUS], 4, None)
    assert caught.value.status == Status.DEVICE_NOT_FOUND


@pytest.mark.parametrize(("count", "members"), [(None, 2), (1, 1), (5, 5)])
def test_without_gpus_members_share_the_first_cpu(count: int | None, members: int) -> None:
    assert choose([CPU, OTHER_CPU], count, None) == [CPU] * members


@pytest.mark.parametrize(
    ("selection", "count", "members"),
    [
        ("1", None, [GPUS[0]]),
        ("2,1", None, [GPUS[1], GPUS[0]]),
        ("1,1, h0", None, [GPUS[0]]),
        ("nv", 2, GPUS[:2]),
        ("portable", None, [CPU, CPU]),
        ("portable", 3, [CPU, CPU, CPU]),
        ("0,1", None, [CPU, GPUS[0]]),
        ("0,1", 4, [CPU, GPUS[0], CPU, CPU]),
    ],
)
def test_devices_are_selected_by_index_or_substring(
    selection: str, count: int | None, members: list[DriverDevice]
) -> None:
    assert choose([CPU, *GPUS], count, selection) == members


@pytest.mark.parametrize(
    ("selection", "status", "message"),
    [
        ("9", Status.DEVICE_NOT_FOUND, "'9' matches none of 0 = Portable: cpu-one"),
        ("amd", Status.DEVICE_NOT_FOUND, "'amd' matches none of"),
        (",", Status.DEVICE_NOT_FOUND, "selects nothing"),
    ],
)
def test_a_selection_that_matches_nothing_is_named(selection: str, status: Status, message: str) -> None:
    with pytest.raises(ClError, match=message) as caught:
        choose([CPU], None, selection)
    assert caught.value.status == status


def test_without_any_device_there_is_no_image() -> None:
    with pytest.raises(ClError) as caught:
        choose([], None, None)
    assert caught.value.status == Status.DEVICE_NOT_FOUND


def test_members_on_one_host_share_half_of_its_memory_and_gpus_keep_theirs() -> None:
    assert memory_shares([CPU, CPU]) == [1000, 1000]
    assert memory_shares([CPU, OTHER_CPU, CPU, CPU]) == [500] * 4
    assert memory_shares([GPUS[1], CPU]) == [1001 - 1001 // 8, 2000], "drivers keep some"


def test_settings_make_a_member_late_faulty_and_small(driver: DriverDevice) -> None:
    settings = MemberSettings(
        count=3, devices="0", memory_nbytes=4096, testing=hooks(late=1, faulty=(2, "broken"))
    )
    members = open_members(settings)
    try:
        assert [type(member) for member in members][1:] == [DelayedDevice, FaultyDevice]
        assert all(member.capabilities.memory_nbytes == 4096 for member in members)
        assert len({member.capabilities.name for member in members}) == 3
        faulty = members[2]
        program = faulty.build("kernel void broken() {} kernel void works() {}", [])
        finish(faulty.launch(faulty.bind(program, "works", []), (1, 1, 1), (1, 1, 1), 1, []))
        with pytest.raises(DeviceFailed, match="broken"):
            finish(faulty.launch(faulty.bind(program, "broken", []), (1, 1, 1), (1, 1, 1), 1, []))
    finally:
        for member in reversed(members):
            member.close()


def test_open_members_stay_below_200_mb_before_the_first_build(driver: DriverDevice) -> None:
    text = """
from pathlib import Path
from sdi.devices.discover import MemberSettings, open_members
members = open_members(MemberSettings(count=8, devices="0"))
print(*(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
for member in members:
    member.close()
"""
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert int(out.split()[1]) < 200 * 1024
