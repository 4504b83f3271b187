"""The user's settings: environment variables whose names start with ``SDI_``, read once.

The service reads them at its start, ``sdi doctor`` to show them.  An empty variable counts as not set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from sdi.condition import ConditionError
from sdi.dataclass import dataclass
from sdi.selection import is_query, parse_selection
from sdi.sizes import size

Split = Literal["auto", "always", "never"]
Coherence = Literal["lazy", "host"]
Update = Literal["shared", "batch", "eager", "lazy", "rolling"]
Verify = Literal["off", "stop", "warn"]
Balance = tuple[Literal["auto", "off", "random"], int]
"""How shares adapt, and the seed if they do so at random."""

DeviceVendor = tuple[str, int | None]
"""CL_DEVICE_VENDOR, and CL_DEVICE_VENDOR_ID if it was given."""

SpillSetting = tuple[Path, int | None]
"""A folder, and a number of bytes if it was given."""

MAX_MEMBERS = 256
_PAGE_NBYTES = 4096
BLOCK_NBYTES = 256 << 10
"""Of rolling update, if none is given."""

_T = TypeVar("_T")


class SettingsError(ValueError):
    """A setting is malformed; the text is one line that names the variable, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class FineGrain:
    """How fine-grained shared virtual memory is kept coherent (SDI_FINE_GRAIN).

    shared: members use it where it is, if they can; else, and by all others, they have copies, of which
    batch moves all before and after each launch, eager what was written, and lazy and rolling bring home
    what the application looks at: all of a region, or blocks of it.
    """

    update: Update = "shared"
    block_nbytes: int = 0
    """rolling: of a block, whole pages."""
    most_blocks: int = 0
    """rolling: how many may be written and not be taken yet; 0: two for each region."""


