"""What all nodes are asked they are asked at once: no node's question waits for another one's answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from sdi.cluster.job import Job
from sdi.cluster.node_facts import Asked
from sdi.cluster.records import RecordKind, records
from sdi.devices.base import Device
from sdi.devices.opencl.programs import OpenClMemberProgram
from sdi.launch.programs.builds import ProgramCache, on_all
from tests.cluster.jobs import Spied, threads

NODES = 3
SHARE = 64 << 20
TEXT = "__kernel void one(__global int *a) { a[get_global_id(0)] += 1; }"
_send = Spied.send


class Gate:
    """While it is shut, each node's answer waits until all other nodes have one."""

    def __init__(self) -> None:
        self.is_shut = False
        self.passed = 0
        self._barrier = threading.Barrier(NODES, self._pass, timeout=60)

    def _pass(self) -> None:
        self.passed += 1

    def send(
        self,
        transport: Spied,
        to: int,
        batch: bytes,
        bulk: memoryview | None = None,
        sent: Callable[[], None] | None = None,
    ) -> None:
        if self.is_shut and transport.rank:
            for record in records(memoryview(batch)):
                if record.kind is RecordKind.ANSWER:
                    self._barrier.wait()
        _send(transport, to, batch, bulk, sent)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate()

    def send(transport: Spied, to: int, batch: bytes, *others: object) -> None:
        made.send(transport, to, batch, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(Spied, "send", send)
    return made


@pytest.fixture
def job(gate: Gate) -> Iterator[Job]:
    with threads(NODES) as made:
        yield made.job
        gate.is_shut = False


def members(job: Job, each: int) -> list[Device]:
    asked = {
        rank: Asked(tuple((0, (rank - 1) * each + k, SHARE) for k in range(each)))
        for rank in range(1, NODES + 1)
    }
    return job.open(asked)


def test_all_nodes_are_met_and_their_clocks_read_at_once(gate: Gate) -> None:
    gate.is_shut = True
    with threads(NODES) as made:
        gate.is_shut = False
        assert set(made.job.facts) == {1, 2, 3}
    assert gate.passed == 1 + 5, "the question what there is, and five times what the clock says"


def test_members_are_opened_traffic_is_told_and_sessions_end_on_all_nodes_at_once(
    gate: Gate, job: Job
) -> None:
    gate.is_shut = True
    devices = members(job, 2)
    assert gate.passed == 1
    assert {source for source, _ in job.traffic()} >= {0}
    assert gate.passed == 2
    on_all(devices, lambda number: devices[number].close())
    assert gate.passed == 4, "the members of a node one after the other"
    job.end_session()
    assert gate.passed == 5


def test_programs_are_built_and_kernels_asked_for_on_all_nodes_at_once(gate: Gate, job: Job) -> None:
    devices = members(job, 2)
    gate.is_shut = True
    programs = ProgramCache().programs(TEXT, (), False, devices)
    assert gate.passed == 2 and all(programs)
    facts = on_all(devices, lambda number: devices[number].kernel_info(programs[number], "one"))
    assert gate.passed == 4 and len(set(facts)) == 1
    gate.is_shut = False
    on_all(devices, lambda number: devices[number].close())


def test_what_the_application_keeps_is_told_to_the_member(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    monkeypatch.setattr(OpenClMemberProgram, "keep", lambda program: kept.append(program.shared.key[0]))
    devices = members(job, 1)
    for device in devices[:2]:
        device.build(TEXT, ()).keep()
    on_all(devices, lambda number: devices[number].close())
    assert kept == [TEXT] * 2
