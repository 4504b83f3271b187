"""What is remembered of launches that are alike: how they were cut, and what that cost."""

from __future__ import annotations

from sdi.cells import Cells
from sdi.dataclass import dataclass, field
from sdi.ndrange import Int3
from sdi.partition.balance import Balance, ShareEpoch
from sdi.partition.budget import Budget
from sdi.partition.gain import RECONSIDER, Rates
from sdi.partition.learnt import Learnt

TRIAL = 4
"""Launches after which an untried way is compared with what was known before; twice as many each time that
none of them was measured yet: the application is far ahead of the members.
"""
_PLANS_FREE = 2
"""So many plans of a way say nothing about its later launches."""
_GATHER_AFTER = 8
"""Launches on one member after which all of the data may as well be there."""
_WATCHED, _RARELY, _SELDOM = 3, 64, 512
"""The first launches of a way are measured, then one of so many, and less often the more there were."""
_RARELY_ALONE = 256
"""Where launches are so short that one which is measured, and so no replay, costs as much as 30 others: of
members that have something for themselves."""
_ENDLESS = 1 << 31
_LOSS_NS = 2e6
"""Copies may take so much longer than a cut saves before it is looked at again; then twice as much."""
_MISSED_MAX = 64
"""Launches that were to be measured and were not, for which others were."""
LONG_NS = 1e6
"""Launches that take so long, all assignments together, are looked at again as soon as that is known."""
_MEASURED_BY = 16
"""After so many launches one was measured, or it may be long until one is."""
_REST = 50.0
"""Launches run for so many times what it takes to choose again before that is done."""
_CHOOSE_LEAST_NS = 1e6
"""A launch for which that is done is planned, not replayed.  [M] on hosts with H200s 0.4 to 2 ms."""
_SETTLED = 64
"""A way that is taken over counts as having run so often: it is looked at more seldom."""


