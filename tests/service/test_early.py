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
    ("folder", "status", "calls"),
    [("/", 0, ["sdi-cuda-begin"]), ("/", 999, ["sdi-cuda-begin"]), ("/nowhere/at/all", 0, [])],
    ids=["begins", "fails", "there is none"],
)
def test_the_driver_begins_while_modules_are_imported(folder: str, status: int, calls: list[str]) -> None:
    """In a process that has imported nothing: the driver's call waits until the last module is there."""
    text = f"""
        import sys, threading
        from pathlib import Path
        from types import SimpleNamespace
        from sdi.devices.cuda import driver
        from sdi.service import early

        called, imported = [], threading.Event()

        def init(flags):
            assert imported.wait(60), "modules wait for the driver"
            called.append(threading.current_thread().name)
            return {status}

        class Last:
            def find_spec(self, name, path, target=None):
                if name == early.MODULES[-1]:
                    imported.set()

        early._NVIDIA = Path({folder!r})
        driver.drv, driver.slow = SimpleNamespace(), lambda: SimpleNamespace(cuInit=init)
        sys.meta_path.insert(0, Last())
        assert early.MODULES[-1] not in sys.modules
        early.import_beside_driver()
        assert all(name in sys.modules for name in early.MODULES)
        assert threading.active_count() == 1
        print(*called)
    """
    command = [sys.executable, "-c", textwrap.dedent(text)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout.split()) == (0, calls), done.stderr
