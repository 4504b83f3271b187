#!/bin/bash
# Tests and measures CUDA members on a GPU host without network; wheels lie in .wheels/, results go to $1.
# Exits with the tests' status.
set -u
out=${1:?folder for results}
mkdir -p "$out" /tmp/site
python3 -m pip install -q --no-index --no-deps --no-compile --target /tmp/site .wheels/*.whl || exit 1
export PYTHONPATH=/tmp/site:$PWD XDG_CACHE_HOME=/tmp/sdi-cache PYTHONUNBUFFERED=1
vendor=$(find / -xdev -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
[ -n "$vendor" ] || vendor=$(find /usr/local/nvidia -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
mkdir -p /tmp/vendors && cp /etc/OpenCL/vendors/*.icd /tmp/vendors/ 2>/dev/null
[ -n "$vendor" ] && echo "$vendor" >/tmp/vendors/nvidia.icd
export OCL_ICD_VENDORS=/tmp/vendors
nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv
timeout 150 python3 -m pytest -q -n 8 -p no:benchmark --timeout 60 -p no:cacheprovider tests/devices/test_cuda.py tests/devices/test_cuda_lane.py \
  tests/devices/test_cuda_nvrtc.py tests/clc/test_cuda.py >"$out/tests.log" 2>&1
status=$?
tail -c 5000 "$out/tests.log"
timeout 200 python3 bench/gpu_member.py "$out/gpu_member.json" "${2:-}" >"$out/bench.log" 2>&1 || status=$((status + 1))
cat "$out/bench.log"
exit $status