IN_PLACE = FineGrain()


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, parsed.  None: not set, the part of sdi concerned chooses."""

    num_gpus: int | None = None
    """How many members make the image (SDI_NUM_GPUS)."""
    devices: str | None = None
    """Which devices become members (SDI_DEVICES): numbers and parts of names, or a query."""
    is_image: bool = True
    """The application sees one device; off: each member as a device of its own (SDI_IMAGE)."""
    split: Split = "auto"
    """auto: where it pays; always: wherever it is safe; never: whole on one member (SDI_SPLIT)."""
    balance: Balance = ("auto", 0)
    """auto: shares follow what launches were measured to take; off: equal shares; random:SEED, for tests:
    cuts anywhere, and others now and then (SDI_BALANCE)."""
    coherence: Coherence = "lazy"
    """lazy: data stays where it was written; host: through the host after every kernel (SDI_COHERENCE)."""
    fine_grain: FineGrain = IN_PLACE
    """How fine-grained shared virtual memory is kept coherent (SDI_FINE_GRAIN)."""
    watches: bool = True
    """Linux may be asked what the application writes to memory of its own (SDI_HOST_WATCH)."""
    member_memory: int | None = None
    """Limit of each member's memory in bytes (SDI_MEMBER_MEMORY: 512M, 2G; powers of 1024)."""
    node_memory: int | None = None
    """Limit, on each node of another machine, of memory for what its members have no room for
    (SDI_NODE_MEMORY, likewise; 0: none)."""
    spill: SpillSetting | None = None
    """Folder of files for buffers that host memory has no room for, and what they may have in all (SDI_SPILL:
    /nvme, /nvme:200G; without a limit half of what is free there)."""
    host_memory: int | None = None
    """Of buffers, how much may be in host memory where the rest goes to files (SDI_HOST_MEMORY: 512M, 2G)."""
    member_vendors: str | None = None
    """Directory of the real drivers' .icd files (SDI_MEMBER_VENDORS)."""
    platform_name: str | None = None
    """CL_PLATFORM_NAME, instead of "SDI"; "members": theirs, where all have one (SDI_PLATFORM_NAME)."""
    platform_vendor: str | None = None
    """CL_PLATFORM_VENDOR, instead of the members' (SDI_PLATFORM_VENDOR)."""
    device_vendor: DeviceVendor | None = None
    """CL_DEVICE_VENDOR and CL_DEVICE_VENDOR_ID, instead of the members' (SDI_DEVICE_VENDOR: NAME:0x10DE)."""
    device_name: str | None = None
    """CL_DEVICE_NAME, instead of the image's; "members": theirs, where all have one (SDI_DEVICE_NAME)."""
    log: str = "warning"
    """Least severe level that the service writes to stderr: debug, info, warning or error (SDI_LOG)."""
    stats: Path | None = None
    """File that gets the counters at the end of the session (SDI_STATS); "%p": this process's id."""
    verify: Verify = "off"
    """Run each split launch whole too and compare; stop: a difference ends the session, warn: it is logged
    and the program goes on with the whole run's bytes (SDI_VERIFY)."""
    explain: bool = False
    """Note how and why each kernel is split: into the file of SDI_STATS, or to stderr (SDI_EXPLAIN)."""
    test_members: str | None = None
    """For tests: a file of Python that says what stands for members (SDI_TEST_MEMBERS, "hooks.py:late=1")."""
    profile: Path | None = None
    """Folder that gets what the session did and when (SDI_PROFILE); ``sdi profile`` reads it."""
    service: Path | None = None
    """Socket of a service that runs already, in a job of several processes (SDI_SERVICE)."""
    node_timeout_s: int = 30
    """How long a node of a job may be silent that has something to do (SDI_NODE_TIMEOUT); 0: for ever."""
    plays: bool = True
    """Known commands are executed in C, without Python (SDI_PLAYER)."""
    learns: bool = True
    """Launches begin with what earlier runs of the same program learnt, kept in the cache (SDI_LEARNT)."""
    python: str | None = None
    """The Python that runs the service (SDI_PYTHON); read by the library."""

    @property
    def said_of_devices(self) -> list[str]:
        """For people who look at the members: what an application sees, if that is not one device."""
        said = [] if self.is_image else ["SDI_IMAGE=off: an application sees each member as a device"]
        if self.spill is not None:
            folder, limit_nbytes = self.spill
            most = "half of what is free there" if limit_nbytes is None else size(limit_nbytes)
            host = "half of what is free" if self.host_memory is None else size(self.host_memory)
            said.append(f"buffers beyond {host} of host memory lie in files in {folder}, up to {most}")
        return said

    @staticmethod
    def from_environ(environ: Mapping[str, str] | None = None) -> Settings:
        """The settings in ``environ`` (default: this process's).  Raises SettingsError."""
        given = os.environ if environ is None else environ

        def read(name: str, parse: Callable[[str, str], _T], default: _T) -> _T:
            text = given.get(name, "").strip()
            return parse(name, text) if text else default

        return Settings(
            num_gpus=read("SDI_NUM_GPUS", _num_members, None),
            devices=read("SDI_DEVICES", _devices, None),
            is_image=read("SDI_IMAGE", _one_of("on", "off"), "on") == "on",
            split=cast(Split, read("SDI_SPLIT", _one_of("auto", "always", "never"), "auto")),
            balance=read("SDI_BALANCE", _balance, ("auto", 0)),
            coherence=cast(Coherence, read("SDI_COHERENCE", _one_of("lazy", "host"), "lazy")),
            fine_grain=read("SDI_FINE_GRAIN", _fine_grain, IN_PLACE),
            watches=read("SDI_HOST_WATCH", _one_of("on", "off"), "on") == "on",
            member_memory=read("SDI_MEMBER_MEMORY", _nbytes, None),
            node_memory=read("SDI_NODE_MEMORY", _nbytes_or_none, None),
            spill=read("SDI_SPILL", _spill, None),
            host_memory=read("SDI_HOST_MEMORY", _nbytes, None),
            member_vendors=read("SDI_MEMBER_VENDORS", _text, None),
            platform_name=read("SDI_PLATFORM_NAME", _vendor, None),
            platform_vendor=read("SDI_PLATFORM_VENDOR", _vendor, None),
            device_vendor=read("SDI_DEVICE_VENDOR", _device_vendor, None),
            device_name=read("SDI_DEVICE_NAME", _vendor, None),
            log=read("SDI_LOG", _one_of("debug", "info", "warning", "error"), "warning"),
            stats=read("SDI_STATS", _path, None),
            verify=read("SDI_VERIFY", _verify, "off"),
            explain=read("SDI_EXPLAIN", _one_of("0", "1"), "0") == "1",
            test_members=read("SDI_TEST_MEMBERS", _text, None),
            profile=read("SDI_PROFILE", _path, None),
            service=read("SDI_SERVICE", _path, None),
            node_timeout_s=read("SDI_NODE_TIMEOUT", _seconds, 30),
            plays=read("SDI_PLAYER", _one_of("on", "off"), "on") == "on",
            learns=read("SDI_LEARNT", _one_of("on", "off"), "on") == "on",
            python=read("SDI_PYTHON", _text, None),
        )


