"""The part of a generator that makes images and commands on their pixels.

A command counts as one on all of an image: which bytes lie between the rows of a part is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tests.sequences.book import Book, Use
from tests.sequences.model import (
    ALLOC_HOST_PTR,
    COPY_HOST_PTR,
    MAP_READ,
    MAP_WRITE,
    MAP_WRITE_INVALIDATE,
    READ_ONLY,
    READ_WRITE,
    USE_HOST_PTR,
    WRITE_ONLY,
    Mapping,
    Memory,
    View,
)

PLANE, VOLUME, PLANES, LINE, LINES = range(0x10F1, 0x10F6)
FORMATS = ((0x10B5, 0x10DA, 4), (0x10B0, 0x10DC, 4), (0x10B5, 0x10DE, 16))
"""Channel order, type and bytes of a pixel: RGBA of bytes, R of 32 bits, RGBA of floats."""
WHOLE_NUMBERS = 2
"""So many of ``FORMATS`` can be read as unsigned integers."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An image.  ``size``: pixels in a row, rows (or lines of an array), planes."""

    view: View
    kind: int
    format: int
    size: tuple[int, int, int]

    @property
    def pixel_nbytes(self) -> int:
        return FORMATS[self.format][2]

    def use(self, writes: bool) -> Use:
        return (self.view.root, 0, self.view.root.nbytes, writes)


