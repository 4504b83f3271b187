"""Statements of a symbolic run: paths that part and meet, loops, inlined helpers.

A loop's body is run twice: once with unknown values for what it changes, to see how each variable
changes per iteration, and once with the values at iteration t.
"""

from __future__ import annotations

from sdi.clc.frontend import assembly
from sdi.clc.frontend.syntax import WAYS_OUT, Form, Function, NodeKind, Space, SyntaxNode, Tree, has_any
from sdi.sampling.blind import BlindCalls, computes
from sdi.sampling.control import (
    NOT_PRIVATE,
    Assigned,
    Chain,
    has_label,
    leaves,
    trip_count,
)
from sdi.sampling.expressions import Expressions
from sdi.sampling.induction import after_any, after_loop, at_iteration, forgotten, loosened, placeholder
from sdi.sampling.machine import Body, GaveUp, Loop, Machine
from sdi.sampling.terms import I64, TermOp
from sdi.sampling.values import (
    RecordValue,
    Value,
    fresh,
    has_items,
    joined,
    unset,
)

_MAX_INLINED = 40
_MAX_UNROLLED = 16
_MAX_UNROLLED_OVER_ARRAYS = 32
_MAX_UNROLLED_IN_ALL = 500


class Statements:
    """Runs a kernel on a machine.  Owned by: the thread of the build.

    ``blind``: declarations of functions whose calls are not followed.
    """

    def __init__(self, tree: Tree, machine: Machine, blind: frozenset[int] = frozenset()) -> None:
        self.tree = tree
        self.machine = machine
        self.terms = machine.terms
        self.expressions = Expressions(tree, machine, self.inline)
        self._blind_calls = BlindCalls(tree, self.expressions, blind)
        self._active: list[int] = []
        self._assigned = Assigned(tree)
        self._unrolled_iterations = 0

    # -- functions -------------------------------------------------------------------------------

    def kernel(self, function: Function, arguments: list[Value]) -> None:
        """Run a kernel's body with these arguments."""
        assert function.definition is not None
        self.inline(function, arguments, function.definition)

    def inline(self, function: Function, arguments: list[Value], at: SyntaxNode) -> Value:
        """Run a call of a function that has a body; the value it returns."""
        machine, body = self.machine, function.body
        assert body is not None
        if self._active and (function.declaration in self._active or self._blind_calls.are_of(function)):
            return self._blind_calls.call(function, arguments, at)
        if len(self._active) > _MAX_INLINED:
            raise GaveUp(f"calls '{function.name}' too deeply", at.begin)
        self.expressions.pointees.look_for(function.declaration, body)
        for parameter, value in zip(function.parameters, arguments, strict=False):
            machine.env[parameter.declaration] = value
        frame = Body(len(machine.guards), len(machine.accesses))
        depth = len(machine.loops)
        machine.functions.append(frame)
        bodies, machine.bodies = machine.bodies, []
        self._active.append(function.declaration)
        self.run(body)
        self._active.pop()
        if not self._ends_once(frame) and self._changes_through_pointers(body):
            machine.overwrite(None)  # what it left where it returned early is not put together
        machine.bodies = bodies
        machine.functions.pop()
        result: Value = None
        if frame.returns:
            result = frame.returns[-1][1]
            for condition, value, _ in reversed(frame.returns[:-1]):
                result = joined(self.terms, condition, value, result)
            if any(in_loop for _, _, in_loop in frame.returns):
                result = None
        del machine.guards[frame.first_guard :]
        machine.dead = False
        assert len(machine.loops) == depth
        if at.kind is NodeKind.CALL and (result is None or isinstance(result, int)):
            known = isinstance(result, int)
            return result if known else fresh(self.terms, at.type)
        return result

    def _ends_once(self, frame: Body) -> bool:
        """Whether all that ran in a function reached the same end."""
        return not frame.returns or (len(frame.returns) == 1 and self.machine.dead)

    # -- statements ------------------------------------------------------------------------------

    def run(self, node: SyntaxNode) -> None:
        """Run a statement."""
        machine = self.machine
        if machine.dead:
            return
        machine.step(node)
        match node.kind:
            case NodeKind.COMPOUND | NodeKind.DECL_STATEMENT:
                for child in node.children:
                    self.run(child)
            case NodeKind.VAR_DECL:
                self._declare(node)
            case NodeKind.IF:
                self._if(node)
            case NodeKind.FOR:
                self._for(node)
            case NodeKind.WHILE:
                self._loop(node.children[0], None, node.children[-1])
            case NodeKind.DO:
                self._do(node)
            case NodeKind.SWITCH:
                self._switch(node)
            case NodeKind.RETURN:
                self._return(node)
            case NodeKind.CONTINUE:
                body = next(b for b in reversed(machine.bodies) if not b.is_switch)
                body.continues.append((machine.since(body.first_guard), machine.copied(machine.env)))
                machine.dead = True
            case NodeKind.BREAK:
                self._break(node)
            case NodeKind.ASM:
                self._assembly(node)
            case NodeKind.NULL_STATEMENT | NodeKind.UNEXPOSED_ATTRIBUTE:
                pass
            case (
                NodeKind.STRUCT_DECL
                | NodeKind.UNION_DECL
                | NodeKind.ENUM_DECL
                | NodeKind.TYPEDEF_DECL
                | NodeKind.FUNCTION_DECL
            ):
                pass
            case kind if 200 <= kind < 300:
                if len(node.children) == 1 and kind is not NodeKind.LABEL:
                    self.run(node.children[0])
                else:
                    raise GaveUp("has a statement that the analysis has no model of", node.begin)
            case NodeKind.UNEXPOSED | NodeKind.OTHER if node.children and 200 <= node.children[-1].kind < 300:
                if any(c.kind < 400 for c in node.children[:-1]):
                    raise GaveUp("has a statement that the analysis has no model of", node.begin)
                self.run(node.children[-1])  # a statement with attributes
            case _:
                self.expressions.value(node)

    def _declare(self, node: SyntaxNode) -> None:
        # A structure may be declared right here: that is no value.
        initial = [c for c in node.operands if NodeKind.UNEXPOSED <= c.kind < NodeKind.UNEXPOSED_ATTRIBUTE]
        of = node.type
        if of.form is Form.ARRAY or of.space is Space.LOCAL or node.is_static_storage:
            values = [self.expressions.value(child) for child in initial]
            self.machine.exposed.add(node.declaration)
            self.machine.env[node.declaration] = None
            if of.form is Form.ARRAY and not (of.space is Space.LOCAL or node.is_static_storage):
                # Its size stands before what it begins with.
                is_set = bool(initial) and initial[-1].kind is NodeKind.INIT_LIST
                self.machine.env[node.declaration] = values[-1] if is_set else unset(of)
            return
        if initial:
            value = self.expressions.operators.converted(
                self.expressions.value(initial[-1]), initial[-1].type, of
            )
        elif of.form is Form.RECORD:
            value = RecordValue(())
        else:
            value = fresh(self.terms, of)
        self.machine.env[node.declaration] = value

    def _assembly(self, node: SyntaxNode) -> None:
        """Assembly that computes: its outputs may become anything."""
        found = assembly.read(self.tree, node)
        if found is None or not computes(self.tree, node):
            raise GaveUp("uses inline assembly", node.begin)
        run = self.expressions
        for operand in found.operands:
            if not operand.is_written:
                run.value(operand.node)
        for operand in found.operands:
            if operand.is_written:
                place = run.place(operand.node)
                if operand.is_read:
                    run.load(place, operand.node.type, operand.node)
                run.store(place, operand.node.type, fresh(self.terms, operand.node.type), operand.node)

    def _return(self, node: SyntaxNode) -> None:
        machine = self.machine
        value: Value = None
        if node.children:
            value = self.expressions.value(node.children[0])
        frame = machine.functions[-1]
        in_loop = bool(machine.bodies)
        frame.returns.append((machine.since(frame.first_guard), value, in_loop))
        for body in machine.bodies[:-1]:  # whether their later iterations happen, the innermost loop says
            body.is_broken = True
        if machine.bodies:
            self._stop(machine.bodies[-1])
        machine.dead = True

    def _break(self, node: SyntaxNode) -> None:
        machine = self.machine
        if not machine.bodies:
            raise GaveUp("has a break outside a loop", node.begin)
        self._stop(machine.bodies[-1])
        machine.bodies[-1].breaks.append(machine.copied(machine.env))
        machine.dead = True

    def _stop(self, body: Body) -> None:
        """This iteration of a loop is its last one."""
        # What was touched before is touched in the iteration that ends here too.
        touched = len(self.machine.accesses) > body.first_access
        condition = self.machine.since(body.first_guard)
        if touched or self.terms.value(condition) is not None or body.continues:
            body.is_broken = True
        else:
            body.stops.append(self.terms.negate(condition))

    def _if(self, node: SyntaxNode) -> None:
        condition = self.expressions.condition(node.children[0])
        then, other = node.children[1], list(node.children[2:])
        self._branch(condition, [then], other)

    def _branch(self, condition: int, then: list[SyntaxNode], other: list[SyntaxNode] | Chain) -> None:
        """Two paths that meet again."""
        machine, terms = self.machine, self.terms
        known = terms.value(condition)
        if known is not None:
            self._follow(then if known else other)
            return
        opposite = terms.negate(condition)
        base, first = len(machine.guards), len(machine.accesses)
        before = machine.env
        machine.env = machine.copied(before)
        machine.guards.append(condition)
        self._follow(then)
        then_env, then_dead, then_more = machine.env, machine.dead, machine.guards[base + 1 :]
        del machine.guards[base:]
        middle = len(machine.accesses)
        machine.env, machine.dead = dict(before), False
        machine.guards.append(opposite)
        self._follow(other)
        other_env, other_dead, other_more = machine.env, machine.dead, machine.guards[base + 1 :]
        del machine.guards[base:]
        machine.unify(condition, first, middle, base)
        machine.dead = then_dead and other_dead
        if then_dead:
            machine.env = other_env
            machine.guards += [opposite, *other_more]
        elif other_dead:
            machine.env = then_env
            machine.guards += [condition, *then_more]
        else:
            machine.env = machine.merge(condition, then_env, other_env)
            if then_more or other_more:
                then_on = terms.join([opposite, terms.join(list(then_more))], TermOp.ANY)
                other_on = terms.join([condition, terms.join(list(other_more))], TermOp.ANY)
                machine.guards += [g for g in (then_on, other_on) if terms.value(g) is None]

    def _follow(self, path: list[SyntaxNode] | Chain) -> None:
        if isinstance(path, Chain):
            condition, then = path.branches[0]
            rest = Chain(path.branches[1:], path.otherwise)
            self._branch(condition, then, rest if rest.branches else rest.otherwise)
            return
        for statement in path:
            self.run(statement)

    # -- loops -----------------------------------------------------------------------------------

    def _for(self, node: SyntaxNode) -> None:
        initial, condition, increment, body = self._clauses(node)
        if initial is not None:
            self.run(initial)
        self._loop(condition, increment, body)

    def _clauses(
        self, node: SyntaxNode
    ) -> tuple[SyntaxNode | None, SyntaxNode | None, SyntaxNode | None, SyntaxNode]:
        """The parts of a ``for``; clang leaves empty ones out."""
        text = self.tree.text
        at = text.index("(", node.begin)
        depth, breaks = 0, [at]
        while True:
            char = text[at]
            if char in "\"'":
                raise GaveUp("has a string in a loop's head", node.begin)
            depth += (char in "([{") - (char in ")]}")
            if depth == 0:
                break
            if char == ";" and depth == 1:
                breaks.append(at)
            at += 1
        if len(breaks) != 3:
            raise GaveUp("has a loop without a head", node.begin)
        parts: list[SyntaxNode | None] = [None, None, None]
        for child in node.children[:-1]:
            slot = 0 if child.begin < breaks[1] else 1 if child.begin < breaks[2] else 2
            if parts[slot] is not None or child.begin > at:
                raise GaveUp("has a loop whose head the analysis can't read", node.begin)
            parts[slot] = child
        return parts[0], parts[1], parts[2], node.children[-1]

    def _do(self, node: SyntaxNode) -> None:
        """``do S while (c);`` is ``S`` once and then ``while (c) S``."""
        body, condition = node.children[0], node.children[-1]
        machine = self.machine
        guards = len(machine.guards)
        if any(n.kind in (NodeKind.BREAK, NodeKind.RETURN) for n in body.walk()):
            machine.doubt()
        first, _ = self._once(None, None, body)
        machine.dead = False
        self._loop(condition, None, body)
        if first.breaks:
            self._forget((self._changes(condition) | self._changes(body)) & machine.env.keys())
        del machine.guards[guards:]
        if any(n.kind is NodeKind.RETURN for n in body.walk()):
            machine.doubt()

    def _loop(self, condition: SyntaxNode | None, increment: SyntaxNode | None, body: SyntaxNode) -> None:
        machine, terms = self.machine, self.terms
        nodes = [n for n in (condition, increment, body) if n is not None]
        changed = frozenset[int]().union(*(self._changes(n) for n in nodes)) & machine.env.keys()
        before, accesses, unknown = machine.copied(machine.env), len(machine.accesses), len(machine.unknown)
        mark = len(terms.rows)
        heads = {name: placeholder(self.terms, before[name]) for name in changed}
        number, counter = machine.counter()
        around, entered = tuple(machine.loops), tuple(machine.guards)
        machine.loops.append(number)
        while True:
            machine.env.update(heads)
            first, _ = self._once(condition, increment, body)
            after = machine.env
            ends = not first.is_broken and machine.dead
            del machine.accesses[accesses:], machine.unknown[unknown:]
            machine.dead = False
            machine.env = machine.copied(before)
            # What was found where pointers point to their first root holds only if they stay there.
            loose = {name: loosened(head, after.get(name)) for name, head in heads.items()}
            if ends or loose == heads:
                break
            heads = loose
        is_lost = False
        for name in changed:
            if not ends:
                known = len(terms.rows)
                value = at_iteration(self.terms, before[name], heads[name], after.get(name), mark, counter)
                machine.env[name] = value
                is_lost |= isinstance(value, int) and terms.rows[value].op is TermOp.OPAQUE and value >= known
        most = (
            _MAX_UNROLLED_OVER_ARRAYS if self._uses_arrays(body, before) else _MAX_UNROLLED if is_lost else 0
        )
        if most:
            machine.loops.pop()
            solved, machine.env = machine.env, machine.copied(before)
            if self._unrolled(condition, increment, body, most):
                return
            machine.env = solved
            machine.loops.append(number)
        guards = len(machine.guards)
        if first.is_broken:
            machine.doubt()
        once = terms.equal(counter, terms.const(0, I64))
        if ends:  # every path leaves the body
            machine.guards.append(once)
        starts, tests = machine.copied(machine.env), len(machine.accesses)
        second, held = self._once(condition, increment, body)
        is_touching = first.first_access > accesses and condition is not None
        if is_touching:
            del machine.accesses[tests : second.first_access]
            self._test(condition)
        conditions = [held] if held is not None else []
        if ends:
            conditions.append(once)
        machine.found_loops[number] = Loop(counter, (*conditions, *second.stops), around, entered)
        machine.loops.pop()
        del machine.guards[guards:]
        machine.dead = False
        finals, machine.env = machine.env, before
        originals = {name: before[name] for name in changed}
        if is_touching:
            self._test(condition)
        self._forget(changed)
        trips = None
        if held is not None and condition is not None and not self._changes(condition):
            is_plain = not (first.is_broken or second.is_broken or second.stops or ends)
            trips = trip_count(terms, held, counter) if is_plain else None
        tested = self._changes(condition) if condition is not None else frozenset[int]()
        for name in changed:
            if trips is not None:
                before[name] = after_loop(self.terms, starts[name], counter, trips)
            elif name not in tested:
                ends_with = (finals.get(name), *(env.get(name) for env in second.breaks))
                before[name] = after_any(self.terms, originals[name], starts[name], ends_with)
        if any(n.kind is NodeKind.RETURN for n in body.walk()):
            machine.doubt()

    def _test(self, condition: SyntaxNode | None) -> None:
        """Note what a loop's condition touches: before the first iteration, and after each one."""
        machine = self.machine
        if condition is not None and not machine.dead:
            env, guards = machine.copied(machine.env), len(machine.guards)
            self.expressions.value(condition)
            machine.env = env
            del machine.guards[guards:]

    def _uses_arrays(self, body: SyntaxNode, env: dict[int, Value]) -> bool:
        """Whether items of private arrays that are followed may be another's in each iteration."""
        if not any(has_items(value) for value in env.values()):
            return False
        return any(
            node.kind is NodeKind.ARRAY_SUBSCRIPT
            and node.type.form in (Form.INTEGER, Form.POINTER)
            and node.type.space not in NOT_PRIVATE
            for node in body.walk()
        ) or self._changes_through_pointers(body)

    def _unrolled(
        self, condition: SyntaxNode | None, increment: SyntaxNode | None, body: SyntaxNode, most: int
    ) -> bool:
        """Run a loop of at most so many iterations one by one; False when it has more, or nobody knows."""
        if condition is None or has_any(body, WAYS_OUT):
            return False
        machine, terms = self.machine, self.terms
        accesses, unknown = len(machine.accesses), len(machine.unknown)
        for _ in range(most + 1):
            known = terms.value(self.expressions.condition(condition))
            if known is None:
                break
            if not known:
                return True
            self._unrolled_iterations += 1
            if self._unrolled_iterations > _MAX_UNROLLED_IN_ALL:
                break
            self._once(None, increment, body)
        del machine.accesses[accesses:], machine.unknown[unknown:]
        return False

    def _once(
        self, condition: SyntaxNode | None, increment: SyntaxNode | None, body: SyntaxNode
    ) -> tuple[Body, int | None]:
        """One iteration, and the term of its condition."""
        machine = self.machine
        base = len(machine.guards)
        term: int | None = None
        if condition is not None:
            term = self.expressions.condition(condition)
            machine.assume(term)
        frame = Body(len(machine.guards), len(machine.accesses))
        machine.bodies.append(frame)
        self.run(body)
        machine.bodies.pop()
        if frame.continues:
            ahead = frame.continues
            if machine.dead:
                machine.env = ahead[-1][1]
                ahead = ahead[:-1]
            for held, env in reversed(ahead):
                machine.env = machine.merge(held, env, machine.env)
            machine.dead = False
            del machine.guards[frame.first_guard :]
            machine.guards += frame.stops
        if increment is not None and not machine.dead:
            self.expressions.value(increment)
        del machine.guards[base:]
        return frame, term

    def _forget(self, names: frozenset[int]) -> None:
        env = self.machine.env
        for name in names & env.keys():
            env[name] = forgotten(self.terms, env[name])

    def _changes(self, node: SyntaxNode) -> frozenset[int]:
        """Variables that a statement may assign."""
        found, is_through = self._assigned.by(node)
        return found | self.machine.exposed if is_through else found

    def _changes_through_pointers(self, node: SyntaxNode) -> bool:
        """Whether a statement may assign what private pointers point to."""
        return self._assigned.by(node)[1]

    # -- switch ----------------------------------------------------------------------------------

    def _switch(self, node: SyntaxNode) -> None:
        """A chain of branches, unless a ``break`` stands inside a statement."""
        value = self.expressions.value(node.children[0])
        body = node.children[-1]
        if body.kind is not NodeKind.COMPOUND:
            raise GaveUp("has a switch that the analysis can't read", node.begin)
        sections = self._sections(body)
        conditions = [self._chosen(value, labels) for labels, _ in sections]
        if any(leaves(s) for _, statements in sections for s in statements) or None in conditions:
            self._uncertain(node, [statements for _, statements in sections])
            return
        branches: list[tuple[int, list[SyntaxNode]]] = []
        otherwise: list[SyntaxNode] = []
        for (labels, statements), condition in zip(sections, conditions, strict=True):
            assert condition is not None
            if None in labels:
                otherwise = statements
                # Labels beside ``default`` choose what no other label chooses.
                continue
            branches.append((condition, statements))
        if branches:
            self._follow(Chain(branches, otherwise))
        else:
            self._follow(otherwise)

    def _chosen(self, value: Value, labels: list[SyntaxNode | None]) -> int | None:
        """Whether a switch jumps to one of some labels; None when that is not known."""
        if not isinstance(value, int):
            value = self.terms.unknown(I64)
        found: list[int] = []
        for label in labels:
            if label is not None:
                chosen = self.expressions.value(label)
                if not isinstance(chosen, int):
                    return None
                found.append(self.terms.equal(value, self.terms.convert(chosen, self.terms.type(value))))
        return self.terms.join(found, TermOp.ANY)

    def _uncertain(self, node: SyntaxNode, sections: list[list[SyntaxNode]]) -> None:
        """Each label begins a path of its own that may or may not be taken."""
        machine = self.machine
        changed = self._changes(node)
        base = len(machine.guards)
        before = machine.env
        may_leave = any(n.kind in (NodeKind.RETURN, NodeKind.CONTINUE) for n in node.walk())
        for statements in sections:
            machine.env = machine.copied(before)
            self._forget(changed)
            machine.doubt()
            frame = Body(len(machine.guards), len(machine.accesses), is_switch=True)
            machine.bodies.append(frame)
            for statement in statements:
                self.run(statement)
            machine.bodies.pop()
            machine.dead = False
            del machine.guards[base:]
        machine.env = before
        self._forget(changed)
        if may_leave:
            machine.doubt()

    def _sections(self, body: SyntaxNode) -> list[tuple[list[SyntaxNode | None], list[SyntaxNode]]]:
        """(labels, None for ``default``; what runs from there to the first ``break``)."""
        statements: list[SyntaxNode] = []
        places: dict[int, list[SyntaxNode | None]] = {}
        for child in body.children:
            while child.kind in (NodeKind.CASE, NodeKind.DEFAULT):
                label = child.children[0] if child.kind is NodeKind.CASE else None
                places.setdefault(len(statements), []).append(label)
                if len(child.children) != (2 if child.kind is NodeKind.CASE else 1):
                    raise GaveUp("has a range of cases", child.begin)
                child = child.children[-1]
            statements.append(child)
        if any(has_label(s) for s in statements):
            raise GaveUp("has a label inside a statement of a switch", body.begin)
        found: list[tuple[list[SyntaxNode | None], list[SyntaxNode]]] = []
        for at, labels in places.items():
            run: list[SyntaxNode] = []
            for statement in statements[at:]:
                if statement.kind is NodeKind.BREAK:
                    break
                run.append(statement)
            found.append((labels, run))
        return found
