"""Scores from log-probabilities, so that alternatives to the reply count (Huynh et al., section 3).

A judge that is asked for a whole number or a word gives it with one token. The likeliest tokens at
this place, with their log-probabilities, say more than the token that was drawn. The place that
counts is the one where the parser found the verdict. Tokens that say the same there ("2" and " 2",
"Yes" and "yes") add up.
"""

import json
import math
import re

from dre.errors import DreError
from dre.judges.parse import Unclear, Verdict

# How many tokens of a reply are kept from its start, and how many candidates for each of them: the
# most that providers give.
_PLACES = 32
TOP = 20

NONE = (
    "no log-probabilities came with the reply: start the server so that it gives them, "
    "or take repeats instead"
)
_NOT_NUMBERS = (
    "the log-probabilities that came are no numbers up to 0 ({value}): the server computes them "
    "wrongly, so mend it, or take repeats instead"
)
_NO_ALTERNATIVES = (
    "the log-probability of the reply alone came, without alternatives: start the server so that "
    "it gives several (--param top_logprobs=5), or take repeats instead"
)
_HIGHEST_DIGIT = 9
_LOWEST_LOGPROB = -9999.0  # what OpenAI writes for "very unlikely"
_ROUNDING = 1e-3  # by which a log-probability may lie above 0
# How some servers write tokens: "\u2581" and "\u0120" for a space, "\u010a" for a line.
_FENCE = re.compile(r"\s*```\w*[ \t]*\n")  # ```json
_MARKS_IN_TOKENS = str.maketrans({"\u2581": " ", "\u0120": " ", "\u010a": "\n"})


def check_prompt(prompt) -> None:
    """Raise `DreError` unless one token can say the verdict that a prompt asks for."""
    if prompt.kind == "label":
        return
    if prompt.kind != "score":
        raise DreError(
            f"prompt {prompt.name} asks for texts, which have no score by log-probabilities: "
            "leave out logprobs"
        )
    low, high = prompt.scale
    if low < 0 or high > _HIGHEST_DIGIT:
        raise DreError(
            f"prompt {prompt.name} has the scale {low:g}-{high:g}: a score by log-probabilities "
            "is read from one token, so the scale has to lie within 0-9; use another scale, or "
            "repeats instead of logprobs"
        )


def weighted(probabilities: dict[int, float], k: int = 3) -> float:
    """Return the mean of the likeliest ratings, weighted by their probabilities (section 3.1).

    Parameters
    ----------
    probabilities : dict of int to float
        The probability of each rating; they need not add up to 1.
    k : int
        How many of the likeliest ratings count.

    Returns
    -------
    float
        sum r_i w_i with w_i = p_i / sum p_j, on the scale of the ratings.

    Notes
    -----
    The paper calls p_i log-probabilities. The least likely of the k ratings would then weigh most,
    so we take it that probabilities are meant.
    """
    likeliest = sorted(probabilities.items(), key=lambda item: -item[1])[:k]
    total = sum(probability for _, probability in likeliest)
    return sum(rating * probability for rating, probability in likeliest) / total


def goodness(probabilities: dict[str, float]) -> float:
    """Return g = p(yes) / (p(yes) + p(no)), from 0 to 1 (section 3.2).

    A word that is not in `probabilities` counts as 0. At least one of the two has to be there.
    """
    p_yes = probabilities.get("Positive", 0.0)
    p_no = probabilities.get("Negative", 0.0)
    return p_yes / (p_yes + p_no)


def probabilities(candidates: dict[str, float], prompt) -> dict:
    """Return the probability of each verdict among the candidates for one place of a reply.

    Parameters
    ----------
    candidates : dict of str to float
        The log-probability of each token.
    prompt : dre.judges.prompts.Prompt
        The prompt that was answered.

    Returns
    -------
    dict
        By whole rating on the prompt's scale, or by label. The probabilities are relative to the
        likeliest verdict's, because -9999, which means "very unlikely", would be 0 by itself.
    """
    logprobs_by_verdict = {}
    for token, logprob in candidates.items():
        verdict = _verdict_of_token(token, prompt)
        if verdict is not None:
            logprobs = logprobs_by_verdict.setdefault(verdict, [])
            logprobs.append(max(logprob, _LOWEST_LOGPROB))
    if not logprobs_by_verdict:
        return {}
    highest = max(max(logprobs) for logprobs in logprobs_by_verdict.values())
    return {
        verdict: sum(math.exp(logprob - highest) for logprob in logprobs)
        for verdict, logprobs in logprobs_by_verdict.items()
    }


def keep(positions: list[dict] | None) -> str | None:
    """Return the log-probabilities of the first tokens of a reply in the form that is stored.

    Parameters
    ----------
    positions : list of dict, or None
        As OpenAI and Ollama give them: ``token``, ``logprob``, and ``top_logprobs``, a list with
        ``token`` and ``logprob`` of each candidate.

    Returns
    -------
    str or None
        JSON, ``[[token, {candidate: log-probability}], ...]``, or None if there are no positions.

    Raises
    ------
    TypeError
        If a token is no text.
    """
    stored = []
    for position in (positions or [])[:_PLACES]:
        candidates = [*(position.get("top_logprobs") or []), position]
        logprobs = {}
        for candidate in candidates:
            token = candidate["token"]
            if not isinstance(token, str):
                raise TypeError(f"the token {token!r:.60} is no text")
            if candidate["logprob"] is not None:
                logprobs[token] = candidate["logprob"]
        stored.append([position["token"], logprobs])
    return json.dumps(stored, ensure_ascii=False) if stored else None


