"""Generates a sequence of API calls whose codes and data the specification determines.

The generator keeps to the rules that make data determined: conflicting commands are ordered by an in-order
queue, a wait list or a ``clFinish``; mapped bytes are left alone; kernels get the buffers their flags allow.
Beside that it does what applications rarely do, and calls with wrong arguments in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.sequences.book import Step, Use
from tests.sequences.kernels import KINDS, OPTIONS, SOURCES
from tests.sequences.model import (
    ALLOC_HOST_PTR,
    COPY_HOST_PTR,
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    MAP_READ,
    MAP_WRITE,
    MAP_WRITE_INVALIDATE,
    READ_ONLY,
    READ_WRITE,
    USE_HOST_PTR,
    WRITE_ONLY,
    Kernel,
    Mapping,
    Memory,
    Program,
    Queue,
    View,
)
from tests.sequences.pictures import Pictures

ALIGNMENT = 128
"""Of sub-buffers: what the devices ask for, in bytes."""
PATTERNS = (1, 2, 4, 8, 16, 32, 64, 128)


def generate(seed: int, num_steps: int = 60) -> list[Step]:
    """The sequence ``seed``: about ``num_steps`` steps after the first ones, which make objects."""
    return _Generator(seed).run(num_steps)


class _Generator(Pictures):
    # -- objects -------------------------------------------------------------------------------------

    def queue(self) -> None:
        queue = Queue(self.name("q"), self.chance(0.6), self.chance(0.5))
        self.queues.append(queue)
        self.emit("create_queue", name=queue.name, properties=(not queue.in_order) + 2 * queue.profiling)

    def buffer(self) -> None:
        pick = self.random.choice
        nbytes = pick((64, 100, 256, 1000, 4096, 4100, 10_000, 16_384))
        access = pick((0, READ_WRITE, READ_WRITE, READ_WRITE, WRITE_ONLY, READ_ONLY))
        pointer = pick((0, 0, USE_HOST_PTR, ALLOC_HOST_PTR, COPY_HOST_PTR, ALLOC_HOST_PTR | COPY_HOST_PTR))
        host = pick((0, 0, 0, 0, 0, HOST_WRITE_ONLY, HOST_READ_ONLY, HOST_NO_ACCESS))
        flags = access | pointer | host
        root = Memory(self.name("b"), nbytes)
        view = View(root.name, root, 0, nbytes, flags, bool(pointer & USE_HOST_PTR))
        self.emit("create_buffer", name=view.name, flags=flags, nbytes=nbytes)
        self.views.append(view)
        if not pointer & (USE_HOST_PTR | COPY_HOST_PTR):
            queue = pick(self.queues)
            ordered = self.order(queue, [(root, 0, nbytes, True)], False)
            unit = pick([p for p in PATTERNS if nbytes % p == 0])
            self.emit("fill", buffer=view.name, pattern=unit, offset=0, nbytes=nbytes, **ordered)

    def part(self) -> None:
        wholes = [v for v in self.views if v.name == v.root.name and v.nbytes > ALIGNMENT]
        if not wholes:
            return
        whole = self.random.choice(wholes)
        origin = self.random.randrange(0, whole.nbytes, ALIGNMENT)
        nbytes = self.random.randint(1, whole.nbytes - origin)
        flags = self.random.choice((0, 0, whole.flags & 7, whole.flags & 0x380))
        kept = whole.flags & ~0x3FF | (flags & 7 or whole.flags & 7) | (flags & 0x380 or whole.flags & 0x380)
        view = View(self.name("b"), whole.root, origin, nbytes, kept, whole.host_ptr)
        self.emit("create_part", name=view.name, whole=whole.name, flags=flags, origin=origin, nbytes=nbytes)
        self.views.append(view)

    def program(self) -> None:
        source = self.random.choice(tuple(SOURCES))
        how = self.random.choices(("build", "binary", "link"), (20, 3, 1))[0]  # pocl links for seconds
        program = Program(self.name("p"), source, from_source=how == "build")
        if how == "link":
            program.source = "linked"
            self.emit("link", name=program.name, options=self.random.choice(OPTIONS[1:4]))
        else:
            self.emit("create_program", name=program.name, source=source, pieces=self.random.randint(1, 3))
            self.emit("build", program=program.name, options=self.random.choice(OPTIONS))
            if how == "binary":
                self.emit("from_binary", program=program.name)
        self.programs.append(program)
        self.kernel(program)

    def rebuild(self) -> None:
        program = self.random.choice(self.programs)
        if program.source == "linked" or not (program.from_source or program.kernels):
            return  # pocl crashes
        if program.is_launched and not program.kernels:
            return  # refused by pocl as long as a launch is not done
        self.emit("build", program=program.name, options=self.random.choice(OPTIONS))
        if not program.kernels:  # else it is refused
            self.kernel(program)

    def kernel(self, program: Program | None = None) -> None:
        program = program or self.random.choice(self.programs)
        names = ("scale",) if program.source == "linked" else SOURCES[program.source][1]
        kernel = Kernel(self.name("k"), self.random.choice(names), program)
        program.kernels += 1
        self.emit("create_kernel", name=kernel.name, program=program.name, kernel=kernel.kind)
        self.kernels.append(kernel)

    def clone(self) -> None:
        source = self.random.choice(self.kernels)
        kernel = Kernel(self.name("k"), source.kind, source.program, dict(source.arguments))
        source.program.kernels += 1
        self.emit("clone_kernel", name=kernel.name, kernel=source.name)
        for index in (
            i for i, value in kernel.arguments.items() if value is None
        ):  # pocl takes an older value
            self.emit("set_buffer", kernel=kernel.name, index=index, buffer="")
        self.kernels.append(kernel)

    def release(self) -> None:
        """Objects may go while commands use them."""
        what = self.random.choice(("view", "view", "kernel", "program", "queue", "event"))
        if what == "view" and len(self.views) > 3:
            view = self.random.choice(self.views)
            if any(m.view is view for m in view.root.maps):
                return
            self.views.remove(view)
            self.emit("release", kind="MemObject", name=view.name)
            for kernel in self.kernels:
                for index in [i for i, value in kernel.arguments.items() if value is view]:
                    del kernel.arguments[index]
        elif what == "kernel" and len(self.kernels) > 1:
            kernel = self.kernels.pop(self.random.randrange(len(self.kernels)))
            kernel.program.kernels -= 1
            self.emit("release", kind="Kernel", name=kernel.name)
        elif what == "program" and len(self.programs) > 1:
            program = self.programs.pop(self.random.randrange(len(self.programs)))
            self.emit("release", kind="Program", name=program.name)
        elif what == "queue" and len(self.queues) > 2:
            queue = self.random.choice(self.queues)
            for memory in self.memories():
                if any(a.queue is queue and not a.event for a in memory.accesses):
                    self.finish(queue)
            self.open_gates()
            self.queues.remove(queue)
            self.emit("release", kind="CommandQueue", name=queue.name)
        elif what == "event" and self.events:
            event, _ = self.random.choice(self.events)
            if not any(a.event == event for memory in self.memories() for a in memory.accesses):
                self.events = [e for e in self.events if e[0] != event]
                self.emit("release", kind="Event", name=event)

    # -- commands ------------------------------------------------------------------------------------

    def pick_use(self, writes: bool, unit: int = 1) -> tuple[View, int, int] | None:
        """A view and a range of it that may be used now."""
        view = self.random.choice(self.views)
        if view.nbytes < unit:
            return None
        offset, nbytes = self.span(view.nbytes, unit)
        at = view.origin + offset
        return (view, offset, nbytes) if self.free([(view.root, at, at + nbytes, writes)]) else None

    def transfer(self) -> None:
        to_device = self.chance(0.5)
        found = self.pick_use(to_device)
        if found is None:
            return
        view, offset, nbytes = found
        host = self.random.choice(self.host)
        at = self.random.randint(0, host.nbytes - nbytes)
        queue, begin = self.random.choice(self.queues), view.origin + offset
        if not view.host_may(to_device):
            self.emit(
                "transfer", to_device=to_device, buffer=view.name, offset=offset, nbytes=nbytes,
                host=host.name, at=at, blocking=True, queue=queue.name, waits=[], event="",
            )  # fmt: skip
            return
        uses = [(view.root, begin, begin + nbytes, to_device), (host, at, at + nbytes, not to_device)]
        ordered, blocking = self.order_blocking(queue, uses)
        self.emit(
            "transfer", to_device=to_device, buffer=view.name, offset=offset, nbytes=nbytes, host=host.name,
            at=at, blocking=blocking, **ordered,
        )  # fmt: skip

    def box(self, nbytes: int, slack: int = 3) -> dict[str, Any] | None:
        """Origin, region and pitches of a random box within so many bytes."""
        region = [self.random.randint(1, 24), self.random.randint(1, 6), self.random.randint(1, 4)]
        row = region[0] + self.random.randint(0, slack)
        slice_ = row * (region[1] + self.random.randint(0, 2))
        origin = [
            self.random.randint(0, row - region[0]),
            self.random.randint(0, 2),
            self.random.randint(0, 1),
        ]
        start = origin[0] + origin[1] * row + origin[2] * slice_
        stop = start + region[0] + (region[1] - 1) * row + (region[2] - 1) * slice_
        if stop > nbytes:
            return None
        return {"origin": origin, "region": region, "row": row, "slice": slice_, "start": start, "stop": stop}

    def same_region(self, box: dict[str, Any], nbytes: int) -> dict[str, Any] | None:
        """Another box with the region of ``box``."""
        region = box["region"]
        row = region[0] + self.random.randint(0, 2)
        slice_ = row * (region[1] + self.random.randint(0, 2))
        origin = [self.random.randint(0, 9), self.random.randint(0, 2), 0]
        start = origin[0] + origin[1] * row
        stop = start + region[0] + (region[1] - 1) * row + (region[2] - 1) * slice_
        return (
            None
            if stop > nbytes
            else {
                "origin": origin,
                "region": region,
                "row": row,
                "slice": slice_,
                "start": start,
                "stop": stop,
            }
        )

    def transfer_box(self) -> None:
        view, host = self.random.choice(self.views), self.random.choice(self.host)
        inside = self.box(view.nbytes)
        outside = self.same_region(inside, host.nbytes) if inside else None
        if inside is None or outside is None:
            return
        to_device = self.chance(0.5)
        uses = [
            (view.root, view.origin + inside["start"], view.origin + inside["stop"], to_device),
            (host, outside["start"], outside["stop"], not to_device),
        ]
        if not self.free(uses) or not view.host_may(to_device):
            return
        ordered, blocking = self.order_blocking(self.random.choice(self.queues), uses)
        self.emit(
            "transfer_box", to_device=to_device, buffer=view.name, inside=inside, outside=outside,
            host=host.name, blocking=blocking, **ordered,
        )  # fmt: skip

    def copy(self) -> None:
        source = self.pick_use(False)
        target = self.random.choice(self.views)
        if source is None:
            return
        view, offset, nbytes = source
        nbytes = min(nbytes, target.nbytes)
        to = self.random.randint(0, target.nbytes - nbytes)
        begin, end = view.origin + offset, target.origin + to
        uses = [(view.root, begin, begin + nbytes, False), (target.root, end, end + nbytes, True)]
        overlap = view.root is target.root and begin < end + nbytes and end < begin + nbytes
        if overlap and view is not target:
            return  # parts that overlap: see CHOICES
        if not self.free(uses):
            return
        queue = self.random.choice(self.queues)
        ordered = self.order(queue, [] if overlap else uses, False)
        if overlap:
            ordered["event"] = ""
        self.emit(
            "copy", source=view.name, target=target.name, offset=offset, to=to, nbytes=nbytes, **ordered
        )

    def copy_box(self) -> None:
        roots = [v for v in self.views if v.name == v.root.name]  # pocl crashes with parts
        source, target = self.random.choice(roots), self.random.choice(roots)
        here = self.box(source.nbytes)
        there = self.same_region(here, target.nbytes) if here else None
        if here is None or there is None:
            return
        uses = [
            (source.root, source.origin + here["start"], source.origin + here["stop"], False),
            (target.root, target.origin + there["start"], target.origin + there["stop"], True),
        ]
        if source is target or not self.free(uses):
            return
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit("copy_box", source=source.name, target=target.name, here=here, there=there, **ordered)

    def fill(self) -> None:
        pattern = self.random.choice(PATTERNS)
        found = self.pick_use(True, pattern)
        if found is None:
            return
        view, offset, nbytes = found
        begin = view.origin + offset
        uses: list[Use] = [(view.root, begin, begin + nbytes, True)]
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit("fill", buffer=view.name, pattern=pattern, offset=offset, nbytes=nbytes, **ordered)

    def map(self) -> None:
        flags = self.random.choice(
            (MAP_READ, MAP_READ, MAP_WRITE, MAP_READ | MAP_WRITE, MAP_WRITE_INVALIDATE)
        )
        writes = bool(flags & (MAP_WRITE | MAP_WRITE_INVALIDATE))
        found = self.pick_use(writes)
        if found is None:
            return
        view, offset, nbytes = found
        begin = view.origin + offset
        if any(m.start == begin for m in view.root.maps):
            return
        queue = self.random.choice(self.queues)
        arguments = {"buffer": view.name, "flags": flags, "offset": offset, "nbytes": nbytes}
        if (flags & MAP_READ and not view.host_may(False)) or (writes and not view.host_may(True)):
            self.emit(
                "map", name="", blocking=True, queue=queue.name, waits=[], event="", write=None, **arguments
            )
            return
        uses: list[Use] = [(view.root, begin, begin + nbytes, writes)]
        ordered, blocking = self.order_blocking(queue, uses)
        mapping = Mapping(self.name("m"), view, begin, begin + nbytes, writes)
        written = None
        if writes:
            written = (0, nbytes) if flags & MAP_WRITE_INVALIDATE else self.span(nbytes)
        if not blocking:
            if not ordered["event"]:
                ordered["event"] = self.name("e")
                self.events.append((ordered["event"], queue))
            self.open_gates()
        self.emit("map", name=mapping.name, blocking=blocking, write=written, **arguments, **ordered)
        view.root.accesses = [a for a in view.root.accesses if not a.conflicts(begin, begin + nbytes, writes)]
        view.root.maps.append(mapping)

    def unmap(self, only: Memory | None = None) -> None:
        maps = [m for memory in ([only] if only else self.memories()) for m in memory.maps]
        if not maps:
            return
        mapping = self.random.choice(maps)
        root = mapping.view.root
        root.maps.remove(mapping)
        uses: list[Use] = [(root, mapping.start, mapping.stop, mapping.writes)]
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit("unmap", buffer=mapping.view.name, mapping=mapping.name, **ordered)

    def set_arguments(self, kernel: Kernel) -> bool:
        """Give the kernel new arguments, some or all; whether it can be launched."""
        kind = KINDS[kernel.kind]
        taken: list[Use] = []
        for index, (what, nbytes) in enumerate(kind.arguments):
            if what in ("in", "out", "inout", "bins", "maybe"):
                reads, writes = what != "out", what in ("out", "inout", "bins")
                current = kernel.arguments.get(index, 0)
                keep = index in kernel.arguments and self.chance(0.5)
                candidates = [current] if keep else self.random.sample(self.views, len(self.views))
                for view in candidates:
                    if view is None:
                        break
                    assert isinstance(view, View)
                    use = (view.root, view.origin, view.origin + view.nbytes, writes)
                    clash = any(
                        u[0] is use[0] and u[1] < use[2] and use[1] < u[2] and (u[3] or writes) for u in taken
                    )
                    if (
                        not clash
                        and view.nbytes >= max(nbytes, 4)
                        and view.kernel_may(reads, writes)
                        and self.free([use])
                    ):
                        taken.append(use)
                        if not keep:
                            kernel.arguments[index] = view
                            self.emit("set_buffer", kernel=kernel.name, index=index, buffer=view.name)
                        break
                else:
                    if what != "maybe":
                        return False
                    kernel.arguments[index] = None
                    self.emit("set_buffer", kernel=kernel.name, index=index, buffer="")
            elif what == "local":
                kernel.arguments[index] = nbytes
                self.emit("set_local", kernel=kernel.name, index=index, nbytes=nbytes)
            elif what == "n":
                limits = [
                    view.nbytes // kind.arguments[i][1]
                    for i, view in kernel.arguments.items()
                    if isinstance(view, View) and kind.arguments[i][0] in ("in", "out", "inout")
                ]
                count = self.random.choice((min(limits), min(limits), self.random.randint(1, min(limits))))
                kernel.arguments[index] = count
                self.emit("set_number", kernel=kernel.name, index=index, value=count)
            elif index not in kernel.arguments or self.chance(0.3):
                kernel.arguments[index] = 1
                if what == "int":
                    self.emit(
                        "set_number", kernel=kernel.name, index=index, value=self.random.randint(-100, 100)
                    )
                else:
                    self.emit("set_value", kernel=kernel.name, index=index, nbytes=nbytes)
        return True

    def launch(self) -> None:
        kernel = self.random.choice(self.kernels)
        kind = KINDS[kernel.kind]
        if not self.set_arguments(kernel):
            return
        local = self.random.choice(kind.local_sizes)
        pick = self.random.choice
        if local is None:
            sizes = [pick((32, 96, 250))] + ([pick((2, 5))] if self.chance(0.3) else [])
        else:
            sizes = [size * pick((1, 2, 3, 5, 8)) for size in local]
        offset = [pick((0, 1, 16)) for _ in sizes] if self.chance(0.4) else None
        uses: list[Use] = []
        for index, (what, _) in enumerate(kind.arguments):
            view = kernel.arguments.get(index)
            if isinstance(view, View):
                writes = what in ("out", "inout", "bins")
                uses.append((view.root, view.origin, view.origin + view.nbytes, writes))
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit("launch", kernel=kernel.name, offset=offset, sizes=sizes, local=local, **ordered)
        kernel.program.is_launched = True

    def migrate(self) -> None:
        view = self.random.choice(self.views)
        if view.root.maps:
            return
        uses: list[Use] = [(view.root, view.origin, view.origin + view.nbytes, True)]
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit("migrate", buffer=view.name, flags=self.random.choice((0, 1)), **ordered)

    def marker(self) -> None:
        queue = self.random.choice(self.queues)
        barrier = self.chance(0.5)
        ordered = self.order(queue, [], False)
        self.emit("marker", barrier=barrier, **ordered)

    def user_event(self) -> None:
        if self.user_events and self.chance(0.5):
            self.open_gates()
            return
        event = self.name("u")
        self.emit("create_user_event", name=event)
        self.user_events.append(event)

    def look(self) -> None:
        """Ask for what is known of an object."""
        what = self.random.choice(("event", "event", "callback", "buffer", "kernel", "program", "wait"))
        if what in ("event", "wait", "callback") and self.events:
            event, queue = self.random.choice(self.events)
            if what == "callback":
                self.emit("callback", event=event, status=self.random.choice((0, 0, 1, 2)))
                return
            self.open_gates()
            self.emit("wait", events=[event])
            self.emit("look_at_event", event=event, profiling=queue.profiling)
        elif what == "buffer":
            self.emit("look_at_buffer", buffer=self.random.choice(self.views).name)
        elif what == "kernel" and self.kernels:
            kernel = self.random.choice(self.kernels)
            # Programs that were not built from source may lack information on arguments.
            self.emit("look_at_kernel", kernel=kernel.name, arguments=kernel.program.from_source)
        elif what == "program" and self.programs:
            self.emit("look_at_program", program=self.random.choice(self.programs).name)

    def wrong(self) -> None:
        """A call that must be refused and change nothing."""
        # All else is right, because it is open which of several rules is checked first.
        views = [v for v in self.views if v.name == v.root.name and v.host_may(True) and v.host_may(False)]
        kernels = [k for k in self.kernels if len(k.arguments) == len(KINDS[k.kind].arguments)]
        if not views or not kernels:
            return
        self.emit(
            "wrong",
            which=self.random.randrange(1 << 30),
            buffer=self.random.choice(views).name,
            queue=self.random.choice(self.queues).name,
            kernel=self.random.choice(kernels).name,
            program=self.random.choice(self.programs).name,
        )

    # -- all of it -----------------------------------------------------------------------------------

    def run(self, num_steps: int) -> list[Step]:
        for _ in range(self.random.randint(2, 4)):
            self.queue()
        for _ in range(self.random.randint(3, 6)):
            self.buffer()
        for _ in range(self.random.randint(1, 4)):
            self.part()
        for _ in range(self.random.randint(1, 2)):
            self.program()
        choices: dict[Callable[[], None], float] = {
            self.transfer: 8, self.transfer_box: 4, self.copy: 6, self.copy_box: 3, self.fill: 4, self.map: 4,
            self.unmap: 4, self.launch: 16, self.migrate: 1, self.marker: 3, self.user_event: 2, self.look: 4,
            self.wrong: 5, self.buffer: 1, self.part: 2, self.queue: 0.3, self.program: 0.5,
            self.rebuild: 0.5, self.kernel: 1, self.clone: 1, self.release: 3,
        }  # fmt: skip
        if self.seed % 2:  # the others have no images
            for _ in range(self.random.randint(2, 5)):
                self.picture()
            choices |= {
                self.transfer_pixels: 10, self.copy_pixels: 8, self.copy_pixels_and_bytes: 6,
                self.fill_pixels: 4, self.map_pixels: 5, self.launch_pixels: 12, self.look_at_image: 1,
                self.wrong_pixels: 4, self.picture: 2, self.release_picture: 1,
            }  # fmt: skip
        end = len(self.steps) + num_steps
        while len(self.steps) < end:
            self.random.choices(list(choices), list(choices.values()))[0]()
        while any(memory.maps for memory in self.memories()):
            self.unmap()
        self.finish_all()
        pending = [a.event for memory in self.memories() for a in memory.accesses]  # of queues released
        if pending:
            self.emit("wait", events=list(dict.fromkeys(pending)))
        for view in self.views:
            if view.name == view.root.name or all(v.name != view.root.name for v in self.views):
                self.emit("read_all", buffer=view.name, queue=self.queues[0].name, nbytes=view.nbytes)
        for picture in self.pictures:
            self.emit(
                "read_all_pixels", image=picture.view.name, queue=self.queues[0].name, size=picture.size,
                nbytes=picture.view.nbytes,
            )  # fmt: skip
        for host in self.host:
            self.emit("look_at_host", host=host.name)
        for event, queue in self.events:
            self.emit("look_at_event", event=event, profiling=queue.profiling)
        self.emit("count_callbacks")
        return self.steps
