"""Launches: planned once, replayed as data."""
