"""The same kernels on NVIDIA's OpenCL, on images of 1, 2, 4 GPUs, and split by hand with pycuda; one table.

``python bench/gpu_yardstick.py OUT.json [--members 1 2 4] [--only CASE ...] [--scale N]``, in the environment
that ``gpu_setup.sh`` makes.  Runs ``gpu_split.py`` and ``gpu_by_hand.py``, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
Found = dict[str, dict[str, float | str]]


def measure(script: str, arguments: list[str], environment: dict[str, str]) -> Found:
    """What one of the two scripts found, as far as it came."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        command = [sys.executable, str(HERE / script), "--json", str(out), *arguments]
        done = subprocess.run(command, env={**os.environ, **environment}, check=False, timeout=500)
        if done.returncode:
            print(f"{script} ended with {done.returncode}")
        found: Found = json.loads(out.read_text()) if out.exists() else {}
        return found


def machine() -> dict[str, str]:
    """GPUs, driver and commit."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    named = Path("COMMIT")
    commit = named.read_text().strip() if named.exists() else ""
    if not commit:
        show = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(show, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "gpus": f"{len(gpus)} x {gpus[0].split(',')[0]}",
        "driver": gpus[0].split(", ")[1],
        "commit": commit,
    }


def table(runs: dict[str, Found]) -> str:
    """Milliseconds per iteration; of the image, its speed against one GPU of NVIDIA's and by hand."""
    names = list(dict.fromkeys(name for found in runs.values() for name in found))
    lines = ["| runs on | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for label, found in runs.items():
        cells = []
        for name in names:
            if name not in found:
                cells.append("")
                continue
            ms = float(found[name]["ms"])
            cell = f"{ms:.3f}"
            base = runs.get("NVIDIA's OpenCL", {}).get(name)
            if base is not None and label != "NVIDIA's OpenCL":
                cell += f" ({float(base['ms']) / ms:.2f}x)"
            hand = runs.get(label.replace("image", "by hand"), {}).get(name)
            if label.startswith("image") and hand is not None:
                cell += f", {100 * float(hand['ms']) / ms:.0f} % of by hand"
            cells.append(cell)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run all, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--members", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--split", default="always")
    options = parser.parse_args()
    common = ["--scale", str(options.scale), "--only", *options.only]
    runs: dict[str, Found] = {}
    runs["NVIDIA's OpenCL"] = measure("gpu_split.py", common, {"OCL_ICD_VENDORS": os.environ["VENDORS"]})
    for members in options.members:
        runs[f"by hand, {members}"] = measure("gpu_by_hand.py", ["--gpus", str(members), *common], {})
        image = {
            "OCL_ICD_VENDORS": os.environ["IMAGE"],
            "SDI_NUM_GPUS": str(members),
            "SDI_SPLIT": options.split,
        }
        runs[f"image, {members}"] = measure("gpu_split.py", common, image)
        options.out.write_text(
            json.dumps({**machine(), "split": options.split, "runs": runs}, indent=1) + "\n"
        )
    print(table(runs))


if __name__ == "__main__":
    main()
