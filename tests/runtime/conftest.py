"""The rigs of ``tests/vmem`` for tests of what runs on them."""

from tests.vmem.conftest import rig

__all__ = ["rig"]
