#!/bin/bash
# Measures CUDA members and images of them: see gpu_setup.sh.  $1: folder for results.
set -u
out=${1:?folder for results}
mkdir -p "$out"
. bench/gpu_setup.sh
members=1
[ "$GPUS" -ge 2 ] && members="1 2"
[ "$GPUS" -ge 4 ] && members="1 2 4"
status=0
OCL_ICD_VENDORS=$VENDORS timeout 200 "$PYTHON" bench/gpu_member.py "$out/gpu_member.json" || status=1
timeout 100 "$PYTHON" bench/gpu_launches.py "$out/gpu_launches.json" --members $members || status=1
timeout 550 "$PYTHON" bench/gpu_yardstick.py "$out/gpu_yardstick.json" --members $members || status=1
exit $status
