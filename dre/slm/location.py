"""Where a small model is: in the package, in a folder, or on the Hub."""

from pathlib import Path

from dre.errors import DreError
from dre.slm.provenance import DEFAULT


def find_slm(name: str | Path | None) -> str | Path:
    """Return where an SLM is: the absolute path of a folder, or an id on the Hub.

    None is the model that comes with the package. DreError if there is no such folder.
    """
    name = str(name or DEFAULT)
    if Path(name).is_dir():
        return Path(name).resolve()
    is_path = name.startswith((".", "/", "~"))
    if name.count("/") == 1 and not is_path:
        return name
    raise DreError(
        f"there is no SLM {name!r}: expected a folder with one, or owner/name on the Hub"
    )
