"""The metrics of the papers' Table 4 with the models that their references name.

These are BARTScore, UniEval's dialogue metric, BERTScore by its authors' package, METEOR with
WordNet, and Extrema, Greedy and Average by GloVe. They need the extra ``metrics`` and downloads of
about 6 GB. This project could fetch none of these models. The code has been tested on models of the
same architecture with random weights, and on files of the same form.
"""

import ast
import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dre import metrics
from dre.datasets.registry import fetch
from dre.environment import how_to_install
from dre.errors import DreError, TryLater
from dre.paper.methods import Method
from dre.paper.table4 import RatedScores

#: What a profile names, and what it means in full size.
MODELS = {
    "bartscore": "facebook/bart-large-cnn",
    "unieval": "MingZhong/unieval-dialog",
    "bertscore": "roberta-large",
    "word_vectors": "glove-wiki-gigaword-100",
    "wordnet": "wordnet",
}
#: The rows of Table 4 that each of them makes.
ROWS = {
    "bartscore": ["BARTScore"],
    "unieval": ["UniEval"],
    "bertscore": ["BERTScore"],
    "word_vectors": ["Embedding Extrema", "Embedding Greedy", "Embedding Average"],
    "wordnet": ["METEOR"],
}
#: Of these, those that compare with no reference.
_WITHOUT_REFERENCE = ("UniEval",)
#: What the paper's Table 4 calls a row that has no other name there.
_BARTSCORE_IN_PRINT = "BARTSCORE"
#: UniEval's questions, in the order of its authors. Its overall score is their mean.
DIMENSIONS = ("naturalness", "coherence", "engagingness", "groundedness", "understandability")
#: BART's and UniEval's texts are cut to so many tokens.
_MAX_TOKENS = 1024
_BATCH = 16


class Made(NamedTuple):
    """The rows that were made, and why others were not.

    Attributes
    ----------
    tables : by set, a table with the index of the set and a column for each row that was made.
    origins : by row, the model and the package that made it.
    missing : by row, why it was not made.
    """

    tables: dict[str, pd.DataFrame]
    origins: dict[str, str]
    missing: dict[str, str]


def make(items_by_set: Mapping[str, pd.DataFrame], models: Mapping[str, str]) -> Made:
    """Score rated sets by the models that are named.

    Parameters
    ----------
    items_by_set : by set, a table with ``context`` (turns), ``response``, ``reference`` (or None)
        and perhaps ``knowledge``, the facts that a response may use.
    models : by key of `MODELS`, a name (of the Hub, of gensim's downloader) or a path.

    Returns
    -------
    Made
        A model that cannot be loaded is no error: its rows are among ``missing``.
    """
    makers = {
        "bartscore": _bart_rows,
        "unieval": _unieval_rows,
        "bertscore": _bert_rows,
        "word_vectors": _vector_rows,
        "wordnet": _meteor_rows,
    }
    tables = {name: pd.DataFrame(index=items.index) for name, items in items_by_set.items()}
    made = Made(tables, {}, {})
    for key, model_name in models.items():
        try:
            score, origin = makers[key](model_name)
        except (ImportError, OSError, ValueError, LookupError, DreError) as error:
            reason = f"{model_name} cannot be loaded: {' '.join(str(error).split())[:200]}"
            if isinstance(error, ImportError):
                reason = f"needs {error.name}: {how_to_install('metrics')}"
            made.missing.update(dict.fromkeys(ROWS[key], reason))
            continue
        for name, items in items_by_set.items():
            rows = pd.DataFrame(score(items), index=items.index, columns=ROWS[key])
            tables[name][ROWS[key]] = rows
        made.origins.update(dict.fromkeys(ROWS[key], origin))
    return made


def add(scores: RatedScores, made: Made) -> None:
    """Put the rows that were made into Table 4, in the place of those that the profile has.

    A response that is its own reference has no score by a metric that compares with references.

    Parameters
    ----------
    scores : of the sets that were scored.
    made : what `make` returned of them.
    """
    for name, table in made.tables.items():
        items = scores.items[name]
        responses = items["response"].str.strip()
        is_reference = responses == items["reference"].str.strip()
        for row, column in table.items():
            compares = row not in _WITHOUT_REFERENCE
            scores.add(name, Method(str(row)), column.mask(is_reference & compares))


