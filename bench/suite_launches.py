"""Whether kernels of public suites leave the same bytes with sdi as without, whatever they are given.

    python bench/suite_launches.py FOLDER... --image VENDORS [--members N] [--only TEXT] [--limit SECONDS]

Each kernel of the programs below the folders (as in ``corpus.py``) is built and launched by the plain driver,
twice, and, where it repeats itself, with ``SDI_SPLIT=always`` on an image of N members (3), which the loader
finds by the ``.icd`` file in the folder VENDORS: buffers of small numbers, scalars of two kinds.  Names that
a program expects from its host are guessed.  Left out is what crashes, does not end, reaches behind its
buffers, or takes structures by value.  Prints each buffer that differs, and exits with 1
if there is one, unless a work-group writes what another one reads or writes.  With DUMP=FOLDER the bytes are
written there.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import os
import re
import select
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.corpus import ROUNDS, guesses_of, programs
from sdi.ndrange import NDRange
from tests.sampling.recorder import Recorder
from tests.sampling.sources import tree_of

Asked = dict[str, Any]
_VECTOR = re.compile(r"(2|3|4|8|16|)$")
_NBYTES = 1 << 20
_GUARD_NBYTES = (1 << 20, 1 << 23)  # before and behind a buffer of the plain driver
_LOCAL_NBYTES = 8192
_IMAGES = {"image1d_t": (256,), "image2d_t": (64, 64), "image3d_t": (16, 16, 16)}
_SIZES = {1: ((384,), (64,)), 2: ((48, 16), (8, 8)), 3: ((16, 8, 6), (8, 4, 2))}
_SCALARS = {"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "long": "q"}
_SCALARS |= {"ulong": "Q", "float": "f", "double": "d", "size_t": "Q", "bool": "B", "half": "e"}
_TYPE = re.compile(r"^(?:unsigned )?([a-z_]+?)(\d*)$")
_FLOATS = {"float", "double", "half"}


def main() -> int:
    """Compare; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--limit", type=float, default=30)
    parser.add_argument("--image", required=True, metavar="VENDORS")
    arguments = parser.parse_args()
    image = {"SDI_SPLIT": "always", "SDI_NUM_GPUS": str(arguments.members)}
    image["OCL_ICD_VENDORS"] = arguments.image
    plain, split = Worker({}, arguments.limit), Worker(image, 4 * arguments.limit)
    counted: Counter[str] = Counter()
    try:
        for root in arguments.folders:
            seen: set[str] = set()
            for path, text in programs(root):
                if arguments.only in str(path) and text not in seen:
                    seen.add(text)
                    counted += _compare(plain, split, path, text, arguments.define)
    finally:
        plain.end()
        split.end()
    print(", ".join(f"{what} {count}" for what, count in sorted(counted.items())))
    return 1 if counted["differ"] else 0


def _compare(plain: Worker, split: Worker, path: Path, text: str, defined: list[str]) -> Counter[str]:
    """One program."""
    found: Counter[str] = Counter(programs=1)
    built = plain.ask({"path": str(path), "text": text, "define": defined})
    if built is None or "kernels" not in built:
        return found + Counter({"programs not built": 1})
    for kernel in built["kernels"]:
        for variant in range(2):
            asked = {"path": str(path), "text": text, "options": built["options"]}
            asked |= {"kernel": kernel, "variant": variant}
            first, second = (plain.ask(asked | {"guard": guard}) for guard in (1, 66))
            if first is None or second is None:
                found["plain driver fails"] += 1
                continue
            if "error" in first or "error" in second:
                plain.end()
            if why := first.get("left out", second.get("left out")):
                found[why] += 1
                continue
            if first["buffers"] != second["buffers"]:
                found["does not repeat itself, or reads behind its buffers"] += 1
                continue
            third = split.ask(asked)
            if third is None or "error" in third:  # a process in which another kernel has failed?
                split.end()
                third = split.ask(asked)
            if third is None or third.get("buffers") != first["buffers"]:
                if (plain.ask(asked | {"races": 1}) or {}).get("races"):
                    found["races between work-groups"] += 1
                    continue
                first = plain.ask(asked | {"content": 1, "guard": 1}) or {}
                third = split.ask(asked | {"content": 1}) or {}
                where = f"{path}: {kernel}, {variant}:"
                print(where, _told(first, third) if "buffers" in first and third else "fails", flush=True)
                found["differ"] += 1
            else:
                found["same"] += 1
    return found


