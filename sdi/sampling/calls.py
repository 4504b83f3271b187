"""Built-in functions of OpenCL C in a symbolic run: their values and the memory they touch.

Source: OpenCL C 3.0 specification, section 6.15.
"""

from __future__ import annotations

import re

from sdi.clc.atomics import update_of
from sdi.clc.frontend.builtins import FENCES, GROUP_BARRIERS, Action, action_of
from sdi.clc.frontend.syntax import Form, Space, SyntaxNode, Type
from sdi.sampling.machine import GaveUp, Mode
from sdi.sampling.operators import Evaluator
from sdi.sampling.ops import OPERATIONS, operate
from sdi.sampling.terms import I64, U32, U64, TermOp
from sdi.sampling.values import PointerValue, Value, fresh, int_type, joined

_IDS = {
    "get_global_id": (TermOp.GLOBAL_ID, 0),
    "get_group_id": (TermOp.GROUP_ID, 0),
    "get_local_id": (TermOp.LOCAL_ID, 0),
    "get_global_size": (TermOp.GLOBAL_SIZE, 1),
    "get_local_size": (TermOp.LOCAL_SIZE, 1),
    "get_enqueued_local_size": (TermOp.LOCAL_SIZE, 1),
    "get_num_groups": (TermOp.NUM_GROUPS, 1),
    "get_global_offset": (TermOp.GLOBAL_OFFSET, 0),
}
_VECTOR_ACCESS = re.compile(r"(vload|vstore)(a)?(_half)?(2|3|4|8|16)?(?:_r(?:te|tz|tp|tn))?\Z")
_CONVERT = re.compile(r"convert_[a-z]+(2|3|4|8|16)?(_sat)?(_r(te|tz|tp|tn))?\Z")
_OUTERMOST = (("image1d_array", 1), ("image1d", 0), ("image2d_array", 2), ("image2d", 1), ("image3d", 2))
"""Which coordinate counts an image's slabs, by its type; the first that fits."""
_MADE_OF_OTHERS = frozenset({"clamp", "abs", "mad24", "mad_hi", "select"})


