"""ffmpeg's OpenCL filters: frames of a test picture."""

import subprocess

from kit import result, timed

FILTERS = {
    "sharpened and blurred": "format=yuv420p,hwupload,unsharp_opencl=lx=5:ly=5:la=2,avgblur_opencl=3,"
    "hwdownload,format=yuv420p",
    "convolved and turned": "format=rgba,hwupload,convolution_opencl='1 1 1 1 1 1 1 1 1:1 1 1 1 1 1 1 1 1:"
    "1 1 1 1 1 1 1 1 1:1 1 1 1 1 1 1 1 1:1/9:1/9:1/9:1/9',transpose_opencl=1,hwdownload,format=rgba",
}


def frames(filters: str) -> str:
    """The digests of twenty frames."""
    source = ["-f", "lavfi", "-i", "testsrc2=size=640x480:rate=10:duration=2"]
    device = ["-init_hw_device", "opencl=ocl:0.0", "-filter_hw_device", "ocl"]
    command = ["ffmpeg", "-v", "error", *source, *device, "-vf", filters, "-f", "framemd5", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("#"))


for name, filters in FILTERS.items():
    result(name, frames(filters))
timed(lambda: frames(FILTERS["sharpened and blurred"]), 1)
