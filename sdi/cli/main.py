"""Parses the command line and calls the subcommand."""

from __future__ import annotations


def main() -> int:
    """Entry point of the console script; the exit status."""
    return 2
