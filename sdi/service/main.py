"""The service process: ``python -I -m sdi.service.main COMMANDS NOTICES ROOM ADDRESSES``.

Two inherited socket descriptors, and where the application can map the memory that it shares with the
service (``room.py``).  Or ``ready``, a listening socket's and another descriptor: see ``ready.py``.

The C client starts it at the application's first ``clGetDeviceIDs``; it ends when the application does.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sdi import cache, limits, whole_file
from sdi.dataclass import asdict, dataclass
from sdi.errors import Status
from sdi.service.room import ArenaRoom, room_of
from sdi.service.standing import tell_at_signal
from sdi.service.watch import ClientGone, Watch
from sdi.settings import Settings, SettingsError, without_effect

if TYPE_CHECKING:
    from sdi.devices.base import Device
    from sdi.devices.discover import MemberSettings
    from sdi.devices.polling import Polling
    from sdi.devices.pooled import PooledMemory
    from sdi.explain.last_launch import Explained
    from sdi.launch.counters import Counters
    from sdi.service.kernel_output import Printed
    from sdi.service.session import Session
    from sdi.vmem.arena import Arena
    from sdi.vmem.spill.budget import Spill

_log = logging.getLogger("sdi")

COLLECTIONS = (10_000, 4, 250)
"""Thresholds of Python's collector, which holds the interpreter's lock: 40,000 objects take 3 ms."""


def main(arguments: list[str]) -> int:
    """Serve one application; 0 when it has gone, 1 when the service could not start."""
    commands, notices = (socket.socket(fileno=int(text)) for text in arguments[:2])
    for end in (commands, notices):
        end.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGRTMIN, signal.SIG_IGN)  # not its end while ``standing`` takes it
    faulthandler.register(signal.SIGRTMIN)  # where its threads stand, to stderr
    threading.current_thread().name = "sdi-scheduler"
    sys.setswitchinterval(1e-5)
    limits.prepare()
    try:
        settings = Settings.from_environ()
    except SettingsError as error:
        return refuse(commands, str(error))
    logging.basicConfig(
        level=settings.log.upper(), format="sdi: %(levelname)s: %(message)s", stream=sys.stderr
    )
    for text in without_effect(os.environ):
        _log.warning(text)
    if settings.service is not None:
        from sdi.service.handover import HandoverError, hand_over

        try:
            return hand_over(str(settings.service), (commands, notices), arguments[2:])
        except HandoverError as error:
            return refuse(commands, f"no image: {error}")
    watch = Watch(commands)
    if settings.stats is not None:
        try:
            whole_file.check(settings.stats)
        except OSError as error:
            return refuse(commands, f"no image: SDI_STATS={str(settings.stats)!r}: {error.strerror}")
    try:
        os.getcwd()
    except OSError:  # removed; nothing below can do without
        os.chdir("/")
    if not any(os.environ.get(name) for name in ("POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME")):
        with suppress(cache.NoCache):  # PoCL would load code from /tmp/pocl, which anybody may have made
            os.environ["POCL_CACHE_DIR"] = cache.folder("pocl")
    if settings.member_vendors:
        os.environ["OCL_ICD_VENDORS"] = settings.member_vendors
    limits.without_threads_for_algebra()
    gc.disable()  # what is made until the first command stays
    from sdi.service.early import import_beside_driver

    import_beside_driver()  # here: drivers and what is imported read the environment set above
    session = begin(commands, notices, room_of(arguments[2:]), settings, _image)
    if session is None:
        return 1
    session.page.tell_signals()
    tell_at_signal(session)
    # What is there now stays: to look through it for cycles, over and over, takes a tenth of a launch.
    gc.freeze()
    gc.enable()
    gc.set_threshold(*COLLECTIONS)

    def write() -> None:
        if session.printed is not None:
            session.printed.close()
        write_end(session, settings)

    has_files = settings.stats is not None or settings.profile is not None
    watch.serve(write, session.progress, has_files)
    try:
        status = run(session)
        watch.over()
    except ClientGone:
        status = 0
        watch.over()
    write()
    session.end_files()
    return status


@dataclass(frozen=True, slots=True)
class Image:
    """What a session works with.  ``pooled``: the memory of all members together, if they have that.
    ``polling``: what the members were opened with.  ``share``: gives the arena to other processes that have
    members, if there are any.  ``nodes``: what copies to and from the memory of each of these.
    """

    devices: list[Device]
    pooled: PooledMemory | None
    printed: Printed
    polling: Polling
    share: Callable[[Arena], None] | None = None
    nodes: Sequence[Device] = ()


OpenImage = Callable[["MemberSettings"], Image]
"""Opens the members of a session.  Raises ClError."""


def _image(settings: MemberSettings) -> Image:
    """The members on this machine."""
    from sdi.devices.discover import open_members, pool_of
    from sdi.devices.polling import Polling
    from sdi.service.kernel_output import Printed

    polling = Polling()
    devices = open_members(settings, polling)
    return Image(devices, pool_of(devices), Printed(), polling)


def begin(
    commands: socket.socket,
    notices: socket.socket,
    room: ArenaRoom,
    settings: Settings,
    open_image: OpenImage,
) -> Session | None:
    """The session of an application; None where there is none, which was said.

    ``room``: where the application can map what it shares.
    """
    try:
        # Here, not at the top: the drivers behind these imports read the environment set above.
        from sdi.devices.discover import MemberSettings
        from sdi.service.facts import announce
        from sdi.service.vendors import OWN_PLATFORM, vendors_of

        image = open_image(
            MemberSettings(
                count=settings.num_gpus,
                devices=settings.devices,
                memory_nbytes=settings.member_memory,
                node_memory_nbytes=settings.node_memory,
                testing=settings.test_members,
            )
        )
        devices = image.devices
        recorder = None
        if settings.profile is not None:
            from sdi.launch.profiling import opening
            from sdi.profile.record.recorder import Recorder

            try:
                recorder = Recorder(settings.profile, opening(devices, peer_pid(commands), settings.split))
            except OSError as error:
                raise SettingsError(f"SDI_PROFILE={str(settings.profile)!r}: {error.strerror}") from error
        vendors = partial(
            vendors_of,
            platform=settings.platform_vendor,
            device=settings.device_vendor,
            name=settings.device_name or "",
            platform_name=settings.platform_name or OWN_PLATFORM,
        )
        spill = _spill(settings, devices)
        shared = announce(
            commands,
            devices,
            room,
            vendors,
            image.share,
            settings.is_image,
            image.pooled,
            settings.fine_grain,
            spill,
        )
    except Exception as error:
        _log.debug("start", exc_info=True)
        scarce = limits.described() if isinstance(error, OSError | MemoryError | RuntimeError) else ""
        refuse(commands, f"no image: {str(error) or type(error).__name__}{scarce}")
        return None
    try:
        # The application goes on from here; what it asks for meanwhile waits in the socket.
        from sdi.service.session import Session

        session = Session(
            commands,
            notices,
            devices,
            settings.split,
            settings.verify,
            settings.coherence,
            settings.explain,
            image.printed,
            recorder,
            settings.balance,
            image.pooled,
            shared,
            settings.plays,
            settings.learns,
            image.polling,
            settings.is_image,
            image.nodes,
            spill,
            settings.member_memory is not None,
        )
    except Exception:
        _log.exception("the session could not start")
        shared[1].end()
        return None
    if settings.watches:
        session.page.watch()
    _write_counters(session.counters, settings.stats, finished=False)
    return session


def _spill(settings: Settings, devices: Sequence[Device]) -> Spill | None:
    """Where what host memory has no room for goes.  Raises SettingsError."""
    if settings.spill is None:
        return None
    from sdi.vmem.spill.budget import spill_of

    known = [device.capabilities for device in devices]
    promised = sum(each.memory_nbytes for each in known if each.kind.is_host_processor and not each.node)
    try:
        return spill_of(*settings.spill, settings.host_memory, promised)
    except OSError as error:
        raise SettingsError(f"SDI_SPILL={str(settings.spill[0])!r}: {error.strerror}") from error


def write_end(session: Session, settings: Settings) -> None:
    """Write what there is to write when the application has gone."""
    session.end_profile()
    session.count()
    _write_counters(session.counters, settings.stats, finished=True)
    if settings.stats is None and settings.explain:
        for each in _explained(session.counters).values():
            print("\n".join(each.text), file=sys.stderr)


def run(session: Session) -> int:
    """Serve until the application has gone; 0, or 1 where something of ours failed."""
    try:
        session.run()
        if session.learning is not None:
            session.learning.write()
    except Exception:
        _log.exception("the session ended")
        return 1
    return 0


def _explained(counters: Counters) -> Mapping[str, Explained]:
    if not counters.last:
        return {}  # what explains is loaded only where something is to be explained
    from sdi.explain.last_launch import explained

    return explained(counters)


def _write_counters(counters: Counters, path: Path | None, finished: bool) -> None:
    """Into the file of SDI_STATS, if there is one; a session whose counters can't be written goes on."""
    if path is None:
        return
    try:
        notes = {name: asdict(each) for name, each in _explained(counters).items()}
        counters.write(path, finished, notes)
    except OSError as error:
        _log.error("SDI_STATS=%r: %s: the counters are lost", str(path), error.strerror)


def peer_pid(end: socket.socket) -> int:
    """The process that made this pair of sockets: the application."""
    from sdi.service.handover import peer_of

    return peer_of(end)[0]


def refuse(commands: socket.socket, message: str) -> int:
    """Tell the client why there is no image."""
    from sdi.service.facts import failure_record

    with suppress(OSError):  # the application has gone: nobody is left to tell
        commands.sendall(failure_record(Status.DEVICE_NOT_FOUND, message))
    return 1


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[0] == "ready":
        from sdi.service.ready import wait_for_applications

        arguments = wait_for_applications(socket.socket(fileno=int(arguments[1])), int(arguments[2]))
    status = main(arguments)
    # The application is gone: what still runs on members is of no use to anybody.  What kernels printed
    # through C's stdio is: flush it before threads and drivers are dropped with the process.
    logging.shutdown()
    ctypes.CDLL(None).fflush(None)
    os._exit(status)
