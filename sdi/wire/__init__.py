"""The one table: what is laid out in bytes for others, and OpenCL's and CUDA's numbers, for C and Python.

Imports the standard library and ``sdi/errors.py`` only: the C side is made from it before all is installed.
"""
