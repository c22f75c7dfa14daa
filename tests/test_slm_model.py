"""Batching, scoring, saving and loading, on a tiny encoder of the true architecture."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as stock

from dre.data import Context, load, pairs
from dre.errors import DreError
from dre.slm import losses, recipes
from dre.slm.batching import Collator, training_rows, triplets
from dre.slm.curves import curve_point
from dre.slm.encoder import context_text, keep_end, load_encoder
from dre.slm.head import Head
from dre.slm.model import SLM
from dre.slm.objective import Objective, triplet_terms


@pytest.fixture(scope="module")
def encoder_path(tmp_path_factory):
    return tiny.encoder(tmp_path_factory.mktemp("tiny"))


def untrained(path, recipe="paper", disentangled=True):
    torch.manual_seed(1)
    recipe = recipes.get(recipe, disentangled=disentangled)
    slm = SLM.untrained(path, recipe)
    slm.calibrate(load("mini", "dev"))
    return slm


@pytest.fixture(scope="module")
def slm(encoder_path):
    return untrained(encoder_path)


def batch_of(slm, contexts, pairs_reading="all"):
    collate = Collator(slm.model.preprocess, pairs_reading)
    batch = collate(training_rows(contexts, slm.context))
    chunks = {}
    for key, value in batch.items():
        if key.startswith("chunk"):
            name, feature = key.split("_", 1)
            chunks.setdefault(name, {})[feature] = value.to(slm.model.device) if torch.is_tensor(value) else value
    return list(chunks.values()), batch["label"].to(slm.model.device)


def test_a_batch_holds_each_text_once_and_all_triplets(slm):
    contexts = load("mini", "train")[:3]
    chunks, label = batch_of(slm, contexts)
    distinct = {t for c in contexts for t in (context_text(c.turns), *c.positives, *c.adversarials)}
    assert sum(len(chunk["input_ids"]) for chunk in chunks) == len(distinct) == 33
    assert label.shape == (75, 3)
    assert len({tuple(row) for row in label.tolist()}) == 75
    assert triplets(5, 5, "zip") == [(i, i) for i in range(5)]


def test_the_contrastive_term_equals_the_stock_triplet_loss_on_triplets_encoded_one_by_one(slm):
    """An independent implementation: Sentence-Transformers' own TripletLoss on 75 texts instead of 33."""
    contexts = load("mini", "train")[:3]
    chunks, label = batch_of(slm, contexts)
    slm.model.eval()
    ours = Objective(slm.model, slm.recipe, recipes.Stage("only", ("L_out",), 1))(chunks, label)["L_out"]
    plain = SentenceTransformer(modules=list(slm.model)[:-1])
    columns = zip(*[(context_text(c.turns), p, a) for c in contexts for p in c.positives for a in c.adversarials])
    features = [plain.preprocess(list(texts)) for texts in columns]
    loss = stock.TripletLoss(plain, distance_metric=stock.TripletDistanceMetric.COSINE, triplet_margin=0.5)
    assert ours.item() == pytest.approx(loss(features, None).item(), abs=1e-4)


