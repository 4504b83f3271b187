"""What OpenCL C the image takes: macros, versions and what must not build are as the device says.

Source: The OpenCL C Specification, version 3.0, its restrictions, predefined macros and optional features.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.frontend.base_header import (
    ATOMIC_FEATURES,
    FLOAT_ATOMICS,
    GROUP_FEATURE,
    SUB_GROUP_FEATURE,
    SUB_GROUP_SIZE,
    SUB_GROUPS,
)
from sdi.devices.testing.null import NullDevice
from sdi.errors import BuildError
from sdi.launch.programs.language import image_language
from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import Precision, analyse
from sdi.wire.opencl import NAME_VERSION, DeviceInfo
from tests.image_runs import image_environ, plain_environ, run

START = """
import json, sys
import numpy as np, pyopencl as cl
platform = next(p for p in cl.get_platforms() if (p.name == "SDI") == (sys.argv[1] == "image"))
device = platform.get_devices()[0]
ctx = cl.Context([device])
queue = cl.CommandQueue(ctx)

def defined(names, options):
    text = "kernel void k(global int *out) {" + "".join(
        f"\\n#ifdef {name}\\nout[{i}] = 1;\\n#else\\nout[{i}] = 0;\\n#endif" for i, name in enumerate(names)
    ) + "\\n}"
    out = np.full(len(names), -1, np.int32)
    buffer = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, out.nbytes)
    cl.Program(ctx, text).build(options).k(queue, (1,), (1,), buffer)
    cl.enqueue_copy(queue, out, buffer)
    return [name for name, is_defined in zip(names, out) if is_defined]

def code(text, options=""):
    try:
        cl.Program(ctx, text).build(options)
    except cl.RuntimeError as error:
        return error.code
    return 0
"""

LANGUAGE_EXTENSIONS = [
    "cl_khr_fp64", "cl_khr_fp16", "cl_khr_byte_addressable_store", "cl_khr_3d_image_writes",
    "cl_khr_global_int32_base_atomics", "cl_khr_global_int32_extended_atomics",
    "cl_khr_local_int32_base_atomics", "cl_khr_local_int32_extended_atomics",
    "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics", "cl_khr_subgroups", "cl_khr_depth_images",
    "cl_khr_mipmap_image", "cl_khr_mipmap_image_writes", "cl_khr_gl_msaa_sharing", "cl_khr_srgb_image_writes",
    "cl_khr_subgroup_shuffle", "cl_khr_subgroup_ballot", "cl_khr_extended_bit_ops",
    "cl_khr_integer_dot_product", "cl_khr_select_fprounding_mode",
]  # fmt: skip
FEATURES = [
    "__opencl_c_3d_image_writes", "__opencl_c_atomic_order_acq_rel", "__opencl_c_atomic_order_seq_cst",
    "__opencl_c_atomic_scope_device", "__opencl_c_atomic_scope_all_devices", "__opencl_c_device_enqueue",
    "__opencl_c_generic_address_space", "__opencl_c_fp64", "__opencl_c_images", "__opencl_c_int64",
    "__opencl_c_pipes", "__opencl_c_program_scope_global_variables", "__opencl_c_read_write_images",
    "__opencl_c_subgroups", "__opencl_c_work_group_collective_functions",
]  # fmt: skip


def outcome(tmp_path: Path, where: str, text: str, **settings: str) -> object:
    """What the script's ``answer`` is, on the image of 2 members or on the plain driver."""
    script = tmp_path / "asks.py"
    script.write_text(START + textwrap.dedent(text) + "\nprint(json.dumps(answer))\n")
    environ = plain_environ() if where == "plain" else image_environ(2, SDI_SPLIT="always", **settings)
    result = run([sys.executable, "-W", "ignore", script, where], environ, 120)
    assert result.returncode == 0, result.describe()
    return json.loads(result.stdout)


@pytest.mark.parametrize("version", ["CL1.2", "CL3.0"])
def test_extension_macros_are_those_of_the_extension_string(tmp_path: Path, version: str) -> None:
    text = f"""
        names = {LANGUAGE_EXTENSIONS!r}
        answer = [device.extensions.split(), defined(names, "-cl-std={version}")]
    """
    listed, found = outcome(tmp_path, "image", text)  # type: ignore[misc]
    assert found == [name for name in LANGUAGE_EXTENSIONS if name in listed]
    assert "cl_khr_byte_addressable_store" in found


