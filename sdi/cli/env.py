"""``sdi env``: the variables that make an application find the image."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from sdi.locate import INCLUDE, image_environ, vendors
from sdi.settings import Settings


def show(changes: Mapping[str, str], vendors_only: bool, include_only: bool = False) -> int:
    """Print shell commands, or only the directory for OCL_ICD_VENDORS, or the one for the C compiler."""
    if include_only:
        print(INCLUDE)
        return 0
    if vendors_only:
        print(vendors())
        return 0
    Settings.from_environ({**os.environ, **changes})
    for name, value in {**image_environ(os.environ), **changes}.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0
