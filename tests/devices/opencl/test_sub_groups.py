"""What drivers say of sub-groups is what is told; what they refuse, too."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pyopencl as cl
import pytest

from sdi.devices.base import SubGroupQuery
from sdi.devices.opencl import sub_groups
from sdi.devices.opencl.member import DriverDevice
from sdi.devices.opencl.sub_groups import answered
from sdi.errors import ClError, DeviceFailed, Status

COUNT, LOCAL_SIZE, MOST = 0x2034, 0x11B8, 0x11B9


@pytest.fixture
def kernel(driver: DriverDevice) -> cl.Kernel:
    """One of the CPU device."""
    context = cl.Context([driver.handle])
    program = cl.Program(context, "kernel void k(global int *a) { a[0] = 1; }").build()
    return cl.Kernel(program, "k")


def saying(status: int, *numbers: int) -> tuple[Callable[..., int], list[tuple[Any, ...]]]:
    """A driver's function, and what it is called with."""
    calls: list[tuple[Any, ...]] = []

    def get(
        kernel: int, device: int, param: int, given_nbytes: int, given: Any, nbytes: int, *to: Any
    ) -> int:
        calls.append((kernel, device, param, list(given)[: given_nbytes // 8] if given else None, nbytes))
        for at, number in enumerate(numbers):
            to[0][at] = number
        return status

    return get, calls


def test_numbers_go_to_the_driver_and_come_back(
    driver: DriverDevice, kernel: cl.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = (kernel.int_ptr, driver.handle.int_ptr)
    for query, numbers, call in (
        (SubGroupQuery(COUNT, (8, 4), 1), (3,), (COUNT, [8, 4], 8)),
        (SubGroupQuery(LOCAL_SIZE, (2,), 3), (16, 2, 1), (LOCAL_SIZE, [2], 24)),
        (SubGroupQuery(MOST, (), 1), (1 << 40,), (MOST, None, 8)),
    ):
        get, calls = saying(0, *numbers)
        monkeypatch.setattr(sub_groups, "_function", lambda _, get=get: get)
        assert answered(kernel, driver.handle, "it", query) == numbers
        assert calls == [(*own, *call)]


@pytest.mark.parametrize("status", [Status.INVALID_VALUE, Status.INVALID_OPERATION, Status.OUT_OF_RESOURCES])
def test_what_a_driver_refuses_has_its_code_and_what_fails_is_a_failure(
    driver: DriverDevice, kernel: cl.Kernel, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    monkeypatch.setattr(sub_groups, "_function", lambda _: saying(status)[0])
    with pytest.raises((ClError, DeviceFailed)) as caught:
        answered(kernel, driver.handle, "it", SubGroupQuery(MOST, (), 1))
    if status is Status.OUT_OF_RESOURCES:
        assert isinstance(caught.value, DeviceFailed)
    else:
        assert isinstance(caught.value, ClError) and caught.value.status is status


def test_drivers_of_before_opencl_2_1_have_it_by_another_name(
    driver: DriverDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[bytes] = []

    class Loader:
        """Of a platform with that function, if ``address`` is not None."""

        def __init__(self, address: int | None) -> None:
            def find(platform: int, name: bytes) -> int | None:
                wanted.append(name)
                return address

            self.clGetExtensionFunctionAddressForPlatform = find

    old = SimpleNamespace(version="OpenCL 2.0 old", name="old", int_ptr=1)
    device = cast(cl.Device, SimpleNamespace(platform=old))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Loader(None))
    with pytest.raises(ClError, match="clGetKernelSubGroupInfoKHR"):
        sub_groups._function(device)
    here = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 0)
    address = ctypes.cast(here, ctypes.c_void_p).value
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Loader(address))
    found = sub_groups._function(device)
    assert ctypes.cast(cast(Any, found), ctypes.c_void_p).value == address
    assert wanted == [b"clGetKernelSubGroupInfoKHR"] * 2
    monkeypatch.undo()
    newest = sub_groups._function(driver.handle)
    assert ctypes.cast(cast(Any, newest), ctypes.c_void_p).value not in (None, address)
