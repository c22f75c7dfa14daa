"""Metrics with the papers' models: tiny ones of the same architecture, against plain sums.

What needs the extra ``metrics`` is skipped where it is not installed.
"""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from dre import metrics
from dre.errors import DreError, TryLater
from dre.paper import printed_metrics
from dre.paper.printed_metrics import Seq2Seq

WORDS = [
    "the",
    "train",
    "was",
    "late",
    "again",
    "i",
    "took",
    "a",
    "boat",
    "Yes",
    "No",
    "ask",
    ":",
    "is",
    "this",
    "nice",
    "?",
    "reply",
    "facts",
]
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


def save_tokenizer(folder, beginning, end, pad):
    """Write a tokenizer of whole words that marks beginning and end, if it has marks for them."""
    special = [mark for mark in (pad, beginning, end, "<unk>") if mark]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys([*special, *WORDS]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [(mark, vocabulary[mark]) for mark in (beginning, end) if mark]
    template = " ".join([mark for mark in (beginning, "$A", end) if mark])
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token=pad, model_max_length=60
    ).save_pretrained(folder)
    return vocabulary


@pytest.fixture(scope="module")
def bart(tmp_path_factory):
    """The folder of a tiny BART with random weights."""
    folder = tmp_path_factory.mktemp("bart")
    vocabulary = save_tokenizer(folder, "<s>", "</s>", "<pad>")
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=len(vocabulary),
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        init_std=0.5,
        pad_token_id=vocabulary["<pad>"],
        bos_token_id=vocabulary["<s>"],
        eos_token_id=vocabulary["</s>"],
        decoder_start_token_id=vocabulary["</s>"],
    )
    BartForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    """The folder of a tiny T5 with random weights."""
    folder = tmp_path_factory.mktemp("t5")
    vocabulary = save_tokenizer(folder, None, "</s>", "<pad>")
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(vocabulary),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        initializer_factor=3.0,
        pad_token_id=vocabulary["<pad>"],
        eos_token_id=vocabulary["</s>"],
        decoder_start_token_id=vocabulary["<pad>"],
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


#: In the form of UniEval's own file, with other questions.
QUESTIONS = """
def add_question(dimension, output, src=None, ref=None, context=None, task=None):
    asked = []
    for i in range(len(output)):
        if task == 'tales':
            if dimension == 'coherence':
                asked_now = 'ask : a tale ? ' + output[i]
        elif task == 'dialogue':
            if dimension == 'naturalness':
                asked_now = 'ask : nice ? reply : ' + output[i]
            elif dimension == 'coherence':
                asked_now = 'ask : is this late ? reply : '\\
                            + output[i] + ' the train : ' + src[i]
            elif dimension == 'engagingness':
                asked_now = 'ask : a boat ? reply : ' + output[i] + ' : ' + src[i] + context[i]
            elif dimension == 'groundedness':
                asked_now = 'ask : is this facts ? reply : ' + output[i] + ' facts : ' + context[i]
            elif dimension == 'understandability':
                asked_now = 'ask : again ? reply : ' + output[i]
            else:
                raise NotImplementedError('no such dimension')
        asked.append(asked_now)
    return asked
"""


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


# WordNet in its own form, with one set of synonyms


def wordnet_folder(folder):
    """Write a WordNet with the nouns boat, ship (synonyms) and train, in the form of its files."""
    corpus = folder / "corpora" / "wordnet"
    corpus.mkdir(parents=True)
    lines = []
    offsets = []
    position = 0
    for words in (("boat", "ship"), ("train",)):
        entries = " ".join(f"{word} 0" for word in words)
        line = f"{position:08d} 06 n {len(words):02x} {entries} 000 | made for a test  \n"
        offsets.append(position)
        position += len(line)
        lines.append(line)
    (corpus / "data.noun").write_text("".join(lines))
    index = [("boat", offsets[0]), ("ship", offsets[0]), ("train", offsets[1])]
    (corpus / "index.noun").write_text(
        "".join(f"{word} n 1 0 1 0 {offset:08d}  \n" for word, offset in index)
    )
    for name in ("adj", "adv", "verb"):
        (corpus / f"data.{name}").write_text("")
        (corpus / f"index.{name}").write_text("")
    for name in ("noun", "adj", "adv", "verb"):
        (corpus / f"{name}.exc").write_text("")
    names = [
        "adj.all",
        "adj.pert",
        "adv.all",
        "noun.Tops",
        "noun.act",
        "noun.animal",
        "noun.artifact",
    ]
    (corpus / "lexnames").write_text(
        "".join(f"{i:02d}\t{name}\t1\n" for i, name in enumerate(names))
    )
    (corpus / "index.sense").write_text("")
    (corpus / "cntlist.rev").write_text("")


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
    path.write_text("3 2\nboat 1 0\ntrain 0 1\nlate 0.6 0.8\n")

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
