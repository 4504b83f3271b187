"""Compiles the C library into the wheel's data files; everything else is in pyproject.toml.

The library lands in ``<prefix>/lib/sdi/libsdi_icd.so``, from where it walks up to ``<prefix>/bin/python3``;
in editable installs too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Distribution, setup  # first: it provides distutils
from setuptools.command.bdist_wheel import bdist_wheel

from distutils.command.install_data import install_data  # isort: skip

ROOT = Path(__file__).resolve().parent


class WithLibrary(Distribution):
    """Has a file that depends on the machine, and no Python extension."""

    def has_ext_modules(self) -> bool:
        return True

    def has_data_files(self) -> bool:
        return True

    def has_data(self) -> bool:
        """What editable installs ask where others ask ``has_data_files``."""
        return True


class InstallLibrary(install_data):
    """Generates and compiles the library where data files go: into a wheel, never into the sources."""

    def run(self) -> None:
        if str(ROOT) not in sys.path:
            sys.path.insert(0, str(ROOT))
        from sdi.player.library import compile_player  # likewise
        from sdi.wire.generate import compile_client  # needs the standard library only

        folder = Path(self.install_dir) / "lib" / "sdi"
        with TemporaryDirectory(prefix="sdi-build-") as scratch:
            try:
                built = [compile_client(Path(scratch)), compile_player(Path(scratch))]
            except FileNotFoundError as error:
                raise SystemExit(
                    f"sdi: there is no C compiler ({error.filename}); install gcc, or a wheel of sdi"
                ) from error
            self.mkpath(str(folder))
            for library in built:
                self.copy_file(str(library), str(folder / library.name))
                self.outfiles.append(str(folder / library.name))


class AnyPythonWheel(bdist_wheel):
    """Tagged for any Python 3 on this kind of machine: the library uses nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    distclass=WithLibrary,
    cmdclass={"install_data": InstallLibrary, "bdist_wheel": AnyPythonWheel},
)