def _told(first: Asked, third: Asked) -> str:
    """What differs, and for floats by how much of the largest number."""
    if "buffers" not in third:
        return str(third)
    found = []
    for name, text in third["buffers"].items():
        if text != first["buffers"][name]:
            found.append(name)
            if re.search(r"float|_t$", name) and "content" in first:
                one, other = (
                    np.frombuffer(zlib.decompress(base64.b64decode(told["content"][name])), np.float32)
                    for told in (first, third)
                )
                with np.errstate(all="ignore"):
                    size = np.nanmax(np.abs(np.nan_to_num(one, posinf=0, neginf=0)))
                    found[-1] += f" ({np.nanmax(np.abs(one - other)) / size:.1e} of {np.sum(one != other)})"
    return "differs in " + ", ".join(found)


class Worker:
    """A process that launches what it is asked to; begun anew after it has crashed or taken too long."""

    def __init__(self, variables: dict[str, str], limit: float) -> None:
        self._variables, self._limit = variables, limit
        self._process: subprocess.Popen[str] | None = None

    def ask(self, asked: Asked) -> Asked | None:
        """What the process answers; None: it did not."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ | self._variables,
            )
        stdin, stdout = _pipes(self._process)
        try:
            stdin.write(json.dumps(asked) + "\n")
            stdin.flush()
            ready, _, _ = select.select([stdout], [], [], self._limit)
            line = stdout.readline() if ready else ""
        except BrokenPipeError:
            line = ""
        if not line:
            self.end()
            return None
        answer: Asked = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            for pipe in _pipes(self._process):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
            self._process.wait()
        self._process = None


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


# ---- the worker -----------------------------------------------------------------------------------------


def work() -> None:
    """Answer what is asked on stdin, a line each, until it ends."""
    import pyopencl as cl

    context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
    queue = cl.CommandQueue(context)
    built: dict[tuple[str, str], Any] = {}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # kernels print
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["text"], asked.get("options", "")
        if "kernel" not in asked:
            answer = _build(cl, context, asked, built)
        else:
            if key not in built:
                built[key] = cl.Program(context, asked["text"]).build(asked["options"])
            try:
                answer = _launch(cl, context, queue, built[key], asked)
            except cl.Error as error:
                answer = {"left out": type(error).__name__, "error": str(error)[:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _build(cl: Any, context: Any, asked: Asked, built: dict[tuple[str, str], Any]) -> Asked:
    folder, guesses = Path(asked["path"]).parent, dict(d.split("=", 1) for d in asked["define"])
    for _ in range(ROUNDS):
        defines = " ".join(f"-D{n}={v}" for n, v in guesses.items())
        options = f"-cl-kernel-arg-info -I{folder} -I{folder.parent} {defines}"
        try:
            program = cl.Program(context, asked["text"]).build(options)
        except cl.Error as error:
            found = guesses_of(str(error), guesses)
            if not found:
                break
            is_type = {name for name, value in found.items() if value == "float"}
            guesses |= found | {name: f"float{_VECTOR.findall(name)[0]}" for name in is_type}
            continue
        built[asked["text"], options] = program
        return {"options": options, "kernels": [k.function_name for k in program.all_kernels()]}
    return {}


def _dimensions(text: str, kernel: str) -> int:
    at = text.find(kernel)
    body = text[at : at + 6000]
    return 3 if re.search(r"_id\s*\(\s*2\s*\)", body) else 2 if re.search(r"_id\s*\(\s*1\s*\)", body) else 1


Argument = np.ndarray | bytes | int | str  # of a buffer its content, of local memory its size, an image


def _arguments(cl: Any, kernel: Any, asked: Asked) -> dict[str, Argument] | None:
    """What a kernel is given, by place and type; None: it takes what nobody can guess."""
    info, spaces = cl.kernel_arg_info, cl.kernel_arg_address_qualifier
    random = np.random.default_rng(asked["variant"])
    found: dict[str, Argument] = {}
    for n in range(kernel.num_args):
        told = kernel.get_arg_info(n, info.TYPE_NAME)
        plain = _plain(told.rstrip("*"), asked["text"])
        value: Argument | None
        if kernel.get_arg_info(n, info.ADDRESS_QUALIFIER) == spaces.LOCAL:
            value = _LOCAL_NBYTES
        elif told in _IMAGES or told == "sampler_t":
            value = told
        elif told.endswith("*"):
            value = np.frombuffer(_content(plain, random), np.uint8)
        else:
            value = _scalar(plain, asked["variant"], random)
        if value is None:
            return None
        found[f"{n} {told}"] = value
    return found


def _sizes(cl: Any, kernel: Any, device: Any, asked: Asked) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Global and local."""
    wanted = kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device)
    if any(wanted):
        return (wanted[0] * 6, wanted[1] * 2, wanted[2] * 2), tuple(wanted)
    return _SIZES[_dimensions(asked["text"], asked["kernel"])]


