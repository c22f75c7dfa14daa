"""Scores from log-probabilities, so that alternatives to the reply count (Huynh et al., section 3).

A judge that is asked for a whole number or a word gives it with one token. The likeliest tokens at
this place say more than the one that was drawn. Tokens that say the same ("2" and " 2", "Yes" and
"yes") add up.
"""

import math
import re

from dre.errors import DreError
from dre.judges import parse

TOP = 20  # candidates for each token: the most that providers give
_LOWEST_LOGPROB = -9999.0  # what OpenAI writes for "very unlikely"
_MARKS = str.maketrans({"\u2581": " ", "\u0120": " ", "\u010a": "\n"})  # of some tokenizers
_REASON = (
    "no token with alternatives says the verdict by itself: start the server so that it gives "
    "log-probabilities, ask for a whole number without thinking first, or take repeats instead"
)


def check_prompt(prompt) -> None:
    """Raise `DreError` unless one token can say the verdict that a prompt asks for."""
    low, high = prompt.scale or (0, 0)
    if prompt.kind == "generate" or low < 0 or high > 9:
        raise DreError(
            f"prompt {prompt.name} has no score by log-probabilities, which is read from one "
            "token: ask for a label or a number within 0-9, or take repeats instead"
        )


def weighted(probabilities: dict[int, float], k: int = 3) -> float:
    """Return the mean of the k likeliest ratings, weighted by their probabilities (section 3.1).

    sum r_i w_i with w_i = p_i / sum p_j. The paper calls p_i log-probabilities; the least likely of
    the k ratings would then weigh most, so we take it that probabilities are meant.
    """
    likeliest = sorted(probabilities.items(), key=lambda item: -item[1])[:k]
    total = sum(probability for _, probability in likeliest)
    return sum(rating * probability for rating, probability in likeliest) / total


def goodness(probabilities: dict[str, float]) -> float:
    """Return g = p(yes) / (p(yes) + p(no)), from 0 to 1 (section 3.2)."""
    p_yes = probabilities.get("Positive", 0.0)
    p_no = probabilities.get("Negative", 0.0)
    return p_yes / (p_yes + p_no)


def probabilities(candidates: dict[str, float], prompt) -> dict:
    """Return the probability of each verdict among tokens with their log-probabilities.

    They are relative to the likeliest verdict's, because -9999 would be 0 by itself.
    """
    by_verdict: dict = {}
    for token, logprob in candidates.items():
        verdict = _verdict_of_token(token, prompt)
        if verdict is not None:
            by_verdict.setdefault(verdict, []).append(max(logprob, _LOWEST_LOGPROB))
    highest = max((max(logprobs) for logprobs in by_verdict.values()), default=0.0)
    return {
        verdict: sum(math.exp(logprob - highest) for logprob in logprobs)
        for verdict, logprobs in by_verdict.items()
    }


def rescore(verdict, top: list | None, prompt, k: int = 3):
    """Return a verdict whose score is that of the log-probabilities where it stands in the reply.

    ``top`` is that of the reply. The verdict is ``malformed`` where no single token says it, or
    where this token has no alternatives.
    """
    if verdict.status != "ok":
        return verdict
    text = "".join(token for token, _ in top or ()).translate(_MARKS)
    place = _place(text, prompt)
    said = verdict.label if prompt.kind == "label" else verdict.score_llm
    end = 0
    for token, candidates in top or ():
        end += len(token)
        if end <= place:
            continue
        is_said = _verdict_of_token(token, prompt) == said
        if is_said and len(candidates) > 1 and max(candidates.values()) <= 0:
            by_verdict = probabilities(candidates, prompt)
            is_label = prompt.kind == "label"
            score = goodness(by_verdict) if is_label else weighted(by_verdict, k)
            return verdict._replace(score_llm=score)
        break
    return verdict._replace(status="malformed", score_llm=None, label=None, reason=_REASON)


def _place(text, prompt):
    """Return where in a reply its verdict begins: behind its key, or in the line that is one."""
    name = "label" if prompt.kind == "label" else "score"
    key = re.search(rf'"{name}"\s*:[\s"]*', text)
    if key:
        return key.end()
    start = 0
    for line in text.splitlines(keepends=True):
        match = parse.line_pattern(prompt, name).fullmatch(line.strip())
        if match:
            return start + len(line) - len(line.lstrip()) + match.start("value")
        start += len(line)
    return len(text)


def _verdict_of_token(token, prompt):
    """The meaning of a single token: a label, a whole rating on the scale, or None."""
    word = re.sub(r"[\s*\"'.:]", "", token.translate(_MARKS)).casefold()
    if prompt.kind == "label":
        return {label.casefold(): label_of for label, label_of in prompt.labels.items()}.get(word)
    low, high = prompt.scale
    return int(word) if re.fullmatch("[0-9]", word) and low <= int(word) <= high else None
