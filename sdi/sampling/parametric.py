"""Access maps that answer again for new scalars, sizes and boxes without binding again.

A launch's *inputs* are the scalars on which the maps depend, the numbers of work-groups and the corners of
a box.  Where a kernel is asked again and again with other inputs, one run of the usual way is traced and
becomes straight code (``tracing.py``, ``straight.py``), which answers wherever that run would have taken the
same way.  All other questions go the usual way, ``KernelAnalysis``, which stays the reference.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.sampling.affine import Range
from sdi.sampling.affine_context import AffineContext, Scalar
from sdi.sampling.analysis import KernelAnalysis
from sdi.sampling.bound import BoundKernel
from sdi.sampling.model import AccessRange, WorkEstimate
from sdi.sampling.shaping import shaping_scalars
from sdi.sampling.straight import Answer, Evaluator, compiled
from sdi.sampling.tracing import Trace, Untraceable

TRACE_AFTER = 64
"""Unanswered questions of a launch's first scalars before runs are traced, times one more than the runs
traced so far: a trace costs as much as ten to fifty answers by the usual way."""
TRACE_AT_ONCE = 24
"""Where so many boxes are asked for at once, one of them is traced first."""
AGAIN_COUNTS = 8
"""As so many of those counts one with other scalars: there will be more."""
WAITING_MAX = 4
"""So many last questions are traced together: a launch's boxes, of which the first and last may differ."""
TRACES_MAX = 12
"""Per shape, of exact answers and of bounds each."""
SHAPES_MAX = 16
USUAL_MAX = 4
_GROUPS: Range = (0, 1 << 64)

_ShapeKey = tuple[int, Int3, Int3, tuple[int | None, ...]]


class Parametric:
    """See ``KernelAccess``.  Owned by: sdi-scheduler."""

    def __init__(self, analysis: KernelAnalysis) -> None:
        self.analysis = analysis
        self._scalars = shaping_scalars(analysis)
        self._shapes: OrderedDict[_ShapeKey, AnswerShape] = OrderedDict()

    def bind(
        self, ndrange: NDRange, values: tuple[bytes | None, ...], buffer_nbytes: tuple[int | None, ...]
    ) -> ParametricBound | BoundKernel:
        """See ``KernelAccess``."""
        inputs: list[int] = []
        for argument, offset, kind in self._scalars:
            raw, stop = values[argument], offset + kind.bits // 8
            if raw is None or len(raw) < stop:
                return self.analysis.bind(ndrange, values, buffer_nbytes)
            inputs.append(int.from_bytes(raw[offset:stop], "little", signed=kind.signed))
        key = (ndrange.work_dim, ndrange.offset, ndrange.local_size, buffer_nbytes)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = AnswerShape(self.analysis, self._scalars, ndrange, buffer_nbytes)
            if len(self._shapes) > SHAPES_MAX:
                self._shapes.popitem(last=False)
        return ParametricBound(shape, (*inputs, *ndrange.num_groups), ndrange, values)


