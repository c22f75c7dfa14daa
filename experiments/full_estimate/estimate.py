"""What a run of profile ``full`` takes: tables of docs/run_the_paper.md, by model of the papers.

Run ``python experiments/full_estimate/estimate.py`` (three minutes of one core, with the public
data). Nothing is asked and nothing is trained. It writes, in ``results/full_estimate``:

- ``judges.csv``: calls, tokens, dollars and hours of each judge, with and without the optional
  prompts of G-EVAL and LLM-Chiang, and those of profile ``colab``;
- ``tables.csv``: the same by table and prompt, for GPT-3.5, with all optional prompts;
- ``training.csv``: models, GPU hours and disk, by the number of training steps;
- ``colab.csv``: what each notebook of profile ``colab`` takes on a machine of its own.

The numbers are those of ``make paper PROFILE=full ARGS=--estimate`` where no reply is stored yet.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dre.paper import estimate
from dre.paper.judgements import ALIASES
from dre.paper.profile import PROJECT, Profile, profile

RESULTS = PROJECT / "results/full_estimate"
COSTLY = ("geval", "analyse_rate")
ALL_OPTIONAL = (*COSTLY, "slide_a1", "huynh")
FIRST_MODEL = "openai:gpt-3.5-turbo-1106"
WRITER = "openai:gpt-4-1106-preview"  # it wrote the papers' training sets, and is no judge of DRE


def with_judge(model: str, optional_prompts: Sequence[str] = ()) -> Profile:
    """Return profile ``full`` with one live judge."""
    changes = {"judges": (model,), "optional_prompts": tuple(optional_prompts)}
    return profile("full").model_copy(update=changes)


def of_judges() -> pd.DataFrame:
    """Return a row for each model of DRE's Table 4, with and without the costly prompts."""
    rows = []
    for model in pd.read_csv(ALIASES)["model"]:
        if model == WRITER:
            continue
        calls = estimate.calls(with_judge(model, COSTLY))
        is_costly = calls["prompt"].isin(COSTLY)
        rows.append(_row(model, "always asked", calls[~is_costly]))
        rows.append(_row(model, "with G-EVAL and LLM-Chiang", calls))
    return pd.DataFrame([*rows, of_colab()])


def of_colab() -> dict[str, object]:
    """Return the same for the judge of profile ``colab``."""
    settings = profile("colab")
    (judge,) = settings.judge_settings
    return _row(judge.model, "profile colab", estimate.calls(settings))


def _row(model, prompts, calls) -> dict[str, object]:
    """Return the sums of some calls of a judge, in the units of the tables."""
    sums = calls[estimate.COLUMNS[3:]].sum()
    row = {
        "judge": model,
        "prompts": prompts,
        "calls": int(sums["calls"]),
        "million_tokens_in": round(sums["tokens_in"] / 1e6, 2),
        "million_tokens_out": round(sums["tokens_out"] / 1e6, 2),
        "dollars": round(sums["usd"], 2),
        "dollars_at_most": round(sums["usd_at_most"]),
    }
    if model.startswith("ollama:"):
        row["hours"] = f"{estimate.hours_of_ollama(model, sums['calls']):,.0f}"
    return row


def of_tables(optional_prompts: Sequence[str] = ALL_OPTIONAL) -> pd.DataFrame:
    """Return a row for each table and prompt of GPT-3.5."""
    calls = estimate.calls(with_judge(FIRST_MODEL, optional_prompts))
    rows = []
    for table, of_table in calls.groupby("table", sort=False):
        for prompt, of_prompt in of_table.groupby("prompt", sort=False):
            is_optional = prompt in ALL_OPTIONAL or table == "Huynh et al."
            asked = "if named" if is_optional else "always"
            sums = _row(FIRST_MODEL, asked, of_prompt)
            del sums["judge"], sums["prompts"]
            rows.append({"table": table, "prompt": prompt, "asked": asked, **sums})
    return pd.DataFrame(rows)


def of_training() -> pd.DataFrame:
    """Return a row for each profile with a GPU: what training its models takes."""
    rows = []
    full = profile("full")
    trainings_by_name = {
        "full": estimate.trainings(full),
        "full, PCAF": estimate.pcaf_trainings(full),
        "colab": estimate.trainings(profile("colab")),
    }
    for name, trainings in trainings_by_name.items():
        row = {
            "profile": name,
            "models": trainings.n_models,
            "steps": trainings.n_steps,
            "hours_of_a_GPU": round(trainings.gpu_hours, 2),
            "GB_of_disk": round(trainings.gigabytes, 2),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def of_colab_notebooks() -> pd.DataFrame:
    """Return what each notebook of profile ``colab`` takes on a machine of its own, and the sum.

    Colab opens a notebook on a machine that has neither the replies nor the models of another one.
    """
    settings = profile("colab")
    (judge,) = settings.judge_settings
    rows = []
    for name in settings.notebooks:
        alone = settings.model_copy(update={"notebooks": (name,)})
        row = _row(judge.model, "", estimate.calls(alone, name))
        del row["judge"], row["prompts"]
        n_models = estimate.trainings(alone).n_models
        rows.append({"notebook": name, "models": n_models, **row})
    table = pd.DataFrame(rows)
    total = table.sum(numeric_only=True).to_dict()
    table = pd.concat([table, pd.DataFrame([{"notebook": "all three", **total}])])
    whole_numbers = dict.fromkeys(["models", "calls", "dollars_at_most"], int)
    return table.astype(whole_numbers).round(2).reset_index(drop=True)


def main() -> None:
    """Write the tables."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRE_STORE"] = str(Path(folder) / "empty.db")
        of_judges().to_csv(RESULTS / "judges.csv", index=False)
        of_tables().to_csv(RESULTS / "tables.csv", index=False)
        of_colab_notebooks().to_csv(RESULTS / "colab.csv", index=False)
    of_training().to_csv(RESULTS / "training.csv", index=False)


if __name__ == "__main__":
    main()
