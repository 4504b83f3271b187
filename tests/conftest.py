"""What every test gets: caches of its own, a clean environment, and a look at what it leaves behind.

A module fails when it leaves threads, file descriptors or services behind; a test fails on a log record of
level WARNING or above that it did not announce with ``@pytest.mark.logs("pattern")``.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # on a loaded machine anything takes long
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 10.0
DRIVERS = os.environ.get("DRIVERS", "")
"""A folder of .icd files: run the tests with these drivers in place of the machine's."""

MARK = "TESTS_OF_SDI"
"""Variable that services inherit from this run, to tell them from those of others."""

LONGEST = (
    "test_programs.py",
    "client/test_client.py",
    "test_large_programs.py",
    "test_several.py",
    "generated/test_generated.py",
    "cluster/test_jobs.py",
    "sequences/test_sequences.py",
    "runtime/test_virtual_device.py",
    "test_c_programs.py",
    "sampling/test_programs.py",
    "cluster/test_mpi.py",
    "profile/test_runs.py",
    "sampling/test_parametric.py",
    "runtime/test_loss.py",
    "launch/test_appending.py",
    "macros/test_macros.py",
    "service/test_spilled.py",
    "launch/test_trials.py",
    "player/test_issuers.py",
    "player/test_harness.py",
)
"""Files that take longest come first: what comes last in one of several processes, the others wait for."""

_CACHES = ROOT / "build" / "test-cache"


def _prepare() -> None:
    """Before anything imports a driver: set the caches, drop the user's settings."""
    os.environ.setdefault("POCL_CACHE_DIR", str(_CACHES / "pocl"))
    os.environ.setdefault("XDG_CACHE_HOME", str(_CACHES / "xdg"))
    for folder in (os.environ["POCL_CACHE_DIR"], os.environ["XDG_CACHE_HOME"]):
        Path(folder).mkdir(parents=True, exist_ok=True)
    # pyopencl sets one at its import, and its loader crashes without it; by the other no test has the player.
    kept = ("PYOPENCL_HOME", "SDI_PLAYER")
    for name in [n for n in os.environ if n.startswith(("SDI_", "OCL_ICD_", "PYOPENCL_"))]:
        if name not in kept:
            del os.environ[name]
    if DRIVERS:
        os.environ["OCL_ICD_VENDORS"] = os.environ["SDI_MEMBER_VENDORS"] = DRIVERS
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start many Pythons
    sys.dont_write_bytecode = False
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads wait in loops
    os.environ["SDI_LEARNT"] = "off"  # what a test sees depends on no earlier one
    os.environ[MARK] = str(os.getpid())


_prepare()  # not when pytest is configured: other folders' conftest may have been imported then


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", 'logs("pattern"): log records of level WARNING that match are expected'
    )
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # by how many tests a file has, which says little


def pytest_collection_finish() -> None:
    """Collections of garbage need not look through all that pytest and the tests' modules are made of."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    places = {ROOT / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the test on log records that it did not announce."""
    handler = _Records()
    logging.getLogger().addHandler(handler)
    try:
        result = yield
    finally:
        logging.getLogger().removeHandler(handler)
    expected = [mark.args[0] for mark in item.iter_markers("logs")]
    unexpected = [
        f"{record.name}: {record.getMessage()}"
        for record in handler.records
        if not any(re.search(pattern, record.getMessage()) for pattern in expected)
    ]
    if unexpected:
        pytest.fail("unexpected log records:\n" + "\n".join(unexpected), pytrace=False)
    return result


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail the module when threads, descriptors or services outlive it."""
    threads = set(threading.enumerate())
    descriptors = _descriptors()
    yield
    gc.collect()
    gc.freeze()  # what other modules' tests need not look through either
    left = [
        *_threads_left(threads),
        *(f"descriptor {number}: {what}" for number, what in _descriptors_left(descriptors)),
        *_services_left(),
    ]
    if left:
        pytest.fail("left behind:\n" + "\n".join(left), pytrace=False)


def _threads_left(before: set[threading.Thread]) -> list[str]:
    deadline = time.monotonic() + PATIENCE_S
    # pytest-timeout's own, where it has no signals (in processes of xdist), lives until the test is over.
    new = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith("pytest_timeout")
    ]
    for thread in new:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [f"thread {thread.name}" for thread in new if thread.is_alive()]


def _descriptors() -> dict[int, str]:
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[int(entry.name)] = os.readlink(entry)
        except FileNotFoundError:
            continue  # the listing's own
    return found


def _descriptors_left(before: dict[int, str]) -> list[tuple[int, str]]:
    """New descriptors; what a driver keeps open for the life of the process does not count."""
    kept = re.compile(r"^(/dev/(dri|nvidia|urandom|null)|/sys/|.*/pocl/)")
    return [
        (number, what)
        for number, what in _descriptors().items()
        if before.get(number) != what and not kept.match(what)
    ]


def _services() -> list[int]:
    """Services that programs of this run have started."""
    mark = f"{MARK}={os.getpid()}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"sdi.service.main" in (folder / "cmdline").read_bytes() and mark in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # it has just ended, or belongs to somebody else
    return found


def _services_left() -> list[str]:
    """Services that do not end by themselves soon; they are killed."""
    deadline = time.monotonic() + PATIENCE_S
    left = []
    for pid in _services():
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ended, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ended:
                left.append(f"service {pid}")
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
    return left
