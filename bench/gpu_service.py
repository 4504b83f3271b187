"""The service as tests on GPU hosts start it: ``python gpu_service.py -m sdi.service.main ...``.

``STACKS_AFTER_S``: a service that lives so many seconds says once, on stderr, what its threads do.
``GPU_STANDS_FOR``: each GPU is found so many times, with a share of its memory, so that launches are split on
a host with one.
"""

import faulthandler
import os
import runpy
import sys
from dataclasses import replace

from sdi.devices.cuda.source import CudaSource


def main() -> None:
    """Set the two up, then run the module that the arguments name."""
    if limit := os.environ.get("STACKS_AFTER_S"):
        faulthandler.dump_traceback_later(float(limit))
    times = int(os.environ.get("GPU_STANDS_FOR", "1"))
    find = CudaSource.find
    CudaSource.find = lambda self: [
        replace(gpu, unit=f"{gpu.unit} {part}", memory_nbytes=gpu.memory_nbytes // times)
        for gpu in find(self)
        for part in range(times)
    ]
    module = sys.argv[2]
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
