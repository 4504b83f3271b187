"""A 5 x 5 convolution over images, with samplers of all modes, given as arguments and in the kernel."""

import numpy as np
import pyopencl as cl

from tests.programs._images import FLOAT, IMAGE2D, RGBA, UNORM8, R, image
from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"ic_filter": "split", "ic_edges": "split", "ic_sample": "split"}

SOURCE = """
constant sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

__kernel void ic_filter(read_only image2d_t image, __constant float *weights, __global float *result,
                        sampler_t s)
{
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++)
            sum += weights[(j + 2) * 5 + i + 2] * read_imagef(image, s, (int2)(x + i, y + j)).x;
    result[y * get_image_width(image) + x] = sum;
}

float4 around(read_only image2d_t image, int2 at)
{
    const sampler_t none = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    return read_imagef(image, edge, at + (int2)(-1, 0)) - read_imagef(image, none, at + (int2)(1, 0));
}

__kernel void ic_edges(__read_only image2d_t image, __global float4 *result)
{
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    result[at.y * get_image_dim(image).x + at.x] = around(image, at);
}

__kernel void ic_sample(read_only image2d_t image, sampler_t s, __global float4 *result, float2 from,
                        float2 step)
{
    int x = get_global_id(0), y = get_global_id(1);
    result[y * get_global_size(0) + x] = read_imagef(image, s, from + step * (float2)(x, y));
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Convolve and resample with many samplers."""
    convolve, edges, sample = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(5)
    width, height = 52, 36
    grey = random.random((height, width), np.float32)
    weights = random.random(25, np.float32)
    source = image(ctx, IMAGE2D, R, FLOAT, (width, height), cl.mem_flags.READ_ONLY, grey)
    outputs: Outputs = {}
    modes, filters = cl.addressing_mode, cl.filter_mode

    result = to_device(ctx, np.zeros_like(grey))
    table = to_device(ctx, weights)
    for name in ("CLAMP_TO_EDGE", "CLAMP", "NONE"):
        border = 2 if name == "NONE" else 0
        size = (width - 2 * border, height - 2 * border)
        sampler = cl.Sampler(ctx, False, getattr(modes, name), filters.NEAREST)
        convolve.set_args(source, table, result, sampler)
        cl.enqueue_nd_range_kernel(queue, convolve, size, (4, 4), (border, border))
        outputs[name] = to_host(queue, result, grey)
    padded = np.pad(grey, 2, mode="edge")
    expected = sum(
        weights[j * 5 + i] * padded[j : j + height, i : i + width] for j in range(5) for i in range(5)
    )
    near(outputs["CLAMP_TO_EDGE"], expected, "convolution with clamped edges")  # type: ignore[arg-type]

    colors = random.integers(0, 256, (height, width, 4), np.uint8)
    painted = image(ctx, IMAGE2D, RGBA, UNORM8, (width, height), cl.mem_flags.READ_ONLY, colors)
    many = to_device(ctx, np.zeros((height, width, 4), np.float32))
    edges(queue, (width, height), (4, 4), painted, many)
    outputs["edges"] = to_host(queue, many, np.zeros((height, width, 4), np.float32))

    cases = [(False, mode, kind) for mode in ("CLAMP", "CLAMP_TO_EDGE") for kind in ("NEAREST", "LINEAR")]
    cases += [
        (True, mode, kind)
        for mode in ("CLAMP", "CLAMP_TO_EDGE", "REPEAT", "MIRRORED_REPEAT")
        for kind in ("NEAREST", "LINEAR")
    ]
    for normalized, mode, kind in cases:
        sampler = cl.Sampler(ctx, normalized, getattr(modes, mode), getattr(filters, kind))
        scale = np.float32([width, height]) if not normalized else np.float32([1, 1])
        first = np.float32([-0.37, -0.21]) * scale
        step = np.float32([1.9 / width, 1.7 / height]) * scale
        origin, pace = (np.array((*v,), cl.cltypes.float2) for v in (first, step))  # type: ignore[attr-defined]
        sample(queue, (width, height), (4, 4), painted, sampler, many, origin, pace)
        outputs[f"{mode} {kind} {normalized}"] = to_host(
            queue, many, np.zeros((height, width, 4), np.float32)
        )
    return outputs
