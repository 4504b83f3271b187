"""What traces take, in cases that are small enough to be done by hand."""

from __future__ import annotations

from dataclasses import replace

from sdi.commands import Launch, Read, Rectangle
from sdi.predict.program import Enqueued
from sdi.predict.rates import MachineCosts, given
from sdi.predict.simulate import Simulated, Speed, simulate
from sdi.predict.trace import COPY, KERNEL, MemberTrace, TracedCommand, TracedOperation

FREE = replace(
    given()["h200"],
    host_to_member_gb_per_s=1.0,
    member_to_host_gb_per_s=1.0,
    host_to_all_gb_per_s=2.0,
    all_to_host_gb_per_s=2.0,
    between_members_gb_per_s=4.0,
    compare_gb_per_s=1.0,
    copy_latency_us=0.0,
    launch_us=0.0,
    copy_us=0.0,
    start_us=0.0,
    fill_items=1,
    network_gb_per_s=0.5,
    network_latency_us=1.0,
    node_launch_us=0.0,
)
"""Nothing but what a case gives takes any time; copies from and to the host take a ns a byte."""
LINEAR = Speed(1.0, 0, is_shared=False)
LAUNCH = Launch(1, 0, 1, (0, 0, 0), (64, 1, 1), (8, 1, 1), b"", 0)


def launched(after: int = 0, gap_ns: float = 0.0, kernel_ns: float = 800.0, groups: int = 8) -> Enqueued:
    return Enqueued(LAUNCH, 1, "k", after, gap_ns, kernel_ns, groups, 0.0, 0.0)


def read(after: int = 0, gap_ns: float = 0.0, host_ns: float = 0.0) -> Enqueued:
    command = Read(1, Rectangle(0, (64, 1, 1), 0, 0), True)
    return Enqueued(command, 1, "", after, gap_ns, 0.0, 0, 0.0, host_ns)


def kernel(member: int, groups: int, *waits: int) -> TracedOperation:
    return TracedOperation(KERNEL, member, member, 0, groups, waits)


def copy(source: int, target: int, nbytes: int, *waits: int) -> TracedOperation:
    return TracedOperation(COPY, source, target, nbytes, 0, waits, "k: a")


def traced(
    nodes: tuple[int, ...], *commands: tuple[Enqueued, list[TracedOperation]], behind: tuple[int, ...] = ()
) -> MemberTrace:
    found = MemberTrace(nodes)
    for number, (step, operations) in enumerate(commands):
        first = len(found.operations)
        found.operations += operations
        waits = behind[number] if behind else 0
        found.commands.append(
            TracedCommand(step, first, waits, len(found.operations), True, 0.0, len(nodes), 8)
        )
    return found


def run(made: MemberTrace, costs: MachineCosts = FREE, speed: Speed = LINEAR) -> Simulated:
    return simulate(made, costs, speed)


def causes(found: Simulated) -> dict[str, float]:
    return {part.cause: part.ns for part in found.parts}


def test_parts_of_a_launch_run_side_by_side() -> None:
    found = run(traced((0, 0), (launched(), [kernel(1, 4), kernel(2, 4)])))
    assert (found.end_ns, causes(found)) == (400.0, {"kernels": 400.0})
    slow = run(traced((0, 0), (launched(), [kernel(1, 6), kernel(2, 2)])), speed=replace(LINEAR, factor=2.0))
    assert slow.end_ns == 300.0


def test_members_that_share_cores_gain_nothing_on_one_machine() -> None:
    operations = [kernel(1, 4), kernel(2, 4)]
    shared = replace(LINEAR, is_shared=True)
    assert run(traced((0, 0), (launched(), operations)), speed=shared).end_ns == 800.0
    assert run(traced((0, 1), (launched(), operations)), speed=shared).end_ns == 400.0


def test_what_all_receive_at_once_is_no_more_than_the_host_gives() -> None:
    copies = [copy(0, member, 1000) for member in (1, 2, 3, 4)]
    one = run(traced((0,) * 4, (launched(), copies[:1])))
    four = run(traced((0,) * 4, (launched(), copies)))
    assert (one.end_ns, four.end_ns) == (1000.0, 2500.0), "the last one begins 1500 ns later"
    assert causes(four) == {"copies from the host": 2500.0}