NAMES = (
    "SDI_NUM_GPUS",
    "SDI_DEVICES",
    "SDI_PROFILE",
    "SDI_VERIFY",
    "SDI_EXPLAIN",
    "SDI_IMAGE",
    "SDI_SPLIT",
    "SDI_BALANCE",
    "SDI_COHERENCE",
    "SDI_FINE_GRAIN",
    "SDI_HOST_WATCH",
    "SDI_MEMBER_MEMORY",
    "SDI_NODE_MEMORY",
    "SDI_SPILL",
    "SDI_HOST_MEMORY",
    "SDI_MEMBER_VENDORS",
    "SDI_PLATFORM_NAME",
    "SDI_PLATFORM_VENDOR",
    "SDI_DEVICE_VENDOR",
    "SDI_DEVICE_NAME",
    "SDI_SERVICE",
    "SDI_NODE_TIMEOUT",
    "SDI_PLAYER",
    "SDI_LEARNT",
    "SDI_PYTHON",
    "SDI_LOG",
    "SDI_STATS",
    "SDI_TEST_MEMBERS",
    "SDI_TEST_NODES",
    "SDI_TEST_TRANSPORT",
    "SDI_TEST_FAR",
)
"""Every variable that is read."""

_OF_SPLITTING = ("SDI_SPLIT", "SDI_VERIFY")


def without_effect(environ: Mapping[str, str]) -> list[str]:
    """What to say of variables that change nothing: misspelled, about files or splitting that is off."""
    host = environ.get("SDI_HOST_MEMORY", "").strip()
    alone = (
        [f"SDI_HOST_MEMORY={host} has no effect: without SDI_SPILL there is nowhere else for buffers to go"]
        if host and not environ.get("SDI_SPILL", "").strip()
        else []
    )
    return alone + _without_splitting(environ) + _misspelled(environ)


def _without_splitting(environ: Mapping[str, str]) -> list[str]:
    """Where nothing is split: SDI_IMAGE=off."""
    is_off = environ.get("SDI_IMAGE", "").strip().lower() == "off"
    given = {name: environ.get(name, "").strip() for name in _OF_SPLITTING}
    return [
        f"{name}={text} has no effect: with SDI_IMAGE=off each member is a device, and nothing is split"
        for name, text in given.items()
        if is_off and text
    ]


_INTERNAL = frozenset({"SDI_IN_SERVICE"})


