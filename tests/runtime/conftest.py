"""The rigs of ``tests/vmem`` and the sessions of ``tests/service`` for tests of what runs on them."""

from tests.runtime.mover import mover
from tests.service.conftest import serve
from tests.vmem.conftest import rig

__all__ = ["mover", "rig", "serve"]
