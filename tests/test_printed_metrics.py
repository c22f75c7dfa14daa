"""Metrics with the papers' models: tiny ones of the same architecture, against plain sums.

What needs the extra ``metrics`` is skipped where it is not installed.
"""

import math

import numpy as np
import pandas as pd
import pytest
import tiny_metrics
import torch
from tiny_metrics import QUESTIONS, WORDS, save_tokenizer, wordnet_folder
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, T5Config

from dre import metrics
from dre.errors import DreError, TryLater
from dre.paper import check, printed_metrics, table4
from dre.paper.methods import Method
from dre.paper.printed_metrics import Seq2Seq
from dre.paper.profile import PROJECT, profile

ITEMS = pd.DataFrame(
    {
        "context": [("the train was late", "again ?"), ("i took a boat",), ("is this nice ?",)],
        "response": ["i took a boat", "the train was late again", "Yes"],
        "reference": ["the boat was late", "i took the train", None],
        "knowledge": ["a boat is late", "", None],
    },
    index=[3, 5, 8],
)
PAIRS = list(zip(ITEMS["response"][:2], ITEMS["reference"][:2]))


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    return tiny_metrics.bart(tmp_path_factory.mktemp("bart"))


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    return tiny_metrics.t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture
def templates(tmp_path):
    path = tmp_path / "utils.py"
    path.write_text(QUESTIONS)
    return printed_metrics.questions(path)


@torch.inference_mode()
def one_by_one(model, source, target):
    """Return the mean log-likelihood of a target, its tokens one after the other, no batch."""
    source_ids = model.tokenizer(source, return_tensors="pt")["input_ids"]
    target_ids = model.tokenizer(target)["input_ids"]
    said = [model.model.config.decoder_start_token_id]
    log_likelihoods = []
    for token in target_ids:
        logits = model.model(source_ids, decoder_input_ids=torch.tensor([said])).logits[0, -1]
        exponentials = [math.exp(value) for value in logits.tolist()]
        log_likelihoods.append(math.log(exponentials[token] / sum(exponentials)))
        said.append(token)
    return sum(log_likelihoods) / len(log_likelihoods)


def test_bartscore_is_the_mean_log_likelihood_of_tokens_in_both_directions(bart):
    model = Seq2Seq.load(bart)
    pairs = [*PAIRS, ("Yes", "the train was late again : i took a boat")]

    scores = printed_metrics.bartscore(pairs, model)

    expected = [(one_by_one(model, x, y) + one_by_one(model, y, x)) / 2 for x, y in pairs]
    assert scores == pytest.approx(expected, abs=1e-5)
    assert np.ptp(scores) > 0.1  # the pairs differ, so the sums are compared in earnest


def test_a_batch_changes_no_score(bart, monkeypatch):
    model = Seq2Seq.load(bart)
    in_one_batch = printed_metrics.bartscore(PAIRS, model)
    monkeypatch.setattr(printed_metrics, "_BATCH", 1)
    assert printed_metrics.bartscore(PAIRS, model) == pytest.approx(in_one_batch, abs=1e-5)


def test_a_text_longer_than_the_model_reads_is_cut(bart):
    model = Seq2Seq.load(bart)
    long_text = "the train was late again " * 40
    scores = printed_metrics.bartscore([(long_text, "a boat"), ("a boat", long_text)], model)
    assert np.isfinite(scores).all()


