"""Launches that differ in scalars: which of them share a plan, and that each gets its own values."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from sdi.commands import Launch
from sdi.devices.base import Device
from sdi.devices.capabilities import GPU
from sdi.devices.cuda.images import image_formats
from sdi.devices.issue import Issue
from sdi.devices.testing.null import NullDevice
from sdi.launch.counters import Counters
from sdi.launch.kernel import Kernel, LaunchPlan
from sdi.launch.launcher import Launcher
from sdi.launch.programs.builds import Target, build
from sdi.partition.gain import Rates
from sdi.partition.history import LaunchHistory
from sdi.vmem.arena import Arena
from sdi.vmem.host import HostWorker
from sdi.vmem.memory import VirtualMemory
from sdi.wire.arguments import ENTRY, ArgumentKind
from sdi.wire.layout import layout
from sdi.wire.records import IMAGE_ARGUMENT, Op
from tests.service.conftest import Serve

SOURCE = """
__kernel void add(__global int *a, int first, int value) {
    a[first + get_global_id(0)] += value;
}
"""
N = 256


def i32(value: int) -> bytes:
    return struct.pack("<i", value)


@pytest.mark.parametrize("members", [1, 3])
def test_a_scalar_that_shapes_no_range_costs_no_new_plan(serve: Serve, members: int) -> None:
    client = serve(members)
    build, status, _ = client.build(SOURCE)
    assert status == 0
    a = client.buffer(bytes(4 * 2 * N))
    expected = np.zeros(2 * N, np.int32)
    add: Callable[[int, int], None] = lambda first, value: client.launch(  # noqa: E731
        build, [(a, 0), i32(first), i32(value)], [N], [16]
    )
    for value in range(1, 40):
        add(8, value)
        expected[8 : 8 + N] += value
    client.finish()
    kernel: Kernel = client.session._launcher._builds[build].kernels[0]
    assert len(client.session._launcher.known.values) == 39
    assert len(kernel._launch_plans.values) == 1
    for first in range(5):  # these change what is read and written
        add(first, 1000)
        expected[first : first + N] += 1000
    client.finish()
    # One member holds everything whatever the ranges are.
    assert len(kernel._launch_plans.values) == (1 if members == 1 else 6)
    assert np.array_equal(np.frombuffer(client.read(a, 4 * 2 * N), np.int32), expected)


FRACTION = """
__kernel void add_to_part(__global int *a, int n, float part, int value) {
    int i = get_global_id(0);
    if (i < (int)(n * part))
        a[i] += value;
}
"""


@pytest.mark.parametrize("members", [1, 3])
def test_launches_that_differ_in_a_float_that_counts_share_no_plan(serve: Serve, members: int) -> None:
    client = serve(members)
    build, status, _ = client.build(FRACTION)
    assert status == 0
    a = client.buffer(bytes(4 * N))
    expected = np.zeros(N, np.int32)
    parts = (0.25, 0.5, 0.75, 1.0, 0.1, 0.0)
    for value in range(60):  # so often that launches are recorded
        part = parts[value * value % 6 if value < 40 else value % 6]
        client.launch(build, [(a, 0), i32(N), struct.pack("<f", part), i32(value)], [N], [16])
        expected[: int(np.float32(N) * np.float32(part))] += value
    client.finish()
    kernel: Kernel = client.session._launcher._builds[build].kernels[0]
    if members > 1:
        assert len(kernel._launch_plans.values) == len(parts)
    assert np.array_equal(np.frombuffer(client.read(a, 4 * N), np.int32), expected)


@pytest.mark.parametrize("members", [1, 3])
def test_a_released_buffer_takes_its_plans_along(serve: Serve, members: int) -> None:
    client = serve(members)
    build, status, _ = client.build(SOURCE)
    assert status == 0
    kernel: Kernel = client.session._launcher._builds[build].kernels[0]
    for number in range(3):
        a = client.buffer(bytes(4 * N))
        client.launch(build, [(a, 0), i32(0), i32(number)], [N], [16])
        client.finish()
        assert np.all(np.frombuffer(client.read(a, 4 * N), np.int32) == number)
        client.send(Op.RELEASE_BUFFER, a)
        client.finish()
    assert not client.session._launcher.known.values and not kernel._launch_plans.values


def test_data_of_launches_that_one_member_runs_are_gathered_there_ever_more_seldom() -> None:
    history = LaunchHistory(Rates(True, {1: 1.0, 3: 1.0}))
    history.decide((1, 1, 1), 1, "too little")
    found = []
    for number in range(100):
        if history.gather():
            found.append(number)
        history.ran(1)
    assert found == [8, 24, 56]


def test_what_was_recorded_of_launches_goes_on_where_their_cut_stays_the_same() -> None:
    nulls = cast(list[Device], [NullDevice(number, GPU) for number in range(3)])
    arena, host, calls = Arena(1 << 24, 1 << 16), HostWorker(1), list[Callable[[], None]]()
    memory = VirtualMemory(arena, nulls, host, calls.append)
    counters = Counters(3, memory.accounting, memory.transfers.links, "auto", 1e4)
    launcher = Launcher(memory, "auto", counters)
    launcher.add(1, build(SOURCE, "", "", Target(nulls)))
    try:
        memory.create(1, 4 << 20, True)
        given = struct.pack("<IIQQQ", 1, 24, 1, 0, 0) + 2 * struct.pack("<IIii", 0, 4, 0, 0)
        command = Launch(1, 0, 1, (0, 0, 0), (1 << 20, 1, 1), (64, 1, 1), given, 3, record=b"add")
        kernel = launcher._builds[1].kernels[0]
        plans: list[LaunchPlan] = []
        for _ in range(70):
            assert next(launcher.issue(command, Issue("launch")), None) is None
            (plan,) = kernel._launch_plans.values.values()
            plan.history.rates.record(len(plan.plan.boxes), 1e9, 1 << 14)
            plans.append(plan)
        assert len(plans[-1].plan.boxes) == 3 and plans[-1].history.launches == 70
        first = next(number for number, plan in enumerate(plans) if plan is plans[-1])
        assert first < 4, "it was looked at after 5, 16 and 64 launches, and nothing was begun anew"
        other = replace(plans[-1], history=LaunchHistory(plans[-1].history.rates))
        assert plans[-1].is_like(replace(plans[-1])) and not plans[-1].is_like(other)
        generation = kernel.generation
        plans[-1].history.decide((1, 1, 1), 1, "for this test")
        assert next(launcher.issue(command, Issue("launch")), None) is None
        assert plans[-1] not in kernel._launch_plans.values.values()
        assert not plans[-1].passes() and kernel.generation == generation, "others of the kernel go on"
    finally:
        host.close()
        arena.close()
        del memory, launcher, arena


SHADE = """
__kernel void shade(read_only image2d_t from, write_only image2d_t to) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, at, read_imagef(from, at));
}
"""


@pytest.mark.parametrize("linear", [True, False])
def test_a_launch_is_recorded_where_no_member_has_copies_of_its_images(linear: bool) -> None:
    nulls = [NullDevice(number, GPU) for number in range(2)]
    for null in nulls:
        null.capabilities = replace(null.capabilities, has_linear_images=linear, formats=image_formats())
    arena, host, calls = Arena(1 << 24, 1 << 16), HostWorker(1), list[Callable[[], None]]()
    memory = VirtualMemory(arena, cast(list[Device], nulls), host, calls.append)
    launcher = Launcher(memory, "always", Counters(2, memory.accounting, memory.transfers.links, "auto", 1e4))
    launcher.add(1, build(SHADE, "", "", Target(cast(list[Device], nulls))))
    try:
        width, height, pixel_nbytes = 64, 48, 4
        nbytes = width * height * pixel_nbytes
        arguments = b""
        for number in (1, 2):
            memory.create(number, nbytes, True)
            numbers = (number, 0, 0x10F1, 0x10B5, 0x10D2, 0, width, height, 1, 4 * width, nbytes)
            image = layout(IMAGE_ARGUMENT).pack(*numbers)
            arguments += ENTRY.pack(ArgumentKind.IMAGE, len(image)) + image
        command = Launch(1, 0, 2, (0, 0, 0), (width, height, 1), (8, 8, 1), arguments, 2, record=b"shade")
        kernel = launcher._builds[1].kernels[0]
        for _ in range(4):
            assert next(launcher.issue(command, Issue("launch")), None) is None
        (plan,) = kernel._launch_plans.values.values()
        (chunk,) = plan.chunks
        assert len(chunk.plan.boxes) == 2 and chunk.may_repeat((0, 1), memory.images) is linear
        assert (chunk.find() is not None) is linear
        assert {buffer.id for buffer in chunk.buffers} == {1, 2}, "whose states and places recordings guard"
        assert bool(memory.buffer(1).images) is not linear
        copies = [null.copies for null in nulls]
        assert next(launcher.issue(command, Issue("launch")), None) is None
        assert ([null.copies for null in nulls] == copies) is linear, "what copies show is brought back"
    finally:
        host.close()
        arena.close()
        del memory, launcher, arena
