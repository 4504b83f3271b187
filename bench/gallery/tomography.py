"""silx: projections of a picture and back, key points, convolutions, statistics, sparse matrices."""

import numpy as np
from kit import ON_GPU, result, timed
from scipy.sparse import random_array
from silx.image import sift
from silx.opencl.backprojection import Backprojection
from silx.opencl.convolution import Convolution
from silx.opencl.image import ImageProcessing
from silx.opencl.linalg import LinAlg
from silx.opencl.medfilt import MedianFilter2D
from silx.opencl.projection import Projection
from silx.opencl.sparse import CSR
from silx.opencl.statistics import Statistics

SIDE, ANGLES, TIMES = (1024, 720, 50) if ON_GPU else (256, 180, 3)
rng = np.random.default_rng(8)
y, x = np.mgrid[:SIDE, :SIDE].astype(np.float32)
picture = np.float32(100 + 60 * np.sin(x / 17) * np.cos(y / 23) + 10 * rng.random((SIDE, SIDE)))
sinogram = Projection((SIDE, SIDE), angles=ANGLES)(picture)
result("projection", sinogram)
back = Backprojection(sinogram.shape)
result("filtered projection back", back.filtered_backprojection(sinogram))
result("median of 7 x 7", MedianFilter2D(picture.shape, (7, 7))(picture))
row = np.hanning(9).astype(np.float32)
result("convolution by rows and columns", Convolution(picture.shape, row)(picture))
plane = rng.random((7, 7), dtype=np.float32)
result("convolution in two dimensions", Convolution(picture.shape, plane)(picture))
result("gradient", LinAlg(picture.shape).gradient(picture, return_to_host=True))
numbers = Statistics(picture.size)(picture.ravel())
found = [getattr(numbers, name) for name in ("min", "max", "cnt", "sum", "mean", "std")]
result("statistics", np.array(found, np.float64))
colours = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
result("grey levels", ImageProcessing(template=colours).to_float(colours))
thin = random_array((SIDE, SIDE), density=0.1, format="csr", dtype=np.float32, rng=9)
found = CSR((SIDE, SIDE), max_nnz=thin.nnz * 2).sparsify(thin.toarray())
values, columns, rows = (np.asarray(part) for part in found)
result("sparse matrix", np.concatenate([values[: thin.nnz], columns[: thin.nnz], rows]))
points = sift.SiftPlan(template=picture)(picture)
result("key points", np.sort(points, order=("y", "x", "scale", "angle")))


def project() -> None:
    """Some projections there and back."""
    for _ in range(TIMES):
        back.filtered_backprojection(sinogram)


timed(project)
