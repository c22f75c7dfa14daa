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
from dre.datasets.registry import REPOSITORY, read_jsonl
from dre.judges import prompts

#: Files of a recording, and the field that has the id of what was shown.
ID_FIELDS = {
    "judgements.jsonl": "pair_id",
    "criteria.jsonl": "pair_id",
    "fed_qualities.jsonl": "item",
}


def known_texts() -> dict[str, dict]:
    """Return everything that a judge may have been shown: context and response by pair id."""
    case_rows = []
    for case in read_jsonl(REPOSITORY / "data" / "cases.jsonl"):
        for number, response in enumerate(case["responses"], 1):
            row = {
                "pair_id": f"cases/{case['id']}/{number}",
                "context": case["context"],
                "response": response,
            }
            case_rows.append(row)
    dialogues = ratings.fed_dialogues().rename(columns={"turns": "context"}).assign(response="")
    tables = [
        *(pairs(load("mini", split), "par") for split in SPLITS["mini"]),
        pairs(load("dailydialog++", "test"), "par"),
        *(ratings.rated(name) for name in ratings.RATED),
        pd.DataFrame(case_rows),
        dialogues,
    ]
    columns = ["pair_id", "context", "response"]
    table = pd.concat([table[columns] for table in tables])
    return {row["pair_id"]: row for row in table.to_dict("records")}


def hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of a recording, by prompt name or pair id."""
    prompt_names = set()
    pair_ids = set()
    for file_name, id_field in ID_FIELDS.items():
        if not (folder / file_name).is_file():
            continue
        records = read_jsonl(folder / file_name)
        pair_ids |= {record[id_field] for record in records}
        if file_name == "judgements.jsonl":
            prompt_names |= {record["prompt"] for record in records}

    hash_by_name = {}
    for name in sorted(prompt_names):
        hash_by_name[name] = recordings.hash_of(prompts.load(_built_in(name)))
    texts = known_texts()
    for pair_id in sorted(pair_ids):
        hash_by_name[pair_id] = recordings.hash_of(texts[pair_id])
    return hash_by_name


def _built_in(name):
    """Return the longest name of a built-in prompt that a prompt's name begins with."""
    candidates = [built_in for built_in in prompts.names() if f"{name}_".startswith(f"{built_in}_")]
    return max(candidates, key=len)


def main(recording: str = "claude-2026-11") -> None:
    """Write the hashes of a recording."""
    folder = recordings.folder(recording)
    hash_by_name = hashes(folder)
    text = json.dumps(hash_by_name, indent=0)
    (folder / recordings.FILE).write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(hash_by_name):,} hashes")


if __name__ == "__main__":
    main(*sys.argv[1:])
