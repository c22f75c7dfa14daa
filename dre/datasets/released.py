"""What judges said of the rated sets: our own recording, and what others released, all on one scale of 0-5.

What was released is joined to our pair ids, and checked against what its files repeat of their items: no row can slip.
"""

import functools
import json

import numpy as np
import pandas as pd

from dre.datasets import ratings
from dre.datasets import recordings as recording
from dre.datasets.registry import fetch
from dre.errors import DreError
from dre.judges import prompts
from dre.judges.recorded import Recorded

CLAUDE, HAIKU = "claude-2026-11", "Claude-3-haiku"
P_YES = ["Llama2-13B", "Qwen-14B", "Vicuna-13B", "Baichuan2-13B", "ChatGLM3-6B"]
FOLDERS = {
    "Qwen-14B": "Qwen14B",
    "Vicuna-13B": "Vicuna13B",
    "ChatGLM3-6B": "Chatglm3-6B",
}  # where named otherwise
GPT35 = {  # judge -> prompt of the released replies, and the family of our prompts that reads them
    "GPT-3.5-0613 G-Eval": ("geval", "geval"),
    "GPT-3.5-0613 analyse-rate": ("analyze_rate", "analyse_rate"),
    "GPT-3.5-0613 rate-explain": ("rate_explain", "analyse_rate"),
}
CRITERIA = {"coh": "coherence", "eng": "engagingness", "gro": "groundedness", "nat": "naturalness"}
FILES = {  # set -> files of Claude-3-haiku and of the five models asked for P(yes)
    "topicalchat-usr": ("TC/tc_usr_results.json", "tc_usr_data"),
    "personachat-usr": ("PC/pc_usr_results.json", "pc_usr_data"),
    "fed-turn": ("FED/turn_results.json", "fed_data"),
}


@functools.cache
def scores(name):
    """Return what every judge that scored a rated set (one of `dre.datasets.ratings.RATED`) said of it, 0-5 or NaN.

    One row per pair, in the order of `dre.datasets.ratings.rated`: ``pair_id``, and one column per judge that knows the set.
    """
    rated = ratings.rated(name)
    table = rated[["pair_id"]].copy()
    recorded = Recorded(CLAUDE, repeats=1).score(rated, "llm_only", ask=False)
    if recorded["score_llm"].notna().any():
        table[CLAUDE] = recorded["score_llm"].to_numpy()
    if name in FILES:
        haiku, p_yes = FILES[name]
        records = json.loads(fetch(haiku).read_bytes())
        if not np.allclose(
            _aligned(records, rated, "dialog_id", "human_score", haiku), rated["human"], atol=1e-6
        ):
            raise DreError(f"{haiku}: its human scores are not those of {name}: get the file again")
        table[HAIKU] = (_aligned(records, rated, "dialog_id", "predicted_score", haiku) - 1) / 4 * 5
        for judge in P_YES:
            records = json.loads(
                fetch(f"{FOLDERS.get(judge, judge)}/{p_yes}/turn_level/*").read_bytes()
            )["dialogues"]
            table[judge] = _aligned(records, rated, "id_dialogue", "yes", judge) * 5
    if (
        name == "topicalchat-usr"
    ):  # the mean over samples, brought to 0-1, then over the four criteria
        means = (
            gpt35()
            .groupby(["pair_id", "judge", "criterion"], sort=False)["score_llm"]
            .mean()
            .unstack("criterion")
        )
        for criterion in CRITERIA.values():
            low, high = prompts.load(f"geval_{criterion}").scale
            means[criterion] = (means[criterion] - low) / (high - low)
        of_judge = (
            means.mean(axis=1, skipna=False).unstack("judge") * 5
        )  # without one criterion there is no score
        table = table.merge(of_judge[list(GPT35)].reset_index(), on="pair_id", how="left")
    return table


def shown(prompt, rated):
    """Return the ``s_d`` and ``s_p``, two Series, that `CLAUDE` was shown with a prompt for a rated set."""
    file = {"dre": "dre_inputs", "dre_graded": "dre_inputs_graded"}.get(prompt, "dre_as_printed")
    numbers = pd.read_csv(recording.folder(CLAUDE) / f"{file}.csv", index_col="pair_id")
    numbers = numbers.loc[rated["pair_id"]].set_index(rated.index)
    return numbers["s_d"], numbers["s_p"]


@functools.cache
def gpt35():
    """Return GPT-3.5-turbo-0613's released replies on TopicalChat-USR (Chiang and Lee, 2023), read by our parser.

    ``pair_id, judge, criterion, repeat, score_llm`` (1-3; groundedness 0-1), ``status, reason``: 20 replies for each of
    356-360 items, four criteria and three prompts.
    """
    ids, rows = ratings.ids_by_text("topicalchat-usr"), []
    for judge, (asked, family) in GPT35.items():
        for short, criterion in CRITERIA.items():
            prompt = prompts.load(f"{family}_{criterion}")
            for record in json.loads(fetch(f"gpt3.5_{short}_{asked}.json").read_bytes()):
                turns, response = (
                    ratings.turns_of(record["source"]),
                    record["system_output"].strip(),
                )
                key = (turns, record["system_id"], response)
                if key not in ids:
                    raise DreError(
                        f"gpt3.5_{short}_{asked}.json: an item is no TopicalChat-USR response: get it again"
                    )
                row = {"context": turns, "response": response, "facts": record["context"]}
                for repeat, reply in enumerate(record["all_responses"]):
                    said = prompt.parse(reply, row)
                    rows.append(
                        (
                            ids[key],
                            judge,
                            criterion,
                            repeat,
                            said.score_llm,
                            said.status,
                            said.reason,
                        )
                    )
    columns = ["pair_id", "judge", "criterion", "repeat", "score_llm", "status", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"score_llm": float})


def by_form(name, family):
    """Return the mean of four criteria, each brought to 0-5, that `CLAUDE` gave the pairs of a rated set in one reply.

    ``family`` of prompts: "geval", or "analyse_rate" (LLM-Chiang).
    """
    said = pd.read_json(recording.folder(CLAUDE) / "criteria.jsonl", lines=True)
    said = said[said["prompt"] == family].set_index("pair_id").loc[ratings.rated(name)["pair_id"]]
    low, high = np.transpose([prompts.load(f"{family}_{each}").scale for each in CRITERIA.values()])
    share = (said[[*CRITERIA.values()]] - low) / (high - low)
    return (5 * share.mean(axis=1)).round(9).reset_index(drop=True)  # equal means stay ties


def unieval():
    """Return the overall scores of TopicalChat-USR that UniEval's authors released, in the order of the set."""
    ids, predicted = ratings.ids_by_text("topicalchat-usr"), {}
    for record in json.loads(fetch("topical_chat_result.json").read_bytes()):
        key = (
            ratings.turns_of(record["source"]),
            record["system_id"],
            record["system_output"].strip(),
        )
        predicted[ids[key]] = record["predict_scores"]["overall"]
    return ratings.rated("topicalchat-usr")["pair_id"].map(predicted)


def _aligned(records, rated, key, value, where):
    """A value of the records of a file that keeps the order and the dialogue index of a rated set."""
    ours = [int(pair_id.split("/")[1]) for pair_id in rated["pair_id"]]
    if [record[key] for record in records] != ours:
        raise DreError(
            f"{where}: its {len(records)} items are not the {len(ours)} rated ones in order: get it again"
        )
    return pd.Series([float(record[value]) for record in records])