def test_the_probability_of_yes_is_that_of_the_first_generated_token(t5):
    model = Seq2Seq.load(t5)
    texts = ["ask : is this nice ?", "the boat was late again", "No"]

    probabilities = printed_metrics.yes_probability(texts, model)

    expected = []
    for text in texts:
        tokens = model.tokenizer(text, return_tensors="pt")
        generated = model.model.generate(
            **tokens,
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        logits = generated.logits[0][0]
        yes, no = model.tokenizer.convert_tokens_to_ids(["Yes", "No"])
        expected.append(torch.sigmoid(logits[yes] - logits[no]).item())
    assert probabilities == pytest.approx(expected, abs=1e-5)
    assert np.ptp(probabilities) > 0.01


def test_unievals_questions_are_read_from_its_authors_file(templates, tmp_path):
    assert list(templates) == list(printed_metrics.DIMENSIONS)
    assert templates["coherence"] == [
        "ask : is this late ? reply : ",
        "output",
        " the train : ",
        "src",
    ]
    other = tmp_path / "other.py"
    other.write_text(QUESTIONS.replace("groundedness", "wit"))
    with pytest.raises(DreError, match="other.py: found no question for groundedness"):
        printed_metrics.questions(other)


def test_unieval_asks_all_five_and_sums_engagingness_over_sentences(t5, templates, monkeypatch):
    def sentences(text):
        return text.split(" took ")

    monkeypatch.setattr("nltk.sent_tokenize", sentences)
    model = Seq2Seq.load(t5)

    scores = printed_metrics.unieval(ITEMS, model, templates)

    history = "the train was late\nagain ?\n\n"
    fact = "a boat is late\n"
    asked = {
        "naturalness": ["ask : nice ? reply : i took a boat"],
        "coherence": [f"ask : is this late ? reply : i took a boat the train : {history}"],
        "engagingness": [
            f"ask : a boat ? reply : i : {history}{fact}",
            f"ask : a boat ? reply : a boat : {history}{fact}",
        ],
        "groundedness": [f"ask : is this facts ? reply : i took a boat facts : {fact}"],
        "understandability": ["ask : again ? reply : i took a boat"],
    }
    for dimension, texts in asked.items():
        expected = printed_metrics.yes_probability(texts, model).sum()
        assert scores.loc[3, dimension] == pytest.approx(expected, abs=1e-6), dimension
    dimensions = list(printed_metrics.DIMENSIONS)
    assert scores["overall"].tolist() == pytest.approx(scores[dimensions].mean(axis=1).tolist())
    assert scores.index.tolist() == [3, 5, 8] and scores.notna().all(axis=None)


def test_meteor_with_wordnet_matches_synonyms(tmp_path, monkeypatch):
    import nltk

    wordnet_folder(tmp_path)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    pairs = [("a ship", "a boat"), ("a train", "a boat")]

    with_synonyms = metrics.meteor(pairs, printed_metrics.wordnet())

    # Both words match in one chunk: the penalty is half of (1/2)^3.
    assert with_synonyms[0] == pytest.approx(1 - 0.5 * 0.5**3)
    without = metrics.meteor(pairs)
    assert with_synonyms[1] == without[1] and without[0] == without[1] < with_synonyms[0]


def test_what_cannot_be_loaded_is_a_row_that_says_why(tmp_path, bart, monkeypatch):
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nothing")])
    monkeypatch.setattr(nltk, "download", lambda *_arguments, **_options: False)
    with pytest.raises(TryLater, match="NLTK has no corpora/wordnet: connect to the network"):
        printed_metrics.wordnet()
    named = {
        "bartscore": bart,
        "unieval": str(tmp_path / "no-such-model"),
        "wordnet": "wordnet",
        "word_vectors": str(tmp_path),
    }

    made = printed_metrics.make({"made": ITEMS}, named)

    assert made.origins == {"BARTScore": f"{bart}, mean of both directions"}
    assert "no-such-model cannot be loaded" in made.missing["UniEval"]
    assert "NLTK has no" in made.missing["METEOR"]
    assert {*made.missing} >= {"Embedding Extrema", "Embedding Greedy", "Embedding Average"}
    assert list(made.tables["made"]) == ["BARTScore"]
    assert made.tables["made"]["BARTScore"].isna().tolist() == [False, False, True]


def rated_items():
    """Three responses as a rated set has them, of which the second is its own reference."""
    items = ITEMS.assign(reference=["the boat was late", "the train was late again ", "Yes , late"])
    columns = {"human": [1.0, 2.0, 3.0], "context_id": ["a", "b", "c"], "system": ""}
    return items.assign(**columns)


def test_a_response_that_is_its_reference_has_no_score_unless_the_metric_reads_none():
    items = rated_items()
    name = "topicalchat-usr"
    table = pd.DataFrame({"BARTScore": [-1.0, -2, -3], "UniEval": [1.0, 2, 3]}, items.index)
    made = printed_metrics.Made({name: table}, {"BARTScore": "b", "UniEval": "u"}, {})
    scores = table4.RatedScores({name: items}, resamples=2)
    scores.add(name, Method("UniEval"), pd.Series([9.0, 9, 9], items.index))

    printed_metrics.add(scores, made)

    assert scores.of(name, Method("BARTScore"))[0].isna().tolist() == [False, True, False]
    assert scores.of(name, Method("UniEval"))[0].tolist() == [1, 2, 3]


def test_rows_of_table_4_say_what_made_them_and_why_a_model_did_not(tmp_path, bart, monkeypatch):
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nothing")])
    monkeypatch.setattr(nltk, "download", lambda *_arguments, **_options: False)
    named = {"bartscore": bart, "unieval": str(tmp_path / "no-model"), "wordnet": "wordnet"}
    made = printed_metrics.make({"topicalchat-usr": rated_items()}, named)

    table = printed_metrics.in_print(table4.in_print(PROJECT), made).set_index("metric")

    assert table.loc["BARTSCORE", "key"] == Method("BARTScore")
    assert pd.isna(table.loc["BARTSCORE", "not_run"]) and table.loc["CMN", "not_run"]
    assert "no-model cannot be loaded" in table.loc["Unieval", "not_run"]
    assert "NLTK has no corpora/wordnet" in table.loc["METEOR", "not_run"]
    rows = pd.DataFrame({"method": [Method("BARTScore"), Method("METEOR"), Method("SLIDE", "x")]})
    made_by = printed_metrics.with_origins(rows, "minilm", made)["made_by"]
    assert made_by.tolist()[:2] == [f"{bart}, mean of both directions", "NLTK without synonyms"]
    assert pd.isna(made_by[2])
    origins = printed_metrics.origins("minilm", made).set_index("metric")
    assert origins.loc["BERTScore", "made_by"] == "hidden states of minilm"
    assert "cannot be loaded" in origins.loc["UniEval", "missing"]


def test_a_profile_that_names_no_model_keeps_its_rows_as_they_are():
    made = printed_metrics.make({"topicalchat-usr": rated_items()}, profile("public").metrics)
    table = table4.in_print(PROJECT)
    pd.testing.assert_frame_equal(printed_metrics.in_print(table, made), table)
    rows = pd.DataFrame({"method": [Method("METEOR")]})
    assert list(printed_metrics.with_origins(rows, "minilm", made)) == ["method"]


def test_full_names_a_model_for_every_row_and_an_unknown_one_is_refused():
    assert profile("full").metrics == printed_metrics.MODELS
    settings = profile("full").model_copy(update={"metrics": {"cmn": "cmn"}})
    with pytest.raises(DreError, match="there is no cmn, expected one of bartscore, unieval"):
        check.check(settings)


# What needs the extra


def test_bertscore_of_its_package_is_our_plain_one(tmp_path):
    pytest.importorskip("bert_score")
    vocabulary = save_tokenizer(tmp_path, "[CLS]", "[SEP]", "[PAD]")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    tokenizer.model_max_length = int(1e30)  # as where a tokenizer does not say what is readable
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        initializer_range=0.5,
    )
    model = BertModel(config).eval()
    model.save_pretrained(tmp_path)

    scorer = printed_metrics.bert_scorer(str(tmp_path))
    scores = printed_metrics.bertscore([*PAIRS, ("the train was late " * 30, "a boat")], scorer)

    expected = []
    for pair in PAIRS:
        states = []
        for text in pair:
            tokens = tokenizer(text, return_tensors="pt")
            with torch.inference_mode():
                hidden = model(**tokens).last_hidden_state[0].numpy()
            is_word = np.array([False, *[True] * (len(hidden) - 2), False])
            states.append((hidden, is_word))
        expected.append(metrics.bertscore(*states))
    assert scores[:2] == pytest.approx(expected, abs=1e-5)
    assert np.isfinite(scores).all()


