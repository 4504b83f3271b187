"""What launches teach is kept for the next run: a first guess, which measuring corrects."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sdi import cache
from sdi.devices.capabilities import CPU, GPU, Capabilities
from sdi.launch.kernel import Build, Kernel, LaunchHistoryKey
from sdi.launch.learning import KIND, Learning
from sdi.partition.balance import Speeds
from sdi.partition.gain import Rates
from sdi.partition.history import LaunchHistory
from sdi.partition.learnt import KERNELS_MAX, SIZES_MAX, Book, Learnt, LearntProgram, packed, unpacked

FACTS = Capabilities("a GPU", GPU, "", "1.0", "0", 1 << 34, {})
KEY: LaunchHistoryKey = (2, 11, (1, 2))
EDGES = (0.0, 0.5, 0.75, 0.9, 1.0)
ONE = Learnt({1: 100.0, 4: 120.0}, (1, 4, 1), 4, {(1, 4, 1): EDGES})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; what is kept lies in the result."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sdi" / KIND


class Run:
    """A session that builds a program of one kernel."""

    def __init__(
        self,
        program: bytes = b"text and options",
        members: tuple[Capabilities, ...] = (FACTS,) * 4,
        kernel: str = "step",
        now_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self.learning = Learning(members, now_ns)
        self.build(program, kernel, len(members))

    def build(self, program: bytes, kernel: str, members: int) -> None:
        from sdi.clc.compile import compile_source
        from sdi.launch.programs.access import access_of

        compiled = compile_source(f"__kernel void {kernel}(__global int *a) {{ a[get_global_id(0)]++; }}", "")
        self.kernel = Kernel(compiled.kernels[0], access_of(compiled, compiled.kernels[0]))
        Build((self.kernel,), (), (), "", None, program).begin_with(self.learning.pages(program, members))

    def history(self, key: LaunchHistoryKey = KEY) -> LaunchHistory:
        return self.kernel.history(key, lambda: LaunchHistory(Rates(False)))


def learn(
    history: LaunchHistory, assignments: int = 4, one_ns: float = 100.0, several_ns: float = 120.0
) -> None:
    """Measure one way and another, and choose."""
    history.rates.record(1, one_ns * 1000, 1000)
    history.rates.record(4, several_ns * 1000, 1000)
    history.decide(
        (1, 4, 1) if assignments == 4 else (1, 1, 1),
        assignments,
        "" if assignments == 4 else "it is too small",
    )


def test_a_second_run_begins_with_the_choice_and_the_shares_of_the_first(home: Path) -> None:
    from sdi.partition.balance import Balance

    first = Run()
    learn(first.history())
    balance = first.history().balances[1, 4, 1] = Balance(1, 4, Speeds())
    balance.move(EDGES)
    first.learning.write()
    second = Run().history()
    assert (second.shape, second.assignments, second.rates.known) == ((1, 4, 1), 4, {1: 100.0, 4: 120.0})
    assert not second.rates.measured, "a guess"
    assert second.learnt is not None and second.learnt.edges == {(1, 4, 1): EDGES}
    assert len(list(home.iterdir())) == 1
    whole = Run(b"another program")
    learn(whole.history(), assignments=1)
    whole.learning.write()
    again = Run(b"another program").history()
    assert again.assignments == 1 and again.why_fewer == "one member ran it best in an earlier run"


@pytest.mark.parametrize(
    "other",
    [
        lambda: Run(b"other text or options"),
        lambda: Run(members=(FACTS,) * 3),
        lambda: Run(members=(FACTS, FACTS, FACTS, replace(FACTS, name="another GPU"))),
        lambda: Run(members=(replace(FACTS, driver="1.1"),) * 4),
        lambda: Run(members=(replace(FACTS, kind=CPU),) * 4),
        lambda: Run(members=(FACTS, FACTS, replace(FACTS, node=1), replace(FACTS, node=1))),
        lambda: Run(kernel="other"),
    ],
)
def test_other_programs_kernels_and_members_see_nothing_of_it(home: Path, other: Callable[[], Run]) -> None:
    first = Run()
    learn(first.history())
    first.learning.write()
    assert Run().history().shape is not None
    found = other()
    assert found.history().shape is None and not found.history().rates.known
    assert Run().history((2, 12, (1, 2))).shape is None, "of another size"


def test_what_is_new_is_written_now_and_then_and_only_if_it_is_new(home: Path) -> None:
    now = [0]
    run = Run(now_ns=lambda: now[0])
    learn(run.history())
    run.history((2, 11, (3, 4)))
    assert not list(home.iterdir())
    now[0] = 2_000_000_000
    run.history((2, 11, (5, 6)))  # a killed service loses little
    (file,) = home.iterdir()
    written = file.stat().st_ino
    assert Run().history().assignments == 4
    run.learning.write()
    assert file.stat().st_ino == written


def test_launches_on_other_buffers_and_of_a_program_that_is_built_anew_know_the_times(home: Path) -> None:
    run = Run()
    learn(run.history())
    for history in (run.history((2, 11, (3, 4))), run.history((2, 11, (5, 6)))):
        assert history.shape is None and history.rates.known == {1: 100.0, 4: 120.0}
    run.build(b"text and options", "step", 4)
    assert run.history().shape is None and run.history().rates.known == {1: 100.0, 4: 120.0}
    run.learning.write()
    assert Run().history().assignments == 4, "newer launches that chose nothing do not hide it"


def test_a_session_that_lost_a_member_learns_nothing_more(home: Path) -> None:
    run = Run()
    run.kernel.forget_all()
    learn(run.history())
    run.build(b"text and options", "step", 3)
    learn(run.history())
    run.learning.write()
    assert not list(home.glob("*"))


def test_a_guess_that_measuring_contradicts_is_given_up_with_all_others() -> None:
    history = LaunchHistory(Rates(False))
    history.begin_with(Learnt({1: 1e6, 2: 1e6, 4: 1.0}, (1, 4, 1), 4, {}))
    history.rates.record(4, 2.0 * 1000, 1000)
    assert history.rates.known == {1: 1e6, 2: 1e6, 4: 2.0}, "nearly as it said"
    history.rates.record(4, 100.0 * 1000, 1000)
    assert history.rates.group_ns(1) == history.rates.group_ns(4) and set(history.rates.known) == {4}


def test_times_that_many_runs_took_on_trust_are_found_out_anew(home: Path) -> None:
    first = Run()
    learn(first.history())
    first.learning.write()
    known = []
    for _ in range(20):
        run = Run()
        history = run.history()
        history.rates.record(4, 120.0 * 1000, 1000)  # what it chose, and nothing else
        known.append(1 in history.rates.known)
        run.learning.write()
    assert known == [True] * 8 + [False] * 12
    run = Run()
    learn(run.history())
    run.learning.write()
    assert 1 in Run().history().rates.known


def test_a_kernel_that_is_launched_once_in_each_run_is_known_by_that(home: Path) -> None:
    found = []
    for assignments in (1, 4, 4):
        run = Run()
        history = run.history()
        found.append(history.rates.known)
        history.decide((1, assignments, 1), assignments, "")
        history.rates.record(assignments, 1e5, 1000, is_first=True)
        assert not history.rates.measured
        run.learning.write()
    assert found == [{}, {1: 100.0}, {1: 100.0, 4: 100.0}]
    history = LaunchHistory(Rates(False))
    history.rates.record(1, 3e8, 1000, is_first=True)  # so long that loading is nothing
    assert history.rates.measured == {1: 3e5} and not history.rates.first


def test_launches_that_are_never_chosen_for_ignore_it(home: Path) -> None:
    first = Run()
    learn(first.history())
    first.learning.write()
    fixed = Run().kernel.history(KEY, lambda: LaunchHistory(Rates(False), is_fixed=True))
    assert fixed.shape is None and not fixed.rates.known and fixed.learns() is None


BAD: list[object] = [
    None,
    [],
    {"step": None},
    {"step": [[2, 11]]},
    {"step": [[2, 11, {"1": 0}, [1, 4, 1], 4, [], 0]]},
    {"step": [[2, 11, {"1": 1e300}, [1, 4, 1], 4, [], 0]]},
    {"step": [[2, 11, {"x": 1.0}, [1, 4, 1], 4, [], 0]]},
    {"step": [[2, 11, {"1": "1"}, [1, 4, 1], 4, [], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [1, 4, 1], 3, [], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [-1, -4, 1], 4, [], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [1, 1000, 1], 1000, [], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [1, 4], 4, [], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [1, 4, 1], 4, [[[1, 4, 1], [0.0, 0.5, 0.4, 0.9, 1.0]]], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [1, 4, 1], 4, [[[1, 4, 1], [0.0, 1.0]]], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [1, 4, 1], 4, [[[1, 2, 2], [0.0, 0.2, 0.5, 0.9, 1.0]]], 0]]},
    {"step": [[2, 11, {"1": 1.0}, [1, 4, 1], 4, [], -1]]},
]


NAME = "0123456789abcdef" * 4


def book_of(launches: Book) -> bytes:
    return packed(LearntProgram(NAME, (), launches))


@pytest.mark.parametrize("content", BAD)
def test_content_that_nobody_can_have_learnt_is_as_good_as_absent(content: object) -> None:
    assert unpacked(json.dumps({**json.loads(book_of({})), "launches": content}).encode()) is None


def test_bytes_that_are_no_book_are_as_good_as_absent() -> None:
    good = book_of({"step": {(2, 11): ONE}})
    assert unpacked(good) == LearntProgram(NAME, (), {"step": {(2, 11): ONE}})
    for bad in (b"", b"\xff\0", b"NaN", good[:-1], good.replace(b"100.0", b"NaN"), b"[" * 100_000):
        assert unpacked(bad) is None


def test_what_is_kept_of_a_program_is_bounded() -> None:
    book = {
        f"k{number}": {(1, bits): ONE for bits in range(SIZES_MAX * 2 if number == 0 else 1)}
        for number in range(KERNELS_MAX + 10)
    }
    found = unpacked(book_of(book))
    assert found is not None and len(found.launches) == KERNELS_MAX and len(found.launches["k0"]) == SIZES_MAX


def test_a_cut_for_more_members_than_there_are_is_not_begun_with(home: Path) -> None:
    run = Run()
    learn(run.history())
    run.history().decide((1, 5, 1), 5, "")
    run.learning.write()
    assert list(home.iterdir()) and Run().history().shape is None


def test_a_damaged_file_is_as_good_as_absent_and_written_anew(home: Path) -> None:
    first = Run()
    learn(first.history())
    first.learning.write()
    (file,) = home.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1], whole + b"x", whole[:-3] + b"???"):
        file.write_bytes(damaged)
        run = Run()
        assert run.history().shape is None
    learn(run.history())
    run.learning.write()
    assert Run().history().assignments == 4


@pytest.mark.parametrize("where", ["/proc/no/such/folder", "a file"])
def test_without_a_folder_everything_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", where if where.startswith("/") else str(tmp_path / where))
    run = Run()
    learn(run.history())
    run.learning.write()
    assert Run().history().shape is None


def test_a_folder_that_others_may_write_to_is_not_used(home: Path) -> None:
    first = Run()
    learn(first.history())
    first.learning.write()
    home.chmod(0o777)
    assert Run().history().shape is None


def _write_often(kernel: str) -> None:
    run = Run(kernel=kernel)
    for bits in range(30):
        learn(run.history((2, bits, (1,))))
        run.learning.write()


def test_two_services_that_write_at_once_leave_a_whole_file(home: Path) -> None:
    start = multiprocessing.get_context("fork")
    writers = [start.Process(target=_write_often, args=(name,)) for name in ("step", "other")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    # One of them wrote last, and had read what the other one had written by then, or a whole file before.
    assert any(Run(kernel=name).history((2, 29, (1,))).assignments == 4 for name in ("step", "other"))
    assert all(Run(kernel=name).history((2, 0, (1,))).assignments == 4 for name in ("step", "other"))
    assert len(list(home.iterdir())) == 1
    assert cache.read(KIND, "nothing") is None


def test_what_became_of_attempts_is_kept_for_the_next_run(home: Path) -> None:
    for tried in range(3):
        learning = Learning((FACTS,) * 4)
        pages = learning.pages(b"program", 4)
        assert pages is not None
        attempts = pages.attempts("claim")
        assert pages.attempts("claim") is attempts
        assert (attempts.stood, attempts.undone, pages.attempts("other").undone) == (2 * tried, 3 * tried, 0)
        attempts.stands(2)
        for _ in range(3):
            attempts.is_undone()
        learning.write()


def test_a_kernel_whose_attempts_lost_more_than_they_gained_is_tried_anew_after_some_runs(home: Path) -> None:
    undone = []
    for _ in range(11):
        learning = Learning((FACTS,) * 4)
        pages = learning.pages(b"program", 4)
        assert pages is not None
        attempts = pages.attempts("claim")
        if not attempts.why_not(4):
            attempts.is_undone()
            undone.append(attempts.why_not(4))
        learning.write()
    assert undone == ["of 1 launches that were split 1 had to run again"] * 2
