"""The GPUs that the CUDA driver shows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from sdi.dataclass import dataclass, field
from sdi.devices.capabilities import GPU, MemberKind
from sdi.devices.cuda.driver import drv, why_missing
from sdi.devices.cuda.nvrtc import NvrtcMissing, version
from sdi.wire.cuda import SHARED_NBYTES
from sdi.wire.opencl import PCI_BUS_INFO

_log = logging.getLogger(__name__)
_NVIDIA_VERSION = Path("/proc/driver/nvidia/version")
RESERVED_NBYTES = 1 << 10
"""What the driver keeps of it for each work-group, from compute capability 8 on.

Source: CUDA C++ programming guide.
"""


@dataclass(frozen=True, slots=True)
class CudaGpu:
    """A GPU that the CUDA driver shows.  ``unit`` is that of the same GPU in an OpenCL driver."""

    ordinal: int
    name: str
    unit: str
    memory_nbytes: int
    capability: tuple[int, int]
    info: Mapping[int, bytes] = field(repr=False)
    platform: str = "CUDA"
    kind: MemberKind = GPU
    node: int = 0


def cuda_devices() -> list[CudaGpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; none without pycuda, a driver and NVRTC (see the log)."""
    if drv is None:
        _log.info("no CUDA members: %s", why_missing())
        return []
    try:
        drv.init()
        version()
        return [_gpu(ordinal) for ordinal in range(drv.Device.count())]
    except (drv.Error, NvrtcMissing) as cause:
        _log.info("no CUDA members: %s", cause)
        return []


def _gpu(ordinal: int) -> CudaGpu:
    from sdi.devices.cuda.info import CudaAttributes, device_info, driver_version

    device, of = drv.Device(ordinal), drv.device_attribute
    domain, bus, slot = device.pci_bus_id().replace(".", ":").split(":")[:3]
    pci = (int(domain, 16), int(bus, 16), int(slot, 16))
    unit = "pci " + PCI_BUS_INFO.pack(*pci, 0).hex()

    def attribute(name: str, default: int = 0) -> int:
        wanted = getattr(of, name, None)
        return int(device.get_attribute(wanted)) if wanted is not None else default

    attributes = CudaAttributes(
        name=device.name(),
        driver=driver_version(_NVIDIA_VERSION, drv.get_driver_version()),
        memory_nbytes=device.total_memory(),
        compute_units=attribute("MULTIPROCESSOR_COUNT"),
        clock_khz=attribute("CLOCK_RATE"),
        max_threads=attribute("MAX_THREADS_PER_BLOCK"),
        max_block=(
            attribute("MAX_BLOCK_DIM_X"),
            attribute("MAX_BLOCK_DIM_Y"),
            attribute("MAX_BLOCK_DIM_Z"),
        ),
        shared_nbytes=SHARED_NBYTES,
        constant_nbytes=attribute("TOTAL_CONSTANT_MEMORY", 64 << 10),
        cache_nbytes=attribute("L2_CACHE_SIZE"),
        has_ecc=bool(attribute("ECC_ENABLED")),
        capability=device.compute_capability(),
        registers=attribute("MAX_REGISTERS_PER_BLOCK", 1 << 16),
        warp_size=attribute("WARP_SIZE", 32),
        copies_beside_kernels=bool(attribute("GPU_OVERLAP", 1)),
        has_time_limit=bool(attribute("KERNEL_EXEC_TIMEOUT")),
        is_integrated=bool(attribute("INTEGRATED")),
        copy_engines=attribute("ASYNC_ENGINE_COUNT", 1),
        pci=pci,
    )
    info = device_info(attributes)
    return CudaGpu(ordinal, attributes.name, unit, attributes.memory_nbytes, attributes.capability, info)
