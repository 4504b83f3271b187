#!/bin/bash
# Runs `python -m bench figures` on a GPU host without network; wheels lie in .wheels/ (see bench/gpu_programs.sh;
# matplotlib's too if pictures are wanted).  $1: folder for results; the rest goes to the command, e.g.
#   bench/gpu_figures.sh $OUT --size gpu -n 1,2,4 --rounds 2 --repeat 2 --apps nbody,tpacf --most-mib 1024
set -u
out=${1:?folder for results}
shift
mkdir -p "$out" /tmp/site /tmp/plain /tmp/sdi/lib/sdi/vendors
python3 -m pip install -q --no-index --no-deps --no-compile --target /tmp/site .wheels/*.whl || exit 1
python3 -c "
from pathlib import Path
from sdi.icd.generate import compile_client
compile_client(Path('/tmp/sdi/lib/sdi'))"
echo /tmp/sdi/lib/sdi/libsdi_icd.so >/tmp/sdi/lib/sdi/vendors/sdi.icd
cat >/tmp/sdi/python <<EOS
#!/bin/sh
shift
PYTHONPATH=/tmp/site:$PWD exec python3 "\$@"
EOS
chmod +x /tmp/sdi/python
vendor=$(find / -xdev -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
[ -n "$vendor" ] || vendor=$(find /usr/local/nvidia -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
cp /etc/OpenCL/vendors/*.icd /tmp/plain/ 2>/dev/null
[ -n "$vendor" ] && echo "$vendor" >/tmp/plain/nvidia.icd
export PYTHONPATH=/tmp/site:$PWD XDG_CACHE_HOME=/tmp/sdi-cache SDI_PYTHON=/tmp/sdi/python OCL_ICD_VENDORS=/tmp/plain
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
exec python3 -W ignore -m bench figures --out "$out" --image /tmp/sdi/lib/sdi/vendors --plain NVIDIA "$@"
