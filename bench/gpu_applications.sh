#!/bin/bash
# Applications of bench/gallery on GPUs, against the vendor's OpenCL: see gpu_setup.sh and gpu_applications.py.
# $1: folder for results; others go to gpu_applications.py.  PACKAGES: a folder with the applications' wheels and
# Debian packages (libOpenCL's too: OpenMM's wheel brings none).
set -u
out=${1:?folder for results}
shift
mkdir -p "$out"
. bench/gpu_setup.sh
packages=${PACKAGES:?folder with wheels and Debian packages}
python3 -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$WORK/applications" "$packages"/*.whl || exit 1
for package in "$packages"/*.deb; do
    dpkg -x "$package" "$WORK/root" || exit 1
done
# hashcat looks for its kernels where its package puts them.
[ -e /usr/share/hashcat ] || ln -s "$WORK/root/usr/share/hashcat" /usr/share/hashcat
export PYTHONPATH=$WORK/applications:$PYTHONPATH PATH=$WORK/root/usr/bin:$PATH
export LD_LIBRARY_PATH=$WORK/root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset OCL_ICD_FILENAMES
exec "$PYTHON" -m bench.gpu_applications "$out/gpu_applications.json" "$@"
