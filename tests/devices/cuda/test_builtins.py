"""What built-in functions, operators, conversions and swizzles compute on a GPU, against the CPU driver."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sdi.devices.base import Device
from sdi.devices.cuda.gpu import cuda_devices
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.opencl.member import DriverDevice
from tests.clc.builtin_programs import ITEMS, Case, inputs_of
from tests.clc.builtin_references import RESULTS_PER_ITEM, cpu_member, kept, parts, results

PARTS = parts()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """No thread is left; the CUDA driver keeps descriptors for as long as the process lives."""
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sdi-")]


@pytest.fixture(scope="module")
def gpu() -> Iterator[Device]:
    """A member on the first GPU."""
    found = cuda_devices()
    if not found:
        pytest.skip("no CUDA GPU, or pycuda or NVRTC is not installed")
    member = CudaDevice(found[0], 0, 1 << 30)
    yield member
    member.close()


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device | None]:
    """A member on the CPU driver, where there is one."""
    found = cpu_member()
    yield next(found, None)
    next(found, None)


def wanted_of(cpu: Device | None, part: str, cases: list[Case]) -> list[np.ndarray]:
    """The CPU driver's results: kept ones, or new ones."""
    found = kept(part, cases)
    if found is None:
        if cpu is None:
            pytest.skip("no OpenCL driver offers a CPU device, and BUILTIN_REFERENCES has no results")
        found = results(cpu, cases)
    return found


def references(case: Case, driver: np.ndarray) -> np.ndarray:
    """What ``case`` should write: what the CPU driver wrote, but PoCL 5's fmod of 8 doubles is not exact."""
    exact = {"fmod": np.fmod, "remainder": np.frompyfunc(_remainder, 2, 1)}.get(case.name)
    if exact is None:
        return driver
    made = driver.copy()
    a, b, _ = (array.reshape(ITEMS, 16) for array in inputs_of(case))
    with np.errstate(all="ignore"):
        values = exact(a, b).astype(driver.dtype)
    for place in range(0, RESULTS_PER_ITEM, 16):
        count = 15 if place == 32 else 16
        made.reshape(ITEMS, RESULTS_PER_ITEM)[:, place : place + count] = values[:, :count]
    return made


def _remainder(a: float, b: float) -> float:
    try:
        return math.remainder(a, b)
    except ValueError:
        return math.nan


def differing(case: Case, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Places where results differ by more than the case allows; both sides may be off by ``ulps``."""
    if case.result == "ushort" and "half" in case.name:
        found, wanted = found.view(np.float16), wanted.view(np.float16)
    if found.dtype.kind != "f":
        return np.flatnonzero(found != wanted)
    with np.errstate(all="ignore"):
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        if case.ulps:
            near = np.abs(found - wanted) <= 2 * case.ulps * np.spacing(np.abs(wanted))
            # One may overflow where the other just does not.
            most = np.finfo(wanted.dtype).max
            far = [np.where(np.isinf(x), np.copysign(most, x), x) for x in (found, wanted)]
            near |= np.abs(far[0] - far[1]) <= 2 * case.ulps * np.spacing(most)
            same |= near & ~np.isnan(found) & ~np.isnan(wanted)
    return np.flatnonzero(~same)


def test_the_cpu_driver_is_found_and_computes_cases(driver: DriverDevice, cpu: Device | None) -> None:
    """Where there is one: else all of the cases below would be skipped."""
    assert cpu is not None and cpu.capabilities.kind is driver.kind
    part, cases = next(iter(PARTS.items()))
    found = results(cpu, cases[:2])
    assert [array.view(np.uint8).any() for array in found] == [True, True], part


@pytest.mark.timeout(400)
@pytest.mark.parametrize("part", PARTS)
def test_cases_compute_what_the_cpu_driver_does(gpu: Device, cpu: Device | None, part: str) -> None:
    cases = PARTS[part]
    drivers = wanted_of(cpu, part, cases)
    wrong = []
    for case, found, driver in zip(cases, results(gpu, cases), drivers, strict=True):
        wanted = references(case, driver)
        places = differing(case, found, wanted)
        assert wanted.view(np.uint8).any(), f"{case.name} writes nothing"
        if places.size:
            at = int(places[0])
            item, place = divmod(at, RESULTS_PER_ITEM)
            given = [array[16 * item + place % 16] for array in inputs_of(case)]
            wrong.append(
                f"{case.name}: {places.size} differ, result {place} of item {item}: {found[at]!r}, not "
                f"{wanted[at]!r}, perhaps of {given}"
            )
    assert not wrong, "\n".join(wrong)
