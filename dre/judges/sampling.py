"""Three ways to one score a pair: a single reply, the mean of n, or the log-probabilities of one reply."""

import math
import re

from dre.errors import DreError
from dre.judges import labels, replies
from dre.judges.replies import Unclear

K = 3  # Huynh et al., section 3.1


def mean(scores):
    """Mean of the scores that n replies gave (G-Eval: n = 20).

    Parameters
    ----------
    scores : iterable of float or None
        None (or NaN) where a reply gave no score; these are left out, so count them beside the mean.

    Returns
    -------
    float or None
        None if no reply gave a score.
    """
    known = [score for score in scores if score is not None and not math.isnan(score)]
    return math.fsum(known) / len(known) if known else None


def weighted_rating(logprobs, scale, k=K):
    """Mean of the k most likely ratings, weighted by their probability (Huynh et al., section 3.1).

    r = sum_i w_i r_i with w_i = p_i / sum_j p_j over the k most likely ratings. The paper calls p_i a log
    probability; only probabilities give weights that grow with likelihood, so these are meant here.

    Parameters
    ----------
    logprobs : mapping or iterable of (token, log-probability)
        The alternatives at the position of the rating. Tokens that are no number, or one off the scale, are
        left out; spellings of one number ("4", " 4") are added up.
    scale : tuple of float
    k : int

    Returns
    -------
    float or None
        None if no alternative is a rating.
    """
    if k < 1:
        raise DreError(f"k is {k}, expected 1 or more: the number of ratings to average")
    chances = {}
    for token, logprob in _items(logprobs):
        rating = _rating(token, scale)
        if rating is not None:
            chances[rating] = chances.get(rating, 0.0) + math.exp(logprob)
    likely = sorted(chances.items(), key=lambda item: (-item[1], item[0]))[:k]
    total = math.fsum(chance for _, chance in likely)
    return math.fsum(rating * chance for rating, chance in likely) / total if total > 0 else None


def p_yes(logprobs, yes=("yes",), no=("no",)):
    """P(yes) = p(yes) / (p(yes) + p(no)), from the alternatives at one position (Huynh et al., section 3.2).

    Upper and lower case, and tokens with a space before them, are added up. A word that is not among the
    alternatives counts as probability 0.

    Returns
    -------
    float or None
        From 0 to 1; None if neither word is among the alternatives.
    """
    chance = {True: 0.0, False: 0.0}
    words = {word.casefold(): True for word in yes} | {word.casefold(): False for word in no}
    for token, logprob in _items(logprobs):
        side = words.get(_bare(token))
        if side is not None:
            chance[side] += math.exp(logprob)
    total = chance[True] + chance[False]
    return chance[True] / total if total > 0 else None


def logprob_score(tokens, prompt):
    """Score of one reply from its log-probabilities: `weighted_rating`, or `p_yes` for a prompt with labels.

    Parameters
    ----------
    tokens : list
        ``[token, logprob, [[token, logprob], ...]]`` for each token of the reply, with its alternatives.
    prompt : dre.judges.prompts.Prompt

    Returns
    -------
    float or None
        On the prompt's scale, or P(positive) from 0 to 1. None if the reply has no single token that is a rating
        (a decimal such as 3.5 is spread over several) or a label: the verdict is then not to be replaced.
    """
    tokens = _after_thinking(list(tokens))
    at = _verdict_at(tokens, prompt)
    if at is None:
        return None
    token, logprob, alternatives = tokens[at]
    items = dict([(token, logprob), *map(tuple, alternatives or [])])
    if prompt.kind == "label":
        sides = {side: [w for w, label in prompt.labels.items() if label == side] for side in prompt.labels.values()}
        return p_yes(items, sides["Positive"], sides["Negative"])
    return weighted_rating(items, prompt.scale)


def _verdict_at(tokens, prompt):
    """Position of the token that is the reply's verdict: the first one, or else the last, that says it."""
    verdict = prompt.parse("".join(str(token[0]) for token in tokens))
    found = [at for at in range(len(tokens)) if _says(tokens, at, prompt, verdict)]
    if not found:
        return None
    opens = not "".join(str(token[0]) for token in tokens[: found[0]]).strip()
    return found[0] if opens else found[-1]


def _says(tokens, at, prompt, verdict):
    token = tokens[at][0]
    if prompt.kind == "label":
        return verdict.label is not None and _label(token, prompt.labels) == verdict.label
    rating = _rating(token, prompt.scale)
    return rating is not None and rating == verdict.score_llm and not _continues(tokens, at)


def _continues(tokens, at):
    """True if the number goes on in a neighbouring token, as 3 . 5 or 1 0 do, or is a denominator."""
    before = "".join(str(token[0]) for token in tokens[max(0, at - 2) : at])
    after = "".join(str(token[0]) for token in tokens[at + 1 : at + 3])
    joined = re.search(r"\d[.,/]?\Z|[-+/]\Z", before) and not str(tokens[at][0])[:1].isspace()
    return bool(joined or re.match(r"\d|[.,]\d|%", after))


def _after_thinking(tokens):
    text = ""
    start = 0
    for at, token in enumerate(tokens):
        text += str(token[0])
        if text.rstrip().casefold().endswith(("</think>", "</thinking>")):
            start = at + 1
    return tokens[start:]


def _label(token, words):
    try:
        return labels.one(token, words)
    except Unclear:
        return None


def _items(logprobs):
    return list(logprobs.items()) if hasattr(logprobs, "items") else [tuple(item) for item in logprobs]


def _bare(token):
    return re.sub(r"^[\W_]+|[\W_]+$", "", str(token)).casefold()


def _rating(token, scale):
    text = replies.plain(str(token)).strip(" \t\n\u0120\u2581\"'*:")
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        return None
    return float(text) if scale[0] <= float(text) <= scale[1] else None
