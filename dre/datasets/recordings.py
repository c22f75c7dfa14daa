"""A recording of a judge: its folder, and the hashes of the prompts and texts that it read.

The texts that a judge was shown are not all in the repository. ``hashes.json.gz`` has the beginning
of a sha256 for each prompt, by name, and for each pair, by id. A recording answers for these alone.
``python experiments/recordings/hash_recording.py`` writes the file.
"""

import functools
import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dre.datasets.registry import PROJECT
from dre.errors import DreError

if TYPE_CHECKING:
    from dre.judges.prompts import Prompt

FOLDER = PROJECT / "data" / "recorded"
FILE = "hashes.json.gz"
_HASH_LENGTH = 24  # characters


def names() -> list[str]:
    """Return the names of the recordings of this project."""
    return sorted(path.parent.name for path in FOLDER.glob("*/judgements.jsonl"))


def exists(name: str) -> bool:
    """Return whether there is a recording of this name or path."""
    return (_path_of(name) / "judgements.jsonl").is_file()


def folder(name: str) -> Path:
    """Return the folder of a recording by its name or path; raise `DreError` if there is none."""
    if exists(name):
        return _path_of(name)
    if names():
        advice = f"or one of {', '.join(names())}"
    else:
        advice = "or run from a clone of the repository, which has one"
    raise DreError(f"no recording {name!r}: give a folder with judgements.jsonl, {advice}")


def _path_of(name):
    path = FOLDER / name
    return path if path.is_dir() else Path(name)


def hash_of(prompt_or_row: "Prompt | Mapping") -> str:
    """Return the hash of a prompt or a pair, by which a recording recognises it.

    Parameters
    ----------
    prompt_or_row : dre.judges.prompts.Prompt or dict
        A prompt, of which the text, the scales and the labels count; or a row with ``context`` (a
        sequence of turns) and ``response`` (a text; a whole dialogue has none), of which the words
        count and the spaces do not, since no judge sees them.

    Returns
    -------
    str
        The first 24 hexadecimal digits of a sha256.
    """
    if not isinstance(prompt_or_row, Mapping):
        contents = [
            prompt_or_row.template,
            prompt_or_row.scale,
            prompt_or_row.influence,
            prompt_or_row.labels,
        ]
    else:
        turns = prompt_or_row.get("context") or ()
        response = prompt_or_row.get("response")
        contents = [
            [" ".join(turn.split()) for turn in turns],
            " ".join(response.split()) if isinstance(response, str) else "",
        ]
    text = json.dumps(contents, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest[:_HASH_LENGTH]


def check_hash(folder: Path, name: str, prompt_or_row: "Prompt | Mapping") -> None:
    """Raise `DreError` unless a prompt or a row is the one that was recorded under a name.

    Parameters
    ----------
    folder : Path
        The folder of the recording.
    name : str
        The name of the prompt, or the id of the pair.
    prompt_or_row : dre.judges.prompts.Prompt or dict
        As for `hash_of`.
    """
    if _load_hashes(folder).get(name) == hash_of(prompt_or_row):
        return
    if hasattr(prompt_or_row, "template"):
        difference = f"prompt {name} has other words, scales or labels"
    else:
        difference = f"pair {name} has other texts"
    raise DreError(
        f"{difference} here than those that {folder.name} was shown under this name: a recording "
        "has scores for the recorded texts alone, so ask a live judge"
    )


@functools.lru_cache(maxsize=4)
def _load_hashes(folder):
    """The hashes of a recording by the name of a prompt or the id of a pair."""
    path = folder / FILE
    try:
        hashes = json.loads(gzip.decompress(path.read_bytes()))
        if not isinstance(hashes, dict):
            raise ValueError("not an object")
    except (OSError, EOFError, ValueError):
        raise DreError(
            f"{path}: expected hashes of what the judge was shown: "
            "python experiments/recordings/hash_recording.py makes them"
        ) from None
    return hashes
