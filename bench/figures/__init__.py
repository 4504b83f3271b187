"""The evaluation of papers/1, section 4, repeated: see ``python -m bench figures --help``."""
