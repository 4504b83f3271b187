"""Neighbouring bytes written by different groups, with no two work-items sharing one."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"bi_bytes": "split", "bi_shorts": "split"}

SOURCE = """
__kernel void bi_bytes(__global uchar *out)
{
    out[get_local_id(0) * get_num_groups(0) + get_group_id(0)] += (uchar)(get_group_id(0) * 37 + 1);
}

__kernel void bi_shorts(__global ushort *out, uint groups)
{
    uint turn = (get_group_id(0) * 5) % groups;
    if (get_local_id(0) % 3 != 1)
        out[get_local_id(0) * groups + turn] = (ushort)(get_global_id(0) | 0x8000);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Interleave 2 to 13 groups byte by byte, twice, and 13 groups by shorts in another order."""
    by_bytes, by_shorts = kernels(ctx, SOURCE, *KERNELS)
    outputs: Outputs = {}
    for groups in (2, 3, 8, 13):
        out = np.arange(groups * 64, dtype=np.uint8)
        out_dev = to_device(ctx, out)
        for _ in range(2):
            by_bytes(queue, (groups * 64,), (64,), out_dev)
            out += np.tile((np.arange(groups) * 37 + 1).astype(np.uint8), 64)
        outputs[f"bytes{groups}"] = to_host(queue, out_dev, out)
        same(outputs[f"bytes{groups}"], out, f"bytes of {groups} groups")
    shorts = np.zeros((32, 13), np.uint16)
    shorts_dev = to_device(ctx, shorts)
    by_shorts(queue, (13 * 32,), (32,), shorts_dev, np.uint32(13))
    for group in range(13):
        lanes = np.flatnonzero(np.arange(32) % 3 != 1)
        shorts[lanes, group * 5 % 13] = (group * 32 + lanes) | 0x8000
    outputs["shorts"] = to_host(queue, shorts_dev, shorts)
    same(outputs["shorts"], shorts, "shorts")
    return outputs
