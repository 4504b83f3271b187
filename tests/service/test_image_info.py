"""Everything that OpenCL 3.0 lets a program ask a device is answered, in its size, and fits together."""

from __future__ import annotations

import ctypes
import json
import struct
import sys

import pytest

from sdi.devices.cuda.info import CudaAttributes, device_info
from sdi.devices.testing.null import NullDevice
from sdi.service.image_info import image_info
from sdi.wire.opencl import u64
from tests.image_runs import image_environ, run
from tests.sequences.api import Api

# CL_DEVICE_... by the bytes of the answer; from the table of clGetDeviceInfo.
UINTS = (
    0x1001, 0x1002, 0x1003, *range(0x1006, 0x1010), 0x1016, 0x1018, 0x1019, 0x101A, 0x101C, 0x101D, 0x1021,
    0x1022, 0x1024, 0x1026, 0x1027, 0x1028, *range(0x1034, 0x103D), 0x103E, 0x1043, 0x1047, 0x1048, 0x104A,
    0x104B, 0x104C, *range(0x104F, 0x1053), *range(0x1055, 0x105B), 0x105C, 0x105D, 0x105E, 0x1065, 0x1068,
    0x1069, 0x1071,
)  # fmt: skip
ULONGS = (
    0x1000, 0x1004, *range(0x1010, 0x1016), 0x1017, 0x101B, 0x101E, 0x101F, 0x1020, 0x1023, 0x1025, 0x1029,
    0x102A, 0x1031, 0x1032, 0x1033, 0x1040, 0x1041, 0x1042, 0x1045, 0x1049, 0x104D, 0x104E, 0x1053, 0x1054,
    0x1063, 0x1064, 0x1067, 0x1070,
)  # fmt: skip
TEXTS = (*range(0x102B, 0x1031), 0x103D, 0x103F, 0x105B, 0x1072)
NAMES = (0x1060, 0x1061, 0x1062, 0x1066, 0x106F)
LISTS = (0x1044, 0x1046)
FLOAT_ATOMICS = (0x4231, 0x4232, 0x4233)
WORK_ITEM_SIZES, DRIVER_VERSION = 0x1005, 0x102D
_NAME = struct.Struct("<I64s")
_GPU = device_info(
    CudaAttributes(
        "GPU", "CUDA 13.0", 1 << 34, 4, 10**6, 1024, (1024, 1024, 64), 48 << 10, 64 << 10, 1 << 20, True
    )
)
"""What a CUDA member says, which has no atomic functions of floats."""


def print_answers() -> None:
    """JSON: hexadecimal bytes by parameter, for all that are answered."""
    api = Api()
    device, answers = api.device(), {}
    for param in (*range(0x1000, 0x1100), *FLOAT_ATOMICS):
        size = ctypes.c_size_t()
        if api.clGetDeviceInfo(device, param, 0, None, ctypes.byref(size)) == 0:
            value = ctypes.create_string_buffer(size.value + 1)
            assert api.clGetDeviceInfo(device, param, size.value, value, None) == 0
            if size.value:
                assert api.clGetDeviceInfo(device, param, size.value - 1, value, None) == -30
            answers[param] = value.raw[: size.value].hex()
    print(json.dumps(answers))


@pytest.fixture(scope="module", params=[(1, "on"), (3, "on"), (3, "off")], ids=["N1", "N3", "N3-apart"])
def answers(request: pytest.FixtureRequest) -> dict[int, bytes]:
    """What an image's device answers, or that of one of several, by parameter."""
    members, image = request.param
    environ = image_environ(members, SDI_IMAGE=image)
    ended = run([sys.executable, "-m", "tests.service.test_image_info"], environ, 120.0)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    return {int(param): bytes.fromhex(value) for param, value in json.loads(ended.stdout).items()}


def names(value: bytes) -> dict[str, int]:
    """Versions by name, of a list of cl_name_version."""
    return {name.rstrip(b"\0").decode(): version for version, name in _NAME.iter_unpack(value)}


def number(value: bytes) -> int:
    return int.from_bytes(value, "little")


def test_everything_is_answered_in_its_size(answers: dict[int, bytes]) -> None:
    sizes = dict.fromkeys(UINTS, 4) | dict.fromkeys(ULONGS, 8) | {WORK_ITEM_SIZES: 24}
    if "cl_ext_float_atomics" in names(answers[0x1060]):
        sizes |= dict.fromkeys(FLOAT_ATOMICS, 8)
    assert {p: len(answers.get(p, b"")) for p in sizes} == sizes
    assert all(answers[p].endswith(b"\0") and b"\0" not in answers[p][:-1] for p in TEXTS)
    assert all(len(answers[p]) % _NAME.size == 0 for p in NAMES)
    assert all(len(answers[p]) == 8 for p in LISTS)
    assert set(answers) == {*sizes, *TEXTS, *NAMES, *LISTS}, "something is answered that 3.0 does not have"


def test_versions_agree(answers: dict[int, bytes]) -> None:
    text = answers[0x102F].decode()
    major, minor = text.split()[1].split(".")
    assert number(answers[0x105E]) >> 12 == int(major) << 10 | int(minor)
    languages = [version for version, _ in _NAME.iter_unpack(answers[0x1066])]
    assert {v >> 12 for v in languages} == {1 << 10, 1 << 10 | 1, 1 << 10 | 2, 3 << 10}
    assert set(names(answers[0x1066])) == {"OpenCL C"}
    assert set(names(answers[0x1060])) == set(answers[0x1030].decode().rstrip("\0").split())


