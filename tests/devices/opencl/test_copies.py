"""Rows are copied where a driver refuses regions whose last row would go on past the buffer's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from sdi.devices import copying
from sdi.devices.base import Place
from sdi.devices.opencl import copies
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.region import Region
from tests.devices.conftest import finish

SIZE = 832
ROWS = [
    Region(0, 4, ((78, 11),)),  # 11 * 78 is more than there is
    Region(6, 4, ((78, 11),)),
    Region(0, 8, ((104, 8),)),
    Region(30, 2, ((500, 2),)),
    Region(700, 9, ((40, 3),)),
    Region(5, 3, ()),
]


@pytest.fixture
def queue(driver: DriverDevice) -> cl.CommandQueue:
    return cl.CommandQueue(cl.Context([driver.handle]))


@pytest.fixture(autouse=True)
def refused(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A driver that counts the whole of the last row; how often it is asked for rows."""
    copy: Callable[..., cl.Event] = cl.enqueue_copy
    asked = list[int]()

    def strict(queue: cl.CommandQueue, to: Any, from_: Any, **how: Any) -> cl.Event:
        for memory, pitches in ((to, "dst_pitches"), (from_, "src_pitches"), (None, "buffer_pitches")):
            if pitches in how:
                buffer = memory if memory is not None else to if isinstance(to, cl.Buffer) else from_
                _, rows, slices = how["region"]
                pitch, far = how[pitches]
                asked.append(rows)
                if max(pitch * rows, far * slices) > buffer.size:
                    raise cl.LogicError("clEnqueueCopyBufferRect", cl.status_code.INVALID_VALUE, "")
        return copy(queue, to, from_, **how)

    monkeypatch.setattr(copies.cl, "enqueue_copy", strict)
    return asked


def taken(data: np.ndarray[Any, Any], rows: Region) -> np.ndarray[Any, Any]:
    """The bytes of a region, and zeros."""
    there = np.zeros_like(data)
    for run in rows.runs():
        there[run.start : run.stop] = data[run.start : run.stop]
    return there


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_rows_go_to_the_host_and_back(members: list[OpenCLDevice], rows: Region, refused: list[int]) -> None:
    data = np.random.default_rng(1).integers(1, 256, SIZE, np.uint8)
    member, host, found = members[0], np.zeros_like(data), np.zeros_like(data)
    one, two = member.allocate(SIZE), member.allocate(SIZE)
    for buffer, content in ((one, data), (two, np.zeros_like(data))):
        finish(copying.upload(member, memoryview(content), buffer, 0, []))
    there = Place(memoryview(host))
    _, arrived = member.copy(Place(one, 0, member), there, rows, [], [])
    finish(arrived)
    assert np.array_equal(host, taken(data, rows))
    _, arrived = member.copy(there, Place(two, 0, member), rows, [], [])
    finish(arrived)
    finish(copying.download(member, two, 0, memoryview(found), []))
    assert np.array_equal(found, host)
    assert bool(refused) == any(count > 2 for _, count in rows.levels)
    member.free(one)
    member.free(two)


@pytest.mark.parametrize("rows", [*ROWS, Region(2, 4, ((10, 3), (90, 9)))], ids=str)
def test_rows_go_to_other_buffers(queue: cl.CommandQueue, rows: Region, refused: list[int]) -> None:
    data = np.random.default_rng(2).integers(1, 256, SIZE, np.uint8)
    one, two = (cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, SIZE) for _ in range(2))
    for buffer, content in ((one, data), (two, np.zeros_like(data))):
        cl._cl._enqueue_write_buffer(queue, buffer, content, is_blocking=True)
    copies.copy_region(queue, two, one, rows, rows).wait()
    found = np.zeros_like(data)
    cl._cl._enqueue_read_buffer(queue, two, found, is_blocking=True)
    assert np.array_equal(found, taken(data, rows))
    assert bool(refused) == any(count > 2 for _, count in rows.levels)
