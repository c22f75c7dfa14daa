"""Write the hashes of what a recorded judge was shown: prompts by name, texts by pair id (`dre.datasets.recordings`).

Run ``python experiments/hash_recording.py`` with the public data (``dre data fetch``) where a recording has new pairs
or prompts. A prompt that is no built-in one was asked with the words of the one its name begins with.
"""

import gzip
import json
import sys

import pandas as pd

from dre.datasets import ratings
from dre.datasets import recordings as recording
from dre.datasets.dialogues import SPLITS, load, pairs
from dre.datasets.registry import REPOSITORY, read_jsonl
from dre.judges import prompts

FILES = {"judgements.jsonl": "pair_id", "criteria.jsonl": "pair_id", "fed_qualities.jsonl": "item"}


def texts():
    """Return everything that may have been shown: pair id -> row."""
    cases = [
        {
            "pair_id": f"cases/{case['id']}/{number}",
            "context": case["context"],
            "response": response,
        }
        for case in read_jsonl(REPOSITORY / "data" / "cases.jsonl")
        for number, response in enumerate(case["responses"], 1)
    ]
    tables = [pairs(load("mini", split), "par") for split in SPLITS["mini"]]
    tables += [
        pairs(load("dailydialog++", "test"), "par"),
        *map(ratings.rated, ratings.RATED),
        pd.DataFrame(cases),
    ]
    tables.append(ratings.fed_dialogues().rename(columns={"turns": "context"}).assign(response=""))
    every = pd.concat([table[["pair_id", "context", "response"]] for table in tables])
    return {row["pair_id"]: row for row in every.to_dict("records")}


def hashes(folder):
    """Return the hashes of a recording by what they are of."""
    records = {name: read_jsonl(folder / name) for name in FILES if (folder / name).is_file()}
    ids = {record[FILES[name]] for name, some in records.items() for record in some}
    every, built_in, asked = texts(), prompts.names(), {}
    for name in sorted({record["prompt"] for record in records["judgements.jsonl"]}):
        words = max((one for one in built_in if f"{name}_".startswith(f"{one}_")), key=len)
        asked[name] = recording.hash_of(prompts.load(words))
    return asked | {id: recording.hash_of(every[id]) for id in sorted(ids)}


def main(name="claude-2026-11"):
    """Write them."""
    folder = recording.folder(name)
    text = json.dumps(found := hashes(folder), indent=0)
    (folder / recording.FILE).write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(found):,} hashes")


if __name__ == "__main__":
    main(*sys.argv[1:])
