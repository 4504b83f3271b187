"""An image of equal members answers for vendors, and what only NVIDIA's devices are asked, as they do."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from sdi import __version__
from sdi.devices.base import Device
from sdi.devices.capabilities import CPU, GPU, Capabilities
from sdi.devices.cuda.images import image_formats
from sdi.devices.cuda.info import VENDOR, CudaAttributes, device_info, driver_version
from sdi.devices.opencl.member import driver_devices
from sdi.service.image_info import image_info, member_info
from sdi.service.vendors import OWN_ID, Vendors, vendors_of
from tests.image_runs import image_environ, plain_environ, run

NVIDIA_ID, CAPABILITY, SLOT = 0x10DE, (0x4000, 0x4001), 0x4009
A_GPU = CudaAttributes(
    "GPU", "CUDA 13.0", 1 << 34, 4, 10**6, 1024, (1024, 1024, 64), 48 << 10, 64 << 10, 1 << 20, True
)
H100 = replace(A_GPU, capability=(9, 0), registers=1 << 16, copy_engines=3, pci=(1, 0x41, 2))
T4 = replace(
    A_GPU, capability=(7, 5), registers=1 << 15, copy_engines=2, has_time_limit=True, is_integrated=True
)


def facts(found: CudaAttributes = H100) -> Capabilities:
    """What a CUDA member reports."""
    info = device_info(found)
    return Capabilities(
        *("gpu", GPU, VENDOR, "", "pci", 1 << 30, info, True, image_formats()),
        platform_vendor=VENDOR,
        platform_name="NVIDIA CUDA",
        platform_version="CUDA 13.0",
    )


def image(*found: Capabilities, vendors: Vendors | None = None) -> dict[int, bytes]:
    """What an image of such members answers."""
    return image_info([cast(Device, SimpleNamespace(capabilities=each)) for each in found], 1 << 40, vendors)


def with_info(param: int, value: bytes) -> Capabilities:
    made = facts()
    return replace(made, info={**made.info, param: value})


def test_equal_members_give_their_vendor() -> None:
    nvidia = Vendors("NVIDIA Corporation", "NVIDIA Corporation", NVIDIA_ID)
    assert vendors_of([facts()]) == vendors_of([facts(), facts(T4)]) == nvidia
    answered = image(facts(), facts(T4))
    assert answered[0x102C] == b"NVIDIA Corporation\0" and answered[0x1001] == NVIDIA_ID.to_bytes(4, "little")
    assert answered[0x80000002] == b"NVIDIA Corporation\0"


@pytest.mark.parametrize(
    "other",
    [
        replace(facts(), platform_vendor="another"),
        replace(facts(), kind=CPU),
        with_info(0x102C, b"another\0"),
        with_info(0x1001, bytes(4)),
    ],
    ids=["platform", "kind", "vendor", "vendor id"],
)
def test_members_that_differ_give_none(other: Capabilities) -> None:
    assert vendors_of([facts(), other]) == Vendors("sdi", "sdi", OWN_ID)


def test_settings_come_before_the_members() -> None:
    assert vendors_of([facts()], "A", ("B", 7)) == Vendors("A", "B", 7)
    assert vendors_of([facts()], None, ("B", None)) == Vendors(VENDOR, "B", OWN_ID)
    assert vendors_of([facts()], None, (VENDOR, None)) == Vendors(VENDOR, VENDOR, NVIDIA_ID)
    answered = image(facts(), vendors=Vendors("A", "B", 7))
    assert (answered[0x80000002], answered[0x102C], answered[0x1001]) == (b"A\0", b"B\0", b"\7\0\0\0")


def test_the_device_has_the_images_name_the_members_or_any() -> None:
    two = [facts(), facts(T4)]
    for wanted, name in ((None, b"SDI (2 x GPU)\0"), ("members", b"GPU\0"), ("Some GPU", b"Some GPU\0")):
        assert image(*two, vendors=vendors_of(two, name=wanted or ""))[0x102B] == name
    differing = [facts(), with_info(0x102B, b"other\0")]
    found = image(*differing, vendors=vendors_of(differing, name="members"))[0x102B]
    assert found == b"SDI (1 x GPU + 1 x other)\0"


@pytest.mark.parametrize(
    ("wanted", "name", "version"),
    [
        ("SDI", b"SDI\0", f"OpenCL 3.0 sdi {__version__}\0"),
        ("members", b"NVIDIA CUDA\0", f"OpenCL 3.0 CUDA 13.0 (sdi {__version__})\0"),
        ("NVIDIA CUDA", b"NVIDIA CUDA\0", f"OpenCL 3.0 CUDA 13.0 (sdi {__version__})\0"),
        ("Some", b"Some\0", f"OpenCL 3.0 sdi {__version__}\0"),
    ],
)
def test_the_platform_has_the_images_name_the_members_with_their_version_or_any(
    wanted: str, name: bytes, version: str
) -> None:
    two = [facts(), facts(T4)]
    answered = image(*two, vendors=vendors_of(two, platform_name=wanted))
    assert (answered[0x80000006], answered[0x80000007]) == (name, version.encode())
    own = replace(facts(), platform_version="")
    answered = image(own, vendors=vendors_of([own], platform_name=wanted))
    assert (answered[0x80000006], answered[0x80000007]) == (name, f"OpenCL 3.0 sdi {__version__}\0".encode())


def test_members_of_several_platforms_have_no_name_of_one() -> None:
    differing = [facts(), replace(facts(), platform_name="another")]
    found = vendors_of(differing, platform_name="members")
    assert (found.platform_name, found.platform_version) == ("SDI", f"sdi {__version__}")


def test_members_that_are_devices_answer_for_themselves_but_for_what_programs_may_use() -> None:
    other = replace(facts(T4), kind=CPU, memory_nbytes=1 << 20, platform_vendor="another")
    poorer = replace(other, info={**other.info, 0x102B: b"other\0", 0x1030: b"cl_khr_fp64\0"}, formats={})
    devices = [cast(Device, SimpleNamespace(capabilities=each)) for each in (facts(), poorer)]
    first, second = (member_info(device, devices, 1 << 40) for device in devices)
    assert [each[0x102B] for each in (first, second)] == [b"GPU\0", b"other\0"]
    assert [each[0x102C] for each in (first, second)] == [b"NVIDIA Corporation\0"] * 2
    assert [each[0x101F] for each in (first, second)] == [
        (1 << 30).to_bytes(8, "little"),
        (1 << 20).to_bytes(8, "little"),
    ]
    assert first[0x1000] != second[0x1000]
    for param in (
        0x1030,
        0x1016,
        0x80000001,
        0x80000002,
        0x80000006,
        0x80000007,
    ):  # extensions, images, formats, the platform's vendor, name and version
        assert first[param] == second[param], hex(param)
    assert first[0x80000002] == b"sdi\0"
    named = partial(vendors_of, name="Some GPU")
    assert member_info(devices[1], devices, 1 << 40, named)[0x102B] == b"Some GPU\0"


def test_the_driver_is_the_members_where_they_have_one_with_sdis_version_behind_it() -> None:
    old = with_info(0x102D, b"CUDA 11.0\0")
    assert image(facts(), facts(T4))[0x102D] == f"CUDA 13.0 (sdi {__version__})\0".encode()
    assert image(facts(), old)[0x102D] == __version__.encode() + b"\0"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug\nGCC version: 12.3\n",
            "535.104.05",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n",
            "570.124.06",
        ),
        ("something else\n", "CUDA 12.8"),
        (None, "CUDA 12.8"),
    ],
)
def test_nvidias_driver_has_the_number_that_programs_look_for(
    tmp_path: Path, said: str | None, version: str
) -> None:
    if said is not None:
        (tmp_path / "version").write_text(said)
    assert driver_version(tmp_path / "version", 12080) == version


def with_query(extension: str, answers: dict[int, bytes]) -> Capabilities:
    """A member that a vendor's own questions can be asked."""
    made = facts()
    return replace(made, info={**made.info, 0x1030: f"cl_khr_fp64 {extension}\0".encode(), **answers})


