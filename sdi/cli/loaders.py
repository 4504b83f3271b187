"""Which OpenCL loaders and drivers an application's processes have loaded, as seen from outside.

Nothing is put into the application: its processes' maps are read in /proc now and then, and the library
leaves a letter in a file that this process keeps.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from sdi import limits
from sdi.dataclass import dataclass, field
from sdi.locate import LIBRARY
from sdi.service.progress import UNDER_RUN

SHOWN, ASKED = b"p", b"d"
"""What the library writes: it was asked for platforms, for devices."""
UNUSED = "sdi: the application did not use the image"

_NOT_ASKED = (
    "but asked it for no device; where it goes by vendors set SDI_PLATFORM_VENDOR and SDI_DEVICE_VENDOR,"
    " else choose the platform by its own options"
)

_FIRST_NS, _SELDOM_S = 2_000_000, 1.0
_ARENA = "/memfd:sdi-arena"
_PART_OF_LIFE = 20
"""A look at each twentieth of the life so far: short lives are seen, long ones not disturbed."""
_FOLLOWED = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")
"""What the image is named by; any of them is enough."""
_DRIVERS = frozenset(
    {
        "libnvidia-opencl",
        "libamdocl64",
        "libigdrcl",
        "libintelocl",
        "libpocl",
        "libMesaOpenCL",
        "libRusticlOpenCL",
    }
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one process had mapped, and whether it kept the variables.

    ``loaders``, ``drivers``: files of loaders, of vendors' drivers.  ``has_image``: the library,
    ``has_arena``: the memory that it shares with a service.
    """

    loaders: tuple[str, ...]
    drivers: tuple[str, ...]
    has_image: bool
    has_arena: bool
    has_variables: bool


