"""The verdict follows from what was measured, and says nothing that was not."""

from collections.abc import Mapping

import pytest

from sdi.cli.verdict import Course, Launches, TimedSize, verdict

GROUPS = 1000
BITS = GROUPS.bit_length()


def launches(
    counts: Mapping[int, int],
    group_ns: Mapping[int, float] | None,
    may_split: bool = True,
    why: str = "",
    kernel: str = "step",
) -> Launches:
    """``counts``: launches of 1,000 work-groups each, by members that ran them."""
    timed = {} if group_ns is None else {BITS: TimedSize(may_split, group_ns)}
    return Launches(kernel, why, {(GROUPS, members): times for members, times in counts.items()}, timed)


def course(
    *of: Launches, members: int = 4, split: str = "auto", elapsed_s: float = 0.0, between_s: float = 0.0
) -> Course:
    return Course(members, split, 30e3, elapsed_s * 1e9, between_s * 1e9, of)


def test_without_launches_there_is_nothing_to_say() -> None:
    assert verdict([course()]) == verdict([]) == ""


def test_one_device_is_one_device() -> None:
    assert verdict([course(launches({1: 5}, None), members=1)]) == "ran on one device: the image has no other"


def test_a_gain_is_the_ratio_of_the_whole_run() -> None:
    # 100 launches of 10 ms on one member; 2.5 ms in four assignments; 0.1 s of the run is something else.
    ran = launches({4: 100}, {1: 10e3, 4: 10e3})
    assert verdict([course(ran, elapsed_s=0.35)]) == (
        "faster than one device would be by about 3.1x: launches took about 250.0 ms, 1.0 s on one"
    )


def test_copies_between_members_count() -> None:
    ran = launches({4: 100}, {1: 10e3, 4: 10e3})
    said = verdict([course(ran, elapsed_s=0.25, between_s=0.25)])
    assert said.startswith("faster than one device would be by about 2.0x: launches took about 500.0 ms")


def test_a_loss_is_said_with_what_to_do() -> None:
    ran = launches({4: 100}, {1: 1e3, 4: 10e3})
    assert verdict([course(ran)]) == (
        "slower than one device would be by about 2.5x: launches took about 250.0 ms, 100.0 ms on one; "
        "try SDI_SPLIT=never"
    )


def test_kernels_that_can_not_be_split_are_counted_by_their_time() -> None:
    ran = launches({4: 100}, {1: 10e3, 4: 10e3})
    stuck = launches({1: 25}, {1: 10e3}, may_split=False, why="line 3: atomics", kernel="stuck")
    said = verdict([course(ran, stuck, elapsed_s=0.5)])
    assert said.startswith("faster than one device would be by about 2.5x")
    assert said.endswith("1.2 s on one, 50% of it in kernels that can't be split")


def test_no_gain_and_no_loss() -> None:
    ran = launches({4: 100}, {1: 10e3, 4: 40e3})
    assert verdict([course(ran, elapsed_s=2)]).startswith("about as fast as one device would be: ")


def test_short_launches_are_said_to_be_short() -> None:
    ran = launches({1: 1000}, {1: 12.0}, why="it takes 0.01 ms on one member")
    assert (
        verdict([course(ran)]) == "ran on one device: launches of 12 µs are too short to share; nothing lost"
    )


@pytest.mark.parametrize("is_timed", [True, False])
def test_what_keeps_the_longest_kernel_whole_is_said(is_timed: bool) -> None:
    times = {1: 10e3} if is_timed else None
    short = launches({1: 100}, {1: 1.0} if is_timed else None, kernel="short", why="too short")
    stuck = launches({1: 100}, times, may_split=False, why="line 3: atomics", kernel="stuck")
    more = launches({1: 100}, times, may_split=False, why="line 3: atomics", kernel="stuck")
    part = "100% of the launches' time" if is_timed else "67% of the launches"
    assert verdict([course(short, stuck), course(more)]) == (
        f"ran on one device: stuck, which is {part}, was kept whole (line 3: atomics); nothing lost"
    )


def test_what_was_not_measured_is_not_guessed() -> None:
    ran = launches({4: 100}, {4: 10e3})
    assert verdict([course(ran)]) == (
        "split 100 of 100 launches; what these take on one device was not measured"
    )
    some = launches({4: 100}, {1: 10e3, 4: 10e3})
    assert "was not measured" in verdict([course(ran, some)])


def test_a_setting_is_named() -> None:
    assert verdict([course(launches({1: 5}, None), split="never")]) == (
        "ran on one device: SDI_SPLIT=never; nothing lost"
    )
    ran = launches({4: 100}, {4: 10e3})
    assert "as SDI_SPLIT=always asks" in verdict([course(ran, split="always")])