def in_print(table: pd.DataFrame, made: Made) -> pd.DataFrame:
    """Return the paper's Table 4 with the rows that were made, and why others were not.

    Parameters
    ----------
    table : what `dre.paper.table4.in_print` returned.
    made : what `make` returned.
    """
    table = table.copy()
    is_bartscore = table["metric"] == _BARTSCORE_IN_PRINT
    if "BARTScore" in made.origins:
        table["key"] = table["key"].mask(is_bartscore, Method("BARTScore"))
        table.loc[is_bartscore, "not_run"] = np.nan
    for row, reason in made.missing.items():
        is_row = is_bartscore if row == "BARTScore" else table["key"] == Method(row)
        table.loc[is_row, "not_run"] = f"the model of its reference was not used: {reason}"
    return table


def origins(encoder: str, made: Made) -> pd.DataFrame:
    """Return what makes each metric that needs a model: ``metric, made_by`` and ``missing``.

    ``missing`` says why the model that the profile names did not make it. Where it is not named, or
    cannot be had, something else makes the row.

    Parameters
    ----------
    encoder : that of the profile.
    made : what `make` returned.
    """
    own = {
        "METEOR": "NLTK without synonyms",
        **dict.fromkeys(ROWS["word_vectors"], f"input embeddings of {encoder}"),
        "BERTScore": f"hidden states of {encoder}",
        "UniEval": "predictions that its authors released, of TopicalChat alone",
    }
    by_row = own | made.origins
    rows = []
    for row in itertools.chain(*ROWS.values()):
        rows.append((row, by_row.get(row, ""), made.missing.get(row, "")))
    return pd.DataFrame(rows, columns=["metric", "made_by", "missing"])


def with_origins(table: pd.DataFrame, encoder: str, made: Made) -> pd.DataFrame:
    """Return Table 4 with a column ``made_by``, where the profile names models of metrics.

    Parameters
    ----------
    table : all rows, with ``method``.
    encoder, made : as `origins` takes them.
    """
    if not made.origins and not made.missing:
        return table
    made_by = pd.Series(origins(encoder, made).set_index("metric")["made_by"])
    return table.assign(made_by=pd.Series(table["method"]).map(str).map(made_by))


# What each model makes of a set: a function of items, and where its numbers come from


def _bart_rows(name):
    return _of_pairs(bartscore, Seq2Seq.load(name)), f"{name}, mean of both directions"


def _unieval_rows(name):
    model = Seq2Seq.load(name)
    templates = questions()
    _get_nltk_data("tokenizers/punkt_tab", "punkt_tab")  # cuts responses into sentences

    def score(items):
        return unieval(items, model, templates)["overall"].to_numpy()[:, None]

    return score, f"{name}, mean of five questions"


def _bert_rows(name):
    scorer = bert_scorer(name)
    return _of_pairs(bertscore, scorer), f"{name} by bert-score {version('bert-score')}"


def _vector_rows(name):
    return _of_pairs(by_word_vectors, word_vectors(name)), f"{name} by gensim"


def _meteor_rows(name):
    return _of_pairs(metrics.meteor, wordnet()), "NLTK with WordNet"


def _of_pairs(function, model):
    """Return a function of items that scores those which have a response and a reference."""

    def score(items):
        pairs, is_scored = metrics.scorable(items, itself=True)
        scores = np.asarray(function(pairs, model)) if pairs else np.empty((0, 1))
        scores = scores.reshape(len(pairs), -1)
        values = np.full((len(items), scores.shape[1]), np.nan)
        values[np.array(is_scored, bool)] = scores
        return values

    return score


# BARTScore and UniEval


class Seq2Seq(NamedTuple):
    """A sequence-to-sequence model of the Hub with its tokeniser, on the device it runs on."""

    model: Any
    tokenizer: Any

    @classmethod
    def load(cls, name: str) -> "Seq2Seq":
        """Load a model by its name on the Hub or its folder; OSError if it is not to be had."""
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = AutoModelForSeq2SeqLM.from_pretrained(name)
        return cls(model.to(device).eval(), AutoTokenizer.from_pretrained(name))

    def encode(self, texts: Sequence[str]) -> Any:
        """Return the tokens of texts, padded and cut, on the model's device."""
        tokens = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.max_tokens,
            return_tensors="pt",
        )
        return tokens.to(self.model.device)

    @property
    def max_tokens(self) -> int:
        """The tokens that are read of a text."""
        return min(_MAX_TOKENS, self.tokenizer.model_max_length)


