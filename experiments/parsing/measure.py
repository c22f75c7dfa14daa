"""Measure how replies are read: wordings that are meant to mislead the parser, and real replies.

Writes ``results/parsing.csv``, from which docs/prompts.md has its figures. Run

    python experiments/parsing/measure.py

after a change of `dre.judges.parse` or of one of the two files it uses. It takes about ten seconds
and needs the released GPT-3.5 replies (``dre data fetch``).

Each wording is given to the parser twice: as a reply in plain text, and as the reply to a request
that a JSON schema went with. It misleads the parser if a score or a label is read that an honest
reader would not read. The released replies are in plain text. Their readings are compared with
those of the version of the parser before it, which are in ``gpt35_readings.csv.gz``: a score for
each reply in the order of `dre.judges.released.gpt35`, empty where there was none.
"""

from pathlib import Path

import pandas as pd
import yaml

from dre.datasets.registry import REPOSITORY
from dre.judges import prompts, released

FOLDER = Path(__file__).parent
RESULT = REPOSITORY / "results" / "parsing.csv"

# What the rows of the table are called, and the files of the wordings.
WORDINGS = {
    "wordings written against the parser before": "sixty_eight_wordings.yaml",
    "wordings written before the parser saw them": "forty_wordings.yaml",
}


def load_wordings(name: str) -> list[dict]:
    """Return the wordings of a file: ``prompt``, ``reply``, and ``honest``, what it really says."""
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def is_misled(wording: dict, structured: bool) -> bool:
    """Return whether the parser reads a verdict that an honest reader would not read."""
    prompt = prompts.load(wording["prompt"])
    verdict = prompt.parse(wording["reply"], structured=structured)
    if verdict.status != "ok":
        return False
    value = verdict.label if prompt.kind == "label" else verdict.score_llm
    return value != wording["honest"]


def count_misled() -> list[dict]:
    """Return a row for each file of wordings and each way to ask."""
    rows = []
    for title, name in WORDINGS.items():
        wordings = load_wordings(name)
        for structured in (False, True):
            n_misled = sum(is_misled(wording, structured) for wording in wordings)
            rows.append(
                {
                    "replies": title,
                    "asked": "with a schema" if structured else "as text",
                    "n": len(wordings),
                    "outcome": "misread",
                    "count": n_misled,
                }
            )
    return rows


def compare_released() -> list[dict]:
    """Return a row for each way in which the reading of a released reply may have changed."""
    now = released.gpt35()["score_llm"]
    before = pd.read_csv(FOLDER / "gpt35_readings.csv.gz", skip_blank_lines=False)["score"]
    changes = {
        "the same value": (now == before) & now.notna(),
        "another value": (now != before) & now.notna() & before.notna(),
        "no value any more": now.isna() & before.notna(),
        "a value where there was none": now.notna() & before.isna(),
        "no value as before": now.isna() & before.isna(),
    }
    rows = []
    for outcome, holds in changes.items():
        rows.append(
            {
                "replies": "released GPT-3.5 replies",
                "asked": "as text",
                "n": len(now),
                "outcome": outcome,
                "count": int(holds.sum()),
            }
        )
    return rows


if __name__ == "__main__":
    table = pd.DataFrame(count_misled() + compare_released())
    table.to_csv(RESULT, index=False)
    print(table.to_string(index=False))
