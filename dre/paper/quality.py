"""How good a set of positives and adversarials is: overlap, give-aways, diversity, leakage."""

import functools
import random
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from dre import stats
from dre.classification import choose_threshold, correct, length_only, response_only
from dre.datasets.dialogues import Context, pairs
from dre.datasets.overlap import without_overlap
from dre.errors import DreError

_FOLDS = 5
_ENDS = {"": "mean", "_low": "low", "_high": "high"}
# The list of scikit-learn holds nouns and verbs that carry meaning in a dialogue, and it lacks
# words that speech is full of.
_MEANINGFUL = (
    "amount bill bottom call computer cry describe detail empty fill find fire front interest "
    "mill move part serious show side sincere system thick thin top"
)
_SPOKEN = (
    "ah ain aren couldn didn doesn don get go going good got hadn hasn haven hello hey hi im "
    "isn just know let like ll make oh ok okay re really right said say shouldn sure thank "
    "thanks thing things think um ve want wasn well weren won wouldn yeah yes"
)
_STOP = sorted((ENGLISH_STOP_WORDS - {*_MEANINGFUL.split()}) | {*_SPOKEN.split()})
#: A function of a text that returns its content words, lower-cased, with repeats.
content_words = CountVectorizer(
    token_pattern=r"(?u)\b[^\W_]{2,}\b", stop_words=_STOP
).build_analyzer()


def overlap(table: pd.DataFrame) -> np.ndarray:
    """Return the share of each response's distinct content words that are in its context.

    Parameters
    ----------
    table : pairs, with columns ``context`` (turns) and ``response``.

    Returns
    -------
    Shares in [0, 1], one for each row; NaN for a response without content words.
    """
    shares = []
    for turns, response in zip(table["context"], table["response"]):
        words = _distinct_words(response)
        n_borrowed = len(words & _distinct_words(" ".join(turns)))
        shares.append(n_borrowed / len(words) if words else np.nan)
    return np.array(shares)


@functools.lru_cache(maxsize=10_000)  # A context has ten responses, and each fold asks again.
def _distinct_words(text):
    """Return the distinct content words of a text."""
    return frozenset(content_words(text))


