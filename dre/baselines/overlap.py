"""Metrics that count shared words: BLEU-1..4, ROUGE-1/2/L, METEOR; and the number of words alone.

All are in [0, 1] (sacreBLEU's 0-100 is divided by 100), case-insensitive, one reference.
"""

from functools import cache

from dre.baselines.texts import score_pairs
from dre.errors import DreError

ROUGE = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
METEOR = "METEOR (exact+stem)"


def bleu(table):
    """Sentence-level BLEU-1, -2, -3, -4 (Papineni et al. 2002) through sacreBLEU.

    Tokeniser 13a, lower case, exponential smoothing, effective order (a reply of two words has no trigrams,
    so its BLEU-4 is its BLEU-2; without this it would be 0 whatever it says).

    Parameters
    ----------
    table : DataFrame with pair_id, response, reference (str or None)

    Returns
    -------
    DataFrame : pair_id, BLEU-1 .. BLEU-4 in [0, 1], reason
    """
    module = _library("sacrebleu")
    options = {"lowercase": True, "effective_order": True, "smooth_method": "exp"}
    metrics = [module.BLEU(max_ngram_order=n, **options) for n in (1, 2, 3, 4)]

    def score(responses, references):
        pairs = list(zip(responses, references))
        return [[m.sentence_score(r, [ref]).score / 100 for m in metrics] for r, ref in pairs]

    return score_pairs(table, [f"BLEU-{n}" for n in (1, 2, 3, 4)], score)


def rouge(table):
    """ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004): F-measure of rouge-score, without stemming.

    Parameters and result as in :func:`bleu`, columns ROUGE-1, ROUGE-2, ROUGE-L.
    """
    scorer = _library("rouge_score.rouge_scorer").RougeScorer(list(ROUGE.values()), use_stemmer=False)

    def score(responses, references):
        found = [scorer.score(ref, r) for r, ref in zip(responses, references)]
        return [[result[key].fmeasure for key in ROUGE.values()] for result in found]

    return score_pairs(table, list(ROUGE), score)


def meteor(table):
    """METEOR (Banerjee and Lavie 2005) with its exact and stem (Porter) stages, not the synonym stage.

    NLTK's implementation with its parameters (alpha 0.9, beta 3, gamma 0.5), given a WordNet without
    synonyms: WordNet is no part of NLTK's package. Words as in :func:`bleu`. Scores are at or below those
    of full METEOR.

    Parameters and result as in :func:`bleu`, column "METEOR (exact+stem)".
    """
    single = _library("nltk.translate.meteor_score").single_meteor_score
    stemmer = _CachedStemmer(_library("nltk.stem.porter").PorterStemmer())
    options = {"stemmer": stemmer, "wordnet": _NoSynonyms()}

    def score(responses, references):
        return [single(words(ref), words(r), **options) for r, ref in zip(responses, references)]

    return score_pairs(table, [METEOR], score)


def length(table):
    """Number of words of the response: the baseline a metric must beat to have read anything.

    Parameters
    ----------
    table : DataFrame with pair_id and response

    Returns
    -------
    DataFrame : pair_id, "Response length", reason
    """

    def score(responses, references):
        return [[len(words(r))] for r in responses]

    return score_pairs(table, ["Response length"], score, reference=False)


def words(text):
    """Lower-cased words and punctuation marks, by sacreBLEU's 13a tokeniser."""
    return _tokenizer()(text.lower()).split()


class _NoSynonyms:
    """Stands where NLTK asks WordNet for synonyms, and knows none."""

    def synsets(self, word):
        return ()


class _CachedStemmer:
    def __init__(self, stemmer):
        self.stem = cache(stemmer.stem)


@cache
def _tokenizer():
    return _library("sacrebleu.tokenizers.tokenizer_13a").Tokenizer13a()


def _library(name):
    from importlib import import_module

    try:
        module = import_module(name)
    except ImportError as error:
        missing = error.name or name
        raise DreError(
            f"package {missing!r} is not installed; install it with: pip install 'dre[baselines]'"
        ) from error
    return module
