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
    "u64 pixels; u64 plane_pitch; u32 row_pitch; i32 width; i32 rows; i32 planes; u32 form; u32 pixel_nbytes"
)
"""An image of a CUDA kernel.  ``form``: channel order, data type and number of channels."""
CUDA_PRINT = fields("u64 used; u64 lost; u64 capacity; u64 reserved")
"""Before the bytes that CUDA kernels print."""
PRINT_RECORD = fields("u32 nbytes; u32 format")
"""Begins one call's record there; 8 bytes for each value follow."""
