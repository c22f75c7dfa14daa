"""``python -m dre`` is the command ``dre``."""

import sys

from dre.cli import main

sys.exit(main())
