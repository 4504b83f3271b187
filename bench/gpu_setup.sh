# Sourced by the scripts beside it, in the repository's root, on a GPU host without network: installs the wheels of
# $WHEELS (.wheels), compiles the client library, and sets the environment.  Everything goes to $WORK (build/gpu).
# Afterwards: $VENDORS, a folder with the machine's OpenCL drivers; $IMAGE, one with sdi alone.
WORK=$(mkdir -p "${WORK:-build/gpu}" && cd "${WORK:-build/gpu}" && pwd)
WHEELS=${WHEELS:-.wheels}
PYTHON=${PYTHON:-python3}
if [ ! -e "$WORK/ready" ]; then
    # Without the packages they need: a folder of wheels has these too, or the machine has them.
    "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$WORK/site" "$WHEELS"/*.whl || exit 1
    # Where an installation would have it: the service looks for its libraries in its own prefix.
    "$PYTHON" -m venv --without-pip "$WORK/venv" || exit 1
    packages='import sysconfig; print(sysconfig.get_path("purelib"))'
    "$PYTHON" -c "$packages" >"$("$WORK/venv/bin/python" -c "$packages")/host.pth"
    mkdir -p "$WORK/venv/lib/sdi/vendors" "$WORK/vendors"
    PYTHONPATH=$WORK/site:$PWD "$PYTHON" - "$WORK/venv/lib/sdi" <<'PY' || exit 1
import sys
from pathlib import Path

from sdi.wire.generate import compile_client
from sdi.player.library import compile_player

compile_client(Path(sys.argv[1]))
compile_player(Path(sys.argv[1]))
PY
    echo "$WORK/venv/lib/sdi/libsdi_icd.so" >"$WORK/venv/lib/sdi/vendors/sdi.icd"
    cp /etc/OpenCL/vendors/*.icd "$WORK/vendors/" 2>/dev/null
    nvidia=$(ldconfig -p | sed -n 's/.*libnvidia-opencl.so.1 .*=> //p' | head -1)
    [ -n "$nvidia" ] || nvidia=$(find / -xdev -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
    [ -z "$nvidia" ] || echo "$nvidia" >"$WORK/vendors/nvidia.icd"
    # The service's Python: what is installed here is not where -I would look.  For tests see gpu_service.py.
    cat >"$WORK/python" <<SH
#!/bin/sh
shift
export PYTHONPATH=$WORK/site:$PWD
[ -z "\$STACKS_AFTER_S\$GPU_STANDS_FOR" ] || exec $WORK/venv/bin/python -X faulthandler $PWD/bench/gpu_service.py "\$@"
exec $WORK/venv/bin/python "\$@"
SH
    chmod +x "$WORK/python"
    touch "$WORK/ready"
fi
export VENDORS=$WORK/vendors IMAGE=$WORK/venv/lib/sdi/vendors
PYTHON=$WORK/venv/bin/python
export PYTHONPATH=$WORK/site:$PWD XDG_CACHE_HOME=$WORK/cache PYTHONUNBUFFERED=1 PYOPENCL_NO_CACHE=1
export SDI_PYTHON=$WORK/python
mkdir -p "$XDG_CACHE_HOME"
GPUS=$(nvidia-smi -L | wc -l)
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sort | uniq -c
