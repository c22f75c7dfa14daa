"""Files that commands write: checked before the work, and known again afterwards."""

import json
import os
from pathlib import Path

from dre.errors import DreError
from dre.files import replace


def check_output(path, endings, *inputs):
    """Refuse an output that could not be written, or is an input, before work is spent on it."""
    path = Path(path)
    if path.suffix not in endings or not os.access(path.resolve().parent, os.W_OK):
        raise DreError(
            f"{path}: expected a name that ends in {', '.join(endings)}, in a folder that can be written to"
        )
    if path.resolve() in [Path(one).resolve() for one in inputs]:
        raise DreError(f"{path} is an input: name another file to write")


def own_output(path, made=None, force=False):
    """Return the summary beside an output of this same run; None where there is no output, or by ``force``.

    ``made``, name -> value, is what decides the content: the summary has to say the same, else DreError; so without it.
    """
    if force or not Path(path).exists():
        return None
    what = "name another file, delete it, or write over it with --force"
    try:
        summary = json.loads(Path(f"{path}.summary.json").read_text(encoding="utf-8"))
        there = dict(part.split(":", 1) for part in summary["signature"].split("|")) | summary
        differ = [
            f"{name} {there.get(name)}, now {made[name]}"
            for name in made
            if there.get(name) != made[name]
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise DreError(
            f"{path} is there, and nothing says that this command made it: {what}"
        ) from None
    if differ:
        raise DreError(f"{path} is of another run ({'; '.join(differ)}): {what}")
    return summary


def write_summary(path, summary):
    """Write beside an output, and before it, what made it (``signature``) and what it says."""
    replace(f"{path}.summary.json", json.dumps(summary, indent=1, ensure_ascii=False) + "\n")


FAILED = 3  # exit status where a limit of the user's is not kept