@pytest.mark.parametrize("recipe", ["paper", "released"])
def test_every_term_of_a_batch_equals_the_equations_on_each_triplet(encoder_path, recipe):
    slm = untrained(encoder_path, recipe)
    slm.model.eval()
    context = load("mini", "train")[0]
    h = slm.encode([context_text(context.turns), *context.positives, *context.adversarials])
    index = torch.tensor([(0, 1 + p, 6 + a) for p, a in triplets(5, 5, "all")], device=slm.model.device)
    names = ("L_out", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")
    got = triplet_terms(slm.head, h, index, names, slm.recipe)
    for row, (c, p, a) in enumerate(index.tolist()):
        h_c, pr, pn, ar, an = (
            h[part][i : i + 1]
            for part, i in (("anchor", c), ("robust", p), ("non_robust", p), ("robust", a), ("non_robust", a))
        )
        whole = h["sentence_embedding"] if slm.recipe.contrast == "whole" else None
        triple = (whole[[c]], whole[[p]], whole[[a]]) if whole is not None else (h_c, pr, ar)
        d1, d2, d3 = losses.robust_distances(pr, pn, ar, an)
        expected = {
            "L_out": losses.contrastive(*triple),
            "L_ins_same_pos": losses.separation(d1),
            "L_ins_same_neg": losses.separation(d2),
            "L_out_robust": losses.separation(d3),
        }
        for name, value in expected.items():
            assert got[name][row].item() == pytest.approx(value.item(), abs=1e-5), name
        parts = [(pr, 1), (ar, 0), (pn, 2), (an, 2)]
        each = [
            losses.classification(slm.head.logits(h_c, part), torch.tensor([y], device=h_c.device)) for part, y in parts
        ]
        for k, value in enumerate(each):
            assert got["L_cls"][k * len(index) + row].item() == pytest.approx(value.item(), abs=1e-4)


def test_in_batch_negatives_never_include_another_positive_of_the_same_context(slm):
    h = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    index = torch.tensor([(0, 2, 4), (0, 3, 4), (1, 5, 4)])
    fake = dict.fromkeys(("sentence_embedding", "anchor", "robust"), h)
    got = triplet_terms(None, fake | {"non_robust": None}, index, ("L_in_batch",), slm.recipe)["L_in_batch"]
    cos = torch.nn.functional.normalize(h, dim=-1) @ torch.nn.functional.normalize(h, dim=-1).T * 20
    allowed = {(0, 2): [2, 4, 5], (0, 3): [3, 4, 5], (1, 5): [2, 3, 4, 5]}
    for value, ((c, p), candidates) in zip(got, allowed.items()):
        expected = torch.logsumexp(cos[c, candidates], 0) - cos[c, p]
        assert value.item() == pytest.approx(expected.item(), abs=1e-4)


def test_the_robust_map_starts_as_the_identity_and_halves_are_padded():
    h = torch.randn(3, 8)
    anchor, robust, non_robust = Head(8, "maps").separate(h)
    assert torch.equal(anchor, h) and torch.allclose(robust, h) and not torch.allclose(non_robust, h)
    anchor, robust, non_robust = Head(8, "halves").separate(h)
    assert torch.equal(robust[:, :4], anchor[:, 4:]) and torch.equal(non_robust[:, :4], anchor[:, :4])
    assert not robust[:, 4:].any() and not non_robust[:, 4:].any()


def test_eq_15_is_additive_so_a_context_cannot_change_the_ranking_by_s_p():
    """A property of a linear layer on a concatenation: the class-1 minus class-0 logit is a sum of a context and a response part."""
    head = Head(8, "none")
    c, r = torch.randn(2, 8), torch.randn(2, 8)
    margin = lambda i, j: (head.logits(c[i : i + 1], r[j : j + 1])[0] @ torch.tensor([-1.0, 1.0])).item()  # noqa: E731
    assert margin(0, 0) - margin(0, 1) == pytest.approx(margin(1, 0) - margin(1, 1), abs=1e-5)


def test_scores_follow_eq_18_and_19(slm):
    table = slm.score(pairs(load("mini", "test")[:4]))
    low, high = slm.provenance["d_min"], slm.provenance["d_max"]
    np.testing.assert_allclose(table["s_d"], (table["distance"] - low) / (high - low))
    np.testing.assert_allclose(table["score_slm"], 1 - table["s_d"] + table["s_p"])
    assert table["s_p"].between(0, 1).all() and table["distance"].between(0, 2).all()
    assert list(table.columns) == ["pair_id", "distance", "s_d", "s_p", "score_slm"]


def test_a_score_does_not_depend_on_the_other_pairs_their_order_or_the_batch(slm):
    table = pairs(load("mini", "test")[:6], "par")
    together = slm.score(table).set_index("pair_id")
    shuffled = slm.score(table.sample(frac=1, random_state=0), batch_size=3).set_index("pair_id")
    alone = pd.concat(slm.score(table.iloc[[i]]) for i in (0, 17, 50)).set_index("pair_id")
    np.testing.assert_allclose(shuffled.loc[together.index], together, atol=1e-5)
    np.testing.assert_allclose(alone, together.loc[alone.index], atol=1e-5)


def one(response, context=("Do you like tea?",)):
    return pd.DataFrame({"pair_id": ["mine/1"], "context": [context], "response": [response]})


def test_texts_of_any_script_get_a_finite_score(slm):
    for response in ("😀🎉", "你好，今天怎么样？", "Привет!", "مرحبا", "\u200bhi", "a" * 3000):
        assert np.isfinite(slm.score(one(response))["score_slm"].iloc[0])


def test_a_response_of_ten_thousand_words_is_cut_and_said_so(slm):
    with pytest.warns(UserWarning, match=r"1 response\(s\) have more than 128 words"):
        long = slm.score(one("yes " * 10_000))
    assert np.isfinite(long["score_slm"].iloc[0])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (one(""), "response of pair mine/1 is empty"),
        (one("   \n"), "response of pair mine/1 is empty"),
        (one(3.5), "response of pair mine/1 is of type float"),
        (one(None), "response of pair mine/1 is of type NoneType"),
        (one("yes", context=()), "context of pair mine/1 is empty"),
        (one("yes", context=("hi", 7)), "turn of pair mine/1 is of type int"),
        (one("yes", context=7), "context of pair mine/1 is of type int"),
        (one("yes").drop(columns="context"), r"lack the column\(s\) context"),
    ],
)
def test_bad_pairs_are_named(slm, bad, message):
    with pytest.raises(DreError, match=message):
        slm.score(bad)


