"""The reference-based metrics of Table 4, and the length of a response.

Scores are 0 to 1, those of the embedding metrics -1 to 1. The embedding metrics were made for word
vectors (word2vec, GloVe). Here the vectors are the input embeddings of an encoder, one for each
word piece, so that nothing need be downloaded. `dre.paper.printed_metrics` has them by the models
that the papers' references name.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import compress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

#: Version of these metrics. Raise it by hand where the same texts would get other scores
#: (tests/test_metrics.py notices): scores that were recorded before are then refused.
VERSION = 1
ROUGE = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
COLUMNS = [f"BLEU-{order}" for order in (1, 2, 3, 4)] + [*ROUGE, "METEOR"]
COLUMNS += ["Embedding Extrema", "Embedding Greedy", "Embedding Average", "BERTScore"]


def length(responses: Iterable[str]) -> np.ndarray:
    """Return the number of words of each response, (n,): the parts between white space."""
    return np.array([len(response.split()) for response in responses], float)


def _bleu_4(pairs):
    """Return BLEU-4 of each response with its reference, NaN where there is none."""
    with_reference = pairs.loc[pairs["reference"].notna(), ["response", "reference"]]
    bleu_1_to_4 = bleu(with_reference.to_numpy()).reshape(-1, 4)
    return pd.Series(bleu_1_to_4[:, 3], with_reference.index).reindex(pairs.index)


class Metric(NamedTuple):
    """A metric that needs no model.

    Parameters
    ----------
    shown_as : str
        What tables call it.
    score : callable
        Takes a table with ``context`` (turns), ``response`` and ``reference`` (None where there is
        none), and returns a number for each row, NaN where it has none. More is better.
    """

    shown_as: str
    score: Callable[[pd.DataFrame], Any]


#: The metrics by name, besides small models.
BY_NAME = {
    "length": Metric("length in words", lambda pairs: length(pairs["response"])),
    "bleu": Metric("BLEU-4", _bleu_4),
}


def reference_based(
    items: pd.DataFrame, encoder: "SentenceTransformer", itself: bool = False
) -> pd.DataFrame:
    """Score each response against its reference.

    Parameters
    ----------
    items : table with ``pair_id``, ``response`` and ``reference`` (str, or None).
    encoder : of `dre.slm.encoder.load_encoder`. It gives the word vectors, and the hidden states of
        BERTScore, whose authors use roberta-large: scores by different encoders are not comparable.
    itself : also score a response that is its own reference.

    Returns
    -------
    DataFrame with ``pair_id`` and one column for each of `COLUMNS`; NaN where nothing can be
    compared.
    """
    pairs, is_scored = scorable(items, itself)
    table = pd.DataFrame(np.nan, index=range(len(items)), columns=COLUMNS)
    if pairs:
        vector_based, bertscores = _by_encoder(pairs, encoder)
        scores = [bleu(pairs), rouge(pairs), meteor(pairs), vector_based, bertscores]
        table.loc[is_scored] = np.column_stack(scores)
    table.insert(0, "pair_id", items["pair_id"].to_numpy())
    return table


def scorable(items: pd.DataFrame, itself: bool) -> tuple[list[tuple[str, str]], list[bool]]:
    """Return the stripped (response, reference) pairs that can be compared, and of which rows.

    The parameters are those of `reference_based`.
    """
    pairs = [
        (_stripped(response), _stripped(reference))
        for response, reference in zip(items["response"], items["reference"])
    ]
    is_scored = [
        bool(response and reference) and (itself or response != reference)
        for response, reference in pairs
    ]
    return list(compress(pairs, is_scored)), is_scored


def _stripped(text):
    return text.strip() if isinstance(text, str) else ""


def bleu(pairs: Collection[Sequence[str]]) -> np.ndarray:
    """Return sentence-level BLEU-1 to -4 (Papineni et al. 2002) of (response, reference) pairs.

    By sacreBLEU, with tokeniser 13a, lower case, exponential smoothing, and effective order. By the
    last a reply of two words, which has no trigrams, has its BLEU-2 as BLEU-4; without it that
    would be 0 whatever the reply says. Returns an (n, 4) array.
    """
    from sacrebleu import BLEU

    metrics = [
        BLEU(max_ngram_order=order, lowercase=True, effective_order=True) for order in (1, 2, 3, 4)
    ]
    scores = [
        [metric.sentence_score(response, [reference]).score for metric in metrics]
        for response, reference in pairs
    ]
    return np.array(scores) / 100


def rouge(pairs: Collection[Sequence[str]]) -> np.ndarray:
    """Return ROUGE-1, -2 and -L (Lin 2004) of (response, reference) pairs.

    They are F-measures, without stemming. Returns an (n, 3) array.
    """
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(ROUGE.values()))
    scores = [scorer.score(reference, response) for response, reference in pairs]
    return np.array([[by_name[name].fmeasure for name in ROUGE.values()] for by_name in scores])


def meteor(pairs: Collection[Sequence[str]], wordnet: Any = None) -> np.ndarray:
    """Return METEOR (Banerjee and Lavie 2005), exact and stem (Porter) stages, of pairs, (n,).

    By NLTK with its parameters. The third stage, synonyms, needs WordNet, which is not in NLTK's
    package: see `dre.paper.printed_metrics.wordnet`. Without it METEOR is at or below the full one.
    """
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.meteor_score import single_meteor_score

    tokenize = tokenizer()
    stemmer = PorterStemmer()
    stemmer.stem = cache(stemmer.stem)
    without_synonyms: Any = SimpleNamespace(synsets=lambda word: ())
    words = {text: tokenize(text) for pair in pairs for text in pair}
    scores = [
        single_meteor_score(
            words[reference], words[response], stemmer=stemmer, wordnet=wordnet or without_synonyms
        )
        for response, reference in pairs
    ]
    return np.array(scores)


def tokenizer() -> Callable[[str], list[str]]:
    """Return a function that cuts a text into words in lower case, by sacreBLEU's tokeniser 13a."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenize = Tokenizer13a()
    return lambda text: tokenize(text.lower()).split()


