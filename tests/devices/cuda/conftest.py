"""Tests in whose process the CUDA driver may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sdi.devices.cuda.gpu import CudaGpu, cuda_devices


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """No thread is left; the CUDA driver keeps descriptors for as long as the process lives."""
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("sdi-")]
    assert not left or set(threading.enumerate()) <= before, left


@pytest.fixture(scope="session")
def gpu() -> CudaGpu:
    """The first GPU."""
    found = cuda_devices()
    if not found:
        pytest.skip("no CUDA GPU, or pycuda or NVRTC is not installed")
    return found[0]
