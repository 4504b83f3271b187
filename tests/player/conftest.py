"""Sessions whose known commands are replayed."""

from tests.icd.conftest import serve

__all__ = ["serve"]