@dataclass
class LoaderWatch:
    """Looks at an application that this process has started.  Owned by: the thread that waits for it.

    ``library``: the image's.  ``drivers``: names of members' drivers, beside those that are known.
    """

    library: Path
    drivers: frozenset[str] = frozenset()
    _mark: int = field(init=False)
    _begun_ns: int = field(init=False)
    _seen: dict[str, Loaded] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._mark = limits.memory_file("sdi-run")
        self._begun_ns = time.monotonic_ns()

    def environ(self) -> dict[str, str]:
        """For the application: the name of the file for what the library writes."""
        return {UNDER_RUN: f"/proc/{os.getpid()}/fd/{self._mark}"}

    def close(self) -> None:
        os.close(self._mark)

    def look(self, child: int) -> float:
        """See what ``child`` and its children have loaded; seconds until it is worth to look again."""
        if self._asked() and any(loaded.has_image for loaded in self._seen.values()):
            return _SELDOM_S
        begun_ns = time.monotonic_ns()
        for pid in _family(child):
            with contextlib.suppress(OSError):  # it has ended, or is somebody else's now
                found = self._loaded(pid)
                if found.loaders or found.drivers or found.has_image:
                    self._seen[_program(pid)] = found
        ended_ns = time.monotonic_ns()
        pause_ns = max(
            _FIRST_NS, (ended_ns - self._begun_ns) // _PART_OF_LIFE, _PART_OF_LIFE * (ended_ns - begun_ns)
        )
        return min(pause_ns / 1e9, _SELDOM_S)

    def used(self) -> list[str]:
        """Which program reached the image, and by which loader, as far as that was seen."""
        return [
            f"{program} found the image by {' and '.join(loaded.loaders) or 'a loader of its own'}"
            for program, loaded in self._seen.items()
            if loaded.has_image
        ]

    def verdict(self) -> str:
        """Why the application did not use the image, with what it loaded and what to set; "": it did."""
        if self._asked():
            return ""
        shown = SHOWN in self._marks()
        reasons = [self._reason(program, loaded, shown) for program, loaded in self._seen.items()]
        if not reasons and shown:
            reasons = [f"it was shown the platform SDI, {_NOT_ASKED}"]
        return "\n".join([f"{UNUSED}: {reason}" for reason in reasons] or [UNUSED])

    def _reason(self, program: str, loaded: Loaded, shown: bool) -> str:
        others = " and ".join(loaded.drivers)
        by = " and ".join(loaded.loaders) or "a loader of its own"
        if loaded.has_image or (loaded.loaders and shown):
            beside = f" beside that of {others}" if others else ""
            return f"{program} was shown the platform SDI by {by}{beside}, {_NOT_ASKED}"
        if not loaded.loaders:
            return (
                f"{program} loaded the driver {others} itself, without an OpenCL loader, so that nothing else"
                " can be shown to it; link it with libOpenCL.so.1, or choose that by its own options"
            )
        if not loaded.has_variables:
            return (
                f"{program}, which loaded {by}, was started without the variables that 'sdi env' prints;"
                " hand them on to it (sudo -E, docker --env)"
            )
        if not any(_follows(Path(loader)) for loader in loaded.loaders):
            return (
                f"{program} loaded {by}, which follows neither {' nor '.join(_FOLLOWED)}; give it another"
                f" loader with LD_LIBRARY_PATH, or write {self.library} into"
                " /etc/OpenCL/vendors/sdi.icd as root"
            )
        return f"{program} loaded {by}, but asked it for no platforms" + (
            f"; it loaded {others}" if others else ""
        )

    def _marks(self) -> bytes:
        return os.pread(self._mark, 4096, 0)

    def _asked(self) -> bool:
        # The file is out of reach where the application has other numbers of processes: containers.
        marks = self._marks()
        return ASKED in marks or (not marks and any(loaded.has_arena for loaded in self._seen.values()))

    def _loaded(self, pid: int) -> Loaded:
        """Raises OSError."""
        files = _mapped(pid)
        loaders = sorted(path for path in files if Path(path).name.startswith("libOpenCL"))
        known = _DRIVERS | self.drivers
        drivers = sorted(path for path in files if _stem(path) in known and path not in loaders)
        environ = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
        kept = any(each.startswith(tuple(f"{name}=".encode() for name in _FOLLOWED)) for each in environ)
        has_image = any(Path(path).name == LIBRARY.name for path in files)
        has_arena = any(path.startswith(_ARENA) for path in files)
        return Loaded(tuple(loaders), tuple(drivers), has_image, has_arena, kept)


def drivers_named_in(folder: Path) -> frozenset[str]:
    """The drivers that the .icd files of ``folder`` name, without versions."""
    found = set()
    with contextlib.suppress(OSError):
        for path in folder.glob("*.icd"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                found.add(_stem(path.read_text().strip()))
    return frozenset(found - {"", _stem(str(LIBRARY))})


def _stem(path: str) -> str:
    """ "libpocl" of "/usr/lib/libpocl.so.2.10.0"."""
    return Path(path).name.partition(".so")[0]


def _follows(loader: Path) -> bool:
    """Whether ``loader`` names a variable that the image is named by."""
    try:
        text = loader.read_bytes()
    except OSError:
        return False
    return any(name.encode() in text for name in _FOLLOWED)


def _mapped(pid: int) -> set[str]:
    """The files that a process has mapped.  Raises OSError."""
    maps = Path("/proc", str(pid), "maps").read_text(errors="replace")
    return {line[start:] for line in maps.splitlines() if (start := line.find("/")) >= 0}


def _family(pid: int) -> Iterator[int]:
    """``pid``, its children and theirs, but for what ended while this looked."""
    yield pid
    for task in _entries(Path("/proc", str(pid), "task")):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _entries(folder: Path) -> list[Path]:
    try:
        return [*folder.iterdir()]
    except OSError:
        return []


def _program(pid: int) -> str:
    """Raises OSError."""
    return Path(os.readlink(Path("/proc", str(pid), "exe"))).name
