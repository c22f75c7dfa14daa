"""``python -m dre.paper``: rebuild the paper."""

import signal
import sys

from dre.paper.run import main

if __name__ == "__main__":
    # SIGTERM ends the run as Ctrl-C does, with all kernels.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
