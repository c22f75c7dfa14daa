"""Whatever gives pairs a score, to be audited: a judge, a metric of our own or of the user's, or a file of scores."""

import importlib
import math
import sys

import numpy as np
import pandas as pd

from dre import metrics, ratings, readers, recording
from dre.errors import DreError
from dre.fetch import read_jsonl
from dre.judges import prompts

METHODS = ("length", "cosine", "bleu", "slm")


def by_method(name, pairs, slm=None):
    """Score pairs by one of `METHODS`; returns (scores by pair id, what made them).

    Number of words; cosine of context and response by the untrained encoder; sentence BLEU-4 with the reference; an
    SLM, by default the one that comes with the package.
    """
    if name not in METHODS:
        raise DreError(f"method is {name!r}: expected one of {', '.join(METHODS)}")
    if slm and name != "slm":
        raise DreError(f"method {name} has no use for an SLM: leave --slm out, or give --method slm")
    if name == "length":
        return _series(pairs, metrics.length(pairs["response"])), "length in words"
    if name == "bleu":
        has = pairs["reference"].notna().to_numpy()
        values = np.full(len(pairs), np.nan)
        if has.any():
            some = pairs[has]
            values[has] = metrics.bleu(list(zip(some["response"], some["reference"])))[:, 3]
        return _series(pairs, values), "BLEU-4"
    from dre.score import api
    from dre.slm.model import SLM

    if name == "cosine":
        return _series(pairs, -SLM.untrained().distances(pairs)["distance"]), "cosine, untrained encoder"
    model = SLM.load(api.find(slm))
    return _series(pairs, model.score(pairs)["score_slm"]), f"slm:{model.provenance.get('name', slm)}"


def by_function(name, pairs):
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
    values = []
    for row in pairs.to_dict("records"):
        try:
            values.append(float(f(row["context"], row["response"])))
        except Exception as error:
            raise DreError(f"{name} raised {error!r} for the response {row['response']!r:.80}: mend it") from error
    return _series(pairs, values), f"metric:{name}"


def by_file(path, pairs):
    """Take scores of pairs from a file with ``id`` (or ``pair_id``) and ``score`` (or ``score_llm``)."""
    known = {}
    for line, record in readers.records(path):
        record = record if isinstance(record, dict) else {}
        id, score = (record.get(a, record.get(b)) for a, b in (("id", "pair_id"), ("score", "score_llm")))
        try:
            known[id] = math.nan if readers.absent(score) else float(score)
        except (TypeError, ValueError):
            raise DreError(f"{path}:{line}: score is {score!r}: expected a number, or nothing") from None
    scores = pairs["pair_id"].map(known).astype(float)
    if scores.isna().all():
        what = "score the pairs that --write FILE gives, and keep their ids"
        raise DreError(f"{path} has no score of a pair of this audit: {what}")
    return _series(pairs, scores), f"scores:{path}"


def by_judge(judge, pairs, prompt="llm_only", public=False):
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
