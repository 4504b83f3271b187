"""Compiles the C library into the wheel's data files; everything else is in pyproject.toml.

The library lands in ``<prefix>/lib/sdi/libsdi_icd.so``, from where it walks up to ``<prefix>/bin/python3``;
in editable installs too (setuptools installs data files for these as for any other).
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import setup  # first: it provides distutils
from setuptools.command.bdist_wheel import bdist_wheel

from distutils.command.install_data import install_data  # isort: skip

ROOT = Path(__file__).resolve().parent


class InstallLibrary(install_data):
    """Generates and compiles the library where data files go: into a wheel, never into the sources."""

    def run(self) -> None:
        super().run()
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))  # the generator needs the standard library only
        try:
            from sdi.icd.generate import compile_client
        except ModuleNotFoundError as error:
            self.warn(f"{error}: installing without libsdi_icd.so")  # until the generator exists
            return

        target = Path(self.install_dir) / "lib" / "sdi" / "libsdi_icd.so"
        with TemporaryDirectory(prefix="sdi-build-") as scratch:
            built = compile_client(Path(scratch))
            self.mkpath(str(target.parent))
            self.copy_file(str(built), str(target))
        self.outfiles.append(str(target))


class PlatformWheel(bdist_wheel):
    """Tagged for any Python 3 on this machine's kind of processor: the library uses nothing of Python."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        _, _, platform = super().get_tag()
        return "py3", "none", platform


setup(
    data_files=[("lib/sdi", [])],
    cmdclass={"install_data": InstallLibrary, "bdist_wheel": PlatformWheel},
)
