"""Sessions whose known commands are replayed."""

from tests.service.conftest import serve

__all__ = ["serve"]
