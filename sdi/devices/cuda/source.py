"""Members on CUDA GPUs, as one of the kinds.  What needs CUDA is imported when there is one."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.devices.base import Device
from sdi.devices.cuda.gpu import CudaGpu, cuda_devices
from sdi.devices.kinds import Found
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory


class CudaSource:
    """Implements ``MemberSource``."""

    def find(self) -> Sequence[Found]:
        return cuda_devices()

    def open(
        self, found: Found, number: int, nbytes: int, beside: Sequence[Device], polling: Polling | None
    ) -> Device | None:
        if not isinstance(found, CudaGpu):
            return None
        from sdi.devices.cuda.member import CudaDevice

        return CudaDevice(found, number, nbytes, polling)

    def connection(self, one: Found, other: Found) -> str:
        if not (isinstance(one, CudaGpu) and isinstance(other, CudaGpu)):
            return ""
        from sdi.devices.cuda.topology import connection

        return connection(one, other)

    def pool(self, members: Sequence[Device]) -> PooledMemory | None:
        # No member of another driver, nor of a node, has a GPU here.
        if any(member.capabilities.kind.is_host_processor or member.capabilities.node for member in members):
            return None
        from sdi.devices.cuda.member import CudaDevice
        from sdi.devices.cuda.pooled import pool_over

        gpus = [member for member in members if isinstance(member, CudaDevice)]
        return pool_over(gpus) if len(gpus) == len(members) else None
