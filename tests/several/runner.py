"""Runs programs on all devices of a platform and stores what they computed: ``... --out FILE.npz NAME ...``.

``OCL_TEST_PLATFORM`` names the platform.  A program is a module with ``run(devices)``, which checks what it
can and returns arrays that do not depend on how many devices there are.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

PROGRAMS = (
    "each_its_own",
    "matrix_product",
    "n_body",
    "options_of_each",
    "out_of_order",
    "pipeline",
    "pixels",
    "prints_and_atomics",
    "stencil",
    "subsets",
)


def devices() -> list[cl.Device]:
    """All devices of the platform that is asked for, or of the first."""
    wanted = os.environ.get("OCL_TEST_PLATFORM", "")
    return next(each for each in cl.get_platforms() if wanted in each.name).get_devices()


def main() -> int:
    """Run programs in turn; 0 unless one raised."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", default=PROGRAMS)
    options = parser.parse_args()
    found, everyone = {}, devices()
    for name in options.names or PROGRAMS:
        outputs = importlib.import_module(f"tests.several.{name}").run(everyone)
        found |= {f"{name}/{key}": array for key, array in outputs.items()}
    np.savez(options.out, **found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