@pytest.mark.parametrize(
    ("extension", "alike", "own"),
    [
        ("cl_amd_device_attribute_query", (0x4043, 0x404A, 0x4038), (0x4037, 0x4039)),
        ("cl_intel_device_attribute_query", (0x4250, 0x4252, 0x4256), ()),
    ],
)
def test_a_vendors_questions_are_answered_as_equal_members_do(
    extension: str, alike: tuple[int, ...], own: tuple[int, ...]
) -> None:
    one = with_query(extension, dict.fromkeys(alike, b"same") | dict.fromkeys(own, b"mine"))
    other = with_query(extension, dict.fromkeys(alike, b"same") | dict.fromkeys(own, b"your"))
    answered = image(one, other)
    assert extension.encode() in answered[0x1030]
    assert {p: answered[p] for p in (*alike, *own)} == {p: one.info[p] for p in (*alike, *own)}
    differs = image(one, with_query(extension, dict.fromkeys(alike, b"else")))
    assert not {*alike} & differs.keys()
    lacks = image(one, with_info(0x1030, b"cl_khr_fp64\0"))
    assert extension.encode() not in lacks[0x1030] and not {*alike, *own} & lacks.keys()


def test_what_nvidias_devices_are_asked_is_the_weakest_members_answer() -> None:
    answered = {p: int.from_bytes(v, "little") for p, v in image(facts(), facts(T4)).items() if p >> 12 == 4}
    assert answered == {
        0x4000: 7, 0x4001: 5, 0x4002: 1 << 15, 0x4003: 32, 0x4004: 1, 0x4005: 1, 0x4006: 0, 0x4007: 2,
        0x4008: 0x41, 0x4009: 2, 0x400A: 1,
    }  # fmt: skip
    extensions = image(facts())[0x1030].decode().rstrip("\0").split()
    assert [name for name in extensions if name.startswith("cl_nv_")] == [
        "cl_nv_device_attribute_query",
        "cl_nv_pragma_unroll",
    ]