def test_feature_macros_are_those_of_the_device(tmp_path: Path) -> None:
    text = f"""
        listed = [feature.name for feature in device.opencl_c_features]
        answer = [listed, defined({FEATURES!r}, "-cl-std=CL3.0")]
    """
    listed, found = outcome(tmp_path, "image", text)  # type: ignore[misc]
    assert found == [name for name in FEATURES if name in listed]
    assert set(listed) <= set(FEATURES)


def test_listed_versions_build_and_others_where_the_plain_driver_takes_them(tmp_path: Path) -> None:
    text = """
        listed = [f"{v.version >> 22}.{v.version >> 12 & 1023}" for v in device.opencl_c_all_versions]
        test = '''
            #if __OPENCL_C_VERSION__ != WANT
            #error another version
            #endif
            kernel void k(void) {}
        '''
        answer = [listed, {v: code(test, f"-cl-std=CL{v} -DWANT={v.replace('.', '')}0")
                           for v in ("1.0", "1.1", "1.2", "2.0", "3.0", "4.0")}]
    """
    listed, codes = outcome(tmp_path, "image", text)  # type: ignore[misc]
    _, plain = outcome(tmp_path, "plain", text)  # type: ignore[misc]
    assert {"1.2", "3.0"} <= set(listed)
    for version, code in codes.items():
        if version != "1.0":  # pocl and clang differ on whether "-cl-std=CL1.0" exists
            assert (code == 0) == (version in listed or plain[version] == 0), (version, code)
    assert codes["4.0"] != 0


REFUSED = {
    "program scope needs constant": "int x = 3; kernel void k(global int *a) { a[0] = x; }",
    "constant is not written": "constant int x = 3; kernel void k(void) { x = 4; }",
    "constant needs a value": "constant int x; kernel void k(global int *a) { a[0] = x; }",
    "kernels return nothing": "kernel int k(void) { return 1; }",
    "private pointers are no arguments": "kernel void k(private int *a) {}",
    "pointers to pointers are no arguments": "kernel void k(global int * global *a) {}",
    "bool is no argument": "kernel void k(bool a) {}",
    "size_t is no argument": "kernel void k(size_t a) {}",
    "events are no arguments": "kernel void k(event_t a) {}",
    "local belongs to kernels": "void f(void) { local int x; x = 1; } kernel void k(void) { f(); }",
    "local has no value at first": "kernel void k(void) { local int x = 1; }",
    "address spaces do not mix": "kernel void k(global int *a, local int *b) { a = b; }",
    "images are not written when read only": (
        "kernel void k(read_only image2d_t i) { write_imagef(i, (int2)(0), (float4)(0)); }"
    ),
    "samplers are no variables of functions": "kernel void k(global sampler_t *s) {}",
    "no bit fields": "struct s { int a : 3; }; kernel void k(global struct s *x) { x->a = 1; }",
    "no arrays of variable length": "kernel void k(int n) { int a[n]; a[0] = 1; }",
    "no function pointers": "void f(void) {} kernel void k(void) { void (*g)(void) = f; g(); }",
    "no variadic functions": "void f(int a, ...) {} kernel void k(void) { f(1, 2); }",
    "half is no variable": "kernel void k(global half *a) { half x = a[0]; a[1] = x; }",
}


def test_what_opencl_c_forbids_does_not_build(tmp_path: Path) -> None:
    """Where the driver refuses too: the image is neither stricter nor laxer than its members."""
    text = f"answer = {{name: code(text, '-cl-std=CL1.2') for name, text in {REFUSED!r}.items()}}"
    image, plain = (outcome(tmp_path, where, text) for where in ("image", "plain"))
    assert image == plain
    assert sum(code == -11 for code in image.values()) >= 14  # type: ignore[attr-defined]


