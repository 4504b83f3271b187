"""Builds texts and prints what their kernels tell: the script that runs on the plain driver and on images.

``python tell.py plain|image`` reads from stdin a list, as JSON, of [text, options]; it prints for each one
[what was told, 0], or ["", the error code of the build].
"""

from __future__ import annotations

import json
import os
import sys

os.environ["PYOPENCL_NO_CACHE"] = "1"

import numpy as np
import pyopencl as cl
from pyopencl import _cl

ROOM_NBYTES = 1 << 20
END = b"\004~\004"


def main() -> None:
    is_image = sys.argv[1] == "image"
    platform = next(p for p in cl.get_platforms() if (p.name == "SDI") == is_image)
    device = platform.get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    out = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, ROOM_NBYTES)
    found = []
    for text, options in json.load(sys.stdin):
        program = _cl._Program(context, text)
        try:
            program._build(options=options.encode())
        except cl.Error as error:
            found.append(["", error.code])
            continue
        kernel = cl.Kernel(program, "tell")
        kernel.set_args(out, np.uint32(ROOM_NBYTES))
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        said = np.zeros(ROOM_NBYTES, np.uint8)
        cl.enqueue_copy(queue, said, out)
        found.append([said.tobytes().partition(END)[0].decode("utf-8", "replace"), 0])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
