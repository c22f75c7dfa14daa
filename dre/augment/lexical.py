"""Adversarial negatives without an LLM: responses of other dialogues that borrow the context's words.

For every context, the responses of the pool are ranked by BM25 (or TF-IDF) with the context as query, and the best
that pass the guards are taken: none of the same dialogue, none that repeats a positive or a turn of the context
or another negative of it, and one a source context. Such a response may still fit; `dre.augment.false_negatives`
estimates how often. Random negatives are drawn beside them.
"""

import random
from dataclasses import replace

import numpy as np
import pandas as pd

from dre.augment import guards, retrieval
from dre.errors import DreError

BLOCK = 256  # contexts scored at once, so that memory does not grow with their number
DEPTH = 20  # candidates sorted at first, for each one wanted
MAX_OVERLAP = 0.6
MAX_SHARE = 0.5
TRIES = 50


def negatives(
    contexts,
    n=5,
    method="bm25",
    seed=0,
    randoms=5,
    pool=None,
    max_share=MAX_SHARE,
    max_overlap=MAX_OVERLAP,
    progress=False,
):
    """Fill contexts with lexical adversarial negatives and random negatives.

    Parameters
    ----------
    contexts : sequence of Context
        Of one split, with their positives.
    n : int
        Adversarial negatives a context.
    method : {"bm25", "tfidf"}
        How responses are ranked.
    seed : int
        Of the random negatives; retrieval has nothing random. A draw depends on the seed, the context's id and
        the pool alone.
    randoms : int
        Random negatives a context; 0 leaves those that are there.
    pool : sequence of Context, optional
        Whose positives are retrieved; by default `contexts`.
    max_share : float in (0, 1]
        The largest share of a response's content words that may stand in the context. At 1, the best are responses
        that say nothing but what the context said, and counting shared words tells negatives from positives.
    max_overlap : float in (0, 1]
        A response whose set of words has at least this Jaccard overlap with that of a positive or a turn of the
        context counts as its repetition.
    progress : bool
        Show a progress bar.

    Returns
    -------
    found : list of Context
        `contexts` in their order and with their ids, with new ``adversarials`` and ``randoms``. A context that
        shares content words with fewer than `n` responses has fewer adversarials, one without content words has none.
    retrieved : DataFrame
        One row an adversarial: ``pair_id`` (its own), ``context_id, rank`` (from 1), ``source_id`` (pair id of the
        response it was), ``score`` (BM25 or cosine), ``shared`` (content words in common, by space), ``n_shared``.

    Raises
    ------
    DreError
        If contexts of several splits are mixed, nothing can be retrieved, or the pool is too small for the random
        negatives.
    """
    pool = contexts if pool is None else pool
    _check(contexts, pool, n, randoms, (max_share, max_overlap))
    responses = guards.Responses(pool)
    score = retrieval.index(responses.texts, method)
    keys = sorted(set().union(*responses.keys))
    known = guards.incidence(responses.keys, keys).T.tocsr()
    found, rows = [], []
    for start in _blocks(len(contexts), progress):
        block = contexts[start : start + BLOCK]
        banned = guards.incidence([guards.banned(context) for context in block], keys) @ known
        scores = score([" ".join(c.turns) for c in block])
        for i, context in enumerate(block):
            same = _columns(banned, i)
            guard = guards.Guard(context, max_share, max_overlap)
            taken = _best(*_others(scores, i, same), n, responses, guard)
            rows += [
                _row(context, guard, rank, j, value, responses) for rank, (j, value) in enumerate(taken.items(), 1)
            ]
            drawn = _drawn(context, randoms, seed, set(same.tolist()), responses, guard) if randoms else None
            found.append(
                replace(
                    context,
                    adversarials=tuple(responses.texts[j] for j in taken),
                    randoms=context.randoms if drawn is None else drawn,
                )
            )
    columns = ["pair_id", "context_id", "rank", "source_id", "score", "shared", "n_shared"]
    return found, pd.DataFrame(rows, columns=columns)


def _check(contexts, pool, n, randoms, bounds):
    splits = sorted({context.split for context in (*contexts, *pool)})
    if len(splits) != 1:
        raise DreError(
            f"found contexts of {len(splits)} splits ({', '.join(splits) or 'no context at all'}), expected one: a "
            "response of a test context must not become a negative of a training context; call this once a split"
        )
    if n < 1 or randoms < 0 or not all(0 < bound <= 1 for bound in bounds):
        raise DreError(
            f"n is {n}, randoms {randoms}, max_share and max_overlap {' and '.join(map(str, bounds))}: expected n of "
            "at least 1, randoms of at least 0, and shares in (0, 1]"
        )


def _columns(matrix, i):
    return matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]


def _others(scores, i, same):
    """Return the numbers, ascending, and scores of the responses of other dialogues that row `i` scores."""
    places, values = _columns(scores, i), scores.data[scores.indptr[i] : scores.indptr[i + 1]]
    keep = ~np.isin(places, same)
    order = np.argsort(places[keep])
    return places[keep][order], values[keep][order]


def _best(places, values, n, responses, guard):
    """Return the best `n` responses that the guard admits, at most one a source context: number -> score."""
    sources, taken = set(), {}
    for depth in (DEPTH * n, len(values)):
        for k in _ranked(values, depth):
            if len(taken) == n:
                return taken
            j = int(places[k])
            if responses.source[j] not in sources and guard.borrows(j, responses) and guard.new(j, responses):
                guard.take(j, responses)
                sources.add(responses.source[j])
                taken[j] = float(values[k])
        # The second, full pass meets the responses of the first again; sources and guard turn them away.
    return taken


def _ranked(values, depth):
    """Return where the best `depth` scores stand (more where several tie), best first, ties by place."""
    best = np.arange(len(values))
    if depth < len(values):
        best = np.flatnonzero(values >= np.partition(values, -depth)[-depth])
    return best[np.argsort(-values[best], kind="stable")]


def _drawn(context, n, seed, same, responses, guard):
    """Draw random negatives: of other dialogues, none that repeats anything of the context."""
    size = len(responses.texts)
    drawn = []
    for j in random.Random(f"{seed}/{context.context_id}").sample(range(size), min(size, TRIES * n)):
        if j not in same and guard.new(j, responses):
            guard.take(j, responses)
            drawn.append(responses.texts[j])
            if len(drawn) == n:
                return tuple(drawn)
    raise DreError(f"only {len(drawn)} responses of other dialogues for {context.context_id}, {n} are needed")


def _row(context, guard, rank, j, score, responses):
    shared = sorted(guard.content & responses.content[j])
    ids = (context.pair_id("a", rank - 1), context.context_id, rank, responses.ids[j])
    return (*ids, score, " ".join(shared), len(shared))


def _blocks(size, progress):
    from tqdm import tqdm

    return tqdm(range(0, size, BLOCK), desc="retrieving", unit="block", disable=not progress)
