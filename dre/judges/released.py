"""Judges that others released, by their names: ``recorded:Claude-3-haiku``."""

import functools
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from dre.datasets import ratings, recordings, released
from dre.datasets.released import (
    CLAUDE,
    CRITERIA,
    FILES,
    GPT35,
    HAIKU,
    NAMES,
    P_YES,
    TOP,
    name_of,
    shown,
    unieval,
)
from dre.errors import DreError
from dre.judges import prompts
from dre.judges.parse import Verdict
from dre.judges.prompts import Prompt
from dre.judges.recorded import Recorded

__all__ = ["CLAUDE", "CRITERIA", "FILES", "GPT35", "HAIKU", "NAMES", "P_YES", "Released", "gpt35"]
__all__ += ["name_of", "scores", "shown", "unieval"]
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

    def prompt_name(self, prompt: str | Path | Prompt) -> str:
        """Return the name of the one prompt, in the words of those who released the scores."""
        return PROMPT if getattr(prompt, "name", prompt) == "llm_only" else str(prompt)

    def _check(self, name, row):
        if recordings.hash_of(row) != recordings.hash_of(self._rows[name]):
            raise DreError(f"pair {name} has other texts here than {self.spec} was shown")


def _verdict_of(score):
    """Return the verdict that a released score stands for."""
    if np.isnan(score):
        return Verdict("malformed", reason="a released reply has no score")
    return Verdict("ok", score_llm=float(score))


@functools.cache
def scores(name: str, with_gpt35: bool = True) -> pd.DataFrame:
    """Return the scores of every judge that scored a rated set: our recording's and released ones.

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
    table = released.scores(name)
    recorded = Recorded(CLAUDE, repeats=1).score(ratings.rated(name), "llm_only", ask=False)
    if np.any(recorded["score_llm"].notna()):
        table.insert(1, CLAUDE, recorded["score_llm"].to_numpy())
    if with_gpt35 and name == "topicalchat-usr":
        gpt35_scores = _gpt35_means().loc[:, list(GPT35)].reset_index()
        table = table.merge(gpt35_scores, on="pair_id", how="left")
    return table


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


@functools.cache
def gpt35() -> pd.DataFrame:
    """Return the released replies of GPT-3.5, read by our parser.

    Returns
    -------
    Columns ``pair_id, judge, criterion, repeat``; ``score_llm`` (1-3; groundedness 0-1); ``status,
    reason``.
    """
    rows = []
    for pair_id, judge, criterion, texts, replies in released.gpt35_replies():
        prompt = prompts.load(f"{GPT35[judge][1]}_{criterion}")
        # Many of the twenty replies to one item have the same words.
        verdicts = {reply: prompt.parse(reply, texts) for reply in set(replies)}
        for repeat, reply in enumerate(replies):
            verdict = verdicts[reply]
            about = (pair_id, judge, criterion, repeat)
            rows.append((*about, verdict.score_llm, verdict.status, verdict.reason))
    columns = ["pair_id", "judge", "criterion", "repeat", "score_llm", "status", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"score_llm": float})
