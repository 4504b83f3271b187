"""The numbers of ``sdi/wire/opencl.py`` against those that pyopencl was built with."""

from __future__ import annotations

import re

import pyopencl as cl
import pytest

from sdi.locate import INCLUDE
from sdi.wire import opencl

PYOPENCL = {
    opencl.Status: cl.status_code,
    opencl.ExecutionStatus: cl.command_execution_status,
    opencl.DeviceType: cl.device_type,
    opencl.DeviceInfo: cl.device_info,
    opencl.FpConfig: cl.device_fp_config,
    opencl.AtomicCapabilities: cl.device_atomic_capabilities,
    opencl.QueueProperties: cl.command_queue_properties,
    opencl.MemFlags: cl.mem_flags,
    opencl.MapFlags: cl.map_flags,
    opencl.MemObjectType: cl.mem_object_type,
    opencl.ChannelOrder: cl.channel_order,
    opencl.ChannelType: cl.channel_type,
    opencl.Addressing: cl.addressing_mode,
    opencl.Filter: cl.filter_mode,
    opencl.ArgumentAddress: cl.kernel_arg_address_qualifier,
    opencl.ArgumentAccess: cl.kernel_arg_access_qualifier,
    opencl.ArgumentType: cl.kernel_arg_type_qualifier,
}
PREFIXED = {
    "COMMAND_": cl.command_type,
    "PLATFORM_": cl.platform_info,
    "CONTEXT_": cl.context_info,
    "QUEUE_": cl.command_queue_info,
    "MEM_": cl.mem_info,
    "IMAGE_": cl.image_info,
    "SAMPLER_": cl.sampler_info,
    "PROGRAM_": cl.program_info,
    "PROGRAM_BUILD_": cl.program_build_info,
    "PROGRAM_BINARY_TYPE_": cl.program_binary_type,
    "KERNEL_": cl.kernel_info,
    "KERNEL_ARG_": cl.kernel_arg_info,
    "EVENT_": cl.event_info,
    "PROFILING_COMMAND_": cl.profiling_info,
}
EXTENSION = (opencl.Reduction, opencl.ElementType, opencl.Collective)
OWN = {"KNOWN"}  # bits that there are: sdi's own name


@pytest.mark.parametrize("table", PYOPENCL, ids=lambda table: table.__name__)
def test_each_number_is_the_one_of_that_name(table: type[opencl.IntEnum]) -> None:
    theirs = PYOPENCL[table]
    names = {name: name.upper() for name in table.__members__ if name not in OWN}
    both = {name: getattr(theirs, upper) for name, upper in names.items() if hasattr(theirs, upper)}
    assert {name: table[name].value for name in both} == both
    assert 2 * len(both) > len(names), sorted(names.keys() - both.keys())


@pytest.mark.parametrize("prefix", PREFIXED)
def test_each_number_with_a_whole_name_is_the_one_of_that_name(prefix: str) -> None:
    whole = {name for name in vars(PREFIXED[prefix]) if name.isupper()}
    theirs = {name: getattr(PREFIXED[prefix], name) for name in whole}
    ours = {name.removeprefix(prefix): each.value for name, each in opencl.Number.__members__.items()}
    both = theirs.keys() & ours.keys()
    assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}
    assert 2 * len(both) >= len(theirs), sorted(theirs.keys() - both)


def test_the_header_for_programs_has_the_numbers_of_the_extension() -> None:
    text = (INCLUDE / "CL" / "cl_sdi.h").read_text(encoding="utf-8")
    defined = {name: int(value, 16) for name, value in re.findall(r"#define (CL_SDI_\w+) (0x\w+)\n", text)}
    tables = [(opencl.PREFIXES[table], each) for table in EXTENSION for each in table]
    assert defined == {f"CL_{prefix}{each.name}": each.value for prefix, each in tables}
