"""What the recorded judge said of FED's qualities, by what it was shown: a table of its own.

All qualities of an item were rated in one reply, so these are no verdicts of the prompts ``quality_...``, which ask for
one at a time, and no judge of `dre.judges.open` repeats them.
"""

import pandas as pd

from dre.errors import DreError
from dre.fetch import read_jsonl, repository_file
from dre.ratings import NAME

SETTINGS = {"zero": "zero-shot", "random0": "random 1", "random1": "random 2", "random2": "random 3", "bm25": "BM25"}


def said(name=NAME):
    """Return the recorded ratings: ``item`` (as in `dre.ratings.fed_qualities`), ``examples``, ``quality, score``.

    ``examples`` is one of `SETTINGS`. The items that a random draw showed are missing from it.
    """
    rows, seen = [], set()
    for record in read_jsonl(repository_file("recorded", name, "fed_qualities.jsonl")):
        about = record["item"], record["examples"]
        if about in seen or about[1] not in SETTINGS:
            raise DreError(f"fed_qualities.jsonl: {about} is there twice, or its examples are none of {[*SETTINGS]}")
        seen.add(about)
        rows += [(*about, quality, float(score)) for quality, score in record["ratings"].items()]
    return pd.DataFrame(rows, columns=["item", "examples", "quality", "score"])
