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

from bench.figures.spans import of_runs

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
    ``limit_s``: what one process may take, ``seconds``: after so much of that it begins no further run.
    ``inputs``: where inputs and results are kept; None: each process makes its own, and checks its results.
    """

    image_vendors: str
    plain_platform: str
    split: str
    limit_s: float
    seconds: float = 1e9
    inputs: Path | None = None

    def environ(self, setup: Setup, folder: Path) -> dict[str, str]:
        """The environment of one run; ``folder``: for what the service writes."""
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
            "SDI_STATS": str(folder / "stats.json"),
            "SDI_PROFILE": str(folder / "profile"),
        }

    def run(
        self,
        setup: Setup,
        name: str,
        size: str,
        repeat: int,
        check: bool,
        limit_s: float | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Sample:
        """One process that runs one application; ``{"error": text}`` when that goes wrong.

        ``check``: its results, or keep them for ``check_kept``.  ``settings``: more of its environment.
        """
        limit_s = self.limit_s if limit_s is None else limit_s
        with tempfile.TemporaryDirectory(prefix="sdi-figures-") as where:
            folder = Path(where)
            report = folder / "report.json"
            command = [sys.executable, "-m", "bench.applications", name, "--size", size]
            command += ["--repeat", str(repeat), "--seconds", str(self.seconds), "--report", str(report)]
            if self.inputs is not None:
                command += ["--inputs", str(self.inputs)]
                if check:
                    command += ["--results", str(self.inputs / "results")]
            if not check or self.inputs is not None:
                command.append("--no-check")
            try:
                ended = subprocess.run(
                    command,
                    cwd=ROOT,
                    env={**self.environ(setup, folder), **(settings or {})},
                    capture_output=True,
                    text=True,
                    timeout=limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"error": f"took more than {limit_s:.0f} s"}
            if not report.exists():
                return {"error": f"exit status {ended.returncode}: {ended.stderr[-500:]}"}
            written = json.loads(report.read_text())
            sample: Sample = {"device": written["device"], **written["applications"][name]}
            if setup.members and "error" not in sample:
                sample["counters"] = _counters(folder / "stats.json")
                sample["spans"] = of_runs(folder / "profile", sample["runs"])
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
