"""The rows of Table 6 that need a large model: from a live judge, or from a recording of these cases."""

import json
from pathlib import Path

import pandas as pd

from dre import fusion, judges, published
from dre.cases.written import LLM
from dre.correlation import opinions
from dre.data.recorded import RECORDED
from dre.errors import DreError

PROMPTS = ("llm_only", "dre")


def specs(profile):
    """Return the judges to ask: the profile's, and every recording in ``data/recorded``."""
    recordings = sorted(f"recorded:{path.parent.name}" for path in RECORDED.glob("*/judgements.jsonl"))
    return list(dict.fromkeys([*profile.judges, *recordings]))


def rows_to_ask(responses, slm):
    """Return the responses with what the prompts show: the SLM's scores, and the accuracies Table 3 publishes."""
    table = published.table3().set_index("model")["overall"] / 100
    shown = {"slm_accuracy": table["SLM (Prob & Dis)"], "llm_accuracy": table["GPT-4"]}
    return responses.merge(slm.score(responses), on="pair_id").assign(**shown)


def write(rows, path):
    """Write the rows as a JSONL file for ``dre judge``."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    records = rows.drop(columns=["case", "design", "number", "fits"]).to_dict("records")
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")


def metrics(rows, spec):
    """Score the rows with one judge: Non-DRE, Ex-DRE and SLIDE from the LLM-only prompt, In-DRE and DRE from the other.

    Parameters
    ----------
    rows : DataFrame
        From `rows_to_ask`.
    spec : str
        See `dre.judges.open`. A recording gives what it holds of these cases.

    Returns
    -------
    pandas.DataFrame or None
        ``pair_id`` and a column a metric (``DRE (<judge>)``) in [0, 1]; None where the judge scored none.

    Raises
    ------
    DreError
        If a live judge cannot be asked.
    """
    answers = {prompt: _ask(rows, spec, prompt) for prompt in PROMPTS}
    found = {}
    if answers["llm_only"] is not None:
        table = answers["llm_only"]
        found["Non-DRE"] = fusion.non_dre(table)["score"] / 5
        found["Ex-DRE"] = fusion.ex_dre(table)["score"] / 10
        found["SLIDE"] = fusion.slide(table)["score"] / 2
    if answers["dre"] is not None:
        found["In-DRE"] = fusion.in_dre(answers["dre"])["score"] / 5
        found["DRE"] = fusion.dre(answers["dre"])["score"] / 10
    if not found:
        return None
    name = spec.partition(":")[2]
    columns = {f"{metric} ({name})": found[metric].clip(0, 1) for metric in LLM if metric in found}
    return pd.DataFrame({"pair_id": rows["pair_id"]} | columns)


def _ask(rows, spec, prompt):
    answer = opinions.ask(judges.open(spec), rows, prompt)
    if answer is None or not (answer["status"] == "ok").any():
        return None
    return rows.merge(answer[["pair_id", "score_llm", "s_inf", "status"]], on="pair_id", validate="1:1")


def ask_all(rows, profile):
    """Ask every judge of `specs`.

    Returns
    -------
    (DataFrame, dict)
        ``pair_id`` and the metrics found; metric -> why it was not run.
    """
    table, problems = rows[["pair_id"]], []
    for spec in specs(profile):
        try:
            found = metrics(rows, spec)
        except DreError as error:
            problems.append(f"{spec}: {error}")
            continue
        if found is not None:
            table = table.merge(found, on="pair_id", validate="1:1")
    ran = {name.partition(" (")[0] for name in table.columns}
    why = "; ".join(problems) or (
        f"no judge of the profile is live and no recording holds these cases; to get them judged: {_export(profile)}"
    )
    return table, {metric: why for metric in LLM if metric not in ran}


def file(profile):
    """Return the path of the rows in the form that ``dre judge`` reads."""
    return profile.build / "cases.jsonl"


def _export(profile, prompt="llm_only"):
    path = file(profile).relative_to(profile.root).as_posix()
    return f"dre judge export {path} --judge files:<model> --prompt {prompt} -o {prompt}.jsonl"


def how_to(profile):
    """Return, as Markdown, the commands that get these cases scored by any model."""
    path = file(profile).relative_to(profile.root).as_posix()
    whom = f"{path} --judge files:<model> --prompt"
    steps = [
        *(_export(profile, prompt) for prompt in PROMPTS),
        "# have any engine answer the requests in the two files, then",
        *(f"dre judge import {whom} {prompt} --replies <replies to {prompt}.jsonl>" for prompt in PROMPTS),
        *(f"dre judge export {whom} {prompt} --recorded data/recorded/<name-{prompt}>" for prompt in PROMPTS),
    ]
    return (
        f"A live judge in `profiles/{profile.name}.yaml`, such as `openai:gpt-4o-mini`, is asked by this notebook. "
        "Any other model can be asked through files, with a recording that the notebook then finds by itself:\n\n"
        "```\n" + "\n".join(steps) + "\n```"
    )