def test_a_kernel_waits_for_its_copy_and_copies_between_machines_go_over_the_network() -> None:
    near = run(traced((0, 0), (launched(), [copy(1, 2, 1000), kernel(2, 8, 0)])))
    assert causes(near) == {"copies between members": 250.0, "kernels": 800.0}
    far = run(traced((0, 1), (launched(), [copy(1, 2, 1000), kernel(2, 8, 0)])))
    assert causes(far) == {"copies between machines": 3000.0, "kernels": 800.0}


def test_the_application_goes_on_when_what_it_waited_for_is_over() -> None:
    commands = (
        (launched(), [kernel(1, 8)]),
        (read(0, 50.0, 30.0), [copy(1, 0, 64)]),
        (launched(2, 20.0), [kernel(1, 8)]),
    )
    waits = run(traced((0,), *commands, behind=(0, 1, 2)))
    assert waits.end_ns == 800 + 64 + 30 + 20 + 800
    assert causes(waits) == {
        "kernels": 1600.0,
        "copies to the host": 64.0,
        "application's copies": 30.0,
        "application": 20.0,
    }
    assert waits.commands == ((0.0, 800.0), (50.0, 894.0), (914.0, 1714.0))


def test_the_service_issues_one_after_the_other() -> None:
    costs = replace(FREE, launch_us=0.3, start_us=0.1)
    found = run(traced((0, 0), (launched(kernel_ns=80.0), [kernel(1, 4), kernel(2, 4)])), costs)
    assert causes(found) == {"issuing": 600.0, "starting": 100.0, "kernels": 40.0}


def test_planning_takes_what_the_profile_has_and_what_more_members_add() -> None:
    made, before = (traced((0,), (launched(), [kernel(1, 8)])) for _ in range(2))
    made.commands[0].is_known = False
    made.commands[0].plan_ns, before.commands[0].plan_ns = 70.0, 30.0
    assert causes(simulate(made, FREE, LINEAR, before))["planning"] == 70.0, "it was replayed in the profile"
    made.commands[0].step = replace(launched(), issue_ns=500.0)
    assert causes(simulate(made, FREE, LINEAR, before))["planning"] == 540.0


def test_what_a_driver_does_before_a_kernel_holds_its_member() -> None:
    steps = [replace(launched(), start_ns=ns) for ns in (500.0, 300.0)]
    found = run(traced((0,), (steps[0], [kernel(1, 8)]), (steps[1], [kernel(1, 8)])))
    assert causes(found) == {"starting": 800.0, "kernels": 1600.0}
    costs = replace(FREE, start_us=0.2)
    soon = run(traced((0,), (launched(), [kernel(1, 8)]), (launched(), [kernel(1, 8)])), costs)
    assert causes(soon) == {"starting": 200.0, "kernels": 1600.0}, "the second one gets ready meanwhile"


def test_queues_do_not_wait_for_each_other() -> None:
    def reads(queue: int) -> MemberTrace:
        return traced((0,), (read(0, 0.0, 40.0), []), (replace(read(0, 0.0, 30.0), queue=queue), []))

    assert (run(reads(1)).end_ns, run(reads(2)).end_ns) == (70.0, 40.0)


def test_a_launch_of_one_part_among_several_members_is_a_whole_kernel() -> None:
    made = traced((0, 0), (launched(), [kernel(1, 8)]))
    made.commands[0].assignments = 1
    assert causes(run(made)) == {"whole kernels": 800.0}


def test_a_unit_with_few_work_items_is_no_faster_than_one_with_enough() -> None:
    speed = Speed(1.0, 10, is_shared=False)
    assert speed.share(20, 40, 64, 64) == 0.5
    assert speed.share(1, 40, 64, 64) == 0.25, "one unit runs as long as four groups each take"
    assert speed.share(20, 40, 64, 256) == 1.0, "four groups to a unit: two take as long"
    assert speed.share(15, 40, 64, 64) == 0.5, "some unit has two"
    assert Speed(1.0, 0, is_shared=False).share(15, 40, 64, 64) == 0.375
