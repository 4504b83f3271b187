"""Who completes operations: each session polls the members that it opened, and knows of no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sdi.devices.base import BoundKernel, Device
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.issue import MEASURED, SEEN, Timing
from sdi.devices.polling import Polling
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.wire.records import Op
from tests.service.wire_client import WireClient

COUNT = 1 << 12
SOURCE = "__kernel void grow(__global int *a) { a[get_global_id(0)] += 1; }"


class Asked:
    """A member with an operation under way, until it is told that this is over."""

    def __init__(self) -> None:
        self.is_over = False
        self.calls: list[str] = []

    def ask(self) -> None:
        self.calls.append("ask")

    def complete(self) -> bool:
        self.calls.append("complete")
        return not self.is_over

    def arm(self) -> None:
        self.calls.append("arm")


def test_all_members_are_asked_before_one_completes_anything() -> None:
    polling, calls, members = Polling(), list[str](), [Asked(), Asked()]
    for member in members:
        member.calls = calls
        polling.add(member)
    assert polling.poll() and calls == ["ask", "ask", "complete", "complete"]
    members[0].is_over = True
    assert polling.poll()
    polling.remove(members[1])
    assert not polling.poll()


def test_sessions_poll_their_own_members_and_see_no_flag_of_another() -> None:
    one, other = Polling(), Polling()
    mine, theirs = Asked(), Asked()
    one.add(mine)
    other.add(theirs)
    one.is_busy = one.gathers = True
    sent: list[int] = []
    one.later(lambda: sent.append(1))
    assert one.poll() and not theirs.calls
    other.send()
    other.idle()
    assert one.is_busy and one.gathers and not sent and mine.calls == ["ask", "complete"]
    one.send()
    assert sent == [1] and not one.gathers


class Noted(ForwardingDevice):
    """A member that notes with what timing kernels are launched, and calls ``then`` at the next launch."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.timings: list[Timing] = []
        self.then: Callable[[], None] = lambda: None

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        self.timings.append(timing)
        then, self.then = self.then, lambda: None
        then()
        return super().launch(bound, groups, local_size, work_dim, wait, timing)


class Application:
    """An application with a session of its own, whose members note what they are asked for."""

    def __init__(self) -> None:
        self.members = [Noted(device) for device in open_members(MemberSettings(count=2))]
        self.client = WireClient(self.members, plays=False)
        self.build, status, _ = self.client.build(SOURCE)
        assert status == 0
        self.buffer = self.client.buffer(bytes(4 * COUNT))
        self.queues = [self.client.new_id(), self.client.new_id()]
        for is_profiled, queue in enumerate(self.queues):
            self.client.send(Op.CREATE_QUEUE, queue, properties=is_profiled << 1)
        for _ in range(20):  # then shares are known, and nothing is measured any more
            self.launch(False)

    def launch(self, is_profiled: bool) -> None:
        queue = self.queues[is_profiled]
        command = self.client.launch(self.build, [(self.buffer, 0)], [COUNT], [64], queue=queue)
        assert self.client.wait(command) == 0


@pytest.mark.parametrize("is_profiled", [False, True])
def test_what_one_session_issues_while_another_does_has_the_times_that_it_asked_for(
    is_profiled: bool,
) -> None:
    """The second session issues a whole launch in the midst of one of the first, from a thread of its own."""
    first, second = Application(), Application()
    try:
        first.members[0].then = lambda: second.launch(not is_profiled)
        first.launch(is_profiled)
        of_first, of_second = ([m.timings[20:] for m in each.members] for each in (first, second))
        assert of_first == [[MEASURED if is_profiled else SEEN]] * 2
        assert of_second == [[SEEN if is_profiled else MEASURED]] * 2
    finally:
        first.client.close()
        second.client.close()
