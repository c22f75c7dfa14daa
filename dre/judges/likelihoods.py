"""Scores from log-probabilities: what a model nearly said counts, too (Huynh et al., sections 3.1 and 3.2).

Of the first tokens of a reply the likeliest ones are kept, with their log-probabilities. Read is the place where the
reply says its verdict; tokens that say the same ("2" and " 2", "Yes" and "yes") add up.
"""

import json
import math
import re

PLACES, TOP = (
    32,
    20,
)  # tokens of a reply that are kept; candidates for each: the most that the providers give
PROVIDERS = ("openai", "gemini", "ollama")
INSTEAD = "ask one that gives them (openai:, gemini:, ollama:, or a server that speaks their protocol), or take repeats instead"
NONE = "no log-probabilities came with the reply: start the server so that it gives them, or take repeats instead"


def weighted(probabilities, k=3):
    """Return sum r_i w_i over the `k` likeliest ratings, w_i = p_i / sum p_j (section 3.1), on the ratings' scale.

    `probabilities`: ``{rating: probability}``. The paper calls p_i log-probabilities; the least likely of three would
    then weigh most, so probabilities are meant.
    """
    likeliest = sorted(probabilities.items(), key=lambda each: -each[1])[:k]
    total = sum(p for _, p in likeliest)
    return sum(rating * p for rating, p in likeliest) / total


def goodness(probabilities, yes="Positive", no="Negative"):
    """Return g = p(yes) / (p(yes) + p(no)) (section 3.2), in [0, 1]; what is not in `probabilities` counts as 0."""
    p_yes, p_no = probabilities.get(yes, 0.0), probabilities.get(no, 0.0)
    return p_yes / (p_yes + p_no)


def probabilities(candidates, prompt):
    """Return ``{value: probability}`` of ``{token: log-probability}``: whole ratings on the scale, or labels.

    They are relative to the likeliest token's: of -9999, as "very unlikely" comes, no probability is left by itself.
    """
    said = [(_value(token, prompt), max(logprob, -9999.0)) for token, logprob in candidates.items()]
    said = [(value, logprob) for value, logprob in said if value is not None]
    top, found = max((logprob for _, logprob in said), default=0.0), {}
    for value, logprob in said:
        found[value] = found.get(value, 0.0) + math.exp(logprob - top)
    return found


def keep(places):
    """Return the first places of a reply as JSON, ``[[token, {token: log-probability}], ...]``, or None without any.

    `places` are as OpenAI and Ollama give them: ``token, logprob, top_logprobs`` with ``token, logprob`` each.
    """
    kept = []
    for place in (places or [])[:PLACES]:
        given = [*(place.get("top_logprobs") or []), place]
        kept.append(
            [
                place["token"],
                {one["token"]: one["logprob"] for one in given if one["logprob"] is not None},
            ]
        )
    return json.dumps(kept, ensure_ascii=False) if kept else None


def read(kept, verdict, prompt, k=3):
    """Return a verdict with `weighted` or, of a label, `goodness` as its score; malformed where none can be read."""
    if verdict.status != "ok":
        return verdict
    wrong = NONE
    for token, candidates in json.loads(kept or "[]"):
        said = _value(token, prompt)
        if said is not None and said == (
            verdict.label if prompt.kind == "label" else verdict.score_llm
        ):
            found = probabilities(candidates, prompt)
            score = goodness(found) if prompt.kind == "label" else weighted(found, k)
            return verdict._replace(score_llm=score)
        wrong = "no token says the verdict by itself: ask for a label or a whole number, without thinking first"
    return verdict._replace(status="malformed", score_llm=None, label=None, reason=wrong)


def _value(token, prompt):
    """What a token says by itself: a label's meaning, a whole rating on the scale, or None."""
    word = re.sub(r"[\s*\"'.:]", "", token).casefold()
    if prompt.kind == "label":
        return {label.casefold(): meaning for label, meaning in prompt.labels.items()}.get(word)
    low, high = prompt.scale
    return int(word) if re.fullmatch("[0-9]{1,3}", word) and low <= int(word) <= high else None
