"""OpenCV's T-API: operations on pictures in UMat."""

import os

os.environ.setdefault("OPENCV_OPENCL_DEVICE", ":CPU:" if os.environ.get("GALLERY_KIND") != "gpu" else ":GPU:")

import cv2
import numpy as np
from kit import result, timed

cv2.ocl.setUseOpenCL(True)
if not cv2.ocl.useOpenCL():
    raise SystemExit("OpenCV found no device")
rng = np.random.default_rng(1)
picture = cv2.GaussianBlur(rng.integers(0, 256, (1080, 1920, 3), dtype=np.uint8), (5, 5), 1)
colour = cv2.UMat(picture)
grey = cv2.cvtColor(colour, cv2.COLOR_BGR2GRAY)
small = cv2.resize(grey, (320, 240))
ones = np.ones((7, 7), np.float32)
left, right = (cv2.UMat(np.float32(picture[:512, k * 512 : (k + 1) * 512, 0])) for k in range(2))
turn = np.array([[1, 0.1, 3], [-0.1, 1, 5]])
for name, found in {
    "grey": grey,
    "Gaussian blur": cv2.GaussianBlur(grey, (9, 9), 2),
    "Sobel": cv2.Sobel(grey, cv2.CV_16S, 1, 0),
    "Laplacian": cv2.Laplacian(grey, cv2.CV_16S),
    "resize": cv2.resize(colour, (777, 555)),
    "warp": cv2.warpAffine(colour, turn, (1920, 1080)),
    "median": cv2.medianBlur(grey, 5),
    "erode": cv2.erode(grey, np.ones((5, 5), np.uint8)),
    "equalised": cv2.equalizeHist(grey),
    "filter": cv2.filter2D(grey, cv2.CV_32F, ones / 49),
    "threshold": cv2.threshold(grey, 100, 255, 0)[1],
    "pyramid": cv2.pyrDown(colour),
    "sum": cv2.addWeighted(grey, 0.3, grey, 0.9, 1),
    "bilateral": cv2.bilateralFilter(grey, 7, 30, 5),
    "DFT": cv2.dft(left),
    "product": cv2.gemm(left, right, 1.0, None, 0.0),
    "template": cv2.matchTemplate(grey, cv2.UMat(picture[100:132, 100:132, 0].copy()), cv2.TM_SQDIFF),
    "corners": cv2.cornerHarris(grey, 3, 3, 0.04),
    "integral": cv2.integral(grey),
    "CLAHE": cv2.createCLAHE(2.0).apply(grey),
    "flow": cv2.calcOpticalFlowFarneback(small, cv2.flip(small, 1), None, 0.5, 2, 9, 2, 5, 1.1, 0),
}.items():
    result(name, found.get())


def smooth() -> None:
    """Ten pictures, smoothed and reduced."""
    for _ in range(10):
        cv2.pyrDown(cv2.GaussianBlur(cv2.cvtColor(colour, cv2.COLOR_BGR2GRAY), (9, 9), 2)).get()


timed(smooth)