def test_work_groups_that_do_not_divide_the_range_are_refused_as_reported(tmp_path: Path) -> None:
    text = """
        codes = []
        buffer = cl.Buffer(ctx, cl.mem_flags.READ_WRITE, 4096)
        text = "kernel void k(global int *a) { a[get_global_id(0)] = 1; }"
        for options in ("-cl-std=CL1.2", "-cl-std=CL3.0", "-cl-std=CL3.0 -cl-uniform-work-group-size"):
            kernel = cl.Program(ctx, text).build(options).k
            kernel.set_args(buffer)
            for sizes in (((100,), (64,)), ((64, 3), (32, 2)), ((128,), (64,))):
                try:
                    cl.enqueue_nd_range_kernel(queue, kernel, *sizes)
                    codes.append(0)
                except cl.LogicError as error:
                    codes.append(error.code)
        answer = [bool(device.get_info(cl.device_info.NON_UNIFORM_WORK_GROUP_SUPPORT)), codes]
        queue.finish()
    """
    assert outcome(tmp_path, "image", text) == [False, [-54, -54, 0] * 3]


LAST_GROUP_SUMS = """
kernel void k(global int *parts, global atomic_int *ready, global int *out) {
    local int is_last;
    parts[get_global_id(0)] = (int)get_global_id(0);
    work_group_barrier(CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_ORDER, memory_scope_device);
        int before = atomic_fetch_add_explicit(ready, 1, memory_order_ORDER, memory_scope_device);
        is_last = before == (int)get_num_groups(0) - 1;
    }
    work_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (is_last && get_local_id(0) == 0)
        for (size_t i = 0; i < get_global_size(0); i++) out[0] += parts[i];
}
"""


