"""Which rated items a judge is shown beside the one it is to judge (Huynh et al., section 3.3)."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from dre.errors import DreError

HOW = ("random", "manual", "bm25_context", "bm25_response", "bm25_both")


def bm25(queries, documents, k1=1.5, b=0.75):
    """Okapi BM25 (Robertson and Zaragoza, 2009) of each text of `queries` with each of `documents`, (q, d), 0 or more.

    The sum over the words of a query of idf tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length)), with
    idf = log(1 + (n - df + 0.5) / (df + 0.5)), which is never negative. Words are runs of letters and digits.
    """
    words = CountVectorizer(token_pattern=r"(?u)\w+")
    counts = csr_array(words.fit_transform(documents), dtype=float)
    lengths, df = counts.sum(axis=1), (counts > 0).sum(axis=0)
    idf, tf = np.log(1 + (len(lengths) - df + 0.5) / (df + 0.5)), counts.tocoo()
    damped = tf.data + k1 * (1 - b + b * lengths[tf.row] / lengths.mean())
    weights = csr_array(
        (idf[tf.col] * tf.data * (k1 + 1) / damped, (tf.row, tf.col)), shape=counts.shape
    )
    return (csr_array(words.transform(queries), dtype=float) @ weights.T).toarray()


def select(pairs, pool, how, k=3, seed=0, chosen=(), same_context=False):
    """Return ``{pair_id: [example, ...]}`` of each pair: what the ``examples`` of a judge's `score` takes.

    Parameters
    ----------
    pairs, pool : pandas.DataFrame
        The items to judge, and those that may be shown: ``pair_id, context_id, context`` (turns) and ``response``
        (absent: whole dialogues); of the pool also ``rating``, what people said of it, in the form the prompt asks for.
    how : str
        One of `HOW`: ``random`` (one draw by `seed`, the same for all pairs), ``manual`` (the pair ids of `chosen`),
        or the `k` nearest by `bm25` of contexts, responses or both, the nearest first.
    same_context : bool
        Whether an example may share its context with the item that is judged. It is never that item itself; where it
        may not be shown, the next in order is.

    Raises `DreError` where fewer than `k` examples are left for a pair, or a chosen one is not in the pool.
    """
    if lacking := {"pair_id", "context_id", "context"} - {*pairs.columns} & {*pool.columns}:
        raise DreError(
            f"pairs or pool lack {', '.join(sorted(lacking))}: both need pair_id, context_id and context"
        )
    pool = pool.reset_index(drop=True)
    ids, contexts = pool["pair_id"].to_numpy(), pool["context_id"].to_numpy()
    if how not in HOW:
        raise DreError(f"examples by {how!r}: choose one of {', '.join(HOW)}")
    if unknown := sorted(set(chosen) - set(ids)):
        raise DreError(f"example {unknown[0]!r} is not in the pool")
    if how.startswith("bm25"):
        score = bm25(_texts(pairs, how), _texts(pool, how))
        orders = np.argsort(-score, axis=1, kind="stable")
    else:
        drawn = np.random.default_rng(seed).permutation(len(pool))
        order = drawn if how == "random" else pd.Index(ids).get_indexer(list(chosen))
        orders = np.broadcast_to(order, (len(pairs), len(order)))
    records, found = pool.to_dict("records"), {}
    for order, pair_id, context_id in zip(orders, pairs["pair_id"], pairs["context_id"]):
        may = (ids[order] != pair_id) & (same_context | (contexts[order] != context_id))
        found[pair_id] = [records[i] for i in order[may][:k]]
        if len(found[pair_id]) < k:
            raise DreError(
                f"pair {pair_id}: {len(found[pair_id])} examples may be shown, {k} were asked for"
            )
    return found


def _texts(table, how):
    """One text a row: its context, its response, or both."""
    contexts = [" ".join(turns) for turns in table["context"]]
    if "response" not in table and how != "bm25_context":
        raise DreError(
            f"examples by {how} need a column response: whole dialogues have bm25_context only"
        )
    if how == "bm25_context":
        return contexts
    both = zip(contexts, table["response"])
    return [
        response if how == "bm25_response" else f"{context} {response}"
        for context, response in both
    ]
