"""hashcat: finds texts by a mask, of MD5, SHA-256 and a slow hash (PBKDF2)."""

import base64
import hashlib
import os
import subprocess
import tempfile

from kit import ON_GPU, result, timed

SLOW = hashlib.pbkdf2_hmac("sha256", b"z7", b"saltsalt", 1000)
ENCODED = [base64.b64encode(part).decode() for part in (b"saltsalt", SLOW)]
HOME = tempfile.TemporaryDirectory()
"""Where it, drivers and sdi keep what they built, of this run."""
TASKS = {
    "MD5": ("0", hashlib.md5(b"zzq7").hexdigest(), "?l?l?l?d"),
    "SHA-256": ("1400", hashlib.sha256(b"q7xa").hexdigest(), "?l?d?l?l"),
    "PBKDF2": ("10900", "sha256:1000:" + ":".join(ENCODED), "?l?d"),
}


def hashcat(*options: str) -> str:
    """What hashcat prints, by OpenCL."""
    common = ["--force", "--backend-ignore-cuda", "-D", "2" if ON_GPU else "1"]
    home = {"HOME": HOME.name, "XDG_DATA_HOME": HOME.name, "XDG_CACHE_HOME": HOME.name}
    done = subprocess.run(
        ["hashcat", *common, *options], env=os.environ | home, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else f"status {done.returncode}"


def crack(name: str) -> str:
    """The text that it finds."""
    mode, digest, mask = TASKS[name]
    options = ["--potfile-disable", "--quiet", "-w", "1", "-a", "3", "-m", mode]
    return hashcat(*options, digest, mask).rpartition(":")[2]


def speed(name: str) -> None:
    """Say how long a thousand million hashes take."""
    rates = hashcat("-b", "--machine-readable", "-m", TASKS[name][0]).splitlines()
    print("seconds", 1e9 / float(rates[-1].rpartition(":")[2]), name, flush=True)


for task in TASKS:
    found = crack(task)
    print("found", task, found)
    result(task, found)
if ON_GPU:
    for task in TASKS:
        speed(task)
else:
    timed(lambda: crack("MD5"), 1)
