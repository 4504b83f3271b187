"""Recorded runs as commands: what the application waited for, and what it did between."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import pytest

from sdi.commands import Launch, Marker, Read, Rectangle, Write
from sdi.predict.program import Built, Created, Enqueued, Gone, NotPredictable, recorded
from sdi.profile.analyse.model import (
    Application,
    AskedCommand,
    AssignmentSpan,
    BuiltProgram,
    Call,
    Command,
    CopySpan,
    CreatedBuffer,
    LaunchSpan,
    Member,
    Profile,
    Released,
    SessionProfile,
    WorkSpan,
)
from sdi.profile.record.asked import row_of

WHOLE = Rectangle(0, (64, 1, 1), 0, 0)
WRITE, READ = Write(1, WHOLE, False), Read(1, WHOLE, True)
LAUNCH = Launch(5, 0, 1, (0, 0, 0), (64, 1, 1), (8, 1, 1), b"", 0)
ASKED = tuple([AskedCommand(n, row_of(each)) for n, each in enumerate((WRITE, LAUNCH, READ), 1)])


def command(number: int, kind: str, queued: int, start: int, end: int, asked: int) -> Command:
    return Command(number, 1, kind, 64, queued, queued, start, end, 0, asked)


def session(commands: Sequence[Command], **columns: object) -> SessionProfile:
    given: dict[str, object] = {
        "commands": tuple(commands),
        "launches": (LaunchSpan(2, "k", 1, "", 210, 215, 230, 5),),
        "assignments": (AssignmentSpan(2, 0, 0, 8, 240, 400, 0),),
        "copies": (CopySpan(3, 1, 0, 64, "read", False, 410, 430, 0),),
        "programs": (BuiltProgram(5, 50, b64encode(b"object").decode()),),
        "buffers": (CreatedBuffer(1, 90, 64, False),),
        "released": (Released(1, 700),),
        "asked": ASKED,
    }
    return SessionProfile(1, 9, (Member("a", "gpu"),), 0, 1000, True, **{**given, **columns})  # type: ignore[arg-type]


RUN = (
    command(1, "write", 100, 110, 150, 1),
    command(2, "launch", 200, 240, 400, 2),
    command(3, "read", 205, 431, 480, 3),
    command(4, "launch", 600, 620, 650, 2),
)


def commands_of(profile: Profile) -> list[Enqueued]:
    return [step for step in recorded(profile).steps if isinstance(step, Enqueued)]


def test_steps_come_in_the_order_in_which_they_happened() -> None:
    found = recorded(Profile((session(RUN),)))
    kinds = [type(step) for step in found.steps]
    assert kinds == [Built, Created, Enqueued, Enqueued, Enqueued, Enqueued, Gone]
    assert (found.measured_ns, found.around_ns) == (550.0, 450.0)
    assert found.steps[:2] == (Built(5, b"object"), Created(1, 64, False))
    asked = [each.command for each in commands_of(Profile((session(RUN),)))]
    assert asked == [WRITE, LAUNCH, READ, LAUNCH]
    assert [each.record for each in asked if isinstance(each, Launch)] == [b"\2\0\0\0"] * 2


def test_where_nothing_was_left_the_application_waited() -> None:
    found = commands_of(Profile((session(RUN),)))
    assert [(each.after, each.gap_ns) for each in found] == [(0, 0.0), (1, 50.0), (0, 5.0), (3, 120.0)]


def test_calls_tell_what_it_waited_for() -> None:
    def with_calls(*calls: tuple[int, int]) -> list[int]:
        made = tuple([Call("clFinish", 1, start, end) for start, end in calls])
        return [
            each.after for each in commands_of(Profile((session(RUN),), (Application(9, 0, (), made, 0),)))
        ]

    assert with_calls((206, 485)) == [0, 0, 0, 3], "a call that was open when the read ended"
    assert with_calls((206, 300)) == [0, 0, 0, 0], "none was open then"


def test_each_command_has_what_it_took() -> None:
    write, launch, read, _ = commands_of(Profile((session(RUN),)))
    assert (write.host_ns, read.host_ns, launch.host_ns) == (40.0, 49.0, 0.0)
    assert (launch.kernel, launch.kernel_ns, launch.groups) == ("k", 160.0, 8)
    assert (launch.start_ns, launch.issue_ns) == (10.0, 15.0), "what was held counts not"


def test_what_a_launch_waited_for_beside_its_copies_counts() -> None:
    copies = (
        CopySpan(2, 0, 1, 64, "k: a", False, 234, 236, 0),
        CopySpan(3, 1, 0, 64, "read", False, 410, 430, 0),
    )
    _, launch, *_ = commands_of(Profile((session(RUN, copies=copies),)))
    assert launch.start_ns == 4.0 + 4.0, "from 230, when it was issued, to 234, and from 236 to 240"


def test_what_cpu_members_did_side_by_side_counts_once() -> None:
    spans = tuple([AssignmentSpan(2, 0, member, 4, 240 + 10 * member, 400, 0) for member in (0, 1)])
    for kind, took in (("gpu", 310.0), ("cpu", 160.0)):
        known = session(RUN, assignments=spans)
        members = (Member("a", kind), Member("a", kind))
        found = commands_of(Profile((SessionProfile(**{**fields_of(known), "members": members}),)))  # type: ignore[arg-type]
        assert found[1].kernel_ns == took


def fields_of(known: SessionProfile) -> dict[str, object]:
    return {name: getattr(known, name) for name in SessionProfile.__dataclass_fields__}


def test_work_on_members_and_on_the_host_is_told_apart() -> None:
    works = (
        WorkSpan(1, "fill", 0, 64, "fill", 110, 140, 0),
        WorkSpan(3, "read", -1, 64, "read", 431, 450, 0),
    )
    write, _, read, _ = commands_of(Profile((session(RUN, works=works),)))
    assert (write.work_ns, write.host_ns) == (30.0, 0.0)
    assert read.host_ns == 19.0


def test_markers_need_no_row() -> None:
    found = commands_of(Profile((session([*RUN, command(5, "marker", 660, 660, 661, 0)]),)))
    assert found[-1].command == Marker(True)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"launches": ()}, "no launches"),
        ({"programs": ()}, "older sdi"),
        ({"asked": ASKED[:1]}, "what command 2 asks for"),
        ({"asked": (*ASKED[:1], AskedCommand(2, ["Launch", 5]), *ASKED[2:])}, "command 2: no command"),
        ({"commands": (*RUN, Command(6, 1, "read", 1, 660, 660, 660, 661, -5, 3))}, "commands failed"),
        ({"commands": (*RUN, command(7, "read", 660, 660, 661, 0))}, "older sdi"),
    ],
)
def test_a_profile_that_lacks_something_is_refused_with_a_reason(
    columns: dict[str, object], why: str
) -> None:
    with pytest.raises(NotPredictable, match=why):
        recorded(Profile((session(**{"commands": RUN, **columns}),)))  # type: ignore[arg-type]


def test_no_session_at_all() -> None:
    with pytest.raises(NotPredictable, match="no launches"):
        recorded(Profile(()))
