"""How good a set of positives and adversarials is: overlap, give-aways, diversity, leakage."""

import random

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from dre import stats
from dre.classification import choose_threshold, correct, length_only, response_only
from dre.datasets.dialogues import pairs
from dre.datasets.overlap import without_overlap
from dre.errors import DreError

FOLDS = 5
# scikit-learn's list holds nouns and verbs that carry meaning in a dialogue, and lacks what speech is full of.
_MEANINGFUL = (
    "amount bill bottom call computer cry describe detail empty fill find fire front interest mill move part serious "
    "show side sincere system thick thin top"
)
_SPOKEN = (
    "ah ain aren couldn didn doesn don get go going good got hadn hasn haven hello hey hi im isn just know let like ll "
    "make oh ok okay re really right said say shouldn sure thank thanks thing things think um ve want wasn well weren "
    "won wouldn yeah yes"
)
_STOP = sorted((ENGLISH_STOP_WORDS - {*_MEANINGFUL.split()}) | {*_SPOKEN.split()})
#: text -> its content words, lower-cased, with repeats
content_words = CountVectorizer(
    token_pattern=r"(?u)\b[^\W_]{2,}\b", stop_words=_STOP
).build_analyzer()


def overlap(table):
    """Share of each response's distinct content words that stand in its context; NaN for a response without any."""
    found = [set(content_words(response)) for response in table["response"]]
    seen = [set(content_words(" ".join(turns))) for turns in table["context"]]
    return np.array(
        [len(words & there) / len(words) if words else np.nan for words, there in zip(found, seen)]
    )


def overlap_only(train, dev, test):
    """Score responses by their `overlap`, 0 where there is none; as `dre.classification.length_only`."""
    shares, positive = (
        [np.nan_to_num(overlap(table)) for table in (train, dev, test)],
        train["kind"].to_numpy() == "p",
    )
    sign = 1.0 if shares[0][positive].mean() > shares[0][~positive].mean() else -1.0
    return sign * shares[1], sign * shares[2]


#: What tells positives from adversarials without understanding either: (train, dev, test) -> scores of dev and test.
GIVE_AWAYS = {
    "overlap_only": overlap_only,
    "length_only": length_only,
    "response_only": response_only,
}
#: The measures of a report, in the order of its columns.
OF_KINDS = ("overlap", "borrows", "asks", "self_bleu")
MEASURES = (
    *(f"{name}_{kind}" for name in OF_KINDS for kind in ("positive", "adversarial")),
    *GIVE_AWAYS,
    "distinct_2",
    "leaked",
)


def report(sets, reserved=None, at_most=1000, n=1000, seed=0):
    """Return the measures of sets (name -> contexts), one row per set; of more than `at_most` contexts a sample.

    ``reserved`` (name -> records) is what the set of that name must share no utterance with, as
    `dre.datasets.overlap.without_overlap` takes it.

    Columns: ``set, contexts`` (in the set), ``measured`` (of those), and, in percent with ``_low`` and ``_high``, NaN
    where nothing can be measured: ``overlap``, the share of a response's content words that stand in its context;
    ``overlap_only, length_only, response_only``, the accuracy (50 is chance) of classifiers that see only that share,
    the length, the wording; ``self_bleu`` with the others of its kind and context as references; ``distinct_2``,
    distinct over all pairs of words in a context's responses; ``leaked``, the share of contexts whose
    conversation has an utterance of more than four words that stands in a reserved record.
    """
    rows = []
    for name, contexts in sets.items():
        used = [context for context in contexts if context.positives and context.adversarials]
        if not used:
            raise DreError(
                f"{name}: no context has positives and adversarials: a quality report needs both"
            )
        if len(used) > at_most:
            used = [used[i] for i in sorted(random.Random(seed).sample(range(len(used)), at_most))]
        row = {"set": name, "contexts": len(contexts), "measured": len(used)}
        for measure, (owners, values) in _measured(used, (reserved or {}).get(name), seed).items():
            found = stats.mean(100 * values, owners, n=n, seed=seed)
            row |= {
                measure: found["mean"],
                f"{measure}_low": found["low"],
                f"{measure}_high": found["high"],
            }
        rows.append(row)
    return pd.DataFrame(rows)


def _measured(contexts, reserved, seed):
    """Each of `MEASURES` -> (ids of contexts, values between 0 and 1)."""
    table, ids = pairs(contexts), [context.context_id for context in contexts]
    owners, kind = table["context_id"].to_numpy(), table["kind"]
    balance = (
        0.5 / kind.map(kind.value_counts(normalize=True))
    ).to_numpy()  # the mean is that over both kinds
    found = {
        name: (owners, give_away(table, scorer, seed) * balance)
        for name, scorer in GIVE_AWAYS.items()
    }
    share, asks = overlap(table), table["response"].str.strip().str.endswith("?").to_numpy(float)
    borrows = np.where(np.isnan(share), np.nan, share > 0)
    measured = {"overlap": share, "borrows": borrows, "asks": asks, "self_bleu": self_bleu(table)}
    for name, values in measured.items():
        found[f"{name}_positive"] = owners, np.where(kind == "p", values, np.nan)
        found[f"{name}_adversarial"] = owners, np.where(kind == "a", values, np.nan)
    found["distinct_2"] = ids, np.array([distinct(context) for context in contexts])
    clean = {context.context_id for context in without_overlap(contexts, reserved or [], near=None)}
    found["leaked"] = (
        ids,
        np.array([np.nan if reserved is None else float(id not in clean) for id in ids]),
    )
    return {name: found[name] for name in MEASURES}


def give_away(table, scorer, seed=0):
    """Return whether one of `GIVE_AWAYS` is right about each pair; NaN where there are fewer contexts than `FOLDS`.

    Each part of the contexts is judged with the threshold of the next and what was learned from the rest.
    """
    names, right = table["context_id"].unique(), np.full(len(table), np.nan)
    if len(names) < FOLDS:
        return right
    fold = table["context_id"].map(
        dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % FOLDS))
    )
    for k in range(FOLDS):
        dev = (k + 1) % FOLDS
        parts = [table[~fold.isin([k, dev])], table[fold == dev], table[fold == k]]
        on_dev, on_test = scorer(*parts)
        threshold = choose_threshold(on_dev, parts[1]["kind"])
        right[fold == k] = correct(parts[2], on_test, threshold)
    return right


def self_bleu(table):
    """BLEU (0-1) of each response with the others of its kind and context as references; NaN where it stands alone."""
    from sacrebleu.metrics import BLEU

    bleu, values = BLEU(effective_order=True, lowercase=True), np.full(len(table), np.nan)
    for places in table.groupby(["context_id", "kind"]).indices.values():
        for at in places if len(places) > 1 else ():
            others = table["response"].iloc[[other for other in places if other != at]].tolist()
            values[at] = bleu.sentence_score(table["response"].iloc[at], others).score / 100
    return values


def distinct(context):
    """Distinct pairs of words over all pairs in a context's positives and adversarials; NaN if there are none."""
    words = [text.lower().split() for text in (*context.positives, *context.adversarials)]
    grams = [gram for text in words for gram in zip(text, text[1:])]
    return len(set(grams)) / len(grams) if grams else np.nan
