"""Nodes as processes of this machine, over sockets: for tests, and to see what a job does without one.

``python -I -m sdi.cluster.local RANK PEER:DESCRIPTOR ...`` is one of them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping

from sdi.cluster.loopback import Loopback, sockets
from sdi.cluster.start import run_node
from sdi.cluster.transport import Transport
from sdi.devices.testing import stand_in


def start_nodes(size: int, environ: Mapping[str, str]) -> tuple[Transport, list[subprocess.Popen[bytes]]]:
    """Rank 0's transport, and the processes of the ranks 1 to ``size`` - 1; they end when rank 0 does."""
    ends = sockets(size)
    isolated = ["-I"] if sys.flags.isolated else []
    processes = []
    for rank in range(1, size):
        named = [f"{peer}:{end.fileno()}" for peer, end in ends[rank].items()]
        processes.append(
            subprocess.Popen(
                [sys.executable, *isolated, "-m", "sdi.cluster.local", str(rank), *named],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                pass_fds=[end.fileno() for end in ends[rank].values()],
            )
        )
    for each in ends[1:]:
        for end in each.values():
            end.close()
    return _tested(Loopback(0, ends[0]), environ), processes


def _tested(transport: Transport, environ: Mapping[str, str]) -> Transport:
    """``transport``, or what stands for it by SDI_TEST_TRANSPORT, "FILE:WHAT"."""
    said = environ.get("SDI_TEST_TRANSPORT", "")
    return stand_in(said, transport) if said else transport


def main(arguments: list[str]) -> int:
    """Be a node until rank 0 has gone."""
    ends = {}
    for named in arguments[1:]:
        peer, _, descriptor = named.partition(":")
        ends[int(peer)] = socket.socket(fileno=int(descriptor))
        ends[int(peer)].set_inheritable(False)
    # Rank 0 keeps signals for itself; its nodes are told by it.
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    return 0 if run_node(_tested(Loopback(int(arguments[0]), ends), os.environ)) else 1


if __name__ == "__main__":
    from sdi.locate import show_only_real_drivers

    show_only_real_drivers()
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
