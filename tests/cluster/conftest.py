"""What tests of nodes have in common."""

from tests.devices.conftest import driver

__all__ = ["driver"]
