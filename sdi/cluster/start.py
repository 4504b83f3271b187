"""How processes of a job begin: which one this is, as its launcher says, and what a node does."""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
from collections.abc import Mapping

from sdi import limits
from sdi.cluster.transport import Transport
from sdi.dataclass import dataclass
from sdi.settings import SettingsError

_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PALS_RANKID", "PALS_SIZE"),
)
_OF_MPI = ("OMPI_", "PMIX_", "PMI_", "PRTE", "HYDI_", "HYDRA_", "MPI_", "MPIR_", "OPAL_", "I_MPI_", "MV2_")


@dataclass(frozen=True, slots=True)
class RankPlace:
    """This process in its job, as the launcher says."""

    rank: int
    size: int


def place(environ: Mapping[str, str]) -> RankPlace | None:
    """Where this process is in a job of several; None where it is alone.

    Raises SettingsError where a launcher says that there is a job, and not how large it is: each rank would
    take itself for the only one.
    """
    known = [
        RankPlace(int(environ[rank]), int(environ[size]))
        for rank, size in _LAUNCHERS
        if environ.get(rank, "").isdecimal() and environ.get(size, "").isdecimal()
    ]
    if not known and environ.get("PMIX_RANK", "").isdecimal():
        raise SettingsError(
            f"PMIX_RANK={environ['PMIX_RANK']}: this launcher does not say how large its job is; start "
            "sdi with the mpiexec or srun of an MPI, or without PMIX_RANK for an image of this machine alone"
        )
    return next((found for found in known if found.size > 1), None)


def survives_losses(environ: Mapping[str, str]) -> bool:
    """Whether a job goes on when a rank of it ends: Open MPI's ``--with-ft ulfm``."""
    return environ.get("OMPI_MCA_mpi_ft_enable") == "1"


def without_mpi(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for a process that is no rank of the job."""
    return {name: value for name, value in environ.items() if not name.startswith(_OF_MPI)}


def alone(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for a process for which there is no job."""
    launchers = {name for names in _LAUNCHERS for name in names}
    return {name: value for name, value in without_mpi(environ).items() if name not in launchers}


def run_node(transport: Transport) -> bool:
    """Serve this process' devices until rank 0 has gone; False where it goes on without this node."""
    limits.without_threads_for_algebra()
    from sdi.cluster.heartbeat import Ticking
    from sdi.cluster.identity import introduction
    from sdi.cluster.members import facts_of, opens
    from sdi.cluster.mixed import MixedTransport
    from sdi.cluster.node import Node
    from sdi.devices.discover import all_devices
    from sdi.service.kernel_output import Printed

    for number in (signal.SIGINT, signal.SIGTERM):  # rank 0 gets it too, and decides what that means
        signal.signal(number, signal.SIG_IGN)
    sys.setswitchinterval(1e-5)
    printed = Printed()
    devices = all_devices()
    mixed = MixedTransport(transport)
    node = Node(mixed, introduction(facts_of(devices)), opens(devices, transport.rank), printed)
    gc.freeze()
    mixed.start(node)
    beats = Ticking("sdi-heartbeat", node.beat)
    node.left.wait()
    beats.close()
    mixed.close()
    node.close()
    printed.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return not node.is_refused


def leave(status: int) -> None:
    """End this process without taking Python's threads apart.

    With the C library's ``exit``: only then does MPICH tell its launcher that this process ends as it should,
    and the launcher would kill the others.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(status)