@dataclass(slots=True)
class LaunchHistory:
    """Launches of a kernel on the same buffers, of about the same size.  Owned by: sdi-scheduler.

    ``shape``: parts per dimension of the cut in use, None before there is one.  ``version``: changes with it.
    ``steady_ns``: by number of assignments, the time for copies when launches had run that way for a while.
    ``after_ns``: likewise, the time to put together what was appended; ``owing_ns``: and what launches of
    others on one member took to put together what these had left in parts; ``owed_ns``: that of all since
    ``cut_at``, when so many launches had run and the cut became this one.
    ``decided_at``: after how many launches the cut was last chosen; ``begun_at``: and it was another one
    before, or later by as many launches as were to be measured and were not.  ``is_fixed``: it is not chosen
    again, nor is anything measured.  ``is_final``: it is not chosen again.  ``is_small``: so little is done
    that no other way could win: measured less often.
    ``first_away``: after how many launches one member other than the first ran them, 0 if that is not so;
    ``home_at``: with which launch the first one is to, if any.
    ``recheck_at``: when to look at a way that was chosen untried.  ``rest_until``: before that many launches
    there is not enough to win by choosing again; set to 0 by any thread that sees one of them take longer.
    ``planning``: by number of assignments, the time that new scalars cost in plans, and launches; ``plans``:
    how many there were.
    ``gathered_at``: after how many launches all data were last brought to one member, ``gathers`` times so
    far.
    ``lost_ns``: what copies took since the cut was chosen beyond what it saves; ``losses``: how often it was
    looked at because of that.  ``worth_ns``: what all launches in several assignments have saved so far.
    ``think_ns``: what it is taken to cost to choose among cuts once more, 0.0 where that was never done.
    ``budget``: the session's.  ``earlier``: launches of the same kernel on other buffers, before these began.
    ``expected``: how many of these there may be in all, by how many there were on other buffers.
    ``at_stake_ns``: what epochs of the cut in use were taken to cost in vain, as long as that may be so.
    ``planned_ns``: what it took to plan it, of launches that were all to come, and to begin it.
    ``untried``: how often the way in use was looked at and nothing had been measured yet.
    ``is_news``: its first times say that it takes long; set by any thread.
    ``balances``: the shares by shape of the cut, the same for all of a kernel's launches of about this size.
    ``learnt``: what earlier runs found out.
    ``cell``, ``version_cell``: in ``cells``, how many launches may be replayed, and ``version``.
    ``watch``: the first of the cells that say which of them are measured.
    """

    rates: Rates
    is_fixed: bool = False
    budget: Budget = field(default_factory=Budget)
    launches: int = 0
    shape: Int3 | None = None
    assignments: int = 0
    version: int = 0
    decided_at: int = -1
    begun_at: int = -1
    is_small: bool = False
    is_final: bool = False
    first_away: int = 0
    home_at: int = 0
    recheck_at: int = -1
    rest_until: int = 0
    why_fewer: str = ""
    steady_ns: dict[int, float] = field(default_factory=dict)
    after_ns: dict[int, float] = field(default_factory=dict)
    owing_ns: dict[int, float] = field(default_factory=dict)
    owed_ns: float = 0.0
    cut_at: int = 0
    planning: dict[int, tuple[float, int]] = field(default_factory=dict)
    plans: dict[int, int] = field(default_factory=dict)
    gathered_at: int = -1
    gathers: int = 0
    lost_ns: float = 0.0
    losses: int = 0
    worth_ns: float = 0.0
    think_ns: float = 0.0
    earlier: int = 0
    expected: int = 0
    at_stake_ns: float = 0.0
    planned_ns: float = 0.0
    untried: int = 0
    is_news: bool = False
    balances: dict[Int3, Balance] = field(default_factory=dict)
    learnt: Learnt | None = None
    cells: Cells | None = None
    cell: int = 0
    version_cell: int = 0
    watch: int = 0
    num_missed: int = 0

    def follow(self, cells: Cells) -> None:
        """Have cells say how many launches may be replayed, and how they are cut."""
        self.cells, self.cell, self.version_cell = cells, cells.new(), cells.new()
        self.watch = cells.new_row()
        if self.version_cell:
            cells.at[self.version_cell] = self.version

    def unfollow(self) -> None:
        """Nothing is recorded of these launches: the cells go back."""
        if self.cells is not None:
            self.cells.give_back(self.cell, self.version_cell)
            self.cells.give_back_row(self.watch)
        self.cells, self.cell, self.version_cell, self.watch = None, 0, 0, 0

    def num_decided(self) -> int:
        """How many of the next launches, at most, run before their cut is to be chosen anew."""
        if self.is_fixed:
            return min(max(self.home_at - 1 - self.launches, 0), _ENDLESS) if self.home_at else _ENDLESS
        launches = self.launches
        if self.is_due():
            return 0
        dues = [_ENDLESS]
        if not (self.is_final or self.is_unknown(launches + 1)):
            dues += [due - launches for due in RECONSIDER if due > launches and due >= self.rest_until]
            if self.recheck_at > launches:
                dues.append(self.recheck_at - launches)
        if self.home_at:
            dues.append(max(self.home_at - 1 - launches, 0))
        return min(dues)

    def refill(self, epoch: ShareEpoch | None) -> None:
        """Say in the cells how many launches may be replayed, and which of these are measured."""
        if self.cells is None:
            return
        at, launches = self.cells.at, self.launches
        at[self.cell] = self.num_decided()
        first, dues = 0, []
        if not self.is_fixed:
            first = self.begun_at + _WATCHED - launches
            if first < 1 and self.assignments not in self.rates.measured and self.num_missed < _MISSED_MAX:
                first = 1  # Python launched the first ones of this way, and that was a part of what they took
                self.num_missed += at[self.watch] == 0  # else none was replayed since
            dues.append(self._every(launches + 1))
        if epoch is not None:
            if epoch.cell:
                at[epoch.cell] = epoch.num_passing()
            first = max(first, epoch.num_first())
            dues.append(epoch.every)
        if self.watch and dues:
            at[self.watch] = max(first, 0)
            at[self.watch + 1] = min(due - launches % due for due in dues)
            at[self.watch + 2] = min(dues)

    def missed(self, epoch: ShareEpoch | None) -> None:
        """A launch that was to be measured was not; of the first ones another one is."""
        if self.launches - self.begun_at <= _WATCHED and self.num_missed < _MISSED_MAX:
            self.begun_at += 1
            self.num_missed += 1
        if epoch is not None:
            epoch.missed()
        self.refill(epoch)

    def begin_like(self, other: LaunchHistory, is_smaller: bool) -> None:
        """Take over what was measured of other launches of the same kernel.

        What one member runs best stays there when it gets smaller (a loop that works on less each time).
        """
        if self.is_fixed or other.is_fixed:
            return
        self.rates.measured.update(other.rates.measured)
        self.rates.guessed.update(other.rates.guessed)
        self.planning.update(other.planning)
        self.after_ns.update(other.after_ns)
        self.think_ns, self.earlier = other.think_ns, other.earlier + other.launches
        if is_smaller and other.assignments == 1 and other.shape is not None:
            self.launches = _SETTLED
            self.decide(other.shape, 1, other.why_fewer)

    @property
    def ahead(self) -> int:
        """How many of these launches are likely to come: as many as there were, or were on other buffers."""
        return max(self.launches, self.expected - self.launches, 1)

    def follows(self, last: LaunchHistory) -> None:
        """``last`` were those of the same kernel and size on other buffers, which may go on."""
        self.rates.guessed.update(last.rates.known)
        self.expected = max(last.launches, last.expected // 2)

    def begin_with(self, learnt: Learnt) -> None:
        """Begin as an earlier run ended; where that tried one member only, with what is known of that."""
        if self.is_fixed:
            return
        self.learnt = learnt
        self.rates.guessed.update(learnt.trusted())
        if self.shape is None and any(assignments > 1 for assignments in self.rates.known):
            self.decide(learnt.shape, learnt.assignments, "one member ran it best in an earlier run")

    def learns(self) -> Learnt | None:
        """What the next run may begin with; None where there is nothing."""
        rates = self.rates
        if self.is_fixed or self.shape is None or not (rates.measured or rates.first):
            return None
        has_tried = set(rates.measured) - {self.assignments} or set(rates.first) - set(rates.guessed)
        runs = 0 if self.learnt is None or has_tried else self.learnt.runs + 1
        moved = {
            shape: balance.current.edges
            for shape, balance in self.balances.items()
            if balance.current.edges is not None
        }
        try:
            return Learnt({**rates.first, **rates.known}, self.shape, self.assignments, moved, runs)
        except ValueError:
            return None

    def ran(self, assignments: int, times: int = 1) -> None:
        """One more launch, or more."""
        self.launches += times
        spent_ns, launches = self.planning.get(assignments, (0.0, 0))
        self.planning[assignments] = (spent_ns, launches + times)

    def copied(self, copies_ns: float, saved_ns: float, times: int = 1) -> None:
        """Copies before a launch in several assignments, which saves no more than ``saved_ns``, took so long.

        What moves with each launch shows only once the launches between these are cut, too.  Not where
        nothing is chosen any more.
        """
        lost_ns = times * (copies_ns - saved_ns)
        self.budget.lose(lost_ns)
        self._lose(lost_ns)

    def owes(self, copies_ns: float) -> None:
        """Launches on one member had to copy what these left in parts, which the budget has lost already."""
        if self.assignments > 1 and not (self.is_fixed or self.is_final):
            self.owed_ns += copies_ns
            self._lose(copies_ns)

    def owing(self, assignments: int) -> float:
        """What others had to copy after each launch in so many assignments."""
        if assignments == self.assignments > 1:
            self.owing_ns[assignments] = self.owed_ns / max(self.launches - self.cut_at, 1)
        return self.owing_ns.get(assignments, 0.0)

    def _lose(self, lost_ns: float) -> None:
        self.lost_ns = max(0.0, self.lost_ns + lost_ns)
        self.worth_ns -= lost_ns
        is_much = self.lost_ns > _LOSS_NS * (1 << self.losses)
        self.losses += is_much
        if is_much or self.is_losing():
            self.recheck_at = max(self.launches, self.decided_at + 1)
            self.wake()

    def wake(self) -> None:
        """The next launch is no replay."""
        if self.cells is not None and self.cell:
            self.cells.at[self.cell] = 0

    def began(self, took_ns: float) -> None:
        """A launch was issued that is no repetition: the first one of a way makes room on its members."""
        if self.assignments > 1 and self.launches - self.cut_at <= 1 and not (self.is_fixed or self.is_final):
            self.budget.began(took_ns)
            self.planned_ns += took_ns

    def is_losing(self) -> bool:
        """Whether the session has lost too much, and this way has not saved as much: it is not worth it.

        The first launches of a way move what stays where it is then.
        """
        if self.assignments < 2 or self.launches - self.begun_at < TRIAL:
            return False
        overdrawn_ns = self.budget.overdrawn_ns()
        return overdrawn_ns > 0 and self.worth_ns < overdrawn_ns

    def planned(self, assignments: int, took_ns: float) -> None:
        """A launch was planned in a way that had been chosen before; the first ones are so whatever comes."""
        self.plans[assignments] = self.plans.get(assignments, 0) + 1
        if self.plans[assignments] <= _PLANS_FREE:
            return
        spent_ns, launches = self.planning.get(assignments, (0.0, 0))
        self.planning[assignments] = (spent_ns + took_ns, launches)

    def plan_ns(self, assignments: int) -> float:
        """What planning costs per launch in so many assignments; before that is known what it costs in one,
        and 0 before that is.
        """
        spent_ns, launches = self.planning.get(assignments) or self.planning.get(1, (0.0, 0))
        return spent_ns / max(launches, 1)

    def is_due(self) -> bool:
        """Whether the way these launches run is to be chosen anew."""
        if self.is_fixed or self.is_final or self.decided_at == self.launches:
            return False
        if self.is_news:
            return True
        if self.is_unknown(self.launches):
            return False
        is_missed = self.decided_at < self.recheck_at <= self.launches  # some were replayed meanwhile
        return is_missed or (self.launches in RECONSIDER and self.launches >= self.rest_until)

    def is_unknown(self, launches: int) -> bool:
        """Whether after so many on one member there is still nothing to choose by.  Where others always run
        beside short ones nobody can tell how long they take.
        """
        is_known = self.rates.measured or self.rates.guessed
        return self.assignments == 1 and launches > _MEASURED_BY and not is_known

    def rest(self, run_ns: float, moving_ns: float) -> None:
        """These launches, which take so long each, run like this for a while; the shortest for good, as what
        they could win is never worth a look.  Not where copies would come before them on one member.
        """
        if moving_ns > 0:
            self.rest_until = 0
            return
        choose_ns = max(self.think_ns, _CHOOSE_LEAST_NS)
        self.rest_until = self.launches + int(min(_REST * choose_ns / max(run_ns, 1.0), _ENDLESS))

    def gather(self) -> bool:
        """Whether to bring all of the buffers to the one member that runs these launches now, needed or not.

        Afterwards launches there need no ranges.  Where other kernels spread the data again, each launch gets
        what it needs, until twice as many have run.
        """
        if self.launches - max(self.begun_at, self.gathered_at) < _GATHER_AFTER << self.gathers:
            return False
        self.gathered_at = self.launches
        self.gathers += 1
        return True

    def is_routine(self) -> bool:
        """Whether nothing is to be learnt from the next launch, and no cut to be chosen before it."""
        is_going_home = 0 < self.home_at <= self.launches + 1
        if self.is_fixed:
            return not is_going_home
        return not (is_going_home or self._is_watched(self.launches + 1) or self.is_due())

    def is_sampled(self) -> bool:
        """Whether to measure the next launch: the first ones of a way, then now and then."""
        return self._is_watched(self.launches)

    def _is_watched(self, launch: int) -> bool:
        return launch - self.begun_at <= _WATCHED or launch % self._every(launch) == 0

    def _every(self, launch: int) -> int:
        """One of so many launches is measured: eight each time their number doubles, once there were 512, and
        two of those of which nothing could come.
        """
        if self.is_small:
            return max(_SELDOM, 1 << max(launch.bit_length() - 2, 0))
        rarely = _RARELY if self.rates.is_shared else _RARELY_ALONE
        return max(rarely, 1 << max(launch.bit_length() - 4, 0))

    def decide(self, shape: Int3, assignments: int, why_fewer: str) -> None:
        """Use this cut from now on."""
        if (shape, assignments) != (self.shape, self.assignments):
            self.version += 1
            self.owed_ns, self.cut_at = 0.0, self.launches
            self.untried, self.begun_at = 0, self.launches
            self.first_away = self.home_at = 0
            if self.version_cell and self.cells is not None:
                self.cells.at[self.version_cell] = self.version
        self.shape, self.assignments, self.why_fewer = shape, assignments, why_fewer
        self.decided_at = self.launches
        self.lost_ns = 0.0
        if assignments in self.rates.known:
            self.untried = 0
        else:
            self.recheck_at = self.launches + (TRIAL << self.untried)
            self.untried += 1
