"""Measure two limits of the results: dialogues that the judge knows, and texts that are cut.

Writes ``results/trust_memory.csv`` and ``results/trust_lengths.csv``, which docs/trust.md shows.
Run

    python experiments/trust/measure.py

after a change of the recording or of the encoder. It takes half a minute and needs the public data
(``dre data fetch``).
"""

import pandas as pd

from dre.datasets import ratings
from dre.datasets.registry import REPOSITORY
from dre.slm.encoder import Tokens, context_text, load_encoder

PROBE = REPOSITORY / "data/recorded/claude-2026-11/memory_probe.csv"
#: The names of the probed sets for people.
LABELS = {
    "dailydialog-zhao": "DailyDialog",
    "personachat-usr": "PersonaChat",
    "topicalchat-usr": "TopicalChat",
    "mini": "embedded corpus, never published",
}
LIMIT = 128  # tokens that a small model reads of a context
NEARLY_VERBATIM = 0.8


def memory(probe: pd.DataFrame) -> pd.DataFrame:
    """Return for each set how many next turns the judge knew.

    Parameters
    ----------
    probe : DataFrame
        A row for each conversation: ``set``, ``recognised`` (0 or 1: the judge said that it knew
        the conversation) and ``similarity`` of the turn that it wrote to the real one (0 to 1).
    """
    rows = []
    for name, label in LABELS.items():
        turns = probe[probe["set"] == name]
        recognised = turns["recognised"] == 1
        is_close = turns["similarity"] >= NEARLY_VERBATIM
        row = {
            "dialogues": label,
            "asked": len(turns),
            "recognised": int(recognised.sum()),
            "nearly verbatim": int((recognised & is_close).sum()),
            "mean similarity": round(turns["similarity"].mean(), 2),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def lengths() -> pd.DataFrame:
    """Return for each rated set how many of its contexts are longer than the small models read."""
    encoder = load_encoder("minilm")
    rows = []
    for name, label in LABELS.items():
        if name == "mini":
            continue
        contexts = ratings.rated(name)["context"].drop_duplicates()
        texts = [context_text(turns, max_words=10_000) for turns in contexts]
        counts = Tokens(encoder).lengths(texts)
        row = {
            "rated set": label,
            "contexts": len(texts),
            "mean number of tokens": round(counts.mean()),
            "cut (%)": round(100 * (counts > LIMIT).mean()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    tables = {"trust_memory": memory(pd.read_csv(PROBE)), "trust_lengths": lengths()}
    for name, table in tables.items():
        table.to_csv(REPOSITORY / "results" / f"{name}.csv", index=False)
        print(table.to_string(index=False))