def embedding(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return Embedding Extrema, Greedy and Average of the word vectors of two texts.

    - Extrema (Forgues et al. 2014): cosine of the vectors that have, in each dimension, the value
      farthest from zero.
    - Greedy (Rus and Lintean 2012): the best cosine of each word with a word of the other text,
      averaged over words and over both directions.
    - Average (Wieting et al. 2016): cosine of the mean vectors.

    Takes two arrays (tokens, d). All three are NaN where a text has no word.
    """
    if not len(x) or not len(y):
        return [np.nan, np.nan, np.nan]
    extreme_x = _unit(_extreme(x))
    extreme_y = _unit(_extreme(y))
    extrema = extreme_x @ extreme_y

    cosines = _unit(x) @ _unit(y).T
    best_of_x = cosines.max(axis=1)
    best_of_y = cosines.max(axis=0)
    greedy = (best_of_x.mean() + best_of_y.mean()) / 2

    mean_x = _unit(x.mean(axis=0))
    mean_y = _unit(y.mean(axis=0))
    average = mean_x @ mean_y
    return [extrema, greedy, average]


def _extreme(vectors):
    """Return in each dimension the value farthest from zero: (tokens, d) -> (d,)."""
    token = np.abs(vectors).argmax(axis=0)
    return vectors[token, np.arange(vectors.shape[1])]


def bertscore(x: tuple[np.ndarray, np.ndarray], y: tuple[np.ndarray, np.ndarray]) -> float:
    """Return BERTScore F1 (Zhang et al. 2020) of two texts, without idf and rescaling.

    Each text is a pair of arrays: hidden states (tokens, d), and which tokens count. [CLS] and
    [SEP] can be matched, but do not count.
    """
    x_states, x_counts = x
    y_states, y_counts = y
    cosines = _unit(x_states) @ _unit(y_states).T
    precision = cosines.max(axis=1)[x_counts].mean()
    recall = cosines.max(axis=0)[y_counts].mean()
    return 2 * precision * recall / (precision + recall)


def _by_encoder(pairs, encoder):
    """Return the embedding metrics (n, 3) and BERTScore (n,) of pairs."""
    texts = sorted({text for pair in pairs for text in pair})
    inputs = encoder.tokenizer(
        texts,
        truncation=True,
        max_length=encoder.max_seq_length,
        return_special_tokens_mask=True,
    )
    all_vectors = encoder[0].auto_model.get_input_embeddings().weight
    all_vectors = all_vectors.detach().cpu().double().numpy()
    all_states = encoder.encode(texts, output_value="token_embeddings", convert_to_numpy=False)

    word_vectors = {}
    states = {}
    for i, text in enumerate(texts):
        counts = np.array(inputs["special_tokens_mask"][i]) == 0
        ids = np.array(inputs["input_ids"][i])
        word_vectors[text] = all_vectors[ids[counts]]
        states[text] = (all_states[i].float().cpu().numpy(), counts)

    vector_based = [embedding(*(word_vectors[text] for text in pair)) for pair in pairs]
    bertscores = [bertscore(*(states[text] for text in pair)) for pair in pairs]
    return np.array(vector_based), np.array(bertscores)


def _unit(x):
    """Return vectors of length 1 along the last axis."""
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
