"""hashcat: finds texts by a mask, of MD5, SHA-256 and a slow hash (PBKDF2)."""

import base64
import hashlib
import os
import subprocess
import tempfile

from kit import result, timed

SLOW = hashlib.pbkdf2_hmac("sha256", b"z7", b"saltsalt", 1000)
ENCODED = [base64.b64encode(part).decode() for part in (b"saltsalt", SLOW)]
TASKS = {
    "MD5": ("0", hashlib.md5(b"zzq7").hexdigest(), "?l?l?l?d"),
    "SHA-256": ("1400", hashlib.sha256(b"q7xa").hexdigest(), "?l?d?l?l"),
    "PBKDF2": ("10900", "sha256:1000:" + ":".join(ENCODED), "?l?d"),
}


def crack(name: str) -> str:
    """What hashcat finds; it keeps nothing."""
    mode, digest, mask = TASKS[name]
    kind = "2" if os.environ.get("GALLERY_KIND") == "gpu" else "1"
    with tempfile.TemporaryDirectory() as home:
        options = ["--force", "--potfile-disable", "--quiet", "-w", "1", "-a", "3", "-D", kind, "-m", mode]
        done = subprocess.run(
            ["hashcat", *options, digest, mask],
            env=os.environ | {"HOME": home, "XDG_DATA_HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout.strip().rpartition(":")[2] if done.returncode == 0 else f"status {done.returncode}"


for task in TASKS:
    found = crack(task)
    print("found", task, found)
    result(task, found)
timed(lambda: crack("MD5"), 1)
