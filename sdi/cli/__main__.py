"""``python -m sdi.cli``."""

import sys

from sdi.cli.main import main

sys.exit(main())
