"""The service as tests on GPU hosts start it: ``python gpu_service.py -m sdi.service.main ...``.

``STACKS_AFTER_S``: a service that lives so many seconds says once, on stderr, what its threads do.
``GPU_STANDS_FOR``: each GPU is found so many times, with a share of its memory, so that launches are split on
a host with one.  ``GPU_DRIVER=opencl``: GPUs are members by their OpenCL, as where pycuda is not installed.
"""

import faulthandler
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sdi.devices.cuda.source import CudaSource
from sdi.devices.opencl.source import OpenCLSource


def repeated(find: Callable[[Any], Sequence[Any]], times: int) -> Callable[[Any], Sequence[Any]]:
    """``find`` of a source, where each GPU is found so many times."""
    return lambda self: [
        replace(device, unit=f"{device.unit} {part}", memory_nbytes=device.memory_nbytes // times)
        if times > 1 and not device.kind.is_host_processor
        else device
        for device in find(self)
        for part in range(1 if device.kind.is_host_processor else times)
    ]


def main() -> None:
    """Set the two up, then run the module that the arguments name."""
    if limit := os.environ.get("STACKS_AFTER_S"):
        faulthandler.dump_traceback_later(float(limit))
    times = int(os.environ.get("GPU_STANDS_FOR", "1"))
    for source in (CudaSource, OpenCLSource):
        source.find = repeated(source.find, times)
    if os.environ.get("GPU_DRIVER") == "opencl":
        CudaSource.find = lambda self: []
    module = sys.argv[2]
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