def test_what_is_absent_is_said_to_be_absent(answers: dict[int, bytes]) -> None:
    nothing = {
        "sub-devices": (0x1043, 0x1044, 0x1045, 0x1046),
        "queues on the device": (0x104E, 0x104F, 0x1050, 0x1051, 0x1052, 0x1070),
        "pipes": (0x1055, 0x1056, 0x1057, 0x1071),
        "intermediate language": (0x105B, 0x1061),
        "sub-groups": (0x105C, 0x105D),
        "built-in kernels": (0x103F, 0x1062),
        "program-scope variables": (0x104D, 0x1054),
        "generic address space, non-uniform and collective groups": (0x1065, 0x1068, 0x1069),
    }
    for what, params in nothing.items():
        assert all(number(answers[p]) == 0 for p in params), what
    features, extensions = names(answers[0x106F]), names(answers[0x1060])
    absent = (
        "subgroups",
        "pipes",
        "device_enqueue",
        "generic_address_space",
        "program_scope_global_variables",
    )
    assert not {f"__opencl_c_{name}" for name in absent} & set(features)
    unsupported = {"cl_khr_depth_images", "cl_khr_il_program", "cl_khr_spir"}
    assert not unsupported & set(extensions)
    assert number(answers[0x1029]) == 1  # kernels, no native kernels


def test_shared_virtual_memory_is_of_buffers_of_both_grains_where_members_are_cpus(
    answers: dict[int, bytes],
) -> None:
    assert number(answers[0x1053]) == 3


def test_memory_is_the_hosts_own_where_a_cpu_is_the_only_member(
    request: pytest.FixtureRequest, answers: dict[int, bytes]
) -> None:
    assert number(answers[0x1035]) == (request.node.callspec.id == "N1"), "HOST_UNIFIED_MEMORY"


def test_limits_are_those_that_every_device_has(answers: dict[int, bytes]) -> None:
    alloc, memory = number(answers[0x1010]), number(answers[0x101F])
    assert max(min(memory // 4, 1 << 30), 32 << 20) <= alloc <= memory
    assert number(answers[0x1003]) >= 3 and number(answers[0x1017]) >= 1024
    assert number(answers[0x1020]) >= 64 << 10 and number(answers[0x1021]) >= 8
    assert number(answers[0x1023]) >= 32 << 10 and number(answers[0x1049]) >= 1 << 20
    assert min(struct.unpack("<3Q", answers[WORK_ITEM_SIZES])) >= 1
    assert number(answers[0x102A]) & 2, "no profiling"
    assert number(answers[0x1063]) & 0x11 == 0x11 and number(answers[0x1064]) & 0x13 == 0x13
    ordered = [name for name in names(answers[0x106F]) if name.startswith("__opencl_c_atomic_")]
    assert len(ordered) == (number(answers[0x1063]) & 0x26).bit_count()
    assert (number(answers[0x1032]) != 0) == ("cl_khr_fp64" in names(answers[0x1060]))
    assert (number(answers[0x1033]) != 0) == ("cl_khr_fp16" in names(answers[0x1060]))
    if number(answers[0x1016]):  # images
        assert number(answers[0x100E]) >= 8 and number(answers[0x100F]) >= 8 and number(answers[0x1018]) >= 16
        assert number(answers[0x1040]) >= 65536 and number(answers[0x1041]) >= 256
        assert min(number(answers[p]) for p in (0x1011, 0x1012)) >= 8192
        volumes = "__opencl_c_3d_image_writes" in names(answers[0x106F])
        assert volumes == ("cl_khr_3d_image_writes" in names(answers[0x1060]))
        both = number(answers[0x104C]) > 0
        assert both == ("__opencl_c_read_write_images" in names(answers[0x106F]))
    of_buffers = "cl_khr_image2d_from_buffer" in names(answers[0x1060])
    assert number(answers[0x104A]) == number(answers[0x104B]) == of_buffers


def test_atomic_functions_of_floats_are_those_that_all_members_have() -> None:
    def answers(*members: tuple[int, int]) -> list[int]:
        info = image_info([_with_float_atomics(*each) for each in members], 1 << 30)
        return [number(info[param]) for param in FLOAT_ATOMICS]

    assert answers((0x70007, 0x70007)) == [0x70007, 0x70007, 0]
    assert answers((0x70007, 0x70007), (0x20006, 0)) == [0x20006, 0, 0]
    lacks = image_info([_with_float_atomics(7, 7), NullDevice(0, info=_GPU)], 1 << 30)
    assert not set(FLOAT_ATOMICS) & set(lacks)


def _with_float_atomics(floats: int, doubles: int) -> NullDevice:
    extensions = _GPU[0x1030].rstrip(b"\0") + b" cl_ext_float_atomics\0"
    return NullDevice(0, info={**_GPU, 0x1030: extensions, 0x4231: u64(floats), 0x4232: u64(doubles)})


if __name__ == "__main__":
    print_answers()
