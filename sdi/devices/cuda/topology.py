"""What connects two GPUs: asked of the driver and of NVIDIA's management library, no copy is made."""

from __future__ import annotations

import ctypes
import functools

from sdi.devices.cuda.driver import drv
from sdi.devices.cuda.gpu import CudaGpu
from sdi.wire.cuda import NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK


def connection(one: CudaGpu, other: CudaGpu) -> str:
    """ "NVLink", "PCIe" where the GPUs reach each other's memory through that, "" where they don't."""
    if not do_reach(one, other):
        return ""
    places = (drv.Device(each.ordinal).pci_bus_id() for each in (one, other))
    return "NVLink" if _has_nvlink(*places) else "PCIe"


def do_reach(one: CudaGpu, other: CudaGpu) -> bool:
    """Whether they reach each other's memory, as the driver says.  It opens no context."""
    mine, theirs = drv.Device(one.ordinal), drv.Device(other.ordinal)
    return bool(mine.can_access_peer(theirs) and theirs.can_access_peer(mine))


def _has_nvlink(one: str, other: str) -> bool:
    library = _management()
    if library is None:
        return False
    handles = [ctypes.c_void_p(), ctypes.c_void_p()]
    for place, handle in zip((one, other), handles, strict=True):
        if library.nvmlDeviceGetHandleByPciBusId_v2(place.encode(), ctypes.byref(handle)):
            return False
    status = ctypes.c_int(-1)
    failed = library.nvmlDeviceGetP2PStatus(*handles, NVML_P2P_CAPS_INDEX_NVLINK, ctypes.byref(status))
    return not failed and status.value == NVML_P2P_STATUS_OK


@functools.cache
def _management() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return None if library.nvmlInit_v2() else library
