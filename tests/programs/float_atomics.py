"""Atomic functions of floats and doubles: sums and extremes in global memory, and of work-groups."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "fa_sums": "whole",
    "fa_extremes": "whole",
    "fa_tickets": "whole",
    "fa_groups": "split",
    "fa_seldom": "some",
    "fa_macros": "split",
}
GROUPS, GROUP, BINS = 24, 16, 5
ITEMS = GROUPS * GROUP
MACROS = [
    "cl_ext_float_atomics",
    *(
        f"__opencl_c_ext_fp{bits}_{space}_atomic_{what}"
        for bits in (16, 32, 64)
        for space in ("global", "local")
        for what in ("load_store", "add", "min_max")
    ),
]

SOURCE = (
    """
kernel void fa_sums(global const float *in, volatile global atomic_float *sums,
                    volatile global atomic_double *less)
{
    size_t i = get_global_id(0);
    atomic_fetch_add_explicit(&sums[i % 5], in[i], memory_order_relaxed);
    atomic_fetch_sub_explicit(less, (double)in[i], memory_order_relaxed, memory_scope_device);
}

kernel void fa_extremes(global const float *in, global atomic_float *f, global atomic_double *d)
{
    float x = in[get_global_id(0)];
    atomic_fetch_min(f, x);
    atomic_fetch_max(f + 1, x);
    atomic_fetch_min_explicit(d, (double)x, memory_order_relaxed);
    atomic_fetch_max_explicit(d + 1, (double)x, memory_order_relaxed, memory_scope_device);
}

kernel void fa_tickets(global atomic_float *next, global int *out)
{
    int at = atomic_fetch_add(next, 1);
    out[at] = 7;
}

kernel void fa_groups(global const float *in, global float *sums, global double *most)
{
    local atomic_float sum;
    local atomic_double largest;
    if (get_local_id(0) == 0) {
        atomic_init(&sum, 0);
        atomic_init(&largest, -1000);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float x = in[get_global_id(0)];
    atomic_fetch_add_explicit(&sum, x, memory_order_relaxed, memory_scope_work_group);
    atomic_fetch_max_explicit(&largest, (double)x, memory_order_relaxed, memory_scope_work_group);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        sums[get_group_id(0)] = atomic_load_explicit(&sum, memory_order_relaxed, memory_scope_work_group);
        most[get_group_id(0)] = atomic_load_explicit(&largest, memory_order_relaxed, memory_scope_work_group);
    }
}

kernel void fa_seldom(global const float *in, global atomic_float *sum)
{
    float x = in[get_global_id(0)];
    if (x > 70)
        atomic_fetch_add_explicit(sum, x, memory_order_relaxed);
}

kernel void fa_macros(global int *out)
{
    int found = 0;
"""
    + "".join(f"\n#ifdef {name}\n    found |= 1 << {at};\n#endif" for at, name in enumerate(MACROS))
    + """
    out[get_global_id(0)] = found;
}
"""
)


def has_float_atomics(device: cl.Device) -> bool:
    """Whether the device has them, and doubles."""
    return {"cl_ext_float_atomics", "cl_khr_fp64"} <= set(device.extensions.split())


NEEDS = has_float_atomics


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """384 items in groups of 16; all sums are of small integers, so any order gives the same."""
    by_name = dict(zip(KERNELS, kernels(ctx, SOURCE, *KERNELS, options=["-cl-std=CL3.0"]), strict=True))
    given = np.random.default_rng(29).integers(-90, 90, ITEMS).astype(np.float32)
    extremes = np.array([1000, -1000])
    arrays = {
        "fa_sums": (np.ones(BINS, np.float32), np.full(1, 0.5)),
        "fa_extremes": (extremes.astype(np.float32), extremes.astype(np.float64)),
        "fa_tickets": (np.zeros(1, np.float32), np.zeros(ITEMS, np.int32)),
        "fa_groups": (np.zeros(GROUPS, np.float32), np.zeros(GROUPS)),
        "fa_seldom": (np.zeros(1, np.float32),),
        "fa_macros": (np.zeros(ITEMS, np.int32),),
    }
    in_dev, out = to_device(ctx, given), {}
    for name, own in arrays.items():
        buffers = [to_device(ctx, each) for each in own]
        first = [] if name in ("fa_tickets", "fa_macros") else [in_dev]
        by_name[name](queue, (ITEMS,), (GROUP,), *first, *buffers)
        for at, (buffer, like) in enumerate(zip(buffers, own, strict=True)):
            out[f"{name}_{at}"] = to_host(queue, buffer, like)
    sums = [1 + given[at::BINS].sum() for at in range(BINS)]
    same(out["fa_sums_0"], np.array(sums, np.float32), "sums")
    same(out["fa_sums_1"], np.array([0.5 - given.sum()]), "differences")
    for at in range(2):
        same(
            out[f"fa_extremes_{at}"],
            np.array([given.min(), given.max()], out[f"fa_extremes_{at}"].dtype),
            "ends",
        )
    same(out["fa_tickets_1"], np.full(ITEMS, 7, np.int32), "places")
    same(out["fa_groups_0"], given.reshape(GROUPS, GROUP).sum(axis=1), "sums of groups")
    same(out["fa_groups_1"], given.reshape(GROUPS, GROUP).max(axis=1).astype(np.float64), "most of groups")
    same(out["fa_seldom_0"], given[given > 70].sum(keepdims=True), "sum of what is large")
    return out
