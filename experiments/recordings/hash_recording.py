"""Write the hashes of what a recorded judge was shown: prompts by name, texts by pair id.

Run ``python experiments/recordings/hash_recording.py [RECORDING]`` with the public data (``dre data
fetch``) when a recording has new pairs or prompts. It makes
``data/recorded/<recording>/hashes.json.gz`` in half a minute. Where a prompt is not built in, the
judge was asked in the words of the built-in prompt that its name begins with.
"""

import gzip
import json
import sys
from pathlib import Path

import pandas as pd

from dre.datasets import ratings, recordings
from dre.datasets.dialogues import SPLITS, load, pairs
from dre.datasets.registry import read_jsonl
from dre.files import replace
from dre.judges import prompts
from dre.paper import plan
from dre.paper.profile import profile

#: Files of a recording, and the field that has the id of what was shown.
ID_FIELDS = {
    "judgements.jsonl": "pair_id",
    "criteria.jsonl": "pair_id",
    "fed_qualities.jsonl": "item",
}


def known_texts() -> pd.DataFrame:
    """Return all that a judge may have been shown: context and response by pair id."""
    tables = [
        *(pairs(load("mini", split), "par") for split in SPLITS["mini"]),
        pairs(load("dailydialog++", "test"), "par"),
        *(ratings.rated(name) for name in ratings.RATED),
        plan.cases(profile("public")),
        ratings.fed_dialogues().rename(columns={"turns": "context"}).assign(response=""),
    ]
    texts = pd.concat(tables)[["pair_id", "context", "response"]]
    return texts.drop_duplicates("pair_id", keep="last").set_index("pair_id")


def hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of a recording, by prompt name or pair id."""
    prompt_names: set[str] = set()
    pair_ids: set[str] = set()
    for file_name, id_field in ID_FIELDS.items():
        if (folder / file_name).is_file():
            records = read_jsonl(folder / file_name)
            pair_ids |= {record[id_field] for record in records}
            if file_name == "judgements.jsonl":
                prompt_names |= {record["prompt"] for record in records}
    built_in = {name: prompts.load(_built_in(name)) for name in sorted(prompt_names)}
    texts = known_texts().loc[sorted(pair_ids)].to_dict("index")
    return {name: recordings.hash_of(shown) for name, shown in (built_in | texts).items()}


def _built_in(name):
    """Return the longest name of a built-in prompt that a prompt's name begins with."""
    candidates = [built_in for built_in in prompts.names() if f"{name}_".startswith(f"{built_in}_")]
    return max(candidates, key=len)


def write(folder: Path) -> None:
    """Write the hashes of a recording."""
    text = json.dumps(hashes(folder), indent=0)
    replace(folder / recordings.FILE, gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    write(recordings.folder(*sys.argv[1:] or [recordings.NAME]))
