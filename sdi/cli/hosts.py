"""``sdi run --hosts a:4,b:4``: the command that starts the job, by the MPI that is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_HOST = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)(?::(?P<count>[1-9][0-9]{0,3}))?")
_PATIENCE_S = 30.0
_ULFM_SINCE = 5
"""The first Open MPI whose mpiexec can let a job outlive a rank."""


class HostsError(ValueError):
    """The job can't be started; one line."""


def parse_hosts(text: str) -> list[tuple[str, int]]:
    """Machines, each with how many processes run there (one, where that is not said).  Raises HostsError."""
    found: list[tuple[str, int]] = []
    for part in text.split(","):
        match = _HOST.fullmatch(part.strip())
        if match is None:
            raise HostsError(f"--hosts {text!r}: expected names such as a or a:4, not {part!r}")
        found.append((match["name"], int(match["count"] or 1)))
    return found


def find_mpiexec(environ: Mapping[str, str]) -> str | None:
    """The mpiexec beside this Python, which its mpi4py goes with, or else the first in the PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("mpiexec", path=environ.get("PATH"))


def job_command(
    mpiexec: str, says: str, hosts: Sequence[tuple[str, int]], names: Sequence[str], command: Sequence[str]
) -> list[str]:
    """What starts ``command`` on all ``hosts``.

    ``says``: the answer to ``mpiexec --version``.  ``names``: of variables that all processes need; MPICH
    passes on all there are.  Open MPI would bind each process to a core, and let the job die with a rank.
    """
    listed, ranks = ",".join(f"{name}:{count}" for name, count in hosts), sum(n for _, n in hosts)
    version = re.search(r"\(?(?:Open MPI|OpenRTE|PRRTE)\)?\D*([0-9]+)", says)
    if version is None:
        return [mpiexec, "-hosts", listed, "-n", str(ranks), *command]
    survives = ["--with-ft", "ulfm"] if int(version[1]) >= _ULFM_SINCE else []
    passed = [word for name in names for word in ("-x", name)]
    return [mpiexec, *survives, "--bind-to", "none", "--host", listed, *passed, "-n", str(ranks), *command]


def start_on(text: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Become the mpiexec that starts ``sdi run`` with ``arguments`` on these hosts; the application runs on
    the first.  Raises HostsError; returns only so.
    """
    hosts, mpiexec = parse_hosts(text), find_mpiexec(environ)
    if mpiexec is None:
        raise HostsError("--hosts needs an MPI with mpiexec: pip install 'sdi[mpi]'")
    try:
        said = subprocess.run(
            [mpiexec, "--version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        ).stdout
        names = sorted(name for name in environ if name.startswith("SDI_"))
        command = [sys.executable, "-m", "sdi.cli", "run", *arguments]
        sys.stdout.flush()
        os.execve(mpiexec, job_command(mpiexec, said, hosts, names, command), dict(environ))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostsError(f"--hosts: {mpiexec}: {error}") from error
