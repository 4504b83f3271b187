"""What the transport over MPI still waits for when a rank dies, with an MPI that tells of it (ULFM)."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from sdi.cluster import mpi
from sdi.cluster.mpi import _Loop
from sdi.cluster.transport import Room, Traffic


class Failure(Exception):
    """MPI's exception."""


class Aborted(Exception):
    """The job has ended."""


class Request:
    """``state``: "pending", "done", or "failed", of which MPI tells by an exception."""

    def __init__(self, state: str = "pending") -> None:
        self.state = state

    def __bool__(self) -> bool:
        return self.state != "null"

    def Cancel(self) -> None:  # noqa: N802
        """As MPI does: nothing where it is matched already ("stuck")."""
        if self.state == "pending":
            self.state = "cancelled"

    def Test(self) -> bool:  # noqa: N802
        return self.state in ("cancelled", "done", "null")

    @staticmethod
    def Testsome(requests: list[Request]) -> list[int]:  # noqa: N802
        """As MPI does: what is done is told once, and not at all where it raises."""
        found = [index for index, each in enumerate(requests) if each.state == "done"]
        for index in found:
            requests[index].state = "null"
        if any(each.state == "failed" for each in requests):
            raise Failure("process failure")
        return found


class Comm:
    """A communicator whose rank 1 has died once ``is_dead``."""

    is_dead = False

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def Dup(self) -> Comm:  # noqa: N802
        return Comm()

    def Set_errhandler(self, _: object) -> None: ...  # noqa: N802

    def Isend(self, *_: object) -> Request:  # noqa: N802
        self.requests.append(Request())
        return self.requests[-1]

    Irecv = Isend

    def Abort(self, status: int) -> None:  # noqa: N802
        raise Aborted(status)

    def Ack_failed(self) -> None: ...  # noqa: N802

    def Get_group(self) -> None: ...  # noqa: N802

    def Get_failed(self) -> Any:  # noqa: N802
        ranks = [1] if Comm.is_dead else []
        return SimpleNamespace(size=len(ranks), Translate_ranks=lambda *_: ranks, Free=lambda: None)


def test_what_was_under_way_with_a_rank_that_died_is_given_up_and_the_rest_is_told(
    monkeypatch: Any,
) -> None:
    told: list[str] = []
    transport = SimpleNamespace(
        _outgoing=[],
        traffic={1: Traffic(), 2: Traffic()},
        _bell=None,
        _receiver=SimpleNamespace(lost=lambda rank, why: told.append(f"lost {rank}")),
    )
    module = SimpleNamespace(
        COMM_WORLD=Comm(), ERRORS_RETURN=0, BYTE=0, Status=object, Request=Request, Exception=Failure
    )
    loop = _Loop(transport, module)  # type: ignore[arg-type]
    for to in (1, 2):
        bulk = loop._bulk
        loop._isend(bulk, b"", to, 2, lambda to=to: told.append(f"sent {to}"))
        loop._take(to, Room(memoryview(bytearray(8)), lambda to=to: told.append(f"filled {to}")))
    to_dead, from_dead, to_other, _ = bulk.requests
    assert not loop._complete() and not told
    monkeypatch.setattr(Comm, "is_dead", True)
    to_dead.state, to_other.state = "failed", "done"
    assert loop._complete()
    assert sorted(told) == ["lost 1", "sent 1", "sent 2"], "nothing is said to have come from it"
    assert not loop._complete() and len(loop._requests) == 1
    from_dead.state, bulk.requests[3].state = "failed", "done"
    assert loop._complete() and told[-1] == "filled 2"
    assert not loop._requests


@pytest.mark.parametrize("state", ["pending", "done", "stuck"])
@pytest.mark.logs("rank 1 was sending")
def test_memory_that_a_refused_rank_may_still_write_is_never_used_again(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi, "_CANCEL_S", 0.01)
    told: list[str] = []
    transport = SimpleNamespace(
        rank=0,
        _outgoing=[],
        _refused=deque([(1, "it is slow", b"go"), (1, "again", b"go")]),
        traffic={1: Traffic()},
        _bell=None,
        _receiver=SimpleNamespace(lost=lambda rank, why: told.append(f"lost {rank}: {why}")),
    )
    module = SimpleNamespace(
        COMM_WORLD=Comm(), ERRORS_RETURN=0, BYTE=0, Status=object, Request=Request, Exception=Failure
    )
    loop = _Loop(transport, module)  # type: ignore[arg-type]
    loop._take(1, Room(memoryview(bytearray(8)), lambda: told.append("filled")))
    (request,) = loop._bulk.requests
    request.state = state
    if state == "stuck":
        with pytest.raises(Aborted):
            loop._refuse()
        assert told == []
    else:
        assert loop._refuse() and told == ["lost 1: it is slow"]
        assert request.state == ("cancelled" if state == "pending" else "done")
        assert len(loop._batches.requests) == 1, "it is told once"
        assert not loop._refuse() and not loop._requests