class Builtins:
    """The functions.  Owned by: the thread of the build."""

    def __init__(self, expressions: Evaluator) -> None:
        self.run = expressions
        self.terms = expressions.terms
        self.machine = expressions.machine

    def call(self, node: SyntaxNode, name: str, arguments: tuple[SyntaxNode, ...]) -> Value:
        """Run a call; answer its value."""
        if name in _IDS and len(arguments) == 1:
            return self._id(name, arguments[0], node.type)
        if name in ("get_global_linear_id", "get_local_linear_id"):
            return self._linear_id(name)
        if name == "get_work_dim":
            return self.terms.make(TermOp.WORK_DIM, (), U32)
        if name in FENCES | GROUP_BARRIERS or name in ("barrier", "wait_group_events", "prefetch"):
            for argument in arguments:
                self.run.value(argument)
            return None
        match = _VECTOR_ACCESS.match(name)
        if match is not None:
            return self._vector_access(match, node, arguments)
        action = action_of(name)
        if action is Action.COPY:
            return self._copy(name, node, arguments)
        if action is Action.ATOMIC:
            return self._atomic(node, name, arguments)
        if action is Action.ENQUEUE:
            raise GaveUp(f"calls '{name}'", node.begin)
        values = [self.run.value(argument) for argument in arguments]
        if action is Action.WRITE_IMAGE:
            self._write_pixel(node, arguments[0].type, values)
            return None
        for argument, value in zip(arguments, values, strict=True):
            pointee = argument.type.element
            if argument.type.form is not Form.POINTER or pointee is None:
                continue
            if action is Action.WRITE and pointee.nbytes:
                self.machine.touch(value, pointee.space, Mode.WRITE, pointee.nbytes, node.begin, False)
            elif name != "printf" or not isinstance(value, PointerValue) or value.choices:
                self.run.expose(value, argument)
        if node.type.form is Form.FLOATING:
            return self.machine.floats.called(name, values, node.type)
        if name in OPERATIONS or name in _MADE_OF_OTHERS:
            return self._pure(name, values, arguments, node.type)
        if _CONVERT.match(name) and len(values) == 1:
            of = arguments[0].type
            if "_rt" in name and (of.element or of).form is Form.FLOATING:
                return fresh(self.terms, node.type)
            value = self._saturated(values[0], node.type) if "_sat" in name else values[0]
            return self.run.operators.converted(value, of, node.type)
        if name == "__builtin_expect":
            return values[0]
        if name in ("any", "all") and len(values) == 1:
            return self._signs(name, values[0], node.type)
        return fresh(self.terms, node.type)

    # -- geometry --------------------------------------------------------------------------------

    def _id(self, name: str, argument: SyntaxNode, result: Type) -> Value:
        value = self.run.value(argument)
        dim = self.terms.value(value) if isinstance(value, int) else None
        op, beyond = _IDS[name]
        if dim is None:
            return self._chosen_dim(op, beyond, value)
        if not 0 <= dim < 3:
            return self.terms.const(beyond, U64)
        return self.terms.make(op, (), U64, dim)

    def _chosen_dim(self, op: TermOp, beyond: int, dim: Value) -> Value:
        """An id whose dimension is computed."""
        if not isinstance(dim, int):
            return self.terms.unknown(U64)
        found = self.terms.const(beyond, U64)
        for number in (2, 1, 0):
            is_it = self.terms.equal(dim, self.terms.const(number, self.terms.type(dim)))
            found = self.terms.select(is_it, self.terms.make(op, (), U64, number), found)
        return found

    def _linear_id(self, name: str) -> Value:
        terms = self.terms
        is_global = name == "get_global_linear_id"
        ids, sizes = (
            (TermOp.GLOBAL_ID, TermOp.GLOBAL_SIZE) if is_global else (TermOp.LOCAL_ID, TermOp.LOCAL_SIZE)
        )
        found = terms.const(0, U64)
        for dim in (2, 1, 0):
            own = terms.make(ids, (), U64, dim)
            if is_global:
                own = terms.sub(own, terms.make(TermOp.GLOBAL_OFFSET, (), U64, dim))
            found = terms.add(terms.mul(found, terms.make(sizes, (), U64, dim)), own)
        return found

    # -- memory ----------------------------------------------------------------------------------

    def _vector_access(
        self, match: re.Match[str], node: SyntaxNode, arguments: tuple[SyntaxNode, ...]
    ) -> Value:
        values = [self.run.value(argument) for argument in arguments]
        is_load, is_aligned, is_half = match[1] == "vload", bool(match[2]), bool(match[3])
        if len(arguments) < 2 or arguments[-1].type.element is None:
            raise GaveUp("calls a built-in in an unknown form", node.begin)
        pointee = arguments[-1].type.element
        width = int(match[4] or 1)
        size = 2 if is_half else pointee.nbytes
        stride = (4 if width == 3 and is_aligned else width) * size
        pointer, index = values[-1], values[-2]
        at = self.machine.indexed(pointer, index, stride) if isinstance(pointer, PointerValue) else None
        if is_load:
            self.machine.touch(at, pointee.space, Mode.READ, stride, node.begin)
            return fresh(self.terms, node.type)
        # What an aligned store of three does to the fourth is not said.
        exact = not (width == 3 and is_aligned)
        self.machine.touch(at, pointee.space, Mode.WRITE, stride, node.begin, exact)
        return None

    def _copy(self, name: str, node: SyntaxNode, arguments: tuple[SyntaxNode, ...]) -> Value:
        """The asynchronous copies: every work-item of a group asks for the same one."""
        values = [self.run.value(argument) for argument in arguments]
        is_strided = "strided" in name
        if len(arguments) != (5 if is_strided else 4) or "2D" in name or "3D" in name:
            for argument, value in zip(arguments, values, strict=True):
                self.run.expose(value, argument)
            return None
        count = values[2] if isinstance(values[2], int) else self.terms.unknown(U64)
        machine, terms = self.machine, self.terms
        number, counter = machine.counter()
        is_within = terms.less(terms.convert(counter, U64), terms.convert(count, U64))
        guards, around, entered = len(machine.guards), tuple(machine.loops), tuple(machine.guards)
        machine.assume(is_within)
        machine.loops.append(number)
        from sdi.sampling.machine import Loop

        machine.found_loops[number] = Loop(counter, (is_within,), around, entered)
        for at, mode in ((0, Mode.WRITE), (1, Mode.READ)):
            pointee = arguments[at].type.element
            if pointee is None:
                continue
            step: Value = terms.const(1, I64)
            is_global_side = pointee.space.name != "LOCAL"
            if is_strided and is_global_side:
                step = values[3] if isinstance(values[3], int) else terms.unknown(U64)
            assert isinstance(step, int)
            place: Value = values[at]
            if isinstance(place, PointerValue):
                index = terms.mul(terms.convert(step, I64), counter)
                place = machine.indexed(place, index, pointee.nbytes)
            dense = self.run.layouts.is_dense(pointee)
            machine.touch(place, pointee.space, mode, pointee.nbytes, node.begin, dense)
        machine.loops.pop()
        del machine.guards[guards:]
        machine.dead = False
        return None

    def _write_pixel(self, node: SyntaxNode, image: Type, values: list[Value]) -> None:
        """A write to a slab of an image: an access of one byte at the slab's number."""
        place, at = values[0], values[1]
        if not isinstance(place, PointerValue):
            raise GaveUp("writes an image that is not followed", node.begin)
        dim = next((d for words, d in _OUTERMOST if words in image.canonical), None)
        number: Value = None
        if dim == 0 and isinstance(at, int):
            number = at
        elif dim is not None and isinstance(at, tuple) and dim < len(at):
            number = at[dim]
        pixel = self.machine.indexed(place, number, 1)
        self.machine.touch(pixel, Space.GLOBAL, Mode.WRITE, 1, node.begin, is_definite=False)

    def _atomic(self, node: SyntaxNode, name: str, arguments: tuple[SyntaxNode, ...]) -> Value:
        """Where a result is used, the front end's model keeps the kernel whole: not looked at here."""
        update = update_of(self.run.tree, name, arguments)
        values = [self.run.value(argument) for argument in arguments]
        for number, (argument, value) in enumerate(zip(arguments, values, strict=True)):
            pointee = argument.type.element
            if argument.type.form is not Form.POINTER or pointee is None:
                continue
            if number == 0 and pointee.nbytes:
                for mode in Mode if update is None else (Mode.WRITE,):
                    nbytes, at = pointee.nbytes, node.begin
                    self.machine.touch(value, pointee.space, mode, nbytes, at, False, update)
            else:
                self.run.expose(value, argument)
        return fresh(self.terms, node.type)

    # -- arithmetic ------------------------------------------------------------------------------

    def _pure(self, name: str, values: list[Value], arguments: tuple[SyntaxNode, ...], result: Type) -> Value:
        if result.form is Form.VECTOR and result.element is not None:
            columns: list[tuple[Value, ...]] = []
            for value in values:
                if isinstance(value, tuple) and len(value) == result.count:
                    columns.append(value)
                elif isinstance(value, int):
                    columns.append((value,) * result.count)
                else:
                    return fresh(self.terms, result)
            element = result.element
            if name == "select":  # of components it is the sign that counts
                columns[2] = tuple(self.run.operators.is_negative(chosen) for chosen in columns[2])
            if name == "abs":
                return fresh(self.terms, result)
            return tuple(self._scalar(name, list(parts), element) for parts in zip(*columns, strict=True))
        return self._scalar(name, values, result)

    def _scalar(self, name: str, values: list[Value], result: Type) -> Value:
        terms, kind = self.terms, int_type(result)
        numbers = [v for v in values if isinstance(v, int)]
        if kind is None or len(numbers) != len(values):
            return fresh(terms, result)
        if name == "select":
            a, b, chosen = numbers
            return joined(terms, terms.truth(chosen), terms.convert(b, kind), terms.convert(a, kind))
        if name == "abs":
            value = numbers[0]
            own = terms.type(value)
            if not own.signed:
                return terms.convert(value, kind)
            is_negative = terms.less(value, terms.const(0, own))
            # abs(INT_MIN) has no int: the unsigned result is congruent to the negated value.
            positive, negated = terms.convert(value, kind), terms.scale(terms.convert(value, kind), -1)
            return terms.select(is_negative, negated, positive)
        numbers = [terms.convert(v, kind) for v in numbers]
        match name:
            case "clamp":
                return operate(terms, "min", operate(terms, "max", *numbers[:2]), numbers[2])
            case "mad24" | "mad_hi":
                product = operate(terms, "mul24" if name == "mad24" else "mul_hi", *numbers[:2])
                return terms.add(product, numbers[2])
            case _:
                return operate(terms, name, *numbers)

    def _saturated(self, value: Value, to: Type) -> Value:
        """The nearest that ``to`` has to integers."""
        if isinstance(value, tuple) and to.element is not None:
            element = to.element
            return tuple(self._saturated(each, element) for each in value)
        kind = int_type(to)
        if kind is None or not isinstance(value, int):
            return None
        own = self.terms.type(value)
        for name, bound in (("max", max(kind.lo, own.lo)), ("min", min(kind.hi, own.hi))):
            value = operate(self.terms, name, value, self.terms.const(bound, own))
        return value

    def _signs(self, name: str, value: Value, result: Type) -> Value:
        """Whether any, or all, of some integers are negative."""
        signs = [
            self.run.operators.is_negative(each) for each in (value if isinstance(value, tuple) else (value,))
        ]
        known = [sign for sign in signs if isinstance(sign, int)]
        kind = int_type(result)
        if kind is None or len(known) < len(signs):
            return fresh(self.terms, result)
        return self.terms.convert(self.terms.join(known, TermOp.ANY if name == "any" else TermOp.ALL), kind)
