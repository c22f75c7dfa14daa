"""``python -m dre`` is the command ``dre``."""

import sys

from dre.commands.main import main

sys.exit(main())
