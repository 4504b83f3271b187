#!/bin/sh
# Installs what building and testing sdi needs and this machine lacks, with apt; says so where it can't.
#   tools/prepare.sh [--dry-run]
# --dry-run: only print the packages that are missing, nothing when none is.
# PYTHON: the Python to look at (default python3).
set -eu

python=${PYTHON:-python3}
dry_run=no
[ "${1:-}" = --dry-run ] && dry_run=yes

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
missing=
add() { missing="$missing $*"; }

# --- what is there? ------------------------------------------------------------------------------------
if command -v "$python" >/dev/null 2>&1; then
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "sdi needs Python 3.11 or newer; $python is $("$python" -V 2>&1). Try: make PYTHON=/path/to/python3" >&2
        exit 1
    fi
    "$python" -c 'import venv, ensurepip' 2>/dev/null || add python3-venv
else
    add python3 python3-venv
fi

if command -v cc >/dev/null 2>&1; then
    printf '#include <CL/cl.h>\nint main(void) { return clGetPlatformIDs(0, 0, 0); }\n' >"$scratch/probe.c"
    cc -DCL_TARGET_OPENCL_VERSION=120 -o "$scratch/probe" "$scratch/probe.c" -lOpenCL 2>/dev/null ||
        add ocl-icd-opencl-dev opencl-headers
else
    add gcc libc6-dev ocl-icd-opencl-dev opencl-headers
fi

# A CPU driver counts when the system's loader finds a CPU device.  SDI_IN_SERVICE keeps sdi itself out.
cat >"$scratch/probe.py" <<'PROBE'
import ctypes, sys
try:
    cl = ctypes.CDLL("libOpenCL.so.1")
except OSError:
    sys.exit(2)
count = ctypes.c_uint()
cl.clGetPlatformIDs(0, None, ctypes.byref(count))
platforms = (ctypes.c_void_p * max(1, count.value))()
cl.clGetPlatformIDs(count.value, platforms, None)
for platform in platforms[: count.value]:
    found = ctypes.c_uint()
    if cl.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_uint64(2), 0, None, ctypes.byref(found)) == 0 and found.value:
        sys.exit(0)
sys.exit(1)
PROBE
status=2
if command -v "$python" >/dev/null 2>&1; then
    status=0
    env -u OCL_ICD_VENDORS SDI_IN_SERVICE=1 "$python" "$scratch/probe.py" >/dev/null 2>&1 || status=$?
fi
case $status in
0) ;;
1) add pocl-opencl-icd ;;
*) add ocl-icd-libopencl1 pocl-opencl-icd ;;
esac
command -v clinfo >/dev/null 2>&1 || add clinfo

[ -n "$missing" ] || exit 0
missing=${missing# }
if [ $dry_run = yes ]; then
    echo "$missing"
    exit 0
fi

# --- install it ----------------------------------------------------------------------------------------
if ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing on this machine (names of Debian's packages): $missing" >&2
    echo "Install them with your system's package manager, then run make again." >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "Missing on this machine. Install with:" >&2
    echo "    sudo apt-get install $missing" >&2
    echo "then run make again." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$scratch/apt.log
install() {
    # shellcheck disable=SC2086  # one word per package
    apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0 $missing >>"$log" 2>&1 </dev/null
}
echo "Installing with apt-get: $missing"
# The lists may be missing or old: then fetch them and try once more.
if ! { ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 && install; }; then
    if ! { apt-get update >>"$log" 2>&1 </dev/null && install; }; then
        tail -n 20 "$log" >&2
        echo "apt-get failed (above). Packages wanted: $missing" >&2
        exit 1
    fi
fi
