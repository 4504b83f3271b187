"""The part of a runner that makes images and enqueues commands on their pixels; steps as in ``pictures``."""

from __future__ import annotations

import ctypes
import struct
import zlib
from typing import Any

from tests.sequences.model import COPY_HOST_PTR, MAP_READ, USE_HOST_PTR
from tests.sequences.pictures import FORMATS, LINE, LINES, PLANE, PLANES, VOLUME

SOURCE = b"""
kernel void turn(read_only image2d_t in, write_only image2d_t out, int shift, sampler_t s) {
    int x = get_global_id(0), y = get_global_id(1), w = get_image_width(out);
    if (x < w && y < get_image_height(out))
        write_imageui(out, (int2)(x, y), (read_imageui(in, s, (int2)(w - 1 - x + shift, y)) + 1u) & 127u);
}
kernel void lines(read_only image1d_array_t in, global uint *out, uint n, sampler_t s) {
    uint i = get_global_id(0), w = get_image_width(in), m = get_image_array_size(in);
    uint4 v = read_imageui(in, s, (int2)(i % w, i / w % m));
    if (i < n) out[i] = v.x + 3 * v.y + 5 * v.z + 7 * v.w;
}
kernel void spread(write_only image2d_array_t out, global const uint *in, uint n, sampler_t s) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    if (x < get_image_width(out) && y < get_image_height(out) && z < (int)get_image_array_size(out))
        write_imageui(out, (int4)(x, y, z, 0), (uint4)(in[(x + 40 * y + z) % n] & 127, x, y, z));
}
"""
Ended = list[Any]


def image_format(order: int, data_type: int) -> bytes:
    """A cl_image_format."""
    return struct.pack("<2I", order, data_type)


def descriptor(kind: int, width: int, rows: int, planes: int, row: int = 0, source: int = 0) -> bytes:
    """A cl_image_desc; ``rows`` of a 1D array are its layers, ``planes`` of a 2D array too."""
    height = rows if kind in (PLANE, VOLUME, PLANES) else 0
    depth = planes if kind == VOLUME else 0
    layers = {LINES: rows, PLANES: planes}.get(kind, 0)
    return struct.pack("<I4x6Q2IQ", kind, width, height, depth, layers, row, 0, 0, 0, source)


