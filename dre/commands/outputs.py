"""Files that commands write: checked before the work, and recognised when they are there."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dre.errors import DreError
from dre.files import replace
from dre.signature import Signature, load_summary, summary_path

# Exit statuses, the same for all commands.
TRY_LATER = 1  # not all could be done; the same command goes on later
WRONG = 2  # an option, a file or a key has to be mended first; `argparse` has the same
FAILED = 3  # a limit of the user's is not kept
_ADVICE = "name another file, delete it, or write over it with --force"


def check_output(
    path: str | Path | None, endings: Sequence[str], *inputs: str | Path | None
) -> None:
    """Refuse an output that cannot be written, or that is an input, before work is spent on it.

    Raises DreError if the name does not end in one of ``endings``, if the path is a folder, if its
    folder cannot be written to, or if it is one of ``inputs``. A path that is not given is None.
    """
    if not path:
        return
    path = Path(path)
    if path.is_dir():
        raise DreError(f"{path} is a folder: expected the name of a file to write")
    if path.suffix not in endings:
        raise DreError(f"{path}: expected a name that ends in {', '.join(endings)}")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise DreError(f"{path}: there is no folder {folder}: make it, or name another file")
    if not os.access(folder, os.W_OK):
        raise DreError(f"{path}: the folder {folder} cannot be written to: name another file")
    if path.resolve() in [Path(name).resolve() for name in inputs if name]:
        raise DreError(f"{path} is an input: name another file to write")


def own_output(
    path: str | Path,
    signature: Signature,
    force: bool = False,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Return the summary of an output that the same command wrote before.

    Parameters
    ----------
    path
        The output.
    signature
        What would make it now.
    force
        Whether the user wants it to be written over, whatever is there.
    settings
        Further entries that the summary has to hold, name to value.

    Returns
    -------
    dict or None
        What the summary says; None if there is no such output yet, or by ``force``.

    Raises
    ------
    DreError
        If the output is of another run, no summary says what made it, or the summary is of another
        program.
    """
    if force:
        return None
    if not Path(path).exists():
        load_summary(path)  # raises DreError for a summary of another program
        return None
    try:
        summary = load_summary(path)
    except DreError:
        summary = None
    if summary is None:
        raise DreError(f"{path} is there, and nothing says that this command made it: {_ADVICE}")
    changes = [
        f"{difference.field} {difference.value}, now {difference.other_value}"
        for difference in summary.signature.differences(signature)
    ]
    for name, value in (settings or {}).items():
        if summary.content.get(name) != value:
            changes.append(f"{name} {summary.content.get(name)}, now {value}")
    if changes:
        raise DreError(f"{path} is of another run ({'; '.join(changes)}): {_ADVICE}")
    return summary.content


def refuse_to_replace(
    path: str | Path | None, force: bool = False, content: str | bytes = b""
) -> None:
    """Raise DreError if a file is there already, unless it holds just this content.

    For files without a summary, such as a figure or a page. Call it before the work is done.

    Parameters
    ----------
    path
        The file that is going to be written, if one is.
    force
        Whether the user wants it to be written over, whatever is there.
    content
        What will be written, if that is known: a file that holds it already does no harm.
    """
    if force or not path or not Path(path).exists():
        return
    new_content = content.encode("utf-8") if isinstance(content, str) else content
    if not new_content or Path(path).read_bytes() != new_content:
        raise DreError(f"{path} is there, and nothing says that this command made it: {_ADVICE}")


def write_summary(path: str | Path, signature: Signature, content: dict[str, Any]) -> None:
    """Write beside an output, and before it, what made it, and what else there is to say of it."""
    summary = {"signature": signature.fields, **content}
    replace(summary_path(path), json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
