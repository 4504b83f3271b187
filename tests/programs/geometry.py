"""Every id function, recorded by every work-item, in 1 to 3 dimensions with global offsets."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"geo_record": "split"}

SOURCE = """
#define RECORD(d) \\
    out[at++] = get_global_id(d); out[at++] = get_global_size(d); out[at++] = get_global_offset(d); \\
    out[at++] = get_group_id(d); out[at++] = get_num_groups(d); out[at++] = get_local_id(d); \\
    out[at++] = get_local_size(d);

__kernel void geo_record(__global ulong *out)
{
    size_t x = get_global_id(0) - get_global_offset(0);
    size_t y = get_global_id(1) - get_global_offset(1);
    size_t z = get_global_id(2) - get_global_offset(2);
    size_t at = ((z * get_global_size(1) + y) * get_global_size(0) + x) * 22;
    RECORD(0)
    RECORD(1)
    RECORD(2)
    out[at] = get_work_dim();
}
"""

LAUNCHES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    ((96,), (8,), (0,)),
    ((88,), (8,), (13,)),
    ((24, 18), (3, 2), (0, 0)),
    ((16, 27), (8, 3), (5, 7)),
    ((9, 16), (1, 2), (0, 11)),
    ((8, 6, 9), (4, 3, 1), (0, 0, 0)),
    ((10, 4, 8), (5, 2, 1), (2, 3, 4)),
    ((33, 2, 2), (3, 1, 2), (1, 0, 6)),
)


def expected_record(size: tuple[int, ...], local: tuple[int, ...], offset: tuple[int, ...]) -> np.ndarray:
    """What the work-items of one launch must write, computed on the host."""
    pad = (1,) * (3 - len(size))
    g, n, o = size + pad, local + pad, offset + (0,) * len(pad)
    z, y, x = np.indices(g[::-1])
    columns = []
    for d, index in enumerate((x, y, z)):
        ids = (index + o[d], g[d], o[d], index // n[d], g[d] // n[d], index % n[d], n[d])
        columns += [np.broadcast_to(v, index.shape) for v in ids]
    columns.append(np.full(x.shape, len(size)))
    return np.stack(columns, axis=-1).astype(np.uint64)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Launch over each NDRange."""
    (record,) = kernels(ctx, SOURCE, "geo_record")
    outputs: Outputs = {}
    for k, (size, local, offset) in enumerate(LAUNCHES):
        expected = expected_record(size, local, offset)
        out_dev = to_device(ctx, np.zeros_like(expected))
        record(queue, size, local, out_dev, global_offset=offset)
        outputs[f"launch{k}"] = to_host(queue, out_dev, expected)
        same(outputs[f"launch{k}"], expected, f"NDRange {size} / {local} + {offset}")
    return outputs
