#!/bin/bash
# Runs tests/programs on an image of CUDA members, on a GPU host without network; wheels lie in .wheels/.
# $1: folder for results; $2, $3, ...: numbers of members.  Each run must give the bytes of the first one.
set -u
out=${1:?folder for results}
shift
mkdir -p "$out" /tmp/site /tmp/sdi/lib/sdi/vendors
python3 -m pip install -q --no-index --no-deps --no-compile --target /tmp/site .wheels/*.whl || exit 1
python3 -c "
from pathlib import Path
from sdi.icd.generate import compile_client
compile_client(Path('/tmp/sdi/lib/sdi'))"
echo /tmp/sdi/lib/sdi/libsdi_icd.so >/tmp/sdi/lib/sdi/vendors/sdi.icd
cat >/tmp/sdi/python <<EOF
#!/bin/sh
shift
PYTHONPATH=/tmp/site:$PWD exec python3 "\$@"
EOF
chmod +x /tmp/sdi/python
export PYTHONPATH=/tmp/site:$PWD XDG_CACHE_HOME=/tmp/sdi-cache PYOPENCL_NO_CACHE=1 SDI_PYTHON=/tmp/sdi/python
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
for members in "$@"; do
    OCL_TEST_PLATFORM=SDI OCL_ICD_VENDORS=/tmp/sdi/lib/sdi/vendors SDI_NUM_GPUS=$members SDI_SPLIT=always \
        SDI_STATS="$out/stats$members.json" timeout 200 \
        python3 -W ignore -m tests.programs.runner --out "/tmp/programs$members.npz" >"$out/programs$members.log" 2>&1
    tail -1 "$out/programs$members.log"
done
python3 - "$@" <<'EOF'
import sys
import numpy as np

first, *others = sys.argv[1:]
wanted = np.load(f"/tmp/programs{first}.npz")
for members in others:
    found = np.load(f"/tmp/programs{members}.npz")
    missing = sorted(set(wanted.files) - set(found.files))
    differing = [
        name
        for name in wanted.files
        if name in found.files and wanted[name].tobytes() != found[name].tobytes()
    ]
    print(f"{members} members against {first}: {len(found.files)} arrays, differing {differing}, missing {missing}")
EOF
