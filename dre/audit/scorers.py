"""Whatever gives pairs a score, to be audited: a judge, a metric of our own or of the user's, or a file of scores."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from dre import metrics
from dre.datasets import ratings, readers
from dre.datasets import recordings as recording
from dre.datasets.registry import read_jsonl
from dre.errors import DreError
from dre.judges import AnyJudge, prompts

METHODS = ("length", "cosine", "bleu", "slm")


def by_method(name: str, pairs: pd.DataFrame, slm: str | None = None) -> tuple[pd.Series, str]:
    """Score pairs by one of `METHODS`; returns (scores by pair id, what made them).

    Number of words; cosine of context and response by the untrained encoder; sentence BLEU-4 with the reference; an
    SLM, by default the one that comes with the package.
    """
    if name not in METHODS or (slm and name != "slm"):
        what = "leave --slm out" if name in METHODS else f"expected one of {', '.join(METHODS)}"
        raise DreError(f"method is {name!r}: {what}")
    if name == "length":
        return _series(pairs, metrics.length(pairs["response"])), "length in words"
    if name == "bleu":
        texts = pairs.loc[pairs["reference"].notna(), ["response", "reference"]]
        values = metrics.bleu(texts.to_numpy()).reshape(-1, 4)[:, 3]  # of none there is no fourth
        return _series(pairs, pd.Series(values, texts.index).reindex(pairs.index)), "BLEU-4"
    from dre.score import metric as api
    from dre.slm.model import SLM

    if name == "cosine":
        return _series(
            pairs, -SLM.untrained().distances(pairs)["distance"]
        ), "cosine, untrained encoder"
    model = SLM.load(api.find(slm))
    return _series(
        pairs, model.score(pairs)["score_slm"]
    ), f"slm:{model.provenance.get('name', slm)}"


def by_function(name: str, pairs: pd.DataFrame) -> tuple[pd.Series, str]:
    """Score pairs by a function of the user's, ``module:function``, of ``(context, response)``: turns, and a text."""
    module, _, function = name.partition(":")
    sys.path.insert(0, "")  # where the user is
    try:
        f = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        what = "expected module:function, of a module that can be imported here"
        raise DreError(f"no metric {name!r} ({error}): {what}") from None
    finally:
        sys.path.remove("")
    try:
        return _series(
            pairs, [float(f(*each)) for each in zip(pairs["context"], pairs["response"])]
        ), f"metric:{name}"
    except Exception as error:  # whatever it may be, it is the user's
        raise DreError(
            f"{name} raised {error!r}: expected a number for every context (turns) and response"
        ) from error


def by_file(path: str | Path, pairs: pd.DataFrame) -> tuple[pd.Series, str]:
    """Take scores of pairs from a file with ``id`` (or ``pair_id``) and ``score`` (or ``score_llm``)."""
    table = readers.scores(path, ("id", "pair_id"))
    scores = pairs["pair_id"].map(dict(zip(table["id"], table["score"])))
    if scores.isna().all():
        what = "score the pairs that --write FILE gives, and keep their ids"
        raise DreError(f"{path} has no score of a pair of this audit: {what}")
    return _series(pairs, scores), f"scores:{path}"


def by_judge(
    judge: AnyJudge, pairs: pd.DataFrame, prompt: str = "llm_only", public: bool = False
) -> tuple[pd.Series, str]:
    """Ask a judge; one that is recorded answers for the texts that it was shown, and says nothing of others.

    ``public``: whether there are pairs of `dre.audit.kinds.graded`.
    """
    if not judge.spec.startswith("recorded:"):
        return _series(pairs, judge.score(pairs, prompt)["score_llm"]), judge.signature
    folder, prompt = recording.folder(judge.spec.removeprefix("recorded:")), prompts.load(prompt)
    recording.check(folder, prompt.name, prompt)
    rows = read_jsonl(folder / "audit.jsonl") if (folder / "audit.jsonl").is_file() else []
    rows = [row for row in rows if row["prompt"] == prompt.name]
    if public and prompt.name == "llm_only" and folder.name == ratings.NAME:
        rows += ratings.graded().to_dict("records")
    known = {recording.hash_of(row): row["score"] for row in rows}  # whatever a pair was called
    return _series(pairs, pairs["pair_id"].map(known)), judge.spec


def _series(pairs, values):
    return pd.Series(np.asarray(values, float), index=pairs["pair_id"])
