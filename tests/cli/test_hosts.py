"""``sdi run --hosts``: which command starts the job, and what is wrong with a list of machines."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sdi.cli import hosts
from sdi.cli.hosts import HostsError, find_mpiexec, job_command, parse_hosts, start_on

HOSTS = [("a", 4), ("b.example", 1)]
COMMAND = ["python", "-m", "sdi.cli", "run", "--", "./application"]


def test_a_list_names_machines_with_how_many_processes_each_has() -> None:
    assert parse_hosts("a:4, b.example") == HOSTS


@pytest.mark.parametrize("text", ["", "a,", "a:0", "a:x", "a b", "-x", "a:1:2", "a;b"])
def test_what_is_no_list_is_one_line(text: str) -> None:
    with pytest.raises(HostsError, match="expected names such as a or a:4, not "):
        parse_hosts(text)


@pytest.mark.parametrize(
    ("says", "wanted"),
    [
        ("HYDRA build details:\n    Version: 5.0.2", "-hosts a:4,b.example:1 -n 5"),
        ("mpiexec (Open MPI) 4.1.4", "--bind-to none --host a:4,b.example:1 -x SDI_SPLIT -n 5"),
        (
            "mpiexec (Open MPI) 5.0.11",
            "--with-ft ulfm --bind-to none --host a:4,b.example:1 -x SDI_SPLIT -n 5",
        ),
    ],
)
def test_the_command_is_that_of_the_mpi_that_is_installed(says: str, wanted: str) -> None:
    made = job_command("/bin/mpiexec", says, HOSTS, ["SDI_SPLIT"], COMMAND)
    assert made == ["/bin/mpiexec", *wanted.split(), *COMMAND]


def test_without_an_mpi_that_is_what_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hosts.sys, "executable", str(tmp_path / "python"))
    assert find_mpiexec({"PATH": str(tmp_path)}) is None
    with pytest.raises(HostsError, match="--hosts needs an MPI with mpiexec: pip install"):
        start_on("a,b", ["--", "true"], {"PATH": str(tmp_path)})


def test_an_mpiexec_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "mpiexec"
    broken.write_text("no program")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(hosts.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(HostsError, match=f"--hosts: {broken}: "):
        start_on("a,b", ["--", "true"], {})


@pytest.mark.parametrize(
    ("words", "environ", "said"),
    [
        (["--hosts", "a:0", "--", "true"], {}, "--hosts 'a:0': expected names"),
        (["--hosts", "a"], {}, "no application given"),
        (["--hosts", "a", "--", "true"], {"PMI_RANK": "0", "PMI_SIZE": "2"}, "a process of one already"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(words: list[str], environ: dict[str, str], said: str) -> None:
    command = [sys.executable, "-m", "sdi.cli", "run", *words]
    variables = {**os.environ, **environ}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("sdi run: ") and said in done.stderr
