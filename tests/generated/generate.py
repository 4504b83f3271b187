"""Generates programs whose data are determined, and what each of their reads has to find.

Conflicting commands are ordered by an in-order queue or a wait list, and what is mapped is left alone: then
the order of enqueueing is one that the specification allows, and numpy arrays changed in that order have the
bytes of all others.  What is mapped is a memory object, so of a mapped sub-buffer the whole buffer is
left alone too, but other sub-buffers are not (OpenCL 3.0, section 5.4.3).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from sdi.commands import Rectangle
from tests.generated.kernels import BINS, KINDS, LOCAL, Array

QUEUES = 2
SIZES = (256, 4096, 10_000, 20_480, 32_768, 49_152, 81_920, 163_840)
_ALIGNMENT = 128
_BUFFERS = 4


@dataclass(frozen=True, slots=True)
class Create:
    """A buffer; ``data``: its bytes from the start."""

    buffer: int
    nbytes: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Release:
    """The application wants a buffer no more."""

    buffer: int


@dataclass(frozen=True, slots=True)
class Read:
    """``expected``: the rectangle's bytes, row after row."""

    buffer: int
    rectangle: Rectangle
    expected: bytes


@dataclass(frozen=True, slots=True)
class Write:
    """``data``: the rectangle's bytes, row after row."""

    buffer: int
    rectangle: Rectangle
    data: bytes


@dataclass(frozen=True, slots=True)
class Copy:
    """Between two places, which do not overlap."""

    source: int
    target: int
    source_rectangle: Rectangle
    target_rectangle: Rectangle


@dataclass(frozen=True, slots=True)
class Fill:
    """``pattern`` over and over."""

    buffer: int
    rectangle: Rectangle
    pattern: bytes


@dataclass(frozen=True, slots=True)
class Map:
    """``flags``: as clEnqueueMapBuffer has them."""

    buffer: int
    rectangle: Rectangle
    flags: int


@dataclass(frozen=True, slots=True)
class Unmap:
    """The end of such a mapping."""

    buffer: int
    rectangle: Rectangle
    wrote: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """``buffers``: the arguments' roots, where they begin there, and their bytes; then ``k`` and ``n``."""

    kernel: str
    buffers: tuple[tuple[int, int, int], ...]
    k: int
    n: int
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Marker:
    """``barrier``: what is enqueued later waits for it."""

    barrier: bool


Work = Read | Write | Copy | Fill | Map | Unmap | Launch | Marker


@dataclass(frozen=True, slots=True)
class Enqueue:
    """``work`` on one of the queues, behind the events ``waits``; ``event`` is its own."""

    event: int
    queue: int
    waits: tuple[int, ...]
    work: Work


@dataclass(frozen=True, slots=True)
class Wait:
    """Until a command is complete."""

    event: int


@dataclass(frozen=True, slots=True)
class Touch:
    """Look at mapped bytes, and change them.  ``event``: of the map command, which is waited for."""

    event: int
    buffer: int
    offset: int
    expected: bytes | None
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Gate:
    """A user event."""

    event: int


@dataclass(frozen=True, slots=True)
class Open:
    """Completes a user event."""

    event: int


Step = Create | Release | Enqueue | Wait | Touch | Gate | Open


@dataclass(frozen=True, slots=True)
class Program:
    """``in_order``: by queue."""

    seed: int
    in_order: tuple[bool, ...]
    steps: tuple[Step, ...]


@dataclass(slots=True, eq=False)
class _Buffer:
    id: int
    bytes: Array
    accesses: list[tuple[int, int, _Use]]  # queue, event


@dataclass(frozen=True, slots=True)
class _Use:
    """Bytes that a command uses, through the memory object that has those from ``low`` to ``high``."""

    buffer: _Buffer
    start: int
    stop: int
    writes: bool
    low: int
    high: int

    def meets(self, other: _Use) -> bool:
        """Whether both use some byte, and one of them writes."""
        return (
            self.buffer is other.buffer
            and self.start < other.stop
            and other.start < self.stop
            and (self.writes or other.writes)
        )

    def shares(self, other: _Use) -> bool:
        """Whether their memory objects overlap, and one of them writes."""
        return (
            self.buffer is other.buffer
            and self.low < other.high
            and other.low < self.high
            and (self.writes or other.writes)
        )


@dataclass(frozen=True, slots=True)
class _Mapping:
    event: int
    use: _Use
    flags: int


def generate(seed: int, num_commands: int = 24, more: bool = False) -> Program:
    """The program ``seed``.

    ``more``: one of those in which kernels are launched over and over, rectangles have slices, copies go from
    rows to those between them, and no byte is undefined.
    """
    return _Generator(seed, more).run(num_commands)


