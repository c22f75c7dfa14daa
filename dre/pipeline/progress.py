"""How far a long loop of a notebook is: a bar where a person runs it, a small file where `make paper` does.

The file is read by the runner, which shows it on the notebook's line (`dre.pipeline.line`): nothing of it, and
so no timing, gets into the executed notebook.
"""

import contextlib
import os
import sys
import time
from pathlib import Path

VARIABLE = "DRE_PROGRESS"


def progress(iterable, desc, unit="item"):
    """Iterate over `iterable` and show how far it is.

    Parameters
    ----------
    iterable : iterable
        With a length, where the time left is to be shown.
    desc, unit : str
        What is counted (``trainings``) and the name of one item (``model``).

    Returns
    -------
    iterable
        The same items: a tqdm bar on stderr, or, where the environment variable ``DRE_PROGRESS`` names a file, a
        generator that keeps its state there.
    """
    path = os.environ.get(VARIABLE)
    if path:
        return _recorded(iterable, desc, Path(path))
    from tqdm import tqdm

    return tqdm(iterable, desc=desc, unit=unit, file=sys.stderr)


def _recorded(iterable, desc, path):
    from dre.pipeline.state import write_json

    total = len(iterable) if hasattr(iterable, "__len__") else None
    start = time.time()
    try:
        # To show progress is a courtesy: a full disk shall stop the work that needs it, not this.
        for done, item in enumerate(iterable):
            with contextlib.suppress(OSError):
                write_json(path, {"desc": desc, "done": done, "total": total, "start": start, "now": time.time()})
            yield item
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
