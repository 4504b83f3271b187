"""Ranks of an MPI job as if each were a machine, and what the kernel counts on the link of each.

``python -m tests.cluster.machines RANKS RATE COMMAND ...`` runs under ``APART``, in namespaces of its own.
Each rank gets a network namespace, a host name and ``/dev/shm`` too, and is linked to a switch at ``RATE``
(tc's).  Runs ``COMMAND`` beside rank 0, and prints as JSON what each machine has sent and got: bytes with all
headers.  For MPICH, whose launcher starts ranks by what stands where ssh would.

``5000us`` for ``RATE``: each packet arrives so much later, at any rate; nothing is counted.  By TUN devices
and a thread between them: kernels may be built without netem.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from tests.cluster.ways import MPIEXEC, SDI, is_open_mpi
from tests.image_runs import image_environ, run

OVER_TCP = {"SDI_TEST_FAR": "1", "FI_PROVIDER": "tcp", "UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}
"""No shared memory, sdi's own or by any of the ways that MPICH may go."""
APART = ("unshare", "--user", "--map-root-user", "--net", "--mount")
_NETWORK = "10.77.0"
_TIMEOUT_S = 100.0
_TUNSETIFF, _IFF_TUN_NO_PI = 0x400454CA, 0x1001
_MACHINE = (
    "unshare --uts --mount "
    """sh -c 'hostname node"$0"; mount -t tmpfs none /dev/shm; exec "$@"' {machine} {command}"""
)
_AGENT = f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
machine=$((${{1##*.}} - 1)); shift
exec ip netns exec n$machine {_MACHINE.format(machine="$machine", command='sh -c "$*"')}
"""


@dataclass(frozen=True, slots=True)
class Link:
    """Bytes that a machine has sent and got."""

    sent: int
    got: int


def why_not() -> str:
    """Why there are no such machines here; empty where there are."""
    for tool in ("unshare", "ip", "tc"):
        if which(tool) is None:
            return f"no {tool}"
    if not MPIEXEC.exists() or is_open_mpi():
        return "no MPICH: pip install '.[mpi]'"
    tried = "mount -t tmpfs none /run && ip netns add n0"
    tried += " && ip link add port type veth peer name eth0 netns n0"
    tried += " && ip netns exec n0 tc qdisc add dev eth0 root tbf rate 1gbit burst 256k latency 50ms"
    made = subprocess.run([*APART, "sh", "-c", tried], capture_output=True, text=True, check=False)
    return f"no right to make namespaces: {made.stderr.strip()}" if made.returncode else ""


def on_machines(ranks: int, rate: str, command: Sequence[str | Path], **settings: str) -> list[Link]:
    """Run an application beside rank 0 on a member for each machine; what went over their links."""
    environ = image_environ(ranks, SDI_SPLIT="always", SDI_BALANCE="off", **settings) | OVER_TCP
    here = [*APART, sys.executable, "-m", "tests.cluster.machines", str(ranks), rate, *command]
    done = run(here, environ, _TIMEOUT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    return [Link(*each) for each in json.loads(done.stdout)]


def _do(command: str) -> str:
    return subprocess.run(shlex.split(command), stdout=subprocess.PIPE, text=True, check=True).stdout


def _join(machine: int) -> None:
    """A machine gets its address; its device is there."""
    _do(f"ip -n n{machine} addr add {_NETWORK}.{machine + 1}/24 dev eth0")
    _do(f"ip -n n{machine} link set eth0 up")
    _do(f"ip -n n{machine} link set lo up")


def _make(ranks: int, rate: str) -> None:
    """The machines, and the switch that they are linked to."""
    _do("mount -t tmpfs none /run")
    _do("ip link set lo up")
    _do("ip link add switch type bridge")
    _do("ip link set switch up")
    for k in range(ranks):
        _do(f"ip netns add n{k}")
        _do(f"ip link add port{k} type veth peer name eth0 netns n{k}")
        _do(f"ip link set port{k} master switch up")
        _join(k)
        _do(f"ip netns exec n{k} tc qdisc add dev eth0 root tbf rate {rate} burst 256k latency 50ms")


def _make_late(ranks: int, delay_ns: int) -> None:
    """The machines, and a network on which each packet takes so long."""
    _do("mount -t tmpfs none /run")
    setns, home = ctypes.CDLL(None).setns, os.open("/proc/self/ns/net", os.O_RDONLY)
    tunnels = []
    for k in range(ranks):
        _do(f"ip netns add n{k}")
        there = os.open(f"/run/netns/n{k}", os.O_RDONLY)
        setns(there, 0)
        tunnels.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
        fcntl.ioctl(tunnels[k], _TUNSETIFF, struct.pack("16sH22x", b"eth0", _IFF_TUN_NO_PI))
        setns(home, 0)
        os.close(there)
        _do(f"ip -n n{k} link set eth0 mtu 9000")
        _join(k)
    threading.Thread(target=_carry, args=(tunnels, delay_ns), daemon=True).start()


def _carry(tunnels: Sequence[int], delay_ns: int) -> None:
    """Take packets from each to the one that they are for, ``delay_ns`` later, in order."""
    waiting = deque[tuple[int, bytes]]()
    while True:
        while waiting and waiting[0][0] <= time.monotonic_ns():
            packet = waiting.popleft()[1]
            to = packet[19] - 1
            if 0 <= to < len(tunnels):
                os.write(tunnels[to], packet)
        left_ns = waiting[0][0] - time.monotonic_ns() if waiting else 1_000_000_000
        for each in select.select(tunnels, [], [], max(0, left_ns) / 1e9)[0]:
            packet = os.read(each, 1 << 16)
            if packet[0] >> 4 == 4:
                waiting.append((time.monotonic_ns() + delay_ns, packet))


def _counted(port: int) -> tuple[int, int]:
    """What has come out of a machine, and what went in."""
    (found,) = json.loads(_do(f"ip -s -j link show port{port}"))
    return found["stats64"]["rx"]["bytes"], found["stats64"]["tx"]["bytes"]


def main(ranks: int, rate: str, command: Sequence[str]) -> int:
    """See the module."""
    is_late = rate.endswith("us")
    if is_late:
        _make_late(ranks, 1000 * int(rate[:-2]))
    else:
        _make(ranks, rate)
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder, "agent")
        agent.write_text(_AGENT)
        agent.chmod(0o700)
        hosts = ",".join(f"{_NETWORK}.{k + 1}" for k in range(ranks))
        launcher = [str(MPIEXEC), "-launcher", "ssh", "-launcher-exec", str(agent), "-iface", "eth0"]
        job = [*launcher, "-hosts", hosts, "-n", str(ranks), *SDI, "run", "--", *command]
        machine = _MACHINE.format(machine=0, command=shlex.join(job))
        first = ["sh", "-c", f"exec ip netns exec n0 {machine}"]
        ended = subprocess.run(first, stdout=sys.stderr, check=False)
    print(json.dumps([] if is_late else [_counted(k) for k in range(ranks)]), flush=True)
    return ended.returncode


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
