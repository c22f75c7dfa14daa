"""Metrics over vectors: Embedding Average / Extrema / Greedy and BERTScore.

The three embedding metrics were made for word vectors (word2vec, GloVe). Here the vectors are the input
embeddings of an encoder, one a word piece, so that nothing need be downloaded; the encoder's name belongs
in the row.
"""

import numpy as np

from dre.baselines.texts import batches, score_pairs
from dre.errors import DreError

EMBEDDING = ["Embedding Extrema", "Embedding Greedy", "Embedding Average"]
BATCH = 64
MAX_TOKENS = 512


def embedding(table, encoder="minilm"):
    """Embedding Extrema (Forgues et al. 2014), Greedy (Rus and Lintean 2012), Average (Wieting et al. 2016).

    Average: cosine of the mean vectors. Extrema: cosine of the vectors that hold, in each dimension, the
    value farthest from zero. Greedy: each piece's best cosine with a piece of the other text, averaged,
    both directions.

    Parameters
    ----------
    table : DataFrame with pair_id, response, reference (str or None)
    encoder : str, as in :func:`dre.slm.encoder.load_encoder`; its input embeddings are the word vectors

    Returns
    -------
    DataFrame : pair_id, the three columns in [-1, 1], reason
    """
    tokenizer, model = _transformer(encoder)
    vectors = model.get_input_embeddings().weight.detach().cpu().double().numpy()

    def score(responses, references):
        texts = list(dict.fromkeys(responses + references))
        ids = tokenizer(texts, add_special_tokens=False, truncation=True, max_length=MAX_TOKENS)["input_ids"]
        tokens = {text: vectors[np.array(i, dtype=int)] for text, i in zip(texts, ids)}
        return [_three(tokens[r], tokens[ref]) for r, ref in zip(responses, references)]

    return score_pairs(table, EMBEDDING, score)


def bertscore(table, encoder="minilm", layer=-1):
    """BERTScore F1 (Zhang et al. 2020) over an encoder's hidden states, without idf or rescaling.

    Precision is the mean over the response's tokens of the best cosine with a token of the reference,
    recall the reverse, F1 their harmonic mean. As in the authors' package, [CLS] and [SEP] can be matched
    but do not count.

    Parameters
    ----------
    table : DataFrame with pair_id, response, reference (str or None)
    encoder : str, as in :func:`dre.slm.encoder.load_encoder`
        The authors use roberta-large, layer 17; scores of different encoders are not comparable.
    layer : int, which hidden state, -1 for the last

    Returns
    -------
    DataFrame : pair_id, BERTScore, reason
    """
    tokenizer, model = _transformer(encoder)

    def score(responses, references):
        texts = list(dict.fromkeys(responses + references))
        states = _hidden_states(texts, tokenizer, model, layer)
        return [[match(states[r], states[ref])] for r, ref in zip(responses, references)]

    return score_pairs(table, ["BERTScore"], score)


def match(response, reference):
    """Greedy-matching F1 of two texts.

    Parameters
    ----------
    response, reference : pair of ndarray: vectors (tokens, dim) and which of them count (tokens,)

    Returns
    -------
    float : F1 in [-1, 1]; NaN when no token counts
    """
    (x, x_counts), (y, y_counts) = response, reference
    if not x_counts.any() or not y_counts.any():
        return np.nan
    cosine = _unit(x) @ _unit(y).T
    precision, recall = cosine.max(axis=1)[x_counts].mean(), cosine.max(axis=0)[y_counts].mean()
    return 2 * precision * recall / (precision + recall)


def _three(x, y):
    """Extrema, greedy and average of two texts' vectors (tokens, dim); NaN when one has no tokens."""
    if len(x) == 0 or len(y) == 0:
        return [np.nan] * 3
    cosine = _unit(x) @ _unit(y).T
    greedy = (cosine.max(axis=1).mean() + cosine.max(axis=0).mean()) / 2
    return [_cosine(_extreme(x), _extreme(y)), greedy, _cosine(x.mean(axis=0), y.mean(axis=0))]


def _extreme(x):
    return x[np.abs(x).argmax(axis=0), np.arange(x.shape[1])]


def _cosine(x, y):
    return float(_unit(x) @ _unit(y))


def _unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def _hidden_states(texts, tokenizer, model, layer):
    """text -> (vectors (tokens, dim), which tokens are no special tokens (tokens,)), in batches by length."""
    import torch

    states = {}
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    limit = min(MAX_TOKENS, model.config.max_position_embeddings)
    for batch in batches(texts, BATCH):
        options = {"padding": True, "truncation": True, "max_length": limit, "return_tensors": "pt"}
        inputs = tokenizer([texts[i] for i in batch], **options).to(model.device)
        with torch.inference_mode():
            hidden = model(**inputs, output_hidden_states=True).hidden_states
        if not -len(hidden) <= layer < len(hidden):
            raise DreError(f"layer is {layer}; this encoder has hidden states 0 to {len(hidden) - 1}")
        for row, i in enumerate(batch):
            kept = inputs["attention_mask"][row].bool()
            ids = inputs["input_ids"][row][kept].tolist()
            counts = np.array([token not in special for token in ids])
            states[texts[i]] = hidden[layer][row][kept].float().cpu().numpy(), counts
    return states


def _transformer(encoder):
    """Tokenizer and transformer of an encoder, without dropout."""
    from dre.slm.encoder import load_encoder

    sentence_model = load_encoder(encoder)
    return sentence_model.tokenizer, sentence_model[0].auto_model.eval()
