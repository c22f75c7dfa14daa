"""What one example costs, as measured, beside what the papers print (DRE, section 4.4).

Of a judge it is the mean over the replies that the profile paid for. Of a small model it is what
its training measured: scoring the held-out contexts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dre.paper import bill
from dre.paper.judgements import PanelJudge
from dre.paper.plan import SAMPLED
from dre.paper.profile import Profile
from dre.slm.provenance import MEASURED

#: What a judge is asked for an example, by the row: a prompt, or a family of them.
_ROWS = {"judge alone, SLIDE, Ex-DRE": "llm_only", "In-DRE, DRE": "dre"}
_ROWS |= {"G-EVAL": "geval", "LLM-Chiang": "analyse_rate"}
#: What the file of printed numbers calls the rows that have a partner in print.
_IN_PRINT = {"In-DRE, DRE": "evaluation", "training": "training"}
COLUMNS = ["what", "model", "replies", "dollars", "seconds", "gpu_gib", "hours", "device"]
COLUMNS += [f"printed_{name}" for name in ("dollars_in_all", "seconds", "gigabytes", "hours")]


def per_example(
    settings: Profile, panel: Sequence[PanelJudge], slms: Mapping[str, Any]
) -> pd.DataFrame:
    """Return what one example costs: dollars, seconds and GiB of a GPU.

    Parameters
    ----------
    settings : the profile.
    panel : its judges; recorded ones were not measured.
    slms : dict
        By name, a small model with its ``provenance``.

    Returns
    -------
    Columns `COLUMNS`. ``hours`` are those of a training, ``printed_dollars_in_all`` those of the
    paper's whole study; all else is of one example. What was not measured is NaN. What the papers
    print of another model is a row of its own. No row if nothing was measured.
    """
    rows = _of_judges(panel, bill.calls(settings)) + _of_small_models(slms)
    if not rows:
        return pd.DataFrame(columns=COLUMNS)
    table = pd.DataFrame(rows)
    table = table.assign(kind=table["what"].map(_IN_PRINT.get), order=range(len(table)))
    printed = pd.read_csv(settings.root / "data/paper/dre_costs.csv").drop(columns="hardware")
    printed = printed.add_prefix("printed_").rename(columns={"printed_what": "kind"})
    printed["in_print"] = printed["printed_model"].str.split(" and ")
    table = table.merge(printed.explode("in_print"), on=["kind", "in_print"], how="outer")
    table = table.sort_values("order", ignore_index=True)  # what print alone has comes last
    table["what"] = table["what"].fillna(table["kind"])
    table["model"] = table["model"].fillna(table["in_print"])
    return table.reindex(columns=COLUMNS)


def _of_judges(panel, calls):
    """Return a row for each judge and each prompt that it was asked."""
    rows = []
    for judge in panel:
        for what, prompt in _ROWS.items():
            names = judge.prompt_names(prompt)
            of_judge = calls[(calls["judge"] == judge.name) & calls["prompt"].isin(names)]
            sums = of_judge.sum(numeric_only=True)
            if not judge.is_live or not sums["replies"]:
                continue
            repeats = judge.settings.samples if prompt in SAMPLED else judge.judge.repeats
            n_replies = repeats * len(names)  # to an example
            row = {"what": what, "model": judge.name, "in_print": judge.printed_name}
            row |= {"replies": sums["replies"]}
            n_priced = sums["replies"] - sums["unpriced"]
            if n_priced:
                row["dollars"] = n_replies * (sums["usd"] - sums["usd_lost"]) / n_priced
            row["seconds"] = n_replies * sums["seconds"] / sums["replies"]
            rows.append(row)
    return rows


def _of_small_models(slms):
    """Return a row for the training of each small model that was measured, and for its scoring."""
    rows = []
    for name, slm in slms.items():
        measured = slm.provenance.get(MEASURED, {})
        if measured:
            training = measured["training"]
            row = {"what": "training", "model": name, "in_print": "small model"}
            rows.append({**row, **training, "seconds": None, "hours": training["seconds"] / 3600})
        if measured and measured["scoring"]:
            scoring = measured["scoring"]
            row = {"what": "scoring", "model": name, "replies": scoring["pairs"], "dollars": 0.0}
            rows.append({**row, **scoring, "seconds": scoring["seconds"] / scoring["pairs"]})
    return rows
