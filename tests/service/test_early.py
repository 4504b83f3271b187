"""What a service does before it knows its members."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdi.devices.cuda import driver
from sdi.errors import DeviceFailed
from sdi.service import early
from sdi.service.early import begin_cuda


@pytest.mark.parametrize(
    ("has_driver", "status", "has_begun"),
    [(False, 999, False), (True, 0, True), (True, 100, True), (True, 999, None)],
    ids=["no pycuda", "GPUs", "no GPU", "fails"],
)
def test_cudas_driver_is_begun_or_the_process_is_nobodys(
    monkeypatch: pytest.MonkeyPatch, has_driver: bool, status: int, has_begun: bool | None
) -> None:
    monkeypatch.setattr(early, "_NVIDIA", Path("/"))
    monkeypatch.setattr(driver, "drv", SimpleNamespace() if has_driver else None)
    monkeypatch.setattr(driver, "slow", lambda: SimpleNamespace(cuInit=lambda _flags: status))
    if has_begun is None:
        with pytest.raises(DeviceFailed):
            begin_cuda()
    else:
        assert begin_cuda() is has_begun


@pytest.mark.parametrize(
    ("folder", "waits_for", "status", "said"),
    [
        ("/", 5, 0, ["sdi-cuda-begin", "6"]),
        ("/", 5, 999, ["sdi-cuda-begin", "6"]),
        ("/", 1, 0, ["sdi-cuda-begin", "2"]),
        ("/nowhere/at/all", 0, 0, ["0"]),
    ],
    ids=["begins", "fails", "is quick", "is not there"],
)
def test_modules_are_imported_while_the_driver_begins(
    folder: str, waits_for: int, status: int, said: list[str]
) -> None:
    """In a process that has imported none: the driver's call takes until one of them is about to be."""
    text = f"""
        import sys, threading
        from pathlib import Path
        from types import SimpleNamespace
        from sdi.devices.cuda import driver
        from sdi.service import early

        called, imported, begun = [], threading.Event(), threading.Event()

        def init(flags):
            assert imported.wait(60), "modules wait for the driver"
            called.append(threading.current_thread().name)
            begun.set()
            return {status}

        class Finder:
            # Sees what is about to be imported; what is behind that waits until the driver has begun.

            def find_spec(self, name, path, target=None):
                if name == early.MODULES[{waits_for}]:
                    imported.set()
                    assert begun.wait(60)
                    for each in threading.enumerate():
                        if each.name == "sdi-cuda-begin":
                            each.join()

        early._NVIDIA = Path({folder!r})
        driver.drv, driver.slow = SimpleNamespace(), lambda: SimpleNamespace(cuInit=init)
        sys.meta_path.insert(0, Finder())
        assert not any(name in sys.modules for name in early.MODULES)
        early.import_beside_driver()
        assert threading.active_count() == 1
        print(*called, sum(name in sys.modules for name in early.MODULES))
    """
    command = [sys.executable, "-c", textwrap.dedent(text)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout.split()) == (0, said), done.stderr
