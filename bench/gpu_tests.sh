#!/bin/bash
# What of tests/ needs a GPU, and tests/programs on images of its GPUs: see gpu_setup.sh.  $1: folder for logs;
# $2, $3, ...: numbers of members (default: 1, 2, 3, 4 as there are).  All must pass and give the bytes of the first.
set -u
out=${1:?folder for logs}
shift
mkdir -p "$out"
. bench/gpu_setup.sh
[ $# -gt 0 ] || set -- $(seq 1 $((GPUS < 4 ? GPUS : 4)))
parallel=$("$PYTHON" -c 'import xdist' 2>/dev/null && nproc)
OCL_ICD_VENDORS=$VENDORS timeout 500 "$PYTHON" -m pytest -q ${parallel:+-n $((parallel < 30 ? parallel : 30))} -p no:benchmark -p no:cacheprovider \
    tests/devices/test_cuda.py tests/devices/test_cuda_builtins.py tests/clc/test_cuda.py tests/clc/test_cuda_compiles.py >"$out/tests.log" 2>&1
status=$?
tail -n 12 "$out/tests.log"
# CUDA members have no images.
names=$(ls tests/programs/[a-z]*.py | sed 's#.*/##; s#\.py$##' | grep -v '^image_\|^runner$')
for members in "$@"; do
    OCL_TEST_PLATFORM=SDI OCL_ICD_VENDORS=$IMAGE SDI_NUM_GPUS=$members SDI_SPLIT=always SDI_STATS="$out/stats$members.json" \
        timeout 200 "$PYTHON" -W ignore -m tests.programs.runner --out "$WORK/programs$members.npz" --only $names \
        >"$out/programs$members.log" 2>&1 || status=1
    tail -n 1 "$out/programs$members.log"
done
# Once more with each split launch also run whole, and with a member that is late.
if [ "$GPUS" -ge 2 ]; then
    for how in SDI_VERIFY=1 SDI_TEST_DELAY_MEMBER=1; do
        env OCL_TEST_PLATFORM=SDI OCL_ICD_VENDORS="$IMAGE" SDI_NUM_GPUS=2 SDI_SPLIT=always $how timeout 300 \
            "$PYTHON" -W ignore -m tests.programs.runner --out "$WORK/programs2$how.npz" --only $names >"$out/programs2$how.log" 2>&1 ||
            status=1
        echo "$how: $(tail -n 1 "$out/programs2$how.log")"
    done
    set -- "$@" 2SDI_VERIFY=1 2SDI_TEST_DELAY_MEMBER=1
fi
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
