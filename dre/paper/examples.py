"""Which rated items a prompt shows as examples for a judge (Huynh et al., section 3.3)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from dre.errors import DreError

METHODS = ("random", "manual", "bm25_context", "bm25_response", "bm25_both")


def bm25(
    queries: Sequence[str], documents: Sequence[str], k1: float = 1.5, b: float = 0.75
) -> np.ndarray:
    """Return how similar texts are by Okapi BM25 (Robertson and Zaragoza, 2009).

    Parameters
    ----------
    queries, documents : sequence of str
        The texts to compare. Words are runs of letters and digits.
    k1 : float
        How much a word counts that occurs often in a document: at 0 no more than one that occurs
        once.
    b : float
        How much a document's length counts against it, from 0 to 1.

    Returns
    -------
    array, shape (queries, documents)
        The sum over the words of a query of
        idf tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length)), 0 or more, where
        idf = log(1 + (n - df + 0.5) / (df + 0.5)) is never negative.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(token_pattern=r"(?u)\w+")
    counts = csr_array(vectorizer.fit_transform(documents), dtype=float)
    lengths = counts.sum(axis=1)
    document_frequency = counts.astype(bool).sum(axis=0)
    n_documents = len(lengths)
    idf = np.log(1 + (n_documents - document_frequency + 0.5) / (document_frequency + 0.5))

    # The weight of each word that a document has.
    term_frequency = counts.tocoo()
    document_length = lengths[term_frequency.row]
    damped = term_frequency.data + k1 * (1 - b + b * document_length / lengths.mean())
    values = idf[term_frequency.col] * term_frequency.data * (k1 + 1) / damped
    rows_and_columns = (term_frequency.row, term_frequency.col)
    weights = csr_array((values, rows_and_columns), shape=counts.shape)

    words_of_queries = csr_array(vectorizer.transform(queries), dtype=float)
    return (words_of_queries @ weights.T).toarray()


def select(
    pairs: pd.DataFrame,
    pool: pd.DataFrame,
    method: str,
    k: int = 3,
    seed: int = 0,
    chosen: Sequence[str] = (),
    same_context: bool = False,
) -> dict[str, list[dict]]:
    """Return the examples to show with each pair: what the ``examples`` of a judge's `score` takes.

    Parameters
    ----------
    pairs, pool : pandas.DataFrame
        The items to judge, and those that may be shown: ``pair_id, context_id, context`` (turns)
        and ``response`` (absent: whole dialogues). The pool also has ``rating``, what people said,
        in the form that the prompt asks for.
    method : str
        One of `METHODS`: ``random`` (one draw, the same for all pairs), ``manual`` (those of
        `chosen`), or the most similar by `bm25` of contexts, responses or both.
    k : int
        How many examples to show. By `bm25` the most similar comes first.
    seed : int
        Of the random draw.
    chosen : sequence of str
        The pair ids of hand-picked examples, in the order in which they are shown.
    same_context : bool
        Whether an example may share its context with the item that is judged. It is never that item
        itself. Where an example may not be shown, the next one in order is.

    Returns
    -------
    dict of str to list of dict
        By pair id, the rows of the pool that are shown with it.

    Raises
    ------
    DreError
        If a column is missing, a chosen example is not in the pool, or fewer than `k` examples may
        be shown with a pair.
    """
    _check(pairs, pool, method, chosen)
    pool = pool.reset_index(drop=True)
    pool_ids = pool["pair_id"].to_numpy()
    pool_contexts = pool["context_id"].to_numpy()
    records = pool.to_dict("records")
    orders = _orders(pairs, pool, method, seed, chosen)

    examples = {}
    for order, pair_id, context_id in zip(orders, pairs["pair_id"], pairs["context_id"]):
        is_another_item = pool_ids[order] != pair_id
        is_another_context = pool_contexts[order] != context_id
        may_be_shown = is_another_item & (same_context | is_another_context)
        nearest = order[may_be_shown][:k]
        if len(nearest) < k:
            raise DreError(
                f"pair {pair_id}: expected {k} examples, but only {len(nearest)} of the pool may "
                "be shown: enlarge the pool, or ask for fewer"
            )
        examples[pair_id] = [records[i] for i in nearest]
    return examples


def _check(pairs, pool, method, chosen):
    """Raise `DreError` if the arguments of `select` do not fit together."""
    missing = sorted({"pair_id", "context_id", "context"} - (set(pairs) & set(pool)))
    if missing:
        raise DreError(
            f"pairs or pool lack {', '.join(missing)}: both need pair_id, context_id and context"
        )
    if method not in METHODS:
        raise DreError(f"method is {method!r}: expected one of {', '.join(METHODS)}")
    unknown = sorted(set(chosen) - set(pool["pair_id"]))
    if unknown:
        raise DreError(f"example {unknown[0]!r} is not in the pool: choose pair_ids of the pool")


def _orders(pairs, pool, method, seed, chosen):
    """For each pair, the rows of the pool in the order in which they are to be shown."""
    if method.startswith("bm25"):
        similarity = bm25(_texts(pairs, method), _texts(pool, method))
        return np.argsort(-similarity, axis=1, kind="stable")
    if method == "random":
        order = np.random.default_rng(seed).permutation(len(pool))
    else:
        order = pd.Index(pool["pair_id"]).get_indexer(list(chosen))
    return np.broadcast_to(order, (len(pairs), len(order)))


def _texts(table, method):
    """The text of each row that is compared: its context, its response, or both."""
    contexts = [" ".join(turns) for turns in table["context"]]
    if method == "bm25_context":
        return contexts
    if "response" not in table:
        raise DreError(
            f"method {method} needs a column response: for whole dialogues, which have none, "
            "choose bm25_context"
        )
    if method == "bm25_response":
        return list(table["response"])
    return [f"{context} {response}" for context, response in zip(contexts, table["response"])]
