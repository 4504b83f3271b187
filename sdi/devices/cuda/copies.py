"""What copies and fills of CUDA members give to the driver, each as what a lane starts when its turn comes.

Every function answers with a ``Start``; it checks its ranges when it is called.  Raises ValueError,
DeviceFailed and pycuda's errors then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

from sdi.devices.base import Place
from sdi.devices.cuda.channel import Stream
from sdi.devices.cuda.context import CudaContext
from sdi.devices.cuda.driver import MAX_PITCH, copy_peer, copy_pitched, copy_region, drv
from sdi.devices.cuda.fetch import FETCH_ITEMS, FetchPart, fetch_launch
from sdi.devices.cuda.images import CudaImage, copy_pixels
from sdi.devices.cuda.memory import CudaBuffer, Fills, blocks_of, check_range, fill_pattern
from sdi.devices.cuda.module import CudaFunction
from sdi.devices.handles import HostBytes
from sdi.devices.page_locks import PAGE_LOCKS, SLAB_NBYTES, CopyPart
from sdi.region import Region, alike

Start = Callable[[], None]
At = tuple[CudaBuffer, int]
"""A buffer and the offset there."""

COPIED_AT_ONCE_NBYTES = 64 << 10
"""So few bytes the driver copies at once.  Source: CUDA driver API, "API synchronization behavior"."""


def host_copy(
    host: HostBytes, place: At, stream: Stream, to_device: bool, is_at_once: bool
) -> tuple[Start, bool]:
    """(start, whether it blocks): copies of locked memory are given to the driver, others block meanwhile.

    ``is_at_once``: the driver takes a copy of the bytes.
    """
    buffer, offset = place

    def copy(parts: Iterable[CopyPart]) -> None:
        check_range(host.nbytes, offset, buffer.nbytes)
        for start, stop, _ in parts:
            if to_device:
                drv.memcpy_htod_async(buffer.address + offset + start, host[start:stop], stream)
            else:
                drv.memcpy_dtoh_async(host[start:stop], buffer.address + offset + start, stream)

    def copy_pageable() -> None:
        with PAGE_LOCKS.copying(host) as parts:
            copy(parts)

    if is_at_once:
        return partial(copy, [CopyPart(0, host.nbytes, False)]), False
    parts = PAGE_LOCKS.parts(host)
    if all(part.is_locked for part in parts):
        return partial(copy, parts), False
    return copy_pageable, True


def host_rows(host: HostBytes, place: At, rows: Region, stream: Stream, to_device: bool) -> Start | None:
    """Rows of page-locked memory; None where they have to be copied one by one."""
    parts = PAGE_LOCKS.parts(host)
    pitch = rows.levels[0][0]
    if not all(part.is_locked for part in parts) or rows.nbytes > SLAB_NBYTES or pitch > MAX_PITCH:
        return None
    buffer, offset = place
    address = ctypes.addressof(ctypes.c_char.from_buffer(host))
    blocks = blocks_of(rows, [part.stop for part in parts])

    def start() -> None:
        check_range(rows.span_nbytes, offset, buffer.nbytes)
        for at, nbytes, count in blocks:
            device, here = (buffer.address + offset + at, pitch), (address + at, pitch)
            to, from_ = (device, here) if to_device else (here, device)
            copy_pitched(to, from_, nbytes, count, stream.handle)

    return start


def own_copy(source: tuple[CudaBuffer, Region], target: tuple[CudaBuffer, Region], stream: Stream) -> Start:
    """Within one member."""
    (there, _), (here, _) = source, target

    def start() -> None:
        from_, to = alike(source[1], target[1])
        check_range(from_.span_nbytes, from_.base, there.nbytes)
        check_range(to.span_nbytes, to.base, here.nbytes)
        if from_.levels:
            copy_region(to.moved(here.address), from_.moved(there.address), stream.handle)
            return
        nbytes = from_.nbytes
        if there is here and abs(from_.base - to.base) < nbytes:
            raise ValueError(f"{nbytes} bytes at {from_.base} and at {to.base} overlap")
        drv.memcpy_dtod_async(here.address + to.base, there.address + from_.base, nbytes, stream)

    return start


def peer_copy(
    source: At, target: At, nbytes: int, contexts: tuple[CudaContext, CudaContext], stream: Stream
) -> Start:
    """From one member to another; ``contexts``: of source and target."""
    (from_, source_offset), (to, target_offset) = source, target
    there, here = contexts

    def start() -> None:
        check_range(nbytes, source_offset, from_.nbytes)
        check_range(nbytes, target_offset, to.nbytes)
        to_address, from_address = to.address + target_offset, from_.address + source_offset
        if here.open() is there.open():
            drv.memcpy_dtod_async(to_address, from_address, nbytes, stream)
        else:
            # Not pycuda's: it dereferences the context on its own stack, which is empty on this thread.
            copy_peer(to_address, here.handle, from_address, there.handle, nbytes, stream.handle)

    return start


def fetched(source: At, target: At, region: Region, kernel: CudaFunction, stream: Stream) -> Start:
    """Runs of few bytes of another member whose memory this one reads directly, by its ``FETCHER``."""
    (from_, source_offset), (to, target_offset) = source, target

    def start() -> None:
        check_range(region.span_nbytes, source_offset, from_.nbytes)
        check_range(region.span_nbytes, target_offset, to.nbytes)
        there, here = from_.address + source_offset, to.address + target_offset
        _, groups, parameters = fetch_launch([FetchPart(here, there, region)])
        kernel.starter(groups, (FETCH_ITEMS, 1, 1), parameters, 0, stream)()

    return start


def peer_rows(source: At, target: At, rows: Region, stream: Stream) -> Start:
    """Rows of another member whose memory this one reads directly."""
    (from_, source_offset), (to, target_offset) = source, target

    def start() -> None:
        check_range(rows.span_nbytes, source_offset, from_.nbytes)
        check_range(rows.span_nbytes, target_offset, to.nbytes)
        pitch, count = rows.levels[0]
        there, here = (from_.address + source_offset, pitch), (to.address + target_offset, pitch)
        copy_pitched(here, there, rows.nbytes, count, stream.handle)

    return start


def pixels(source: Place, target: Place, region: Region, stream: Stream) -> Start:
    """Between an image and linear bytes of its member."""
    to_image = isinstance(target.memory, CudaImage)
    picture, linear = (target, source) if to_image else (source, target)
    image, buffer = cast(CudaImage, picture.memory), cast(CudaBuffer, linear.memory)
    slabs = image.shape.slabs_of(region.bounds)

    def start() -> None:
        copy_pixels(image, slabs, buffer, linear.offset, stream.handle, to_image)

    return start


def fill(place: At, nbytes: int, pattern: bytes, stream: Stream) -> Start:
    """Repeat ``pattern``."""
    buffer, offset = place

    def start() -> None:
        check_range(nbytes, offset, buffer.nbytes)
        fills = Fills(
            lambda at, value, count: drv.memset_d8_async(at, value, count, stream),
            lambda at, value, count: drv.memset_d16_async(at, value, count, stream),
            lambda at, value, count: drv.memset_d32_async(at, value, count, stream),
            lambda at, pitch, value, width, height: drv.memset_d2d32_async(
                at, pitch, value, width, height, stream
            ),
            lambda to, from_, count: drv.memcpy_dtod_async(to, from_, count, stream),
        )
        fill_pattern(fills, buffer.address + offset, nbytes, pattern)

    return start
