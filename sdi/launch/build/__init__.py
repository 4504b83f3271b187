"""Builds: what a program's source becomes for every member, and what launches need to know of it."""