def test_an_uncalibrated_model_does_not_score(slm):
    with pytest.raises(DreError, match="no d_min and d_max"):
        SLM(slm.model, slm.recipe).score(one("yes"))


def test_the_end_of_a_long_context_is_kept():
    assert context_text(("one two", "three four"), "|", max_words=3) == "| three four"


def test_of_a_context_longer_than_the_encoder_reads_the_last_turn_counts(slm):
    turns = ["do you like the tea " * 30, "it is my train"]
    table = pd.DataFrame(
        {
            "pair_id": ["mine/1", "mine/2", "mine/3"],
            "context": [turns, [turns[0], "no we did"], ["was it " * 30, *turns]],
            "response": "yes i do",
        }
    )
    first, other_end, other_beginning = slm.score(table)["distance"]
    assert first != pytest.approx(other_end, abs=1e-4)
    assert first == pytest.approx(other_beginning, abs=1e-5)


def test_training_reads_of_a_long_context_what_scoring_reads(slm):
    turns = ("do you like the tea " * 30, "it is my train")
    (row,) = training_rows([Context("mine", "1", "train", turns, ("yes",), ("no",))], slm.context)
    assert row == {"context": slm.context(turns), "positives": ["yes"], "adversarials": ["no"]}
    assert row["context"].endswith("[SEP] it is my train") and len(row["context"]) < len(turns[0])


@pytest.mark.parametrize("text", ["a b " * 200, "x" * 1000, "tea " * 126 + "no", "tea " * 200 + "z" * 90])
def test_the_end_that_is_kept_is_read_whole(slm, text):
    kept = keep_end(text, slm.model)
    assert text.strip().endswith(kept)
    n = len(slm.model.tokenizer(kept)["input_ids"])
    assert n <= slm.model.max_seq_length
    if len(slm.model.tokenizer(text)["input_ids"]) > n:  # no room was given away: another word would not fit
        before = text.strip()[: -len(kept)].split()
        longer = f"{before[-1]} {kept}" if before else text
        assert len(slm.model.tokenizer(longer)["input_ids"]) > slm.model.max_seq_length


@pytest.mark.parametrize(
    ("recipe", "disentangled"), [("paper", True), ("released", True), ("paper", False), ("context", True)]
)
def test_saved_and_loaded_models_score_alike(encoder_path, tmp_path, recipe, disentangled):
    slm = untrained(encoder_path, recipe, disentangled)
    slm.save(tmp_path / "slm")
    table = pairs(load("mini", "test")[:3])
    again = SLM.load(tmp_path / "slm")
    pd.testing.assert_frame_equal(again.score(table), slm.score(table), atol=1e-6)
    assert again.recipe == slm.recipe
    assert not [p for p in (tmp_path / "slm").rglob("*") if p.suffix in (".bin", ".pt", ".pkl")]
    # The encoder in it is an ordinary Sentence-Transformers model.
    assert SentenceTransformer(str(tmp_path / "slm")).encode(["hi"]).shape == (1, 32)


def test_damaged_models_are_named(slm, tmp_path):
    with pytest.raises(DreError, match="is no saved SLM"):
        SLM.load(tmp_path / "none")
    slm.save(tmp_path / "slm")
    with pytest.raises(DreError, match="exists already"):
        slm.save(tmp_path / "slm")
    head = tmp_path / "slm" / "head.safetensors"
    head.write_bytes(head.read_bytes()[:50])
    with pytest.raises(DreError, match="damaged SLM"):
        SLM.load(tmp_path / "slm")
    about = tmp_path / "slm" / "slm.json"
    about.write_text(json.dumps({"format": 1}))
    with pytest.raises(DreError, match="damaged SLM"):
        SLM.load(tmp_path / "slm")


@pytest.mark.parametrize("name", ["no/such-encoder-anywhere", "/no/such/folder", "", None])
def test_an_unknown_encoder_is_one_sentence_also_without_a_network(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DreError, match="encoder"):
        load_encoder(name)


def test_minilm_comes_from_its_package_without_a_network():
    model = load_encoder("minilm")
    assert model.get_embedding_dimension() == 384
    near, far = model.similarity(model.encode(["A dog barks."]), model.encode(["A puppy is barking.", "Tax law."]))[0]
    assert near > 0.6 > 0.3 > far


def test_the_curves_are_measured_in_the_precision_of_the_training(slm, monkeypatch):
    seen = []
    monkeypatch.setattr("dre.slm.curves.native_bf16", lambda: True)
    hook = slm.model[0].register_forward_pre_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    try:
        curve_point(slm, load("mini", "dev")[:2])
    finally:
        hook.remove()
    assert seen and all(seen)
