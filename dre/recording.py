"""A recording of a judge: its folder, and hashes of the prompts and texts that it is about, which are not all in it.

``hashes.json.gz`` holds the beginnings of sha256s, by a prompt's name and by a pair's id; a recording answers for these
alone. ``python experiments/hash_recording.py`` writes it.
"""

import functools
import gzip
import hashlib
import json
from pathlib import Path

from dre.errors import DreError
from dre.fetch import REPOSITORY

FOLDER = REPOSITORY / "data" / "recorded"
FILE = "hashes.json.gz"


def folder(name):
    """Return the folder of a recording by its name or path; DreError if there is none."""
    found = FOLDER / name if (FOLDER / name).is_dir() else Path(name)
    if not (found / "judgements.jsonl").is_file():
        there = ", ".join(sorted(path.parent.name for path in FOLDER.glob("*/judgements.jsonl")))
        what = f"or one of {there}" if there else "or run from a clone of the repository, which has recordings"
        raise DreError(f"no recording {name!r}: give a folder with judgements.jsonl, {what}")
    return found


def prompt_hash(prompt):
    """Return what a `dre.judges.prompts.Prompt` is known by: its text, scales and labels."""
    return _hash([prompt.template, prompt.scale, prompt.influence, prompt.labels])


def text_hash(context, response=None):
    """Return what a pair, or a whole dialogue, is known by: turns and response, spacing apart, which no judge sees."""
    return _hash([[" ".join(turn.split()) for turn in context], " ".join((response or "").split())])


def _hash(value):
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@functools.lru_cache(maxsize=4)
def hashes(folder):
    """Return ``{"prompts": {name: hash}, "pairs": {pair_id: hash}}`` of a recording."""
    path = folder / FILE
    try:
        return json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError):
        what = "expected hashes of what the judge was asked: python experiments/hash_recording.py makes them"
        raise DreError(f"{path}: {what}") from None


def check_prompt(folder, prompt):
    """Raise DreError if a recorded prompt of this name has other words."""
    if hashes(folder)["prompts"].get(prompt.name) != prompt_hash(prompt):
        what = f"prompt {prompt.name} has other words, scales or labels here than when {folder.name} was recorded"
        raise DreError(f"{what}: take the built-in prompt, or ask a live judge")


def check_texts(folder, rows):
    """Raise DreError if the texts of a row (``pair_id, context`` and, but of a dialogue, ``response``) are others."""
    known = hashes(folder)["pairs"]
    for row in rows:
        pair_id, context = row["pair_id"], row.get("context")
        if not isinstance(context, (tuple, list)):
            raise DreError(f"pair {pair_id} has no context: a recording knows a pair by its id and its texts")
        if known.get(pair_id) != text_hash(context, row.get("response")):
            what = f"pair {pair_id} has other texts than those that were shown to {folder.name} under this id"
            raise DreError(f"{what}: score the recorded texts, give yours another id, or ask a live judge")