def overlap_only(
    train: pd.DataFrame, dev: pd.DataFrame, test: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """Score the responses of dev and test by their `overlap` alone, 0 where there is none.

    The sign is such that positives of train score higher; see `dre.classification.length_only`.
    """
    train_shares, dev_shares, test_shares = (
        np.nan_to_num(overlap(table)) for table in (train, dev, test)
    )
    is_positive = train["kind"] == "p"
    positive_shares_more = train_shares[is_positive].mean() > train_shares[~is_positive].mean()
    sign = 1.0 if positive_shares_more else -1.0
    return sign * dev_shares, sign * test_shares


#: What tells positives from adversarials without understanding either. Each takes the tables train,
#: dev and test, and returns scores of dev and test.
_GIVE_AWAYS = {
    "overlap_only": overlap_only,
    "length_only": length_only,
    "response_only": response_only,
}
#: Measures that are reported for positives and for adversarials apart.
_MEASURES_BY_KIND = ("overlap", "borrows", "asks", "self_bleu")
#: The measures of a report, in the order of its columns.
MEASURES = (
    *(f"{name}_{kind}" for name in _MEASURES_BY_KIND for kind in ("positive", "adversarial")),
    *_GIVE_AWAYS,
    "distinct_2",
    "leaked",
)


def report(
    sets: Mapping[str, Sequence[Context]],
    reserved: Mapping[str, Iterable] | None = None,
    at_most: int = 1000,
    n: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Measure sets of contexts with positives and adversarials, one row for each set.

    Parameters
    ----------
    sets : contexts by the name of their set.
    reserved : by the name of a set, what it must share no utterance with, as
        `dre.datasets.overlap.without_overlap` takes it.
    at_most : of a set with more contexts, a sample of so many is measured.
    n : bootstrap resamples of the contexts.
    seed : of the sample and the resamples.

    Returns
    -------
    Columns ``set``, ``contexts`` (in the set), ``measured`` (of those), and the `MEASURES` in
    percent, each with ``_low`` and ``_high``; NaN where nothing can be measured:

    - ``overlap``: the share of a response's content words that are in its context;
    - ``borrows``: the share of responses with at least one such word;
    - ``asks``: the share of responses that end with a question mark;
    - ``self_bleu``: BLEU with the others of the same kind and context as references;
    - ``overlap_only, length_only, response_only``: the accuracy (50 is chance) of classifiers that
      see only that share, only the length, or only the wording;
    - ``distinct_2``: distinct over all pairs of words in a context's responses;
    - ``leaked``: the share of contexts whose conversation has an utterance of more than four words
      that is in a reserved record.

    Raises
    ------
    DreError
        If a set has no context with both positives and adversarials.
    """
    rows = []
    for name, contexts in sets.items():
        complete = [context for context in contexts if context.positives and context.adversarials]
        if not complete:
            raise DreError(
                f"{name}: no context has positives and adversarials: a quality report needs both"
            )
        if len(complete) > at_most:
            chosen = random.Random(seed).sample(range(len(complete)), at_most)
            complete = [complete[i] for i in sorted(chosen)]
        row = {"set": name, "contexts": len(contexts), "measured": len(complete)}
        measurements = _measure(complete, (reserved or {}).get(name), seed)
        for measure in MEASURES:
            context_ids, shares = measurements[measure]
            estimate = stats.mean(100 * shares, context_ids, n=n, seed=seed)
            row |= {f"{measure}{ending}": estimate[key] for ending, key in _ENDS.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _measure(contexts, reserved, seed):
    """Return for each of `MEASURES` the ids of contexts, and a share in [0, 1] that each has.

    Measures of responses have an id and a share for each response.
    """
    table = pairs(contexts)
    kinds = pd.Series(table["kind"])
    owners = table["context_id"]
    measurements = {}

    # Accuracies: the weights make both kinds count alike.
    weights = (0.5 / kinds.map(kinds.value_counts(normalize=True))).to_numpy()
    for name, scorer in _GIVE_AWAYS.items():
        measurements[name] = (owners, _give_away(table, scorer, seed) * weights)

    # Measures of positives and adversarials separately.
    overlaps = overlap(table)
    values_by_name = {
        "overlap": overlaps,
        "borrows": np.where(np.isnan(overlaps), np.nan, overlaps > 0),
        "asks": table["response"].str.strip().str.endswith("?").to_numpy(float),
        "self_bleu": _self_bleu(table),
    }
    for name, values in values_by_name.items():
        for ending, kind in (("positive", "p"), ("adversarial", "a")):
            measurements[f"{name}_{ending}"] = (owners, np.where(kinds == kind, values, np.nan))

    # Measures of contexts.
    ids = [context.context_id for context in contexts]
    measurements["distinct_2"] = (ids, np.array([distinct(context) for context in contexts]))
    measurements["leaked"] = (ids, _leaked(contexts, reserved))
    return measurements


def _leaked(contexts, reserved):
    """Return 1 for each context whose conversation shares an utterance with what is reserved."""
    if reserved is None:
        return np.full(len(contexts), np.nan)
    clean = {context.context_id for context in without_overlap(contexts, reserved, None)}
    return np.array([float(context.context_id not in clean) for context in contexts])


def _give_away(table, scorer, seed):
    """Return whether one of `_GIVE_AWAYS` is right about each pair, by cross-validation.

    The contexts are dealt into five folds. Each fold is judged with a threshold from the next fold
    and with what was learned from the other three.

    Returns
    -------
    1 or 0 for each pair; NaN where there are fewer contexts than folds.
    """
    context_ids = table["context_id"].unique()
    is_right = np.full(len(table), np.nan)
    if len(context_ids) < _FOLDS:
        return is_right
    dealt = np.random.default_rng(seed).permutation(len(context_ids)) % _FOLDS
    fold_of = dict(zip(context_ids, dealt))
    fold = table["context_id"].map(fold_of)
    for test_fold in range(_FOLDS):
        dev_fold = (test_fold + 1) % _FOLDS
        train = table.loc[~fold.isin([test_fold, dev_fold])]
        dev = table.loc[fold == dev_fold]
        test = table.loc[fold == test_fold]
        dev_scores, test_scores = scorer(train, dev, test)
        threshold = choose_threshold(dev_scores, dev["kind"])
        is_right[fold == test_fold] = correct(test, test_scores, threshold)
    return is_right


def _self_bleu(table):
    """Return BLEU (0-1) of each response with the others of its kind and context as references.

    NaN where a context has a single response.
    """
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(effective_order=True, lowercase=True)
    values = np.full(len(table), np.nan)
    responses = table["response"].tolist()
    for rows in table.groupby(["context_id", "kind"]).indices.values():
        if len(rows) < 2:
            continue
        for row in rows:
            references = [responses[position] for position in rows if position != row]
            values[row] = bleu.sentence_score(responses[row], references).score / 100
    return values


def distinct(context: Context) -> float:
    """Return the distinct over all pairs of words in a context's positives and adversarials.

    In [0, 1]; NaN if there is no pair of words.
    """
    bigrams = []
    for text in (*context.positives, *context.adversarials):
        words = text.lower().split()
        bigrams += zip(words, words[1:])
    return len(set(bigrams)) / len(bigrams) if bigrams else np.nan
