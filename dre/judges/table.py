"""Judgements as one tidy table, a row a pair."""

import json
from collections import Counter
from operator import attrgetter

from dre.judges import sampling
from dre.judges.plan import uncollected
from dre.judges.store import Judgement

MODES = ("single", "mean", "logprob")
REPLIED = ("ok", "malformed", "refused", "truncated", "empty")
_TAKEN = ("score_llm", "s_inf", "label", "status", "cost", "seconds")
_NUMBERS = ("score_llm", "s_inf", "cost", "seconds")
_MISSING = Judgement(status="missing", reason="not asked yet")


@uncollected
def of_plan(plan, mode, errors=None):
    """Return the table of a `dre.judges.plan.Plan`; ``errors`` says why a reply did not come, by key."""
    found, errors = plan.judgements, errors or {}
    if plan.repeats == 1 and not errors:
        keys = [plan.keys(index)[0] for index in range(len(plan.rows))]
        samples = [(found[key],) if key in found else () for key in keys]
        return build([row["pair_id"] for row in plan.rows], samples, [_MISSING] * len(samples), mode, plan.prompt)
    samples, absent = [], []
    for index in range(len(plan.rows)):
        keys = plan.keys(index)
        samples.append([found[key] for key in keys if key in found])
        reasons = [errors[key] for key in keys if key in errors] if errors else ()
        absent.append(Judgement(status="error", reason=reasons[0]) if reasons else _MISSING)
    return build([row["pair_id"] for row in plan.rows], samples, absent, mode, plan.prompt)


def build(pair_ids, samples, absent, mode, prompt):
    """Return the table.

    Parameters
    ----------
    pair_ids : list of str
    samples : list of list of Judgement
        The replies to each pair.
    absent : list of Judgement
        What stands for a pair without a reply.
    mode : {"single", "mean", "logprob"}
    prompt : dre.judges.prompts.Prompt

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, score_llm, s_inf, label, status, cost, seconds, n_samples, n_ok, mode, reason`` (and
        ``responses`` for prompts that generate). ``n_samples`` replies are there and ``n_ok`` of them are scores
        (in mode ``logprob``, ratings with a log-probability); a score is the mean of these. ``status`` is ``ok`` if
        there is one, else what most replies were; ``missing`` if nothing was asked, ``error`` if no reply came.
        ``cost`` (dollars) and ``seconds`` are sums, NaN where unknown.
    """
    import numpy as np
    import pandas as pd

    if mode == "logprob":
        samples = [[_weighted(one, prompt) for one in found] for found in samples]
    rows = [_one(found) if found else none for found, none in zip(samples, absent)]
    columns = {name: list(map(attrgetter(name), rows)) for name in _TAKEN}
    columns |= {name: np.array(columns[name], dtype="float64") for name in _NUMBERS}  # None becomes NaN
    frame = pd.DataFrame({"pair_id": pair_ids} | columns)
    frame["n_samples"] = list(map(len, samples))
    frame["n_ok"] = [sum([one.status == "ok" for one in found]) for found in samples]
    frame["mode"] = mode
    frame["reason"] = list(map(attrgetter("reason"), rows))
    if prompt.kind == "generate":
        frame["responses"] = [json.loads(row.responses) if row.responses else None for row in rows]
    return frame


def write(frame, path):
    """Write a table as ``.csv`` or ``.jsonl``; what is not known is left empty, or null."""
    if str(path).endswith(".csv"):
        if "responses" in frame:
            texts = [json.dumps(texts, ensure_ascii=False) if texts else "" for texts in frame["responses"]]
            frame = frame.assign(responses=texts)
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True, force_ascii=False)


def _one(found):
    """Return one judgement for the replies to a pair."""
    if len(found) == 1:
        return found[0]
    good = [one for one in found if one.status == "ok"]
    cost, seconds = (_sum([getattr(one, name) for one in found]) for name in ("cost", "seconds"))
    if not good:
        status = Counter(one.status for one in found).most_common(1)[0][0]
        first = next(one for one in found if one.status == status)
        return first._replace(cost=cost, seconds=seconds)
    label = Counter(one.label for one in good).most_common(1)[0][0]
    means = {name: sampling.mean([getattr(one, name) for one in good]) for name in ("score_llm", "s_inf")}
    return good[0]._replace(label=label, cost=cost, seconds=seconds, **means)


def _weighted(one, prompt):
    """Return a judgement with its score by log-probabilities: never the plain score under that mode's name."""
    if one.status != "ok":
        return one
    score = sampling.logprob_score(json.loads(one.logprobs or "[]"), prompt)
    if score is None:
        reason = "no token of the reply is a rating with its log-probability: use --mode single or mean"
        return one._replace(status="malformed", reason=reason, score_llm=None, s_inf=None, label=None)
    return one._replace(score_llm=score)


def _sum(values):
    return None if None in values else sum(values)
