"""The rigs of ``tests/vmem`` and the sessions of ``tests/icd`` for tests of what runs on them."""

from tests.icd.conftest import serve
from tests.vmem.conftest import rig

__all__ = ["rig", "serve"]
