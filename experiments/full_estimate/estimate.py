"""What a run of profile ``full`` takes: tables of docs/run_the_paper.md, by model of the papers.

Run ``python experiments/full_estimate/estimate.py`` (three minutes of one core, with the public
data). Nothing is asked. It writes, in ``results/full_estimate``:

- ``judges.csv``: calls, tokens and dollars of each judge, with and without the optional prompts of
  G-EVAL and LLM-Chiang;
- ``tables.csv``: the same by table and prompt, for GPT-3.5, with all optional prompts.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dre.paper import estimate
from dre.paper.judgements import ALIASES
from dre.paper.profile import PROJECT, profile

RESULTS = PROJECT / "results/full_estimate"
COSTLY = ("geval", "analyse_rate")
OPTIONAL = (*COSTLY, "slide_a1", "huynh")
FIRST_MODEL = "openai:gpt-3.5-turbo-1106"
WRITER = "openai:gpt-4-1106-preview"  # it wrote the papers' training sets, and is no judge of DRE


def calls_of(model: str, optional_prompts: Sequence[str]) -> pd.DataFrame:
    """Return the estimate of profile ``full`` with one live judge, in the units of the tables."""
    changes = {"judges": (model,), "optional_prompts": tuple(optional_prompts)}
    calls = estimate.calls(profile("full").model_copy(update=changes))
    return calls.assign(tokens_in=calls["tokens_in"] / 1e6, tokens_out=calls["tokens_out"] / 1e6)


def with_units(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its units in the names of columns, rounded as it is shown."""
    table = table.round({"tokens_in": 2, "tokens_out": 2, "usd": 2, "usd_at_most": 0})
    units = {"tokens_in": "million_tokens_in", "tokens_out": "million_tokens_out"}
    units |= {"usd": "dollars", "usd_at_most": "dollars_at_most"}
    return table.astype({"calls": int, "usd_at_most": int}).rename(columns=units)


def of_judges() -> pd.DataFrame:
    """Return a row for each model of DRE's Table 4, with and without the costly prompts."""
    rows = []
    for model in pd.read_csv(ALIASES)["model"]:
        if model == WRITER:
            continue
        calls = calls_of(model, COSTLY)
        of_prompts = {"always asked": calls[~calls["prompt"].isin(COSTLY)]}
        of_prompts["with G-EVAL and LLM-Chiang"] = calls
        for prompts, table in of_prompts.items():
            sums = table[estimate.COLUMNS[3:]].sum()
            rows.append({"judge": model, "prompts": prompts, **sums})
    return with_units(pd.DataFrame(rows))


def of_tables(optional_prompts: Sequence[str] = OPTIONAL) -> pd.DataFrame:
    """Return a row for each table and prompt of GPT-3.5."""
    return with_units(calls_of(FIRST_MODEL, optional_prompts).drop(columns="judge"))


def main() -> None:
    """Write the tables."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRE_STORE"] = str(Path(folder) / "empty.db")
        of_judges().to_csv(RESULTS / "judges.csv", index=False)
        of_tables().to_csv(RESULTS / "tables.csv", index=False)


if __name__ == "__main__":
    main()