def test_atomics_have_the_orders_and_scopes_that_are_reported(tmp_path: Path) -> None:
    """Those of the driver that are features of its language; not between devices, which share no memory."""
    text = f"""
        bits = [int(device.get_info(parameter)) for parameter in (
            cl.device_info.ATOMIC_MEMORY_CAPABILITIES, cl.device_info.ATOMIC_FENCE_CAPABILITIES)]
        features = [f.name for f in device.opencl_c_features if "atomic" in f.name]
        sums = []
        for order in ("acq_rel", "seq_cst"):
            program = cl.Program(ctx, {LAST_GROUP_SUMS!r}.replace("ORDER", order)).build("-cl-std=CL3.0")
            zeros = np.zeros(1024, np.int32)
            parts, ready, out = (
                cl.Buffer(ctx, cl.mem_flags.COPY_HOST_PTR, hostbuf=zeros[:n]) for n in (1024, 1, 1)
            )
            program.k(queue, (1024,), (8,), parts, ready, out)
            cl.enqueue_copy(queue, zeros[:1], out)
            sums.append(int(zeros[0]))
        answer = [bits, sorted(features), sums]
    """
    image, plain = (outcome(tmp_path, where, text) for where in ("image", "plain"))
    relaxed, acq_rel, seq_cst, in_group, on_device = 1 << 0, 1 << 1, 1 << 2, 1 << 4, 1 << 5
    names = ["order_acq_rel", "order_seq_cst", "scope_device"]
    assert image[1] == plain[1] == [f"__opencl_c_atomic_{name}" for name in names]  # type: ignore[index]
    all_bits = relaxed | acq_rel | seq_cst | in_group | on_device
    assert image[0] == [all_bits, all_bits]  # type: ignore[index]
    assert image[2] == plain[2] == [1024 * 1023 // 2] * 2  # type: ignore[index]


def test_a_drivers_names_end_at_their_first_zero_whatever_is_behind() -> None:
    """Some drivers leave there what was in memory."""
    features = ("__opencl_c_atomic_scope_device", "__opencl_c_atomic_order_seq_cst")
    entries = [NAME_VERSION.pack(3 << 22, name.encode() + b"\0\xe9left") for name in features]
    info = {int(DeviceInfo.EXTENSIONS): b"\0", int(DeviceInfo.OPENCL_C_FEATURES): b"".join(entries)}
    language = image_language([NullDevice(0, info=info)])
    assert set(features) <= set(language.features)
    assert not language.withheld


def claiming(
    *features: str, extensions: str = "", name: str = "", more: Mapping[int, bytes] | None = None
) -> NullDevice:
    """A member that says that it has these.  ``more``: what else it answers."""
    entries = [NAME_VERSION.pack(3 << 22, name.encode()) for name in features]
    info = {
        int(DeviceInfo.EXTENSIONS): extensions.encode() + b"\0",
        int(DeviceInfo.OPENCL_C_FEATURES): b"".join(entries),
        int(DeviceInfo.NAME): name.encode() + b"\0",
        **(more or {}),
    }
    return NullDevice(0, info=info)


def test_collective_functions_of_work_groups_are_there_where_all_members_have_them() -> None:
    has, lacks = claiming(GROUP_FEATURE), claiming("__opencl_c_int64")
    source = """
        kernel void k(global int *a, global int *b) {
            int i = get_global_id(0);
            a[i] = work_group_reduce_add(i) + work_group_broadcast(b[i], 0);
            b[work_group_scan_inclusive_max(i)] = 1;
        }
        """
    assert GROUP_FEATURE not in image_language([has, lacks]).features
    with pytest.raises(BuildError, match="work_group_reduce_add"):
        compile_source(source, "-cl-std=CL3.0", language=image_language([has, lacks]))
    compiled = compile_source(source, "-cl-std=CL3.0", language=image_language([has, has]))
    assert not compiled.kernels[0].why_whole
    (function,) = [f for f in compiled.tree.functions.values() if f.name == "k"]
    work = NDRange(1, (0, 0, 0), (16, 1, 1), (8, 1, 1))
    a, b = (
        analyse(compiled.tree, function)
        .bind(work, (None, None), (64, 64))
        .over(GroupBox((1, 0, 0), (2, 1, 1)))
    )
    assert a.precision is Precision.EXACT
    assert [(each.start, each.stop) for each in a.writes.runs()] == [(32, 64)]
    assert b.precision is not Precision.EXACT


SHUFFLES = "cl_khr_subgroup_shuffle"
SUB_GROUP_KERNELS = """
    kernel void collects(global int *a, global int *b) {
        int i = get_global_id(0);
        a[i] = sub_group_reduce_add(b[i]) + sub_group_broadcast(b[i], 0) + get_sub_group_size();
        sub_group_barrier(CLK_LOCAL_MEM_FENCE);
    }
    kernel void shuffles(global int *a, global int *b) {
        int i = get_global_id(0);
        a[i] = sub_group_shuffle(b[i], 1) + sub_group_shuffle_xor(b[i], 1);
    }
    kernel void chosen(global int *a, global int *b) {
        int i = get_global_id(0);
        if (sub_group_any(b[i])) a[i] = 1;
    }
    kernel void leads(global int *a, global int *b) {
        if (get_sub_group_local_id() == 0) a[get_group_id(0) * 8 + get_sub_group_id()] = b[get_global_id(0)];
    }
    kernel void compacts(global int *a, global int *b) {
        int i = get_global_id(0);
        a[sub_group_scan_exclusive_add(i)] = b[i];
    }
    """


def test_sub_groups_are_there_where_all_members_have_them() -> None:
    has = claiming(SUB_GROUP_FEATURE, extensions=f"{SHUFFLES} {SUB_GROUP_SIZE} cl_intel_subgroups")
    fewer = claiming(SUB_GROUP_FEATURE, extensions=SUB_GROUPS)
    old, lacks = claiming(extensions=f"{SUB_GROUPS} {SHUFFLES}"), claiming(extensions=SHUFFLES)
    both = image_language([has, has])
    assert both.sub_groups and SUB_GROUP_FEATURE in both.features
    assert both.extensions == (SHUFFLES, SUB_GROUP_SIZE) and both.withheld == ("cl_intel_subgroups",)
    less = image_language([has, fewer])
    assert less.sub_groups and SUB_GROUP_FEATURE in less.features and not less.extensions
    mixed = image_language([has, old])
    assert mixed.sub_groups and SUB_GROUP_FEATURE not in mixed.features and mixed.extensions == (SHUFFLES,)
    none = image_language([has, lacks])
    assert not none.sub_groups and SUB_GROUP_FEATURE not in none.features and not none.extensions
    for options in ("", "-cl-std=CL3.0"):
        with pytest.raises(BuildError, match="sub_group_reduce_add"):
            compile_source(SUB_GROUP_KERNELS, options, language=none)
        assert compile_source(SUB_GROUP_KERNELS, options, language=image_language([old])).kernels


def test_members_that_cut_work_groups_in_other_ways_have_no_sub_groups_together() -> None:
    one, other = (claiming(SUB_GROUP_FEATURE, extensions=SHUFFLES, name=name) for name in ("one", "other"))
    language = image_language([one, other])
    assert not language.sub_groups and not language.extensions
    assert language.withheld == (SUB_GROUP_FEATURE, SHUFFLES)
    assert image_language([one, one]).sub_groups


def test_what_sub_groups_say_is_known_to_no_index() -> None:
    language = image_language([claiming(SUB_GROUP_FEATURE, extensions=SHUFFLES)])
    compiled = compile_source(SUB_GROUP_KERNELS, "-cl-std=CL3.0", language=language)
    work, second = NDRange(1, (0, 0, 0), (16, 1, 1), (8, 1, 1)), GroupBox((1, 0, 0), (2, 1, 1))
    found = {}
    for function in compiled.tree.functions.values():
        a, b = analyse(compiled.tree, function).bind(work, (None, None), (64, 64)).over(second)
        found[function.name] = a.precision, [(each.start, each.stop) for each in a.writes.runs()]
        if function.name != "compacts":
            assert [(each.start, each.stop) for each in b.reads.runs()] == [(32, 64)], function.name
    assert not any(kernel.why_whole for kernel in compiled.kernels)
    assert found["collects"] == found["shuffles"] == (Precision.EXACT, [(32, 64)])
    assert found["chosen"] == (Precision.COVER, [(32, 64)])
    assert found["leads"] == (Precision.MAY, [(32, 64)]), "a sub-group's number may be any, but none below 0"
    precision, runs = found["compacts"]
    assert precision in (Precision.MAY, Precision.WHOLE) and runs == [(0, 64)]


ADDS = "__opencl_c_ext_fp32_global_atomic_add"
FLOAT_SUM = "kernel void k(global atomic_float *a, global float *b) { atomic_fetch_add(a, b[0]); }"


def float_atomics(bits: int, *features: str, doubles: int = 0) -> NullDevice:
    """A member with atomic functions of floats and doubles that says so by these bits."""
    more = {
        int(DeviceInfo.SINGLE_FP_ATOMIC_CAPABILITIES_EXT): bits.to_bytes(8, "little"),
        int(DeviceInfo.DOUBLE_FP_ATOMIC_CAPABILITIES_EXT): doubles.to_bytes(8, "little"),
    }
    return claiming(*ATOMIC_FEATURES, *features, extensions=FLOAT_ATOMICS, more=more)


def test_atomic_functions_of_floats_are_there_where_all_members_have_them() -> None:
    has, others, lacks = float_atomics(0x70007), float_atomics(0x20006), claiming(*ATOMIC_FEATURES)
    no_adds = float_atomics(1, doubles=7)
    both = image_language([has, others])
    assert FLOAT_ATOMICS in both.extensions
    assert set(both.float_atomics) == {
        f"__opencl_c_ext_fp32_{each}"
        for each in ("global_atomic_add", "global_atomic_min_max", "local_atomic_add")
    }
    assert compile_source(FLOAT_SUM, "-cl-std=CL3.0", language=both).kernels[0].why_whole
    none = image_language([has, lacks])
    assert not none.float_atomics and FLOAT_ATOMICS not in none.extensions and FLOAT_ATOMICS in none.withheld
    for language in (none, image_language([lacks]), image_language([has, no_adds])):
        with pytest.raises(BuildError, match="atomic_fetch_add"):
            compile_source(FLOAT_SUM, "-cl-std=CL3.0", language=language)


def test_macros_of_atomic_functions_of_floats_are_features_that_all_members_list() -> None:
    has, lists = float_atomics(7), float_atomics(7, ADDS)
    assert ADDS in image_language([lists, lists]).features
    mixed = image_language([has, lists])
    assert ADDS not in mixed.features and ADDS in mixed.withheld and ADDS in mixed.float_atomics


def test_a_program_may_ask_for_macros_that_only_the_parser_has_and_call_the_functions() -> None:
    """Not all drivers that have the functions define the macros."""
    wanted = f"#ifdef {ADDS}\n#error defined\n#endif\n{FLOAT_SUM}"
    language = image_language([float_atomics(7)])
    assert compile_source(wanted, "-cl-std=CL3.0", language=language).kernels
    listed = image_language([float_atomics(7, ADDS)])
    with pytest.raises(BuildError, match="error: defined"):
        compile_source(wanted, "-cl-std=CL3.0", language=listed)
