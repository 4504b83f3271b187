"""Kernels on images, on one GPU: CUDA members, whose images are memory, against the vendor's OpenCL.

``python bench/gpu_images.py OUT.json``: best times of several launches on the device, how far results differ.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from gpu_yardstick import machine

from sdi.cli.copies import wait
from sdi.devices import copying
from sdi.devices.cuda.gpu import cuda_devices
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape, Slabs, pixel_nbytes
from sdi.wire.opencl import ChannelOrder as Order
from sdi.wire.opencl import ChannelType as Type
from sdi.wire.opencl import MemObjectType as Kind
from tests.programs._images import image, write

SIZE, LAUNCHES = 8192, 10
GROUP = (16, 16)
Found = dict[str, tuple[float, np.ndarray]]
SOURCE = """
constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
constant sampler_t linear = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_LINEAR;
kernel void copy(read_only image2d_t from, write_only image2d_t to) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(to, at, read_imagef(from, nearest, at));
}
kernel void blur(read_only image2d_t from, write_only image2d_t to) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  float4 sum = 0;
  for (int y = -2; y <= 2; y++)
    for (int x = -2; x <= 2; x++)
      sum += read_imagef(from, nearest, at + (int2)(x, y));
  write_imagef(to, at, sum / 25.0f);
}
kernel void turn(read_only image2d_t from, write_only image2d_t to) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  float2 p = ((float2)(at.x, at.y) + 0.5f) / SIZE.0f - 0.5f;
  float2 q = (float2)(0.8f * p.x - 0.6f * p.y, 0.6f * p.x + 0.8f * p.y) + 0.5f;
  write_imagef(to, at, read_imagef(from, linear, q));
}
""".replace("SIZE", str(SIZE))
FORMATS = {"RGBA UNORM_INT8": Type.UNORM_INT8, "RGBA FLOAT": Type.FLOAT}
DTYPES = {Type.UNORM_INT8: np.uint8, Type.FLOAT: np.float32}
KERNELS = ("copy", "blur", "turn")


def on_the_member(
    member: CudaDevice, shape: ImageShape, pixels: np.ndarray
) -> dict[str, tuple[float, np.ndarray]]:
    """Milliseconds and result of each kernel."""
    linear = member.allocate(shape.nbytes)
    pictures: list[DeviceBuffer] = [member.allocate(shape) for _ in range(2)]
    everything = Slabs(0, shape.num_slabs)
    wait(copying.upload(member, memoryview(pixels).cast("B"), linear, 0, []))
    wait(copying.to_image(member, linear, 0, pictures[0], shape, everything, []))
    program = member.build(SOURCE, [])
    groups = (SIZE // GROUP[0], SIZE // GROUP[1], 1)
    found = {}
    for name in KERNELS:
        bound = member.bind(program, name, pictures)
        tickets = []
        for _ in range(LAUNCHES):
            tickets.append(member.launch(bound, groups, (*GROUP, 1), 2, []))
            wait(tickets[-1])
        result = np.empty_like(pixels)
        got = copying.from_image(member, pictures[1], shape, everything, linear, 0, [])
        wait(copying.download(member, linear, 0, memoryview(result).cast("B"), [got]))
        found[name] = (min(t.end_ns - t.start_ns for t in tickets) / 1e6, result)
    for picture in pictures:
        member.free(picture)
    member.free(linear)
    return found


def on_the_driver(
    device: cl.Device, data_type: int, pixels: np.ndarray
) -> dict[str, tuple[float, np.ndarray]]:
    """Likewise, by the vendor's OpenCL."""
    context = cl.Context([device])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    program = cl.Program(context, SOURCE).build()
    shape = (SIZE, SIZE)
    pictures = [image(context, Kind.IMAGE2D, Order.RGBA, data_type, shape) for _ in range(2)]
    write(queue, pictures[0], shape, pixels)
    found = {}
    for name in KERNELS:
        kernel = cl.Kernel(program, name)
        events = [kernel(queue, shape, GROUP, *pictures) for _ in range(LAUNCHES)]
        queue.finish()
        result = np.empty_like(pixels)
        cl.enqueue_copy(queue, result, pictures[1], origin=(0, 0), region=shape)
        found[name] = (min(e.profile.end - e.profile.start for e in events) / 1e6, result)
    return found


def main(out: Path) -> None:
    """Measure, print a table, write JSON."""
    member = CudaDevice(cuda_devices()[0], 0, 16 << 30)
    device = next(
        d for p in cl.get_platforms() if "NVIDIA" in p.name for d in p.get_devices(cl.device_type.GPU)
    )
    rows: list[dict[str, Any]] = []
    for name, data_type in FORMATS.items():
        rng = np.random.default_rng(5)
        pixels = rng.random((SIZE, SIZE, 4), np.float32)
        if data_type == Type.UNORM_INT8:
            pixels = (pixels * 255).astype(np.uint8)
        pitch = SIZE * pixel_nbytes(Order.RGBA, data_type)
        shape = ImageShape(Kind.IMAGE2D, Order.RGBA, data_type, SIZE, SIZE, 1, pitch, pitch * SIZE)
        ours, theirs = on_the_member(member, shape, pixels), on_the_driver(device, data_type, pixels)
        for kernel in KERNELS:
            (mine, one), (vendor, other) = ours[kernel], theirs[kernel]
            off = float(np.abs(one.astype(np.float32) - other).max())
            row = {"format": name, "kernel": kernel, "member_ms": mine, "vendor_ms": vendor, "off": off}
            rows.append(row)
            times = f"member {mine:7.3f} ms, vendor {vendor:7.3f} ms, {vendor / mine:5.2f}x"
            print(f"{name:16} {kernel:5} {times}, results {off:g} apart")
    out.write_text(json.dumps({"machine": machine(), "size": SIZE, "rows": rows}, indent=1))
    member.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
