"""The SLM scores that go into the prompts of interior refinement: frozen in a file, without any text.

The prompt shows s_p, 1 - s_d and their sum. A model trained on another machine gives slightly other numbers, hence
other prompts, and a recorded reply would no longer belong to its prompt. The numbers are therefore rounded, written
once to ``dre_prompt_inputs.csv``, and read from there as long as the SLM is the same.
"""

import json
from pathlib import Path

import pandas as pd

from dre.errors import DreError

FILE = "dre_prompt_inputs.csv"
PROMPTS = ("llm_only", "dre")
DIGITS = 6
COLUMNS = ["pair_id", "s_d", "s_p", "score_slm", "slm_accuracy", "llm_accuracy", "slm"]


def freeze(scored, slm, accuracies, path):
    """Return the frozen inputs of some pairs; what the file lacks is added to it.

    Parameters
    ----------
    scored : DataFrame
        ``pair_id, s_d, s_p, score_slm`` of `dre.slm.model.SLM.score`.
    slm : SLM
        Whose scores they are: its fingerprint stands beside each.
    accuracies : (float, float)
        Of the SLM and of the LLM in Table 3, in [0, 1].
    path : path
        Of the CSV file.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`, one row a pair, in the order of ``scored``.
    """
    fingerprint = slm.provenance["fingerprint"]
    new = scored[["pair_id", "s_d", "s_p"]].round(DIGITS)
    new["score_slm"] = (1 - new["s_d"] + new["s_p"]).round(DIGITS)
    new["slm_accuracy"], new["llm_accuracy"] = (round(value, DIGITS) for value in accuracies)
    new["slm"] = fingerprint
    old = read(path)
    same = old[(old["slm"] == fingerprint) & old["pair_id"].isin(new["pair_id"])]
    if set(same["pair_id"]) == set(new["pair_id"]):
        return same.set_index("pair_id").loc[new["pair_id"]].reset_index()[COLUMNS]
    kept = old[~old["pair_id"].isin(new["pair_id"])]
    table = new if kept.empty else pd.concat([kept, new], ignore_index=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    table[COLUMNS].to_csv(path, index=False, lineterminator="\n", float_format=f"%.{DIGITS}f")
    return new[COLUMNS]


def read(path):
    """Return the frozen inputs in a file, empty if there is none.

    Raises
    ------
    DreError
        If the file has other columns.
    """
    if not path.is_file():
        return pd.DataFrame(columns=COLUMNS)
    table = pd.read_csv(path).round(DIGITS)
    if list(table.columns) != COLUMNS:
        raise DreError(f"{path}: columns {', '.join(table.columns)}, expected {', '.join(COLUMNS)}: delete the file")
    return table


def beside(judge):
    """Return the inputs frozen beside the recording of a judge ``recorded:<name or folder>``, or None."""
    from dre.data.recorded import RECORDED

    name = judge.spec.partition(":")[2]
    found = next((path for path in (RECORDED / name / FILE, Path(name) / FILE) if path.is_file()), None)
    return None if found is None else read(found)


def how_to(profile):
    """Return, as Markdown, the commands that get the prompts of this profile answered by any model and recorded."""
    pairs, frozen = (path.relative_to(profile.root).as_posix() for path in (file(profile), profile.results / FILE))
    whom = f"{pairs} --judge files:<model> --prompt"
    folder = "data/recorded/<model>"
    steps = [
        *(f"dre judge export {whom} {prompt} -o {prompt}.jsonl" for prompt in PROMPTS),
        "# have any engine answer the requests in the two files, then",
        *(f"dre judge import {whom} {prompt} --replies <replies to {prompt}.jsonl>" for prompt in PROMPTS),
        *(f"dre judge export {whom} {prompt} --recorded {folder}-{prompt}" for prompt in PROMPTS),
        f"cp {frozen} {folder}-dre/",
    ]
    names = ", ".join(f'"recorded:<model>-{prompt}"' for prompt in PROMPTS)
    return (
        f"A live judge in `profiles/{profile.name}.yaml`, such as `openai:gpt-4o-mini`, is asked by this notebook. "
        "Any other model can be asked through files:\n\n```\n" + "\n".join(steps) + "\n```\n\n"
        f"With {names} among the judges of the profile, this notebook replays the recordings."
    )


def file(profile):
    """Return the path of the pairs in the form that ``dre judge`` reads."""
    return profile.build / "dre_pairs.jsonl"


def write_pairs(domains, inputs, path):
    """Write the pairs with their inputs as JSONL for ``dre judge export``; returns how many.

    The file holds the dialogues and is meant for ``build/``, which is never committed.
    """
    rows = pd.concat([domain.pairs for domain in domains]).merge(inputs.drop(columns="slm"), on="pair_id")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for row in rows.to_dict("records"):
            file.write(json.dumps(row | {"context": list(row["context"])}, ensure_ascii=False) + "\n")
    return len(rows)


def accuracies(profile):
    """Return the accuracies of SLM and LLM that the prompt states, each in [0, 1], and where they come from.

    Measured in Table 3 of notebook 03 with the same profile, on its first set: the SLM's overall accuracy (first
    recipe, distance and probability), the LLM's from its recorded labels.

    Raises
    ------
    DreError
        If notebook 03 has not been run with this profile.
    """
    path = profile.results / "table3.csv"
    if not path.is_file():
        raise DreError(f"{path} is missing: run notebook 03_classification with profile {profile.name} first")
    table = pd.read_csv(path)
    ours = table[table["model"] == f"SLM (Prob & Dis), {profile.recipes[0]}"]
    llm = table[table["model"].str.startswith("LLM labels") & (table["source"] == "recorded")]
    if ours.empty or llm.empty:
        raise DreError(f"{path} has no row of the SLM or of an LLM's labels: run notebook 03_classification again")
    return float(ours["overall"].iloc[0]) / 100, float(llm["overall"].iloc[0]) / 100
