#!/bin/bash
# What of tests/ needs a GPU, and tests/programs on images of its GPUs: see gpu_setup.sh.  $1: folder for logs;
# $2, $3, ...: numbers of members (default: 1, 2, 3, 4; where there are fewer GPUs, members share them).  All must pass and
# give the bytes of the first.  Every step has a limit; one that reaches it says where it stood, and the next goes on.
# BUILTIN_REFERENCES: a folder of the CPU driver's results, for hosts without one (tests/clc/builtin_references.py).
# NAMES: some of tests/programs.  SKIP: names of steps to leave out.
set -u
ulimit -c 0
out=${1:?folder for logs}
shift
mkdir -p "$out"
export STACKS_AFTER_S=150 # a service that lives longer hangs: see gpu_setup.sh
. bench/gpu_setup.sh
[ $# -gt 0 ] || set -- 1 2 3 4
status=0
cores=$(nproc)
"$PYTHON" -c 'import xdist' 2>/dev/null && parallel="-n $((cores < 30 ? cores : 30))"

# step NAME SECONDS COMMAND...: its output goes to NAME.log, the end of that here too.
step() {
    local name=$1 limit=$2
    shift 2
    case " ${SKIP:-} " in *" $name "*) return ;; esac
    local begin=$SECONDS
    PYTHONFAULTHANDLER=1 timeout -s ABRT -k 10 "$limit" "$@" >"$out/$name.log" 2>&1
    local code=$?
    [ $code -eq 0 ] || status=1
    echo "$name: status $code after $((SECONDS - begin)) s: $(tail -n 1 "$out/$name.log")"
    [ $code -eq 0 ] || grep -a -E '^(FAILED|ERROR|E  )|FAILED$' "$out/$name.log" | head -n "${SHOWN:-12}"
}

pytest=("$PYTHON" -m pytest -q --timeout-method=thread -p no:benchmark -p no:cacheprovider ${parallel:-})
# What needs no GPU, in processes that load no driver of one; then what does.
step order 100 "${pytest[@]}" tests/devices/cuda/test_{channel,lane,memory,nvrtc,printing}.py \
    tests/devices/test_order.py
step compiles 200 "${pytest[@]}" tests/clc/cuda/test_emit.py tests/clc/cuda/test_translate.py tests/clc/cuda/test_images.py \
    tests/clc/test_printf_text.py
OCL_ICD_VENDORS=$VENDORS step members 250 "${pytest[@]}" tests/devices/cuda/test_member.py tests/devices/cuda/test_images.py
OCL_ICD_VENDORS=$VENDORS step builtins 400 "${pytest[@]}" tests/devices/cuda/test_builtins.py

names=${NAMES:-$(ls tests/programs/[a-z]*.py | sed 's#.*/##; s#\.py$##' | grep -v "^runner$")}
image() { # image LOG SECONDS MEMBERS VARIABLE=VALUE...
    local log=$1 limit=$2 members=$3
    shift 3
    step "$log" "$limit" env OCL_TEST_PLATFORM=SDI OCL_ICD_VENDORS="$IMAGE" SDI_NUM_GPUS="$members" SDI_SPLIT=always \
        SDI_STATS="$out/$log.json" GPU_STANDS_FOR=$(((members + GPUS - 1) / GPUS)) "$@" "$PYTHON" -W ignore -m tests.programs.runner --limit 60 --out "$WORK/$log.npz" --only $names
}
logs=()
for members in "$@"; do
    image "programs$members" 200 "$members"
    logs+=("programs$members")
done
# Once more with each split launch also run whole, and with a member that is late.
image programs2verified 300 2 SDI_VERIFY=1
image programs2late 300 2 SDI_TEST_MEMBERS="$PWD/tests/devices/testing/hooks.py:late=1"
logs+=(programs2verified programs2late)
# Once more with GPUs that are members by their OpenCL.  Without what NVIDIA's own fails in: it turns 64 bits to 0, refuses constants of
# constants, and is of no use any more after some printf.
names=$(echo "$names" | tr ' ' '\n' | grep -v -x -e compiler_functions -e gnu_c -e printing)
for members in 1 2; do
    image "opencl$members" 300 "$members" GPU_DRIVER=opencl SDI_MEMBER_VENDORS="$VENDORS"
done
# Members as devices of their own: programs for several devices, and collective commands, which compare with numpy.
apart=()
for members in "$@"; do
    for what in "" "all_collectives all_operations"; do
        log=apart$members${what:+collectives}
        step "$log" 300 env OCL_TEST_PLATFORM=SDI OCL_ICD_VENDORS="$IMAGE" SDI_NUM_GPUS="$members" SDI_IMAGE=off \
            GPU_STANDS_FOR=$(((members + GPUS - 1) / GPUS)) "$PYTHON" -W ignore -m tests.several.runner --out "$WORK/$log.npz" $what
    done
    apart+=("apart$members")
done
same() { # same LOG LOG...: all programs left the bytes of the first
    "$PYTHON" - "$WORK" "$@" <<'PY' || status=1
import os
import sys

import numpy as np

folder, first, *others = [sys.argv[1], *(log for log in sys.argv[2:] if os.path.exists(f"{sys.argv[1]}/{log}.npz"))]
wanted = np.load(f"{folder}/{first}.npz")
wrong = False
for log in others:
    found = np.load(f"{folder}/{log}.npz")
    missing = sorted(set(wanted.files) - set(found.files))
    common = [name for name in wanted.files if name in found.files]
    differing = [name for name in common if wanted[name].tobytes() != found[name].tobytes()]
    print(f"{log} against {first}: {len(common)} arrays, differing {differing}, missing {missing}")
    wrong = wrong or bool(missing or differing)
sys.exit(wrong)
PY
}
same "${logs[@]}"
same "${apart[@]}"
same opencl1 opencl2
exit $status
