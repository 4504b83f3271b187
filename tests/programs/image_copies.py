"""Copies among images of all kinds and buffers, of whole images and of parts, between launches."""

import itertools

import numpy as np
import pyopencl as cl
from pyopencl import _cl

from tests.programs._images import (
    IMAGE1D,
    IMAGE1D_ARRAY,
    IMAGE2D,
    IMAGE2D_ARRAY,
    IMAGE3D,
    RGBA,
    UINT8,
    image,
    read,
)
from tests.programs._kit import Outputs, kernels, to_device, to_host

KERNELS: dict[str, str] = {"ip_invert": "split"}

SOURCE = """
__kernel void ip_invert(__global uchar *data) { data[get_global_id(0)] ^= 255; }
"""
KINDS = {
    "1d": (IMAGE1D, (24,)),
    "1d array": (IMAGE1D_ARRAY, (24, 9)),
    "2d": (IMAGE2D, (24, 9)),
    "2d array": (IMAGE2D_ARRAY, (24, 9, 5)),
    "3d": (IMAGE3D, (24, 9, 5)),
}


def corner(shape: tuple[int, ...], region: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Where a region of an image begins: at ``wanted`` or before it, so that it ends inside."""
    room = (s - r for s, r in zip((*shape, 1, 1)[:3], region, strict=True))
    return tuple(min(pair) for pair in zip(room, wanted, strict=True))


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Every kind to every kind, and to buffers and back."""
    (invert,) = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(9)
    outputs: Outputs = {}

    def fresh(name: str) -> tuple[cl.Image, np.ndarray, tuple[int, ...]]:  # type: ignore[type-arg]
        kind, shape = KINDS[name]
        pixels = random.integers(0, 256, (*reversed(shape), 4), np.uint8)
        return image(ctx, kind, RGBA, UINT8, shape, host=pixels), pixels, shape

    for one, other in itertools.product(KINDS, KINDS):
        source, _, from_shape = fresh(one)
        target, like, to_shape = fresh(other)
        dims = min(len(from_shape), len(to_shape))
        region = (*(17, 4, 2)[:dims], 1, 1)[:3]
        here = corner(from_shape, region, (2, 3, 4))
        there = corner(to_shape, region, (4, 3, 2))
        _cl._enqueue_copy_image(queue, source, target, here, there, region)
        outputs[f"{one} to {other}"] = read(queue, target, to_shape, like)

    for name in KINDS:
        picture, pixels, shape = fresh(name)
        full = ((*shape, 1, 1)[0], (*shape, 1, 1)[1], (*shape, 1, 1)[2])
        part = tuple(max(1, s // 2) for s in full)
        at = corner(shape, part, full)
        buffer = to_device(ctx, np.zeros(pixels.size + 64, np.uint8))
        _cl._enqueue_copy_image_to_buffer(queue, picture, buffer, (0, 0, 0), full, 32)
        invert(queue, (pixels.size + 64,), (4,), buffer)
        _cl._enqueue_copy_buffer_to_image(queue, buffer, picture, 12, at, part)
        outputs[f"{name} and a buffer"] = read(queue, picture, shape, pixels)
        _cl._enqueue_copy_image_to_buffer(queue, picture, buffer, at, part, 0)
        outputs[f"a buffer and {name}"] = to_host(queue, buffer, np.zeros(pixels.size + 64, np.uint8))

    plane, like, shape = fresh("2d")
    _cl._enqueue_copy_image(queue, plane, plane, (0, 0, 0), (12, 3, 0), (12, 6, 1))
    outputs["within one"] = read(queue, plane, shape, like)
    return outputs
