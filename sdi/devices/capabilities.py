"""What members cost and can do, as values: nobody else asks which kind or class a member is of."""

from __future__ import annotations

from collections.abc import Mapping

from sdi.dataclass import dataclass, field
from sdi.wire.opencl import DeviceType


@dataclass(frozen=True, slots=True)
class MemberKind:
    """What all members of a kind have in common.  Costs: before anything is measured.

    ``name``: for users.  ``device_type``: what an image of such members says that it is.
    ``is_host_processor``: its cores and memory are those of the machine that its process runs on, and several
    members may be on it.
    ``keeps_memory``: what is given back is kept for a while, since getting it anew takes long and nobody else
    on the machine could have it.
    ``merges``: it compares and merges what members wrote faster than the host does, if it can: design/0019.
    ``merge_ns_per_byte``: what that takes for each member that wrote, its changes brought to one of them.
    ``assignment_ns``: what an assignment costs: issuing it and seeing its end.
    ``access_ns``: what an access of the inner loops takes at least, over a whole device.
    ``host_ns_per_byte``: of copies between the host's memory and it; ``peer_ns_per_byte``: between two of
    this kind in one process.  ``peer_copy_ns``, ``peer_row_ns``: what one more copy costs there, and one more
    run of one.  ``host_share``: how busy a copy to it keeps the host's memory, 1.0: all the
    time.
    ``trial_nbytes``: what a copy has to carry that tells how fast the link is.
    ``group_items``: work-items of a group where the application says nothing: more would gain nothing.
    """

    name: str
    device_type: DeviceType
    is_host_processor: bool
    keeps_memory: bool
    merges: bool
    merge_ns_per_byte: float
    assignment_ns: float
    access_ns: float
    host_ns_per_byte: float
    peer_ns_per_byte: float
    peer_copy_ns: float
    peer_row_ns: float
    host_share: float
    trial_nbytes: int
    group_items: int


CPU = MemberKind(
    "cpu",
    DeviceType.CPU,
    is_host_processor=True,
    keeps_memory=False,
    merges=False,
    merge_ns_per_byte=0.5,
    assignment_ns=60_000.0,
    access_ns=0.3,
    host_ns_per_byte=0.1,
    peer_ns_per_byte=0.1,
    peer_copy_ns=40_000.0,
    peer_row_ns=300.0,
    host_share=1.0,
    trial_nbytes=16 << 20,
    group_items=1024,
)
"""DESIGN: 11 GB/s by memcpy."""
GPU = MemberKind(
    "gpu",
    DeviceType.GPU,
    is_host_processor=False,
    keeps_memory=True,
    merges=True,
    merge_ns_per_byte=0.0125,
    assignment_ns=30_000.0,
    access_ns=0.001,
    host_ns_per_byte=0.02,
    peer_ns_per_byte=0.0025,
    peer_copy_ns=1_000.0,
    peer_row_ns=0.2,
    host_share=0.27,
    trial_nbytes=128 << 20,
    group_items=256,
)
"""DESIGN: 55 GB/s to a GPU, 205 to four at once, 395 between GPUs.  [M] a merge, four H200s: 80 bytes per ns
and member.  [M] an assignment, two H200s, from sources: 0.114 ms an iteration of Jacobi 4096 x 4096, which is
two launches of 32 us and two halo copies."""


def kind_named(name: str) -> MemberKind:
    """The kind of that name; of members that are defined elsewhere, what CPU members cost."""
    return next((kind for kind in (CPU, GPU) if kind.name == name), CPU)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a member reports once.

    ``node``: the rank of the process that it belongs to, 0 beside the application.
    ``is_near``: that process shares memory with rank 0, so that copies to and from there go over no network.
    ``hop_ns``: what a message to that process was measured to take, 0: not.
    ``signals``: of a member of another process, whether it has ``Device.signals`` there.
    ``unit``: the physical device (members that share it share its memory).  ``info``: raw ``clGetDeviceInfo``
    bytes by parameter number, as this machine's driver gives them, for the parameters that the image combines
    or passes through.
    ``memory_nbytes``: this member's share of the device's memory.
    ``platform_vendor``, ``platform_name``, ``platform_version``: of the platform that shows the
    device; of its version what follows OpenCL's.
    ``compares``: it has ``merge``.  ``is_host_memory``: its memory is the host's, so that short
    rows are copied to and from there as fast as anywhere.
    ``compiler``: all that the answers of its compiler depend on, such as its version.
    ``formats``: the image formats that it has, (channel order, data type), each with its uses: bit
    4 * (type - CL_MEM_OBJECT_IMAGE2D) + access, where access is 0 for CL_MEM_READ_WRITE, 1 WRITE_ONLY,
    2 READ_ONLY, 3 KERNEL_READ_AND_WRITE.  Empty: it has no images.
    ``maps_host``: its buffers can be any memory of the host, which no copy is made of.
    ``has_linear_images``: its kernels read and write pixels where they lie in a buffer (``LinearImage``).
    """

    name: str
    kind: MemberKind
    vendor: str
    driver: str
    unit: str
    memory_nbytes: int
    info: Mapping[int, bytes]
    compares: bool = False
    is_host_memory: bool = False
    formats: Mapping[tuple[int, int], int] = field(default_factory=dict)
    platform_vendor: str = ""
    platform_name: str = ""
    platform_version: str = ""
    compiler: str = ""
    node: int = 0
    is_near: bool = True
    hop_ns: int = 0
    signals: bool = False
    has_linear_images: bool = False
    maps_host: bool = False
