#!/bin/bash
# Runs `python -m bench figures` on a GPU host: see gpu_setup.sh.  $1: folder for results; the rest goes to the command.
# Within 560 s, what matters most first (see bench/figures/budget.py); BUDGET=0: all of it, however long it takes.
#   bench/gpu_figures.sh $OUT                       size gpu, as many of 1, 2, 4 members as there are GPUs
#   bench/gpu_figures.sh $OUT --size paper --apps nbody,tpacf
# Pictures need matplotlib; elsewhere: python -m bench figures --from $OUT/figures-gpu.json --out bench/results
set -u
begun=$SECONDS
out=${1:?folder for results}
shift
mkdir -p "$out"
. bench/gpu_setup.sh
members=1
[ "$GPUS" -ge 2 ] && members=1,2
[ "$GPUS" -ge 4 ] && members=1,2,4
budget=${BUDGET:-560}
[ "$budget" = 0 ] || set -- --budget $((budget - SECONDS + begun)) --limit "${LIMIT:-50}" --seconds "${RUN_SECONDS:-6}" "$@"
OCL_ICD_VENDORS=$VENDORS exec "$PYTHON" -W ignore -m bench figures --out "$out" --image "$IMAGE" --plain "${PLAIN:-NVIDIA}" \
    --size gpu -n "$members" "$@"
