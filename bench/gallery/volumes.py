"""pyclesperanto: filters of a volume, and its labels."""

import numpy as np
import pyclesperanto as cle
from kit import result, timed

cle.select_device()
volume = cle.push(np.random.default_rng(1).random((32, 256, 256), dtype=np.float32))
for name, found in {
    "Gaussian blur": cle.gaussian_blur(volume, sigma_x=2, sigma_y=2, sigma_z=2),
    "mean": cle.mean_box(volume, radius_x=2, radius_y=2),
    "median": cle.median_box(volume, radius_x=1, radius_y=1),
    "Otsu's threshold": cle.threshold_otsu(volume),
    "Sobel": cle.sobel(volume),
    "top hat": cle.top_hat_box(volume, radius_x=3, radius_y=3),
    "labels": cle.gauss_otsu_labeling(volume, outline_sigma=2),
    "transposed": cle.transpose_xy(volume),
    "Laplacian": cle.laplace_box(volume),
}.items():
    result(name, cle.pull(found))


def filters() -> None:
    """A blur and a maximum."""
    cle.pull(
        cle.maximum_box(cle.gaussian_blur(volume, sigma_x=3, sigma_y=3, sigma_z=3), radius_x=2, radius_y=2)
    )


timed(filters)
