"""What names are written with in C: letters, digits, the underscore, the dollar and all beyond ASCII.

As regular expressions.  They say what is not among them, which is ASCII: ``re`` takes 8 ms to compile a set
that says ``\\x80-\\U0010ffff``.
"""

from __future__ import annotations

LETTER = r"[^\x00-#%-@\[-^`{-\x7f]"
LETTER_OR_DIGIT = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
NAME = f"{LETTER}{LETTER_OR_DIGIT}*"