def bartscore(pairs: Sequence[Sequence[str]], model: Seq2Seq) -> np.ndarray:
    """Return BARTScore (Yuan et al. 2021) of (response, reference) pairs, (n,), at most 0.

    A direction is the mean log-likelihood of the tokens of one text, given the other. The score is
    the mean of both directions, which its authors call F. The papers do not say which they took.
    """
    responses, references = zip(*pairs)
    precision = log_likelihood(references, responses, model)
    recall = log_likelihood(responses, references, model)
    return (precision + recall) / 2


def log_likelihood(sources: Sequence[str], targets: Sequence[str], model: Seq2Seq) -> np.ndarray:
    """Return the mean log-likelihood of the tokens of each target given its source, (n,).

    The marks of beginning and end that a tokeniser adds count as tokens, as with BARTScore.
    """
    import torch

    values = []
    for start in range(0, len(sources), _BATCH):
        source = model.encode(sources[start : start + _BATCH])
        target = model.encode(targets[start : start + _BATCH])
        with torch.inference_mode():
            logits = model.model(**source, labels=target["input_ids"]).logits
        log_probabilities = logits.float().log_softmax(dim=-1)
        of_tokens = log_probabilities.gather(-1, target["input_ids"][..., None]).squeeze(-1)
        is_token = target["attention_mask"]
        mean = (of_tokens * is_token).sum(dim=1) / is_token.sum(dim=1)
        values.append(mean.cpu().numpy())
    return np.concatenate(values)


def unieval(
    items: pd.DataFrame, model: Seq2Seq, templates: Mapping[str, list[str]]
) -> pd.DataFrame:
    """Return UniEval's dialogue metric (Zhong et al. 2022) of responses.

    Each dimension is the probability of "Yes" against that of "No". Engagingness is summed over the
    sentences of the response, so that it can be above 1.

    Parameters
    ----------
    items : table with ``context`` (turns), ``response`` and perhaps ``knowledge``. Where there is
        no knowledge, the fact is empty.
    model : its T5.
    templates : what `questions` returns.

    Returns
    -------
    DataFrame with the index of items, a column for each of `DIMENSIONS`, and ``overall``, their
    mean.
    """
    from nltk import sent_tokenize

    knowledge = items["knowledge"] if "knowledge" in items else pd.Series("", index=items.index)
    histories = ["\n".join(turns) + "\n\n" for turns in items["context"]]
    facts = [f"{fact}\n" for fact in knowledge.fillna("")]
    responses = [response.strip() for response in items["response"]]
    scores = pd.DataFrame(index=items.index)
    for dimension in DIMENSIONS:
        rows = []
        texts = []
        for row, response in enumerate(responses):
            outputs = sent_tokenize(response) if dimension == "engagingness" else [response]
            for output in outputs:
                texts_by_name = {"output": output, "src": histories[row], "context": facts[row]}
                rows.append(row)
                texts.append(
                    "".join(texts_by_name.get(part, part) for part in templates[dimension])
                )
        answers = yes_probability(texts, model)
        scores[dimension] = np.bincount(rows, weights=answers, minlength=len(items))
    return scores.assign(overall=scores[list(DIMENSIONS)].mean(axis=1, skipna=False))


def yes_probability(texts: Sequence[str], model: Seq2Seq) -> np.ndarray:
    """Return p(Yes) / (p(Yes) + p(No)) as the first token of the answer to each text, (n,)."""
    import torch

    yes, no = (model.tokenizer(word)["input_ids"][0] for word in ("Yes", "No"))
    values = []
    for start in range(0, len(texts), _BATCH):
        inputs = model.encode(texts[start : start + _BATCH])
        first = torch.full((len(inputs["input_ids"]), 1), model.model.config.decoder_start_token_id)
        with torch.inference_mode():
            logits = model.model(**inputs, decoder_input_ids=first.to(model.model.device)).logits
        probabilities = logits[:, 0, [yes, no]].float().softmax(dim=-1)
        values.append(probabilities[:, 0].cpu().numpy())
    return np.concatenate(values) if values else np.empty(0)


