"""How the processes of a job begin: who they are, whether they fit together, and what their clocks say."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from sdi.cluster import node
from sdi.cluster.job import JobError
from sdi.cluster.start import RankPlace, place, without_mpi
from sdi.devices.opencl.member import DriverDevice
from sdi.settings import SettingsError
from tests.cluster import jobs

AHEAD_NS = 10**15
PATIENCE_S = 60.0


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"PMI_RANK": "2", "PMI_SIZE": "3"}, RankPlace(2, 3)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, RankPlace(0, 2)),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "9"}, RankPlace(3, 4)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "9"}, None),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "3"}, RankPlace(1, 3)),
        ({"PMIX_RANK": "1", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, RankPlace(1, 2)),
        ({"PMIX_RANK": "0", "PMI_RANK": "0", "PMI_SIZE": "1"}, None),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, None),
        ({"PMI_RANK": "one", "PMI_SIZE": "3"}, None),
        ({}, None),
    ],
)
def test_mpiexec_and_srun_say_which_process_this_is(
    environ: dict[str, str], wanted: RankPlace | None
) -> None:
    assert place(environ) == wanted
    kept = {name: text for name, text in environ.items() if name.startswith("SLURM_")}
    assert without_mpi(environ | {"HOME": "/"}) == kept | {"HOME": "/"}


def test_a_launcher_that_hides_how_many_ranks_there_are_gets_no_silent_copies() -> None:
    with pytest.raises(SettingsError, match=r"^PMIX_RANK=1: this launcher does not say how large"):
        place({"PMIX_RANK": "1"})


def test_nodes_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = b"0.0.1 (messages 00c0ffee)\n what only that version can read"
    monkeypatch.setattr(jobs, "introduction", lambda facts: other)
    told = r"rank 1 has sdi 0\.0\.1 \(messages 00c0ffee\), rank 0 has sdi \S+ \(messages .* need the same$"
    with pytest.raises(JobError, match=told), jobs.threads(2):
        raise AssertionError("they met")


def test_times_of_a_node_whose_clock_is_ahead_are_those_of_rank_0(
    driver: DriverDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = SimpleNamespace(monotonic_ns=lambda: time.monotonic_ns() + AHEAD_NS)
    monkeypatch.setattr(node, "time", ahead)  # what it answers; its members keep their clock
    with jobs.threads(1) as made:
        (member,) = jobs.open_on_nodes(made.job, driver, 1)
        buffer = member.allocate(64)
        before_ns, done = time.monotonic_ns(), threading.Event()
        ticket = member.fill(buffer, 0, 64, bytes(4), [])
        ticket.when_done(lambda _: done.set())
        member.flush()
        assert done.wait(PATIENCE_S)
        for told_ns in (ticket.start_ns, ticket.end_ns):
            assert abs(told_ns + AHEAD_NS - before_ns) < AHEAD_NS // 2


def test_the_clock_of_a_node_on_this_machine_is_this_ones_to_the_nanosecond() -> None:
    with jobs.threads(3) as made:
        assert {each._clock_offset_ns for each in made.job.nodes.values()} == {0}
