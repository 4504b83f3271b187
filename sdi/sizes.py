"""Numbers of bytes, for people."""

from __future__ import annotations


def size(nbytes: float) -> str:
    """``nbytes`` in powers of 1024: "0 B", "1.5 KiB", "16.0 GiB"."""
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1024:.1f} TiB"
