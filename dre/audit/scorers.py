"""Whose scores are audited: those of one of our metrics, or of a judge."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre import metrics
from dre.datasets import recordings
from dre.datasets.registry import read_jsonl
from dre.errors import DreError
from dre.judges import AnyJudge, is_recording, prompts


def by_method(name: str, pairs: pd.DataFrame) -> pd.Series:
    """Return scores by pair id, of one of `dre.metrics.BY_NAME`, or by a model.

    ``cosine``: of context and response, by the encoder before any training. ``slm``: the small
    model that comes with the package.
    """
    if name in metrics.BY_NAME:
        return _by_pair_id(pairs, metrics.BY_NAME[name].score(pairs))

    # Only these two need the packages of the extra `slm`.
    from dre.slm.model import SLM
    from dre.slm.provenance import DEFAULT

    if name == "cosine":
        return _by_pair_id(pairs, -SLM.untrained().distances(pairs)["distance"])
    return _by_pair_id(pairs, SLM.load(DEFAULT).score(pairs)["score_slm"])


def by_judge(
    judge: AnyJudge, pairs: pd.DataFrame, prompt: str = "llm_only", public: bool = False
) -> pd.Series:
    """Return a judge's scores by pair id.

    A recorded one answers for texts that it was shown, and gives NaN for others.

    ``public``: whether there are pairs of `dre.audit.kinds.graded`.
    """
    if not is_recording(judge.spec):
        table = judge.score(pairs, prompt)
        return _by_pair_id(pairs, table["score_llm"])

    # A recording is looked up by its texts: its pairs may have had other ids.
    name = judge.spec.removeprefix("recorded:")
    if not recordings.exists(name):
        raise DreError(f"{judge.spec} knows no pair of the audit: name a judge that can be asked")
    folder = recordings.folder(name)
    loaded = prompts.load(prompt)
    recordings.check_hash(folder, loaded.name, loaded)
    path = folder / "audit.jsonl"
    records = [*read_jsonl(path)] if path.is_file() else []
    records = [record for record in records if record["prompt"] == loaded.name]
    if public and loaded.name == "llm_only" and folder.name == recordings.NAME:
        records += recordings.graded().to_dict("records")
    score_by_hash = {recordings.hash_of(record): record["score"] for record in records}
    scores = pd.Series(pairs["pair_id"]).map(score_by_hash)
    return _by_pair_id(pairs, scores)


def _by_pair_id(pairs: pd.DataFrame, scores: ArrayLike) -> pd.Series:
    return pd.Series(np.asarray(scores, float), index=pairs["pair_id"])