def test_without_the_extension_everywhere_nothing_of_it_is_answered() -> None:
    plain = with_info(0x1030, b"cl_khr_byte_addressable_store\0")
    answered = image(facts(), plain)
    assert b"cl_nv" not in answered[0x1030] and not any(p >> 12 == 4 for p in answered)


ASK = """
import json, sys
import pyopencl as cl
platform = cl.get_platforms()[0]
first = platform.vendor if "first" in sys.argv else ""
device = platform.get_devices()[0]
of_device = [device.vendor, device.vendor_id, device.driver_version, device.name]
print(json.dumps([platform.name, platform.vendor, *of_device]))
assert first in ("", platform.vendor)
"""


def answers(environ: dict[str, str], *arguments: str) -> list[object]:
    ended = run([sys.executable, "-c", ASK, *arguments], environ, 100.0)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    found: list[object] = json.loads(ended.stdout)
    return found


def test_an_image_of_cpus_is_of_their_vendor() -> None:
    plain, found = answers(plain_environ()), answers(image_environ(2), "first")
    *like_plain, driver, own = plain
    version = f"{driver} (sdi {__version__})"
    assert found == ["SDI", *like_plain[1:], version, f"SDI (2 x {own})"]
    settings = {"SDI_PLATFORM_VENDOR": "one", "SDI_DEVICE_VENDOR": "two:0x3", "SDI_DEVICE_NAME": "members"}
    assert answers(image_environ(2, **settings)) == ["SDI", "one", "two", 3, version, own]
    (platform,) = {each.platform for each in driver_devices() if each.name == own}
    assert answers(image_environ(2, SDI_PLATFORM_NAME="members"))[0] == platform


def test_pyopencl_finds_the_version_of_pocl_behind_its_name() -> None:
    if not any(each.platform == "Portable Computing Language" for each in driver_devices()):
        pytest.skip("PoCL is not installed")
    ask = (
        "import pyopencl as cl; from pyopencl.characterize import *; p = cl.get_platforms()[0];"
        " print(get_pocl_version(p), has_coarse_grain_buffer_svm(p.get_devices()[0]))"
    )
    plain, found = (
        run([sys.executable, "-W", "error", "-c", ask], environ, 60.0)
        for environ in (plain_environ(), image_environ(2, SDI_PLATFORM_NAME="members"))
    )
    assert found.stdout == plain.stdout != "", found.describe()


@pytest.mark.parametrize("asked", ["name", "version", "vendor"])
def test_a_program_that_lists_platforms_starts_a_service_only_for_the_vendor(asked: str) -> None:
    code = f"import pyopencl as cl; print([p.{asked} for p in cl.get_platforms()])"
    ended = run([sys.executable, "-c", code], image_environ(2, SDI_LOG="debug"), 60.0)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    assert ("sdi: started" in ended.stderr) == (asked == "vendor")
