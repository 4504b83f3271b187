"""Ways to run an application on members of several processes of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.image_runs import ROOT, image_environ, run

MPIEXEC = Path(sys.executable).parent / "mpiexec"
SDI = (sys.executable, "-m", "sdi.cli")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_KILL_LIMIT_S = 300.0


def is_open_mpi() -> bool:
    version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=False).stdout
    return "Open MPI" in version or "PRRTE" in version or "prterun" in version


def mpiexec(ranks: int, options: Sequence[str] = ()) -> list[str]:
    """Starts so many ranks on this machine, more than it has cores."""
    more = ["--oversubscribe", "--bind-to", "none"] if is_open_mpi() else []
    return [str(MPIEXEC), *options, *more, "-n", str(ranks)]


@dataclass(frozen=True, slots=True)
class Shape:
    """So many ranks with so many members in all; ``devices``: SDI_DEVICES."""

    ranks: int
    members: int
    devices: str | None = None


SHAPES = {
    "1+2": Shape(2, 3, "1,0"),  # one member beside the application, two on the other rank
    "3": Shape(3, 3),
    "5": Shape(5, 5),
    "8": Shape(8, 8),  # replays go through nodes that tell others
}


@dataclass(frozen=True, slots=True)
class Way:
    """Jobs of one shape over one transport.  ``is_far``: as if each rank were on a machine of its own."""

    transport: str
    shape: Shape
    is_far: bool = False

    def under(self) -> list[str]:
        """The command that starts an application."""
        return [*self._launcher(self.shape.ranks), *SDI, "run", "--"]

    def _launcher(self, ranks: int) -> list[str]:
        if self.transport == "loopback":
            return []
        return mpiexec(ranks, ["--with-ft", "ulfm"] if self.transport == "ulfm" else [])

    def job(self, command: list[str]) -> list[str]:
        """``command`` as rank 0, the others nodes."""
        if self.transport == "loopback":
            return command
        return [*self._launcher(1), *command, ":", "-n", str(self.shape.ranks - 1), *SDI, "node"]

    def goes_on(self, how: str) -> bool:
        """Whether a job goes on after that has happened to a rank; where memory is shared it is killed."""
        return self.transport != "mpi" or (self.is_far and how != "kill")

    def settings(self) -> dict[str, str]:
        """Environment variables beside those of an image."""
        found = {"SDI_SPLIT": "always"}
        if self.transport == "loopback":
            found["SDI_TEST_NODES"] = str(self.shape.ranks)
        else:
            found |= AS_ROOT
        if self.shape.devices is not None:
            found["SDI_DEVICES"] = self.shape.devices
        if self.is_far:
            found["SDI_TEST_FAR"] = "1"
        return found


def killed(way: Way, seed: int, how: str = "kill", when: str = "", **settings: str) -> str:
    """What went wrong when a rank was killed in mid launch; nothing if only its commands failed.

    ``how``, ``when``: as ``lossy_program.py`` takes them.  ``settings``: of the image.
    """
    program = [sys.executable, str(ROOT / "tests" / "cluster" / "lossy_program.py"), str(seed), how, when]
    environ = image_environ(way.shape.members, SDI_NODE_TIMEOUT="2", **way.settings(), **settings)
    done = run([*way.under(), *program], environ, _KILL_LIMIT_S)
    counts = re.search(r"right (\d+) failed (\d+) wrong (\d+) after (\d+)", done.stdout)
    if counts is None and not done.remained and not way.goes_on(how):
        return ""
    if counts is None or done.remained:
        return f"{done.remained} {done.describe()}"
    right, failed, wrong, after = map(int, counts.groups())
    is_right = wrong == 0 and (failed >= 1 or bool(when)) and after >= 12 and right >= after
    is_right = is_right and "the image goes on with" in done.stderr
    # mpiexec says itself that a rank was killed.
    is_right = is_right and (way.transport != "loopback" or done.returncode == 0)
    return "" if is_right else done.describe()
