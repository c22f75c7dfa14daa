"""A recording of a judge: its folder, and hashes of the prompts and texts that it is about, which are not all in it.

``hashes.json.gz`` holds the beginning of a sha256 for each prompt's name and each pair's id; a recording answers for
these alone. ``python experiments/recordings/hash_recording.py`` writes it.
"""

import functools
import gzip
import hashlib
import json
from pathlib import Path

from dre.datasets.registry import PROJECT
from dre.errors import DreError

FOLDER, FILE = PROJECT / "data" / "recorded", "hashes.json.gz"


def folder(name):
    """Return the folder of a recording by its name or path; DreError if there is none."""
    found = FOLDER / name if (FOLDER / name).is_dir() else Path(name)
    if not (found / "judgements.jsonl").is_file():
        there = ", ".join(sorted(path.parent.name for path in FOLDER.glob("*/judgements.jsonl")))
        what = (
            f"or one of {there}"
            if there
            else "or run from a clone of the repository, which has one"
        )
        raise DreError(f"no recording {name!r}: give a folder with judgements.jsonl, {what}")
    return found


def hash_of(shown):
    """Return what a `dre.judges.prompts.Prompt` (text, scales, labels) or a row of texts is known by.

    Spacing in ``context`` (turns) and ``response`` (of a whole dialogue none) does not count: no judge sees it.
    """
    if hasattr(shown, "template"):
        parts = [shown.template, shown.scale, shown.influence, shown.labels]
    else:
        response = shown.get("response")
        parts = [[" ".join(turn.split()) for turn in shown.get("context") or ()]]
        parts.append(" ".join(response.split()) if isinstance(response, str) else "")
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def check(folder, name, shown):
    """Raise DreError unless a prompt, or a row of texts, is the one that was recorded under this name."""
    if _hashes(folder).get(name) != hash_of(shown):
        prompt = hasattr(shown, "template")
        found = (
            f"prompt {name} has other words, scales or labels"
            if prompt
            else f"pair {name} has other texts"
        )
        what = f"{found} here than those that {folder.name} was shown under this name"
        raise DreError(f"{what}: a recording answers for its own alone, so ask a live judge")


@functools.lru_cache(maxsize=4)
def _hashes(folder):
    try:
        return json.loads(gzip.decompress((folder / FILE).read_bytes()))
    except (OSError, EOFError, ValueError):
        what = "expected hashes of what the judge was shown: python experiments/recordings/hash_recording.py makes them"
        raise DreError(f"{folder / FILE}: {what}") from None
