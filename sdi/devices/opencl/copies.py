"""Copies as OpenCL has them: runs, rows and boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pyopencl as cl

from sdi.devices.base import Place
from sdi.devices.handles import HostBytes
from sdi.ndrange import Int3
from sdi.region import Region, alike


def _origin(box: Region) -> Int3:
    """Where a region of one or two levels begins, in bytes, rows and slices."""
    pitch, far = box.levels[0][0], box.levels[1][0] if len(box.levels) > 1 else 0
    within = box.base % far if far else box.base
    return within % pitch, within // pitch, box.base // far if far else 0


def _is_inside(box: Region) -> bool:
    """Whether its rows do not go on in the next ones, nor its slices."""
    (pitch, count), (x, y, _) = box.levels[0], _origin(box)
    return x + box.nbytes <= pitch and (len(box.levels) < 2 or y + count <= box.levels[1][0] // pitch)


def fits(box: Region, buffer: cl.Buffer) -> bool:
    """Whether drivers take it for one in the buffer: NVIDIA's counts the last row with what follows it.

    [M] 580.159, 832 bytes: 11 rows of 78 from 6 on are refused, 29 of 26 from 79 on are not.
    """
    step, count = box.levels[-1]
    return step * count <= buffer.size


def copy_region(
    queue: cl.CommandQueue, target: cl.Buffer, source: cl.Buffer, to: Region, from_: Region
) -> cl.Event:
    """Between buffers.  Raises ValueError."""
    from_, to = alike(from_, to)
    if not from_.levels:
        return cl.enqueue_copy(
            queue, target, source, src_offset=from_.base, dst_offset=to.base, byte_count=from_.nbytes
        )
    if not (fits(from_, source) and fits(to, target)):
        last = from_.counts[-1] - 1
        copy_region(queue, target, source, to.part(0, last), from_.part(0, last))
        return copy_region(queue, target, source, to.part(last, last + 1), from_.part(last, last + 1))
    (here, count), (there, _) = from_.levels[0], to.levels[0]
    slices, far_here, far_there = 1, 0, 0
    if len(from_.levels) > 1:
        (far_here, slices), (far_there, _) = from_.levels[1], to.levels[1]
    is_box = len(from_.levels) <= 2 and far_here % here == far_there % there == 0
    origins = (from_.base, 0, 0), (to.base, 0, 0)
    if source is target and is_box:  # the driver looks for overlaps by these
        origins = _origin(from_), _origin(to)
        is_box = (here, far_here) == (there, far_there) and _is_inside(from_) and _is_inside(to)
    if not is_box:  # OpenCL has no such copy: those of its parts are made in this order
        parts = [(from_.part(at, at + 1), to.part(at, at + 1)) for at in range(from_.counts[-1])]
        return [copy_region(queue, target, source, to_part, part) for part, to_part in parts][-1]
    copy = cast(Callable[..., cl.Event], cl.enqueue_copy)  # whose stub lacks what follows
    return copy(
        queue,
        target,
        source,
        src_origin=origins[0],
        dst_origin=origins[1],
        region=(from_.nbytes, count, slices),
        src_pitches=(here, far_here),
        dst_pitches=(there, far_there),
    )


def copy_bytes(
    queue: cl.CommandQueue, buffer: cl.Buffer, at: int, host: Place, start: int, nbytes: int, to_device: bool
) -> cl.Event:
    """Between ``buffer`` from ``at`` on and host memory from ``start`` on.  Raises ValueError."""
    memory = host.host(nbytes, start)
    if to_device:
        return cl.enqueue_copy(queue, buffer, memory, dst_offset=at, is_blocking=False)
    return cl.enqueue_copy(queue, memory, buffer, src_offset=at, is_blocking=False)


def copy_rows(
    queue: cl.CommandQueue,
    buffer: cl.Buffer,
    at: int,
    host: HostBytes,
    start: int,
    rows: Region,
    to_device: bool,
) -> cl.Event:
    """Likewise, for the rows of a region; nothing between them changes."""
    pitch, count = rows.levels[0]
    if start + rows.span_nbytes > host.nbytes:
        raise ValueError(f"{rows} from {start} on of {host.nbytes} bytes")
    copy = cast(Callable[..., cl.Event], cl.enqueue_copy)  # whose stub lacks what follows
    return copy(
        queue,
        *((buffer, host) if to_device else (host, buffer)),
        buffer_origin=(at, 0, 0),
        host_origin=(start, 0, 0),
        region=(rows.nbytes, count, 1),
        buffer_pitches=(pitch, 0),
        host_pitches=(pitch, 0),
        is_blocking=False,
    )