def fault(stored: str | None) -> str:
    """Return why no reply with such log-probabilities can have a score; "" if one may have.

    Parameters
    ----------
    stored : str or None
        What `keep` returned for the reply.
    """
    positions = json.loads(stored or "[]")
    if not positions:
        return NONE
    faults = [_fault_of_candidates(candidates) for _, candidates in positions]
    return faults[0] if all(faults) else ""


def _fault_of_candidates(candidates):
    """Return why the candidates for one token give no score; "" if they may give one."""
    for logprob in candidates.values():
        is_number = isinstance(logprob, int | float) and not isinstance(logprob, bool)
        if not is_number or not logprob <= _ROUNDING:  # which NaN is not, either
            return _NOT_NUMBERS.format(value=f"{logprob!r:.40}")
    return "" if len(candidates) > 1 else _NO_ALTERNATIVES


def rescore(verdict: Verdict, reply: str, stored: str | None, prompt, k: int = 3) -> Verdict:
    """Return a verdict whose score is that of the log-probabilities where it stands in the reply.

    Parameters
    ----------
    verdict : dre.judges.parse.Verdict
        What the parser read in the reply, and where (its ``span``).
    reply : str
        The text of the reply as it came.
    stored : str or None
        What `keep` returned for the reply.
    prompt : dre.judges.prompts.Prompt
        The prompt that was answered.
    k : int
        How many of the likeliest ratings count.

    Returns
    -------
    Verdict
        With the mean of `weighted` as its score or, of a label, with `goodness`. It is
        ``malformed`` where no single token says the verdict, where this token has no alternatives,
        and where a log-probability is not a number up to 0. One that is not ``ok`` comes back as it
        is.
    """
    if verdict.status != "ok":
        return verdict
    try:
        by_verdict = probabilities(_candidates_at(verdict, reply, stored, prompt), prompt)
    except Unclear as unclear:
        return verdict._replace(
            status="malformed", score_llm=None, label=None, reason=unclear.reason, span=None
        )
    if prompt.kind == "label":
        return verdict._replace(score_llm=goodness(by_verdict))
    return verdict._replace(score_llm=weighted(by_verdict, k))


def _candidates_at(verdict, reply, stored, prompt):
    """The candidates for the token at the position of the verdict; `Unclear` if there are none."""
    positions = json.loads(stored or "[]")
    if not positions:
        raise Unclear(NONE)
    positions = _as_in_the_reply(positions, reply)
    text_of_tokens = "".join(token for token, _ in positions)
    # Some servers drop the space before the first word from the text, but not from the tokens.
    offset = len(text_of_tokens) - len(text_of_tokens.lstrip())
    offset -= len(reply) - len(reply.lstrip())
    parsed = verdict.label if prompt.kind == "label" else verdict.score_llm
    place_of_verdict = verdict.span[0] + offset
    end = 0
    for token, candidates in positions:
        end += len(token)
        if place_of_verdict < end:
            if _verdict_of_token(token, prompt) != parsed:
                break
            fault_of_candidates = _fault_of_candidates(candidates)
            if fault_of_candidates:
                raise Unclear(fault_of_candidates)
            return candidates
    raise Unclear(  # also where the verdict comes after the recorded tokens
        "no token says the verdict by itself: ask for a label or a whole number, "
        "without thinking first"
    )


def _as_in_the_reply(positions, reply):
    """The positions with tokens that spell the reply; `Unclear` if they spell another text.

    Servers that hold a reply to a schema may take a code fence around it away from the text, and
    not from the tokens.
    """
    readable = [(token.translate(_MARKS_IN_TOKENS), candidates) for token, candidates in positions]
    text = reply.lstrip()
    for spelt in (positions, readable, _without_fence(readable)):
        text_of_tokens = "".join(token for token, _ in spelt).lstrip()
        if text.startswith(text_of_tokens) or text_of_tokens.startswith(text):
            return spelt
    raise Unclear("the tokens of the log-probabilities spell another text than the reply")


def _without_fence(positions):
    """The positions without those of the line that begins a code fence, if there is one."""
    text_of_tokens = "".join(token for token, _ in positions)
    fence = _FENCE.match(text_of_tokens)
    n_left = fence.end() if fence else 0
    kept = []
    for token, candidates in positions:
        if len(token) > n_left:
            kept.append((token[n_left:], candidates))
        n_left = max(0, n_left - len(token))
    return kept


def _verdict_of_token(token, prompt):
    """The meaning of a single token: a label, a whole rating on the scale, or None."""
    word = re.sub(r"[\s*\"'.:]", "", token.translate(_MARKS_IN_TOKENS)).casefold()
    if prompt.kind == "label":
        meanings = {label.casefold(): meaning for label, meaning in prompt.labels.items()}
        return meanings.get(word)
    low, high = prompt.scale
    if re.fullmatch("[0-9]", word) and low <= int(word) <= high:
        return int(word)
    return None
