"""BARTScore and UniEval on tiny random models: the probabilities recomputed step by step, batching, missing texts."""

import numpy as np
import pandas as pd
import pytest

from dre import baselines
from dre.baselines.generative import DIMENSIONS, log_likelihood, probability_of_yes
from dre.errors import DreError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

RESPONSES = ["I like tea. Do you?", "the dog sleeps", "I like the dog and the tea so much"]
REFERENCES = ["the tea is good", "I like the dog", "so good"]
QUESTIONS = {name: f"is it {name} ?" for name in DIMENSIONS}


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = "<s> <pad> </s> <unk> Yes No question : response fact dialogue history is it ? . i like tea do you the dog"
    words += " sleeps and so much good hello how are likes dogs " + " ".join(DIMENSIONS)
    vocabulary = {word: i for i, word in enumerate(words.split())}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    plain.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


@pytest.fixture(scope="module")
def bart(tokenizer):
    torch.manual_seed(0)
    config = transformers.BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=1024,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, init_std=0.7,
    )  # fmt: skip
    return tokenizer, transformers.BartForConditionalGeneration(config).eval()


@pytest.fixture(scope="module")
def t5(tokenizer):
    torch.manual_seed(1)
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, pad_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, initializer_factor=3.0,
    )  # fmt: skip
    return tokenizer, transformers.T5ForConditionalGeneration(config).eval()


def table(**extra):
    ids = ["own/0", "own/1", "own/2"]
    base = {"pair_id": ids, "response": RESPONSES, "reference": REFERENCES}
    contexts = [("hello", "how are you"), ("the dog is good",), ("do you like dogs",)]
    return pd.DataFrame(base | {"context": contexts} | extra)


def by_hand(source, target, tokenizer, network):
    """Mean log-probability of the target's tokens, one decoding step at a time."""
    inputs = tokenizer(source, return_tensors="pt")
    total, decoded = 0.0, [network.config.decoder_start_token_id]
    tokens = tokenizer(target)["input_ids"]
    for token in tokens:
        with torch.no_grad():
            logits = network(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                decoder_input_ids=torch.tensor([decoded]),
            ).logits
        total += torch.log_softmax(logits[0, -1], -1)[token].item()
        decoded.append(token)
    return total / len(tokens)


def test_log_likelihood_equals_step_by_step_decoding_whatever_the_batch(bart):
    expected = [by_hand(s, t, *bart) for s, t in zip(RESPONSES, REFERENCES)]
    assert np.ptp(expected) > 0.01
    for batch_size in (1, 2, 3):
        got = log_likelihood(RESPONSES, REFERENCES, *bart, batch_size=batch_size)
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_bartscore_directions(bart):
    precision = [by_hand(ref, r, *bart) for r, ref in zip(RESPONSES, REFERENCES)]
    recall = [by_hand(r, ref, *bart) for r, ref in zip(RESPONSES, REFERENCES)]
    rows = table()
    score = {
        d: baselines.bartscore(rows, bart, direction=d)["BARTScore"] for d in ("f", "precision", "recall", "context")
    }
    np.testing.assert_allclose(score["precision"], precision, atol=1e-5)
    np.testing.assert_allclose(score["recall"], recall, atol=1e-5)
    np.testing.assert_allclose(score["f"], np.add(precision, recall) / 2, atol=1e-5)
    assert score["context"][0] == pytest.approx(by_hand("hello\nhow are you", RESPONSES[0], *bart), abs=1e-5)
    assert all((values <= 0).all() for values in score.values())


def test_bartscore_without_a_reference_is_missing_and_the_context_still_scores(bart):
    rows = table(reference=[None, "I like the dog", "so good"])
    got = baselines.bartscore(rows, bart)
    assert np.isnan(got["BARTScore"][0]) and got["reason"][0] == "no reference"
    assert got["BARTScore"][1:].notna().all()
    assert baselines.bartscore(rows, bart, direction="context")["BARTScore"].notna().all()


def test_probability_of_yes_is_a_softmax_over_two_words_of_the_first_step(t5):
    tokenizer, network = t5
    prompts = ["is it good ?", "question : do you like tea ?"]
    got = probability_of_yes(prompts, *t5, batch_size=2)
    for prompt, value in zip(prompts, got):
        inputs = tokenizer(prompt, return_tensors="pt")
        with torch.no_grad():
            step = network.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=1,
                do_sample=False, return_dict_in_generate=True, output_logits=True,
            ).logits[0][0]  # fmt: skip
        p = torch.softmax(step, -1)
        yes, no = p[tokenizer("Yes")["input_ids"][0]], p[tokenizer("No")["input_ids"][0]]
        assert value == pytest.approx((yes / (yes + no)).item(), abs=1e-5)


def test_unieval_dimensions_and_their_mean(t5):
    rows = table(facts=["dogs are good"] * 3)
    got = baselines.unieval(rows, QUESTIONS, t5)
    np.testing.assert_allclose(got["UniEval"], got[list(DIMENSIONS)].mean(axis=1))
    shown = "question: is it coherence ? </s> response: the dog sleeps </s> dialogue history: the dog is good"
    assert got["coherence"][1] == pytest.approx(probability_of_yes([shown], *t5)[0], abs=1e-5)
    rest = " </s> dialogue history: hello\nhow are you </s> fact: dogs are good"
    sentences = [f"question: is it engagingness ? </s> response: {s}{rest}" for s in ("I like tea.", "Do you?")]
    assert got["engagingness"][0] == pytest.approx(probability_of_yes(sentences, *t5).sum(), abs=1e-5)
    assert set(got["reason"]) == {""}


def test_unieval_without_facts_leaves_two_dimensions_out_and_says_so(t5):
    got = baselines.unieval(table(facts=["dogs are good", None, ""]), QUESTIONS, t5)
    assert got.loc[1:, ["engagingness", "groundedness"]].isna().all(axis=None)
    kept = ["naturalness", "coherence", "understandability"]
    np.testing.assert_allclose(got["UniEval"][1:], got[kept][1:].mean(axis=1))
    assert list(got["reason"]) == [""] + ["no facts: mean of three dimensions"] * 2
    assert baselines.unieval(table(), QUESTIONS, t5)["groundedness"].isna().all()


def test_unieval_of_an_empty_response_is_missing(t5):
    got = baselines.unieval(table(response=["", "the dog sleeps", None]), QUESTIONS, t5)
    assert np.isnan(got["UniEval"][0]) and np.isnan(got["UniEval"][2]) and got["UniEval"][1] > 0
    assert got["reason"][0] == "empty response"


def test_absent_weights_and_wrong_arguments_say_what_to_provide(bart, t5, tmp_path):
    absent = str(tmp_path / "absent")
    with pytest.raises(DreError, match="BARTScore needs the weights of .*absent.*give model="):
        baselines.bartscore(table(), absent)
    with pytest.raises(DreError, match="UniEval needs the weights of .*absent"):
        baselines.unieval(table(), QUESTIONS, absent)
    with pytest.raises(DreError, match="UniEval needs one for each"):
        baselines.unieval(table(), {"coherence": "?"}, t5)
    with pytest.raises(DreError, match="UniEval needs the column 'context'"):
        baselines.unieval(table().drop(columns="context"), QUESTIONS, t5)
    with pytest.raises(DreError, match="choose among f, precision"):
        baselines.bartscore(table(), bart, direction="both")
    with pytest.raises(DreError, match="needs the column 'context'"):
        baselines.bartscore(table().drop(columns="context"), bart, direction="context")
