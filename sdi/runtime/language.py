"""The OpenCL C of an image: what its programs may use because every member has it.

The one place that says so: the extension string, the list of features and the macros that a program sees
are all made from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sdi.clc.base_header import ALL_EXTENSIONS, ALL_FEATURES, Language
from sdi.devices.base import Device

_EXTENSIONS = 0x1030  # CL_DEVICE_EXTENSIONS


def image_language(devices: Iterable[Device]) -> Language:
    """What all ``devices`` have, of what sdi can pass on."""
    known = [set(d.facts.info[_EXTENSIONS].rstrip(b"\0").decode().split()) for d in devices]
    extensions = tuple(name for name in ALL_EXTENSIONS if all(name in had for had in known))
    features = tuple(name for name, needed in ALL_FEATURES.items() if not needed or needed in extensions)
    return Language(extensions, features)
