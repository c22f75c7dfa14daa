"""What one example costs, as measured, beside what the papers print (DRE, section 4.4).

Of a judge it is the mean over its stored replies, whichever run paid for them. Of a small model it
is what its training measured: scoring the held-out contexts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dre.judges.store import Store
from dre.paper.judgements import PanelJudge
from dre.paper.plan import FAMILIES
from dre.paper.profile import Profile
from dre.paper.table4 import NO_SUCH_JUDGE
from dre.slm.provenance import MEASURED

#: What a judge is asked for an example, by the row: a prompt, or a family of them.
_ROWS = {"judge alone, SLIDE, Ex-DRE": "llm_only", "In-DRE, DRE": "dre"}
_ROWS |= {"G-EVAL": "geval", "LLM-Chiang": "analyse_rate"}
COLUMNS = ["what", "model", "replies", "dollars", "seconds", "gpu_gib", "hours", "device"]
PRINTED = ["printed_dollars_in_all", "printed_seconds", "printed_gb", "printed_hours"]
#: What the file of printed numbers calls these.
_IN_PRINT = ["dollars_in_all", "seconds", "gigabytes", "hours"]
_ELSEWHERE = "not known: the judge runs elsewhere"


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
    Columns `COLUMNS`, `PRINTED` and ``note``. ``dollars``, ``seconds`` and ``gpu_gib`` are of one
    example; ``hours`` are those of a training. What was not measured is NaN. What the papers print
    of a model that this run does not have stands in a row of its own.
    """
    columns = [*COLUMNS, *PRINTED, "note"]
    rows = []
    for judge in panel:
        if judge.is_live:
            rows += _of_judge(settings, judge)
    for name, slm in slms.items():
        rows += _of_slm(name, slm)
    if not rows:
        return pd.DataFrame(columns=columns)

    printed = pd.read_csv(settings.root / "data/paper/dre_costs.csv")
    printed = printed.rename(columns=dict(zip(_IN_PRINT, PRINTED)))
    has_row = set()
    for row in rows:
        if row["what"] not in ("training", "In-DRE, DRE"):
            continue  # print has the seconds of both scores, and of a training
        for in_print in printed.to_dict("records"):
            if row["printed_name"] and row["printed_name"] in in_print["model"].split(" and "):
                row |= {column: in_print[column] for column in PRINTED}
                has_row.add(in_print["model"])
    for in_print in printed.to_dict("records"):
        if in_print["model"] not in has_row:
            rows.append(in_print | {"note": _why_absent(in_print, panel)})
    return pd.DataFrame(rows, columns=columns)


def _why_absent(in_print, panel):
    """Return why what the papers print has no partner in this run."""
    if in_print["what"] == "writing the responses":
        return "what writing training sets took stands in the bill"
    if in_print["what"] == "training":
        return "no training of this profile was timed"
    names = in_print["model"].split(" and ")
    is_there = any(judge.printed_name in names for judge in panel)
    return "this judge was not shown numbers" if is_there else NO_SUCH_JUDGE


def _of_judge(settings, judge):
    """Return a row for each prompt that a live judge has answered."""
    store = Store()
    bill = store.bill("judge", "address", "prompt")
    store.close()
    rows = []
    for what, prompt in _ROWS.items():
        names = judge.prompt_names(prompt)
        opened = judge.open(prompt)
        opened.close()
        asked = [(opened.spec, opened.base_url, name) for name in names]
        of_judge = pd.Index(zip(bill["judge"], bill["address"], bill["prompt"])).isin(asked)
        sums = bill[of_judge].sum(numeric_only=True).to_dict()
        if not sums["replies"]:
            continue
        n_per_example = opened.repeats * (len(names) if prompt in FAMILIES else 1)
        row = {
            "what": what,
            "model": judge.name,
            "printed_name": judge.printed_name,
            "replies": int(sums["replies"]),
            "dollars": math.nan,
            "seconds": n_per_example * sums["seconds"] / sums["replies"],
            "gpu_gib": math.nan,
            "note": f"GPU memory {_ELSEWHERE}",
        }
        n_priced = sums["replies"] - sums["unpriced"]
        if n_priced:
            row["dollars"] = n_per_example * (sums["usd"] - sums["usd_lost"]) / n_priced
        rows.append(row)
    return rows


def _of_slm(name, slm):
    """Return a row for the scoring, and one for the training, of a small model."""
    measured = slm.provenance.get(MEASURED)
    if not measured:
        return []
    rows = []
    scoring = measured["scoring"]
    if scoring:
        row = {"what": "scoring", "model": name, "printed_name": "", "replies": scoring["pairs"]}
        row |= {"dollars": 0.0, "seconds": scoring["seconds"] / scoring["pairs"]}
        rows.append(row | {"gpu_gib": scoring["gpu_gib"], "device": scoring["device"]})
    training = measured["training"]
    row = {"what": "training", "model": name, "printed_name": "small model"}
    row |= {"hours": training["seconds"] / 3600, "gpu_gib": training["gpu_gib"]}
    rows.append(row | {"device": training["device"]})
    return rows