class ParametricBound:
    """See ``BoundAccess``."""

    __slots__ = ("_inputs", "_ndrange", "_slow", "_values", "shape")

    def __init__(
        self, shape: AnswerShape, inputs: tuple[int, ...], ndrange: NDRange, values: tuple[bytes | None, ...]
    ) -> None:
        self.shape = shape
        self._inputs = inputs
        self._ndrange = ndrange
        self._values = values
        self._slow: BoundKernel | None = None

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """See ``BoundAccess``."""
        return self._answer(self.shape.exact, box)

    def bounds(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """See ``BoundAccess``."""
        return self._answer(self.shape.bounds, box)

    def foresee(self, boxes: Sequence[GroupBox], exact: bool) -> None:
        """See ``BoundAccess``."""
        if len(boxes) < TRACE_AT_ONCE:
            return
        runs = self.shape.exact if exact else self.shape.bounds
        corners = len(self._inputs)
        sliced = [dim for dim in range(3) if self._inputs[corners - 3 + dim] > 1]
        varying = frozenset(corners + 3 * end + dim for end in range(2) for dim in sliced)
        box = boxes[len(boxes) // 2]
        runs.foresee((*self._inputs, *box.start, *box.stop), varying)

    def _answer(self, runs: TracedRuns, box: GroupBox) -> tuple[AccessRange, ...]:
        inputs = (*self._inputs, *box.start, *box.stop)
        found = runs.answer(inputs)
        if found is None:
            usual = self._usual()
            found = usual.over(box) if runs.is_exact else usual.bounds(box)
            runs.missed(inputs, len(self._inputs))
        return found

    def work(self, dim: int) -> WorkEstimate | None:
        """See ``BoundAccess``."""
        return self._usual().work(dim)

    def effort(self) -> float | None:
        """See ``BoundAccess``."""
        return self._usual().effort()

    def _usual(self) -> BoundKernel:
        if self._slow is None:
            self._slow = self.shape.usual(self._inputs, self._ndrange, self._values)
        return self._slow


class AnswerShape:
    """What a kernel's launches share when they differ in their inputs only."""

    def __init__(
        self,
        analysis: KernelAnalysis,
        scalars: Sequence[Scalar],
        ndrange: NDRange,
        buffer_nbytes: tuple[int | None, ...],
    ) -> None:
        self.analysis = analysis
        self.buffer_nbytes = buffer_nbytes
        self.scalars = tuple(scalars)
        self.ndrange = ndrange
        self.exact, self.bounds = TracedRuns(self, True), TracedRuns(self, False)
        self._usual: OrderedDict[tuple[int, ...], BoundKernel] = OrderedDict()

    def usual(
        self, inputs: tuple[int, ...], ndrange: NDRange, values: tuple[bytes | None, ...]
    ) -> BoundKernel:
        """The maps bound in the usual way; the last few are kept, with what they have answered: launches
        with the same ``inputs`` on other buffers of these sizes ask the same.
        """
        found = self._usual.get(inputs)
        if found is None:
            found = self._usual[inputs] = self.analysis.bind(ndrange, values, self.buffer_nbytes)
            if len(self._usual) > USUAL_MAX:
                self._usual.popitem(last=False)
        self._usual.move_to_end(inputs)
        return found


class TracedRuns:
    """Straight code for the exact answers of a shape, or for its bounds.

    ``hits``, ``misses``: questions answered by straight code, and not.
    """

    def __init__(self, shape: AnswerShape, is_exact: bool) -> None:
        self.is_exact = is_exact
        self.hits = self.misses = 0
        self._shape = shape
        self._first: tuple[int, ...] | None = None
        self._varying: frozenset[int] = frozenset()
        self._evaluators: list[Evaluator] = []
        self._traces = 0
        self._waited = 0
        self._waiting: deque[tuple[int, ...]] = deque(maxlen=WAITING_MAX)

    def answer(self, inputs: tuple[int, ...]) -> Answer | None:
        """The answer for these inputs, where straight code for them exists."""
        for evaluate in self._evaluators:
            found = evaluate(inputs)
            if found is not None:
                self.hits += 1
                return found
        return None

    def foresee(self, inputs: tuple[int, ...], varying: frozenset[int]) -> None:
        """Very many boxes will be asked for that differ in ``varying``, among them this one."""
        if self._traces >= TRACES_MAX // 2 or any(each(inputs) for each in self._evaluators):
            return
        first = self._first = self._first or inputs
        varying |= self._varying.union(k for k, value in enumerate(inputs) if value != first[k])
        if varying != self._varying:
            self._varying = varying
            self._evaluators.clear()
        self._traces += 1
        found = traced(self._shape, self.is_exact, inputs, varying)
        if found is not None:
            self._evaluators.append(found)

    def missed(self, inputs: tuple[int, ...], num_launch_inputs: int) -> None:
        """The usual way was asked; now and then, trace it.  ``num_launch_inputs``: those but the box's."""
        self.misses += 1
        if self._traces >= TRACES_MAX:
            return
        first = self._first = self._first or inputs
        varying = self._varying.union(k for k, value in enumerate(inputs) if value != first[k])
        if varying != self._varying:
            self._varying = varying
            self._evaluators.clear()
        self._waited += 1 if inputs[:num_launch_inputs] == first[:num_launch_inputs] else AGAIN_COUNTS
        self._waiting.append(inputs)
        if self._waited < TRACE_AFTER * (1 + self._traces):
            return
        for waiting in self._waiting:
            if self._traces < TRACES_MAX and not any(each(waiting) for each in self._evaluators):
                self._traces += 1
                found = traced(self._shape, self.is_exact, waiting, varying)
                if found is not None:
                    self._evaluators.append(found)
        self._waited = 0
        self._waiting.clear()


def traced(
    shape: AnswerShape, is_exact: bool, inputs: tuple[int, ...], varying: frozenset[int]
) -> Evaluator | None:
    """Straight code from one run with ``inputs``, of which those in ``varying`` stay open; None: too long."""
    analysis, scalars, ndrange = shape.analysis, shape.scalars, shape.ndrange
    ranges = [(kind.lo, kind.hi) for _, _, kind in scalars] + [_GROUPS] * 9
    places = sorted(varying)
    trace = Trace([inputs[k] for k in places], [ranges[k] for k in places])
    numbers = list(inputs)
    for number, place in enumerate(places):
        numbers[place] = trace.input(number)
    count = len(scalars)
    groups, start, stop = (_three(numbers[count + 3 * k :]) for k in range(3))
    local = ndrange.local_size
    size = (groups[0] * local[0], groups[1] * local[1], groups[2] * local[2])
    try:
        binding = AffineContext(
            analysis.table,
            analysis.loops,
            NDRange(ndrange.work_dim, ndrange.offset, size, local),
            (),
            dict(zip(scalars, numbers, strict=False)),
        )
        bound = BoundKernel(analysis.name, analysis.pointers, analysis.accesses, binding, shape.buffer_nbytes)
        trace.is_hashable = False
        answer = bound.computed(GroupBox(start, stop), is_exact)
    except Untraceable:
        return None
    fixed = [(k, value) for k, value in enumerate(inputs) if k not in varying]
    return compiled(trace, fixed, places, answer)


def _three(numbers: Sequence[int]) -> Int3:
    return (numbers[0], numbers[1], numbers[2])
