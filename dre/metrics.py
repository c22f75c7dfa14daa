"""The reference-based metrics of Table 4 (0-1, the embedding metrics -1-1), and the length of a response.

The embedding metrics were made for word vectors (word2vec, GloVe); here the vectors are the input embeddings of an
encoder, one per word piece, so that nothing need be downloaded.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

#: Version of these metrics. Raise it by hand where the same texts would get other scores (tests/test_metrics.py
#: notices): scores that were recorded before are then refused.
VERSION = 1
ROUGE = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
COLUMNS = ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", *ROUGE, "METEOR"]
COLUMNS += ["Embedding Extrema", "Embedding Greedy", "Embedding Average", "BERTScore"]


def length(responses: Iterable[str]) -> np.ndarray:
    """Return the number of words of each response, (n,): parts between white space, the only definition used here."""
    return np.array([len(response.split()) for response in responses], float)


def reference_based(
    items: pd.DataFrame, encoder: "SentenceTransformer", itself: bool = False
) -> pd.DataFrame:
    """Score each response against its reference: ``pair_id`` and one column for each of `COLUMNS`.

    ``items`` has ``pair_id``, ``response`` and ``reference`` (str, or None); where nothing can be compared scores are
    NaN, and where a response is its own reference, too, unless ``itself``. ``encoder``, of
    `dre.slm.encoder.load_encoder`, gives the word vectors, and the states of BERTScore, whose authors use
    roberta-large: encoders are not comparable.
    """
    texts = [
        [one.strip() if isinstance(one, str) else "" for one in items[name]]
        for name in ("response", "reference")
    ]
    scored = [bool(a and b and (itself or a != b)) for a, b in zip(*texts)]
    pairs = [pair for pair, keep in zip(zip(*texts), scored) if keep]
    table = pd.DataFrame(np.nan, index=range(len(items)), columns=COLUMNS)
    if pairs:
        table.loc[scored] = np.column_stack(
            [bleu(pairs), rouge(pairs), meteor(pairs), *_by_encoder(pairs, encoder)]
        )
    table.insert(0, "pair_id", items["pair_id"].to_numpy())
    return table


def bleu(pairs: Collection[Sequence[str]]) -> np.ndarray:
    """Sentence-level BLEU-1 to -4 (Papineni et al. 2002) of (response, reference) pairs, (n, 4).

    sacreBLEU, tokeniser 13a, lower case, exponential smoothing, effective order (a reply of two words has no trigrams,
    so its BLEU-4 is its BLEU-2; without this it would be 0 whatever it says).
    """
    from sacrebleu import BLEU

    options = {"lowercase": True, "effective_order": True, "smooth_method": "exp"}
    metrics = [BLEU(max_ngram_order=n, **options) for n in (1, 2, 3, 4)]
    return np.array([[m.sentence_score(a, [b]).score / 100 for m in metrics] for a, b in pairs])


def rouge(pairs: Collection[Sequence[str]]) -> np.ndarray:
    """ROUGE-1, -2 and -L (Lin 2004), F-measure without stemming, of (response, reference) pairs, (n, 3)."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(ROUGE.values()), use_stemmer=False)
    return np.array([[one.fmeasure for one in scorer.score(b, a).values()] for a, b in pairs])


def meteor(pairs: Collection[Sequence[str]]) -> np.ndarray:
    """METEOR (Banerjee and Lavie 2005), exact and stem (Porter) stages, of (response, reference) pairs, (n,).

    NLTK's with its parameters and a WordNet without synonyms, which is not in NLTK's package: at or below full METEOR.
    """
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.meteor_score import single_meteor_score
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words, stemmer = Tokenizer13a(), PorterStemmer()
    stemmer.stem = cache(stemmer.stem)
    texts = {text: words(text.lower()).split() for pair in pairs for text in pair}
    options = {"stemmer": stemmer, "wordnet": SimpleNamespace(synsets=lambda word: ())}
    return np.array([single_meteor_score(texts[b], texts[a], **options) for a, b in pairs])


def embedding(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Embedding Extrema, Greedy and Average of two texts' word vectors, (tokens, d) each; NaN where one has no word.

    Extrema (Forgues et al. 2014): cosine of the vectors that hold, in each dimension, the value farthest from zero.
    Greedy (Rus and Lintean 2012): each word's best cosine with a word of the other text, averaged, both directions.
    Average (Wieting et al. 2016): cosine of the mean vectors.
    """
    if not len(x) or not len(y):
        return [np.nan] * 3
    cosine = _unit(x) @ _unit(y).T
    extreme = [v[np.abs(v).argmax(axis=0), np.arange(v.shape[1])] for v in (x, y)]
    extrema, average = (
        float(_unit(a) @ _unit(b)) for a, b in (extreme, (x.mean(axis=0), y.mean(axis=0)))
    )
    return [extrema, (cosine.max(axis=1).mean() + cosine.max(axis=0).mean()) / 2, average]


def bertscore(x: tuple[np.ndarray, np.ndarray], y: tuple[np.ndarray, np.ndarray]) -> float:
    """BERTScore F1 (Zhang et al. 2020), no idf, no rescaling, of two texts.

    Each is a pair: hidden states (tokens, d), and which tokens count: [CLS] and [SEP] can be matched but do not.
    """
    (x, x_counts), (y, y_counts) = x, y
    cosine = _unit(x) @ _unit(y).T
    precision, recall = cosine.max(axis=1)[x_counts].mean(), cosine.max(axis=0)[y_counts].mean()
    return 2 * precision * recall / (precision + recall)


def _by_encoder(pairs, encoder):
    """The embedding metrics (n, 3) and BERTScore (n,)."""
    texts = sorted({text for pair in pairs for text in pair})
    options = {
        "truncation": True,
        "max_length": encoder.max_seq_length,
        "return_special_tokens_mask": True,
    }
    inputs = encoder.tokenizer(texts, **options)
    counts = [np.array(special) == 0 for special in inputs["special_tokens_mask"]]
    vectors = encoder[0].auto_model.get_input_embeddings().weight.detach().cpu().double().numpy()
    words = {
        text: vectors[np.array(ids)[c]] for text, ids, c in zip(texts, inputs["input_ids"], counts)
    }
    hidden = encoder.encode(texts, output_value="token_embeddings", convert_to_numpy=False)
    states = {text: (h.float().cpu().numpy(), c) for text, h, c in zip(texts, hidden, counts)}
    vector_based = np.array([embedding(words[a], words[b]) for a, b in pairs])
    return vector_based, np.array([bertscore(states[a], states[b]) for a, b in pairs])


def _unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
