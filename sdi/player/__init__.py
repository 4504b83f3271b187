"""Executes recorded commands in C: see ``design/0012-player.md``."""
