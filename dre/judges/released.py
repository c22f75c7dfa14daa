"""The judges' scores of the rated sets: our recording and those that others released, all 0-5.

What others released is a judge by its name, too: ``recorded:Claude-3-haiku``.

What was released is joined to our pair ids and checked against what its files repeat of their
items, so that no row can slip.
"""

import functools
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd

from dre.datasets import ratings, recordings
from dre.datasets.registry import fetch
from dre.errors import DreError
from dre.judges import prompts
from dre.judges.parse import Verdict
from dre.judges.prompts import Prompt
from dre.judges.recorded import Recorded

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
PROMPT = "released"  # what their prompts are called here, since they are not ours


class Released(Recorded):
    """A judge whose scores others released, on the rated sets that they chose.

    Each was asked in the words of those who released it. A prompt ``llm_only`` stands for these
    words, and the scores are brought to its scale, 0 to 5.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    repeat, repeats : int
        As for `Recorded`; there is one score for each pair.

    Raises
    ------
    DreError
        If the public data are not here and cannot be fetched.
    """

    def _load(self, name):
        self._rows = {}
        verdicts = {}
        for set_name in FILES:
            table = scores(set_name)
            if name not in table:
                continue
            for row in ratings.rated(set_name).to_dict("records"):
                self._rows[row["pair_id"]] = row
            for pair_id, score in zip(table["pair_id"], table[name]):
                verdicts[pair_id] = _verdict_of(score)
        sha256 = hashlib.sha256(repr(verdicts).encode()).hexdigest()
        return {(PROMPT, 0): verdicts}, sha256

    def knows(self, prompt_name: str) -> bool:
        """Return whether a prompt stands for the words of those who released the scores."""
        return prompt_name in (PROMPT, "llm_only")

    def prompt(self, name_or_path: str | Path | Prompt) -> str:
        """Return the name of the one prompt; raise `DreError` if another one is meant."""
        name = name_or_path.name if isinstance(name_or_path, Prompt) else str(name_or_path)
        if name not in (PROMPT, "llm_only"):
            raise DreError(
                f"{self.spec} was asked in the words of those who released it: leave out the "
                f"prompt {name}, or name a judge that can be asked"
            )
        return PROMPT

    def _check_texts(self, row):
        pair_id = row["pair_id"]
        if recordings.hash_of(row) != recordings.hash_of(self._rows[pair_id]):
            raise DreError(
                f"pair {pair_id} has other texts here than those that {self.spec} was shown under "
                "this name: name a judge that can be asked"
            )


def _verdict_of(score):
    """Return the verdict that a released score stands for."""
    if np.isnan(score):
        return Verdict("malformed", reason="a released reply has no score")
    return Verdict("ok", score_llm=float(score))


def name_of(text: str) -> str | None:
    """Return the one of `NAMES` that is meant, whatever its capitals; spaces may be hyphens."""
    wanted = text.lower().replace(" ", "-")
    for name in NAMES:
        if name.lower().replace(" ", "-") == wanted:
            return name
    return None


@functools.cache
def scores(name: str, with_gpt35: bool = True) -> pd.DataFrame:
    """Return the scores of every judge that scored a rated set.

    Parameters
    ----------
    name : one of `dre.datasets.ratings.RATED`.
    with_gpt35 : whether the replies of GPT-3.5 to one of the sets are read, too. This takes
        seconds.

    Returns
    -------
    One row for each pair, in the order of `dre.datasets.ratings.rated`: ``pair_id``, and a column
    for each judge that knows the set, in [0, 5] or NaN.
    """
    rated = ratings.rated(name)
    table = rated.loc[:, ["pair_id"]].copy()
    recorded = Recorded(CLAUDE, repeats=1).score(rated, "llm_only", ask=False)
    if np.any(recorded["score_llm"].notna()):
        table[CLAUDE] = recorded["score_llm"].to_numpy()
    if name in FILES:
        haiku_file, p_yes_folder = FILES[name]
        table[HAIKU] = _haiku(haiku_file, rated)
        for judge in P_YES:
            table[judge] = _p_yes(judge, p_yes_folder, rated)
    if with_gpt35 and name == "topicalchat-usr":
        gpt35_scores = _gpt35_means().loc[:, list(GPT35)].reset_index()
        table = table.merge(gpt35_scores, on="pair_id", how="left")
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


def _gpt35_means() -> pd.DataFrame:
    """Return the mean scores of GPT-3.5's released replies: a row for each pair, a column by judge.

    First comes the mean over samples, brought to 0-1, then that over the four criteria, brought to
    0-5. A pair that lacks one criterion has no score.
    """
    keys = ["pair_id", "judge", "criterion"]
    samples = gpt35().groupby(keys, sort=False)["score_llm"]
    means = pd.Series(samples.mean()).unstack("criterion")
    for criterion in CRITERIA.values():
        scale = prompts.load(f"geval_{criterion}").scale
        assert scale is not None, "these prompts ask for a score"
        low, high = scale
        means[criterion] = (means[criterion] - low) / (high - low)
    mean_of_criteria = pd.Series(means.mean(axis=1, skipna=False))
    return pd.DataFrame(mean_of_criteria.unstack("judge") * TOP)


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


@functools.cache
def gpt35() -> pd.DataFrame:
    """Return the released replies of GPT-3.5-turbo-0613 on TopicalChat-USR, read by our parser.

    They are those of Chiang and Lee (2023): 20 replies for each of 356 to 360 items, four criteria
    and three prompts.

    Returns
    -------
    Columns ``pair_id, judge, criterion, repeat``; ``score_llm`` (1-3; groundedness 0-1); ``status,
    reason``.
    """
    pair_ids = ratings.ids_by_text("topicalchat-usr")
    rows = []
    for judge, (released_prompt, family) in GPT35.items():
        for short_name, criterion in CRITERIA.items():
            file = f"gpt3.5_{short_name}_{released_prompt}.json"
            prompt = prompts.load(f"{family}_{criterion}")
            for record in json.loads(fetch(file).read_bytes()):
                key = _text_key(record)
                if key not in pair_ids:
                    raise DreError(
                        f"{file}: an item is no TopicalChat-USR response: get the file again"
                    )
                texts = {"context": key[0], "response": key[2], "facts": record["context"]}
                # Many of the twenty replies to one item have the same words.
                replies = record["all_responses"]
                verdicts = {reply: prompt.parse(reply, texts) for reply in set(replies)}
                for repeat, reply in enumerate(replies):
                    verdict = verdicts[reply]
                    row = {
                        "pair_id": pair_ids[key],
                        "judge": judge,
                        "criterion": criterion,
                        "repeat": repeat,
                        "score_llm": verdict.score_llm,
                        "status": verdict.status,
                        "reason": verdict.reason,
                    }
                    rows.append(row)
    return pd.DataFrame(rows).astype({"score_llm": float})


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
