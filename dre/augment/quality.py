"""How good a set of positives and adversarial negatives is: overlap, give-aways, diversity, repeats, leakage.

Every measure is a mean over responses (or contexts) with a 95 % interval from a bootstrap over contexts. The
accuracies are means of the accuracy on positives and that on adversarials, so sets with one positive and five
adversarials a context compare with those of five and five; 50 % is chance.
"""

import random
import re
from collections import Counter

import numpy as np
import pandas as pd

from dre.augment.giveaways import GIVE_AWAYS, balanced, give_away, overlap, slm_right
from dre.data import pairs
from dre.data.overlap import WORDS, disjoint
from dre.errors import DreError
from dre.report.cells import percent
from dre.stats.bootstrap import cluster_mean_interval

KINDS = {"positive": "p", "adversarial": "a"}


def report(sets, held_out=None, slm=None, threshold=None, seen=(), at_most=1000, resamples=1000, seed=0):
    """Return the table ``augmentation``: one row a set.

    Parameters
    ----------
    sets : dict of str to sequence of Context
    held_out : dict of str to sequence of Context or Rated, optional
        For a set of that name, the records it must share no utterance with; a set without has no leakage to show.
    slm : SLM, optional
        Trained elsewhere (the paper: on DailyDialog++), with its `threshold`.
    seen : sequence of Context
        Contexts the SLM was trained or tuned on; its accuracy leaves them out.
    at_most : int
        Contexts of a larger set are sampled, so that sets are compared at a similar size and a report takes
        minutes.

    Returns
    -------
    DataFrame
        ``set, contexts`` (in the set), ``measured`` (of those), and, all but the first in percent with ``_low`` and
        ``_high``: `MEASURES`. What cannot be measured is NaN.
    """
    rows = []
    for name, contexts in sets.items():
        used = sample(contexts, at_most, seed)
        row = {"set": name, "contexts": len(contexts), "measured": len(used)}
        measures = _measures(used, (held_out or {}).get(name), (slm, threshold, seen), seed)
        for measure, (values, clusters) in measures.items():
            row |= _with_interval(measure, values, clusters, resamples, seed)
        rows.append(row)
    return pd.DataFrame(rows)


def _measures(contexts, held_out, judged_by, seed):
    """Return measure -> (values, context of each value), in the order of the table's columns."""
    table = pairs(contexts)
    if set(table["kind"]) != {"p", "a"}:
        raise DreError("these contexts have no positives or no adversarials at all: a quality report needs both")
    found = {}
    for kind, letter in KINDS.items():
        found[f"overlap_{kind}"] = overlap(table[table["kind"] == letter])
    for name, scorer in GIVE_AWAYS.items():
        found[name] = balanced(give_away(table, scorer, seed), table)
    for kind, letter in KINDS.items():
        found[f"self_bleu_{kind}"] = self_bleu(contexts, letter)
    found["distinct_2"] = distinct(contexts)
    found["repeated_within"], found["repeated_across"] = repeated(table)
    found["leaked"] = leaked(contexts, held_out)
    found["slm_accuracy"] = balanced(slm_right(table, *judged_by), table)
    return found


#: The measures of a report, in the order of its columns.
MEASURES = (
    "overlap_positive", "overlap_adversarial", "overlap_only", "length_only", "response_only", "self_bleu_positive",
    "self_bleu_adversarial", "distinct_2", "repeated_within", "repeated_across", "leaked", "slm_accuracy",
)  # fmt: skip


def sample(contexts, n, seed=0):
    """Return `n` of the contexts that have positives and adversarials, in their order, or all if there are fewer."""
    whole = [context for context in contexts if context.positives and context.adversarials]
    if len(whole) <= n:
        return whole
    return [whole[i] for i in sorted(random.Random(seed).sample(range(len(whole)), n))]


def self_bleu(contexts, kind):
    """BLEU of each response with the others of its kind and context as references: high where they are alike."""
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise DreError("package 'sacrebleu' is not installed; install it with: pip install 'dre[baselines]'") from None

    bleu = BLEU(effective_order=True, lowercase=True)
    values, clusters = [], []
    for context in contexts:
        texts = context.responses(kind)
        for i, text in enumerate(texts):
            others = [*texts[:i], *texts[i + 1 :]]
            values.append(bleu.sentence_score(text, others).score / 100 if others else np.nan)
            clusters.append(context.context_id)
    return np.array(values), clusters


def distinct(contexts, n=2):
    """Distinct-n of a context's responses: distinct n-grams of words over all n-grams, positives and adversarials."""
    values = []
    for context in contexts:
        words = [text.lower().split() for text in (*context.positives, *context.adversarials)]
        grams = [gram for text in words for gram in zip(*(text[i:] for i in range(n)))]
        values.append(len(set(grams)) / len(grams) if grams else np.nan)
    return np.array(values), [context.context_id for context in contexts]


def repeated(table):
    """Return whether each response stands in its context again, and whether it stands in another context.

    Case, punctuation and spacing are ignored. Across contexts only responses of more than four words count: "Yes,
    please." is no sign of anything.
    """
    plain = [re.sub(r"[\W_]", "", text.lower()) for text in table["response"]]
    owners = table["context_id"].to_numpy()
    here = Counter(zip(owners, plain))
    places = Counter(text for _, text in here)
    long = table["response"].str.split().str.len().to_numpy() > WORDS
    within = np.array([here[owner, text] > 1 for owner, text in zip(owners, plain)], float)
    across = np.array([places[text] > 1 for text in plain], float)
    return (within, owners), (np.where(long, across, np.nan), owners)


def leaked(contexts, held_out):
    """Return whether each context shares an utterance of more than four words with a held-out record."""
    if held_out is None:
        return _nothing(contexts)
    clean = {context.context_id for context in disjoint(contexts, held_out)}
    return np.array([c.context_id not in clean for c in contexts], float), [c.context_id for c in contexts]


def _nothing(contexts):
    return np.full(len(contexts), np.nan), [context.context_id for context in contexts]


def _with_interval(name, values, clusters, resamples, seed):
    found = (
        100 * cluster_mean_interval(values, clusters, resamples=resamples, seed=seed).iloc[0][["mean", "low", "high"]]
    )
    return {name: found["mean"], f"{name}_low": found["low"], f"{name}_high": found["high"]}


def reading(table):
    """Say in Markdown what a report shows, from its numbers alone."""
    lines = []
    for _, row in table.iterrows():
        known = {name: row[name] for name in GIVE_AWAYS if np.isfinite(row[name])}
        worst = max(known, key=known.get) if known else None
        line = (
            f"- **{row['set']}:** of an adversarial's content words {percent(row, 'overlap_adversarial')} stand in "
            f"the context, of a positive's {percent(row, 'overlap_positive')}."
        )
        if worst:
            line += f" The largest give-away is {SAID[worst]}: {percent(row, worst)} (chance is 50 %)."
        if np.isfinite(row["slm_accuracy"]):
            line += f" The SLM is right about {percent(row, 'slm_accuracy')}."
        if np.isfinite(row["leaked"]):
            line += f" Contexts that share an utterance with a held-out set: {row['leaked']:.1f} %."
        lines.append(line)
    return "\n".join(lines)


SAID = {
    "overlap_only": "the share of words taken from the context",
    "length_only": "length",
    "response_only": "the wording of the response alone",
}
