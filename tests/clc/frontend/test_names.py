"""What names are written with."""

import re
import string
import sys

from sdi.clc.frontend.names import LETTER, LETTER_OR_DIGIT


def test_names_are_written_with_ascii_letters_the_underscore_the_dollar_and_all_beyond_ascii() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    others = "".join(char for char in every[:128] if char not in string.ascii_letters + "_$")
    assert re.sub(LETTER, "", every) == others
    assert re.sub(LETTER_OR_DIGIT, "", every) == others.replace(string.digits, "")
