#!/bin/bash
# What of tests/ needs a GPU, and tests/programs on images of its GPUs: see gpu_setup.sh.  $1: folder for logs;
# $2, $3, ...: numbers of members (default: 1, 2, 3, 4 as there are).  All must pass and give the bytes of the first.
set -u
out=${1:?folder for logs}
shift
mkdir -p "$out"
. bench/gpu_setup.sh
[ $# -gt 0 ] || set -- $(seq 1 $((GPUS < 4 ? GPUS : 4)))
parallel=$("$PYTHON" -c 'import xdist' 2>/dev/null && echo -n 8)
OCL_ICD_VENDORS=$VENDORS timeout 400 "$PYTHON" -m pytest -q ${parallel:+-n 8} -p no:benchmark -p no:cacheprovider \
    tests/devices/test_cuda*.py tests/devices/test_page_locks.py tests/clc/test_cuda*.py >"$out/tests.log" 2>&1
status=$?
tail -n 12 "$out/tests.log"
for members in "$@"; do
    OCL_TEST_PLATFORM=SDI OCL_ICD_VENDORS=$IMAGE SDI_NUM_GPUS=$members SDI_SPLIT=always SDI_STATS="$out/stats$members.json" \
        timeout 200 "$PYTHON" -W ignore -m tests.programs.runner --out "$WORK/programs$members.npz" \
        >"$out/programs$members.log" 2>&1 || status=1
    tail -n 1 "$out/programs$members.log"
done
"$PYTHON" - "$WORK" "$@" <<'PY' || status=1
import sys

import numpy as np

folder, first, *others = sys.argv[1:]
wanted = np.load(f"{folder}/programs{first}.npz")
wrong = False
for members in others:
    found = np.load(f"{folder}/programs{members}.npz")
    missing = sorted(set(wanted.files) - set(found.files))
    common = [name for name in wanted.files if name in found.files]
    differing = [name for name in common if wanted[name].tobytes() != found[name].tobytes()]
    print(f"{members} members against {first}: {len(common)} arrays, differing {differing}, missing {missing}")
    wrong = wrong or bool(missing or differing)
sys.exit(wrong)
PY
exit $status