def _launch(cl: Any, context: Any, queue: Any, program: Any, asked: Asked) -> Asked:
    kernel = cl.Kernel(program, asked["kernel"])
    arguments = _arguments(cl, kernel, asked)
    if arguments is None:
        return {"left out": "structures and others by value"}
    sizes, local = _sizes(cl, kernel, context.devices[0], asked)
    if "races" in asked:
        return {"races": _races(asked, sizes, local, list(arguments.values()))}
    buffers: dict[str, Guarded | Picture] = {}
    for n, (name, value) in enumerate(arguments.items()):
        if isinstance(value, np.ndarray):
            buffers[name] = Guarded(cl, context, value.tobytes(), asked.get("guard"))
            kernel.set_arg(n, buffers[name].buffer)
        elif value in _IMAGES:
            buffers[name] = Picture(cl, context, str(value), kernel, n, asked)
            kernel.set_arg(n, buffers[name].buffer)
        elif value == "sampler_t":
            modes, filters = cl.addressing_mode, cl.filter_mode
            kernel.set_arg(n, cl.Sampler(context, False, modes.CLAMP_TO_EDGE, filters.NEAREST))
        else:
            kernel.set_arg(n, cl.LocalMemory(value) if isinstance(value, int) else value)
    cl.enqueue_nd_range_kernel(queue, kernel, sizes, local)
    told, contents = {}, {}
    for name, guarded in buffers.items():
        content = guarded.read(queue)
        if content is None:
            return {"left out": "reaches behind its buffers"}
        told[name] = hashlib.sha256(content).hexdigest()[:16]
        if "content" in asked:
            contents[name] = base64.b64encode(zlib.compress(content.tobytes(), 1)).decode()
        if folder := os.environ.get("DUMP"):
            content.tofile(Path(folder) / f"{asked['kernel']}-{asked['variant']}-{name.replace('/', '_')}")
    return {"buffers": told, "content": contents}


def _races(asked: Asked, sizes: tuple[int, ...], local: tuple[int, ...], given: list[Argument]) -> bool:
    """Whether a work-group writes bytes that another one reads or writes, as the instrumented kernel says."""
    tree = tree_of(asked["text"], asked["options"].replace("-cl-kernel-arg-info", ""))
    recorder = Recorder()
    kernel = recorder.kernel(tree, "", asked["kernel"])
    rest = (1,) * (3 - len(sizes))
    ndrange = NDRange(len(sizes), (0, 0, 0), (*sizes, *rest), (*local, *rest))
    arguments: list[np.ndarray | bytes | int | None] = []
    for value in given:
        assert not isinstance(value, str)
        arguments.append(value.copy() if isinstance(value, np.ndarray) else value)
    rows = recorder.run(kernel, ndrange, arguments).rows
    for n in set(rows[:, 0].tolist()):
        own = rows[rows[:, 0] == n]
        least, most, written = (np.full(_NBYTES, v, np.int64) for v in (1 << 40, -1, 0))
        for nbytes in set((own[:, 4] - own[:, 3]).tolist()):
            some = own[own[:, 4] - own[:, 3] == nbytes]
            at = some[:, 3, None] + np.arange(nbytes)
            group, mode = (np.broadcast_to(some[:, c, None], at.shape) for c in (2, 1))
            np.minimum.at(least, at, group)
            np.maximum.at(most, at, group)
            np.maximum.at(written, at, mode & 2)
        if ((least < most) & (written > 0)).any():
            return True
    return False


