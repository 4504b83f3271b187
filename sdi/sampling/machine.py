"""The state of a symbolic run of a kernel: variables, the guards of the path, and the accesses found."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from sdi.atomics import Update
from sdi.clc.frontend.syntax import OWN_SPACES, Space, SyntaxNode
from sdi.dataclass import dataclass, field
from sdi.sampling.cases import cases
from sdi.sampling.control import NOT_PRIVATE
from sdi.sampling.floats import Floats
from sdi.sampling.terms import I32, I64, TermOp, Terms
from sdi.sampling.values import PRIVATE_MEMORY, PointerValue, Value, declaration_of, joined

MAX_OPERATIONS = 1_000_000
"""The run of a larger kernel ends.  By count, so that the answer is the same on every machine."""
MAX_WEIGHT = 20_000
"""Of accesses with their guards and loops: each launch with new scalars looks at all of them."""


_ENV_SHIFT = 3  # to copy or compare so many variables, as a power of two, is an operation


class GaveUp(Exception):
    """The kernel does something that the analysis has no model of.  ``offset``: where, in the text."""

    def __init__(self, why: str, offset: int) -> None:
        super().__init__(why)
        self.offset = offset


TOO_MUCH = "to analyse"
"""How reasons end for which a kernel runs whole that is larger than what is analysed."""


class TooLong(GaveUp):
    """The kernel is larger than what is analysed."""


class Mode(Enum):
    """What an access does."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Access:
    """One place of the source that touches global or constant memory.

    ``offset``: term for the first byte, ``nbytes`` long.  ``guards``: truth values that all hold when it
    happens.  ``loops``: numbers of the loops around it, outermost first.  ``is_definite``: it happens
    whenever the guards hold.  ``at``: offset in the program's text.  ``update``: a write that is an atomic
    update which may be made on a private copy.
    """

    argument: int
    mode: Mode
    offset: int
    nbytes: int
    guards: tuple[int, ...]
    loops: tuple[int, ...]
    is_definite: bool
    at: int
    update: Update | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: iteration t happens when ``conditions`` hold for the counter's values 0 to t.

    ``counter``: its term.  ``around``: numbers of the loops around it, outermost first.  ``guards``: truth
    values that all hold where it begins.
    """

    counter: int
    conditions: tuple[int, ...]
    around: tuple[int, ...]
    guards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UnknownAccess:
    """An access through a pointer of which nothing but the address space is known."""

    space: Space
    mode: Mode
    at: int


@dataclass(slots=True)
class Body:
    """The loop body, or the function, that is being run."""

    first_guard: int
    first_access: int
    loop: int | None = None
    returns: list[tuple[int, Value, bool]] = field(default_factory=list)
    continues: list[tuple[int, dict[int, Value]]] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    breaks: list[dict[int, Value]] = field(default_factory=list)
    is_broken: bool = False
    is_switch: bool = False


class Machine:
    """One symbolic run.  Owned by: the thread of the build."""

    def __init__(self, operations: int = MAX_OPERATIONS, follows_floats: bool = True) -> None:
        """``operations``: how many there may be."""
        self.terms = Terms()
        self.floats = Floats(self.terms, follows_floats)
        self.zero = self.terms.const(0, I64)  # term 0: the offset of HARMLESS
        self.env: dict[int, Value] = {}
        self.sticky: set[int] = set()  # variables that are never followed, as parts of them overlap
        self.exposed: set[int] = set()  # variables that pointers may point to
        self.guards: list[int] = []
        self.loops: list[int] = []
        self.accesses: list[Access] = []
        self.unknown: list[UnknownAccess] = []
        self.found_loops: list[Loop | None] = []
        self.dead = False
        self.functions: list[Body] = []
        self.bodies: list[Body] = []
        self._most = operations

    @property
    def operations(self) -> int:
        """How many there were."""
        return self.terms.operations

    def step(self, node: SyntaxNode) -> None:
        """Count a node; raises TooLong after too many operations."""
        self.terms.operations += 1
        if self.terms.operations > self._most:
            raise TooLong("is too long to analyse", node.begin)

    def copied(self, env: dict[int, Value]) -> dict[int, Value]:
        """The variables for a path of its own."""
        self.terms.operations += len(env) >> _ENV_SHIFT
        return dict(env)

    # -- paths -----------------------------------------------------------------------------------

    def assume(self, condition: int) -> None:
        """What follows happens only when ``condition`` holds."""
        if self.terms.value(condition) is None:
            self.guards.append(condition)
        elif self.terms.value(condition) == 0:
            self.dead = True

    def since(self, first: int) -> int:
        """The conjunction of the guards from number ``first`` on."""
        return self.terms.join(self.guards[first:])

    def doubt(self) -> None:
        """What follows may or may not happen."""
        self.guards.append(self.terms.truth(self.terms.unknown(I32)))

    def merge(self, condition: int, then: dict[int, Value], other: dict[int, Value]) -> dict[int, Value]:
        """The variables after two paths meet."""
        self.terms.operations += len(then) >> _ENV_SHIFT
        if then == other:
            return then
        merged = dict(other)
        for name, value in then.items():
            if name not in other:
                merged[name] = None
            elif value is not other[name]:
                merged[name] = joined(self.terms, condition, value, other[name])
        for name in other.keys() - then.keys():
            merged[name] = None
        return merged

    # -- accesses --------------------------------------------------------------------------------

    def touch(
        self,
        pointer: Value,
        space: Space,
        mode: Mode,
        nbytes: int,
        at: int,
        is_definite: bool = True,
        update: Update | None = None,
    ) -> None:
        """Note an access of ``nbytes`` at ``pointer``."""
        if self.dead:
            return
        if mode is Mode.WRITE and space not in NOT_PRIVATE:
            self.overwrite(pointer)
        if space in OWN_SPACES:
            return
        if not isinstance(pointer, PointerValue):
            self.unknown.append(UnknownAccess(space, mode, at))
            return
        for number, (root, choice) in enumerate(pointer.choices):
            if root < 0:
                continue
            chosen = pointer.conditions[number : number + 1]
            if any(self.terms.value(condition) == 0 for condition in chosen):
                continue
            for conditions, offset in cases(self.terms, choice):
                guards, loops = (*self.guards, *chosen, *conditions), tuple(self.loops)
                self.terms.operations += len(guards)
                self.accesses.append(
                    Access(root, mode, offset, nbytes, guards, loops, is_definite, at, update)
                )

    def overwrite(self, pointer: Value) -> None:
        """Nothing is known any more of the private variables that ``pointer`` may point to."""
        roots = (
            [root for root, _ in pointer.choices] if isinstance(pointer, PointerValue) else [PRIVATE_MEMORY]
        )
        names = (
            self.exposed if PRIVATE_MEMORY in roots else {declaration_of(root) for root in roots if root < 0}
        )
        for name in names & self.env.keys():
            self.env[name] = None

    def moved(self, pointer: PointerValue, nbytes: int) -> PointerValue:
        """The pointer plus a constant number of bytes."""
        if nbytes == 0:
            return pointer
        return self._shifted(pointer, self.terms.const(nbytes, I64))

    def indexed(self, pointer: PointerValue, index: Value, stride: int, sign: int = 1) -> PointerValue:
        """The pointer plus ``index`` elements of ``stride`` bytes."""
        terms = self.terms
        if isinstance(index, int):
            index = terms.convert(index, I64)
        else:
            index = terms.unknown(I64)
        return self._shifted(pointer, terms.scale(index, stride * sign))

    def _shifted(self, pointer: PointerValue, step: int) -> PointerValue:
        return pointer.at([o if r == PRIVATE_MEMORY else self.terms.add(o, step) for r, o in pointer.choices])

    def unify(self, condition: int, first: int, middle: int, guards: int) -> None:
        """Writes of the same bytes on both sides of an ``if`` happen without its guard.

        ``first``, ``middle``: where the accesses of the two sides begin; ``guards``: how many stood before.
        """
        other = self.terms.negate(condition)

        def keys(accesses: Iterable[Access], own: int) -> dict[tuple[object, ...], Access]:
            return {
                (a.argument, a.offset, a.nbytes, a.loops): a
                for a in accesses
                if a.mode is Mode.WRITE and a.is_definite and a.guards[guards:] == (own,)
            }

        then = keys(self.accesses[first:middle], condition)
        if not then:
            return
        for key, access in keys(self.accesses[middle:], other).items():
            if key in then:
                self.accesses.append(
                    Access(
                        access.argument,
                        access.mode,
                        access.offset,
                        access.nbytes,
                        access.guards[:guards],
                        access.loops,
                        True,
                        access.at,
                    )
                )

    def counter(self) -> tuple[int, int]:
        """(number, term) of a new loop's counter."""
        number = len(self.found_loops)
        self.found_loops.append(None)
        return number, self.terms.make(TermOp.COUNTER, (), I64, number)