class PixelSteps:
    """Steps of ``Runner`` (which has all that is used here and not defined)."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def create_image(
        self, name: str, kind: int, pixel: int, size: tuple[int, int, int], flags: int, nbytes: int
    ) -> Ended:
        pointer = None
        if flags & (USE_HOST_PTR | COPY_HOST_PTR):
            room = (ctypes.c_char * (nbytes + 4096))()
            pointer = -(-ctypes.addressof(room) // 4096) * 4096
            ctypes.memmove(pointer, bytes(self.random.randrange(128) for _ in range(nbytes)), nbytes)
            self.keep.append(room)
        order, data_type, _ = FORMATS[pixel]
        made = self.api.clCreateImage(
            self.context,
            flags,
            image_format(order, data_type),
            descriptor(kind, *size),
            pointer,
            self.error(),
        )
        ended: Ended = self.keep_object(name, made)
        if made:
            self.watch_destruction(name, made)
        return ended

    def color(self, pixel: int) -> bytes:
        """Four numbers: what any image of this format holds exactly."""
        numbers = [self.random.randrange(128) for _ in range(4)]
        return struct.pack("<4f", *numbers) if FORMATS[pixel][1] == 0x10DE else struct.pack("<4I", *numbers)

    def fill_pixels(
        self, image: str, pixel: int, origin: list[int], region: list[int], queue: str, waits: list[str],
        event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        code = self.api.clEnqueueFillImage(
            self.get(queue), self.get(image), self.color(pixel), self.sizes(origin), self.sizes(region),
            *ending,
        )  # fmt: skip
        ended: Ended = self.ended(code, event, made)
        return ended

    def transfer_pixels(
        self, to_device: bool, image: str, origin: list[int], region: list[int], row: int, plane: int,
        host: str, at: int, blocking: bool, queue: str, waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        enqueue = self.api.clEnqueueWriteImage if to_device else self.api.clEnqueueReadImage
        ending, made = self.ending(waits, event)
        code = enqueue(
            self.get(queue), self.get(image), blocking, self.sizes(origin), self.sizes(region), row, plane,
            ctypes.addressof(self.memory[host]) + at, *ending,
        )  # fmt: skip
        ended: Ended = self.ended(code, event, made)
        return ended

    def copy_pixels(
        self, source: str, target: str, here: list[int], there: list[int], region: list[int], queue: str,
        waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        code = self.api.clEnqueueCopyImage(
            self.get(queue), self.get(source), self.get(target), self.sizes(here), self.sizes(there),
            self.sizes(region), *ending,
        )  # fmt: skip
        ended: Ended = self.ended(code, event, made)
        return ended

    def copy_pixels_and_bytes(
        self, to_image: bool, image: str, buffer: str, offset: int, origin: list[int], region: list[int],
        queue: str, waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        box = self.sizes(origin), self.sizes(region)
        if to_image:
            code = self.api.clEnqueueCopyBufferToImage(
                self.get(queue), self.get(buffer), self.get(image), offset, *box, *ending
            )
        else:
            code = self.api.clEnqueueCopyImageToBuffer(
                self.get(queue), self.get(image), self.get(buffer), *box, offset, *ending
            )
        ended: Ended = self.ended(code, event, made)
        return ended

    def map_pixels(
        self, name: str, image: str, flags: int, origin: list[int], region: list[int], row_nbytes: int,
        lines: bool, blocking: bool, queue: str, waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        row, slice_ = ctypes.c_size_t(), ctypes.c_size_t()
        pointer = self.api.clEnqueueMapImage(
            self.get(queue), self.get(image), blocking, flags, self.sizes(origin), self.sizes(region),
            ctypes.byref(row), ctypes.byref(slice_), *ending, self.error(),
        )  # fmt: skip
        ended: Ended = self.ended(self.code.value, event, made)
        if not pointer:
            return ended
        self.pointers[name] = (pointer, 0)
        if not blocking:
            ended.append(self.api.clWaitForEvents(1, self.array([self.get(event)])))
        distance = slice_.value if lines else row.value  # pitches are each platform's own
        rows = [pointer + z * slice_.value + y * distance for z in range(region[2]) for y in range(region[1])]
        if flags & MAP_READ:
            ended.append(zlib.crc32(b"".join(ctypes.string_at(at, row_nbytes) for at in rows)))
        if flags != MAP_READ:
            for at in rows:
                ctypes.memmove(at, bytes(self.random.randrange(128) for _ in range(row_nbytes)), row_nbytes)
        return ended

    def launch_pixels(
        self, kernel: str, arguments: list[Any], sizes: list[int], local: list[int] | None, queue: str,
        waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        if "pixels" not in self.made_once:
            program = self.from_source([SOURCE])
            sampler = self.api.clCreateSampler(self.context, 0, 0x1131, 0x1140, self.error())
            self.made_once["pixels"] = self.api.clBuildProgram(program, 0, None, b"", None, None)
            self.handles |= {"p pixels": program, "s pixels": sampler}
            for name in ("turn", "lines", "spread"):
                self.handles[f"k {name}"] = self.api.clCreateKernel(program, name.encode(), self.error())
        used = self.handles[f"k {kernel}"]
        codes = [self.made_once["pixels"]]
        for index, argument in enumerate([*arguments, "s pixels"]):
            is_number = isinstance(argument, int)
            value = ctypes.c_int32(argument) if is_number else ctypes.c_void_p(self.handles.get(argument))
            codes.append(self.api.clSetKernelArg(used, index, ctypes.sizeof(value), ctypes.byref(value)))
        ending, made = self.ending(waits, event)
        code = self.api.clEnqueueNDRangeKernel(
            self.get(queue), used, len(sizes), None, self.sizes(sizes), self.sizes(local) if local else None,
            *ending,
        )  # fmt: skip
        return [*self.ended(code, event, made), codes]

    def look_at_image(self, image: str) -> Ended:
        handle = self.get(image)
        params = (0x1110, 0x1111, 0x1114, 0x1115, 0x1116, 0x1117)
        about = [self.info(self.api.clGetImageInfo, handle, param=p) for p in params]
        return [0, about, self.info(self.api.clGetMemObjectInfo, handle, param=0x1100)]

    def read_all_pixels(self, image: str, queue: str, size: tuple[int, int, int], nbytes: int) -> Ended:
        target = ctypes.create_string_buffer(nbytes)
        code = self.api.clEnqueueReadImage(
            self.get(queue), self.get(image), 1, self.sizes((0, 0, 0)), self.sizes(size), 0, 0, target, 0,
            None, None,
        )  # fmt: skip
        return [code, zlib.crc32(target.raw)]

    def wrong_pixels(self, which: int, image: str, buffer: str, queue: str) -> Ended:
        """The code of the call ``which`` (modulo how many there are)."""
        index = which % len(CALLS)
        return [CALLS[index](self, self.get(image), self.get(buffer), self.get(queue)), index]


def _create(
    kind: int, order: int, data_type: int, size: tuple[int, int, int], flags: int = 0, **more: int
) -> Any:
    def call(r: Any, i: Any, b: Any, q: Any) -> int:
        shape = descriptor(kind, *size, **more)
        made = r.api.clCreateImage(r.context, flags, image_format(order, data_type), shape, None, r.error())
        return 1 if made else int(r.code.value)

    return call


def _read(origin: tuple[int, ...], region: tuple[int, ...], host: bool = True) -> Any:
    return lambda r, i, b, q: r.api.clEnqueueReadImage(
        q, i, 1, r.sizes(origin), r.sizes(region), 0, 0, r.memory["h0"] if host else None, 0, None, None
    )


def _write(origin: tuple[int, ...], region: tuple[int, ...]) -> Any:
    return lambda r, i, b, q: r.api.clEnqueueWriteImage(
        q, i, 0, r.sizes(origin), r.sizes(region), 0, 0, r.memory["h0"], 0, None, None
    )


def _fill(origin: tuple[int, ...], region: tuple[int, ...], color: bytes | None = bytes(16)) -> Any:
    return lambda r, i, b, q: r.api.clEnqueueFillImage(
        q, i, color, r.sizes(origin), r.sizes(region), 0, None, None
    )


def _to_buffer(origin: tuple[int, ...], region: tuple[int, ...], offset: int) -> Any:
    return lambda r, i, b, q: r.api.clEnqueueCopyImageToBuffer(
        q, i, b, r.sizes(origin), r.sizes(region), offset, 0, None, None
    )


def _image_info(r: Any, i: Any, b: Any, q: Any) -> int:
    return int(r.api.clGetImageInfo(i, 0x1, 0, None, None))


def _image_info_short(r: Any, i: Any, b: Any, q: Any) -> int:
    return int(r.api.clGetImageInfo(i, 0x1110, 3, ctypes.create_string_buffer(8), None))


ONE, NONE = (1, 1, 1), (0, 0, 0)
CALLS = (
    _create(LINE, 0x10B5, 0x10DA, (4, 1, 1), flags=2 | 4),
    _read((0, 0, 1), ONE), _read(NONE, (1, 1, 2)), _read((1 << 20, 0, 0), ONE), _read(NONE, (1 << 20, 1, 1)),
    _read(NONE, (1, 1, 0)), _read(NONE, ONE, host=False),
    _write((0, 0, 1), ONE), _write(NONE, (1, 1 << 20, 1)),
    _fill((0, 0, 1), ONE), _fill(NONE, (1, 1, 2)), _fill(NONE, ONE, None),
    _to_buffer(NONE, ONE, 1 << 40), _to_buffer((0, 0, 1), ONE, 0),
    _image_info, _image_info_short,
)  # fmt: skip
"""Others that the specification forbids pocl takes, or answers with codes of its own."""
