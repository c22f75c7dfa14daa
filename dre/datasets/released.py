"""What others released of judges on the rated sets, brought to 0-5, and what ours was shown.

What was released is joined to our pair ids and checked against what its files repeat of their
items, so that no row can slip.
"""

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd

from dre.datasets import ratings, recordings
from dre.datasets.registry import fetch
from dre.errors import DreError

CLAUDE = "claude-2026-11"
HAIKU = "Claude-3-haiku"
#: Open models that were asked whether a response is good; their score is P(yes).
P_YES = ["Llama2-13B", "Qwen-14B", "Vicuna-13B", "Baichuan2-13B", "ChatGLM3-6B"]
#: The folders of released files, where they are not called as the model.
_FOLDERS = {"Qwen-14B": "Qwen14B", "Vicuna-13B": "Vicuna13B", "ChatGLM3-6B": "Chatglm3-6B"}
#: By judge, the prompt of the released replies, and the family of our prompts that reads them.
GPT35 = {
    "GPT-3.5-0613 G-Eval": ("geval", "geval"),
    "GPT-3.5-0613 analyse-rate": ("analyze_rate", "analyse_rate"),
    "GPT-3.5-0613 rate-explain": ("rate_explain", "analyse_rate"),
}
#: The four criteria of the papers, by their short names in released files.
CRITERIA = {"coh": "coherence", "eng": "engagingness", "gro": "groundedness", "nat": "naturalness"}
#: By set, the file of Claude-3-haiku, and that of the five models asked for P(yes).
FILES = {
    "topicalchat-usr": ("TC/tc_usr_results.json", "tc_usr_data"),
    "personachat-usr": ("PC/pc_usr_results.json", "pc_usr_data"),
    "fed-turn": ("FED/turn_results.json", "fed_data"),
}
TOP = 5  # of the scale that all scores are brought to
NAMES = (HAIKU, *P_YES, *GPT35)  # of the judges that others released


def name_of(text: str) -> str | None:
    """Return the one of `NAMES` that is meant, whatever its capitals; spaces may be hyphens."""
    wanted = text.lower().replace(" ", "-")
    for name in NAMES:
        if name.lower().replace(" ", "-") == wanted:
            return name
    return None


def scores(name: str) -> pd.DataFrame:
    """Return the released scores of a rated set: ``pair_id``, and a column for each judge.

    They are in the order of `dre.datasets.ratings.rated`, in [0, 5]. Those of GPT-3.5 are replies,
    which `dre.judges.released` reads.
    """
    rated = ratings.rated(name)
    table = rated.loc[:, ["pair_id"]].copy()
    if name in FILES:
        haiku_file, p_yes_folder = FILES[name]
        table[HAIKU] = _haiku(haiku_file, rated)
        for judge in P_YES:
            table[judge] = _p_yes(judge, p_yes_folder, rated)
    return table


def _haiku(file, rated):
    """Return the released scores of Claude-3-haiku (1-5), brought to 0-5."""
    records = json.loads(fetch(file).read_bytes())
    released_ratings = _in_order(records, rated, "dialog_id", "human_score", file)
    if not np.allclose(released_ratings, rated["human"], atol=1e-6):
        raise DreError(f"{file}: its human scores are not those of the set: get the file again")
    predicted = _in_order(records, rated, "dialog_id", "predicted_score", file)
    return (predicted - 1) / 4 * TOP


def _p_yes(judge, folder, rated):
    """Return the released P(yes) of a model, brought to 0-5."""
    judge_folder = _FOLDERS.get(judge, judge)
    file = fetch(f"{judge_folder}/{folder}/turn_level/*")
    records = json.loads(file.read_bytes())["dialogues"]
    return _in_order(records, rated, "id_dialogue", "yes", judge) * TOP


def gpt35_replies() -> Iterator[tuple[str, str, str, dict, list[str]]]:
    """Yield the released replies of GPT-3.5-turbo-0613 on TopicalChat-USR.

    They are those of Chiang and Lee (2023): 20 replies for each of 356 to 360 items, four criteria
    and three prompts.

    Yields
    ------
    pair_id, judge, criterion : str
    texts : dict
        ``context, response`` and ``facts``.
    replies : list of str
        Texts of others, which are never written anywhere.
    """
    pair_ids = ratings.ids_by_text("topicalchat-usr")
    for judge, (released_prompt, _) in GPT35.items():
        for short_name, criterion in CRITERIA.items():
            file = f"gpt3.5_{short_name}_{released_prompt}.json"
            for record in json.loads(fetch(file).read_bytes()):
                key = _text_key(record)
                if key not in pair_ids:
                    raise DreError(
                        f"{file}: an item is no TopicalChat-USR response: get the file again"
                    )
                texts = {"context": key[0], "response": key[2], "facts": record["context"]}
                yield pair_ids[key], judge, criterion, texts, record["all_responses"]


def shown(prompt: str, rated: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the numbers of a small model that `CLAUDE` was shown.

    Parameters
    ----------
    prompt : the name of the prompt, such as ``dre``.
    rated : the table of a rated set.

    Returns
    -------
    ``s_d`` and ``s_p``, in the order of the table.
    """
    files = {"dre": "dre_inputs", "dre_graded": "dre_inputs_graded"}
    file = files.get(prompt, "dre_as_printed")
    numbers = recordings.numbers_shown(CLAUDE, f"{file}.csv")
    numbers = numbers.loc[rated["pair_id"]].set_index(rated.index)
    return numbers["s_d"], numbers["s_p"]


def unieval() -> pd.Series:
    """Return the overall scores of TopicalChat-USR that UniEval's authors released.

    They are in the order of the set.
    """
    pair_ids = ratings.ids_by_text("topicalchat-usr")
    predicted = {}
    for record in json.loads(fetch("topical_chat_result.json").read_bytes()):
        pair_id = pair_ids[_text_key(record)]
        predicted[pair_id] = record["predict_scores"]["overall"]
    rated = ratings.rated("topicalchat-usr")
    return pd.Series(rated["pair_id"]).map(predicted)


def _text_key(record):
    """Return the key of a released record among `dre.datasets.ratings.ids_by_text`."""
    turns = ratings.turns_of(record["source"])
    return turns, record["system_id"], record["system_output"].strip()


def _in_order(records, rated, index_field, value_field, source):
    """Return a value of each record of a file that keeps the order of a rated set.

    Raises DreError if the dialogue indices of the file are not those of the set.
    """
    expected_indices = [int(pair_id.split("/")[1]) for pair_id in rated["pair_id"]]
    indices = [record[index_field] for record in records]
    if indices != expected_indices:
        raise DreError(
            f"{source}: its {len(records)} items are not the {len(expected_indices)} rated ones "
            "in order: get the file again"
        )
    values = [float(record[value_field]) for record in records]
    return pd.Series(values)
