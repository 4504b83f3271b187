"""The ``sdi`` command."""

from sdi.cli.main import main

__all__ = ["main"]
