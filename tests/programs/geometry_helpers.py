"""Id functions two calls deep, with a dimension known only at run time, in and out of range."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host
from tests.programs.geometry import LAUNCHES, expected_record

KERNELS: dict[str, str] = {"gh_record": "split"}

# Sizes of dimensions above 2 are left out: the specification says 1, but some drivers say 0.
SOURCE = """
ulong one_id(int which, uint dim)
{
    switch (which) {
    case 0: return get_global_id(dim);
    case 1: return get_global_size(dim);
    case 2: return get_global_offset(dim);
    case 3: return get_group_id(dim);
    case 4: return get_num_groups(dim);
    case 5: return get_local_id(dim);
    case 6: return get_local_size(dim);
    }
    return get_work_dim();
}

static size_t flat_index(void)
{
    size_t at = 0;
    for (int d = 2; d >= 0; --d)
        at = at * get_global_size(d) + (get_global_id(d) - get_global_offset(d));
    return at;
}

void record_all(__global ulong *out, uint dims)
{
    __global ulong *mine = out + flat_index() * (dims * 7 + 2);
    for (uint d = 0; d < dims; ++d)
        for (int which = 0; which < 7; ++which)
            *mine++ = one_id(which, d);
    *mine++ = one_id(7, 0);
    *mine = 1;
    for (uint d = dims; d < dims + 3; ++d)
        *mine += one_id(0, d) + one_id(2, d) + one_id(3, d) + one_id(5, d);
}

__kernel void gh_record(__global ulong *out, uint dims)
{
    record_all(out, dims);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Record dimensions 0 to 2 of each NDRange, and that all ids of dimensions 3 to 5 are 0."""
    (record,) = kernels(ctx, SOURCE, "gh_record")
    outputs: Outputs = {}
    for k, (size, local, offset) in enumerate(LAUNCHES):
        ids = expected_record(size, local, offset)
        expected = np.concatenate([ids, np.ones_like(ids[..., :1])], axis=-1)
        out_dev = to_device(ctx, np.zeros_like(expected))
        record(queue, size, local, out_dev, np.uint32(3), global_offset=offset)
        outputs[f"launch{k}"] = to_host(queue, out_dev, expected)
        same(outputs[f"launch{k}"], expected, f"NDRange {size} / {local} + {offset}")
    return outputs
