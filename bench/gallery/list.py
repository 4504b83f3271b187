"""Which applications there are, where they come from, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Application:
    """``python``, ``debian``: packages; the last, the first has its version.  ``builds``: from source.

    ``program``: a file of this folder.  ``what``: it runs.  ``note``: what users should know.
    """

    title: str
    program: str
    what: str
    python: tuple[str, ...] = ()
    debian: tuple[str, ...] = ()
    note: str = ""
    builds: bool = False


APPLICATIONS = (
    Application(
        "LightGBM",
        "lightgbm_training.py",
        "`device_type=gpu`, 20,000 x 30, 10 rounds",
        ("scipy", "lightgbm"),
        note="where `histogram256` counts finished work-groups by an atomic it runs whole",
    ),
    Application(
        "OpenMM",
        "molecular_dynamics.py",
        "a box of water, PME, Verlet",
        ("openmm",),
        note="three kernels use results of atomics, or order them by a fence: whole",
    ),
    Application(
        "CLBlast",
        "linear_algebra.py",
        "gemm, gemv, axpy, trsm",
        debian=("libclblast1",),
        note="makes its kernels anew for each call",
    ),
    Application(
        "OpenCV (T-API)",
        "pictures.py",
        "21 operations on pictures",
        ("opencv-python-headless<5",),
        note="takes CPUs only with `OPENCV_OPENCL_DEVICE=:CPU:`; its Canny races, here and there: left out",
    ),
    Application("pyclesperanto", "volumes.py", "9 filters of a volume", ("pyclesperanto",)),
    Application("reikna", "transforms_reikna.py", "FFT, product, scan, sum", ("reikna",)),
    Application(
        "pyvkfft",
        "transforms_vkfft.py",
        "FFT of a volume, planes, a prime",
        ("psutil", "pyvkfft"),
        builds=True,
        note="its package is built with `VKFFT_BACKEND=opencl`",
    ),
    Application(
        "hashcat",
        "passwords.py",
        "MD5, SHA-256, PBKDF2 by mask",
        debian=("hashcat",),
        note="notes what it found by an atomic whose result it uses: whole",
    ),
    Application(
        "tinygrad",
        "learning.py",
        "operations on tensors, a network of convolutions learns",
        ("tinygrad",),
    ),
    Application(
        "silx",
        "tomography.py",
        "projections there and back, median, convolutions, key points",
        ("scipy", "mako", "silx"),
        note="its own test of the median expects wrong results of PoCL, and knows it by the platform's name: "
        "`SDI_PLATFORM_NAME=members`",
    ),
    Application("ffmpeg", "video.py", "unsharp, avgblur, convolution, transpose", debian=("ffmpeg",)),
    Application(
        "darktable-cli",
        "development.py",
        "a picture of 16 bits",
        ("opencv-python-headless<5",),
        debian=("darktable",),
        note="leaves CPUs out until its configuration names them; does not build on PoCL 3.1 alone",
    ),
    Application(
        "LuxCore",
        "rendering.py",
        "path tracing, 16 samples",
        ("pyluxcore",),
        note="ends by itself on PoCL 3.1 alone: its allocator and the driver's do not agree in one process; "
        "PoCL compiles its kernels for minutes before the first picture, on an image too",
    ),
)

NOT_RUN = {
    "ArrayFire": "PyPI has its Python interface only, Debian 12 none of its libraries.",
    "clinfo, clpeak": "find the image and run; what they print is no result that could be compared.",
    "On GPUs": "five of them in `bench/results/applications_1xh200.md`, OpenMM in `openmm_h200.md`.",
}
