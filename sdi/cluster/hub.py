"""Rank 0: serves the application's processes with the members of the whole job, one at a time."""

from __future__ import annotations

import logging
import os
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

from sdi.cluster.head import Heads
from sdi.cluster.job import Job, JobError
from sdi.cluster.members import facts_of, node_memories, open_job_members
from sdi.devices.discover import MemberSettings, all_devices, pool_of
from sdi.devices.kinds import Found
from sdi.errors import ClError, Status
from sdi.service.handover import Handed, HandoverError, listen, take_over
from sdi.service.kernel_output import Printed
from sdi.service.main import Image, begin, refuse, run, write_end
from sdi.service.room import room_of
from sdi.settings import Settings, SettingsError

_log = logging.getLogger("sdi.job")
_BUSY = "the image of this job serves one process at a time, and another one is using it"


class Hub:
    """Owned by: the main thread; its own ``-hub`` thread takes processes, ``-scheduler`` serves one.

    ``path``: of the socket, for SDI_SERVICE; in a folder of the user's own, made here.
    """

    def __init__(self, path: str | None = None) -> None:
        self._folder = None if path else tempfile.mkdtemp(prefix="sdi-job-")
        self.path: Final = path or os.path.join(str(self._folder), "service")
        self._listener: Final = listen(self.path)
        self._job: Job | None = None
        self._devices: Sequence[Found] = ()
        self._printed: Printed | None = None
        self._session: threading.Thread | None = None
        self._served: Handed | None = None
        self._taking: threading.Thread | None = None

    def begin(self, job: Job) -> None:
        """Serve from now on."""
        self._job = job
        self._devices = all_devices()
        self._taking = threading.Thread(target=self._take, name="sdi-hub", daemon=True)
        self._taking.start()

    def close(self, patience_s: float) -> None:
        """Take nobody any more; wait so long for the one that is served."""
        self._listener.shutdown(socket.SHUT_RDWR)
        if self._folder is not None:  # at once: a launcher that ends its processes has little patience
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._taking is not None:
            self._taking.join()
        if self._session is not None:
            self._session.join(patience_s)
        self._listener.close()
        if self._printed is not None:
            self._printed.close()

    def _take(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                handed = take_over(connection)
            except (HandoverError, OSError) as error:
                _log.error("an application could not be taken over: %s", error)
                connection.close()
                continue
            if self._session is not None and self._session.is_alive():
                if self._served is not None and not _is_over(self._served):
                    refuse(handed.commands, _BUSY)
                    _close(handed)
                    continue
                self._session.join()  # what the process before had is being closed
            self._served = handed
            self._session = threading.Thread(
                target=self._serve, args=(handed,), name="sdi-scheduler", daemon=True
            )
            self._session.start()

    def _serve(self, handed: Handed) -> None:
        job = self._job
        assert job is not None
        try:
            try:
                settings = Settings.from_environ(handed.environ)
            except SettingsError as error:
                refuse(handed.commands, str(error))
                return
            room = room_of(handed.arguments)
            session = begin(handed.commands, handed.notices, room, settings, self._open)
            if session is not None:
                session.keep_parts(partial(Heads, job))
                run(session)
                session.counters.network = {
                    ends: asdict(traffic) for ends, traffic in job.traffic().items() if traffic.messages
                }
                write_end(session, settings)
                session.close()
        except Exception:
            _log.exception("the session ended")
        finally:
            job.end_session()
            _close(handed)

    def _open(self, settings: MemberSettings) -> Image:
        """The members of a session."""
        assert self._job is not None
        if self._printed is None:  # not before: the application was started with this process' output
            self._printed = Printed()
            self._job.printed = self._printed.add
        try:
            members = open_job_members(settings, self._job, self._devices, facts_of(self._devices))
        except JobError as error:
            raise ClError(Status.DEVICE_NOT_AVAILABLE, str(error)) from error
        nodes = node_memories(settings, self._job, members)
        return Image(members, pool_of(members), self._printed, self._job.polling, self._job.share, nodes)


def _is_over(handed: Handed) -> bool:
    """Whether the process that handed the application over, or the application, has ended.  Any thread."""
    descriptor = handed.commands.fileno()
    if descriptor < 0:
        return True
    looked = select.poll()
    looked.register(descriptor, select.POLLRDHUP)
    return bool(looked.poll(0))


def _close(handed: Handed) -> None:
    """Let the process that handed the application over go."""
    handed.commands.close()
    handed.notices.close()
    try:
        handed.connection.send(b"\0", socket.MSG_NOSIGNAL)
    except OSError:
        _log.debug("who handed over has gone")
    handed.connection.close()