@cache
def questions(path: Path | None = None) -> dict[str, list[str]]:
    """Return how UniEval asks of each dimension: texts, and what is put between them.

    The model was trained on these very words, so they are read from its authors' own file
    (``utils.py``, function ``add_question``, registered as ``unieval-questions``). The file is
    parsed and not run.

    Returns
    -------
    By dimension a list. ``output`` stands for the response, ``src`` for the history and
    ``context`` for the fact.

    Raises
    ------
    DreError
        If the file cannot be fetched, or has another form.
    """
    if path is None:
        path = fetch("UniEval/*/utils.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts_by_dimension = {}
    for of_dialogue in _branches(tree, "task == 'dialogue'"):
        for dimension in DIMENSIONS:
            for first, *_ in _branches(ast.Module(of_dialogue, []), f"dimension == {dimension!r}"):
                if isinstance(first, ast.Assign):
                    texts_by_dimension[dimension] = _parts(first.value)
    missing = [dimension for dimension in DIMENSIONS if not texts_by_dimension.get(dimension)]
    if missing:
        raise DreError(f"{path}: found no question for {', '.join(missing)}: fetch it again")
    return texts_by_dimension


def _branches(tree, condition):
    """Return the statements of each ``if`` in a tree that has this condition."""
    conditions = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    return [node.body for node in conditions if ast.unparse(node.test) == condition]


def _parts(expression):
    """Return the parts of a sum of texts and of items of lists, each item by its list's name."""
    match expression:
        case ast.BinOp(op=ast.Add()):
            return _parts(expression.left) + _parts(expression.right)
        case ast.Constant(value=str(text)):
            return [text]
        case ast.Subscript(value=ast.Name(id=name)):
            return [name]
    return []


# BERTScore, METEOR, and metrics of word vectors


def bert_scorer(name: str) -> Any:
    """Return the scorer of the package ``bert-score`` for a model, with the layer of its authors.

    Two things are set that the package leaves open. The layer of a model that it does not know is
    the last. Texts are cut to what the model can read, where its tokeniser does not say that.
    """
    from bert_score import BERTScorer
    from bert_score.utils import model2layers
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(name)
    layer = model2layers.get(Path(name).name, config.num_hidden_layers)
    scorer = BERTScorer(model_type=name, num_layers=layer)
    tokenizer = scorer._tokenizer
    # Positions of RoBERTa begin after its padding index.
    readable = config.max_position_embeddings - 2
    tokenizer.model_max_length = min(tokenizer.model_max_length, readable)
    return scorer


def bertscore(pairs: Sequence[Sequence[str]], scorer: Any) -> np.ndarray:
    """Return BERTScore F1 of (response, reference) pairs, without idf and rescaling, (n,)."""
    responses, references = map(list, zip(*pairs))
    _, _, f1 = scorer.score(responses, references)
    return f1.numpy()


def word_vectors(name: str) -> Any:
    """Return gensim's vectors of a name of its downloader, or of a file in word2vec's text form."""
    from gensim.models import KeyedVectors

    if Path(name).is_file():
        return KeyedVectors.load_word2vec_format(name)
    from gensim import downloader

    return downloader.load(name)


def by_word_vectors(
    pairs: Sequence[Sequence[str]], vectors: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return Embedding Extrema, Greedy and Average of pairs, (n, 3), by vectors of words.

    Words are in lower case. Those without a vector are left out; NaN where none is left.
    """
    tokenize = metrics.tokenizer()

    @cache
    def vectors_of(text):
        found_vectors = [vectors[word] for word in tokenize(text) if word in vectors]
        return np.array(found_vectors, float) if found_vectors else np.empty((0, 1))

    return np.array([metrics.embedding(*map(vectors_of, pair)) for pair in pairs])


def wordnet() -> Any:
    """Return NLTK's WordNet, downloaded if NLTK does not find it (11 MB).

    Raises
    ------
    TryLater
        If it cannot be downloaded.
    """
    import nltk

    _get_nltk_data("corpora/wordnet", "wordnet")
    return nltk.corpus.wordnet


def _get_nltk_data(path, name):
    """Download a resource of NLTK if NLTK does not find it."""
    import nltk

    try:
        nltk.data.find(path)
    except LookupError:
        if not nltk.download(name, quiet=True):
            raise TryLater(
                f"NLTK has no {path}: connect to the network, or put it into a folder that the "
                "variable NLTK_DATA names"
            ) from None