def test_embedding_metrics_by_a_file_of_word_vectors(tmp_path):
    pytest.importorskip("gensim")
    path = tmp_path / "vectors.txt"
    tiny_metrics.word_vectors(path)

    made = printed_metrics.make(
        {
            "made": pd.DataFrame(
                {
                    "context": [("?",)] * 2,
                    "response": ["A Boat, late!", "no such words"],
                    "reference": ["the boat", "boat"],
                }
            )
        },
        {"word_vectors": str(path)},
    )

    row = made.tables["made"].loc[0]
    extrema = 1 / math.hypot(1, 0.8)  # the extremes of the response are (1, 0.8)
    greedy = ((1 + 0.6) / 2 + 1) / 2
    average = 0.8 / math.hypot(0.8, 0.4)
    assert row.tolist() == pytest.approx([extrema, greedy, average])
    assert made.tables["made"].loc[1].isna().all()
    assert made.origins["Embedding Greedy"] == f"{path} by gensim"


def test_the_tokenizer_of_a_t5_is_read_from_its_sentencepiece_model_alone(tmp_path):
    """UniEval's repository may have no other file of it."""
    sentencepiece = pytest.importorskip("sentencepiece")
    from transformers import AutoTokenizer

    text = tmp_path / "text.txt"
    lines = [" ".join(WORDS), "Yes No", "the train was late again", "i took a boat"] * 20
    text.write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=60,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        user_defined_symbols=["\u2581Yes", "\u2581No"],
    )
    T5Config(vocab_size=80).save_pretrained(tmp_path)

    tokenizer = AutoTokenizer.from_pretrained(tmp_path)

    yes, no = (tokenizer(word)["input_ids"][0] for word in ("Yes", "No"))
    assert tokenizer.convert_ids_to_tokens([yes, no]) == ["\u2581Yes", "\u2581No"]
    assert tokenizer("the train </s> late")["input_ids"].count(tokenizer.eos_token_id) == 2