class Guarded:
    """A buffer; with ``guard``, between bytes of that value."""

    def __init__(self, cl: Any, context: Any, content: bytes, guard: int | None) -> None:
        self._cl, self._guard = cl, guard
        self._sizes = (0, 0) if guard is None else _GUARD_NBYTES
        self._nbytes = len(content)
        before, behind = (bytes([guard or 0]) * nbytes for nbytes in self._sizes)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self._whole = cl.Buffer(context, flags, hostbuf=before + content + behind)
        self.buffer = self._whole if guard is None else self._whole[len(before) : len(before) + len(content)]

    def read(self, queue: Any) -> np.ndarray | None:
        """Its bytes; None: the ones around it were changed."""
        content = np.empty(sum(self._sizes) + self._nbytes, np.uint8)
        self._cl.enqueue_copy(queue, content, self._whole)
        around = np.delete(content, np.s_[self._sizes[0] : self._sizes[0] + self._nbytes])
        return content[self._sizes[0] :][: self._nbytes].copy() if (around == self._guard).all() else None


class Picture:
    """An image of four channels of 32 bits."""

    def __init__(self, cl: Any, context: Any, type_name: str, kernel: Any, number: int, asked: Asked) -> None:
        self._cl, self._shape = cl, _IMAGES[type_name]
        types, flags = cl.channel_type, cl.mem_flags
        calls = set(re.findall(r"(?:read|write)_image(ui|i|f|h)", asked["text"]))
        of = types.FLOAT if calls != {"i"} and calls != {"ui"} else None
        of = of or (types.SIGNED_INT32 if calls == {"i"} else types.UNSIGNED_INT32)
        access, asks = cl.kernel_arg_access_qualifier, cl.kernel_arg_info.ACCESS_QUALIFIER
        found = kernel.get_arg_info(number, asks)
        kinds = {access.READ_ONLY: flags.READ_ONLY, access.WRITE_ONLY: flags.WRITE_ONLY}
        random = np.random.default_rng(number)
        numbers = random.integers(0, 17, (*self._shape, 4))
        content = (numbers / 16).astype(np.float32) if of == types.FLOAT else numbers.astype(np.int32)
        self.buffer = cl.Image(
            context,
            kinds.get(found, flags.READ_WRITE) | flags.COPY_HOST_PTR,
            cl.ImageFormat(cl.channel_order.RGBA, of),
            shape=self._shape,
            hostbuf=content,
        )

    def read(self, queue: Any) -> np.ndarray | None:
        """Its bytes."""
        content = np.empty((*self._shape, 4), np.int32)
        self._cl.enqueue_copy(queue, content, self.buffer, origin=(0,) * len(self._shape), region=self._shape)
        return content


def _plain(type_name: str, text: str) -> str:
    """What a name of the program's own stands for."""
    found = re.search(rf"typedef\s+([\w ]+?)\s+{type_name}\s*;|#\s*define\s+{type_name}\s+(\w+)", text)
    return (found[1] or found[2]).replace("unsigned ", "u") if found else type_name


def _content(type_name: str, random: np.random.Generator) -> bytes:
    match = _TYPE.match(type_name)
    base = match[1] if match else ""
    if base in _FLOATS:
        return (random.integers(-16, 17, _NBYTES // 4) / 16).astype(_SCALARS[base]).tobytes()[:_NBYTES]
    if base in _SCALARS:
        of = np.dtype(_SCALARS[base])
        return random.integers(0, 48, _NBYTES // of.itemsize).astype(of).tobytes()
    return random.integers(0, 4, _NBYTES // 4).astype(np.int32).tobytes()


def _scalar(type_name: str, variant: int, random: np.random.Generator) -> Any:
    match = _TYPE.match(type_name)
    if match is None or match[1] not in _SCALARS:
        return None
    count = 4 if match[2] == "3" else int(match[2] or 1)
    if match[1] in _FLOATS:
        values = random.integers(1, 16, count) / 8
    else:
        values = random.integers(1, 33, count) if variant else np.full(count, 64)
    return values.astype(_SCALARS[match[1]]).tobytes()


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        work()
    else:
        sys.exit(main())
