"""What a service does before it knows its members: imports, and CUDA's driver, which looks for its GPUs."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from sdi.errors import DeviceFailed
from sdi.wire.cuda import CUDA_ERROR_NO_DEVICE

MODULES: Final = (
    "sdi.devices.discover",
    "sdi.devices.opencl.member",
    "sdi.service.facts",
    "sdi.service.kernel_output",
    "sdi.service.vendors",
    "sdi.service.session",
)
"""In this order, so that what comes last is not needed to answer the application."""
_NVIDIA: Final = Path("/proc/driver/nvidia")


def begin_cuda() -> bool:
    """Have CUDA's driver look for its GPUs, where there is one; whether it did.

    Raises DeviceFailed: what it answers stays so in this process, and may be otherwise in the next one.
    """
    if not _NVIDIA.exists():
        return False
    from sdi.devices.cuda import driver

    if driver.drv is None:
        return False
    if (status := driver.slow().cuInit(0)) != CUDA_ERROR_NO_DEVICE:
        driver.check(status, "cuInit")
    return True


def import_beside_driver() -> None:
    """Import what sessions need while CUDA's driver, which takes as long, looks for its GPUs.

    No more than that: without the driver the application is answered first, and waits for no import.
    """
    if not _NVIDIA.exists():
        return
    beside = threading.Thread(target=_try_cuda, name="sdi-cuda-begin")
    beside.start()
    for name in MODULES:
        if beside.is_alive():
            with suppress(Exception):  # who needs it fails where that is said
                importlib.import_module(name)
    beside.join()


def _try_cuda() -> None:
    with suppress(DeviceFailed):  # who looks for members hears of it again
        begin_cuda()
