"""The ways in which applications are run: the plain driver, and images of several kinds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
END_PATIENCE_S = 30.0
Sample = dict[str, Any]
"""What ``bench.applications --report`` writes for one application, and the service's ``counters``."""


@dataclass(frozen=True, slots=True)
class Setup:
    """``members`` of the image; 0: the plain driver.  ``memory_nbytes``: limit of each member, 0: none."""

    members: int
    coherence: str = "lazy"
    memory_nbytes: int = 0

    @property
    def label(self) -> str:
        """A short name, also the key in the raw figures."""
        if not self.members:
            return "plain"
        host = ", through the host" if self.coherence == "host" else ""
        return f"{self.members} member{'s' * (self.members > 1)}{host}"


@dataclass(frozen=True, slots=True)
class Host:
    """Where things are on this machine.

    ``image_vendors``: the directory whose sdi.icd loaders find.  ``plain_platform``: part of the name of the
    platform whose first device is the plain one, "" for the first.  ``split``: SDI_SPLIT of all images.
    ``limit_s``: what one process may take.
    """

    image_vendors: str
    plain_platform: str
    split: str
    limit_s: float

    def environ(self, setup: Setup, stats: Path) -> dict[str, str]:
        """The environment of one run."""
        kept = ("SDI_PYTHON", "SDI_MEMBER_VENDORS", "SDI_DEVICES")
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SDI_") or k in kept}
        if not setup.members:
            return environ | {"OCL_TEST_PLATFORM": self.plain_platform}
        if "OCL_ICD_VENDORS" in environ:
            environ.setdefault("SDI_MEMBER_VENDORS", environ["OCL_ICD_VENDORS"])
        if setup.memory_nbytes:
            environ["SDI_MEMBER_MEMORY"] = str(setup.memory_nbytes)
        return environ | {
            "OCL_ICD_VENDORS": self.image_vendors,
            "OCL_TEST_PLATFORM": "SDI",
            "SDI_NUM_GPUS": str(setup.members),
            "SDI_SPLIT": self.split,
            "SDI_COHERENCE": setup.coherence,
            "SDI_STATS": str(stats),
        }

    def run(self, setup: Setup, name: str, size: str, repeat: int, check: bool) -> Sample:
        """One process that runs one application; ``{"error": text}`` when that goes wrong."""
        with tempfile.TemporaryDirectory(prefix="sdi-figures-") as folder:
            report, stats = Path(folder, "report.json"), Path(folder, "stats.json")
            command = [sys.executable, "-m", "bench.applications", name, "--size", size]
            command += ["--repeat", str(repeat), "--report", str(report), *(["--no-check"] * (not check))]
            try:
                ended = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=self.environ(setup, stats),
                    capture_output=True,
                    text=True,
                    timeout=self.limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"took more than {self.limit_s:.0f} s"}
            if not report.exists():
                return {"error": f"exit status {ended.returncode}: {ended.stderr[-500:]}"}
            written = json.loads(report.read_text())
            sample: Sample = {"device": written["device"], **written["applications"][name]}
            if setup.members and "error" not in sample:
                sample["counters"] = _counters(stats)
            return sample


def _counters(path: Path) -> Mapping[str, Any]:
    """What the service writes when the application has ended; empty when it does not in time."""
    deadline = time.monotonic() + END_PATIENCE_S
    while time.monotonic() < deadline:
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            if found["finished"]:
                return found
        time.sleep(0.02)
    return {}
