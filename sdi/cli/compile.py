"""``sdi compile``: the launch path as machine code."""

from __future__ import annotations

import sys

from sdi import compiled


def compile_launch_path(remove: bool) -> int:
    """Compile, or go back to the sources; the exit status."""
    if remove:
        print("removed" if compiled.remove() else "there is nothing to remove")
        return 0
    if sys.stderr.isatty():
        print(f"compiling {len(compiled.MODULES)} modules: a minute or two ...", file=sys.stderr)
    try:
        compiled.build()
    except (compiled.NotCompiled, OSError) as error:
        print(f"sdi: {error}", file=sys.stderr)
        return 1
    print(f"services that start from now on use {compiled.folder()}")
    return 0
