"""A saved SLM of the tiny encoder and files of pairs, for the tests of dre.scoring."""

import csv
import json

import pandas as pd
import tiny
import torch
from sentence_transformers import SentenceTransformer

from dre.data import load
from dre.slm import recipes
from dre.slm.encoder import load_encoder
from dre.slm.head import Head
from dre.slm.model import SLM


def slm(folder):
    """An untrained SLM that is calibrated: enough to score."""
    base = load_encoder(tiny.encoder(folder))
    torch.manual_seed(1)
    model = SLM(SentenceTransformer(modules=[*base, Head(32, "maps")]), recipes.get("paper"))
    model.provenance |= {"fingerprint": "f" * 64, "seed": 3, "encoder": "tiny"}
    model.calibrate(load("mini", "dev"))
    return model


def saved(folder):
    """The folder of that SLM."""
    slm(folder).save(folder / "slm")
    return folder / "slm"


def records(n, systems=("alpha", "beta")):
    """Records of n contexts, a response of every system each; different for every context."""
    contexts = load("mini", "train") + load("mini", "test")
    found = []
    for i in range(n):
        context = contexts[i % len(contexts)]
        for j, system in enumerate(systems):
            response = f"{(context.positives + context.adversarials)[(i + j) % 10]} That was number {i}."
            turns = [*context.turns[:-1], f"{context.turns[-1]} I am at {i}."]
            found.append({"id": f"c{i}", "system": system, "context": turns, "response": response})
    return found


def write(rows, path):
    """Write records as JSON Lines, CSV (turns on lines of a cell) or Parquet, by the ending."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            for row in rows:
                turns = row["context"]
                writer.writerow(row | {"context": turns if isinstance(turns, str) else "\n".join(turns)})
    return path


def read(path):
    """Read a table of scores, its texts as texts."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".jsonl":
        return pd.DataFrame([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    return pd.read_csv(path, dtype={"id": str, "system": str, "context_id": str})


def rated(contexts):
    """Responses with a rating each: high for positives, by two raters."""
    found = []
    for number, context in enumerate(contexts):
        for kind, rating in (("p", 4), ("a", 2)):
            for i, response in enumerate(context.responses(kind)):
                both = [rating, rating + (number + i) % 2]
                record = {"id": context.pair_id(kind, i), "context": list(context.turns), "response": response}
                found.append(record | {"human": both})
    return found