class _Generator:
    def __init__(self, seed: int, more: bool) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.more = more
        self.launched: list[tuple[Launch, list[_Use]]] = []
        self.in_order = (True, self.random.random() < 0.5)
        self.steps: list[Step] = []
        self.buffers: list[_Buffer] = []
        self.mappings: list[_Mapping] = []
        self.gates: list[int] = []
        self.last = 0
        self.number = 0

    def run(self, num_commands: int) -> Program:
        for _ in range(_BUFFERS):
            self.create()
        makers = {
            self.launch: 12, self.read: 3, self.write: 3, self.copy: 3, self.fill: 2, self.map: 2,
            self.unmap: 3, self.replace: 1, self.gate: 1, self.marker: 1, self.wait: 1,
        }  # fmt: skip
        if self.more:
            makers |= {self.again: 12, self.copy_between: 2}
        for maker in self.random.choices(list(makers), list(makers.values()), k=num_commands):
            maker()
        while self.mappings:
            self.unmap()
        for buffer in self.buffers:
            self.read_all(buffer)
        self.open_gates()
        return Program(self.seed, self.in_order, tuple(self.steps))

    # -- what orders commands --------------------------------------------------------------------------

    def enqueue(self, work: Work, uses: list[_Use]) -> int:
        """Enqueue on one of the queues, behind whatever uses the same bytes in another way."""
        queue = self.random.randrange(QUEUES)
        waits: list[int] = []
        for use in uses:
            for other_queue, other_event, other in use.buffer.accesses:
                if use.meets(other) and not (other_queue == queue and self.in_order[queue]):
                    waits.append(other_event)
        if self.gates and self.random.random() < 0.3:
            waits.append(self.random.choice(self.gates))
        if self.last and self.random.random() < 0.1:
            waits.append(self.random.randint(1, self.last))
        event = self.last = self.last + 1
        self.steps.append(Enqueue(event, queue, tuple(dict.fromkeys(waits)), work))
        for use in uses:
            if use.writes:  # who comes later waits for this one, and so for what it waits for
                kept = [a for a in use.buffer.accesses if a[2].start < use.start or use.stop < a[2].stop]
                use.buffer.accesses = kept
            use.buffer.accesses.append((queue, event, use))
        return event

    def is_free(self, uses: list[_Use]) -> bool:
        """Whether no mapping forbids these uses."""
        return not any(use.shares(mapping.use) for use in uses for mapping in self.mappings)

    def open_gates(self) -> None:
        self.steps += [Open(event) for event in self.gates]
        self.gates.clear()

    def gate(self) -> None:
        self.last += 1
        self.gates.append(self.last)
        self.steps.append(Gate(self.last))

    def wait(self) -> None:
        if self.last:
            self.open_gates()
            self.steps.append(Wait(self.random.randint(1, self.last)))

    def marker(self) -> None:
        self.enqueue(Marker(self.random.random() < 0.5), [])

    # -- places ----------------------------------------------------------------------------------------

    def part(self, nbytes: int, unit: int = 1) -> tuple[int, int]:
        """Where a random part of so many bytes begins, and its size: multiples of ``unit``."""
        units = nbytes // unit
        size = units if self.random.random() < 0.3 else self.random.randint(1, units)
        return self.random.randint(0, units - size) * unit, size * unit

    def rectangle(self, nbytes: int, unit: int = 1) -> Rectangle:
        """A part of so many bytes: one run, or several rows."""
        if self.more and self.random.random() < 0.5:
            return self.boxes(unit, nbytes)[0]
        offset, size = self.part(nbytes, unit)
        if size < 64 * unit or self.random.random() < 0.6:
            return Rectangle(offset, (size, 1, 1), 0, 0)
        pitch = self.random.randint(1, size // unit // 4) * unit
        row = self.random.randint(1, pitch // unit) * unit
        return Rectangle(offset, (row, min(size // pitch, 40), 1), pitch, 0)

    def boxes(self, unit: int, *sizes: int) -> list[Rectangle]:
        """One region in each of so many bytes: narrow or wide, of few rows or many, multiples of ``unit``."""
        row = unit * self.random.choice((1, 1, 2, 3, 4, 40))
        rows, slices = self.random.choice(((1, 1), (5, 1), (70, 1), (200, 1), (9, 9), (1, 30), (3, 40)))
        found = []
        for nbytes in sizes:
            pitch = row + unit * self.random.choice((0, 0, 1, 3, 20))
            far = pitch * (rows + self.random.choice((0, 0, 1)))
            span = (slices - 1) * far + (rows - 1) * pitch + row
            if span > nbytes:
                return self.boxes(unit, *sizes)
            offset = self.random.choice((0, self.random.randrange(0, nbytes - span + 1, unit)))
            found.append(Rectangle(offset, (row, rows, slices), pitch, far))
        return found

    def use(self, buffer: _Buffer, rectangle: Rectangle, writes: bool) -> _Use:
        """Of the bytes of a rectangle, through the buffer or a sub-buffer that ends with them."""
        over = rectangle.bounds
        if self.random.random() < 0.5:
            return _Use(buffer, over.start, over.stop, writes, 0, buffer.bytes.size)
        return _Use(buffer, over.start, over.stop, writes, over.start // _ALIGNMENT * _ALIGNMENT, over.stop)

    def create(self) -> None:
        nbytes = self.random.choice(SIZES)
        self.number += 1
        data = np.random.default_rng(self.seed * 100 + self.number).integers(0, 256, nbytes, np.uint8)
        buffer = _Buffer(self.number, data, [])
        self.buffers.append(buffer)
        if self.random.random() < 0.5 or self.more:
            self.steps.append(Create(buffer.id, nbytes, data.tobytes()))
            return
        self.steps.append(Create(buffer.id, nbytes, None))
        whole, use = Rectangle(0, (nbytes, 1, 1), 0, 0), _Use(buffer, 0, nbytes, True, 0, nbytes)
        if self.random.random() < 0.5:
            self.enqueue(Write(buffer.id, whole, data.tobytes()), [use])
        else:
            data[:] = 7
            self.enqueue(Fill(buffer.id, whole, b"\7"), [use])

    def replace(self) -> None:
        """Release a buffer right after something was enqueued on it, and make another."""
        buffer = self.random.choice(self.buffers)
        if not any(mapping.use.buffer is buffer for mapping in self.mappings):
            self.buffers.remove(buffer)
            self.steps.append(Release(buffer.id))
            self.create()

    # -- commands --------------------------------------------------------------------------------------

    def read(self) -> None:
        buffer = self.random.choice(self.buffers)
        self.read_part(buffer, self.rectangle(buffer.bytes.size))

    def read_all(self, buffer: _Buffer) -> None:
        self.read_part(buffer, Rectangle(0, (buffer.bytes.size, 1, 1), 0, 0))

    def read_part(self, buffer: _Buffer, rectangle: Rectangle) -> None:
        uses = [self.use(buffer, rectangle, False)]
        if self.is_free(uses):
            self.enqueue(Read(buffer.id, rectangle, rows_of(buffer.bytes, rectangle).tobytes()), uses)

    def write(self) -> None:
        buffer = self.random.choice(self.buffers)
        rectangle = self.rectangle(buffer.bytes.size)
        uses = [self.use(buffer, rectangle, True)]
        if self.is_free(uses):
            data = self.random.randbytes(rectangle.nbytes)
            rows = rows_of(buffer.bytes, rectangle)
            rows[:] = np.frombuffer(data, np.uint8).reshape(rows.shape)
            self.enqueue(Write(buffer.id, rectangle, data), uses)

    def fill(self) -> None:
        buffer = self.random.choice(self.buffers)
        unit = self.random.choice((1, 2, 4, 16))
        rectangle = self.rectangle(buffer.bytes.size, unit)
        uses = [self.use(buffer, rectangle, True)]
        if self.is_free(uses):
            pattern = self.random.randbytes(unit)
            rows = rows_of(buffer.bytes, rectangle)
            rows[:] = np.frombuffer(pattern * (rectangle.region[0] // unit), np.uint8)
            self.enqueue(Fill(buffer.id, rectangle, pattern), uses)

    def copy(self) -> None:
        source, target = self.random.choice(self.buffers), self.random.choice(self.buffers)
        if self.more:
            from_, to = self.boxes(1, source.bytes.size, target.bytes.size)
        else:
            from_ = self.rectangle(source.bytes.size)
            row, rows, _ = from_.region
            if row * rows > target.bytes.size:
                return
            pitch = self.random.randint(row, target.bytes.size // rows)
            slack = target.bytes.size - pitch * (rows - 1) - row
            to = Rectangle(self.random.randint(0, slack), from_.region, pitch, 0)
        uses = [self.use(source, from_, False), self.use(target, to, True)]
        if overlap(uses) or not self.is_free(uses):
            return
        rows_of(target.bytes, to)[:] = rows_of(source.bytes, from_)
        self.enqueue(Copy(source.id, target.id, from_, to), uses)

    def copy_between(self) -> None:
        """Rows of a buffer to what lies between them, as two sub-buffers may have it."""
        buffer = self.random.choice(self.buffers)
        row, rows, slices = self.boxes(1, buffer.bytes.size)[0].region
        pitch = 2 * row + self.random.choice((0, 5))
        span = pitch * rows * slices
        if span > buffer.bytes.size:
            return
        offset = self.random.randrange(buffer.bytes.size - span + 1)
        ends = [Rectangle(offset + at, (row, rows, slices), pitch, pitch * rows) for at in (0, row)]
        from_, to = self.random.sample(ends, 2)
        uses = [self.use(buffer, from_, False), self.use(buffer, to, True)]
        if self.is_free(uses):
            rows_of(buffer.bytes, to)[:] = rows_of(buffer.bytes, from_).copy()
            self.enqueue(Copy(buffer.id, buffer.id, from_, to), uses)

    def map(self) -> None:
        buffer = self.random.choice(self.buffers)
        start, nbytes = self.part(buffer.bytes.size)
        flags = self.random.choice((1, 2, 3, 4))
        rectangle = Rectangle(start, (nbytes, 1, 1), 0, 0)
        use = self.use(buffer, rectangle, flags != 1)
        if self.is_free([use]):
            event = self.enqueue(Map(buffer.id, rectangle, flags), [use])
            self.mappings.append(_Mapping(event, use, flags))

    def unmap(self) -> None:
        if not self.mappings:
            return
        mapping = self.mappings.pop(self.random.randrange(len(self.mappings)))
        use, buffer = mapping.use, mapping.use.buffer
        mapped = buffer.bytes[use.start : use.stop]
        expected = mapped.tobytes() if mapping.flags != 4 else None
        data = self.random.randbytes(mapped.size) if mapping.flags != 1 else None
        self.open_gates()
        self.steps.append(Touch(mapping.event, buffer.id, use.start, expected, data))
        if data is not None:
            mapped[:] = np.frombuffer(data, np.uint8)
        rectangle = Rectangle(use.start, (mapped.size, 1, 1), 0, 0)
        self.enqueue(Unmap(buffer.id, rectangle, data is not None), [use])

    def launch(self) -> None:
        name = self.random.choice(list(KINDS))
        kind = KINDS[name]
        roots = [self.random.choice(self.buffers) for _ in kind.elements]
        starts: list[int] = []
        rooms: list[int] = []
        for root, element in zip(roots, kind.elements, strict=True):
            whole = self.random.random() < 0.5
            start = 0 if whole else self.random.randrange(0, root.bytes.size, _ALIGNMENT)
            room = root.bytes.size - start
            if element == 0 and room < 4 * BINS:
                return
            starts.append(start)
            rooms.append(room // element if element else 1 << 30)
        n = min(rooms)
        if self.random.random() < 0.5:
            n = self.random.randint(1, n)
        k = self.random.choice((1, 2, 5, -3, 16, 300))
        if kind.rows:
            k = self.random.choice((8, 24, 64))
            n -= n % k
            if n < 4 * k:
                return
        if name == "scatter" and n % 31 == 0:  # no permutation
            n -= 1
        if n < 1:
            return
        uses = []
        for root, start, element, writes in zip(roots, starts, kind.elements, kind.writes, strict=True):
            stop = start + (n * element or 4 * BINS)
            high = stop if self.random.random() < 0.5 else root.bytes.size
            uses.append(_Use(root, start, stop, writes, start, high))
        if overlap(uses) or not self.is_free(uses):
            return
        shape = kind.shape(n, k)
        local = (8, 2) if len(shape) == 2 else (LOCAL,)
        items = tuple(-(-size // own) * own for size, own in zip(shape, local, strict=True))
        if len(shape) == 2 and items != shape:
            local, items = (8, 1), shape
        given = None if name != "swap_in_group" and self.random.random() < 0.2 else local
        buffers = tuple((use.buffer.id, use.low, use.high - use.low) for use in uses)
        self.launched.append((Launch(name, buffers, k, n, items, given), uses))
        self.again(1)

    def again(self, times: int = 4) -> None:
        """The last launch, or the last two in turn."""
        chosen = self.launched[-1:] if times == 1 or self.random.random() < 0.5 else self.launched[-2:]
        if any(use.buffer not in self.buffers for _, uses in chosen for use in uses):
            return
        for work, uses in chosen * (times // max(len(chosen), 1)):
            if self.is_free(uses):
                views = [use.buffer.bytes[use.start : use.stop] for use in uses]
                KINDS[work.kernel].model(views, work.k, work.n)
                self.enqueue(work, uses)


def overlap(uses: list[_Use]) -> bool:
    """Whether some use writes what another one uses."""
    return any(one.shares(other) for number, one in enumerate(uses) for other in uses[:number])


def rows_of(data: Array, rectangle: Rectangle) -> Array:
    """The rectangle's bytes in ``data``: a view of shape (slices, rows, bytes per row)."""
    row, rows, slices = rectangle.region
    pitch = rectangle.row_pitch or row
    strides = (rectangle.slice_pitch or pitch * rows, pitch, 1)
    return np.lib.stride_tricks.as_strided(data[rectangle.offset :], (slices, rows, row), strides)
