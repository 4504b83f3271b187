"""darktable-cli: a picture of 16 bits through the standard modules and a filter for its size."""

import os
import subprocess
import tempfile
from pathlib import Path

import cv2
import numpy as np
from kit import result, timed

rng = np.random.default_rng(1)
picture = cv2.GaussianBlur(rng.integers(0, 65536, (800, 1200, 3), dtype=np.uint16), (0, 0), 3)
picture = cv2.normalize(picture, None, 0, 65535, cv2.NORM_MINMAX)


def develop() -> tuple[np.ndarray, str]:
    """The picture, and what darktable says of OpenCL."""
    with tempfile.TemporaryDirectory() as folder:
        cv2.imwrite(f"{folder}/in.png", picture)
        options = ["--configdir", folder, "--cachedir", f"{folder}/cache", "--library", ":memory:"]
        # It takes CPUs only where their line says so; the device's name, without what is no letter or digit.
        name = os.environ.get("GALLERY_DEVICE", "")
        line = f"cldevice_v4_{''.join(c for c in name if c.isalnum()).lower()}=0 250 0 16 16 1024 0 0 0.000"
        command = ["darktable-cli", f"{folder}/in.png", f"{folder}/out.png", "--hq", "1", "--width", "1000"]
        done = subprocess.run(
            [*command, "--core", *options, "--conf", "opencl=TRUE", "--conf", line, "-d", "opencl"],
            capture_output=True,
            text=True,
            check=True,
        )
        return cv2.imread(str(Path(folder, "out.png")), cv2.IMREAD_UNCHANGED), done.stdout


developed, said = develop()
if "FINALLY: opencl is AVAILABLE" not in said:
    why = [line for line in said.splitlines() if "failed" in line or "discarding" in line]
    raise SystemExit(f"no OpenCL: {why[0].strip() if why else 'no device'}")
result("developed", developed)
timed(develop, 1)
