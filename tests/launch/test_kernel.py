"""What refers to a buffer is forgotten with it, and nothing else is looked at."""

from __future__ import annotations

import random
from dataclasses import replace

from sdi.clc.model import KernelModel
from sdi.launch.kernel import ARRANGEMENTS_MAX, Kernel, LaunchPlan, Recent
from sdi.launch.plan import CutPlan
from sdi.launch.plan_memory import REGIONS_MAX
from sdi.launch.recording import CopyTime
from sdi.ndrange import GroupBox, NDRange
from sdi.partition.gain import Ran, Rates
from sdi.partition.history import LaunchHistory
from sdi.sampling.whole import WholeAccess


def test_recent_values_are_those_of_a_model() -> None:
    choose = random.Random(5)
    most = 64
    recent: Recent[int, int] = Recent(most)
    model: dict[int, tuple[int, tuple[int, ...]]] = {}  # the least recently used is the first
    for step in range(5_000):
        key, buffer = choose.randrange(100), choose.randrange(12)
        match choose.choice(("keep", "keep", "keep", "find", "find", "drop", "buffer", "clear")):
            case "keep":
                buffers = tuple(choose.randrange(12) for _ in range(choose.randrange(4)))
                recent.keep(key, step, buffers)
                model.pop(key, None)
                model[key] = step, buffers
                if len(model) > most:
                    del model[next(iter(model))]
            case "find" if key in model:
                assert recent.find(key) == model[key][0]
                model[key] = model.pop(key)
            case "drop" if key in model:
                recent.drop(key)
                del model[key]
            case "buffer" if step % 5 == 0:
                recent.drop_buffer(buffer)
                model = {k: found for k, found in model.items() if buffer not in found[1]}
            case "clear" if step % 50 == 0:
                recent.clear()
                model.clear()
        assert list(recent.values.items()) == [(k, value) for k, (value, _) in model.items()]
        assert set(recent._buffers) == set(model)
        assert set(recent._keys) == {buffer for _, buffers in model.values() for buffer in buffers}


def test_large_values_are_few() -> None:
    recent: Recent[int, int] = Recent(size_of=lambda value: value)
    for number in range(30):
        recent.keep(number, REGIONS_MAX // 10, ())
    assert list(recent.values) == list(range(20, 30))
    recent.keep(29, 0, ())
    recent.keep(30, REGIONS_MAX // 10, ())
    assert list(recent.values) == list(range(20, 31)), "one of them is smaller now"
    recent.keep(31, 2 * REGIONS_MAX, ())
    assert list(recent.values) == [31]
    recent.drop(31)
    recent.keep(32, 1, ())
    recent.keep(33, REGIONS_MAX - 1, ())
    assert list(recent.values) == [32, 33]


def test_over_a_network_what_only_claimers_write_is_merged() -> None:
    model = KernelModel("k", (), None, "", "", 1, watched=(0,), claimed=(1, 2))
    kernel = Kernel(model, WholeAccess(model))
    assert kernel.planned(False) is model
    assert kernel.planned(True) == replace(model, claimed=())


class Key:
    """Counts how often keys are looked at."""

    looked = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Key.looked += 1
        return self.number

    def __eq__(self, other: object) -> bool:
        Key.looked += 1
        return self is other


def test_a_buffer_is_forgotten_without_a_look_at_what_does_not_refer_to_it() -> None:
    """Programs with new buffers in each round forget two in each, beside full tables."""
    recent: Recent[Key, int] = Recent()
    for number in range(ARRANGEMENTS_MAX):
        recent.keep(Key(number), number, (number // 2, 1000 + number))
    Key.looked = 0
    recent.drop_buffer(5000)
    assert Key.looked == 0
    recent.drop_buffer(1007)
    assert Key.looked < 10 and 7 not in recent.values.values()
    assert len(recent.values) == ARRANGEMENTS_MAX - 1


WHOLE = (GroupBox((0, 0, 0), (100, 1, 1)),)


def on_one_member(history: LaunchHistory) -> LaunchPlan:
    """100 groups, in one assignment."""
    ndrange = NDRange(1, (0, 0, 0), (100, 1, 1), (1, 1, 1))
    return LaunchPlan(ndrange, CutPlan(WHOLE, ()), (100,), "", (), history, history.version, (1,))


def test_what_takes_much_longer_than_it_did_no_longer_rests() -> None:
    history = LaunchHistory(Rates(False))
    history.decide((1, 1, 1), 1, "")
    launch_plan = on_one_member(history)
    for took_ns, rests in ((20_000, True), (21_000, True), (39_000, True), (90_000, False)):
        history.rest(20_000.0, 0.0)
        is_news = launch_plan.measured(WHOLE, [Ran(1000, 1000 + took_ns)])
        assert (history.rest_until > 0) == rests == (not is_news)


def test_the_first_time_that_is_known_of_many_launches_is_news() -> None:
    history = LaunchHistory(Rates(False))
    history.decide((1, 1, 1), 1, "")
    launch_plan = on_one_member(history)
    history.ran(1, 100)
    assert not launch_plan.measured(WHOLE, [Ran(1000, 1000)]), "it is not known"
    assert launch_plan.measured(WHOLE, [Ran(1000, 8000)]) and history.is_due()
    assert not launch_plan.measured(WHOLE, [Ran(1000, 8000)])


def test_only_what_others_left_in_parts_is_lost_by_launches_on_one_member() -> None:
    several, one = LaunchHistory(Rates(False)), LaunchHistory(Rates(False), is_fixed=True)
    several.decide((4, 1, 1), 4, "")
    one.budget = several.budget
    launch_plan = on_one_member(one)
    launch_plan.copied(CopyTime(9e6), 10)
    assert one.budget.lost_ns == 0.0, "the application has launches take turns on members"
    launch_plan.copied(CopyTime(9e6, ((several, 2e6),)), 3)
    assert one.budget.lost_ns == several.owed_ns == 6e6


def test_of_short_launches_on_a_gpu_only_the_players_times_are_believed() -> None:
    for is_shared in (False, True):
        history = LaunchHistory(Rates(is_shared))
        launch_plan = on_one_member(history)
        launch_plan.measured(WHOLE, [Ran(1000, 281_000)], is_rough=True)
        assert (history.rates.group_ns(1) is None) == (not is_shared)
        launch_plan.measured(WHOLE, [Ran(1000, 5_001_000)], is_rough=True)
        assert history.rates.group_ns(1) is not None, "that is long enough"
        launch_plan.measured(WHOLE, [Ran(1000, 8000)])
        assert history.rates.group_ns(1) == 70.0
