"""Lexical retrieval: content words, BM25 and TF-IDF as one sparse matrix product.

BM25 is written out here because a query has responses of its own that must not be found (those of its own
dialogue), which the score matrix of a block of queries gives for nothing, and because scikit-learn, which the
project has anyway, does the counting. The formula is that of Robertson and Zaragoza (2009, Eq. 3.15) with the
non-negative idf of Lucene.
"""

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer

from dre.errors import DreError

K1, B = 1.2, 0.75
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
STOP = sorted((ENGLISH_STOP_WORDS - {*_MEANINGFUL.split()}) | {*_SPOKEN.split()})
_WORD = r"(?u)\b[^\W_]{2,}\b"

#: text -> its content words, lower-cased, with repeats
content_words = CountVectorizer(token_pattern=_WORD, stop_words=STOP).build_analyzer()


def index(texts, method="bm25"):
    """Return what scores queries against texts.

    Parameters
    ----------
    texts : sequence of str
    method : {"bm25", "tfidf"}

    Returns
    -------
    callable
        Takes a sequence of n queries (str) and returns a CSR matrix (n, texts) of scores; 0 where query and
        text share no content word. A word that a query repeats counts once.
    """
    if method == "bm25":
        return _bm25(texts)
    if method == "tfidf":
        return _tfidf(texts)
    raise DreError(f"unknown retrieval method {method!r}: use bm25 or tfidf")


def _bm25(texts):
    counter, counts = _counted(CountVectorizer(token_pattern=_WORD, stop_words=STOP, dtype=np.float64), texts)
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((len(texts) - df + 0.5) / (df + 0.5))
    length = np.asarray(counts.sum(axis=1)).ravel()
    tf, document = counts.data, np.repeat(np.arange(len(texts)), np.diff(counts.indptr))
    norm = K1 * (1 - B + B * length[document] / length.mean())
    counts.data = idf[counts.indices] * tf * (K1 + 1) / (tf + norm)
    return _scorer(counter, counts, binary=True)


def _tfidf(texts):
    vectorizer = TfidfVectorizer(token_pattern=_WORD, stop_words=STOP, sublinear_tf=True)
    return _scorer(*_counted(vectorizer, texts), binary=False)


def _counted(vectorizer, texts):
    try:
        return vectorizer, sparse.csr_matrix(vectorizer.fit_transform(texts))
    except ValueError:  # scikit-learn's "empty vocabulary"
        raise DreError(f"none of the {len(texts)} texts has a content word: nothing can be retrieved") from None


def _scorer(vectorizer, weights, binary):
    transposed = weights.T.tocsr()

    def score(queries):
        words = sparse.csr_matrix(vectorizer.transform(queries))
        if binary:
            words.data[:] = 1.0
        return words @ transposed

    return score