def _misspelled(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like settings but are none, with the setting that looks most like each."""
    known = {*NAMES, *_INTERNAL}
    return [
        f"{name} has no effect: sdi has no such setting{_nearest(name)}"
        for name in sorted(environ)
        if name.startswith("SDI_") and name not in known
    ]


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # here: every service reads settings

    near = get_close_matches(name, [each for each in NAMES if not each.startswith("SDI_TEST_")], 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _text(_name: str, text: str) -> str:
    return text


def _devices(name: str, text: str) -> str:
    if is_query(text):
        try:
            parse_selection(text)
        except ConditionError as error:
            raise SettingsError(f"{name}: {error}") from error
    return text


def _vendor(name: str, text: str) -> str:
    if not re.fullmatch(r"[ -~]{1,255}", text):
        raise SettingsError(f"{name}={text!r}: expected up to 255 printable characters of ASCII")
    return text


def _device_vendor(name: str, text: str) -> DeviceVendor:
    match = re.fullmatch(r"(.*?)\s*(?::\s*(0[xX][0-9a-fA-F]{1,8})\s*)?", text, re.DOTALL)
    assert match is not None
    if not match[1] or re.search(r":\s*0[xX]", match[1]):
        raise SettingsError(f'{name}={text!r}: expected a name, or a name, ":" and a number such as 0x10DE')
    return _vendor(name, match[1]), int(match[2], 16) if match[2] else None


def _path(_name: str, text: str) -> Path:
    return Path(text.replace("%p", str(os.getpid())))


def _integer(name: str, text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
        raise SettingsError(f"{name}={text!r}: expected a whole number from {low} to {high}")
    return int(text)


def _num_members(name: str, text: str) -> int:
    return _integer(name, text, 1, MAX_MEMBERS)


def _seconds(name: str, text: str) -> int:
    return _integer(name, text, 0, 86_400)


def _balance(name: str, text: str) -> Balance:
    mode, colon, seed = text.lower().partition(":")
    if mode == "random" and re.fullmatch(r"[0-9]{1,9}", seed):
        return "random", int(seed)
    if colon or mode not in ("auto", "off"):
        raise SettingsError(f"{name}={text!r}: expected auto, off or random:SEED")
    return ("auto", 0) if mode == "auto" else ("off", 0)


def _fine_grain(name: str, text: str) -> FineGrain:
    word, *parts = text.lower().split(":")
    if word not in get_args(Update) or len(parts) > (2 if word == "rolling" else 0):
        choices = "shared, batch, eager, lazy, rolling or rolling:BLOCK:COUNT such as rolling:256K:8"
        raise SettingsError(f"{name}={text!r}: expected {choices}")
    block_nbytes = 0
    if word == "rolling":
        block_nbytes = _nbytes(name, parts[0]) if parts else BLOCK_NBYTES
        if block_nbytes % _PAGE_NBYTES:
            raise SettingsError(f"{name}={text!r}: expected blocks of whole pages, multiples of 4K")
    most_blocks = int(parts[1]) if len(parts) > 1 and re.fullmatch(r"[0-9]{1,6}", parts[1]) else 0
    if len(parts) > 1 and not most_blocks:
        raise SettingsError(f"{name}={text!r}: expected a whole number of blocks from 1 to 999999")
    return FineGrain(cast(Update, word), block_nbytes, most_blocks)


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if text.lower() not in choices:
            raise SettingsError(f"{name}={text!r}: expected {', '.join(choices[:-1])} or {choices[-1]}")
        return text.lower()

    return parse


def _verify(name: str, text: str) -> Verify:
    found: dict[str, Verify] = {"0": "off", "off": "off", "1": "stop", "stop": "stop", "warn": "warn"}
    if text.lower() not in found:
        raise SettingsError(f"{name}={text!r}: expected 0, 1, off, stop or warn")
    return found[text.lower()]


def _spill(name: str, text: str) -> SpillSetting:
    folder, colon, limit = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9][^/]*", limit):
        return _path(name, text), None
    try:
        return _path(name, folder), _nbytes(name, limit)
    except SettingsError as error:
        what = 'expected a folder, or a folder, ":" and a number of bytes such as 512M or 2G'
        raise SettingsError(f"{name}={text!r}: {what}") from error


def _nbytes_or_none(name: str, text: str) -> int:
    return 0 if text == "0" else _nbytes(name, text)


def _nbytes(name: str, text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise SettingsError(f"{name}={text!r}: expected a number of bytes such as 512M or 2G")
    return int(match[1]) << (10 * " KMGT".index(match[2].upper() or " "))