class Pictures(Book):
    """Makes images and what is done with them."""

    def picture(self) -> None:
        pick = self.random.choice
        kind, format_ = pick((PLANE, PLANE, VOLUME, PLANES, LINE, LINES)), self.random.randrange(len(FORMATS))
        rows = 1 if kind == LINE else pick((1, 3, 8, 13))
        planes = pick((1, 2, 5)) if kind in (VOLUME, PLANES) else 1
        size = (pick((1, 5, 16, 33)), rows, planes)
        access = pick((0, READ_WRITE, READ_WRITE, WRITE_ONLY, READ_ONLY))
        pointer = pick((0, 0, USE_HOST_PTR, ALLOC_HOST_PTR, COPY_HOST_PTR))
        root = Memory(self.name("i"), prod(size) * FORMATS[format_][2])
        view = View(root.name, root, 0, root.nbytes, access | pointer, bool(pointer & USE_HOST_PTR))
        made = Picture(view, kind, format_, size)
        self.emit(
            "create_image", name=root.name, kind=kind, pixel=format_, size=size, flags=view.flags,
            nbytes=root.nbytes,
        )  # fmt: skip
        self.pictures.append(made)
        if not pointer & (USE_HOST_PTR | COPY_HOST_PTR):
            ordered = self.order(pick(self.queues), [made.use(True)], False)
            self.emit("fill_pixels", image=root.name, pixel=format_, origin=(0, 0, 0), region=size, **ordered)

    def region(self, size: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Origin and region of a part."""
        if self.chance(0.2):
            return [0, 0, 0], list(size)
        region = [self.random.randint(1, extent) for extent in size]
        return [self.random.randint(0, s - r) for s, r in zip(size, region, strict=True)], region

    def transfer_pixels(self) -> None:
        picture, host = self.random.choice(self.pictures), self.random.choice(self.host)
        origin, region = self.region(picture.size)
        row = slice_ = 0
        least = region[0] * picture.pixel_nbytes
        distance, plane = least, least * region[1]
        if self.chance(0.5):
            row = distance = least + self.random.randint(0, 2) * picture.pixel_nbytes
            plane = distance * region[1]
            if picture.kind in (VOLUME, PLANES):
                slice_ = plane = plane + self.random.randint(0, 2) * distance
            elif picture.kind == LINES:
                slice_ = row
        nbytes = plane * (region[2] - 1) + distance * (region[1] - 1) + least
        if nbytes > host.nbytes:
            return
        to_device, at = self.chance(0.5), self.random.randint(0, host.nbytes - nbytes)
        uses = [picture.use(to_device), (host, at, at + nbytes, not to_device)]
        if not self.free(uses):
            return
        ordered, blocking = self.order_blocking(self.random.choice(self.queues), uses)
        self.emit(
            "transfer_pixels", to_device=to_device, image=picture.view.name, origin=origin, region=region,
            row=row, plane=slice_, host=host.name, at=at, blocking=blocking, **ordered,
        )  # fmt: skip

    def copy_pixels(self) -> None:
        source, target = self.random.choice(self.pictures), self.random.choice(self.pictures)
        kinds = {source.kind, target.kind}
        if source is target or source.format != target.format:
            return
        if len(kinds) > 1 and not kinds <= {PLANE, VOLUME, PLANES}:
            return
        here, region = self.region(tuple(map(min, source.size, target.size)))
        there = [self.random.randint(0, s - r) for s, r in zip(target.size, region, strict=True)]
        uses = [source.use(False), target.use(True)]
        if not self.free(uses):
            return
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit(
            "copy_pixels", source=source.view.name, target=target.view.name, here=here, there=there,
            region=region, **ordered,
        )  # fmt: skip

    def copy_pixels_and_bytes(self) -> None:
        picture = self.random.choice(self.pictures)
        views = [v for v in self.views if v.name == v.root.name]  # pocl crashes with parts
        if not views:
            return
        view = self.random.choice(views)
        origin, region = self.region(picture.size)
        nbytes = prod(region) * picture.pixel_nbytes
        if nbytes > view.nbytes:
            return
        to_image, offset = self.chance(0.5), self.random.randint(0, view.nbytes - nbytes)
        begin = view.origin + offset
        uses = [picture.use(to_image), (view.root, begin, begin + nbytes, not to_image)]
        if not self.free(uses):
            return
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit(
            "copy_pixels_and_bytes", to_image=to_image, image=picture.view.name, buffer=view.name,
            offset=offset, origin=origin, region=region, **ordered,
        )  # fmt: skip

    def fill_pixels(self) -> None:
        picture = self.random.choice(self.pictures)
        if not self.free([picture.use(True)]):
            return
        origin, region = self.region(picture.size)
        ordered = self.order(self.random.choice(self.queues), [picture.use(True)], False)
        self.emit(
            "fill_pixels", image=picture.view.name, pixel=picture.format, origin=origin, region=region,
            **ordered,
        )  # fmt: skip

    def map_pixels(self) -> None:
        picture = self.random.choice(self.pictures)
        flags = self.random.choice((MAP_READ, MAP_READ | MAP_WRITE, MAP_WRITE_INVALIDATE))
        writes = flags != MAP_READ
        root = picture.view.root
        if root.maps or not self.free([picture.use(writes)]):
            return
        origin, region = self.region(picture.size)
        queue = self.random.choice(self.queues)
        ordered, blocking = self.order_blocking(queue, [picture.use(writes)])
        if not blocking:
            if not ordered["event"]:
                ordered["event"] = self.name("e")
                self.events.append((ordered["event"], queue))
            self.open_gates()
        mapping = Mapping(self.name("m"), picture.view, 0, root.nbytes, writes)
        self.emit(
            "map_pixels", name=mapping.name, image=root.name, flags=flags, origin=origin, region=region,
            row_nbytes=region[0] * picture.pixel_nbytes, lines=picture.kind == LINES, blocking=blocking,
            **ordered,
        )  # fmt: skip
        root.accesses = [a for a in root.accesses if not a.conflicts(0, root.nbytes, writes)]
        root.maps.append(mapping)

    def launch_pixels(self) -> None:
        """One of the kernels of ``pixels.SOURCE``."""
        kernel = self.random.choice(("turn", "lines", "spread"))
        wanted = {"turn": PLANE, "lines": LINES, "spread": PLANES}[kernel]
        fitting = [p for p in self.pictures if p.kind == wanted and p.format < WHOLE_NUMBERS]
        sources = [p for p in fitting if not p.view.flags & WRITE_ONLY]
        targets = [p for p in fitting if not p.view.flags & READ_ONLY]
        words = [
            v for v in self.views if v.nbytes >= 4 and v.kernel_may(kernel != "lines", kernel == "lines")
        ]
        arguments: list[Any]
        if kernel == "turn" and sources and targets:
            source, target = self.random.choice(sources), self.random.choice(targets)
            if source is target:
                return
            uses = [source.use(False), target.use(True)]
            arguments = [source.view.name, target.view.name, self.random.randint(-3, 3)]
        elif kernel != "turn" and words and (sources if kernel == "lines" else targets):
            picture = self.random.choice(sources if kernel == "lines" else targets)
            view = self.random.choice(words)
            bytes_ = (view.root, view.origin, view.origin + view.nbytes, kernel == "lines")
            uses = [picture.use(kernel == "spread"), bytes_]
            arguments = [picture.view.name, view.name, self.random.randint(1, view.nbytes // 4)]
        else:
            return
        if not self.free(uses):
            return
        dimensions = {"turn": 2, "lines": 1, "spread": 3}[kernel]
        local = self.random.choice((None, [8, 2, 1][:dimensions]))
        sizes = [self.random.choice((8, 16, 40)) for _ in range(dimensions)]
        ordered = self.order(self.random.choice(self.queues), uses, False)
        self.emit("launch_pixels", kernel=kernel, arguments=arguments, sizes=sizes, local=local, **ordered)

    def look_at_image(self) -> None:
        self.emit("look_at_image", image=self.random.choice(self.pictures).view.name)

    def wrong_pixels(self) -> None:
        """A call that must be refused and change nothing."""
        planes = [p for p in self.pictures if p.kind == PLANE]
        if planes:
            self.emit(
                "wrong_pixels", which=self.random.randrange(1 << 30), buffer=self.views[0].name,
                image=self.random.choice(planes).view.name, queue=self.random.choice(self.queues).name,
            )  # fmt: skip

    def release_picture(self) -> None:
        """It may go while commands use it."""
        if len(self.pictures) > 2:
            picture = self.random.choice(self.pictures)
            if not picture.view.root.maps:
                self.pictures.remove(picture)
                self.emit("release", kind="MemObject", name=picture.view.name)
