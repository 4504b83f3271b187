"""What launches hand to kernels, and kernels that print to the host: structures of OpenCL C and CUDA C++."""

from __future__ import annotations

from sdi.wire.layout import fields, layout

GEOMETRY = fields(
    "u64 group_offset[3]; u64 num_groups[3]; u64 global_offset[3]; u64 global_size[3]; u32 work_dim;"
    " u32 reserved"
)
"""Begins the hidden last argument of sub-range text: which part of which NDRange is run."""
GEOMETRY_LAYOUT = layout(GEOMETRY)

CUDA_GRID = fields("u64 base[3]; u32 groups[3]; u32 work_dim")
"""Ends the parameters of CUDA kernels.  ``base``: global id of the first work-item of the box of work-groups
that is run."""
CUDA_IMAGE = fields(
    "u64 pixels; u64 plane_pitch; u32 row_pitch; i32 width; i32 rows; i32 planes; u32 form; u32 pixel_nbytes;"
    " u32 picks; u32 textures[6]; u32 reserved"
)
"""An image of a CUDA kernel.  ``form``: channel order, data type and number of channels.  ``picks``: by four
bits, lowest first, which channel of a pixel each component of a color is, or 4 for 0 and 5 for 1.
``textures``: the texture objects that filter it, by ``texture_of``; 0 where there is none."""
CUDA_PRINT = fields("u64 used; u64 lost; u64 capacity; u64 reserved")
"""Before the bytes that CUDA kernels print."""
PRINT_RECORD = fields("u32 nbytes; u32 format")
"""Begins one call's record there; 8 bytes for each value follow."""


def texture_of(sampler: int) -> int:
    """Which of ``CUDA_IMAGE.textures`` a sampler with a linear filter takes: its bits as OpenCL C has them.

    Coordinates that are not normalized: to the edge, to the border; others: these, repeated, mirrored.
    """
    wraps = {4: 1, 6: 2, 8: 3}.get(sampler & 14, 0)
    return 2 + wraps if sampler & 1 else int(wraps == 1)
